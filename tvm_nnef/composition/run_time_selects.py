"""Selection between two items at run time, by a condition on dimensions or by a scalar.

Input: evaluated items. Output: an item. Conditions that are known during composition are handled in
:mod:`tvm_nnef.composition.evaluate`.
"""

from __future__ import annotations

from tvm_nnef.composition import arithmetic, value_hints
from tvm_nnef.composition.values import (
    Item,
    Undefined,
    describe,
    is_atom,
    is_known,
    is_scalar,
    scalar,
    type_of,
)
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph import formula
from tvm_nnef.semantics import hints
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Condition


def by_dimensions(condition: Condition, yes: Item, no: Item | None, span: Span) -> Item:
    """Return the selection of an item by a condition on dimensions that are known only at run
    time.
    """
    if no is None:
        condition_text = trees.text(condition)
        hint = "give a value for the other case, as in 'c ? a : b'"
        message = f"whether this is null is known only at run time, from '{condition_text}'"
        raise error(message, span, hint=hint)
    for item, other in ((yes, no), (no, yes)):
        if isinstance(item, Undefined):
            return other
    if not (is_scalar(yes) or is_scalar(no)) and {type_of(yes), type_of(no)} == {"int"}:
        return dimensions.select(condition, yes, no)
    if (is_known(yes) and yes is no) or (is_atom(yes) and yes == no):
        return yes
    if {type_of(yes), type_of(no)} == {"bool"} and is_known(yes) and is_known(no):
        chosen = dimensions.both(condition, yes)
        return dimensions.either(chosen, dimensions.both(dimensions.negated(condition), no))
    return at_run_time(scalar(condition), yes, no, span)


def at_run_time(condition: formula.Scalar, yes: Item, no: Item, span: Span) -> Item:
    """Return the selection of an item by a scalar of a formula."""
    for item in (yes, no):
        if isinstance(item, Undefined):
            return item
        if isinstance(item, formula.Subscript):
            hint = "guard both branches as one: |c ? i : j|"
            raise error("a guarded index under a run-time condition", span, hint=hint)
        if not (is_known(item) or is_scalar(item)) or isinstance(item, str):
            message = f"{describe(item)} cannot be chosen at run time"
            raise error(message, span, hint=value_hints.element(item))
    left, right = arithmetic.promoted(yes, no)
    if type_of(left) != type_of(right):
        found = f"{describe(yes)} and {describe(no)}"
        hint = hints.one_type((type_of(left), type_of(right)))
        raise error(f"both branches must have the same type, found {found}", span, hint=hint)
    return formula.Select(condition, scalar(left), scalar(right))
