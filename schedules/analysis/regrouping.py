"""Quotients and remainders in the indices of copies, as axes of their own.

Input: the axes of a stage, its value, and the access that stores it. Output: other axes, along
which every access has a constant stride, and accesses of views of one dimension; None if nothing is
divided, or an access is of another kind.

A reshape that was fused with a transposition reads ``x[m // 56, m % 56, c]``, which costs two
divisions for each element. With ``m`` as ``i * 56 + j`` it is a transposition; if all strides of
``i`` are 56 times those of ``j``, as here, the two are merged again.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, nodes, substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import Merged, count
from tvm_nnef.tvm_support.compat import PrimExpression, buffer_view

_MOST = 16
"""The most axes of a stage after the division."""


def regrouped(
    axes: Sequence[Axis], value: PrimExpression, target: PrimExpression, dtype: str
) -> Merged | None:
    """Axes with constant strides in all accesses, with the value and the target over them."""
    assert isinstance(target, TensorLoad)
    accesses = [*loads(value), target]
    if not all(axis.is_known for axis in axes) or not _divisions(accesses):
        return None
    if not all(_is_static(access.source) for access in accesses):
        return None
    if any(count(value, a) != sum(count(load, a) for load in accesses[:-1]) for a in axes):
        return None
    split = _split(list(axes), accesses, dtype)
    if split is None:
        return None
    axes, offsets = split
    strides = [found for offset in offsets if (found := _strides(offset, axes)) is not None]
    if len(strides) < len(offsets):
        return None
    axes, strides = _joined(axes, strides, dtype)
    return _over_views(axes, strides, value, accesses, dtype)


def _offset(
    access: TensorLoad, analyzer: sym.Analyzer, whole: Mapping[tirx.Var, PrimExpression]
) -> PrimExpression:
    """The offset of an access in memory, with axes replaced by those that they are divided into."""
    offset, stride = tirx.const(0, "int64"), 1
    for index, extent in zip(reversed(access.indices), reversed(access.source.shape), strict=True):
        simple = analyzer.simplify(substituted(index, whole))
        offset = simple * tirx.const(stride, "int64") + offset
        stride *= sizes.extent(extent)
    found: PrimExpression = analyzer.simplify(offset)
    return found


def _is_static(buffer: tirx.Var) -> bool:
    return all(isinstance(extent, tirx.IntImm) for extent in buffer.shape)


def _divisions(expressions: Sequence[PrimExpression]) -> list[tirx.BinaryOpExpr]:
    return [each for value in expressions for each in nodes(value, tirx.FloorDiv, tirx.FloorMod)]


def _split(
    axes: list[Axis], accesses: Sequence[TensorLoad], dtype: str
) -> tuple[list[Axis], list[PrimExpression]] | None:
    """The axes, divided as accesses divide them, and the offsets in terms of these."""
    whole: dict[tirx.Var, PrimExpression] = {}
    while len(axes) <= _MOST:
        analyzer = sym.Analyzer()
        for axis in axes:
            analyzer.bind(axis.var, Range(0, axis.extent))
        offsets = [_offset(access, analyzer, whole) for access in accesses]
        divisions = _divisions(offsets)
        if not divisions:
            return axes, offsets
        cut = _cut(axes, divisions)
        if cut is None:
            return None
        number, size = cut
        axis = axes[number]
        outer = Axis(tirx.Var("outer", dtype), axis.extent // size)
        inner = Axis(tirx.Var("inner", dtype), size)
        both = {axis.var: outer.var * tirx.const(size, dtype) + inner.var}
        whole = {var: substituted(made, both) for var, made in whole.items()} | both
        axes = [*axes[:number], outer, inner, *axes[number + 1 :]]
    return None


def _cut(axes: Sequence[Axis], divisions: Sequence[tirx.BinaryOpExpr]) -> tuple[int, int] | None:
    """The number of an axis and the least divisor of its extent that it is divided by."""
    found = [
        (int(division.b.value), number)
        for division in divisions
        for number, axis in enumerate(axes)
        if division.a.same_as(axis.var) and isinstance(division.b, tirx.IntImm)
    ]
    size, number = min(
        (each for each in found if axes[each[1]].extent % each[0] == 0), default=(0, 0)
    )
    return (number, size) if size else None


def _strides(offset: PrimExpression, axes: Sequence[Axis]) -> list[int] | None:
    """The strides of an offset along each axis, and its first value; None if they vary."""
    equation = sym.detect_linear_equation(offset, [axis.var for axis in axes])
    if not len(equation) or not all(isinstance(part, tirx.IntImm) for part in equation):
        return None
    return [int(part.value) for part in equation]


def _joined(
    axes: Sequence[Axis], strides: Sequence[Sequence[int]], dtype: str
) -> tuple[list[Axis], list[list[int]]]:
    """The axes, neighbours joined if all accesses are contiguous in them."""
    left, moves = list(axes), [list(each) for each in strides]
    number = 0
    while number + 1 < len(left):
        inner = left[number + 1]
        if all(move[number] == move[number + 1] * inner.extent for move in moves):
            extent = sizes.product((left[number].extent, inner.extent))
            left[number : number + 2] = [Axis(tirx.Var("m", dtype), extent)]
            for move in moves:
                del move[number]
        else:
            number += 1
    return left, moves


def _over_views(
    axes: Sequence[Axis],
    strides: Sequence[Sequence[int]],
    value: PrimExpression,
    accesses: Sequence[TensorLoad],
    dtype: str,
) -> Merged:
    """Value and target as accesses of views of one dimension."""
    views: dict[tirx.Var, tirx.Var] = {}
    statements: list[tirx.Stmt] = []

    def flat(access: TensorLoad, moves: Sequence[int]) -> TensorLoad:
        if access.source not in views:
            length = sizes.elements(access.source)
            views[access.source], statement = buffer_view(access.source, [length])
            statements.append(statement)
        terms = [
            axis.var if move == 1 else axis.var * tirx.const(move, dtype)
            for axis, move in zip(axes, moves[:-1], strict=True)
            if move
        ]
        terms = [tirx.const(moves[-1], dtype), *terms] if moves[-1] or not terms else terms
        return views[access.source][(functools.reduce(operator.add, terms),)]

    made = [flat(access, moves) for access, moves in zip(accesses, strides, strict=True)]
    replaced = dict(zip(accesses[:-1], made[:-1], strict=True))
    whole = tvm_ffi.structural_map(value, (TensorLoad, lambda load: replaced.get(load, load)))
    return Merged(tuple(axes), (whole, made[-1]), tuple(statements))
