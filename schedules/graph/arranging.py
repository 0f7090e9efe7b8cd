"""Operands of operators that are raised: dimensions sorted, joined, cut, windows in numbers.

Enters: Relax expressions and what :mod:`windows` told of them. Leaves: Relax expressions in the
arrangement that an operator wants. Nothing is emitted where nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import relax

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.schedules.graph.windows import Operand, Window
from tvm_nnef.tvm_support.compat import RelaxExpression, shape_and_dtype

CONVOLUTIONS = {
    1: (relax.op.nn.conv1d, "W"), 2: (relax.op.nn.conv2d, "HW"), 3: (relax.op.nn.conv3d, "DHW"),
}  # fmt: skip
"""The convolution over a number of dimensions, and the letters of these in layouts."""


def extents_of(axes: Sequence[Axis]) -> list[sizes.Extent]:
    """The extents of some axes."""
    return [axis.extent for axis in axes]


def place_of(load: Any, axis: Axis) -> int:
    """The dimension of a load that an axis runs through."""
    return next(n for n, index in enumerate(load.indices) if index.same_as(axis.var))


def permuted(operands: Operands, value: RelaxExpression, order: Sequence[int]) -> RelaxExpression:
    """The value with its dimensions in an order."""
    if list(order) == sorted(order):
        return value
    return operands.emit(relax.op.permute_dims(value, list(order)))


def reshaped(
    operands: Operands,
    value: RelaxExpression,
    shape: Sequence[sizes.Extent],
    old: Sequence[sizes.Extent],
) -> RelaxExpression:
    """The value in a shape, where its ``old`` one is another."""
    if len(shape) == len(old) and all(map(sizes.same, shape, old)):
        return value
    return operands.emit(relax.op.reshape(value, tuple(shape)))


def arranged(
    operands: Operands, value: RelaxExpression, load: Any, axes: Sequence[Axis]
) -> RelaxExpression:
    """An operand with its dimensions in the order of some axes; others have one element."""
    return _picked(operands, value, [place_of(load, axis) for axis in axes])


def _picked(operands: Operands, value: RelaxExpression, places: Sequence[int]) -> RelaxExpression:
    """Some dimensions of a value in an order, without the others, which have one element."""
    shape = list(shape_and_dtype(value)[0])
    kept = sorted(places)
    value = reshaped(operands, value, [shape[place] for place in kept], shape)
    return permuted(operands, value, [kept.index(place) for place in places])


def settled(
    operands: Operands, value: RelaxExpression, axes: Sequence[Axis], wanted: Sequence[Axis]
) -> RelaxExpression:
    """A value of some axes with those that are wanted, of which others have one element."""
    moved = [axis for axis in wanted if axis in axes]
    result = permuted(operands, value, [axes.index(axis) for axis in moved])
    return reshaped(operands, result, extents_of(wanted), extents_of(moved))


def windowed(
    operands: Operands, operand: Operand, value: RelaxExpression, first: Sequence[Axis]
) -> tuple[RelaxExpression, dict[str, list[int]]] | None:
    """An operand as ``[first..., X...]``, and the ``strides``, ``padding``, ``dilation`` over X.

    None where its padding is no number, as only a run tells the extents.
    """
    spatial = [n for n, window in enumerate(operand.windows) if window is not None]
    places = [place_of(operand.load, axis) for axis in first]
    data = _picked(operands, value, [*places, *spatial])
    extents = shape_and_dtype(data)[0][len(first) :]
    windows, before = operand.moving, operand.before
    missing = [_missing(w, e, b) for w, e, b in zip(windows, extents, before, strict=True)]
    known = [number for number in missing if sizes.is_known(number)]
    if len(known) != len(missing):
        return None
    behind = [max(0, 1 - window.stride - n) for window, n in zip(windows, known, strict=True)]
    return _cropped(operands, data, extents, behind), {
        "strides": [window.stride for window in windows],
        "padding": [*before, *(max(0, number) for number in known)],
        "dilation": [window.dilation for window in windows],
    }


def _missing(window: Window, extent: sizes.Extent, before: int) -> sizes.Extent:
    """How much further the last window reaches than data with a padding in front of it."""
    last = (window.axis.extent - 1) * window.stride
    reach = last + (window.step.extent - 1) * window.dilation + 1
    missing = reach - extent - before
    return missing if sizes.is_known(missing) else sizes.simplified(missing)


def _cropped(
    operands: Operands,
    data: RelaxExpression,
    extents: Sequence[sizes.Extent],
    behind: Sequence[int],
) -> RelaxExpression:
    """The data without what lies behind the last window, which would give more windows.

    One element stays where all windows lie in front of the data: :func:`cut` leaves out the others.
    """
    if not any(behind):
        return data
    count = len(extents)
    axes = [len(shape_and_dtype(data)[0]) - count + n for n in range(count)]
    ends = [
        max(min(1, extent), extent - more) if sizes.is_known(extent) else extent - more
        for extent, more in zip(extents, behind, strict=True)
    ]
    cut_off = relax.op.strided_slice(data, axes, [0] * count, ends, assume_inbound=True)
    return operands.emit(cut_off)


def cut(
    operands: Operands, value: RelaxExpression, shape: Sequence[sizes.Extent]
) -> RelaxExpression:
    """The value with just these extents, in the words of its readers: symbols have many."""
    had = shape_and_dtype(value)[0]
    spelled = [sizes.simplified(sizes.number(extent, "int64")) for extent in had]
    axes = [
        n
        for n, (own, wanted) in enumerate(zip(spelled, shape, strict=True))
        if not tvm_ffi.structural_equal(own, wanted)
    ]
    if not axes:
        return value
    begin, end = [0] * len(axes), [shape[axis] for axis in axes]
    return operands.emit(relax.op.strided_slice(value, axes, begin, end, assume_inbound=True))
