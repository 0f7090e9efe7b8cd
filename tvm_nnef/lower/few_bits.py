"""Elements of dtypes of few bits, from their bytes to numbers and back.

Tensors are converted by a kernel, which fusion joins with those around it. The bits are moved
rather than computed, so that little depends on how a machine rounds or treats small numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tvm_nnef.arrays.few_bits import FORMATS, Format
from tvm_nnef.exact.functions import cast
from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.tvm_support.compat import BlockBuilder, PrimExpression, RelaxExpression

_MANTISSA, _BIAS = 23, 127
"""Those of float32, whose bits are ``_BITS``."""
_BITS = "uint32"
_INFINITY, _NAN = 0x7F800000, 0x7FC00000


def unpacked(builder: BlockBuilder, value: RelaxExpression, dtype: str) -> RelaxExpression:
    """The numbers of the bytes of a tensor of a dtype of few bits."""
    return _converted(builder, value, lambda code: decoded(code, dtype), "decode")


def packed(builder: BlockBuilder, value: RelaxExpression, dtype: str) -> RelaxExpression:
    """The bytes of a tensor of a dtype of few bits, of its numbers in any dtype of their kind."""
    taken = FORMATS[dtype].computed
    return _converted(builder, value, lambda x: encoded(cast(x, taken), dtype), "encode")


def _converted(
    builder: BlockBuilder,
    value: RelaxExpression,
    element: Callable[[PrimExpression], PrimExpression],
    name: str,
) -> RelaxExpression:
    def function(x: Any) -> Any:
        return te.compute(x.shape, lambda *indices: element(x(*indices)), name=name)

    return call_kernel(builder, function, [value], name)


def decoded(code: PrimExpression, dtype: str) -> PrimExpression:
    """The number that the byte of an element stands for."""
    found = FORMATS[dtype]
    if found.type == "int":
        return code
    bits = tirx.Cast(_BITS, code)
    if not found.mantissa:
        return _real(_power_of_two(bits))
    sign, size = bits >> _number(found.bits - 1), bits & _number((1 << found.bits - 1) - 1)
    shift = _number(_MANTISSA - found.mantissa)
    usual = (size << shift) + _number((_BIAS - found.bias) << _MANTISSA)
    # The codes of small numbers count steps of one size.
    step = math.ldexp(1.0, 1 - found.bias - found.mantissa)
    small = _bits(tirx.Cast("float32", tirx.Cast("int32", size)) * tirx.const(step, "float32"))
    number = tirx.Select(size < _number(1 << found.mantissa), small, usual)
    signed = number | sign << _number(31)
    return _real(_with_specials(signed, sign, bits, size, found))


def _with_specials(
    number: PrimExpression,
    sign: PrimExpression,
    code: PrimExpression,
    size: PrimExpression,
    found: Format,
) -> PrimExpression:
    """The bits of a number, or those of NaN and infinity where a code means these."""
    if found.nan == 0:
        return number
    if found.nan == 0x80:
        return tirx.Select(tirx.EQ(code, _number(found.nan)), _number(_NAN), number)
    negative = sign << _number(31)
    if found.overflow != found.nan:
        infinite = tirx.EQ(size, _number(found.overflow))
        number = tirx.Select(infinite, _number(_INFINITY) | negative, number)
    least = found.largest + 1 + (found.overflow != found.nan)
    return tirx.Select(size < _number(least), number, _number(_NAN) | negative)


def _power_of_two(code: PrimExpression) -> PrimExpression:
    """The bits of the number whose exponent a code is."""
    usual = tirx.Select(tirx.EQ(code, _number(0xFF)), _number(_NAN), code << _number(_MANTISSA))
    return tirx.Select(tirx.EQ(code, _number(0)), _number(1 << _MANTISSA - 1), usual)


def encoded(value: PrimExpression, dtype: str) -> PrimExpression:
    """The byte of the element that is nearest to a number, of two the even one."""
    found = FORMATS[dtype]
    if found.type == "int":
        return _wrapped(value, found)
    bits = _bits(value)
    size, sign = bits & _number(0x7FFFFFFF), bits >> _number(31)
    is_nan = size > _number(_INFINITY)
    if not found.mantissa:
        # Zero and what is negative has no code but that of NaN.
        other = tirx.Or(is_nan, tirx.Or(sign > _number(0), tirx.EQ(size, _number(0))))
        code = tirx.Select(other, _number(found.nan), _exponent(size))
        return tirx.Cast(found.held, code)
    shift = _MANTISSA - found.mantissa
    odd = (size >> _number(shift)) & _number(1)
    usual = (size + (odd + _number((1 << shift - 1) - 1))) >> _number(shift)
    usual = usual - _number((_BIAS - found.bias) << found.mantissa)
    # Added to a number whose last bit is one step, a small number is rounded to whole steps.
    base = _MANTISSA + 1 - found.bias - found.mantissa
    lifted = _real(size) + tirx.const(math.ldexp(1.0, base), "float32")
    small = _bits(lifted) - _number((base + _BIAS) << _MANTISSA)
    is_small = size < _number((_BIAS + 1 - found.bias) << _MANTISSA)
    code = tirx.Select(is_small, small, usual)
    code = tirx.Select(code > _number(found.largest), _number(found.overflow), code)
    code = tirx.Select(is_nan, _number(found.nan), code)
    negative = sign << _number(found.bits - 1)
    if found.nan == 0x80:
        # NaN has the code that -0 would have.
        kept = tirx.Or(tirx.EQ(code, _number(0)), tirx.EQ(code, _number(found.nan)))
        negative = tirx.Select(kept, _number(0), negative)
    elif found.nan == 0:
        negative = tirx.Select(is_nan, negative ^ _number(1 << found.bits - 1), negative)
    return tirx.Cast(found.held, code | negative)


def _exponent(size: PrimExpression) -> PrimExpression:
    """The code of the power of two nearest to a number of some bits; NaN beyond the last one."""
    usual = (size + _number(1 << _MANTISSA - 1)) >> _number(_MANTISSA)
    # The first one is itself a small number of float32.
    first = tirx.Select(size > _number(1 << _MANTISSA - 1), _number(1), _number(0))
    return tirx.Select(size < _number(1 << _MANTISSA), first, usual)


def _wrapped(value: PrimExpression, found: Format) -> PrimExpression:
    """The low bits of an int, the first of which is a sign if the dtype has one."""
    if found.held == "uint8":
        return value & tirx.const((1 << found.bits) - 1, found.held)
    distance = tirx.const(32 - found.bits, "int32")
    return tirx.Cast(found.held, tirx.Cast("int32", value) << distance >> distance)


def _bits(value: PrimExpression) -> PrimExpression:
    return tirx.reinterpret(_BITS, value)


def _real(bits: PrimExpression) -> PrimExpression:
    return tirx.reinterpret("float32", bits)


def _number(value: int) -> PrimExpression:
    return tirx.const(value, _BITS)
