"""Functions of real numbers as arithmetic that runs in vector lanes.

Input: a PrimFunc whose loops are lowered. Output: the same, its calls of functions in float32
replaced by additions, multiplications, comparisons and bit operations, for vectors and scalars
alike. LLVM would call the C library for each lane, which takes 6 to 16 times as long. Functions
without such arithmetic here, and those of other dtypes, are called for each lane.

Accuracy, in units of the last place over all finite arguments, subnormal arguments and results
included: ``exp``, ``log`` 2, ``tanh``, ``sigmoid`` 3, ``erf`` 7; integer powers of two are exact.
NaN, infinities and zeros give the same results as in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.codegen import exponentials
from tvm_nnef.schedules.codegen.lanes import Lanes
from tvm_nnef.schedules.machine import model_for
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    lanes_of,
    typed,
    with_mapped_body,
)

Expansion: TypeAlias = "Callable[..., PrimExpression | None]"
"""A function of lanes and operands that returns arithmetic, or None if it has none for these."""

_NONE: Mapping[str, Expansion] = {}


def expand(function: PrimFunction, more: Mapping[str, Expansion] = _NONE) -> PrimFunction:
    """Return the function with its calls replaced by arithmetic.

    ``more`` has that of other functions.
    """
    functions = {**_FUNCTIONS, **more}
    machine = model_for(function)

    def expanded(call: PrimExpression) -> PrimExpression:
        assert isinstance(call, Call)
        name = str(getattr(call.op, "name", "")).removeprefix("tirx.")
        if name not in functions and name not in _ONLY_SCALAR:
            return call
        scalar = str(call.ty.dtype).split("x")[0]
        if scalar == "float16":
            wide = typed("float32", lanes_of(call.ty))
            single = (tirx.Cast(wide, each) for each in call.args)
            return tirx.Cast(call.ty, expanded(tirx.call_intrin(wide, call.op, *single)))
        number = Lanes(call.ty, machine)
        make = functions.get(name) if scalar == "float32" else None
        made = None if make is None else make(number, *call.args)
        if made is not None:
            return number.with_named(made)
        if name in _ONLY_SCALAR and scalar in ("float32", "float64"):
            return number.from_c_library(name, *call.args)
        return call

    def remainder(modulus: tirx.Mod) -> PrimExpression:
        if not str(modulus.ty.dtype).startswith("float"):
            return modulus
        return expanded(tirx.call_intrin(modulus.ty, "tirx.fmod", modulus.a, modulus.b))

    return with_mapped_body(function, (Call, expanded), (tirx.Mod, remainder))


_ONLY_SCALAR = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "fmod",
    "hypot", "ldexp", "log1p", "nextafter", "sin", "sinh", "tan", "tanh",
))  # fmt: skip
"""Functions for which LLVM has scalars only, or that TVM computes imprecisely."""


def simple_power(
    number: Lanes, x: PrimExpression, exponent: PrimExpression
) -> PrimExpression | None:
    """Return powers that are products of square roots, and integer powers of two.

    It is None for others.
    """
    base, power = (_scalar(each) for each in (x, exponent))
    if isinstance(base, tirx.FloatImm) and float(base.value) == 2.0:
        whole = isinstance(power, tirx.Cast) and "int" in str(power.value.ty.dtype)
        return _power_of_two(number, exponent) if whole else None
    if not isinstance(power, tirx.FloatImm) or float(power.value) not in (0.5, 0.75, 2.0, 3.0):
        return None
    x = number.once(x)
    if power.value >= 2.0:
        return x * x if power.value == 2.0 else x * x * x
    root = number.once(number.square_root(x))
    value = root if power.value == 0.5 else root * number.square_root(root)
    # The root of minus infinity is NaN.
    return number.select(x.equal(-math.inf), math.inf, value)


def _scalar(value: PrimExpression) -> PrimExpression:
    """Return the scalar that is broadcast to all lanes."""
    return value.value if isinstance(value, tirx.Broadcast) else value


def _power_of_two(number: Lanes, exponent: PrimExpression) -> PrimExpression:
    """Return two to the power of an integer; beyond limits it is 0 or infinite."""
    first, second = number.powers_of_two(
        number.once(number.cast(number.limited(exponent, -252.0, 254.0), "int32"))
    )
    return first * second


_FUNCTIONS: Mapping[str, Expansion] = {
    "exp": exponentials.exp,
    "log": exponentials.log,
    "sigmoid": exponentials.sigmoid,
    "tanh": exponentials.tanh,
    "erf": exponentials.erf,
    "pow": simple_power,
}
