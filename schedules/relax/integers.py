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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm import relax
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.evaluation import evaluated
from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.relax import constants
from tvm_nnef.schedules.relax.code_products import LONGEST_BLOCK
from tvm_nnef.schedules.relax.constant_elements import ConstantReader, varies
from tvm_nnef.schedules.relax.constant_factors import factors
from tvm_nnef.schedules.relax.quantizers import (
    Cast,
    Reader,
    Rounding,
    Saturation,
    Steps,
    quantized,
    rounded,
    smallest,
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
    Buffer,
    Module,
    PrimFunction,
    RelaxExpression,
    Var,
    constant,
    is_tensor,
    prim_functions,
    shape_and_dtype,
)

CODES = "int16"
"""The largest dtype of codes."""

_ADDED = np.iinfo("int32").max
"""What a sum of products may be."""

_EXACT = 1 << 24
"""Below it float32 holds all integers."""

_LARGEST = 1 << 24
"""Weights of more elements stay integers, that a library does not grow by gigabytes."""

_CONTRACTIONS = (*CONVOLUTIONS, "matmul")

_WHOLE = ("int8", "uint8", "int16", "uint16", "int32")


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
        rewrite = _Rewrite(
            operands, reader, functions, has_contractions, isinstance(machine, CpuModel), note
        )
        if in_words:
            return rewrite.apply(node)
        if operator_name(node) not in _CONTRACTIONS:
            return None
        return rewrite.real_weights(node, "the machine does not multiply integers of 8 or 16 bits")

    changed = (*_CONTRACTIONS, *_MOVING, "call_tir", "astype", "subtract")
    return rewritten(mod, rewrite, changed if in_words else _CONTRACTIONS)


@dataclass(frozen=True, slots=True)
class _Dequantized:
    """Integers and the scale that they are multiplied by."""

    integers: RelaxExpression
    scale: RelaxExpression


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """One call, whose operands are already rewritten."""

    operands: Operands
    reader: Reader
    functions: Mapping[str, PrimFunction]
    has_contractions: bool
    keeps_codes: bool
    note: Note

    def apply(self, call: Call) -> RelaxExpression | None:
        """What the call becomes; None if it stays."""
        name = operator_name(call)
        if not is_tensor(call):
            return None
        if name in _CONTRACTIONS:
            return self._contraction(call)
        if name in _MOVING:
            return self._moved(call)
        match name:
            case "call_tir":
                return self._kernel(call)
            case "astype":
                return self._cast(call)
            case "subtract":
                return self._difference(call)
        return None

    # Constants and dequantized tensors

    def _value(self, expression: RelaxExpression) -> Array | None:
        """The value of an expression of constants."""
        known = self.reader.values
        if expression not in known:
            known[expression] = self._computed_value(self.operands.definition(expression))
        return known[expression]

    def _computed_value(self, found: RelaxExpression) -> Array | None:
        array = self.operands.array(found)
        if array is not None or not isinstance(found, Call) or not is_tensor(found):
            return array
        if not self.reader.is_constant(self.operands, found):
            return None
        if operator_name(found) == "call_tir":
            return self._computed(found)
        shape, dtype = shape_and_dtype(found)
        values = [self._value(each) for each in found.args if is_tensor(each)]
        known = [each for each in values if each is not None]
        if len(known) < len(values) or not sizes.are_known(shape):
            return None
        value = constants.value_of(operator_name(found), found, known, tuple(shape), dtype)
        return None if value is None else value.astype(dtype, copy=False)

    def _argument(self, call: Call) -> RelaxExpression:
        """The operand of a call that has one."""
        of_kernel = operator_name(call) == "call_tir"
        operand: RelaxExpression = call.args[1].fields[0] if of_kernel else call.args[0]
        return operand

    def _inner(self, expression: RelaxExpression, kind: object) -> RelaxExpression | None:
        """The operand of an elementwise kernel, if the expression is one of a kind."""
        found = self.operands.definition(expression)
        if not isinstance(found, Call) or operator_name(found) not in ("call_tir", "astype"):
            return None
        return self._argument(found) if self.reader.read(self.operands, found) == kind else None

    def _from_integers(self, expression: RelaxExpression) -> RelaxExpression | None:
        """The integers that reals were cast from."""
        if not is_tensor(expression) or shape_and_dtype(expression)[1] != "float32":
            return None
        inner = self._inner(expression, Cast("float32"))
        return inner if inner is not None and shape_and_dtype(inner)[1] in _WHOLE else None

    def _dequantized(self, expression: RelaxExpression) -> _Dequantized | None:
        """The integers and the scale of reals that are their product."""
        found = self.operands.call(expression, "multiply")
        if found is None:
            return None
        for value, scale in (found.args, found.args[::-1]):
            integers = self._from_integers(value)
            if integers is not None:
                same = len(shape_and_dtype(integers)[0]) == len(shape_and_dtype(found)[0])
                return _Dequantized(integers, scale) if same else None
        return None

    def _computed(self, call: Call) -> Array | None:
        """Return what a kernel computes from constants."""
        arrays: dict[Buffer, Array] = {}
        element = ConstantReader(self.operands, self.functions, arrays).element(call)
        if element is None:
            return None
        axes, value = element
        shape, dtype = shape_and_dtype(call)
        found = evaluated(value, _grid(axes, shape), arrays)
        return None if found is None else np.broadcast_to(found, shape).astype(dtype)

    def _weights(self, expression: RelaxExpression, outputs: int) -> tuple[Array, Array] | None:
        """Return the integers and the scale of constant weights, for all or for each output.

        The scale has as many dimensions. Nothing but the values of an element decides: it is a
        product of factors, of which one is whole and the others are the same for an output.
        """
        shape, dtype = shape_and_dtype(expression)
        is_plain = self.operands.array(expression) is not None or not sizes.are_known(shape)
        if is_plain or dtype != "float32" or not self.reader.is_constant(self.operands, expression):
            return None
        arrays: dict[Buffer, Array] = {}
        element = ConstantReader(self.operands, self.functions, arrays).element(expression)
        if element is None:
            return None
        axes, value = element
        inner = [axis for axis in range(len(axes)) if axis != outputs % len(axes)]
        every = factors(value)
        whole = [f for f in every if any(varies(f, axes[a], shape[a], shape[a]) for a in inner)]
        if len(whole) != 1:
            return None
        grid = _grid(axes, shape)
        steps = evaluated(whole[0], grid, arrays)
        if steps is None or not np.array_equal(steps, integers := steps.astype("int32")):
            return None
        first = {axes[axis]: grid[axes[axis]].flat[:1].reshape((1,) * len(axes)) for axis in inner}
        scale = np.ones((1,) * len(axes), "float32")
        for factor in every:
            known = scale if factor is whole[0] else evaluated(factor, {**grid, **first}, arrays)
            if known is None:
                return None
            scale = scale if factor is whole[0] else scale * known.astype("float32")
        return np.broadcast_to(integers, shape), scale

    # Contractions

    def _contraction(self, call: Call) -> RelaxExpression | None:
        """A convolution or product with constant weights."""
        data, weights = call.args[:2]
        if shape_and_dtype(call)[1] == "int32":
            array = None if self.operands.array(weights) is not None else self._value(weights)
            return None if array is None else again(call, data, constant(array))
        known = self._weights(weights, _outputs(call))
        found = self._dequantized(data)
        obstacle = self._obstacle(call, found, known)
        if known is not None and found is not None and not obstacle:
            return self._of_integers(call, found, known)
        if found is not None or known is not None:
            self.note(self.operands.name, obstacle)
        if known is not None and found is not None and self._is_exact_in_reals(call, found, known):
            return self._of_integers(call, found, known, "float32")
        return self._with_real_weights(call, known)

    def _is_exact_in_reals(
        self, call: Call, found: _Dequantized, known: tuple[Array, Array]
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
        known = self._weights(call.args[1], _outputs(call))
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
        found: _Dequantized,
        weights: tuple[Array, Array],
        dtype: str = "int32",
    ) -> RelaxExpression:
        """Return a contraction of dequantized reals and such weights as that of integers, which
        have a dtype.
        """
        integers, scale = weights
        inner = integers.ndim - 2 if operator_name(call) in CONVOLUTIONS else 0
        scale = scale.reshape((-1,) + (1,) * inner)
        wide = self._real(found.integers) if dtype == "float32" else self._as(found.integers, dtype)
        product = self.operands.emit(again(call, wide, constant(integers.astype(dtype))))
        return relax.op.multiply(self._as(product, "float32"), self._product(found.scale, scale))

    def _obstacle(
        self, call: Call, found: _Dequantized | None, known: tuple[Array, Array] | None
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
        array = self._value(scale)
        if array is not None:
            return constant((array.reshape(()) * factor).astype("float32"))
        if shape_and_dtype(scale)[0]:
            scale = self.operands.emit(relax.op.reshape(scale, ()))
        return self.operands.emit(relax.op.multiply(scale, constant(factor)))

    def _as(self, value: RelaxExpression, dtype: str) -> RelaxExpression:
        if shape_and_dtype(value)[1] == dtype:
            return value
        return self.operands.emit(relax.op.astype(value, dtype))

    # Moving data

    def _moved(self, call: Call) -> RelaxExpression | None:
        """What moves the elements of dequantized tensors moves integers."""
        tupled = isinstance(call.args[0], relax.Tuple)
        parts = list(call.args[0].fields) if tupled else [call.args[0]]
        found = [self._dequantized(part) for part in parts]
        known = [each for each in found if each is not None]
        if len(known) < len(parts) or not _MOVING[operator_name(call)](call):
            return None
        scales = [self._value(each.scale) for each in known]
        first = scales[0]
        if first is None or first.size != 1 or not first.item() > 0:
            return None
        if any(scale is None or scale.size != 1 or scale != first for scale in scales):
            return None
        integers = [self._narrow(each.integers) for each in known]
        dtypes = {shape_and_dtype(each)[1] for each in integers}
        if len(dtypes) > 1:
            return None
        made = _again_with(call, relax.Tuple(integers) if tupled else integers[0])
        real = self._real(self.operands.emit(made))
        return relax.op.multiply(real, constant(first.reshape(())))

    def _real(self, integers: RelaxExpression) -> RelaxExpression:
        """Integers as float32, from the dtype that they were cast from."""
        return self._as(self._narrow(integers), "float32")

    def _narrow(self, integers: RelaxExpression) -> RelaxExpression:
        """Integers as they were before a cast to wider ones."""
        cast = self.operands.call(integers, "astype")
        return integers if cast is None or not _widens(cast) else cast.args[0]

    # Quantization

    def _kernel(self, call: Call) -> RelaxExpression | None:
        """A kernel that rounds, or that saturates what was rounded."""
        kind = self.reader.read(self.operands, call)
        if kind is None:
            return None
        x = self._argument(call)
        if isinstance(kind, Steps):
            return self._in_steps(x, kind)
        if isinstance(kind, Rounding) and shape_and_dtype(x)[1] == "float32":
            return rounded(self.operands, x, kind) if kind is Rounding.EVEN else None
        if isinstance(kind, Cast):
            return self._real(x) if kind.dtype == "float32" else self._as(x, kind.dtype)
        if not isinstance(kind, Saturation) or kind.dtype not in _WHOLE:
            return None
        made = self._codes(x, kind)
        if made is None:
            return None
        codes, zero = made
        wide = self._as(codes, "int32")
        if zero:
            wide = self.operands.emit(relax.op.add(wide, relax.const(zero, "int32")))
        return relax.op.astype(wide, kind.dtype)

    def _in_steps(self, x: RelaxExpression, kind: Steps) -> RelaxExpression | None:
        """Return reals in steps as codes times their scale."""
        # Codes have no NaN, so there are none unless something is computed with them.
        whole = np.iinfo(CODES)
        if not self.has_contractions or self.reader.is_constant(self.operands, x):
            return None
        if kind.low < whole.min or kind.high > whole.max:
            return None
        scale = constant(np.asarray(kind.scale, "float32"))
        value = self.operands.emit(relax.op.divide(x, scale))
        codes = self._quantized(value, kind.rounding, kind.low, kind.high, 0)
        return relax.op.multiply(self._as(codes, "float32"), scale)

    def _codes(self, x: RelaxExpression, kind: Saturation) -> tuple[RelaxExpression, int] | None:
        """The codes of what is saturated, and the zero point that is not in them."""
        zero = 0
        added = self.operands.call(x, "add")
        if added is not None:
            array = self._value(added.args[1])
            if array is None or array.size != 1 or not float(array.item()).is_integer():
                return None
            zero, x = int(array.item()), added.args[0]
        low, high = kind.low - zero, kind.high - zero
        if not np.iinfo(CODES).min <= low <= high <= np.iinfo(CODES).max:
            return None
        found = self._rounded(x)
        if found is None or shape_and_dtype(x)[1] != "float32":
            return None
        rounding, value = found
        return self._quantized(value, rounding, low, high, -zero), zero

    def _rounded(self, x: RelaxExpression) -> tuple[Rounding, RelaxExpression] | None:
        found = self.operands.definition(x)
        if not isinstance(found, Call) or operator_name(found) != "call_tir":
            return None
        kind = self.reader.read(self.operands, found)
        return (kind, self._argument(found)) if isinstance(kind, Rounding) else None

    def _quantized(
        self, value: RelaxExpression, rounding: Rounding, low: int, high: int, of_nan: int
    ) -> RelaxExpression:
        """Reals as codes."""

        def codes(value: RelaxExpression) -> RelaxExpression:
            return quantized(self.operands, value, rounding, low, high, of_nan)

        divided = self.operands.call(value, "divide")
        scale = None if divided is None else self._value(divided.args[1])
        if divided is None or scale is None or scale.size != 1 or not _is_positive(scale):
            return codes(value)
        x = divided.args[0]
        joined = self.operands.call(x, "concat")
        if joined is not None and isinstance(joined.args[0], relax.Tuple):
            parts = [self._scaled(part, 1 / scale.item()) for part in joined.args[0].fields]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                own = [self._same_codes(p, scale, low, high) for p in joined.args[0].fields]
                new = [codes(part) if o is None else o for part, o in zip(known, own, strict=True)]
                return self.operands.emit(_again_with(joined, relax.Tuple(new)))
        same = self._same_codes(x, scale, low, high)
        if same is not None:
            return same
        if low >= 0:
            # What is limited to positive codes needs no relu.
            x = self._before_relu(x)
        scaled = self._scaled(x, 1 / float(scale.item()))
        if scaled is None and x is not divided.args[0]:
            scaled = self.operands.emit(relax.op.divide(x, divided.args[1]))
        return codes(value if scaled is None else scaled)

    def _before_relu(self, x: RelaxExpression) -> RelaxExpression:
        """Return what a relu limits; anything else itself."""
        relu = self.operands.call(x, "nn.relu")
        if relu is not None:
            before: RelaxExpression = relu.args[0]
            return before
        larger = self.operands.call(x, "maximum")
        for other, limit in () if larger is None else (larger.args, larger.args[::-1]):
            array = self.operands.array(limit)
            if array is not None and not array.any():
                before = other
                return before
        return x

    def _same_codes(
        self, x: RelaxExpression, scale: Array, low: int, high: int
    ) -> RelaxExpression | None:
        """The integers of a dequantized tensor, if its codes of a scale are just these."""
        found = self._dequantized(x)
        own = None if found is None else self._value(found.scale)
        if found is None or own is None or own.size != 1 or own.item() != scale.item():
            return None
        limits = range_of(self.operands, found.integers)
        if limits is None or limits[0] < low or limits[1] > high:
            return None
        return self._as(self._narrow(found.integers), smallest(low, high))

    def _scaled(self, x: RelaxExpression, factor: float) -> RelaxExpression | None:
        """Reals times a factor that goes into constants; None if there are none."""
        found = self.operands.definition(x)
        if not isinstance(found, Call):
            return None
        match operator_name(found):
            case "multiply":
                made = self._dequantized(found)
                if made is None:
                    return self._with_constant(found, factor)
                scale = self._value(made.scale)
                return None if scale is None else self._with(made.integers, scale, factor)
            case "add" | "maximum" | "minimum":
                parts = [self._scaled_part(each, factor) for each in found.args]
                known = [each for each in parts if each is not None]
                return self.operands.emit(again(found, *known)) if len(known) == 2 else None
            case "nn.relu":
                inner = self._scaled(found.args[0], factor)
                return None if inner is None else self.operands.emit(relax.op.nn.relu(inner))
        return None

    def _scaled_part(self, x: RelaxExpression, factor: float) -> RelaxExpression | None:
        """An addend times a factor: a constant, or reals that have one."""
        array = self._value(x)
        if array is None:
            return self._scaled(x, factor)
        return constant((array.astype("float64") * factor).astype("float32"))

    def _with(
        self, integers: RelaxExpression, scale: Array, factor: float
    ) -> RelaxExpression | None:
        """Integers as reals of a scale times a factor; None if that is zero, infinite or NaN."""
        new = _times(scale, factor)
        if new is None:
            return None
        return self.operands.emit(relax.op.multiply(self._real(integers), constant(new)))

    def _with_constant(self, product: Call, factor: float) -> RelaxExpression | None:
        """Return a product with a constant, as of a batch norm, with that times a factor."""
        for x, other in (product.args, product.args[::-1]):
            array = self._value(other)
            if array is not None:
                new = _times(array, factor)
                return (
                    None if new is None else self.operands.emit(relax.op.multiply(x, constant(new)))
                )
        return None

    # Integers

    def _cast(self, call: Call) -> RelaxExpression | None:
        """Integers that were cast to fewer bits which hold them, and are cast back."""
        dtype, inner = shape_and_dtype(call)[1], self.operands.call(call.args[0], "astype")
        if inner is None or dtype not in _WHOLE:
            return None
        source, between = inner.args[0], shape_and_dtype(inner)[1]
        if shape_and_dtype(source)[1] != dtype or between not in _WHOLE:
            return None
        limits, whole = range_of(self.operands, source), np.iinfo(between)
        fits = limits is not None and whole.min <= limits[0] and limits[1] <= whole.max
        return source if fits else None

    def _difference(self, call: Call) -> RelaxExpression | None:
        """Integers less a zero point that was added to them."""
        if shape_and_dtype(call)[1] != "int32":
            return None
        zero = self._value(call.args[1])
        if zero is None or zero.size != 1:
            return None
        without: RelaxExpression = call.args[0]
        if not zero.item():
            return without if zero.ndim <= len(shape_and_dtype(without)[0]) else None
        added = self.operands.call(call.args[0], "add")
        other = None if added is None else self._value(added.args[1])
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


def _grid(axes: Sequence[Var], shape: Sequence[int]) -> dict[Var, Array]:
    """Return the indices of all elements of a shape, for each axis an array that broadcasts."""
    return dict(zip(axes, np.ix_(*map(np.arange, shape)), strict=True))


def _again_with(call: Call, data: RelaxExpression) -> RelaxExpression:
    """The operator of a call with another first operand."""
    return again(call, data, *call.args[1:])


def _widens(cast: Call) -> bool:
    """Whether a cast is from integers to wider ones."""
    before, after = shape_and_dtype(cast.args[0])[1], shape_and_dtype(cast)[1]
    whole = before in _WHOLE and after in _WHOLE
    return whole and np.iinfo(before).bits < np.iinfo(after).bits


def _times(constants: Array, factor: float) -> Array | None:
    """Return constants times a factor; None if one is zero, infinite, NaN or denormal."""
    new = (constants.astype("float64") * factor).astype("float32")
    ordinary = np.isfinite(new) & (np.abs(new) >= np.finfo("float32").tiny)
    return new if ordinary.all() else None


def _is_scalar(scale: RelaxExpression) -> bool:
    shape = shape_and_dtype(scale)[0]
    return all(sizes.same(size, 1) for size in shape)


def _is_positive(scale: Array) -> bool:
    value = float(scale.item())
    return 0 < value < np.inf and np.isfinite(1 / value)


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
