"""Operators that move elements, on permuted tensors: shapes, slices, copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.graph.permuted import OnPermuted, Permuted, Relayout, of_first
from tvm_nnef.schedules.graph.rewriting import again
from tvm_nnef.tvm_support.compat import shape_and_dtype


def _pad(_: Relayout, data: Permuted, call: Any) -> Permuted:
    widths = list(call.attrs.pad_width)
    moved = [widths[2 * dimension + side] for dimension in data.order for side in (0, 1)]
    return Permuted(again(call, data.value, pad_width=moved), data.order)


def _concat(relayout: Relayout, call: Any) -> Permuted | None:
    items = call.args[0].fields if isinstance(call.args[0], relax.Tuple) else []
    known = [each for each in map(relayout.permuted, items) if each is not None]
    if not known or call.attrs.axis is None:
        return None
    order = known[0].order
    values = [relayout.in_order(item, order) for item in items]
    return Permuted(relax.op.concat(values, axis=known[0].axis(call.attrs.axis)), order)


def _permute(_: Relayout, data: Permuted, call: Any) -> Permuted:
    axes = call.attrs.axes
    axes = list(reversed(range(len(data.order)))) if axes is None else [int(a) for a in axes]
    return Permuted(data.value, tuple(axes.index(dimension) for dimension in data.order))


def _expand(_: Relayout, data: Permuted, call: Any) -> Permuted:
    """New dimensions of size 1 are stored next to their neighbours."""
    rank = len(call.ty.shape)
    new = sorted(int(axis) % rank for axis in call.attrs.axis)
    old = [dimension for dimension in range(rank) if dimension not in new]
    order = [old[dimension] for dimension in data.order]
    for dimension in new:
        order.insert(1 if dimension else 0, dimension)
    shape = tuple(1 if d in new else data.extent(old.index(d)) for d in order)
    return Permuted(relax.op.reshape(data.value, shape), tuple(order))


def _squeeze(_: Relayout, data: Permuted, call: Any) -> Permuted:
    rank, axes = len(data.order), call.attrs.axis
    if axes is None:
        axes = [d for d in range(rank) if sizes.same(data.extent(d), 1)]
    gone = [int(axis) % rank for axis in axes]
    left = [dimension for dimension in range(rank) if dimension not in gone]
    kept = [dimension for dimension in data.order if dimension not in gone]
    shape = tuple(data.extent(dimension) for dimension in kept)
    return Permuted(relax.op.reshape(data.value, shape), tuple(map(left.index, kept)))


def _reshape(relayout: Relayout, data: Permuted, call: Any) -> Permuted | None:
    """A reshape that splits or joins dimensions, each by itself, keeps the order of the groups."""
    old = [data.extent(dimension) for dimension in range(len(data.order))]
    new = list(shape_and_dtype(call)[0])
    groups = sizes.groups(old, new)
    if groups is None:
        return None
    needed: list[int] = []
    order: list[int] = []
    for dimension in data.order:
        if dimension not in needed:
            sources, targets = next(group for group in groups if dimension in group[0])
            needed += sources
            order += targets
    value = data.value
    if needed != list(data.order):
        axes = [data.axis(dimension) for dimension in needed]
        value = relayout.builder_.emit(relax.op.permute_dims(value, axes))
    shape = tuple(new[dimension] for dimension in order)
    return Permuted(relax.op.reshape(value, shape), tuple(order))


def _slice(_: Relayout, data: Permuted, call: Any) -> Permuted | None:
    if not all(isinstance(part, relax.Tuple) for part in call.args[1:]):
        return None
    axes, *rest = (list(part.fields) for part in call.args[1:])
    moved = [data.axis(axis.value) for axis in axes]
    inside = bool(call.attrs.assume_inbound)
    value = relax.op.strided_slice(data.value, moved, *rest, assume_inbound=inside)
    return Permuted(value, data.order)


def _split(relayout: Relayout, data: Permuted, call: Any) -> list[Permuted]:
    parts = call.attrs.indices_or_sections
    given = [int(i) for i in parts] if isinstance(parts, Sequence) else int(parts)
    made = relayout.builder_.emit(relax.op.split(data.value, given, data.axis(call.attrs.axis)))
    count = len(call.ty.fields)
    return [Permuted(relax.TupleGetItem(made, number), data.order) for number in range(count)]


def _flip(_: Relayout, data: Permuted, call: Any) -> Permuted:
    return Permuted(relax.op.flip(data.value, data.axis(call.attrs.axis)), data.order)


def _tile(_: Relayout, data: Permuted, call: Any) -> Permuted | None:
    repeats = list(call.attrs.repeats)
    if len(repeats) != len(data.order):
        return None
    return Permuted(relax.op.tile(data.value, [repeats[d] for d in data.order]), data.order)


def _broadcast(_: Relayout, data: Permuted, call: Any) -> Permuted | None:
    shape = shape_and_dtype(call)[0]
    if len(shape) != len(data.order):
        return None
    moved = tuple(shape[dimension] for dimension in data.order)
    return Permuted(relax.op.broadcast_to(data.value, moved), data.order)


def _take(relayout: Relayout, data: Permuted, call: Any) -> Permuted | None:
    """Elements along one dimension, at indices of rank 1."""
    axis = call.attrs.axis
    if axis is None or len(shape_and_dtype(call.args[1])[0]) != 1:
        return None
    indices = relayout.visit_expr(call.args[1])
    return Permuted(again(call, data.value, indices, axis=data.axis(axis)), data.order)


MOVES: Mapping[str, OnPermuted] = {
    "broadcast_to": of_first(_broadcast),
    "concat": _concat,
    "expand_dims": of_first(_expand),
    "flip": of_first(_flip),
    "nn.pad": of_first(_pad),
    "permute_dims": of_first(_permute),
    "reshape": of_first(_reshape),
    "split": of_first(_split),
    "squeeze": of_first(_squeeze),
    "strided_slice": of_first(_slice),
    "take": of_first(_take),
    "tile": of_first(_tile),
}
"""The operators by their names."""
