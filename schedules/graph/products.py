"""Contractions as the Relax operators that they equal: ``matmul`` and convolutions.

Enters: a :class:`~tvm_nnef.schedules.graph.contractions.Contraction`, and the Relax values of the
buffers that it reads. Leaves: a Relax expression of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.graph.arranging import (
    CONVOLUTIONS,
    arranged,
    cut,
    extents_of,
    reshaped,
    settled,
    windowed,
)
from tvm_nnef.schedules.graph.contractions import Contraction, convolution_axes, matrix_axes
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.tvm_support.compat import RelaxExpression, shape_and_dtype

Values = Mapping[Any, RelaxExpression]


def as_product(operands: Operands, found: Contraction, values: Values) -> RelaxExpression | None:
    """The result of a contraction as that of an operator.

    None for a convolution whose padding is no number, as only a run tells the extents.
    """
    made = _product if found.is_product else _convolution
    return made(operands, found, values)


def _size(axes: Sequence[Axis]) -> sizes.Extent:
    return sizes.product(axis.extent for axis in axes)


def _product(operands: Operands, found: Contraction, values: Values) -> RelaxExpression:
    """A ``matmul`` of operands arranged as ``[both, rows, steps]``, ``[both, steps, columns]``."""
    axes = matrix_axes(found)
    assert axes is not None
    both, rows, columns = axes
    stage, steps = found.stage, list(found.stage.reduced)
    single = not both and len(steps) == len(rows) == 1 and 2 <= len(columns) <= 4
    if single and list(stage.axes) == [columns[0], *rows, *columns[1:]]:
        return _pointwise(operands, found, rows[0], columns, values)
    left = arranged(operands, values[found.source], found.left, [*both, *rows, *steps])
    right = arranged(operands, values[found.right.source], found.right, [*both, *steps, *columns])
    left_shape = [
        *extents_of(both),
        *(extents_of(rows) if not both else [_size(rows)]),
        _size(steps),
    ]
    right_shape = [*extents_of(both), _size(steps), _size(columns)]
    left = reshaped(operands, left, left_shape, extents_of([*both, *rows, *steps]))
    right = reshaped(operands, right, right_shape, extents_of([*both, *steps, *columns]))
    product = operands.emit(relax.op.matmul(left, right))
    made = [*left_shape[:-1], _size(columns)]
    ordered = [*both, *rows, *columns]
    whole = reshaped(operands, product, extents_of(ordered), made)
    return settled(operands, whole, ordered, stage.axes)


def _convolution(operands: Operands, found: Contraction, values: Values) -> RelaxExpression | None:
    """A convolution of the operands, arranged as ``[N, C, X...]`` and ``[O, C, X...]``."""
    axes = convolution_axes(found)
    assert axes is not None
    windows, channels = axes.windows, axes.channel.extent
    steps = [window.step for window in windows]
    group = [] if axes.group is None else [axes.group]
    if not all(map(sizes.is_known, (channels, *extents_of([*group, *steps])))):
        return None
    make, letters = CONVOLUTIONS[len(windows)]
    first = [axes.batch, *group, axes.channel]
    placed = windowed(operands, found.data, values[found.source], first)
    if placed is None:
        return None
    data, options = placed
    own = [*group, axes.output] if axes.depthwise else [*group, axes.output, axes.channel]
    weights = arranged(operands, values[found.right.source], found.right, [*own, *steps])
    if axes.depthwise:
        shape = [channels, 1, *extents_of(steps)]
        weights = operands.emit(relax.op.reshape(weights, tuple(shape)))
    if group:
        data = _joined(operands, data, 1)
        weights = _joined(operands, weights, 0)
    groups = channels if axes.depthwise else found.groups * _size(group)
    layouts = {"data_layout": f"NC{letters}", "kernel_layout": f"OI{letters}"}
    result = operands.emit(make(data, weights, **options, groups=groups, **layouts))
    if group:
        shape = list(shape_and_dtype(result)[0])
        shape[1:2] = extents_of([*group, axes.output])
        result = operands.emit(relax.op.reshape(result, tuple(shape)))
    ordered = [axes.batch, *group, axes.output, *(window.axis for window in windows)]
    made = cut(operands, result, extents_of(ordered))
    return settled(operands, made, ordered, found.stage.axes)


def _joined(operands: Operands, value: RelaxExpression, place: int) -> RelaxExpression:
    """The value with a dimension and the next one as one."""
    shape = list(shape_and_dtype(value)[0])
    shape[place : place + 2] = [sizes.product(shape[place : place + 2])]
    return operands.emit(relax.op.reshape(value, tuple(shape)))


def _pointwise(
    operands: Operands, found: Contraction, output: Axis, others: Sequence[Axis], values: Values
) -> RelaxExpression:
    """A product whose result has its new axis behind the first one: a convolution of size 1."""
    (channel,) = found.stage.reduced
    batch, *spatial = others
    make, letters = CONVOLUTIONS[len(spatial)]
    data = arranged(operands, values[found.right.source], found.right, [batch, channel, *spatial])
    weights = arranged(operands, values[found.source], found.left, [output, channel])
    shape = [output.extent, channel.extent, *[1] * len(spatial)]
    weights = operands.emit(relax.op.reshape(weights, tuple(shape)))
    layouts = {"data_layout": f"NC{letters}", "kernel_layout": f"OI{letters}"}
    return operands.emit(make(data, weights, **layouts))
