"""Splitting of axes by the quotients and remainders in the indices of copies.

Input: the axes of a stage, its value, and the access that stores it. Output: other axes, along
which every access has a constant stride, and accesses of views of one dimension; None if nothing is
split, or an access is of another kind.

A reshape that was fused with a transposition reads ``x[m

56, m % 56, c]``, which costs two divisions for each element. With ``m`` as ``i * 56 + j`` it is a
transposition; if all strides of ``i`` are 56 times those of ``j``, as here, the two are merged
again.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import linear
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import Merged, count
from tvm_nnef.tir.expressions import loads, nodes, substituted
from tvm_nnef.tvm_support.compat import PrimExpression, buffer_view

_MOST = 16
"""Upper limit of the axes of a stage after splitting, to limit compile time."""

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


def regrouped(
    axes: Sequence[Axis], value: PrimExpression, target: PrimExpression, dtype: str
) -> Merged | None:
    """Return axes with constant strides in all accesses, with the value and the target over
    them.
    """
    assert isinstance(target, TensorLoad)
    accesses = [*loads(value), target]
    divided = any(nodes(access, *_DIVISIONS) for access in accesses)
    dimensions = [sizes.extent(size) for access in accesses for size in access.source.shape]
    if not divided or not sizes.are_known([*(a.extent for a in axes), *dimensions]):
        return None
    if any(count(value, a) != sum(count(load, a) for load in accesses[:-1]) for a in axes):
        return None
    split = _split([*axes], accesses, dtype)
    if split is None:
        return None
    axes, offsets = split
    slopes = [linear(offset, *(axis.var for axis in axes)) for offset in offsets]
    strides = [each for each in slopes if each and sizes.are_known(each)]
    if len(strides) < len(slopes):
        return None
    return _over_views(*_merged(axes, strides, dtype), value, accesses, dtype)


def _split(
    axes: list[Axis], accesses: Sequence[TensorLoad], dtype: str
) -> tuple[list[Axis], list[PrimExpression]] | None:
    """Return the axes, split as accesses require, and the offsets in terms of these."""
    whole: dict[tirx.Var, PrimExpression] = {}
    while len(axes) <= _MOST:
        analyzer = sym.Analyzer()
        for axis in axes:
            analyzer.bind(axis.var, Range(0, axis.extent))
        offsets = [_offset(access, analyzer, whole) for access in accesses]
        divisions = [each for offset in offsets for each in nodes(offset, *_DIVISIONS)]
        if not divisions:
            return axes, offsets
        size, number = min(
            (
                (int(division.b.value), number)
                for division in divisions
                for number, axis in enumerate(axes)
                if division.a.same_as(axis.var) and isinstance(division.b, tirx.IntImm)
                if int(division.b.value) > 0 and axis.extent % int(division.b.value) == 0
            ),
            default=(0, 0),
        )
        if not size:
            return None
        axis = axes[number]
        outer = Axis(tirx.Var("outer", dtype), axis.extent // size)
        inner = Axis(tirx.Var("inner", dtype), size)
        both = {axis.var: outer.var * tirx.const(size, dtype) + inner.var}
        whole = {var: substituted(made, both) for var, made in whole.items()} | both
        axes = [*axes[:number], outer, inner, *axes[number + 1 :]]
    return None


def _offset(
    access: TensorLoad, analyzer: sym.Analyzer, whole: Mapping[tirx.Var, PrimExpression]
) -> PrimExpression:
    """Return the offset of an access in memory, with axes replaced by those into which they are
    split.
    """
    offset, stride = tirx.const(0, "int64"), 1
    for index, extent in zip(reversed(access.indices), reversed(access.source.shape), strict=True):
        simple = analyzer.simplify(substituted(index, whole))
        offset = simple * tirx.const(stride, "int64") + offset
        stride *= sizes.static(sizes.extent(extent))
    simplified: PrimExpression = analyzer.simplify(offset)
    return simplified


def _merged(
    axes: Sequence[Axis], strides: Sequence[Sequence[int]], dtype: str
) -> tuple[list[Axis], list[list[int]]]:
    """Return the axes, adjacent ones merged if all accesses are contiguous in them."""
    left, moves = list(axes), [list(each) for each in strides]
    for number in reversed(range(len(left) - 1)):
        outer, inner = left[number : number + 2]
        if all(move[number] == move[number + 1] * inner.extent for move in moves):
            left[number : number + 2] = [Axis(tirx.Var("m", dtype), outer.extent * inner.extent)]
            for move in moves:
                del move[number]
    return left, moves


def _over_views(
    axes: Sequence[Axis],
    strides: Sequence[Sequence[int]],
    value: PrimExpression,
    accesses: Sequence[TensorLoad],
    dtype: str,
) -> Merged:
    """Return value and target as accesses of views of one dimension."""
    sources = {access.source: sizes.elements(access.source) for access in accesses}
    views = {source: buffer_view(source, [length]) for source, length in sources.items()}

    def flat(access: TensorLoad, moves: Sequence[int]) -> TensorLoad:
        terms = [
            axis.var if move == 1 else axis.var * tirx.const(move, dtype)
            for axis, move in zip(axes, moves[:-1], strict=True)
            if move
        ]
        terms = [tirx.const(moves[-1], dtype), *terms] if moves[-1] or not terms else terms
        view: tirx.Var = views[access.source][0]
        return view[(functools.reduce(operator.add, terms),)]

    *made, target = map(flat, accesses, strides)
    replaced = dict(zip(accesses[:-1], made, strict=True))
    whole = tvm_ffi.structural_map(value, (TensorLoad, lambda load: replaced.get(load, load)))
    return Merged(tuple(axes), (whole, target), tuple(view[1] for view in views.values()))
