"""Transposed convolutions as Relax operators: convolutions of stride 1.

Enters: a :class:`~tvm_nnef.schedules.graph.deconvolutions.Deconvolution`, and the Relax values of
its data and weights. Leaves: a Relax expression of the result.

The elements of the result whose ``y + p`` leaves the same remainder after division by ``s`` all use
the same steps ``j``, every ``s``-th one: they are a convolution with these. One convolution gives
the elements of all remainders as so many channels, which are then sorted into place; where some
remainders have fewer steps than others, each has its own, so that no zeros are multiplied. TVM's
own would spread the data among zeros, and multiply those too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from tvm_nnef.schedules.graph.arranging import CONVOLUTIONS, permuted, place_of
from tvm_nnef.schedules.graph.deconvolutions import Deconvolution, Spread
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.tvm_compat import RelaxExpression, constant, shape_and_dtype


def as_convolution(
    operands: Operands, found: Deconvolution, data: RelaxExpression, weights: RelaxExpression
) -> RelaxExpression:
    """The result of a transposed convolution."""
    spreads = [spread for spread in found.spreads if spread is not None]
    spatial = [n for n, spread in enumerate(found.spreads) if spread is not None]
    places = [place_of(found.left, axis) for axis in (found.batch, found.channel)]
    data = permuted(operands, data, [*places, *spatial])
    made, counts = _all_remainders(operands, found, spreads, data, weights)
    result = _sorted(operands, found, spreads, made, counts)
    ordered = [found.batch, found.output, *(spread.axis for spread in spreads)]
    return permuted(operands, result, [ordered.index(axis) for axis in found.stage.axes])


def _all_remainders(
    operands: Operands,
    found: Deconvolution,
    spreads: Sequence[Spread],
    data: RelaxExpression,
    weights: RelaxExpression,
) -> tuple[RelaxExpression, list[int]]:
    """The convolution with channels for each remainder, and its extents."""
    make, letters = CONVOLUTIONS[len(spreads)]
    extents = [int(extent) for extent in found.source.shape]
    extents = [extents[n] for n, spread in enumerate(found.spreads) if spread is not None]
    needed = [(s.axis.extent - 1 + s.offset) // s.stride + 1 for s in spreads]
    after = [max(0, n - extent) for n, extent in zip(needed, extents, strict=True)]
    order = [place_of(found.right, axis) for axis in (found.channel, found.output)]
    order += [place_of(found.right, spread.step) for spread in spreads]
    weights = permuted(operands, weights, order)
    counts = [extent + more for extent, more in zip(extents, after, strict=True)]

    def convolved(kernel: RelaxExpression, times: Sequence[int]) -> RelaxExpression:
        layouts = {"data_layout": f"NC{letters}", "kernel_layout": f"OI{letters}"}
        padding = [*(time - 1 for time in times), *after]
        return operands.emit(make(data, kernel, padding=padding, groups=found.groups, **layouts))

    if found.groups > 1 or not _is_wasteful(spreads):
        kernel = _turned(operands, weights, spreads, found.groups)
        return convolved(kernel, [s.times for s in spreads]), counts
    rests = itertools.product(*(range(s.stride) for s in spreads))
    parts = [convolved(*_of_remainder(operands, weights, spreads, rest)) for rest in rests]
    return operands.emit(relax.op.concat(parts, axis=1)), counts


_WASTE = 1.25
"""So many multiplications for one that is needed are too many."""


def _is_wasteful(spreads: Sequence[Spread]) -> bool:
    """Whether remainders differ so much in their steps that each has a convolution of its own."""
    if any(s.step.extent < s.stride for s in spreads):
        return False
    made = math.prod(s.times * s.stride for s in spreads)
    return bool(made >= _WASTE * math.prod(s.step.extent for s in spreads))


def _of_remainder(
    operands: Operands, weights: RelaxExpression, spreads: Sequence[Spread], rest: Sequence[int]
) -> tuple[RelaxExpression, list[int]]:
    """The weights ``[O, C, K...]`` of one remainder, the last step first, and their extents."""
    times = [-(-(s.step.extent - r) // s.stride) for s, r in zip(spreads, rest, strict=True)]
    axes, order = range(2, 2 + len(spreads)), [1, 0, *range(2, 2 + len(spreads))]
    array = operands.view(weights)
    if array is not None:
        every = (slice(r, None, s.stride) for s, r in zip(spreads, rest, strict=True))
        where = (slice(None), slice(None), *every)
        turned = np.flip(array[where], tuple(axes)).transpose(order)
        return constant(np.ascontiguousarray(turned)), times
    ends = [int(s.step.extent) for s in spreads]
    steps = [s.stride for s in spreads]
    weights = operands.emit(relax.op.strided_slice(weights, list(axes), list(rest), ends, steps))
    for axis, time in zip(axes, times, strict=True):
        weights = operands.emit(relax.op.flip(weights, axis)) if time > 1 else weights
    return permuted(operands, weights, order), times


def _turned(
    operands: Operands, weights: RelaxExpression, spreads: Sequence[Spread], groups: int
) -> RelaxExpression:
    """Weights ``[C, O, K...]`` as those of the convolution, ``[group, remainder..., O, C, K...]``.

    Steps that are missing in the last times around are zeros; the last time comes first.
    """
    count = len(spreads)
    widths = [(0, s.times * s.stride - s.step.extent) for s in spreads]
    split = [size for s in spreads for size in (s.times, s.stride)]
    times, rests = range(3, 3 + 2 * count, 2), range(4, 4 + 2 * count, 2)
    order = [0, *rests, 2, 1, *times]
    array = operands.view(weights)
    if array is not None:
        filled = np.pad(array, [(0, 0), (0, 0), *widths])
        parts = filled.reshape(groups, len(array) // groups, array.shape[1], *split)
        turned = np.flip(parts, tuple(times)).transpose(order)
        return constant(turned.reshape(-1, turned.shape[-count - 1], *turned.shape[-count:]))
    channels, outputs = map(int, shape_and_dtype(weights)[0][:2])
    if any(more for _, more in widths):
        flat = [0, 0, 0, 0, *(number for width in widths for number in width)]
        weights = operands.emit(relax.op.nn.pad(weights, flat))
    depth = channels // groups
    weights = operands.emit(relax.op.reshape(weights, (groups, depth, outputs, *split)))
    for axis, spread in zip(times, spreads, strict=True):
        weights = operands.emit(relax.op.flip(weights, axis)) if spread.times > 1 else weights
    total = groups * outputs * math.prod(s.stride for s in spreads)
    weights = permuted(operands, weights, order)
    return operands.emit(relax.op.reshape(weights, (total, depth, *(s.times for s in spreads))))


def _sorted(
    operands: Operands,
    found: Deconvolution,
    spreads: Sequence[Spread],
    made: RelaxExpression,
    counts: Sequence[int],
) -> RelaxExpression:
    """The channels of all remainders beside each other in space, cut to the result."""
    batch, outputs, count = found.batch.extent, found.output.extent, len(spreads)
    strides, groups = [spread.stride for spread in spreads], found.groups
    parts = (batch, groups, *strides, outputs // groups, *counts)
    split = operands.emit(relax.op.reshape(made, parts))
    order = [0, 1, 2 + count]
    for number in range(count):
        order += [3 + count + number, 2 + number]
    moved = operands.emit(relax.op.permute_dims(split, order))
    whole = [size * stride for size, stride in zip(counts, strides, strict=True)]
    joined = operands.emit(relax.op.reshape(moved, (batch, outputs, *whole)))
    first = [spread.offset for spread in spreads]
    last = [spread.offset + spread.axis.extent for spread in spreads]
    if not any(first) and last == whole:
        return joined
    axes = list(range(2, 2 + count))
    return operands.emit(relax.op.strided_slice(joined, axes, first, last))
