"""Products with constant weights that are codes of few bits, which stay packed.

Input: Relax functions with a ``matmul`` whose right operand is computed from constants, whatever
operators and kernels compute it. Output: the same with that product as a call of a kernel that
reads codes of 2, 4 or 8 bits, if ``(code - zero) * scale`` is what is computed, with a zero and a
scale for each block of rows. The codes are found by computing them with NumPy, so it does not
matter how they were stored. No weight of float32 is ever made.

A kernel reads panels of some columns: ``[N/width, K/codes, width]`` int32, each of which holds
codes of neighbouring rows, and scales (and zeros) ``[N/width, K/block, width]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis.evaluation import evaluated, evaluator
from tvm_nnef.schedules.analysis.kernel import Kernel
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.relax.constant_elements import ConstantReader, at_load, varies
from tvm_nnef.schedules.relax.constant_factors import factors
from tvm_nnef.schedules.relax.rebuilding import call_kernel, kernel_at_call
from tvm_nnef.schedules.relax.rewriting import Operands, operator_name, rewritten
from tvm_nnef.tir.expressions import (
    loads,
    with_loads,
)
from tvm_nnef.tvm_support.compat import (
    Array,
    Buffer,
    Module,
    PrimExpression,
    PrimFunction,
    RelaxExpression,
    Var,
    constant,
    constant_array,
    prim_functions,
    shape_and_dtype,
)
from tvm_nnef.tvm_support.function_attributes import (
    CODE_BITS,
    INT8_DATA,
    OP_PATTERN,
    PANEL_WIDTH,
    FusionPattern,
)
from tvm_nnef.tvm_support.threads import available_cores

_BITS = (2, 4, 8)

_WORD = 32
"""The bits of an element that holds codes."""

_LEAST = 1 << 12
"""Smaller weights are computed once, and are then like others."""

LONGEST_BLOCK = 256
"""The most codes of a block: the longest sum without its scale."""

_CLOSE = 1e-4
"""Largest distance of reals from a whole step: those whose zero is real were rounded."""

_SLAB = 1 << 19
"""The elements that a thread computes at a time: few enough for the last cache and for memory."""


def keep_codes(mod: Module, machine: CpuModel, *, int8_activations: bool = False) -> Module:
    """The module with products that read codes; their data may be rounded if
    ``int8_activations``.
    """
    functions = prim_functions(mod)

    def rewrite(operands: Operands, node: Call) -> RelaxExpression | None:
        match operator_name(node):
            case "matmul":
                more = {INT8_DATA: 1} if int8_activations else {}
                return _with_codes(operands, node, functions, machine, more)
            case "call_tir" if len(node.args) == 2:
                return _with_gathered_codes(operands, node, functions)
        return None

    return rewritten(mod, rewrite, ("matmul", "call_tir"))


def _with_codes(
    operands: Operands,
    call: Call,
    functions: Mapping[str, PrimFunction],
    machine: CpuModel,
    more: Mapping[str, int],
) -> RelaxExpression | None:
    """The product over codes, with ``more`` attributes; None if the weights are not such."""
    left, right = call.args
    (left_shape, dtype), (shape, _) = map(shape_and_dtype, (left, right))
    if dtype != "float32" or len(left_shape) < 2 or len(shape) != 2:
        return None
    if not all(isinstance(each, int) for each in shape) or int(np.prod(shape)) < _LEAST:
        return None
    if shape_and_dtype(call)[1] != dtype or constant_array(operands.definition(right)) is not None:
        return None
    reader = ConstantReader(operands, functions, {})
    found = reader.element(right)
    weights = None if found is None else _weights(*found, shape, reader.arrays)
    if weights is None:
        return None
    columns, width = shape[1], machine.code_panel
    product = operands.emit(_product(operands, left, weights, width, more))
    if columns % width == 0:
        return product
    last = len(left_shape) - 1
    return relax.op.strided_slice(product, [last], [0], [columns], assume_inbound=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Codes ``[N, K]`` of some bits; scales, and zeros or one for all, ``[N, K/block]``."""

    codes: Array
    bits: int
    scales: Array
    zeros: Array | float


def _has_codes(arrays: Mapping[Buffer, Array]) -> bool:
    """Whether many bytes are among arrays."""
    stored = arrays.values()
    return any(each.dtype.itemsize == 1 and each.size >= _LEAST // 8 for each in stored)


def _with_gathered_codes(
    operands: Operands, call: Call, functions: Mapping[str, PrimFunction]
) -> RelaxExpression | None:
    """A kernel that reads elements of a weight at indices from data, and computes just these."""
    name, arguments = str(call.args[0].name_hint), [*call.args[1].fields]
    function = functions.get(name)
    kernel = None if function is None else kernel_at_call(function, arguments)
    if kernel is None or len(kernel.stages) != 1 or kernel.stages[0].reduced:
        return None
    (stage,) = kernel.stages
    given = dict(zip(kernel.inputs, arguments, strict=True))
    for buffer, argument in given.items():
        uses = loads(stage.value, buffer)
        gathers = bool(uses) and all(any(map(loads, load.indices)) for load in uses)
        if not gathers or constant_array(operands.definition(argument)) is not None:
            continue
        reader = ConstantReader(operands, functions, {})
        found = reader.element(argument)
        if found is None or not _has_codes(reader.arrays):
            continue
        computed = with_loads(stage.value, buffer, partial(at_load, found))
        read = {other: each for other, each in given.items() if other is not buffer}
        read |= {other: constant(array) for other, array in reader.arrays.items()}
        stages = (replace(stage, value=computed),)
        made = Kernel((*read, stage.buffer), stages, kernel.index_type)
        return call_kernel(operands.builder, made, [*read.values()], name)
    return None


def _weights(
    axes: Sequence[Var],
    value: PrimExpression,
    shape: Sequence[int],
    arrays: Mapping[Buffer, Array],
) -> _Weights | None:
    """The weights ``[K, N]`` whose elements an expression computes; None if they are not codes."""
    if not _has_codes(arrays):
        return None
    row, column = axes
    rows, columns = shape
    found = factors(value)
    for block in range(min(LONGEST_BLOCK, rows), 0, -1):
        if rows % block or block % (_WORD // max(_BITS)):
            continue
        inside = [each for each in found if varies(each, row, rows, block)]
        if len(inside) == 1:
            break
    else:
        return None
    (steps,) = inside
    scales = [each for each in found if each is not steps]
    grid = {row: np.arange(0, rows, block)[None, :], column: np.arange(columns)[:, None]}
    scale = np.ones((columns, rows // block), np.float32)
    for each in scales:
        factor = evaluated(each, grid, arrays)
        if factor is None:
            return None
        scale = scale * factor.astype(np.float32)
    whole = _steps(steps, axes, (rows, columns), block, arrays)
    return None if whole is None else _coded(*whole, scale)


def _steps(
    value: PrimExpression,
    axes: Sequence[Var],
    shape: tuple[int, int],
    block: int,
    arrays: Mapping[Buffer, Array],
) -> tuple[Array, Array] | None:
    """Integers ``[N, K]``, and what is added to those of a block ``[N, K/block]``: both together
    are the values of an expression. None if these are not whole steps apart.
    """
    (row, column), (rows, columns) = axes, shape
    whole = np.empty((columns, rows), np.int16)
    offsets = np.zeros((columns, rows // block), np.float32)
    evaluate, height = evaluator(value, arrays), max(1, _SLAB // rows)
    all_rows, all_columns = np.arange(rows)[None, :], np.arange(columns)[:, None]

    def fill(first: int) -> bool:
        """Compute some columns; whether their values are whole steps apart."""
        part = slice(first, min(first + height, columns))
        found = evaluate({row: all_rows, column: all_columns[part]})
        if found is None:
            return False
        reals = np.broadcast_to(found, whole[part].shape).astype(np.float32, copy=False)
        steps = np.rint(reals)
        if not np.array_equal(steps, reals):
            blocks = reals.reshape(*offsets[part].shape, block)
            offsets[part] = blocks.min(-1)
            exact = blocks - offsets[part][..., None]
            steps = np.rint(exact)
            if not np.all(np.abs(steps - exact) < _CLOSE):
                return False
        if not np.all(np.abs(steps) < np.iinfo(np.int16).max):
            return False
        whole[part] = steps.reshape(whole[part].shape)
        return True

    with ThreadPoolExecutor(available_cores()) as threads:
        filled = all(threads.map(fill, range(0, columns, height)))
    return (whole, offsets) if filled else None


def _coded(whole: Array, offsets: Array, scales: Array) -> _Weights | None:
    """Integers as codes of as few bits as possible: with one zero for all if that takes no more."""
    blocks = whole.reshape(*offsets.shape, -1)
    single, least, most = not offsets.any(), int(whole.min()), int(whole.max())
    for bits in _BITS:
        if blocks.shape[-1] % (_WORD // bits):
            continue
        if single and most - least < 1 << bits:
            zero = _zero(least, most, bits)
            whole += np.int16(zero)
            return _Weights(whole.astype(np.uint8), bits, scales, float(zero))
        if np.ptp(blocks[0].astype(np.int32), -1).max() >= 1 << bits:
            continue  # The blocks of one column show it, mostly, and all of them take long.
        low, high = blocks.min(-1).astype(np.int32), blocks.max(-1).astype(np.int32)
        if (high - low).max() >= 1 << bits:
            continue
        zeros = np.where(high < 1 << bits, np.maximum(-low, 0), -low)
        codes = (blocks + zeros[..., None]).astype(np.uint8).reshape(whole.shape)
        reals = zeros - offsets
        as_bytes = reals.astype(np.uint8)
        same = np.array_equal(as_bytes, reals)
        return _Weights(codes, bits, scales, as_bytes if same else reals)
    return None


def _zero(low: int, high: int, bits: int) -> int:
    """The code of zero for integers in a range: the middle one if that fits, as is usual."""
    middle = 1 << bits - 1
    if low >= 0 and high < 1 << bits:
        return 0
    return middle if -middle <= low and high < middle else -low


def _words(codes: Array, bits: int, width: int) -> Array:
    """Codes ``[N, K]`` as int32 in panels ``[N/width, K/codes, width]``, those of 0 after N."""
    while bits < 8:
        codes = codes[:, 0::2] | (codes[:, 1::2] << bits)
        bits *= 2
    words = np.ascontiguousarray(codes).view("<i4").astype(np.int32, copy=False)
    return _panels(words, width)


def _panels(array: Array, width: int) -> Array:
    """``[N, R]`` as panels ``[N/width, R, width]``, filled with zeros."""
    columns, rows = array.shape
    filled = np.zeros((-(-columns // width) * width, rows), array.dtype)
    filled[:columns] = array
    panels: Array = filled.reshape(-1, width, rows).transpose(0, 2, 1)
    return panels


def _product(
    operands: Operands,
    left: RelaxExpression,
    weights: _Weights,
    width: int,
    more: Mapping[str, int],
) -> RelaxExpression:
    """The call of a kernel that multiplies with codes."""
    bits, count, (_, blocks) = weights.bits, _WORD // weights.bits, weights.scales.shape
    depth = weights.codes.shape[1]
    in_block = depth // blocks // count
    zeros = weights.zeros
    panels = [_words(weights.codes, bits, width), _panels(weights.scales, width)]
    panels += [_panels(zeros, width)] if isinstance(zeros, np.ndarray) else []

    def function(
        data: te.Tensor, words: te.Tensor, scales: te.Tensor, offsets: te.Tensor | None = None
    ) -> te.Tensor:
        block, word, code = (
            te.reduce_axis((tirx.const(0, "int64"), tirx.const(extent, "int64")), name)
            for extent, name in ((blocks, "block"), (in_block, "word"), (count, "code"))
        )
        mask, step = tirx.const((1 << bits) - 1, "int32"), tirx.const(bits, "int32")

        def element(*indices: PrimExpression) -> PrimExpression:
            *row, column = indices
            panel, lane = column // width, column % width
            number = block * in_block + word
            shift = tirx.Cast("int32", code.var) * step
            weight: PrimExpression = tirx.Cast(
                "float32", words(panel, number, lane) >> shift & mask
            )
            if offsets is not None:
                weight = weight - tirx.Cast("float32", offsets(panel, block, lane))
            elif zeros:
                weight = weight - tirx.const(zeros, "float32")
            weight = weight * scales(panel, block, lane)
            term = data(*row, number * count + code) * weight
            return te.sum(term, axis=[block, word, code])

        shape = [*data.shape[:-1], words.shape[0] * width]
        attributes = {PANEL_WIDTH: width, CODE_BITS: bits, **more}
        return te.compute(shape, element, name="matmul", attrs=attributes)

    attributes = {OP_PATTERN: int(FusionPattern.OUTPUT_ELEMENTWISE)}
    return operands.builder.call_te(
        function, left, *map(constant, panels),
        primfunc_name_hint="matmul_codes", primfunc_attrs=attributes,
    )  # fmt: skip
