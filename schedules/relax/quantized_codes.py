"""Quantizations in Relax functions: reals that become codes of few bits.

Input: a call of a kernel that rounds, or that limits what was rounded. Output: codes, from which
the zero point is subtracted, with the scale in the factors of what is quantized.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.ir import Call

from tvm_nnef.schedules.relax.dequantized import (
    WHOLE,
    TensorReader,
    again_with,
    as_dtype,
    as_real,
    narrowed,
)
from tvm_nnef.schedules.relax.quantizers import (
    Cast,
    Rounding,
    Saturation,
    Steps,
    quantized,
    rounded,
    smallest,
)
from tvm_nnef.schedules.relax.ranges import range_of
from tvm_nnef.schedules.relax.rewriting import Operands, again, operator_name
from tvm_nnef.tvm_support.compat import (
    Array,
    RelaxExpression,
    constant,
    shape_and_dtype,
)

CODES = "int16"
"""The largest dtype of codes."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """Rewrites the kernels that quantize."""

    operands: Operands
    tensors: TensorReader
    has_contractions: bool

    def kernel(self, call: Call) -> RelaxExpression | None:
        """A kernel that rounds, or that saturates what was rounded."""
        kind = self.tensors.reader.read(self.operands, call)
        if kind is None:
            return None
        x = self.tensors.argument(call)
        if isinstance(kind, Steps):
            return self._in_steps(x, kind)
        if isinstance(kind, Rounding) and shape_and_dtype(x)[1] == "float32":
            return rounded(self.operands, x, kind) if kind is Rounding.EVEN else None
        if isinstance(kind, Cast):
            return (
                as_real(self.operands, x)
                if kind.dtype == "float32"
                else as_dtype(self.operands, x, kind.dtype)
            )
        if not isinstance(kind, Saturation) or kind.dtype not in WHOLE:
            return None
        made = self._codes(x, kind)
        if made is None:
            return None
        codes, zero = made
        wide = as_dtype(self.operands, codes, "int32")
        if zero:
            wide = self.operands.emit(relax.op.add(wide, relax.const(zero, "int32")))
        return relax.op.astype(wide, kind.dtype)

    def _in_steps(self, x: RelaxExpression, kind: Steps) -> RelaxExpression | None:
        """Return reals in steps as codes times their scale."""
        # Codes have no NaN, so there are none unless something is computed with them.
        whole = np.iinfo(CODES)
        if not self.has_contractions or self.tensors.reader.is_constant(self.operands, x):
            return None
        if kind.low < whole.min or kind.high > whole.max:
            return None
        scale = constant(np.asarray(kind.scale, "float32"))
        value = self.operands.emit(relax.op.divide(x, scale))
        codes = self._quantized(value, kind.rounding, kind.low, kind.high, 0)
        return relax.op.multiply(as_dtype(self.operands, codes, "float32"), scale)

    def _codes(self, x: RelaxExpression, kind: Saturation) -> tuple[RelaxExpression, int] | None:
        """The codes of what is saturated, and the zero point that is not in them."""
        zero = 0
        added = self.operands.call(x, "add")
        if added is not None:
            array = self.tensors.value(added.args[1])
            if array is None or array.size != 1 or not float(array.item()).is_integer():
                return None
            zero, x = int(array.item()), added.args[0]
        low, high = kind.low - zero, kind.high - zero
        if not np.iinfo(CODES).min <= low <= high <= np.iinfo(CODES).max:
            return None
        found = self.tensors.rounded(x)
        if found is None or shape_and_dtype(x)[1] != "float32":
            return None
        rounding, value = found
        return self._quantized(value, rounding, low, high, -zero), zero

    def _quantized(
        self, value: RelaxExpression, rounding: Rounding, low: int, high: int, of_nan: int
    ) -> RelaxExpression:
        """Reals as codes."""

        def codes(value: RelaxExpression) -> RelaxExpression:
            return quantized(self.operands, value, rounding, low, high, of_nan)

        divided = self.operands.call(value, "divide")
        scale = None if divided is None else self.tensors.value(divided.args[1])
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
                return self.operands.emit(again_with(joined, relax.Tuple(new)))
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
        found = self.tensors.dequantized(x)
        own = None if found is None else self.tensors.value(found.scale)
        if found is None or own is None or own.size != 1 or own.item() != scale.item():
            return None
        limits = range_of(self.operands, found.integers)
        if limits is None or limits[0] < low or limits[1] > high:
            return None
        return as_dtype(self.operands, narrowed(self.operands, found.integers), smallest(low, high))

    def _scaled(self, x: RelaxExpression, factor: float) -> RelaxExpression | None:
        """Reals times a factor that goes into constants; None if there are none."""
        found = self.operands.definition(x)
        if not isinstance(found, Call):
            return None
        match operator_name(found):
            case "multiply":
                made = self.tensors.dequantized(found)
                if made is None:
                    return self._with_constant(found, factor)
                scale = self.tensors.value(made.scale)
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
        array = self.tensors.value(x)
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
        return self.operands.emit(
            relax.op.multiply(as_real(self.operands, integers), constant(new))
        )

    def _with_constant(self, product: Call, factor: float) -> RelaxExpression | None:
        """Return a product with a constant, as of a batch norm, with that times a factor."""
        for x, other in (product.args, product.args[::-1]):
            array = self.tensors.value(other)
            if array is not None:
                new = _times(array, factor)
                return (
                    None if new is None else self.operands.emit(relax.op.multiply(x, constant(new)))
                )
        return None


def _times(constants: Array, factor: float) -> Array | None:
    """Return constants times a factor; None if one is zero, infinite, NaN or denormal."""
    new = (constants.astype("float64") * factor).astype("float32")
    ordinary = np.isfinite(new) & (np.abs(new) >= np.finfo("float32").tiny)
    return new if ordinary.all() else None


def _is_positive(scale: Array) -> bool:
    value = float(scale.item())
    return 0 < value < np.inf and np.isfinite(1 / value)
