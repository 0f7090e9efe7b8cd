"""Declared shapes with data-dependent dimensions: ``~|10``, ``s|10``, packs of them (section 2.6).

Input: a declared shape and an environment. Output: a shape with a symbol for each such
dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.affine import deduce, unknown_names
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.shapes import Shape, evaluate_shape, within_bound
from tvm_nnef.composition.values import (
    Environment,
    Value,
    describe,
    is_scalar,
    show,
    type_of,
)
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.symbolic.dimensions import UNLIMITED, Dimension, is_static
from tvm_nnef.syntax import nodes


def declared_shape(
    declared: Sequence[nodes.Extent], env: Environment, name: str, item: int | None = None
) -> Shape:
    """Return the declared shape of ``name``, or of an item of a pack, with symbols for data-
    dependent dimensions.

    Symbols that have names are added to ``env``. Raises NnefError for a ``~`` without a bound, and
    for a dimension that is beyond its bound or negative.
    """
    shape: list[Dimension] = []
    for extent in declared:
        if _is_open(extent, env, item):
            shape += _symbols(extent, env, name, len(shape), item)
            continue
        part = evaluate_shape((extent,), env, item) or ()
        if extent.bound is not None:
            require_within(extent.bound, part, env)
        shape += part
    return tuple(shape)


def _is_open(extent: nodes.Extent, env: Environment, item: int | None) -> bool:
    if isinstance(extent.value, nodes.Omitted):
        return True
    if extent.bound is None:
        return False
    if unknown_names(extent.value, env.names):
        return True
    if not extent.per_item or item is None:
        return False
    # The symbols of a pack's items come one after the other.
    found = known(extent.value, env)
    return isinstance(found, tuple) and len(found) <= item


def _symbols(
    extent: nodes.Extent, env: Environment, name: str, first: int, item: int | None
) -> Shape:
    """Return the symbols of an extent without a known value: one, or one for each item of a
    pack.
    """
    if extent.bound is None:
        message = "a data-dependent dimension needs an upper bound"
        raise error(message, extent.span, hint="write it after the dimension, as in '~|100'")
    limits = _limits(extent, extent.bound, env)
    if isinstance(extent.value, nodes.Identifier):
        name, first = extent.value.name, item or 0
        numbered = extent.pack is not None or extent.per_item
    else:
        numbered = True
    symbols = tuple(
        env.symbols.new(f"{name}_{first + i}" if numbered else name, limit)
        for i, limit in enumerate(limits)
    )
    if not isinstance(extent.value, nodes.Omitted):
        _declare(extent, extent.value, symbols, env)
    return symbols


def _limits(extent: nodes.Extent, bound: nodes.Expression, env: Environment) -> list[int]:
    """Return the bounds of the dimensions that an extent covers."""
    limit, length = known(bound, env), None
    if extent.pack is not None and extent.pack.length is not None:
        length = count(known(extent.pack.length, env), "a number of dimensions", extent.pack.span)
    if not isinstance(limit, tuple):
        if extent.pack is not None and length is None:
            hint = "write it after the dots, as in '~|100..(2)'"
            raise error("the number of these dimensions is not known", extent.span, hint=hint)
        limit = (limit,) * (1 if length is None else length)
    elif extent.pack is None or length not in (None, len(limit)):
        wanted = 1 if length is None else length
        hint = f"write {wanted} of them, or a single one for all"
        raise error(f"{len(limit)} bounds for {wanted} dimensions", bound.span, hint=hint)
    return [_largest(each, env, bound.span) for each in limit]


def _largest(limit: Value, env: Environment, span: Span) -> int:
    """Return the largest value of a bound. Raises NnefError if there is none."""
    if type_of(limit) != "int" or is_scalar(limit):
        message = f"a bound must be an integer, found {describe(limit)}"
        raise error(message, span, hint=value_hints.integer(limit))
    largest = env.symbols.largest(limit)
    if not is_static(limit):
        # No index is larger, whatever is made of dimensions without a bound.
        largest = min(largest, UNLIMITED)
    if not 0 <= largest <= UNLIMITED:
        hint = "write the largest size that occurs in use"
        message = f"a bound must be between 0 and {UNLIMITED}, found {show(limit)}"
        raise error(message, span, hint=hint)
    return largest


def _declare(
    extent: nodes.Extent, expression: nodes.Expression, symbols: Shape, env: Environment
) -> None:
    """Bind the name in an extent: to the symbols themselves, or to the solution of an affine
    expression.
    """
    if isinstance(expression, nodes.Identifier):
        name, values = expression.name, symbols
    else:
        pairs = [
            deduce(expression, each, env.names, "a dimension", extent.span) for each in symbols
        ]
        solved = [pair for pair in pairs if pair is not None]
        if len(solved) < len(symbols) or not solved:
            hint = "write '~', a name such as 'n', or '2 * n + 1'"
            message = "a data-dependent dimension is a symbol, or affine in one"
            raise error(message, extent.span, hint=hint)
        name, values = solved[0][0], tuple(value for _, value in solved)
    if extent.per_item:
        before = env.names.get(name)
        values = (*(before if isinstance(before, tuple) else ()), *values)
    packed = extent.pack is not None or extent.per_item
    env.names[name] = values if packed else values[0]


def require_within(bound: nodes.Expression, part: Shape, env: Environment) -> None:
    """Require that dimensions are within their bound; check it at run time if it is not known now.

    Raises NnefError if they certainly are not.
    """
    for within, message in within_bound(bound, part, env):
        env.symbols.require(within, message, bound.span, hint=value_hints.BEYOND)
