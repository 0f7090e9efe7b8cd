"""Element-wise operators: arithmetic, comparison, logic, functions of one argument, choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

import numpy as np

from tvm_nnef.arrays.coded_arrays import largest
from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Argument, Tensor
from tvm_nnef.converters.common.types import kind
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node, OperatorFunction
from tvm_nnef.converters.onnx.registry import operator, table_of

_UNARY: Mapping[str, str] = {
    "Abs": "math.abs", "Neg": "math.neg", "Ceil": "math.ceil", "Floor": "math.floor",
    "Exp": "math.exp", "Log": "math.log", "Sqrt": "math.sqrt", "Reciprocal": "math.rcp",
    "Sin": "math.sin", "Cos": "math.cos", "Tan": "math.tan", "Sinh": "math.sinh",
    "Cosh": "math.cosh", "Tanh": "math.tanh", "Asin": "math.asin", "Acos": "math.acos",
    "Atan": "math.atan", "Asinh": "math.asinh", "Acosh": "math.acosh", "Atanh": "math.atanh",
    "Sign": "math.sign", "Not": "math.not", "Erf": "nn.erf", "Sigmoid": "nn.sigmoid",
    "Softplus": "nn.softplus", "Round": "extra.round_even", "Softsign": "extra.softsign",
    "Mish": "onnx.mish", "HardSwish": "onnx.hard_swish", "IsNaN": "extra.is_nan",
    "BitwiseNot": "extra.bitwise_not",
}  # fmt: skip
_BINARY: Mapping[str, str] = {
    "Add": "math.add", "Sub": "math.sub", "Mul": "math.mul", "And": "math.and", "Or": "math.or",
    "Xor": "math.xor", "Equal": "math.eq", "Greater": "math.gt", "Less": "math.lt",
    "GreaterOrEqual": "math.ge", "LessOrEqual": "math.le",
}  # fmt: skip
_TO_BOOL = frozenset(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"))


def _unary(name: str, node: Node, builder: Builder) -> Tensor:
    x = node.input(0)
    return builder.call(name, x, as_type="bool" if node.operator == "IsNaN" else None)


def _binary(name: str, node: Node, builder: Builder) -> Tensor:
    dtype = "bool" if node.operator in _TO_BOOL else None
    return builder.binary(name, node.input(0), node.input(1), dtype)


UNARY = table_of({name: partial(_unary, target) for name, target in _UNARY.items()})
BINARY = table_of({name: partial(_binary, target) for name, target in _BINARY.items()}, since=7)


@operator("Identity")
def identity(node: Node, builder: Builder) -> Tensor:
    """The input itself."""
    return node.input(0)


@operator("Div", since=7)
def divide(node: Node, builder: Builder) -> Tensor:
    """A quotient; of integers truncated."""
    x, y = node.input(0), node.input(1)
    return builder.binary("math.div" if x.kind == "real" else "extra.truncate_div", x, y)


@operator("Mod", since=10)
def modulus(node: Node, builder: Builder) -> Tensor:
    """A remainder: with the sign of the divisor, or of the dividend where ``fmod``."""
    x, y = node.input(0), node.input(1)
    if node.flag("fmod"):
        return builder.binary("math.mod" if x.kind == "real" else "extra.truncate_mod", x, y)
    return builder.binary("extra.floor_mod" if x.kind == "real" else "math.mod", x, y)


@operator("Pow", since=7)
def power(node: Node, builder: Builder) -> Tensor:
    """The first input to the power of the second, in the first one's type."""
    x, y = node.input(0), node.input(1)
    if x.kind == y.kind:
        return builder.binary("math.pow", x, y)
    if x.kind == "real":
        return builder.binary("math.pow", x, builder.cast(y, x.dtype))
    wide = builder.binary("math.pow", builder.cast(x, "float64"), builder.cast(y, "float64"))
    return builder.cast(wide, x.dtype)


def _variadic(name: str, node: Node, builder: Builder) -> Tensor:
    """The inputs joined one after the other."""
    return reduce(partial(builder.binary, name), node.present[1:], node.input(0))


VARIADIC = table_of(
    {
        "Sum": partial(_variadic, "math.add"),
        "Max": partial(_variadic, "math.max"),
        "Min": partial(_variadic, "math.min"),
    }
)


@operator("Mean")
def mean(node: Node, builder: Builder) -> Tensor:
    """The mean of the inputs, element by element."""
    total = _variadic("math.add", node, builder)
    return builder.binary("math.div", total, float(len(node.present)))


@operator("Where", since=9)
def where(node: Node, builder: Builder) -> Tensor:
    """The second input where the condition holds, else the third."""
    return builder.select(node.input(0), node.input(1), node.input(2))


@operator("Cast", since=6)
def cast(node: Node, builder: Builder) -> Tensor:
    """Elements in another type."""
    return _converted(node, node.dtype(), builder)


@operator("CastLike", since=15)
def cast_like(node: Node, builder: Builder) -> Tensor:
    """Elements in the type of the second input."""
    return _converted(node, node.input(1).dtype, builder)


def _converted(node: Node, dtype: str, builder: Builder) -> Tensor:
    x, saturates = node.input(0), node.flag("saturate", True)
    if dtype == x.dtype or dtype not in FORMATS or FORMATS[dtype].type != "real":
        return builder.cast(x, dtype)
    if x.kind != "real" or dtype == "float8_e8m0fnu":
        x = builder.cast(x, "float32")  # What is near the limits is beyond those of float16.
    if dtype == "float8_e8m0fnu":
        return _power_of_two(x, saturates, node.text("round_mode", "up"), builder)
    return saturated(x, dtype, builder) if saturates else builder.cast(x, dtype)


def saturated(x: Tensor, dtype: str, builder: Builder) -> Tensor:
    """Reals in a dtype of few bits, those beyond its largest number as that number."""
    most = largest(dtype)
    return builder.call("math.clamp", x, -most, most, as_type=dtype)


def _power_of_two(x: Tensor, saturates: bool, mode: str, builder: Builder) -> Tensor:
    """Reals as powers of two, ``up``, ``down`` or to the ``nearest`` one."""
    if mode not in ("up", "down", "nearest"):
        hint = "it is 'up', 'down' or 'nearest'"
        raise Unconvertible(f"its attribute 'round_mode' is '{mode}'", hint)
    dtype = "float8_e8m0fnu"
    if saturates:
        x = builder.call("math.clamp", x, 2.0**-127, largest(dtype))
    near = builder.cast(x, dtype)
    if mode == "nearest":
        return near
    return builder.call("onnx.power_of_two", x, near, as_type=dtype, up=mode == "up")


@operator("BitCast", since=26)
def bit_cast(node: Node, builder: Builder) -> Tensor:
    """The same bits seen as another type of the same size."""
    x, dtype = node.input(0), node.dtype()
    if x.kind == kind(dtype) == "int":
        return builder.cast(x, dtype)
    if few := {x.dtype, dtype}.intersection(FORMATS):
        raise Unconvertible(
            f"the bits of {', '.join(sorted(few))} cannot be converted",
            "use Cast, or integers of the same size",
        )
    if x.kind == "bool" or dtype == "bool":
        return builder.cast(x, dtype)
    bits = np.dtype(dtype).itemsize * 8
    if x.kind == "real":
        whole = builder.call(f"extra.bits_of_float{bits}", x, as_type=f"int{bits}")
        return builder.cast(whole, dtype)
    signed = builder.cast(builder.cast(x, f"int{bits}"), "int64")
    return builder.call(f"extra.float{bits}_of_bits", signed, as_type=dtype)


def _bitwise(name: str, node: Node, builder: Builder) -> Tensor:
    x, y = node.input(0), node.input(1)
    bits = np.dtype(x.dtype).itemsize * 8
    # Formulas compute in 32 or 64 signed bits: there the topmost one is the sign.
    top = bits if x.dtype in ("uint8", "uint16", "uint32") else bits - 1
    return builder.binary(name, x, y, bits=bits, top=top)


BITWISE = table_of(
    {
        "BitwiseAnd": partial(_bitwise, "extra.bitwise_and"),
        "BitwiseOr": partial(_bitwise, "extra.bitwise_or"),
        "BitwiseXor": partial(_bitwise, "extra.bitwise_xor"),
    },
    since=18,
)


@operator("BitShift", since=11)
def bit_shift(node: Node, builder: Builder) -> Tensor:
    """Bits moved left, or right where the direction says so."""
    x, y = node.input(0), node.input(1)
    bits = np.dtype(x.dtype).itemsize * 8
    if node.text("direction") == "LEFT":
        return builder.binary("extra.shift_left", x, y, bits=bits)
    wide = 64 if x.dtype == "uint64" else 32 if bits < 32 else bits
    unsigned = x.dtype == "uint64"
    return builder.binary("extra.shift_right", x, y, bits=wide, unsigned=unsigned)


# --- functions with parameters --------------------------------------------------------------


def _with(
    name: str, parameters: Sequence[tuple[str, str, float]], node: Node, builder: Builder
) -> Tensor:
    given = {ours: node.real(theirs, default) for theirs, ours, default in parameters}
    return builder.call(name, node.input(0), more=given)


def _parametric(name: str, *parameters: tuple[str, str, float]) -> OperatorFunction:
    return partial(_with, name, parameters)


PARAMETRIC = table_of(
    {
        "Elu": _parametric("nn.elu", ("alpha", "alpha", 1.0)),
        "LeakyRelu": _parametric("onnx.leaky_relu", ("alpha", "alpha", 0.01)),
        "Selu": _parametric(
            "nn.selu", ("alpha", "alpha", 1.67326319217681884765625),
            ("gamma", "lambda", 1.05070102214813232421875),
        ),
        "HardSigmoid": _parametric(
            "onnx.hard_sigmoid", ("alpha", "alpha", 0.2), ("beta", "beta", 0.5)
        ),
        "ThresholdedRelu": _parametric("onnx.thresholded_relu", ("alpha", "theta", 1.0)),
        "Celu": _parametric("onnx.celu", ("alpha", "alpha", 1.0)),
        "Shrink": _parametric("onnx.shrink", ("lambd", "lambd", 0.5), ("bias", "bias", 0.0)),
        "Swish": _parametric("onnx.swish", ("alpha", "alpha", 1.0)),
    }
)  # fmt: skip


@operator("Relu", since=6)
def relu(node: Node, builder: Builder) -> Tensor:
    """The input where positive, else 0."""
    x = node.input(0)
    return builder.call("nn.relu", x) if x.kind == "real" else builder.binary("math.max", x, 0)


@operator("PRelu", since=7)
def prelu(node: Node, builder: Builder) -> Tensor:
    """The input, times a slope where negative."""
    return builder.binary("onnx.prelu", node.input(0), node.input(1))


@operator("Gelu", since=20)
def gelu(node: Node, builder: Builder) -> Tensor:
    """The input times the normal distribution function of it."""
    approximate = "TANH" if node.text("approximate", "none") == "tanh" else None
    return builder.call("nn.gelu", node.input(0), approximate=approximate)


@operator("Clip", since=6)
def clip(node: Node, builder: Builder) -> Tensor:
    """The input within limits, which are attributes here."""
    x = node.input(0)
    low = node.real("min") if node.has("min") else None
    high = node.real("max") if node.has("max") else None
    return _within(x, low, high, builder)


@operator("Clip", since=11)
def clip_11(node: Node, builder: Builder) -> Tensor:
    """The input within limits, which are inputs here."""
    return _within(node.input(0), node.optional(1), node.optional(2), builder)


def _within(x: Tensor, low: Argument, high: Argument, builder: Builder) -> Tensor:
    if low is not None:
        x = builder.binary("math.max", x, low)
    return x if high is None else builder.binary("math.min", x, high)


@operator("IsInf", since=10)
def is_inf(node: Node, builder: Builder) -> Tensor:
    """Whether elements are infinite, of the signs that count."""
    negative, positive = (node.flag(f"detect_{each}", True) for each in ("negative", "positive"))
    return builder.call(
        "extra.is_inf", node.input(0), as_type="bool", negative=negative, positive=positive
    )
