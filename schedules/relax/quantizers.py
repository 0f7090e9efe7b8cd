"""Elementwise kernels that quantize: casts, roundings, saturation; recognised and made.

Input: a call of a PrimFunc with one stage over one tensor. Output: an :class:`Elementwise`, by the
expression of its element; None for all others. :func:`quantized` makes the kernel that does all of
it at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import tvm_ffi
from tvm import te, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.exact.integers import hidden_real
from tvm_nnef.schedules.analysis.kernel import Kernel, inlined, is_short, read_kernel
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, read_max_min
from tvm_nnef.schedules.relax.rebuilding import Symbols, call_te
from tvm_nnef.schedules.relax.rewriting import Operands, operator_name
from tvm_nnef.tir import rounding
from tvm_nnef.tir.expressions import loads, variables, with_loads
from tvm_nnef.tir.min_max import is_number
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    Array,
    PrimExpression,
    RelaxExpression,
    constant_array,
    dtype_of,
    is_scalar,
    is_tensor,
    shape_and_dtype,
)


class Rounding(Enum):
    """The rounding of halves."""

    EVEN = "to the even neighbour"
    AWAY = "away from zero"


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion to another dtype."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Saturation:
    """Reals limited to ``low`` and ``high`` and converted to integers; 0 for NaN."""

    low: int
    high: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Reals divided by a scale, rounded, limited to ``low`` and ``high``, and multiplied by it.

    A NaN stays NaN.
    """

    rounding: Rounding
    low: int
    high: int
    scale: float


Elementwise = Cast | Rounding | Saturation | Steps
"""The function of each element that a kernel computes."""

_ROUND: Mapping[Rounding, Callable[[PrimExpression], PrimExpression]] = {
    Rounding.EVEN: rounding.to_even,
    Rounding.AWAY: rounding.away_from_zero,
}


class Reader:
    """Reads calls of elementwise kernels, and remembers what it has read."""

    def __init__(self) -> None:
        """Knows no kernel yet."""
        self._known: dict[str, Elementwise | None] = {}
        self._constant: dict[RelaxExpression, bool] = {}
        self.values: dict[RelaxExpression, Array | None] = {}

    def is_constant(self, operands: Operands, expression: RelaxExpression) -> bool:
        """Whether a value is computed from constants alone."""
        pending = [expression]
        while pending:  # Not recursive: networks have thousands of operations in a row.
            found = operands.definition(pending[-1])
            tensors = _tensors(found)
            unknown = next((each for each in tensors if each not in self._constant), None)
            if unknown is not None:
                pending.append(unknown)
                continue
            known = bool(tensors) and all(self._constant[each] for each in tensors)
            self._constant[pending.pop()] = known or constant_array(found) is not None
        return self._constant[expression]

    def read(self, operands: Operands, call: Call) -> Elementwise | None:
        """Return the function of each element that ``astype`` or a call of a PrimFunc computes."""
        if operator_name(call) == "astype":
            return Cast(shape_and_dtype(call)[1])
        if operator_name(call) != "call_tir" or not any(map(is_tensor, call.args[1].fields[:1])):
            return None
        name = str(call.args[0].name_hint)
        if name not in self._known:
            kernel = read_kernel(operands.builder.get()[call.args[0]])
            value = None if kernel is None else _of_one_element(kernel)
            self._known[name] = None if value is None else _read(value)
        return self._known[name]


def _tensors(expression: RelaxExpression) -> list[RelaxExpression]:
    """The tensors that a call takes; none of anything else."""
    if not isinstance(expression, Call):
        return []
    of_kernel = operator_name(expression) == "call_tir"
    arguments = expression.args[1].fields if of_kernel else expression.args
    return [each for each in arguments if hasattr(each, "ty") and is_tensor(each)]


def _of_one_element(kernel: Kernel) -> PrimExpression | None:
    """The value of an element as an expression of the equal element of the only input."""
    # The symbols of dynamic dimensions may be parameters too.
    sources = [parameter for parameter in kernel.inputs if not is_scalar(parameter)]
    if len(sources) != 1 or len(kernel.results) != 1 or kernel.results[0].reduced:
        return None
    (source,), (result,) = sources, kernel.results
    before = {stage.buffer: stage for stage in kernel.stages if stage is not result}
    if any(stage.reduced for stage in before.values()):
        return None
    if before and not is_short(result.value, before):
        return None
    value = inlined(result.value, before)
    axes = [axis.var for axis in result.axes]
    units = [axis.is_unit for axis in result.axes]

    def is_same(load: TensorLoad) -> bool:
        return len(load.indices) == len(axes) and all(
            index.same_as(axis) or (unit and isinstance(index, tirx.IntImm))
            for index, axis, unit in zip(load.indices, axes, units, strict=True)
        )

    if not all(map(is_same, loads(value, source))):
        return None
    element = tirx.Var("element", str(source.dtype))
    return with_loads(value, source, lambda load: element)


def _read(value: PrimExpression) -> Elementwise | None:
    """Return the function that an expression of an element is."""
    if isinstance(value, tirx.Cast) and isinstance(value.value, tirx.Var):
        return Cast(dtype_of(value))
    found = _saturation(value) or _steps(value)
    return found if found is not None or dtype_of(value) != "float32" else _rounding(value)


def _rounding(value: PrimExpression) -> Rounding | None:
    """Return how an expression rounds its only variable."""
    elements = set(variables(value))
    if len(elements) != 1 or dtype_of(element := elements.pop()) != "float32":
        return None
    return _rounding_of(value, element)


def _rounding_of(value: PrimExpression, rounded: PrimExpression) -> Rounding | None:
    """Return how an expression rounds another one."""
    templates = (
        (rounding.to_even, Rounding.EVEN),
        (rounding.to_even_by_parts, Rounding.EVEN),
        (rounding.away_from_zero, Rounding.AWAY),
    )
    for template, kind in templates:
        if tvm_ffi.structural_equal(value, template(rounded)):
            return kind
    return None


def _steps(value: PrimExpression) -> Steps | None:
    """Return the steps that a product with their scale limits reals to."""
    if not isinstance(value, tirx.Mul) or dtype_of(value) != "float32":
        return None
    scale, elements = value.b, set(variables(value))
    if not isinstance(scale, tirx.FloatImm) or not 0 < scale.value < math.inf or len(elements) != 1:
        return None
    found = _limited(_with_plain_zeros(value.a))
    if found is None:
        return None
    low, high, whole = found
    kind = _rounding_of(whole, tirx.Div(elements.pop(), scale))
    ends = low.is_integer() and high.is_integer()
    return Steps(kind, int(low), int(high), scale.value) if kind is not None and ends else None


def _with_plain_zeros(value: PrimExpression) -> PrimExpression:
    """Return an expression without zeros that are hidden from TVM."""
    zero = tirx.FloatImm("float32", 0.0)
    hidden = hidden_real(zero)

    def plain(call: Call) -> PrimExpression:
        return zero if tvm_ffi.structural_equal(call, hidden) else call

    return traversal.mapped(value, (Call, plain), order="post")


def _limited(value: PrimExpression) -> tuple[float, float, PrimExpression] | None:
    """Return the min and the max of a limited expression, and what it is without limits."""
    limits: dict[object, float] = {}
    for _ in range(2):
        found = read_max_min(value)
        if found is None or not isinstance(found[1], tirx.FloatImm):
            return None
        limits.setdefault(found[0], float(found[1].value))
        value = found[2]
    if len(limits) != 2 or limits[MAX] > limits[MIN]:
        return None
    return limits[MAX], limits[MIN], value


def _saturation(value: PrimExpression) -> Saturation | None:
    """``int(min(max(x, low), high))``, 0 for NaN, perhaps cast to a smaller integer."""
    dtype = dtype_of(value)
    while isinstance(value, tirx.Cast) and isinstance(value.value, (tirx.Cast, tirx.Select)):
        if not dtype_of(value.value).startswith(("int", "uint")):
            break
        value = value.value
    if not isinstance(value, tirx.Select) or not isinstance(value.true_value, tirx.Cast):
        return None
    limited = value.true_value.value
    if not dtype_of(limited).startswith("float"):
        return None
    is_zero = isinstance(value.false_value, tirx.IntImm) and value.false_value.value == 0
    if not is_zero or not tvm_ffi.structural_equal(value.condition, is_number(limited)):
        return None
    found = _limited(limited)
    if found is None or not isinstance(found[2], tirx.Var):
        return None
    low, high, _ = found
    return Saturation(int(low), int(high), dtype)


def smallest(low: int, high: int) -> str:
    """The smallest dtype of integers from ``low`` to ``high``: bytes, or int16."""
    for dtype in ("uint8", "int8"):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return dtype
    return "int16"


def quantized(
    operands: Operands, x: RelaxExpression, kind: Rounding, low: int, high: int, of_nan: int
) -> RelaxExpression:
    """Reals rounded and limited to a range, as small integers; a NaN becomes ``of_nan``."""
    dtype = smallest(low, high)

    def function(_: Symbols, data: te.Tensor) -> te.Tensor:
        def code(value: PrimExpression) -> PrimExpression:
            # The value is written once, so that what is quantized several times stays short. LLVM's
            # max of a NaN and a number is the number.
            # A limit of -0.0 is one instruction of LLVM, one of 0.0 is two.
            least, most = (tirx.const(float(each) or -0.0, dtype_of(value)) for each in (low, high))
            limited = tirx.min(tirx.max(_ROUND[kind](value), least), most)
            return tirx.Cast(dtype, limited)

        def element(*indices: PrimExpression) -> PrimExpression:
            value = data(*indices)
            if of_nan == low:
                return code(value)
            return tirx.Select(is_number(value), code(value), tirx.const(of_nan, dtype))

        return te.compute(data.shape, element, name="quantized")

    return operands.emit(call_te(operands.builder, function, [x], "quantize"))


def rounded(operands: Operands, x: RelaxExpression, kind: Rounding) -> RelaxExpression:
    """Reals rounded to whole numbers."""

    def function(_: Symbols, data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: _ROUND[kind](data(*i)), name="rounded")

    return call_te(operands.builder, function, [x], "round")
