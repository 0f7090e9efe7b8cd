"""Functions of real numbers as arithmetic that runs in vector lanes.

Enters: a PrimFunc whose loops are lowered. Leaves: the same, its calls of functions in float32
replaced by additions, multiplications, comparisons and bit operations, for vectors and for single
numbers alike. LLVM would call the C library once for each lane, which takes 6 to 16 times as long.
What has no such arithmetic here, or is no float32, is called for each lane.

Accuracy, in units of the last place over all finite arguments, subnormal ones and results included
(``tests/schedules/test_math.py``): ``exp``, ``log``, ``sin``, ``cos`` 2, ``tanh``, ``sigmoid`` 3,
``erf`` 7; ``fmod`` and whole powers of two are exact. NaN gives NaN, infinities and zeros what they
give in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.codegen import angles, exponentials
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
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "fmod",
    "hypot", "ldexp", "log1p", "nextafter", "sinh", "tan", "tanh",
))  # fmt: skip
"""Functions that LLVM knows for single numbers only, or TVM's arithmetic does not do precisely."""


def _in_float32(call: Any, machine: CpuModel) -> PrimExpression:
    """A call of half precision, computed in single precision."""
    wide = typed("float32", lanes_of(call.ty))
    made = tirx.call_intrin(wide, call.op, *(tirx.Cast(wide, a) for a in call.args))
    return tirx.Cast(call.ty, _expanded(made, machine))


def _pow(number: Lanes, x: Expression, exponent: Expression) -> Expression | None:
    """Powers that are products of square roots, and whole powers of two.

    Others are left to the C library.
    """
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
    """Two to the power of a whole number, as a product of two whose exponents are its halves.

    Both are numbers whose bits are those of the exponent; the product alone may be 0 or infinite.
    """

    def power(whole: Expression) -> Expression:
        return number.bits((whole + number.whole(127)) << number.whole(23), "float32")

    def product(whole: Expression) -> Expression:
        return number.let(whole >> number.whole(1), lambda half: power(half) * power(whole - half))

    return number.let(number.cast(number.limited(exponent, -252.0, 254.0), "int32"), product)


_QUOTIENT = 2.0**28
"""Products of a smaller whole number and a float32 are exact in float64."""


def _fmod(number: Lanes, x: Expression, y: Expression) -> Expression:
    """What a whole multiple of y leaves of x, exactly, with the sign of x."""

    def of_first(a: Expression) -> Expression:
        return number.let(number.size(y), lambda b: of_sizes(a, b))

    def of_sizes(a: Expression, b: Expression) -> Expression:
        small = tirx.And(a < b * number.real(_QUOTIENT), b < number.real(math.inf))
        wide = (number.cast(each, "float64") for each in (a, b))
        fast = number.with_sign(number.cast(_remainder(number, *wide), "float32"), x)
        return number.usually(small, fast, "fmod", x, y)

    return number.let(number.size(x), of_first)


def _remainder(number: Lanes, a: Expression, b: Expression) -> Expression:
    """The same of numbers above zero; a quotient that was rounded up gave a negative one."""
    whole = tirx.trunc(a / b)
    return number.let(
        a - whole * b, lambda r: tirx.Select(r < number.real(0.0, "float64"), r + b, r)
    )


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
    "sin": angles.sin,
    "cos": angles.cos,
    "fmod": _fmod,
    "pow": _pow,
}
