"""Contractions as the Relax operators that they equal: ``matmul`` and convolutions.

Input: a :class:`~tvm_nnef.schedules.graph.contractions.Contraction`, and the Relax values of the
buffers that it reads. Output: a Relax expression of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import relax

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.graph.contractions import Contraction, convolution_axes, matrix_axes
from tvm_nnef.schedules.graph.rewriting import Operands, operator
from tvm_nnef.schedules.graph.windows import Operand, Window
from tvm_nnef.tvm_support.compat import RelaxExpression, shape_and_dtype

Values = Mapping[Any, RelaxExpression]

_SPATIAL = ("", "W", "HW", "DHW")
"""The letters of spatial dimensions in layouts, by their number."""


def as_product(operands: Operands, found: Contraction, values: Values) -> RelaxExpression | None:
    """The result of a contraction as that of an operator.

    None for a convolution whose padding is not static.
    """
    left, right = values[found.source], values[found.right.source]
    made = _product if found.is_product else _convolution
    return made(operands, found, left, right)


def _product(
    operands: Operands, found: Contraction, left: RelaxExpression, right: RelaxExpression
) -> RelaxExpression:
    """A ``matmul`` of operands with axes ``[both, rows, steps]`` and ``[both, steps, columns]``."""
    axes = matrix_axes(found)
    assert axes is not None
    both, rows, columns = axes
    stage, steps = found.stage, list(found.stage.reduced)
    single = not both and len(steps) == len(rows) == 1 and 2 <= len(columns) <= 4
    if single and list(stage.axes) == [columns[0], *rows, *columns[1:]]:
        return _pointwise(operands, found, rows[0], columns, left, right)
    left = _with_axes(operands, left, found.left, [*both, *rows, *steps])
    right = _with_axes(operands, right, found.right, [*both, *steps, *columns])
    kept = _sizes(rows) if not both else [_size(rows)]
    left = _reshaped(operands, left, [*_sizes(both), *kept, _size(steps)])
    right = _reshaped(operands, right, [*_sizes(both), _size(steps), _size(columns)])
    ordered = [*both, *rows, *columns]
    product = operands.emit(relax.op.matmul(left, right))
    return _arranged(operands, _reshaped(operands, product, _sizes(ordered)), ordered, stage.axes)


def _convolution(
    operands: Operands, found: Contraction, left: RelaxExpression, right: RelaxExpression
) -> RelaxExpression | None:
    """A convolution of the operands, arranged as ``[N, C, X...]`` and ``[O, C, X...]``."""
    axes = convolution_axes(found)
    assert axes is not None
    steps = [window.step for window in axes.windows]
    group = [] if axes.group is None else [axes.group]
    channels = axes.channel.extent
    if not all(map(sizes.is_known, (channels, *_sizes([*group, *steps])))):
        return None
    windows = _windows(operands, found.data, left, [axes.batch, *group, axes.channel])
    if windows is None:
        return None
    data, options = windows
    inputs = [] if axes.depthwise else [axes.channel]
    weights = _with_axes(operands, right, found.right, [*group, axes.output, *inputs, *steps])
    if axes.depthwise:
        weights = operands.emit(relax.op.reshape(weights, (channels, 1, *_sizes(steps))))
    if group:
        data, weights = _joined(operands, data, 1), _joined(operands, weights, 0)
    groups = channels if axes.depthwise else found.groups * _size(group)
    result = operands.emit(_make(data, weights, **options, groups=groups))
    if group:
        batch, _, *spatial = shape_and_dtype(result)[0]
        shape = (batch, *_sizes([*group, axes.output]), *spatial)
        result = operands.emit(relax.op.reshape(result, shape))
    ordered = [axes.batch, *group, axes.output, *(window.axis for window in axes.windows)]
    made = _cut(operands, result, _sizes(ordered))
    return _arranged(operands, made, ordered, found.stage.axes)


def _pointwise(
    operands: Operands,
    found: Contraction,
    output: Axis,
    others: Sequence[Axis],
    left: RelaxExpression,
    right: RelaxExpression,
) -> RelaxExpression:
    """A product whose result has its new axis second: a convolution of size 1."""
    (channel,) = found.stage.reduced
    batch, *spatial = others
    data = _with_axes(operands, right, found.right, [batch, channel, *spatial])
    weights = _with_axes(operands, left, found.left, [output, channel])
    shape = (output.extent, channel.extent, *[1] * len(spatial))
    return operands.emit(_make(data, operands.emit(relax.op.reshape(weights, shape))))


def _make(data: RelaxExpression, weights: RelaxExpression, **options: Any) -> RelaxExpression:
    """A call of the convolution over all but the first two dimensions of the data."""
    letters = _SPATIAL[len(shape_and_dtype(data)[0]) - 2]
    make = operator(f"nn.conv{len(letters)}d")
    return make(data, weights, data_layout=f"NC{letters}", kernel_layout=f"OI{letters}", **options)


def _sizes(axes: Sequence[Axis]) -> list[sizes.Extent]:
    return [axis.extent for axis in axes]


def _size(axes: Sequence[Axis]) -> sizes.Extent:
    return sizes.product(_sizes(axes))


def _dimension(load: Any, axis: Axis) -> int:
    """The dimension of a load that an axis indexes."""
    return next(n for n, index in enumerate(load.indices) if index.same_as(axis.var))


def _with_axes(
    operands: Operands, value: RelaxExpression, load: Any, axes: Sequence[Axis]
) -> RelaxExpression:
    """An operand with its dimensions in the order of some axes; others have one element."""
    return _picked(operands, value, [_dimension(load, axis) for axis in axes])


def _picked(operands: Operands, value: RelaxExpression, picked: Sequence[int]) -> RelaxExpression:
    """Some dimensions of a value in an order, without the others, which have one element."""
    shape, kept = shape_and_dtype(value)[0], sorted(picked)
    value = _reshaped(operands, value, [shape[dimension] for dimension in kept])
    return _permuted(operands, value, [kept.index(dimension) for dimension in picked])


def _permuted(operands: Operands, value: RelaxExpression, order: Sequence[int]) -> RelaxExpression:
    if list(order) == sorted(order):
        return value
    return operands.emit(relax.op.permute_dims(value, list(order)))


def _reshaped(
    operands: Operands, value: RelaxExpression, shape: Sequence[sizes.Extent]
) -> RelaxExpression:
    """The value in a shape; the value itself if that is its shape."""
    old = shape_and_dtype(value)[0]
    if len(shape) == len(old) and all(map(sizes.same, shape, old)):
        return value
    return operands.emit(relax.op.reshape(value, tuple(shape)))


def _arranged(
    operands: Operands, value: RelaxExpression, axes: Sequence[Axis], wanted: Sequence[Axis]
) -> RelaxExpression:
    """A value of some axes with the ``wanted`` ones, of which others have one element."""
    moved = [axis for axis in wanted if axis in axes]
    result = _permuted(operands, value, [axes.index(axis) for axis in moved])
    return _reshaped(operands, result, _sizes(wanted))


def _joined(operands: Operands, value: RelaxExpression, first: int) -> RelaxExpression:
    """The value with a dimension and the next one as one."""
    shape = list(shape_and_dtype(value)[0])
    shape[first : first + 2] = [sizes.product(shape[first : first + 2])]
    return operands.emit(relax.op.reshape(value, tuple(shape)))


def _windows(
    operands: Operands, operand: Operand, value: RelaxExpression, first: Sequence[Axis]
) -> tuple[RelaxExpression, dict[str, list[int]]] | None:
    """An operand as ``[first..., X...]``, and the ``strides``, ``padding``, ``dilation`` over X.

    None if its padding is not static.
    """
    spatial = [n for n, window in enumerate(operand.windows) if window is not None]
    order = [*(_dimension(operand.load, axis) for axis in first), *spatial]
    data, windows, before = _picked(operands, value, order), operand.moving, operand.before
    extents = shape_and_dtype(data)[0][len(first) :]
    after = [_missing(w, e, b) for w, e, b in zip(windows, extents, before, strict=True)]
    if not all(map(sizes.is_known, after)):
        return None
    return data, {
        "strides": [window.stride for window in windows],
        "padding": [*before, *(max(0, missing) for missing in after)],
        "dilation": [window.dilation for window in windows],
    }


def _missing(window: Window, extent: sizes.Extent, before: int) -> sizes.Extent:
    """How many elements the last window reaches beyond data with a padding before them."""
    last = (window.axis.extent - 1) * window.stride
    reach = last + (window.step.extent - 1) * window.dilation + 1
    missing = reach - extent - before
    return missing if sizes.is_known(missing) else sizes.simplified(missing)


def _cut(
    operands: Operands, value: RelaxExpression, shape: Sequence[sizes.Extent]
) -> RelaxExpression:
    """The first elements of a value along each dimension, in exactly the expressions of a shape."""
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
