"""Converters of element-wise operations: arithmetic, comparisons, logic, bits, functions, casts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import broadcast
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation, elements
from tvm_nnef.converters.stablehlo.registry import operation

_UNARY: Mapping[str, str] = {
    "stablehlo.abs": "math.abs", "stablehlo.negate": "math.neg", "stablehlo.ceil": "math.ceil",
    "stablehlo.floor": "math.floor", "stablehlo.exponential": "math.exp",
    "stablehlo.log": "math.log", "stablehlo.sqrt": "math.sqrt", "stablehlo.rsqrt": "math.rsqrt",
    "stablehlo.sine": "math.sin", "stablehlo.cosine": "math.cos", "stablehlo.tan": "math.tan",
    "stablehlo.tanh": "math.tanh", "stablehlo.sign": "math.sign",
    "stablehlo.logistic": "nn.sigmoid", "stablehlo.round_nearest_even": "extra.round_even",
    "stablehlo.round_nearest_afz": "math.round", "stablehlo.exponential_minus_one": "xla.expm1",
    "stablehlo.log_plus_one": "xla.log1p", "stablehlo.cbrt": "xla.cbrt", "chlo.erf": "nn.erf",
    "chlo.erfc": "xla.erfc", "chlo.square": "math.sqr", "chlo.tan": "math.tan",
    "chlo.sinh": "math.sinh", "chlo.cosh": "math.cosh", "chlo.asin": "math.asin",
    "chlo.acos": "math.acos", "chlo.atan": "math.atan", "chlo.asinh": "math.asinh",
    "chlo.acosh": "math.acosh", "chlo.atanh": "math.atanh",
}  # fmt: skip
_TO_BOOL: Mapping[str, str] = {"stablehlo.is_finite": "xla.is_finite"}
_BINARY: Mapping[str, str] = {
    "add": "math.add", "subtract": "math.sub", "multiply": "math.mul", "maximum": "math.max",
    "minimum": "math.min", "power": "math.pow", "atan2": "xla.atan2",
}  # fmt: skip
_LOGIC: Mapping[str, str] = {"and": "math.and", "or": "math.or", "xor": "math.xor"}
_COMPARE: Mapping[str, str] = {
    "EQ": "math.eq", "NE": "math.ne", "LT": "math.lt", "LE": "math.le", "GT": "math.gt",
    "GE": "math.ge",
}  # fmt: skip


def shrunk(each: Operation, operands: Sequence[Tensor]) -> list[Tensor]:
    """Return operands before their broadcast, if the other operands broadcast them in the same
    way.
    """
    smaller = list(operands)
    for number, tensor in enumerate(operands):
        small = each.broadcasts.get(id(tensor))
        if small is None:
            continue
        trial = [*smaller[:number], small[1], *smaller[number + 1 :]]
        try:
            if broadcast(*(one.shape for one in trial)) == tensor.shape:
                smaller = trial
        except (ValueError, Unconvertible):
            continue
    if all(one.value is not None for one in smaller):
        return list(operands)
    return smaller


def binary(each: Operation, name: str, builder: Builder, as_type: str | None = None) -> Tensor:
    """Call an operator of two operands, which may be broadcast."""
    left, right = shrunk(each, each.inputs)
    return builder.binary(name, left, right, as_type)


@operation(*_UNARY)
def unary(each: Operation, builder: Builder) -> Tensor:
    """Call a function of one operand."""
    return builder.call(_UNARY[each.op.operation.name], each.inputs[0])


@operation(*_TO_BOOL)
def predicate(each: Operation, builder: Builder) -> Tensor:
    """Call a predicate of each element."""
    return builder.call(_TO_BOOL[each.op.operation.name], each.inputs[0], as_type="bool")


@operation("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def is_infinite(each: Operation, builder: Builder) -> Tensor:
    """Whether elements are infinite."""
    kind = each.op.operation.name
    return builder.call(
        "extra.is_inf", each.inputs[0], as_type="bool",
        negative=kind != "chlo.is_pos_inf", positive=kind != "chlo.is_neg_inf",
    )  # fmt: skip


@operation(*_BINARY)
def arithmetic(each: Operation, builder: Builder) -> Tensor:
    """Call a function of two operands; for truth values addition is 'or', multiplication 'and'."""
    kind = each.op.operation.name.removeprefix("stablehlo.")
    if each.inputs[0].kind == "bool":
        logic = {"add": "math.or", "maximum": "math.or", "multiply": "math.and"}
        return binary(each, logic.get(kind, "math.and"), builder)
    if kind == "maximum":
        for one, other in (each.inputs, each.inputs[::-1]):
            scalar = each.broadcasts.get(id(one), (one, one))[1].value
            if scalar is not None and not scalar.shape and scalar == least(one.dtype):
                return other
    if each.inputs[0].kind == "int" and kind == "power":
        return binary(each, "xla.int_pow", builder)
    return binary(each, _BINARY[kind], builder)


@operation("divide")
def divide(each: Operation, builder: Builder) -> Tensor:
    """Return a quotient; of integers truncated, and with all bits set if the divisor is 0, as
    XLA's.
    """
    if each.inputs[0].kind == "real":
        return binary(each, "math.div", builder)
    quotient = binary(each, "extra.truncate_div", builder)
    ones = builder.constant(~np.zeros((), each.dtype()))
    return _unless_zero(each, quotient, ones, builder)


@operation("remainder")
def remainder(each: Operation, builder: Builder) -> Tensor:
    """Return the remainder with the sign of the dividend; of integers the dividend if the divisor
    is 0.
    """
    if each.inputs[0].kind == "real":
        return binary(each, "math.mod", builder)
    rest = binary(each, "extra.truncate_mod", builder)
    return _unless_zero(each, rest, shrunk(each, each.inputs)[0], builder)


def _unless_zero(each: Operation, value: Tensor, otherwise: Tensor, builder: Builder) -> Tensor:
    """Return ``value``, but ``otherwise`` where the divisor is 0."""
    divisor = shrunk(each, each.inputs)[1]
    if divisor.sizes is not None or (divisor.value is not None and divisor.value.all()):
        return value
    is_zero = builder.binary("math.eq", divisor, 0, "bool")
    return builder.select(is_zero, builder.computed(otherwise), value)


def _width(tensor: Tensor) -> int:
    return np.dtype(tensor.dtype).itemsize * 8


@operation(*_LOGIC)
def logic(each: Operation, builder: Builder) -> Tensor:
    """Convert logic on truth values, or bit by bit."""
    kind = each.op.operation.name.removeprefix("stablehlo.")
    if each.inputs[0].kind == "bool":
        return binary(each, _LOGIC[kind], builder)
    left, right = shrunk(each, each.inputs)
    return bitwise(kind, left, right, builder)


def bitwise(kind: str, left: Tensor, right: Tensor, builder: Builder) -> Tensor:
    """Return ``and``, ``or`` or ``xor``, bit by bit."""
    bits = _width(left)
    # Formulas compute in 32 or 64 signed bits: there the topmost one is the sign.
    top = bits if left.dtype in ("uint8", "uint16", "uint32") else bits - 1
    return builder.binary(f"extra.bitwise_{kind}", left, right, bits=bits, top=top)


@operation("not")
def negated(each: Operation, builder: Builder) -> Tensor:
    """Return the opposite truth value, or every bit inverted."""
    x = each.inputs[0]
    return builder.call("math.not" if x.kind == "bool" else "extra.bitwise_not", x)


@operation("shift_left")
def shift_left(each: Operation, builder: Builder) -> Tensor:
    """Shift bits to the left."""
    left, right = shrunk(each, each.inputs)
    return builder.binary("extra.shift_left", left, right, bits=_width(left))


@operation("shift_right_arithmetic", "shift_right_logical")
def shift_right(each: Operation, builder: Builder) -> Tensor:
    """Shift bits to the right, with copies of the sign, or with 0 if the shift is logical."""
    left, right = shrunk(each, each.inputs)
    if each.op.operation.name.endswith("arithmetic"):
        signed = left.dtype.removeprefix("u")
        result = builder.binary(
            "extra.shift_right", builder.cast(left, signed), builder.cast(right, signed),
            bits=max(_width(left), 32), unsigned=False,
        )  # fmt: skip
        return builder.cast(result, left.dtype)
    return shifted(left, right, builder)


def shifted(left: Tensor, right: Tensor, builder: Builder) -> Tensor:
    """Return a logical shift to the right."""
    unsigned = left.dtype if left.dtype.startswith("u") else f"u{left.dtype}"
    bits = 64 if unsigned == "uint64" else 32 if _width(left) < 32 else _width(left)
    result = builder.binary(
        "extra.shift_right", builder.cast(left, unsigned), builder.cast(right, unsigned),
        bits=bits if unsigned != "uint32" else 64, unsigned=unsigned == "uint64",
    )  # fmt: skip
    return builder.cast(result, left.dtype)


@operation("popcnt")
def population_count(each: Operation, builder: Builder) -> Tensor:
    """Count the bits that are set."""
    x = each.inputs[0]
    bits = _width(x)
    top = bits if x.dtype in ("uint8", "uint16", "uint32") else bits - 1
    return builder.call("xla.count_bits", x, bits=bits, top=top)


@operation("count_leading_zeros")
def leading_zeros(each: Operation, builder: Builder) -> Tensor:
    """Count the leading bits that are not set."""
    return builder.call("xla.leading_zeros", each.inputs[0], bits=_width(each.inputs[0]))


@operation("compare")
def compare(each: Operation, builder: Builder) -> Tensor:
    """Compare; in the total order -0 is less than 0, and NaN is at the ends."""
    name = _COMPARE[each.text("comparison_direction")]
    left, right = shrunk(each, each.inputs)
    if left.kind == "real" and each.text("compare_type") == "TOTALORDER":
        left, right = (total_order(one, builder) for one in each.inputs)
    elif left.kind == "bool":
        left, right = (builder.cast(one, "int32") for one in (left, right))
    return builder.binary(name, left, right, "bool")


def total_order(x: Tensor, builder: Builder) -> Tensor:
    """Return integers in the total order of reals: -0 before 0, NaN last."""
    if x.dtype != "float64":
        return builder.call("xla.order", x, as_type="int32")
    return builder.call(
        "xla.order_of_bits", builder.call("extra.bits_of_float64", x, as_type="int64")
    )


@operation("select")
def select(each: Operation, builder: Builder) -> Tensor:
    """Select the second operand where the first one holds, else the third."""
    return builder.select(*shrunk(each, each.inputs))


@operation("clamp")
def clamp(each: Operation, builder: Builder) -> Tensor:
    """Limit the middle operand."""
    low, x, high = shrunk(each, each.inputs)
    return builder.binary("math.min", builder.binary("math.max", x, low), high)


@operation("convert")
def convert(each: Operation, builder: Builder) -> Tensor:
    """Convert elements to another type."""
    x, dtype = each.inputs[0], each.dtype()
    if x.value is not None and x.size <= 64:
        with np.errstate(all="ignore"):
            return builder.constant(x.value.astype(dtype), dtype)
    if x.kind == "real" and dtype in ("int8", "int16", "uint8", "uint16", "int32", "uint32"):
        return builder.call("xla.saturate", x, as_type=dtype, more={
            "low": int(np.iinfo(dtype).min), "high": int(np.iinfo(dtype).max)})  # fmt: skip
    return builder.cast(x, dtype)


@operation("constant", "chlo.constant")
def constant(each: Operation, builder: Builder) -> Tensor:
    """Convert a constant; one of equal elements records the scalar."""
    each.dtype()  # refuses what the bindings cannot read
    attribute = each.attribute("value")
    value = elements(attribute)
    if value.ndim and attribute.is_splat:
        scalar = builder.constant(value.reshape(-1)[0]) if value.size else None
        if scalar is not None:
            if value.size <= 16:
                full = builder.constant(np.ascontiguousarray(value))
            else:
                full = builder.full(scalar, value.shape, scalar.dtype)
            each.broadcasts[id(full)] = full, scalar
            return full
    return builder.constant(np.ascontiguousarray(value).reshape(value.shape))


@operation("map")
def mapped(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Apply a scalar function to the elements at each position."""
    results = each.run(each.regions[0], each.inputs, builder, True)
    shape = broadcast(*(one.shape for one in each.inputs))
    return [builder.expand(one, shape) for one in results]


@operation(
    "optimization_barrier", "sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier"
)
def barrier(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Return the operands themselves."""
    return each.inputs


def least(dtype: str) -> float | int:
    """Return the smallest value of a dtype."""
    return -math.inf if np.dtype(dtype).kind not in "iu" else int(np.iinfo(dtype).min)
