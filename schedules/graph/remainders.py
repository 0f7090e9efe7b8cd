"""Transposed convolutions as Relax operators: convolutions of stride 1.

Enters: a :class:`~tvm_nnef.schedules.graph.deconvolutions.Deconvolution`, and the Relax values of
its data and weights. Leaves: a Relax expression of the result.

The elements of the result whose ``y + p`` leaves the same remainder after division by ``s`` all use
the same steps ``j``, every ``s``-th one: they are a convolution with these. One convolution gives
the elements of all remainders as so many channels, which are then sorted into place; where some
remainders have fewer steps than others, each has its own, so that no zeros are multiplied: by data
that are infinite, these would be no number. TVM's own would spread the data among zeros, and
multiply those too.
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
from tvm_nnef.tvm_support.compat import RelaxExpression, constant, shape_and_dtype


def as_convolution(
    operands: Operands, found: Deconvolution, data: RelaxExpression, weights: RelaxExpression
) -> RelaxExpression:
    """The result of a transposed convolution."""
    spreads = [spread for spread in found.spreads if spread is not None]
    spatial = [n for n, spread in enumerate(found.spreads) if spread is not None]
    places = [place_of(found.left, axis) for axis in (found.batch, found.channel)]
    data = permuted(operands, data, [*places, *spatial])
    order = [place_of(found.right, axis) for axis in (found.channel, found.output)]
    order += [place_of(found.right, spread.step) for spread in spreads]
    weights = permuted(operands, weights, order)
    result = _all_remainders(operands, found, spreads, data, weights)
    ordered = [found.batch, found.output, *(spread.axis for spread in spreads)]
    return permuted(operands, result, [ordered.index(axis) for axis in found.stage.axes])


def _all_remainders(
    operands: Operands,
    found: Deconvolution,
    spreads: Sequence[Spread],
    data: RelaxExpression,
    weights: RelaxExpression,
) -> RelaxExpression:
    """The elements of all remainders, in their places."""
    make, letters = CONVOLUTIONS[len(spreads)]
    extents = [int(extent) for extent in shape_and_dtype(data)[0][2:]]
    needed = [(s.axis.extent - 1 + s.offset) // s.stride + 1 for s in spreads]
    after = [max(0, n - extent) for n, extent in zip(needed, extents, strict=True)]
    counts = [extent + more for extent, more in zip(extents, after, strict=True)]

    def convolved(kernel: RelaxExpression, times: Sequence[int]) -> RelaxExpression:
        layouts = {"data_layout": f"NC{letters}", "kernel_layout": f"OI{letters}"}
        padding = [*(time - 1 for time in times), *after]
        return operands.emit(make(data, kernel, padding=padding, groups=found.groups, **layouts))

    def of_remainder(rest: Sequence[int]) -> RelaxExpression:
        times = [len(range(r, s.step.extent, s.stride)) for s, r in zip(spreads, rest, strict=True)]
        if 0 in times:
            shape = (found.batch.extent, found.output.extent, *counts)
            return operands.emit(relax.op.zeros(shape, found.stage.dtype))
        own = _every(operands, weights, rest, [spread.stride for spread in spreads])
        once = [1] * len(times)
        return convolved(_turned(operands, own, times, once, found.groups), times)

    strides = [spread.stride for spread in spreads]
    if all(spread.step.extent % spread.stride == 0 for spread in spreads):
        times = [spread.step.extent // spread.stride for spread in spreads]
        made = convolved(_turned(operands, weights, times, strides, found.groups), times)
        return _sorted(operands, found, spreads, made, counts, found.groups)
    parts = [of_remainder(rest) for rest in itertools.product(*map(range, strides))]
    joined = operands.emit(relax.op.concat(parts, axis=1))
    return _sorted(operands, found, spreads, joined, counts, 1)


def _every(
    operands: Operands, weights: RelaxExpression, first: Sequence[int], strides: Sequence[int]
) -> RelaxExpression:
    """Weights ``[C, O, K...]`` with the steps of one remainder only."""
    array = operands.view(weights)
    if array is not None:
        steps = (slice(begin, None, stride) for begin, stride in zip(first, strides, strict=True))
        where = (slice(None), slice(None), *steps)
        return constant(array[where])
    axes, ends = range(2, 2 + len(strides)), shape_and_dtype(weights)[0][2:]
    sliced = relax.op.strided_slice(weights, list(axes), list(first), list(ends), list(strides))
    return operands.emit(sliced)


def _turned(
    operands: Operands,
    weights: RelaxExpression,
    times: Sequence[int],
    strides: Sequence[int],
    groups: int,
) -> RelaxExpression:
    """Weights ``[C, O, K...]`` as those of the convolution, ``[group, remainder..., O, C, K...]``.

    There are ``times`` steps for each remainder; the last one comes first.
    """
    count = len(times)
    channels, outputs = map(int, shape_and_dtype(weights)[0][:2])
    split = [size for both in zip(times, strides, strict=True) for size in both]
    parts = (groups, channels // groups, outputs, *split)
    turns, rests = range(3, 3 + 2 * count, 2), range(4, 4 + 2 * count, 2)
    order = [0, *rests, 2, 1, *turns]
    shape = (groups * outputs * math.prod(strides), channels // groups, *times)
    array = operands.view(weights)
    if array is not None:
        turned = np.flip(array.reshape(parts), tuple(turns)).transpose(order)
        return constant(turned.reshape(shape))
    weights = operands.emit(relax.op.reshape(weights, parts))
    for axis, time in zip(turns, times, strict=True):
        weights = operands.emit(relax.op.flip(weights, axis)) if time > 1 else weights
    return operands.emit(relax.op.reshape(permuted(operands, weights, order), shape))


def _sorted(
    operands: Operands,
    found: Deconvolution,
    spreads: Sequence[Spread],
    made: RelaxExpression,
    counts: Sequence[int],
    groups: int,
) -> RelaxExpression:
    """The channels ``[group, remainder..., O]`` beside each other in space, cut to the result."""
    batch, outputs, count = found.batch.extent, found.output.extent, len(spreads)
    strides = [spread.stride for spread in spreads]
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
