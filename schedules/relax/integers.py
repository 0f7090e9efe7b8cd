"""Quantized networks computed in integers.

Input: Relax functions with operators on reals that were integers times a scale (``dequantized``),
and with reals that are rounded and limited (``quantized``), whatever format they are from. Output:
the same functions, in which

- a convolution or product of such reals with such constant weights is that of the integers, times
  the scales;
- what moves data, and max pooling, moves integers;
- a quantized tensor is its *codes*: the zero point subtracted, in bytes if these hold the
  difference, else in int16. Padding is 0, and neighbouring codes are operands of dot products
  (:mod:`word_packing`) as they are;
- the scale of a quantization goes into the factors of what is quantized.

A real that lies within a rounding error of the middle between two codes may get the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm import relax
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.relax.code_products import LONGEST_BLOCK
from tvm_nnef.schedules.relax.dequantized import (
    WHOLE,
    Dequantized,
    TensorReader,
    again_with,
    as_dtype,
    as_real,
    narrowed,
)
from tvm_nnef.schedules.relax.quantized_codes import CODES, Quantization
from tvm_nnef.schedules.relax.quantizers import (
    Reader,
)
from tvm_nnef.schedules.relax.ranges import Range, range_of
from tvm_nnef.schedules.relax.rewriting import (
    CONVOLUTIONS,
    Operands,
    again,
    calls_any,
    operator_name,
    rewritten,
)
from tvm_nnef.tvm_support.compat import (
    Array,
    Module,
    RelaxExpression,
    constant,
    is_tensor,
    prim_functions,
    shape_and_dtype,
)

_ADDED = np.iinfo("int32").max
"""Upper limit of a sum of products."""

_EXACT = 1 << 24
"""Below it float32 holds all integers."""

_LARGEST = 1 << 24
"""Weights of more elements stay integers, that a library does not grow by gigabytes."""

_CONTRACTIONS = (*CONVOLUTIONS, "matmul")


Note: TypeAlias = "Callable[[str, str], None]"


def _ignored(variable: str, reason: str) -> None:
    """Takes no note."""


def with_integers(mod: Module, machine: object, note: Note = _ignored) -> Module:
    """The module with quantized tensors computed in integers, if the machine multiplies these.

    On other machines weights become reals. ``note`` is called with the variable of a convolution
    or product of quantized operands that stays real, and with the reason.
    """
    reader, functions = Reader(), prim_functions(mod)
    has_contractions = calls_any(mod, _CONTRACTIONS)
    in_words = isinstance(machine, CpuModel) and dot_products.multiplies_words(machine)

    def rewrite(operands: Operands, node: Call) -> RelaxExpression | None:
        tensors = TensorReader(operands, reader, functions)
        contractions = _Contractions(operands, tensors, isinstance(machine, CpuModel), note)
        if in_words:
            quantization = Quantization(operands, tensors, has_contractions)
            return _Rewrite(operands, tensors, contractions, quantization).apply(node)
        if operator_name(node) not in _CONTRACTIONS:
            return None
        reason = "the machine does not multiply integers of 8 or 16 bits"
        return contractions.real_weights(node, reason)

    changed = (*_CONTRACTIONS, *_MOVING, "call_tir", "astype", "subtract")
    return rewritten(mod, rewrite, changed if in_words else _CONTRACTIONS)


@dataclass(frozen=True, slots=True)
class _Contractions:
    """Rewrites convolutions and products of quantized tensors."""

    operands: Operands
    tensors: TensorReader
    keeps_codes: bool
    note: Note

    def contraction(self, call: Call) -> RelaxExpression | None:
        """A convolution or product with constant weights."""
        data, weights = call.args[:2]
        if shape_and_dtype(call)[1] == "int32":
            is_constant = self.operands.array(weights) is not None
            array = None if is_constant else self.tensors.value(weights)
            return None if array is None else again(call, data, constant(array))
        known = self.tensors.weights(weights, _outputs(call))
        found = self.tensors.dequantized(data)
        obstacle = self._obstacle(call, found, known)
        if known is not None and found is not None and not obstacle:
            return self._of_integers(call, found, known)
        if found is not None or known is not None:
            self.note(self.operands.name, obstacle)
        if known is not None and found is not None and self._is_exact_in_reals(call, found, known):
            return self._of_integers(call, found, known, "float32")
        return self._with_real_weights(call, known)

    def _is_exact_in_reals(
        self, call: Call, found: Dequantized, known: tuple[Array, Array]
    ) -> bool:
        """Whether float32 holds the sums of a convolution of one channel to each output."""
        limits, weights = range_of(self.operands, found.integers), known[0]
        if operator_name(call) not in CONVOLUTIONS or weights.shape[1] != 1 or not weights.size:
            return False
        if limits is None or not _is_scalar(found.scale):
            return False
        return bool(_largest_sum(weights, limits, 0) < _EXACT)

    def real_weights(self, call: Call, reason: str) -> RelaxExpression | None:
        """A contraction with dequantized weights as a constant, if that is not too large."""
        known = self.tensors.weights(call.args[1], _outputs(call))
        if known is not None:
            self.note(self.operands.name, reason)
        return self._with_real_weights(call, known)

    def _with_real_weights(
        self, call: Call, known: tuple[Array, Array] | None
    ) -> RelaxExpression | None:
        if known is None or known[0].size > _LARGEST or shape_and_dtype(call)[1] != "float32":
            return None
        is_product = operator_name(call) == "matmul"
        if self.keeps_codes and is_product and known[0].shape[0] <= LONGEST_BLOCK:
            return None  # Its codes are one block (:mod:`code_products`).
        weights = (known[0] * known[1].astype("float32")).astype("float32")
        return again(call, call.args[0], constant(weights))

    def _of_integers(
        self,
        call: Call,
        found: Dequantized,
        weights: tuple[Array, Array],
        dtype: str = "int32",
    ) -> RelaxExpression:
        """Return a contraction of dequantized reals and such weights as that of integers, which
        have a dtype.
        """
        integers, scale = weights
        inner = integers.ndim - 2 if operator_name(call) in CONVOLUTIONS else 0
        scale = scale.reshape((-1,) + (1,) * inner)
        if dtype == "float32":
            wide = as_real(self.operands, found.integers)
        else:
            wide = as_dtype(self.operands, found.integers, dtype)
        product = self.operands.emit(again(call, wide, constant(integers.astype(dtype))))
        reals = as_dtype(self.operands, product, "float32")
        return relax.op.multiply(reals, self._product(found.scale, scale))

    def _obstacle(
        self, call: Call, found: Dequantized | None, known: tuple[Array, Array] | None
    ) -> str:
        """Return why a contraction is not that of integers; empty if it can be."""
        shape, outputs = shape_and_dtype(call.args[1])[0], _outputs(call)
        if outputs != 0:
            if len(shape) != 2 or sizes.same(shape[0], 1):
                return "its weights are not a matrix"
        elif isinstance(shape[1], int) and (
            shape[1] == 1 or (int(call.attrs.groups) > 1 and shape[1] % 2)
        ):
            return "the channels of a group are not pairs"
        if known is None:
            return "its weights are not constants with one scale for each output"
        limits = None if found is None else range_of(self.operands, found.integers)
        if found is None or not _is_scalar(found.scale) or limits is None:
            return "its input is not quantized with one scale"
        weights = known[0]
        if not weights.size:
            return "it is empty"
        half = np.iinfo(CODES)
        inside = half.min <= min(limits) and max(limits) <= half.max
        if not (inside and half.min <= weights.min() and weights.max() <= half.max):
            return "its codes have more than 16 bits"
        largest = _largest_sum(weights, limits, outputs)
        return "" if largest <= _ADDED else "its sums may exceed an int32"

    def _product(self, scale: RelaxExpression, factor: Array) -> RelaxExpression:
        """A scale times a constant."""
        array = self.tensors.value(scale)
        if array is not None:
            return constant((array.reshape(()) * factor).astype("float32"))
        if shape_and_dtype(scale)[0]:
            scale = self.operands.emit(relax.op.reshape(scale, ()))
        return self.operands.emit(relax.op.multiply(scale, constant(factor)))


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Rewrites one call, whose operands are already rewritten."""

    operands: Operands
    tensors: TensorReader
    contractions: _Contractions
    quantization: Quantization

    def apply(self, call: Call) -> RelaxExpression | None:
        """Return the expression that replaces the call; None if it stays."""
        name = operator_name(call)
        if not is_tensor(call):
            return None
        if name in _CONTRACTIONS:
            return self.contractions.contraction(call)
        if name in _MOVING:
            return self._moved(call)
        match name:
            case "call_tir":
                return self.quantization.kernel(call)
            case "astype":
                return self._cast(call)
            case "subtract":
                return self._difference(call)
        return None

    def _moved(self, call: Call) -> RelaxExpression | None:
        """Return an operator that moves the elements of dequantized tensors, on the integers."""
        tupled = isinstance(call.args[0], relax.Tuple)
        parts = list(call.args[0].fields) if tupled else [call.args[0]]
        found = [self.tensors.dequantized(part) for part in parts]
        known = [each for each in found if each is not None]
        if len(known) < len(parts) or not _MOVING[operator_name(call)](call):
            return None
        scales = [self.tensors.value(each.scale) for each in known]
        first = scales[0]
        if first is None or first.size != 1 or not first.item() > 0:
            return None
        if any(scale is None or scale.size != 1 or scale != first for scale in scales):
            return None
        integers = [narrowed(self.operands, each.integers) for each in known]
        dtypes = {shape_and_dtype(each)[1] for each in integers}
        if len(dtypes) > 1:
            return None
        made = again_with(call, relax.Tuple(integers) if tupled else integers[0])
        real = as_real(self.operands, self.operands.emit(made))
        return relax.op.multiply(real, constant(first.reshape(())))

    def _cast(self, call: Call) -> RelaxExpression | None:
        """Integers that were cast to fewer bits which hold them, and are cast back."""
        dtype, inner = shape_and_dtype(call)[1], self.operands.call(call.args[0], "astype")
        if inner is None or dtype not in WHOLE:
            return None
        source, between = inner.args[0], shape_and_dtype(inner)[1]
        if shape_and_dtype(source)[1] != dtype or between not in WHOLE:
            return None
        limits, whole = range_of(self.operands, source), np.iinfo(between)
        fits = limits is not None and whole.min <= limits[0] and limits[1] <= whole.max
        return source if fits else None

    def _difference(self, call: Call) -> RelaxExpression | None:
        """Integers less a zero point that was added to them."""
        if shape_and_dtype(call)[1] != "int32":
            return None
        zero = self.tensors.value(call.args[1])
        if zero is None or zero.size != 1:
            return None
        without: RelaxExpression = call.args[0]
        if not zero.item():
            return without if zero.ndim <= len(shape_and_dtype(without)[0]) else None
        added = self.operands.call(call.args[0], "add")
        other = None if added is None else self.tensors.value(added.args[1])
        if added is None or other is None or other.size != 1 or other.item() != zero.item():
            return None
        without = added.args[0]
        return without


def _outputs(contraction: Call) -> int:
    """Return the dimension of the outputs among those of the weights."""
    return 0 if operator_name(contraction) in CONVOLUTIONS else -1


def _largest_sum(weights: Array, limits: Range, outputs: int) -> int:
    """Return what a sum of products with weights is at most, each for an index of ``outputs``."""
    other = tuple(axis for axis in range(weights.ndim) if axis != outputs % weights.ndim)
    largest = np.abs(weights.astype("int64")).sum(axis=other).max()
    return int(largest) * max(map(abs, limits))


def _is_scalar(scale: RelaxExpression) -> bool:
    shape = shape_and_dtype(scale)[0]
    return all(sizes.same(size, 1) for size in shape)


def _always(_: Call) -> bool:
    return True


def _covers(call: Call) -> bool:
    """Whether every window of a pooling has an element besides padding."""
    window, padding = map(list, (call.attrs.pool_size, call.attrs.padding))
    pads = zip(window * 2, padding, strict=True)
    return not call.attrs.ceil_mode and all(int(pad) < int(size) for size, pad in pads)


_MOVING: Mapping[str, Callable[[Call], bool]] = {
    **dict.fromkeys(
        ("reshape", "permute_dims", "squeeze", "expand_dims", "concat", "strided_slice"), _always
    ),
    **{f"nn.max_pool{n}d": _covers for n in (1, 2, 3)},
}
"""Operators whose result has elements of their operands only, and whether a call is such."""
