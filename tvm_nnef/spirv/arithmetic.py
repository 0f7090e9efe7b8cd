"""Arithmetic, comparisons and conversions of scalars in SPIR-V.

Input: ids and dtypes. Output: ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tvm_nnef.spirv import control_flow
from tvm_nnef.spirv.assembler import Assembler, Id
from tvm_nnef.tvm_support.compat import bits_of
from tvm_nnef.vulkan_runtime.opcodes import Glsl, Op, StorageClass


class Unsupported(NotImplementedError):
    """SPIR-V has no such instruction, or no schedule emits such code."""


def kind_of(dtype: str) -> str:
    """Return ``float``, ``int``, ``uint`` or ``bool`` for a dtype."""
    return dtype.rstrip("0123456789")


_ARITHMETIC: Mapping[str, Mapping[str, Op]] = {
    "Add": {"float": Op.FAdd, "int": Op.IAdd, "uint": Op.IAdd},
    "Sub": {"float": Op.FSub, "int": Op.ISub, "uint": Op.ISub},
    "Mul": {"float": Op.FMul, "int": Op.IMul, "uint": Op.IMul},
    "Div": {"float": Op.FDiv, "int": Op.SDiv, "uint": Op.UDiv},
    "Mod": {"uint": Op.UMod},
    "FloorDiv": {"uint": Op.UDiv},
    "FloorMod": {"uint": Op.UMod},
    "And": {"bool": Op.LogicalAnd},
    "Or": {"bool": Op.LogicalOr},
    "BitwiseAnd": {"int": Op.BitwiseAnd, "uint": Op.BitwiseAnd, "bool": Op.LogicalAnd},
    "BitwiseOr": {"int": Op.BitwiseOr, "uint": Op.BitwiseOr, "bool": Op.LogicalOr},
    "BitwiseXor": {"int": Op.BitwiseXor, "uint": Op.BitwiseXor, "bool": Op.LogicalNotEqual},
    "LShift": {"int": Op.ShiftLeftLogical, "uint": Op.ShiftLeftLogical},
    "RShift": {"int": Op.ShiftRightArithmetic, "uint": Op.ShiftRightLogical},
}
"""Instructions by the node of TIR and the kind of its operands, whose dtype the result has.

``Div`` of integers rounds towards zero. Vulkan leaves it open what the instructions for remainders
of signed integers return if one is negative, and computes that of reals from a rounded quotient, so
these are in ``_COMPOSED``.
"""

_COMPARISONS: Mapping[str, Mapping[str, Op]] = {
    "EQ": {"float": Op.FOrdEqual, "int": Op.IEqual, "uint": Op.IEqual, "bool": Op.LogicalEqual},
    "NE": {
        "float": Op.FUnordNotEqual,
        "int": Op.INotEqual,
        "uint": Op.INotEqual,
        "bool": Op.LogicalNotEqual,
    },
    "LT": {"float": Op.FOrdLessThan, "int": Op.SLessThan, "uint": Op.ULessThan},
    "LE": {"float": Op.FOrdLessThanEqual, "int": Op.SLessThanEqual, "uint": Op.ULessThanEqual},
    "GT": {"float": Op.FOrdGreaterThan, "int": Op.SGreaterThan, "uint": Op.UGreaterThan},
    "GE": {
        "float": Op.FOrdGreaterThanEqual,
        "int": Op.SGreaterThanEqual,
        "uint": Op.UGreaterThanEqual,
    },
}
"""Instructions whose result is a boolean; comparisons with NaN are false, except for ``NE``."""


def binary(code: Assembler, name: str, dtype: str, a: Id, b: Id) -> Id:
    """Return the result of a node of two operands of a dtype: of the same one, or a boolean."""
    kind = kind_of(dtype)
    if name in _COMPARISONS:
        if kind == "bool" and kind not in _COMPARISONS[name]:
            a, b = (converted(code, each, "bool", "int32") for each in (a, b))
            kind = "int"
        return code.result(_COMPARISONS[name][kind], code.scalar("bool"), a, b)
    if name in ("Min", "Max"):
        first = binary(code, "LT" if name == "Min" else "GT", dtype, a, b)
        return code.result(Op.Select, code.scalar(dtype), first, a, b)
    if (name, kind) in _COMPOSED:
        return _COMPOSED[name, kind](code, dtype, a, b)
    op = _ARITHMETIC.get(name, {}).get(kind)
    if op is None:
        raise Unsupported(f"{name} of {dtype}")
    return code.result(op, code.scalar(dtype), a, b)


def _remainder(code: Assembler, dtype: str, a: Id, b: Id) -> Id:
    """Return the remainder of a division that rounds towards zero, with the sign of the
    dividend.
    """
    quotient = binary(code, "Div", dtype, a, b)
    return binary(code, "Sub", dtype, a, binary(code, "Mul", dtype, quotient, b))


def _floor_remainder(code: Assembler, dtype: str, a: Id, b: Id) -> Id:
    """Return the remainder of a division that rounds down, with the sign of the divisor."""
    rest = _remainder(code, dtype, a, b)
    return binary(code, "Add", dtype, rest, _if_rounded_up(code, dtype, rest, b, b))


def _floor_division(code: Assembler, dtype: str, a: Id, b: Id) -> Id:
    """Return a quotient of integers rounded down."""
    rest, one = _remainder(code, dtype, a, b), code.constant(dtype, 1)
    quotient = binary(code, "Div", dtype, a, b)
    return binary(code, "Sub", dtype, quotient, _if_rounded_up(code, dtype, rest, b, one))


def _if_rounded_up(code: Assembler, dtype: str, rest: Id, divisor: Id, value: Id) -> Id:
    """Return a value if a division that rounds towards zero has rounded up, else 0."""
    zero = code.constant(dtype, 0)
    signs = binary(code, "BitwiseXor", dtype, rest, divisor)
    differ, uneven = binary(code, "LT", dtype, signs, zero), binary(code, "NE", dtype, rest, zero)
    rounded_up = binary(code, "And", "bool", differ, uneven)
    return code.result(Op.Select, code.scalar(dtype), rounded_up, value, zero)


def _floor_quotient(code: Assembler, dtype: str, a: Id, b: Id) -> Id:
    """Return a quotient of reals rounded down."""
    return glsl(code, Glsl.Floor, dtype, binary(code, "Div", dtype, a, b))


_LAYOUTS: Mapping[str, tuple[str, int, float]] = {
    "float32": ("uint32", 0xFF << 23, 2.0**-126),
    "float64": ("uint64", 0x7FF << 52, 2.0**-1022),
}
"""The layout of reals: the dtype of their bits, the bits of the exponent, the smallest normal
number.
"""


def _real_remainder(code: Assembler, dtype: str, a: Id, b: Id) -> Id:
    """Return the exact remainder of a quotient of reals that is rounded towards zero.

    In each step the divisor, times the largest power of 2 possible, is subtracted, which is exact.
    Devices may take divisors that are not normal numbers for zero, so these are zero on all
    devices.
    """
    if dtype == "float16":
        wide = (converted(code, each, dtype, "float32") for each in (a, b))
        return converted(code, _real_remainder(code, "float32", *wide), "float32", dtype)
    kind, (bits, exponent, least) = code.scalar(dtype), _LAYOUTS[dtype]
    mask, sign = code.constant(bits, exponent), code.constant(bits, 1 << (bits_of(dtype) - 1))

    def of_bits(name: str, value: Id, other: Id) -> Id:
        return binary(code, name, bits, reinterpreted(code, value, dtype, bits), other)

    size, divisor = (glsl(code, Glsl.FAbs, dtype, each) for each in (a, b))
    inverse = code.result(Op.Not, code.scalar(bits), mask)
    fraction, half = of_bits("BitwiseAnd", divisor, inverse), code.constant(dtype, 0.5)
    finite = binary(code, "LT", dtype, size, code.constant(dtype, math.inf))
    normal = binary(code, "GE", dtype, divisor, code.constant(dtype, least))
    defined = binary(code, "And", "bool", finite, normal)
    rest = code.variable(StorageClass.Function, kind)
    code.emit(Op.Store, rest, size)

    def is_left() -> Id:
        larger = binary(code, "GE", dtype, code.result(Op.Load, kind, rest), divisor)
        return binary(code, "And", "bool", defined, larger)

    def subtract() -> None:
        value = code.result(Op.Load, kind, rest)
        scaled = binary(code, "BitwiseOr", bits, of_bits("BitwiseAnd", value, mask), fraction)
        scaled = reinterpreted(code, scaled, bits, dtype)
        larger = binary(code, "GT", dtype, scaled, value)
        smaller = binary(code, "Mul", dtype, scaled, half)
        scaled = code.result(Op.Select, kind, larger, smaller, scaled)
        code.emit(Op.Store, rest, binary(code, "Sub", dtype, value, scaled))

    control_flow.repeat(code, is_left, subtract)
    found = reinterpreted(code, code.result(Op.Load, kind, rest), dtype, bits)
    signed = binary(code, "BitwiseOr", bits, found, of_bits("BitwiseAnd", a, sign))
    signed = reinterpreted(code, signed, bits, dtype)
    return code.result(Op.Select, kind, defined, signed, code.constant(dtype, math.nan))


_COMPOSED: Mapping[tuple[str, str], Callable[[Assembler, str, Id, Id], Id]] = {
    ("Mod", "int"): _remainder,
    ("Mod", "float"): _real_remainder,
    ("FloorMod", "int"): _floor_remainder,
    ("FloorDiv", "int"): _floor_division,
    ("FloorDiv", "float"): _floor_quotient,
}
"""Operations without an instruction, by the node of TIR and the kind of its operands."""


def glsl(code: Assembler, function: Glsl, dtype: str, *operands: Id) -> Id:
    """Return the result of a function of ``GLSL.std.450``."""
    return code.result(Op.ExtInst, code.scalar(dtype), code.glsl, function, *operands)


def converted(code: Assembler, value: Id, source: str, target: str) -> Id:
    """Return a value as another dtype, as C converts it; booleans are 0 and 1."""
    if source == target:
        return value
    kinds = (kind_of(source), kind_of(target))
    convert = _CONVERSIONS.get(kinds, _between_integers)
    return convert(code, value, source, target)


def _from_bool(code: Assembler, value: Id, source: str, target: str) -> Id:
    one, zero = code.constant(target, 1), code.constant(target, 0)
    return code.result(Op.Select, code.scalar(target), value, one, zero)


def _to_bool(code: Assembler, value: Id, source: str, target: str) -> Id:
    return binary(code, "NE", source, value, code.constant(source, 0))


def _to_float(code: Assembler, value: Id, source: str, target: str) -> Id:
    op = {"int": Op.ConvertSToF, "uint": Op.ConvertUToF, "float": Op.FConvert}[kind_of(source)]
    return code.result(op, code.scalar(target), value)


def _from_float(code: Assembler, value: Id, source: str, target: str) -> Id:
    """Convert to narrow integers by the low bits of a wider one, so that -1 is 255 in 8 bits."""
    unsigned = kind_of(target) == "uint"
    wide = target if bits_of(target) == 64 else "int64" if unsigned and _is_32(target) else "int32"
    op = Op.ConvertFToU if kind_of(wide) == "uint" else Op.ConvertFToS
    return converted(code, code.result(op, code.scalar(wide), value), wide, target)


def _is_32(dtype: str) -> bool:
    return bits_of(dtype) == 32


def _between_integers(code: Assembler, value: Id, source: str, target: str) -> Id:
    if bits_of(source) == bits_of(target):
        return code.result(Op.Bitcast, code.scalar(target), value)
    if kind_of(source) == "int" and bits_of(target) == 64:
        return _widened(code, value, source, target)
    if kind_of(source) == "int":
        return code.result(Op.SConvert, code.scalar(target), value)
    # The result of this instruction has to be unsigned.
    unsigned = f"uint{bits_of(target)}"
    extended = code.result(Op.UConvert, code.scalar(unsigned), value)
    return converted(code, extended, unsigned, target)


def _widened(code: Assembler, value: Id, source: str, target: str) -> Id:
    """Return an integer extended to 64 bits, as the smallest value of its dtype plus a difference.

    Mesa 22.3 compares a constant with the result of the instruction for it wrong.
    """
    unsigned, half = f"uint{bits_of(source)}", 1 << (bits_of(source) - 1)
    bits = converted(code, value, source, unsigned)
    above = binary(code, "BitwiseXor", unsigned, bits, code.constant(unsigned, half))
    wide = converted(code, above, unsigned, target)
    return binary(code, "Sub", target, wide, code.constant(target, half))


_Conversion = Callable[[Assembler, Id, str, str], Id]

_CONVERSIONS: Mapping[tuple[str, str], _Conversion] = {
    **{("bool", target): _from_bool for target in ("int", "uint", "float")},
    **{(source, "bool"): _to_bool for source in ("int", "uint", "float")},
    **{(source, "float"): _to_float for source in ("int", "uint", "float")},
    **{("float", target): _from_float for target in ("int", "uint")},
}
"""Conversions by the kinds of both dtypes, except for those between integers."""


def reinterpreted(code: Assembler, value: Id, source: str, target: str) -> Id:
    """Return the bits of a value as another dtype of the same width."""
    if source == target:
        return value
    if "bool" in (source, target):
        # Stored as a byte.
        return converted(code, value, source, target)
    if bits_of(source) != bits_of(target):
        raise Unsupported(f"{source} read as {target}")
    return code.result(Op.Bitcast, code.scalar(target), value)
