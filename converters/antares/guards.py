"""Bounds checks that are written as conditions, as guards of SkriptND.

``input0[N, HO + KH - 1].when([HO + KH - 1 >= 0, HO + KH - 1 < 32], 0.0) * input1[KH]`` adds nothing
to a sum where the index is out of bounds: ``input0[N, |HO + KH - 1|] * input1[KH]``, which skips
the step as the standard convolutions do, so that it gets their schedules.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_nnef.converters.antares import nodes
from tvm_nnef.converters.antares.axes import Shapes
from tvm_nnef.converters.antares.nodes import Access, Binary, Number, Scalar, Statement, When

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def with_guards(statement: Statement, shapes: Shapes) -> Statement:
    """A sum in which bounds checks of factors are guards; any other statement as it is."""
    if statement.operator != "+=!":
        return statement
    return replace(statement, value=_guarded(statement.value, shapes))


def _guarded(node: Scalar, shapes: Shapes) -> Scalar:
    """A product whose factors are guarded."""
    match node:
        case Binary(_, "*", left, right):
            return replace(node, left=_guarded(left, shapes), right=_guarded(right, shapes))
        case Binary(_, "/", left, _):
            return replace(node, left=_guarded(left, shapes))
        case When(_, Access() as access, conditions, other, any=False) if _is_zero(other):
            dimensions = {_dimension(each, access, shapes[access.tensor]) for each in conditions}
            known = frozenset(each for each in dimensions if each is not None)
            if len(known) == len(dimensions):
                return replace(access, guarded=known)
    return node


def _is_zero(node: Scalar) -> bool:
    inner = node.operand if isinstance(node, nodes.Cast) else node
    return isinstance(inner, Number) and inner.value == 0


def _dimension(condition: Scalar, access: Access, shape: tuple[int, ...]) -> int | None:
    """The dimension of which a condition checks one bound; None if it does anything else."""
    if not isinstance(condition, Binary) or condition.operator not in _MIRRORED:
        return None
    operator, left, right = condition.operator, condition.left, condition.right
    if left not in access.indices:
        operator, left, right = _MIRRORED[operator], right, left
    limit = _constant(right)
    for dimension, index in enumerate(access.indices):
        length = shape[dimension]
        checks = ((">=", 0), (">", -1), ("<", length), ("<=", length - 1))
        if index == left and (operator, limit) in checks:
            return dimension
    return None


def _constant(node: Scalar) -> int | None:
    match node:
        case Number(_, int() as value):
            return value
        case nodes.Negated(_, "-", Number(_, int() as value)):
            return -value
    return None
