"""How operators that move elements run on permuted tensors: a call in, its permuted result out.

Shapes, slices, copies; nothing is computed. As in :mod:`layout_rules` None means that an operator
gets its operands in the original order, and a list is that of several results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.graph.placement import Placed, Rule, Walk, extent_of
from tvm_nnef.tvm_support.compat import shape_and_dtype


def _pad(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    widths = list(call.attrs.pad_width)
    moved = [widths[2 * dimension + side] for dimension in placed.order for side in (0, 1)]
    mode, value = str(call.attrs.pad_mode), call.attrs.pad_value
    return Placed(relax.op.nn.pad(placed.value, moved, mode, value), placed.order)


def _concat(walk: Walk, call: Any) -> Placed | None:
    items = call.args[0].fields if isinstance(call.args[0], relax.Tuple) else None
    if items is None or call.attrs.axis is None:
        return None
    placements = [walk.placement(item) for item in items]
    known = [p for p in placements if p is not None]
    if not known:
        return None
    order = known[0].order
    values = [walk.in_order(item, order) for item in items]
    axis = int(call.attrs.axis) % len(order)
    return Placed(relax.op.concat(values, axis=order.index(axis)), order)


def _permute(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    rank = len(placed.order)
    axes = call.attrs.axes
    axes = [int(a) for a in axes] if axes is not None else list(reversed(range(rank)))
    return Placed(placed.value, tuple(axes.index(dimension) for dimension in placed.order))


def _expand(walk: Walk, call: Any) -> Placed | None:
    """New dimensions of extent 1 are stored where they stand among their neighbours."""
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    rank = len(call.ty.shape)
    new = sorted(int(axis) % rank for axis in call.attrs.axis)
    old = [dimension for dimension in range(rank) if dimension not in new]
    order = [old[dimension] for dimension in placed.order]
    for dimension in new:
        order.insert(1 if dimension else 0, dimension)
    shape = tuple(
        1 if dimension in new else placed.shape[placed.order.index(old.index(dimension))]
        for dimension in order
    )
    return Placed(relax.op.reshape(placed.value, shape), tuple(order))


def _squeeze(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    rank = len(placed.order)
    axes = call.attrs.axis
    gone = [int(axis) % rank for axis in axes] if axes is not None else [
        d for d in range(rank) if sizes.same(extent_of(placed, d), 1)
    ]  # fmt: skip
    left = [dimension for dimension in range(rank) if dimension not in gone]
    order = tuple(left.index(d) for d in placed.order if d not in gone)
    shape = tuple(extent_of(placed, d) for d in placed.order if d not in gone)
    return Placed(relax.op.reshape(placed.value, shape), order)


def _reshape(walk: Walk, call: Any) -> Placed | None:
    """A reshape that splits or joins dimensions each for itself keeps the order of the groups."""
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    old = [extent_of(placed, dimension) for dimension in range(len(placed.order))]
    new = list(shape_and_dtype(call)[0])
    groups = sizes.groups(old, new)
    if groups is None:
        return None
    needed: list[int] = []
    order: list[int] = []
    taken: set[int] = set()
    for dimension in placed.order:
        if dimension in taken:
            continue
        sources, targets = next(g for g in groups if dimension in g[0])
        taken.update(sources)
        needed += sources
        order += targets
    value = placed.value
    if needed != list(placed.order):
        axes = [placed.order.index(dimension) for dimension in needed]
        value = walk.builder_.emit(relax.op.permute_dims(value, axes))
    shape = tuple(new[dimension] for dimension in order)
    return Placed(relax.op.reshape(value, shape), tuple(order))


def _slice(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    if placed is None or not all(isinstance(part, relax.Tuple) for part in call.args[1:]):
        return None
    axes, *rest = (list(part.fields) for part in call.args[1:])
    moved = [_moved(placed, axis.value) for axis in axes]
    inside = bool(call.attrs.assume_inbound)
    return Placed(
        relax.op.strided_slice(placed.value, moved, *rest, assume_inbound=inside), placed.order
    )


def _moved(placed: Placed, axis: Any) -> int:
    """Where a dimension is stored."""
    return placed.order.index(int(axis) % len(placed.order))


def _split(walk: Walk, call: Any) -> list[Placed] | None:
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    parts = call.attrs.indices_or_sections
    given = [int(i) for i in parts] if isinstance(parts, Sequence) else int(parts)
    made = walk.builder_.emit(relax.op.split(placed.value, given, _moved(placed, call.attrs.axis)))
    count = len(call.ty.fields)
    return [Placed(relax.TupleGetItem(made, number), placed.order) for number in range(count)]


def _flip(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    return Placed(relax.op.flip(placed.value, _moved(placed, call.attrs.axis)), placed.order)


def _tile(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    repeats = list(call.attrs.repeats)
    if placed is None or len(repeats) != len(placed.order):
        return None
    return Placed(relax.op.tile(placed.value, [repeats[d] for d in placed.order]), placed.order)


def _broadcast(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    shape = shape_and_dtype(call)[0]
    if placed is None or len(shape) != len(placed.order):
        return None
    moved = tuple(shape[dimension] for dimension in placed.order)
    return Placed(relax.op.broadcast_to(placed.value, moved), placed.order)


def _take(walk: Walk, call: Any) -> Placed | None:
    """Elements along one dimension, at positions in one."""
    placed = walk.placement(call.args[0])
    axis = call.attrs.axis
    if placed is None or axis is None or len(shape_and_dtype(call.args[1])[0]) != 1:
        return None
    indices = walk.visit_expr(call.args[1])
    mode = str(call.attrs.mode)
    return Placed(relax.op.take(placed.value, indices, _moved(placed, axis), mode), placed.order)


MOVES: Mapping[str, Rule] = {
    "broadcast_to": _broadcast,
    "concat": _concat,
    "expand_dims": _expand,
    "flip": _flip,
    "nn.pad": _pad,
    "permute_dims": _permute,
    "reshape": _reshape,
    "split": _split,
    "squeeze": _squeeze,
    "strided_slice": _slice,
    "take": _take,
    "tile": _tile,
}
"""The rules by the names of operators."""
