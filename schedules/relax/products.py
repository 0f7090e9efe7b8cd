"""Contractions as the Relax operators that they equal: ``matmul`` and convolutions.

Input: a :class:`~tvm_nnef.schedules.relax.contractions.Contraction`, and the Relax values of the
buffers that it reads. Output: a Relax expression of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import tvm_ffi
from tvm import relax
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.relax.contractions import Contraction
from tvm_nnef.schedules.relax.rewriting import Operands, operator, reshaped
from tvm_nnef.schedules.relax.windows import WindowIndex
from tvm_nnef.tvm_support.compat import Buffer, RelaxExpression, shape_and_dtype

Values = Mapping[Buffer, RelaxExpression]

_SPATIAL = ("", "W", "HW", "DHW")
"""The letters of spatial dimensions in layouts, by their number."""


def as_product(operands: Operands, found: Contraction, values: Values) -> RelaxExpression | None:
    """The result of a contraction as that of an operator.

    None for a convolution whose padding or weights are not static.
    """
    shared, rows, columns, steps = found.shared, found.rows, found.columns, found.steps
    if found.data.moving:
        return _convolution(operands, found, values)
    pointwise = None if shared else _with_batch(found)
    if pointwise is not None:
        return _pointwise(operands, pointwise, values)
    both, kept = [[axis] for axis in shared], [rows] if shared else [[axis] for axis in rows]
    left, right = found.data.load, found.weights
    data = _with_dimensions(operands, left, values, *_dimensions(left, *both, *kept, steps))
    weights = _with_dimensions(operands, right, values, *_dimensions(right, *both, steps, columns))
    product = operands.emit(relax.op.matmul(data, weights))
    return _result(operands, product, [*shared, *rows, *columns], found.stage.axes)


def _convolution(operands: Operands, found: Contraction, values: Values) -> RelaxExpression | None:
    """A convolution of data ``[N, C, X...]`` with weights ``[O, C, X...]``."""
    windows, shared, steps = found.data.moving, found.shared, found.steps
    if not all(axis.is_known for axis in (*shared, *steps, *(window.step for window in windows))):
        return None
    left, right = found.data.load, found.weights
    spatial = [[n] for n, window in enumerate(found.data.windows) if window is not None]
    front = _dimensions(left, found.rows, [*shared, *steps])
    data = _with_dimensions(
        operands, left, {left.source: values[found.data.source]}, *front, *spatial
    )
    before, extents = found.data.before, shape_and_dtype(data)[0][2:]
    after = [_missing(w, e, b) for w, e, b in zip(windows, extents, before, strict=True)]
    if not sizes.are_known(after):
        return None
    outputs, taps = [*shared, *found.columns], [[window.step] for window in windows]
    weights = _with_dimensions(operands, right, values, *_dimensions(right, outputs, steps, *taps))
    result = _call(
        operands,
        data,
        weights,
        strides=[window.stride for window in windows],
        padding=[*before, *(max(0, missing) for missing in after)],
        dilation=[window.dilation for window in windows],
        groups=found.groups * _size(shared),
    )
    moving = [window.axis for window in windows]
    shape = [_size(found.rows), _size(outputs), *(axis.extent for axis in moving)]
    ordered = [*found.rows, *outputs, *moving]
    return _result(operands, _cut(operands, result, shape), ordered, found.stage.axes)


def _with_batch(found: Contraction) -> Contraction | None:
    """A product whose result has its new axis second; None for another one.

    A batch of one element has no index in the operands, and so is among the rows at first. It is
    that of the columns if their operand has a dimension for it.
    """
    rows, columns = found.rows, found.columns
    wide = len(found.weights.indices) > len(columns) + len(found.steps)
    batch = [axis for axis in rows[:1] if axis.is_unit and len(rows) == 2 and wide]
    rows, columns = rows[len(batch) :], [*batch, *columns]
    single = len(found.steps) == len(rows) == 1 and 2 <= len(columns) <= 4
    if not single or list(found.stage.axes) != [columns[0], *rows, *columns[1:]]:
        return None
    return replace(found, rows=rows, columns=columns)


def _pointwise(operands: Operands, found: Contraction, values: Values) -> RelaxExpression:
    """A product whose result has its new axis second: a convolution of size 1."""
    left, right, columns = found.data.load, found.weights, found.columns
    spatial = [[axis] for axis in columns[1:]]
    data = _dimensions(right, columns[:1], found.steps, *spatial)
    weights = _dimensions(left, found.rows, found.steps, *([] for _ in spatial))
    return _call(
        operands,
        _with_dimensions(operands, right, values, *data),
        _with_dimensions(operands, left, values, *weights),
    )


def _call(
    operands: Operands, data: RelaxExpression, weights: RelaxExpression, **options: object
) -> RelaxExpression:
    """The convolution over all but the first two dimensions of the data."""
    letters = _SPATIAL[len(shape_and_dtype(data)[0]) - 2]
    make = operator(f"nn.conv{len(letters)}d")
    layouts = {"data_layout": f"NC{letters}", "kernel_layout": f"OI{letters}"}
    return operands.emit(make(data, weights, **layouts, **options))


def _size(axes: Sequence[Axis]) -> sizes.Extent:
    return sizes.product(axis.extent for axis in axes)


def _dimensions(load: TensorLoad, *groups: Sequence[Axis]) -> list[list[int]]:
    """The dimensions of a load that the axes of each group index."""
    numbers = {index: n for n, index in enumerate(load.indices)}
    return [[numbers[axis.var] for axis in group if axis.var in numbers] for group in groups]


def _with_dimensions(
    operands: Operands, load: TensorLoad, values: Values, *groups: Sequence[int]
) -> RelaxExpression:
    """Return the operand of a load, with each group of dimensions as one; others have size 1."""
    value = values[load.source]
    shape = shape_and_dtype(value)[0]
    idle = [n for n in range(len(shape)) if n not in chain(*groups)]
    groups = tuple(group or [idle.pop(0) for _ in idle[:1]] for group in groups)
    picked = list(chain(*groups))
    kept = sorted(picked)
    if picked != kept:
        value = reshaped(operands, value, [shape[dimension] for dimension in kept])
        order = [kept.index(dimension) for dimension in picked]
        value = operands.emit(relax.op.permute_dims(value, order))
    grouped = [sizes.product(shape[dimension] for dimension in group) for group in groups]
    return reshaped(operands, value, grouped)


def _result(
    operands: Operands, value: RelaxExpression, axes: Sequence[Axis], wanted: Sequence[Axis]
) -> RelaxExpression:
    """A result along some axes, in the order of the ``wanted`` ones."""
    value = reshaped(operands, value, [axis.extent for axis in axes])
    order = [axes.index(axis) for axis in wanted]
    if order == sorted(order):
        return value
    return operands.emit(relax.op.permute_dims(value, order))


def _missing(window: WindowIndex, size: sizes.Extent, before: int) -> sizes.Extent:
    """Return the number of elements after the data that the last window reaches."""
    last = (window.axis.extent - 1) * window.stride
    return sizes.simplified(last + (window.step.extent - 1) * window.dilation + 1 - size - before)


def _cut(
    operands: Operands, value: RelaxExpression, shape: Sequence[sizes.Extent]
) -> RelaxExpression:
    """The first elements of a value along each dimension, in exactly the expressions of a shape."""
    had = shape_and_dtype(value)[0]
    simple = [sizes.simplified(sizes.number(size, "int64")) for size in had]
    pairs = enumerate(zip(simple, shape, strict=True))
    axes = [n for n, (own, wanted) in pairs if not tvm_ffi.structural_equal(own, wanted)]
    if not axes:
        return value
    begin, end = [0] * len(axes), [shape[axis] for axis in axes]
    return operands.emit(relax.op.strided_slice(value, axes, begin, end, assume_inbound=True))
