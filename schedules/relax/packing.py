"""Convolutions and matrix products with their weights in panels.

Input: Relax functions whose convolutions are channels last. Output: the same, with those operators
as calls of PrimFuncs that read weights in the order in which a register tile needs them: panels of
some columns (output channels), ``[..., N/width, ..., width]``, the last one filled with zeros.
Constants are packed here with NumPy; operands computed at run time by a kernel, if that pays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.codegen.dot_products import SINGLE, Dot
from tvm_nnef.schedules.cpu.tile import tile_sizes
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.relax.convolution_kernels import (
    Weight,
    Window,
    by_channel,
    convolution,
    in_panels,
    is_exact,
)
from tvm_nnef.schedules.relax.rewriting import (
    CONVOLUTIONS,
    Operands,
    operator_name,
    permutation_axes,
    rewritten,
)
from tvm_nnef.schedules.relax.word_packing import in_words
from tvm_nnef.tvm_support.compat import (
    Array,
    Module,
    PrimExpression,
    RelaxExpression,
    constant,
    dtype_of,
    shape_and_dtype,
)
from tvm_nnef.tvm_support.function_attributes import OP_PATTERN, PANEL_WIDTH, FusionPattern

Function: TypeAlias = Callable[..., te.Tensor]
"""Functions that make the tensor of a kernel from those of its arguments."""


def pack(mod: Module, machine: CpuModel) -> Module:
    """The module with convolutions and matrix products over packed weights."""

    def rewrite(operands: Operands, node: Call) -> RelaxExpression | None:
        pack = _PACKED.get(operator_name(node))
        return pack(operands, node, machine) if pack else None

    return rewritten(mod, rewrite, _PACKED)


def _count(shape: Sequence[sizes.Extent]) -> int:
    return sizes.estimate(sizes.product(shape))


def _call(
    operands: Operands, function: Function, arguments: Sequence[RelaxExpression], name: str
) -> RelaxExpression:
    attributes = {OP_PATTERN: int(FusionPattern.OUTPUT_ELEMENTWISE)}
    return operands.builder.call_te(
        function, *arguments, primfunc_name_hint=name, primfunc_attrs=attributes
    )


def _convolution(operands: Operands, call: Call, machine: CpuModel) -> RelaxExpression | None:
    attributes, (data, filters) = call.attrs, call.args
    layout = str(attributes.data_layout)
    channels_last = layout[0] == "N" and layout[-1] == "C"
    if not channels_last or str(attributes.kernel_layout)[:2] != "OI":
        return None
    dtype, (shape, _) = shape_and_dtype(data)[1], shape_and_dtype(filters)
    result_shape, result_dtype = shape_and_dtype(call)
    if result_dtype != dtype or not sizes.are_known(shape):
        return None
    (outputs, depth, *size), groups = shape, int(attributes.groups)
    window, columns, steps = Window.of(call, size), outputs // groups, range(2, len(shape))
    exact = window.is_padded and is_exact(operands.view(filters), dtype)
    dot, words, width = SINGLE, None, None
    if groups > 1 and columns == 1:
        # Each output has its own inputs: vectors run along the groups.
        data = _codes(operands, data)
        weights = _reordered(operands, filters, [*steps, 1, 0])
        weight: Weight = by_channel
    else:
        plain = window.is_plain() and groups == 1
        rows = _count(result_shape[:-1]) if plain else _count(result_shape[-2:-1])
        width = tile_sizes.packed_width(rows, columns, bits_of(dtype), machine.adding(dtype))
        words = in_words(operands, data, filters, (-1, 1), machine, groups)
        if words is not None:
            data, filters, dot = words.data, words.weights, words.dot
            depth = shape_and_dtype(filters)[0][1]
        front = 0 if groups == 1 else 1
        if front:
            filters = operands.emit(relax.op.reshape(filters, (groups, columns, depth, *size)))
        order = [*range(front), *(step + front for step in steps), front + 1, front]
        weights = _panels(operands, filters, order, front, width)
        weight = in_panels(groups, columns, width)
        if groups > 1 and columns < machine.lanes(bits_of(dtype)):
            width = columns  # Tiles go over the groups, whose panels are filled in part.
    function = convolution(
        window, outputs, groups, depth, weight,
        last=True, exact=exact, dot=dot, fill=-words.low if words else 0,
        attributes=_attributes(width),
    )  # fmt: skip
    made = _call(operands, function, [data, weights], f"conv{dot.suffix}")
    return made if words is None else words.corrected(operands, made)


def _codes(operands: Operands, data: RelaxExpression) -> RelaxExpression:
    """Small integers that reals were cast from, which a kernel casts as it reads them; the data if
    they are others.
    """
    cast = operands.call(data, "astype")
    source = data if cast is None else cast.args[0]
    return source if shape_and_dtype(source)[1] in ("uint8", "int8", "int16") else data


def _attributes(width: int | None) -> Mapping[str, int] | None:
    """The attributes of a block that reads panels of a width, if there is one."""
    return None if width is None else {PANEL_WIDTH: width}


def _reordered(
    operands: Operands, weights: RelaxExpression, order: Sequence[int]
) -> RelaxExpression:
    """Weights with their dimensions in an order."""
    array = operands.view(weights)
    if array is not None:
        return constant(array.transpose(order))
    return operands.emit(relax.op.permute_dims(weights, order))


def _panels(
    operands: Operands,
    weights: RelaxExpression,
    order: Sequence[int],
    front: int,
    width: int,
) -> RelaxExpression:
    """Weights as panels ``[front..., N/width, inner..., width]``.

    ``order`` are the dimensions of the weights: so many in front, the inner ones, the columns.
    """
    array = operands.view(weights)
    if array is not None:
        return constant(_constant_panels(array.transpose(order), front, width))

    def panels(tensor: te.Tensor) -> te.Tensor:
        *outer, columns = (sizes.extent(tensor.shape[dimension]) for dimension in order)

        def element(*indices: PrimExpression) -> PrimExpression:
            column = indices[front] * width + indices[-1]
            at = (*indices[:front], *indices[front + 1 : -1], column)
            value = tensor(*(at[order.index(dimension)] for dimension in range(len(order))))
            if sizes.is_divisible(columns, width):
                return value
            return tirx.if_then_else(column < columns, value, tirx.const(0, dtype_of(value)))

        count = sizes.quotient_above(columns, width)
        return te.compute([*outer[:front], count, *outer[front:], width], element, name="panels")

    return operands.emit(operands.builder.call_te(panels, weights, primfunc_name_hint="pack"))


def _constant_panels(array: Array, front: int, width: int) -> Array:
    """``[front..., inner..., N]`` as panels."""
    *outer, columns = array.shape
    full, rest = divmod(columns, width)
    panels = np.zeros((*outer[:front], full + (rest > 0), *outer[front:], width), array.dtype)
    filled = np.moveaxis(panels, front, -2)
    filled[..., :full, :] = array[..., : full * width].reshape(*outer, full, width)
    filled[..., full:, :rest] = array[..., None, full * width :]
    return panels


def _matmul(operands: Operands, call: Call, machine: CpuModel) -> RelaxExpression | None:
    """``[..., M, K]`` times ``[K, N]``, or times ``[..., K, N]`` with equal leading dimensions."""
    left, right = call.args
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
    count, adding = sizes.estimate(columns), machine.adding(dtype)
    width = tile_sizes.packed_width(rows, count, bits_of(dtype), adding)
    weights, transposed = _untransposed(operands, right)
    if rows <= machine.few_rows and operands.view(weights) is None:
        # Packing takes longer than reading a few times without packing.
        function = _product(len(lead), None, None)
        return _call(operands, function, [left, weights], "matmul") if transposed else None
    direct = sizes.is_known(columns) and columns <= machine.direct_columns
    if lead and direct and not transposed:
        return None
    dot = SINGLE
    words = None
    if not lead:
        axis = -1 if transposed else 0
        words = in_words(operands, left, weights, (-1, axis), machine)
        turned = in_words(operands, weights, left, (axis, -1), machine) if words is None else None
        if words is not None:
            left, weights, dot = words.data, words.weights, words.dot
        elif turned is not None:
            weights, left, dot = turned.data, turned.weights, turned.dot
    inner, column = len(lead) + transposed, len(lead) + 1 - transposed
    panels = _panels(operands, weights, [*range(len(lead)), inner, column], len(lead), width)
    # A kernel has its own symbols, and the shape of panels does not define the columns.
    arguments = [left, panels] if sizes.is_known(columns) else [left, panels, right]
    product = _product(len(lead), columns, width, dot)
    made = _call(operands, product, arguments, f"matmul{dot.suffix}")
    return made if words is None else words.corrected(operands, made)


def _untransposed(operands: Operands, right: RelaxExpression) -> tuple[RelaxExpression, bool]:
    """The operand, or what it is the transposition of (last two dimensions), and true for that."""
    call = operands.call(right, "permute_dims")
    *lead, first, second = permutation_axes(call) if call is not None else (0, 1)
    if call is None or [*lead, second, first] != [*range(len(lead) + 2)]:
        return right, False
    return call.args[0], True


def _product(
    lead: int, columns: sizes.Extent | None, width: int | None, dot: Dot = SINGLE
) -> Function:
    """The product with panels of ``columns``, or of as many as a further tensor has.

    Without a width, that with the rows of the second operand. ``dot`` is what a step adds.
    """

    def function(left: te.Tensor, right: te.Tensor, whole: te.Tensor | None = None) -> te.Tensor:
        step = te.reduce_axis((0, left.shape[-1] // dot.loaded), "k")
        count = columns if whole is None else whole.shape[-1]

        def element(*indices: PrimExpression) -> PrimExpression:
            *row, column = indices
            at = [column, step] if width is None else [column // width, step, column % width]
            first = step.var * dot.loaded
            values = [left(*row, first + number) for number in range(dot.loaded)]
            return te.sum(dot.term(values, right(*row[:lead], *at)), axis=step)

        shape = [*left.shape[:-1], right.shape[-2] if width is None else count]
        return te.compute(shape, element, name="matmul", attrs=_attributes(width))

    return function


_PACKED: Mapping[str, Callable[[Operands, Call, CpuModel], RelaxExpression | None]] = {
    **dict.fromkeys(CONVOLUTIONS, _convolution),
    "matmul": _matmul,
}
