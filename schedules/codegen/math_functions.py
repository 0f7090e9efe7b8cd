"""Functions of real numbers as arithmetic that runs in vector lanes.

Input: a PrimFunc whose loops are lowered. Output: the same, its calls of functions in float32
replaced by additions, multiplications, comparisons and bit operations, for vectors and scalars
alike. LLVM would call the C library for each lane, which takes 6 to 16 times as long. Functions
without such arithmetic here, and those of other dtypes, are called for each lane.

Accuracy, in units of the last place over all finite arguments, subnormal arguments and results
included: ``exp``, ``log`` 2, ``tanh``, ``sigmoid`` 3, ``erf`` 7; integer powers of two are exact.
NaN, infinities and zeros give what they give in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.codegen import exponentials
from tvm_nnef.schedules.codegen.lanes import Expression, Lanes
from tvm_nnef.schedules.machine import GENERIC, CpuModel, cpu_model
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, lanes_of, typed


def expand(function: PrimFunction) -> PrimFunction:
    """The function with its calls replaced by arithmetic."""
    target = (function.attrs or {}).get("target")
    machine = GENERIC if target is None else cpu_model(target)

    def expanded(call: PrimExpression) -> PrimExpression:
        return _expanded(call, machine)

    def remainder(modulus: tirx.Mod) -> PrimExpression:
        if str(modulus.ty.dtype).split("x")[0] not in ("float16", "float32", "float64"):
            return modulus
        return expanded(tirx.call_intrin(modulus.ty, "tirx.fmod", modulus.a, modulus.b))

    return tvm_ffi.structural_map(function, [(Call, expanded), (tirx.Mod, remainder)])


def _expanded(call: PrimExpression, machine: CpuModel) -> PrimExpression:
    assert isinstance(call, Call)
    name = str(getattr(call.op, "name", "")).removeprefix("tirx.")
    if name not in _FUNCTIONS and name not in _ONLY_SCALAR:
        return call
    scalar = str(call.ty.dtype).split("x")[0]
    if scalar == "float16":
        return _in_float32(call, machine)
    make = _FUNCTIONS.get(name)
    if make is not None and scalar == "float32":
        made = make(Lanes(call.ty, machine), *call.args)
        if made is not None:
            return made
    if name in _ONLY_SCALAR and scalar in ("float32", "float64"):
        return Lanes(call.ty, machine).from_c_library(name, *call.args)
    return call


_ONLY_SCALAR = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "fmod",
    "hypot", "ldexp", "log1p", "nextafter", "sin", "sinh", "tan", "tanh",
))  # fmt: skip
"""Functions that LLVM has for scalars only, or that TVM computes imprecisely."""


def _in_float32(call: Any, machine: CpuModel) -> PrimExpression:
    """A call of half precision, computed in single precision."""
    wide = typed("float32", lanes_of(call.ty))
    made = tirx.call_intrin(wide, call.op, *(tirx.Cast(wide, a) for a in call.args))
    return tirx.Cast(call.ty, _expanded(made, machine))


def _pow(number: Lanes, x: Expression, exponent: Expression) -> Expression | None:
    """Powers that are products of square roots, and integer powers of two; None for others."""
    if _is_two(x) and _is_whole(exponent):
        return _power_of_two(number, exponent)
    while isinstance(exponent, tirx.Broadcast):
        exponent = exponent.value
    if not isinstance(exponent, tirx.FloatImm):
        return None
    match float(exponent.value):
        case 2.0:
            return number.let(x, lambda y: y * y)
        case 3.0:
            return number.let(x, lambda y: y * y * y)
        case 0.5:
            return _finite(number, x, number.square_root(x))
        case 0.75:
            root = number.square_root(x)
            return _finite(number, x, number.let(root, lambda r: r * number.square_root(r)))
        case _:
            return None


def _is_two(value: Any) -> bool:
    while isinstance(value, tirx.Broadcast):
        value = value.value
    return isinstance(value, tirx.FloatImm) and float(value.value) == 2.0


def _is_whole(value: Any) -> bool:
    """Whether a real was cast from an integer."""
    while isinstance(value, tirx.Broadcast):
        value = value.value
    return isinstance(value, tirx.Cast) and "int" in str(value.value.ty.dtype)


def _power_of_two(number: Lanes, exponent: Expression) -> Expression:
    """Two to the power of an integer, as a product of two powers whose exponents are its halves.

    Both are made from the bits of their exponents; only the product may be 0 or infinite.
    """

    def power(whole: Expression) -> Expression:
        return number.bits((whole + number.whole(127)) << number.whole(23), "float32")

    def product(whole: Expression) -> Expression:
        return number.let(whole >> number.whole(1), lambda half: power(half) * power(whole - half))

    return number.let(number.cast(number.limited(exponent, -252.0, 254.0), "int32"), product)


def _finite(number: Lanes, x: Expression, power: Expression) -> Expression:
    """A power of minus infinity is infinity, where its root would be NaN."""
    infinite = number.real(math.inf)
    return tirx.Select(tirx.EQ(x, number.real(-math.inf)), infinite, power)


_FUNCTIONS: Mapping[str, Callable[..., Expression | None]] = {
    "exp": exponentials.exp,
    "log": exponentials.log,
    "sigmoid": exponentials.sigmoid,
    "tanh": exponentials.tanh,
    "erf": exponentials.erf,
    "pow": _pow,
}
