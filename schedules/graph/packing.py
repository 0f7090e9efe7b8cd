"""Convolutions and matrix products with their weights in panels.

Enters: Relax functions whose convolutions are channels last. Leaves: the same, with those operators
as calls of PrimFuncs that read weights in the order in which a register tile needs them: panels of
some output channels, ``[O/width, K..., C, width]``, the last one filled up with zeros. Constants
are packed here with NumPy; what is computed at run time is packed by a kernel of its own, where
that pays. The loops of the PrimFuncs are left to the rules.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from tvm_nnef.function_attributes import OP_PATTERN, FusionPattern
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.cpu import tiles
from tvm_nnef.schedules.graph.convolution_kernels import (
    Times,
    Window,
    by_channel,
    convolution,
    in_panels,
    is_exact,
)
from tvm_nnef.schedules.graph.pair_packing import paired
from tvm_nnef.schedules.graph.rewriting import Operands, operator_name, rewritten
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import Module, RelaxExpression, constant, shape_and_dtype

_DIRECT_COLUMNS = 256
"""An operand computed at run time with so many columns is read as it lies."""

_FEW_ROWS = 4
"""An operand computed at run time is read as it lies for so few rows of the other."""


def pack(mod: Module, machine: CpuModel) -> Module:
    """The module with convolutions and matrix products over packed weights."""

    def rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
        rule = _RULES.get(operator_name(node))
        return rule(operands, node, machine) if rule else None

    canonical = relax.transform.CanonicalizeBindings()(rewritten(mod, rewrite))
    return relax.transform.DeadCodeElimination()(canonical)


def _count(extents: Sequence[Any]) -> int:
    return sizes.typical(sizes.product(extents))


def _call(
    operands: Operands, function: Callable[..., Any], arguments: Sequence[Any], name: str
) -> RelaxExpression:
    return operands.builder.call_te(
        function,
        *arguments,
        primfunc_name_hint=name,
        primfunc_attrs={OP_PATTERN: int(FusionPattern.OUTPUT_ELEMENTWISE)},
    )


def _convolution(operands: Operands, call: Any, machine: CpuModel) -> RelaxExpression | None:
    attributes = call.attrs
    layout = str(attributes.data_layout)
    channels_last = layout[0] == "N" and layout[-1] == "C"
    if not channels_last or str(attributes.kernel_layout)[:2] != "OI":
        return None
    (_, dtype), (shape, _) = map(shape_and_dtype, call.args[:2])
    result_shape, result_dtype = shape_and_dtype(call)
    if result_dtype != dtype or not all(isinstance(extent, int) for extent in shape):
        return None
    window, groups = Window.of(attributes, shape[2:]), int(attributes.groups)
    plain = window.is_plain() and groups == 1
    rows = _count(result_shape[:-1]) if plain else _count(result_shape[-2:-1])
    columns, depth = shape[0] // groups, shape[1]
    data = call.args[0]
    exact = window.is_padded and is_exact(operands.view(call.args[1]), dtype)
    if columns == 1 and (groups > 1 or depth == 1):
        weights = _depthwise_weights(operands, call.args[1])
        outputs = shape_and_dtype(data)[0][-1]
        function = convolution(window, outputs, 1, None, by_channel, last=True, exact=exact)
        made = _call(operands, function, [data, weights], "conv")
        return made if depth == 1 else _summed(operands, made, groups)
    width = tiles.packed_width(rows, columns, bits_of(dtype), machine)
    filters, times = call.args[1], None
    pair = paired(operands, data, filters, (-1, 1), machine) if groups == 1 else None
    if pair is not None:
        (data, filters), times = pair, dot_products.products
    panels = _packed_weights(operands, filters, groups, width)
    depth, weight = shape_and_dtype(panels)[0][-2], in_panels(groups, columns, width)
    function = convolution(
        window, shape[0], groups, depth, weight, last=True, exact=exact, times=times
    )
    return _call(operands, function, [data, panels], "conv")


def _summed(operands: Operands, value: RelaxExpression, groups: int) -> RelaxExpression:
    """The sums over the channels of each group, where each group has one output."""
    value = operands.emit(value)
    *front, channels = shape_and_dtype(value)[0]
    parts = relax.op.reshape(value, (*front, groups, channels // groups))
    return relax.op.sum(operands.emit(parts), axis=-1)


def _depthwise_weights(operands: Operands, weights: RelaxExpression) -> RelaxExpression:
    """``[G, C, K...]`` as ``[K..., G*C]``."""
    shape = shape_and_dtype(weights)[0]
    order, channels = [*range(2, len(shape)), 0, 1], shape[0] * shape[1]
    array = operands.view(weights)
    if array is not None:
        return constant(array.transpose(order).reshape(*shape[2:], channels))
    moved = operands.emit(relax.op.permute_dims(weights, order))
    return operands.emit(relax.op.reshape(moved, (*shape[2:], channels)))


def _packed_weights(
    operands: Operands, weights: RelaxExpression, groups: int, width: int
) -> RelaxExpression:
    """``[G*O, C, K...]`` as panels ``[G, O/width, K..., C, width]``, G left out where it is 1."""
    shape, dtype = shape_and_dtype(weights)
    columns = shape[0] // groups
    panels = -(-columns // width)
    array = operands.view(weights)
    if array is None:
        return _packed_at_run_time(operands, weights, groups, width)
    split = array.reshape(groups, columns, *shape[1:])
    filled = np.zeros((groups, panels * width, *shape[1:]), dtype)
    filled[:, :columns] = split
    parts = filled.reshape(groups, panels, width, *shape[1:])
    order = [0, 1, *range(4, parts.ndim), 3, 2]
    packed = np.ascontiguousarray(parts.transpose(order))
    return constant(packed[0] if groups == 1 else packed)


def _packed_at_run_time(
    operands: Operands, weights: RelaxExpression, groups: int, width: int
) -> RelaxExpression:
    shape, dtype = shape_and_dtype(weights)
    columns = shape[0] // groups
    panels = -(-columns // width)

    def function(source: Any) -> Any:
        def element(*indices: Any) -> Any:
            group = 0 if groups == 1 else indices[0]
            panel, *steps, channel, lane = indices if groups == 1 else indices[1:]
            column = panel * width + lane
            value = source(group * columns + column, channel, *steps)
            if columns % width == 0:
                return value
            return tirx.if_then_else(column < columns, value, tirx.const(0, dtype))

        lead = [] if groups == 1 else [groups]
        return te.compute([*lead, panels, *shape[2:], shape[1], width], element, name="panels")

    return operands.emit(operands.builder.call_te(function, weights, primfunc_name_hint="pack"))


def _matmul(operands: Operands, call: Any, machine: CpuModel) -> RelaxExpression | None:
    """``[..., M, K]`` times ``[K, N]``, or times ``[..., K, N]`` with equal dimensions in front."""
    left, right = call.args[0], call.args[1]
    (left_shape, dtype), (right_shape, right_dtype) = map(shape_and_dtype, (left, right))
    if len(left_shape) < 2 or len(right_shape) < 2:
        return None
    if {dtype, right_dtype, shape_and_dtype(call)[1]} != {dtype}:
        return None
    *lead, _, columns = right_shape
    if sizes.same(columns, 1) or any(sizes.same(e, 0) for e in (*right_shape, *left_shape)):
        return None
    front = left_shape[:-2]
    if lead and not (len(front) == len(lead) and all(map(sizes.same, front, lead))):
        return None
    rows = _count(left_shape[-2:-1] if lead else left_shape[:-1])
    width = tiles.packed_width(rows, sizes.typical(columns), bits_of(dtype), machine)
    source, transposed = _source(operands, right)
    if rows <= _FEW_ROWS and operands.view(source) is None:
        # To pack what is read once or twice takes longer than to read it as it lies.
        return _call(operands, _dots(len(lead)), [left, source], "matmul") if transposed else None
    times: Times = operator.mul
    if not lead:
        axis = -1 if transposed else 0
        pair = paired(operands, left, source, (-1, axis), machine)
        turned = paired(operands, source, left, (axis, -1), machine) if pair is None else None
        if pair is not None:
            (left, source), times = pair, dot_products.products
        elif turned is not None:
            (source, left), times = turned, dot_products.products
        panels = _matrix_panels(operands, source, transposed, width)
    elif transposed or not sizes.is_known(columns) or columns > _DIRECT_COLUMNS:
        panels = _batch_panels(operands, source, transposed, width)
    else:
        return None
    # A kernel has symbols of its own, and panels do not tell how many columns they hold.
    arguments = [left, panels] if sizes.is_known(columns) else [left, panels, right]
    return _call(operands, _product(len(lead), columns, width, times), arguments, "matmul")


def _source(operands: Operands, right: RelaxExpression) -> tuple[RelaxExpression, bool]:
    """The operand, or what it is the transposition of (last two dimensions), and true for that."""
    transposition = operands.call(right, "permute_dims")
    if transposition is None:
        return right, False
    rank = len(transposition.ty.shape)
    axes = transposition.attrs.axes
    axes = [int(a) for a in axes] if axes is not None else list(reversed(range(rank)))
    if axes != [*range(rank - 2), rank - 1, rank - 2]:
        return right, False
    return transposition.args[0], True


def _matrix_panels(
    operands: Operands, source: RelaxExpression, transposed: bool, width: int
) -> RelaxExpression:
    array = operands.view(source)
    if array is None:
        return _batch_panels(operands, source, transposed, width)
    rows = array if transposed else array.T
    columns, depth = rows.shape
    panels = -(-columns // width)
    packed = np.zeros((panels, depth, width), array.dtype)
    for panel in range(panels):
        part = rows[panel * width : (panel + 1) * width]
        packed[panel, :, : len(part)] = part.T
    return constant(packed)


def _batch_panels(
    operands: Operands, source: RelaxExpression, transposed: bool, width: int
) -> RelaxExpression:
    _, dtype = shape_and_dtype(source)

    def function(matrix: Any) -> Any:
        *lead, first, second = map(sizes.extent, matrix.shape)
        depth, columns = (second, first) if transposed else (first, second)
        panels = sizes.quotient_above(columns, width)

        def element(*indices: Any) -> Any:
            *batch, panel, step, lane = indices
            column = panel * width + lane
            place = (column, step) if transposed else (step, column)
            value = matrix(*batch, *place)
            if sizes.is_divisible(columns, width):
                return value
            return tirx.if_then_else(column < columns, value, tirx.const(0, dtype))

        return te.compute([*lead, panels, depth, width], element, name="panels")

    return operands.emit(operands.builder.call_te(function, source, primfunc_name_hint="pack"))


def _dots(lead: int) -> Callable[..., Any]:
    """The product of rows with the rows of the second operand."""

    def function(left: Any, right: Any) -> Any:
        step = te.reduce_axis((0, left.shape[-1]), "k")

        def element(*indices: Any) -> Any:
            *place, column = indices
            return te.sum(left(*place, step) * right(*place[:lead], column, step), axis=step)

        return te.compute([*left.shape[:-1], right.shape[-2]], element, name="matmul")

    return function


def _product(lead: int, columns: sizes.Extent, width: int, times: Times) -> Callable[..., Any]:
    """The product with panels of ``columns``, or of those of a further tensor that tells them.

    ``times`` is what is added for an element and a weight.
    """

    def function(left: Any, panels: Any, told: Any = None) -> Any:
        step = te.reduce_axis((0, left.shape[-1]), "k")
        count = columns if told is None else told.shape[-1]

        def element(*indices: Any) -> Any:
            *place, column = indices
            weight = panels(*place[:lead], column // width, step, column % width)
            return te.sum(times(left(*place, step), weight), axis=step)

        return te.compute([*left.shape[:-1], count], element, name="matmul")

    return function


_Rule = Callable[[Operands, Any, CpuModel], RelaxExpression | None]

_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _convolution),
    "matmul": _matmul,
}
