"""Replacement of dimensions that are expressions of symbols by new symbols.

Input: a PrimFunc. Output: the same, in which each dimension of a parameter that is a quotient or
another expression has a symbol, which TVM binds to the shape of an argument. Nested expressions, as
of alternating strides and reshapes, would be simplified again for each index.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import (
    BUFFER_TYPE,
    PrimExpression,
    PrimFunction,
    buffers_of,
    dtype_of,
    with_shape,
)

_FORMULAS = (tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min, tirx.Mul)
"""Operations of dimensions that are formulas; sums of symbols and constants are not."""


def with_named_dimensions(function: PrimFunction) -> PrimFunction:
    """Return the function with symbols for those dimensions of its parameters that are formulas."""
    shapes = [size for buffer in buffers_of(function) for size in buffer.shape]
    names: list[tuple[PrimExpression, tirx.Var]] = []
    for size in shapes:
        if nodes(size, *_FORMULAS) and _name(size, names) is None:
            names.append((size, tirx.Var(f"extent{len(names)}", dtype_of(size))))
    if not names:
        return function
    known = {var for size in shapes for var in sizes.symbols(sizes.extent(size))}

    def named(expression: PrimExpression) -> PrimExpression:
        inside = {*sizes.symbols(sizes.extent(expression))}
        if not inside or inside - known or not nodes(expression, *_FORMULAS):
            return expression
        found = _name(expression, names)
        return expression if found is None else found

    kinds = [
        (BUFFER_TYPE, lambda kind: with_shape(kind, [*map(named, kind.shape)])),
        ((*_FORMULAS, tirx.Add, tirx.Sub), named),
    ]
    return tvm_ffi.structural_map(function, kinds, order="pre")


def _name(
    expression: PrimExpression, names: list[tuple[PrimExpression, tirx.Var]]
) -> PrimExpression | None:
    """Return the symbol of a dimension, and the rest of an expression that contains it.

    It is None for others.
    """
    for size, var in names:
        if tvm_ffi.structural_equal(expression, size):
            return var
    for size, var in names:
        difference = sizes.simplified(expression - size)
        if sizes.is_known(difference):
            return var + tirx.const(difference, dtype_of(var))
    return None
