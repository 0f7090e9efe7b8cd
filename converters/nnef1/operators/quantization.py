"""Simulated quantization (section 4.9.5)."""

from __future__ import annotations

from operator import lt

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1.operators.broadcasting import binary, with_number
from tvm_nnef.converters.nnef1.operators.elementwise import clamped
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation


def _bits(operation: Operation) -> int:
    bits = operation.integer("bits")
    if not 1 <= bits <= 32:
        raise Unconvertible(f"'bits' is {bits}", "give a number from 1 to 32")
    return bits


@operation("zero_point_linear_quantize")
def zero_point_linear_quantize(operation: Operation, builder: Builder) -> Tensor:
    """Round to multiples of a scale around a zero point, as many as the bits can represent."""
    scale = operation.real("scale")
    if scale == 0.0:
        raise Unconvertible("'scale' is 0", "give another number")
    bits, zero = _bits(operation), operation.integer("zero_point")
    signed, symmetric = operation.flag("signed"), operation.flag("symmetric")
    most = (1 << bits - 1) - 1 if signed else (1 << bits) - 1
    least = 0 if not signed else -most if symmetric else -most - 1
    return builder.call(
        "nnef1.zero_point_linear_quantize", operation.tensor("x"), scale=scale,
        least=float(least - zero), most=float(most - zero),
    )  # fmt: skip


@operation("min_max_linear_quantize")
def min_max_linear_quantize(operation: Operation, builder: Builder) -> Tensor:
    """Round to equal steps of a range of values, as many as the bits can represent."""
    signed, symmetric = operation.flag("signed"), operation.flag("symmetric")
    return _in_steps(operation, signed, symmetric, builder)


@operation("linear_quantize")
def linear_quantize(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``linear_quantize``: as ``min_max_linear_quantize``, without a sign."""
    return _in_steps(operation, False, False, builder)


def _in_steps(operation: Operation, signed: bool, symmetric: bool, builder: Builder) -> Tensor:
    x, low, high = operation.operands("x", "min", "max")
    bits = _bits(operation)
    steps = (1 << bits) - 1 - int(signed and symmetric)
    if steps == 0:
        raise Unconvertible("its bits leave a single value", "use more bits")
    least, most = _by_channel(low, x), _by_channel(high, x)
    if least and most and all(map(lt, least, most)):
        return builder.call(
            "quant.min_max_linear_quantize", x, min=least, max=most, bits=bits, signed=signed,
            symmetric=symmetric,
        )  # fmt: skip
    inside = clamped(x, low, high, builder)
    size = binary("math.sub", high, low, builder)
    part = binary("math.div", binary("math.sub", inside, low, builder), size, builder)
    code = builder.call("nnef1.round", with_number("math.mul", part, steps, builder))
    back = binary("math.mul", with_number("math.div", code, steps, builder), size, builder)
    return binary("math.add", back, low, builder)


def _by_channel(limit: Tensor, x: Tensor) -> list[float] | None:
    """Return a known limit of each channel as SkriptND's attribute.

    It is None if it is another tensor.
    """
    if limit.value is None or limit.rank > x.rank:
        return None
    channels = limit.shape[1] if limit.rank > 1 else 1
    if limit.size != channels or channels not in (1, *x.shape[1:2]):
        return None
    count = x.shape[1] if x.rank > 1 else 1
    if not isinstance(count, int):
        return None
    values = [float(str(each)) for each in limit.value.reshape(-1)]
    return values if len(values) == count else values * count


@operation("logarithmic_quantize")
def logarithmic_quantize(operation: Operation, builder: Builder) -> Tensor:
    """Round to powers of 2 up to a maximum, with the sign of the elements."""
    x, largest = operation.operands("x", "max")
    highest = builder.call("math.ceil", builder.call("math.log2", largest))
    lowest = with_number("math.sub", highest, (1 << _bits(operation)) - 1, builder)
    exponent = builder.call("math.log2", builder.call("math.abs", x))
    inside = clamped(exponent, lowest, highest, builder)
    power = builder.call("nnef1.power_of_two", builder.call("nnef1.round", inside))
    return binary("math.mul", builder.call("math.sign", x), power, builder)
