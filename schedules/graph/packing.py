"""Convolutions and matrix products with their weights in panels.

Input: Relax functions whose convolutions are channels last. Output: the same, with those operators
as calls of PrimFuncs that read weights in the order in which a register tile needs them: panels of
some output channels, ``[O/width, K..., C, width]``, the last one padded with zeros. Constants are
packed here with NumPy; operands computed at run time are packed by a kernel, if that pays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from tvm_nnef.function_attributes import OP_PATTERN, PANEL_WIDTH, FusionPattern
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
from tvm_nnef.schedules.graph.rewriting import CONVOLUTIONS, Operands, operator_name, rewritten
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimExpression,
    RelaxExpression,
    constant,
    dtype_of,
    shape_and_dtype,
)

_DIRECT_COLUMNS = 256
"""An operand computed at run time with at most so many columns is not packed."""

_FEW_ROWS = 4
"""An operand computed at run time is not packed for so few rows of the other."""


def pack(mod: Module, machine: CpuModel) -> Module:
    """The module with convolutions and matrix products over packed weights."""

    def rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
        pack = _PACKED.get(operator_name(node))
        return pack(operands, node, machine) if pack else None

    canonical = relax.transform.CanonicalizeBindings()(rewritten(mod, rewrite))
    return relax.transform.DeadCodeElimination()(canonical)


def _count(extents: Sequence[Any]) -> int:
    return sizes.estimate(sizes.product(extents))


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
        window,
        shape[0],
        groups,
        depth,
        weight,
        last=True,
        exact=exact,
        times=times,
        attributes={PANEL_WIDTH: width},
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
    """``[G*O, C, K...]`` as panels ``[G, O/width, K..., C, width]``, without G if it is 1."""
    array = operands.view(weights)
    if array is not None:
        return _constant_panels(array, groups, width)
    outputs, depth, *steps = shape_and_dtype(weights)[0]
    columns = outputs // groups

    def panels(source: Any) -> Any:
        def element(group: Sequence[Any], column: Any, inner: Sequence[Any]) -> Any:
            first = group[0] * columns if group else 0
            return source(first + column, inner[-1], *inner[:-1])

        front = [] if groups == 1 else [groups]
        return _panels(front, columns, width, [*steps, depth], element)

    return operands.emit(operands.builder.call_te(panels, weights, primfunc_name_hint="pack"))


def _constant_panels(array: np.ndarray[Any, Any], groups: int, width: int) -> RelaxExpression:
    """The panels of constant weights ``[G*O, C, K...]``."""
    outputs, *inner = array.shape
    columns = outputs // groups
    full, rest = divmod(columns, width)
    split = array.reshape(groups, columns, *inner)
    packed = np.zeros((groups, full + (rest > 0), *inner[1:], inner[0], width), array.dtype)
    panels = np.moveaxis(packed, (-1, -2), (2, 3))
    panels[:, :full] = split[:, : full * width].reshape(groups, full, width, *inner)
    panels[:, full:, :rest] = split[:, None, full * width :]
    return constant(packed[0] if groups == 1 else packed)


def _panels(
    front: Sequence[Any],
    columns: sizes.Extent,
    width: int,
    inner: Sequence[Any],
    element: Callable[[Sequence[Any], Any, Sequence[Any]], PrimExpression],
) -> Any:
    """The tensor ``[front..., columns/width, inner..., width]``, the last panel padded with 0.

    ``element`` is what it holds at indices of ``front``, a column, and indices of ``inner``.
    """
    count = len(front)

    def padded(*indices: Any) -> Any:
        column = indices[count] * width + indices[-1]
        value = element(indices[:count], column, indices[count + 1 : -1])
        if sizes.is_divisible(columns, width):
            return value
        return tirx.if_then_else(column < columns, value, tirx.const(0, dtype_of(value)))

    panels = sizes.quotient_above(columns, width)
    return te.compute([*front, panels, *inner, width], padded, name="panels")


def _matmul(operands: Operands, call: Any, machine: CpuModel) -> RelaxExpression | None:
    """``[..., M, K]`` times ``[K, N]``, or times ``[..., K, N]`` with equal leading dimensions."""
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
    width = tiles.packed_width(rows, sizes.estimate(columns), bits_of(dtype), machine)
    source, transposed = _source(operands, right)
    if rows <= _FEW_ROWS and operands.view(source) is None:
        # Packing takes longer than reading a few times without packing.
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
        panels = _matrix_panels(operands, source, transposed, width)
    else:
        return None
    # A kernel has symbols of its own, and the shape of panels does not define the columns.
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
    """``[..., K, N]``, or ``[..., N, K]`` if transposed, as panels ``[..., N/width, K, width]``."""

    def panels(matrix: Any) -> Any:
        *lead, first, second = map(sizes.extent, matrix.shape)
        depth, columns = (second, first) if transposed else (first, second)

        def element(batch: Sequence[Any], column: Any, step: Sequence[Any]) -> Any:
            return matrix(*batch, *((column, *step) if transposed else (*step, column)))

        return _panels(lead, columns, width, [depth], element)

    array = operands.view(source)
    if array is not None and array.ndim == 2:
        return _constant_panels(array if transposed else array.T, 1, width)
    return operands.emit(operands.builder.call_te(panels, source, primfunc_name_hint="pack"))


def _dots(lead: int) -> Callable[..., Any]:
    """The product of rows with the rows of the second operand."""

    def function(left: Any, right: Any) -> Any:
        step = te.reduce_axis((0, left.shape[-1]), "k")

        def element(*indices: Any) -> Any:
            *row, column = indices
            return te.sum(left(*row, step) * right(*row[:lead], column, step), axis=step)

        return te.compute([*left.shape[:-1], right.shape[-2]], element, name="matmul")

    return function


def _product(lead: int, columns: sizes.Extent, width: int, times: Times) -> Callable[..., Any]:
    """The product with panels of ``columns``, or of as many as a further tensor has.

    ``times`` is what is added for an element and a weight.
    """

    def function(left: Any, panels: Any, right: Any = None) -> Any:
        step = te.reduce_axis((0, left.shape[-1]), "k")
        count = columns if right is None else right.shape[-1]

        def element(*indices: Any) -> Any:
            *row, column = indices
            weight = panels(*row[:lead], column // width, step, column % width)
            return te.sum(times(left(*row, step), weight), axis=step)

        shape = [*left.shape[:-1], count]
        return te.compute(shape, element, name="matmul", attrs={PANEL_WIDTH: width})

    return function


_PACKED: Mapping[str, Callable[[Operands, Any, CpuModel], RelaxExpression | None]] = {
    **dict.fromkeys(CONVOLUTIONS, _convolution),
    "matmul": _matmul,
}
