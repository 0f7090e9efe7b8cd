"""Elementwise operations (section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.operation import DTYPES, Operation
from tvm_nnef.converters.nnef1.operators.registry import operation, table_of

_SAME = (
    "neg", "rcp", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
    "atan", "asinh", "acosh", "atanh", "abs", "sign", "not", "floor", "ceil", "sqr", "sqrt",
    "rsqr", "rsqrt", "log2",
)  # fmt: skip
_UNARY: Mapping[str, str] = {
    **{name: f"math.{name}" for name in _SAME},
    "copy": "math.iden",
    # SkriptND rounds halves away from zero, NNEF 1 upwards.
    "round": "nnef1.round",
}
_BINARY = ("add", "sub", "mul", "div", "pow", "min", "max", "and", "or")
_COMPARISONS = ("lt", "gt", "le", "ge", "eq", "ne")


def _unary(name: str, operation: Operation, builder: Builder) -> Tensor:
    return builder.call(name, operation.tensor("x"))


def _binary(name: str, as_type: str | None, operation: Operation, builder: Builder) -> Tensor:
    x, y = operation.operands("x", "y")
    return broadcasting.binary(name, x, y, builder, as_type)


UNARY = table_of({name: partial(_unary, theirs) for name, theirs in _UNARY.items()})
BINARY = table_of({name: partial(_binary, f"math.{name}", None) for name in _BINARY})
COMPARISONS = table_of({name: partial(_binary, f"math.{name}", "bool") for name in _COMPARISONS})


@operation("select")
def select(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``select``: one of two values for each element."""
    x, y = operation.operands("true_value", "false_value")
    return broadcasting.select(operation.tensor("condition"), x, y, builder)


@operation("clamp")
def clamp(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``clamp``: elements within limits; the lower limit has priority if they cross."""
    x, low, high = operation.operands("x", "a", "b")
    least, most = (operation.call.arguments[name] for name in ("a", "b"))
    if isinstance(least, (int, float)) and isinstance(most, (int, float)) and least <= most:
        return builder.call("math.clamp", x, low, high)
    return clamped(x, low, high, builder)


def clamped(x: Tensor, low: Tensor, high: Tensor, builder: Builder) -> Tensor:
    """Return ``max(min(x, high), low)``."""
    capped = broadcasting.binary("math.min", x, high, builder)
    return broadcasting.binary("math.max", capped, low, builder)


@operation("cast")
def cast(operation: Operation, builder: Builder) -> Tensor:
    """Convert a cast to another type; real numbers lose their fraction as integers."""
    x = operation.tensor("input")
    item_type = operation.call.item_type or "scalar"
    dtype = DTYPES[item_type]
    return builder.cast(x, dtype) if x.dtype != dtype else builder.call("math.iden", x)


@operation("copy_n")
def copy_n(operation: Operation, builder: Builder) -> list[list[Tensor]]:
    """Convert ``copy_n``: the same tensor several times."""
    x, times = operation.tensor("x"), operation.integer("times")
    operation.check_result_count(times)
    return [[builder.call("math.iden", x) for _ in range(times)]]


@operation("add_n")
def add_n(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``add_n``: the sum of several tensors; 0 if there are none."""
    operands = operation.tensors("x") if operation.call.arguments["x"] else []
    if not operands:
        return builder.constant(0.0, "float32")
    shape = broadcasting.broadcast_shape(*operands)
    if len(operands) > 2 and all(each.shape == shape for each in operands):
        return builder.call(
            "math.sum_n", tuple(operands), as_type=operands[0].dtype, as_shape=shape
        )
    total = operands[0]
    for each in operands[1:]:
        total = broadcasting.binary("math.add", total, each, builder)
    return total if len(operands) > 1 else builder.call("math.iden", total)
