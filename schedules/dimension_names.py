"""Dimensions that are expressions of symbols, as symbols of their own.

Input: a PrimFunc. Output: the same, in which each dimension of a parameter that is a quotient or
another expression has a symbol, which TVM binds to the shape of an argument. Nested expressions, as
of strides and reshapes in turn, would be simplified anew for each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tvm_support.compat import (
    BUFFER_TYPE,
    PrimExpression,
    PrimFunction,
    dtype_of,
    is_scalar,
    with_shape,
)

_FORMULAS = (tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min, tirx.Mul)
_NODES = (*_FORMULAS, tirx.Add, tirx.Sub)


def with_named_dimensions(function: PrimFunction) -> PrimFunction:
    """The function with symbols for those dimensions of its parameters that are formulas."""
    buffers = [parameter for parameter in function.params if not is_scalar(parameter)]
    shapes = [extent for buffer in buffers for extent in buffer.shape]
    names: list[tuple[PrimExpression, Any]] = []
    for extent in shapes:
        if _is_formula(extent) and _name(extent, names) is None:
            names.append((extent, tirx.Var(f"extent{len(names)}", dtype_of(extent))))
    if not names:
        return function
    known = [var for extent in shapes for var in sizes.symbols(sizes.extent(extent))]

    def named(expression: Any) -> Any:
        inside = sizes.symbols(expression)
        closed = all(any(var.same_as(k) for k in known) for var in inside)
        if not (inside and closed and _is_formula(expression)):
            return expression
        found = _name(expression, names)
        return expression if found is None else found

    kinds = [(BUFFER_TYPE, lambda kind: with_shape(kind, [named(e) for e in kind.shape]))]
    kinds += [(_NODES, named)]
    return tvm_ffi.structural_map(function, kinds, order="pre")


def _is_formula(extent: PrimExpression) -> bool:
    """Whether an extent is more than a symbol and a number."""
    found: list[Any] = []
    for kind in _FORMULAS:
        tvm_ffi.structural_walk(extent, (kind, found.append), order="post")
    return bool(found)


def _name(
    expression: PrimExpression, names: Sequence[tuple[PrimExpression, PrimExpression]]
) -> PrimExpression | None:
    """The symbol of an extent, and what an expression is more than that; None for others."""
    for extent, var in names:
        if tvm_ffi.structural_equal(expression, extent):
            return var
    for extent, var in names:
        difference = sizes.simplified(expression - extent)
        if sizes.is_known(difference):
            return var + tirx.const(difference, dtype_of(var))
    return None
