"""Code generation for calls of functions.

Input: names and operands. Output: ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_nnef.spirv.arithmetic import (
    Unsupported,
    binary,
    converted,
    glsl,
    kind_of,
    reinterpreted,
)
from tvm_nnef.spirv.assembler import Assembler, Id
from tvm_nnef.tvm_support.compat import bits_of
from tvm_nnef.vulkan_runtime.opcodes import ACQUIRE_RELEASE_SHARED, WORKGROUP_SCOPE, Glsl, Op

_OPERATORS = {
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "shift_left": "LShift",
    "shift_right": "RShift",
    "fmod": "Mod",
}
"""Functions that are operators, by the name of their node."""

_FUNCTIONS: Mapping[str, Glsl] = {
    "acos": Glsl.Acos,
    "acosh": Glsl.Acosh,
    "asin": Glsl.Asin,
    "asinh": Glsl.Asinh,
    "atan": Glsl.Atan,
    "atan2": Glsl.Atan2,
    "atanh": Glsl.Atanh,
    "ceil": Glsl.Ceil,
    "cos": Glsl.Cos,
    "cosh": Glsl.Cosh,
    "exp": Glsl.Exp,
    "exp2": Glsl.Exp2,
    "fabs": Glsl.FAbs,
    "floor": Glsl.Floor,
    "fma": Glsl.Fma,
    "log": Glsl.Log,
    "log2": Glsl.Log2,
    "nearbyint": Glsl.RoundEven,
    "pow": Glsl.Pow,
    "rint": Glsl.RoundEven,
    "round": Glsl.RoundEven,
    "rsqrt": Glsl.InverseSqrt,
    "sin": Glsl.Sin,
    "sinh": Glsl.Sinh,
    "sqrt": Glsl.Sqrt,
    "tan": Glsl.Tan,
    "tanh": Glsl.Tanh,
    "trunc": Glsl.Trunc,
}
"""Functions of real numbers by their names in C."""

_EXACT = {Glsl.Ceil, Glsl.FAbs, Glsl.Floor, Glsl.RoundEven, Glsl.Sqrt, Glsl.Trunc}
"""Functions that also exist for float64."""


def named(call: Any) -> tuple[str, list[Any]]:
    """Return the name of a called function, and its operands; ``expf`` is ``exp``."""
    name = str(getattr(call.op, "name", call.op)).split(".")[-1]
    operands = list(call.args)
    if name not in ("call_extern", "call_pure_extern"):
        return name, operands
    external = str(operands[0].value)
    shorter = external.removesuffix("f")
    is_known = any(shorter in table for table in (_FUNCTIONS, _OPERATORS, _SPECIAL))
    return (shorter if is_known else external), operands[1:]


def barrier(code: Assembler, scope: str) -> None:
    """Wait for all threads of a workgroup, and make their writes to shared memory visible."""
    if scope not in ("shared", "warp"):
        raise Unsupported(f"a barrier of the scope '{scope}'")
    workgroup = code.constant("uint32", WORKGROUP_SCOPE)
    semantics = code.constant("uint32", ACQUIRE_RELEASE_SHARED)
    code.emit(Op.ControlBarrier, workgroup, workgroup, semantics)


def result(code: Assembler, name: str, source: str, dtype: str, operands: Sequence[Id]) -> Id:
    """Return the result of a function, of a dtype, for operands of the dtype ``source``."""
    if name in _OPERATORS:
        return binary(code, _OPERATORS[name], source, *operands)
    if name in _SPECIAL:
        return _SPECIAL[name](code, source, dtype, *operands)
    function = _FUNCTIONS.get(name)
    if function is None or (source == "float64" and function not in _EXACT):
        raise Unsupported(f"the function '{name}' of {source}")
    return glsl(code, function, dtype, *operands)


def _absolute(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    return glsl(code, Glsl.FAbs if kind_of(source) == "float" else Glsl.SAbs, dtype, a)


def _is_nan(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    return code.result(Op.IsNan, code.scalar("bool"), a)


def _is_infinite(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    return code.result(Op.IsInf, code.scalar("bool"), a)


def _is_finite(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    kind = code.scalar("bool")
    special = code.result(
        Op.LogicalOr, kind, _is_nan(code, source, dtype, a), _is_infinite(code, source, dtype, a)
    )
    return code.result(Op.LogicalNot, kind, special)


def _bitwise_not(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    return code.result(Op.LogicalNot if source == "bool" else Op.Not, code.scalar(dtype), a)


def _same(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    return a


def _reinterpret(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    return reinterpreted(code, a, source, dtype)


def _copysign(code: Assembler, source: str, dtype: str, magnitude: Id, sign: Id) -> Id:
    """Return the bits of a magnitude with the sign bit of another number."""
    integer = f"uint{bits_of(dtype)}"
    top = 1 << (bits_of(dtype) - 1)
    bits, other = (reinterpreted(code, each, dtype, integer) for each in (magnitude, sign))
    low = binary(code, "BitwiseAnd", integer, bits, code.constant(integer, top - 1))
    high = binary(code, "BitwiseAnd", integer, other, code.constant(integer, top))
    return reinterpreted(code, binary(code, "BitwiseOr", integer, low, high), integer, dtype)


def _population(code: Assembler, source: str, dtype: str, a: Id) -> Id:
    wide = "uint32"
    if bits_of(source) > 32:
        raise Unsupported(f"popcount of {source}")
    bits = converted(
        code,
        reinterpreted(code, a, source, f"uint{bits_of(source)}"),
        f"uint{bits_of(source)}",
        wide,
    )
    return converted(code, code.result(Op.BitCount, code.scalar(wide), bits), wide, dtype)


_SPECIAL: Mapping[str, Callable[..., Id]] = {
    "abs": _absolute,
    "bitwise_not": _bitwise_not,
    "copysign": _copysign,
    "isfinite": _is_finite,
    "isinf": _is_infinite,
    "isnan": _is_nan,
    "likely": _same,
    "popcount": _population,
    "reinterpret": _reinterpret,
}
"""Functions with dedicated instructions."""
