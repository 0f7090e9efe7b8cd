"""Elementwise operators, whose operands NNEF 1 aligns from the left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from tvm_nnef.converters.nnef1.export.emitter import Emitter
from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.values import Value

_UNARY = (
    "neg", "rcp", "sqr", "sqrt", "rsqr", "rsqrt", "exp", "log", "log2", "sin", "cos", "tan",
    "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "abs", "sign",
    "not", "floor", "ceil",
)  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "div", "pow", "min", "max", "lt", "gt", "le", "ge", "eq", "ne", "and",
    "or",
)  # fmt: skip


def _shape(left: Value, right: Value) -> list[int]:
    """Return the shape to which two values broadcast, aligned from the left."""
    rank = max(left.rank, right.rank)
    pairs = zip(
        (*left.shape, *[1] * (rank - left.rank)),
        (*right.shape, *[1] * (rank - right.rank)),
        strict=True,
    )
    return [b if a == 1 else a for a, b in pairs]


def binary(operation: str, left: Value, right: Value, emitter: Emitter) -> Value:
    """Return an operation of two values that are aligned from the left."""
    return emitter.call(operation, left, right, shape=_shape(left, right))


def leading(value: Value, count: int, emitter: Emitter) -> Value:
    """Return the value with leading dimensions of 1, unless all its dimensions are 1 or it has
    none.
    """
    if not count or all(size == 1 for size in value.shape):
        return value
    return emitter.reshape(value, [1] * count + list(value.shape))


def aligned(invocation: Invocation, names: Sequence[str]) -> list[Value]:
    """Return the operands, aligned from the left; ``names`` are the attributes that align them."""
    values = [invocation.value(number) for number in range(len(names))]
    attributes = [invocation.attribute(name) for name in names]
    aligns = [each if isinstance(each, int) else None for each in attributes]
    rank = max(value.rank + abs(align or 0) for value, align in zip(values, aligns, strict=True))
    operands: list[Value] = []
    for value, align in zip(values, aligns, strict=True):
        before = rank - value.rank if align is None else align
        if align is not None and align < 0:
            before = rank - value.rank + align
        operands.append(leading(value, before, invocation.emitter))
    # Operands of ones stay as they are, unless the rank of the result depends on one.
    if max(value.rank for value in operands) < rank:
        operands[0] = invocation.emitter.reshape(
            operands[0], [*operands[0].shape, *[1] * (rank - operands[0].rank)]
        )
    return operands


def _unary(operation: str, invocation: Invocation) -> Exported:
    return invocation.call(operation, invocation.value(0))


def _copy(invocation: Invocation) -> Exported:
    return invocation.call("copy", invocation.emitter.tensor(invocation.value(0)))


def _binary(operation: str, invocation: Invocation) -> Exported:
    left, right = aligned(invocation, ("lhs_align", "rhs_align"))
    return invocation.call(operation, left, right)


def _xor(invocation: Invocation) -> Exported:
    left, right = aligned(invocation, ("lhs_align", "rhs_align"))
    emitter = invocation.emitter
    either, both = (binary(name, left, right, emitter) for name in ("or", "and"))
    return invocation.call("and", either, emitter.call("not", both, shape=both.shape))


def _select(invocation: Invocation) -> Exported:
    condition, x, y = aligned(invocation, ("cond_align", "lhs_align", "rhs_align"))
    return invocation.call("select", condition, x, y)


def _clamp(invocation: Invocation) -> Exported:
    """Export a clamp. If limits cross, SkriptND applies the lower limit last, unlike NNEF 1."""
    x, low, high = aligned(invocation, ("val_align", "min_align", "max_align"))
    emitter = invocation.emitter
    if low.literal is not None and high.literal is not None and low.literal <= high.literal:
        return invocation.call("clamp", x, low, high)
    limited, is_below = binary("min", x, high, emitter), binary("lt", x, low, emitter)
    return invocation.call("select", is_below, low, limited)


def _linear(invocation: Invocation) -> Exported:
    """Export ``a * x + b``."""
    a, x, b = aligned(invocation, ("a_align", "x_align", "b_align"))
    emitter = invocation.emitter
    return binary("add", binary("mul", a, x, emitter), b, emitter)


def _combination(invocation: Invocation) -> Exported:
    """Export ``a * x + b * y``."""
    a, x, b, y = aligned(invocation, ("a_align", "x_align", "b_align", "y_align"))
    emitter = invocation.emitter
    left, right = binary("mul", a, x, emitter), binary("mul", b, y, emitter)
    return binary("add", left, right, emitter)


def _sum(invocation: Invocation) -> Exported:
    return invocation.call("add_n", list(invocation.pack())) if invocation.pack() else None


def _chain(operation: str, invocation: Invocation) -> Exported:
    """Export an operation of two operands as a chain over all tensors of a pack."""
    values = invocation.pack()
    if len(values) < 2:
        return _copy_of(values, invocation)
    return reduce(lambda x, y: binary(operation, x, y, invocation.emitter), values)


def _copy_of(values: Sequence[Value], invocation: Invocation) -> Exported:
    return invocation.call("copy", invocation.emitter.tensor(values[0])) if values else None


def _round(invocation: Invocation) -> Exported:
    """Export rounding with halves away from zero; NNEF 1 rounds halves up."""
    x, emitter = invocation.value(0), invocation.emitter
    return invocation.call("mul", emitter.call("sign", x, shape=x.shape), _magnitude(x, emitter))


def _magnitude(x: Value, emitter: Emitter) -> Value:
    return emitter.call("round", emitter.call("abs", x, shape=x.shape), shape=x.shape)


def rounded(x: Value, emitter: Emitter) -> Value:
    """Round a value to whole numbers, halves away from zero."""
    sign = emitter.call("sign", x, shape=x.shape)
    return binary("mul", sign, _magnitude(x, emitter), emitter)


def _round_even(invocation: Invocation) -> Exported:
    """Export rounding with halves to the even number, which ``round`` of NNEF 1 does not do."""
    x, emitter = invocation.value(0), invocation.emitter

    def call(operation: str, *operands: Value) -> Value:
        return emitter.call(operation, *operands, shape=x.shape)

    half, one, two, none = (emitter.number(each) for each in (0.5, 1.0, 2.0, 0.0))
    low = call("floor", x)
    rest = call("sub", x, low)
    odd = call("sub", low, call("mul", call("floor", call("mul", low, half)), two))
    added = call("select", call("eq", rest, half), odd, none)
    return invocation.call("add", low, call("select", call("gt", rest, half), one, added))


def _power_of_two(invocation: Invocation) -> Exported:
    return invocation.call("pow", invocation.emitter.number(2.0), invocation.value(0))


TABLE: Mapping[str, ExportFunction] = {
    **{f"math.{name}": partial(_unary, name) for name in _UNARY},
    **{f"math.{name}": partial(_binary, name) for name in _BINARY},
    "math.iden": _copy,
    "math.round": _round,
    "math.xor": _xor,
    "math.select": _select,
    "math.clamp": _clamp,
    "math.axpb": _linear,
    "math.axpby": _combination,
    "math.sum_n": _sum,
    "math.prod_n": partial(_chain, "mul"),
    "math.min_n": partial(_chain, "min"),
    "math.max_n": partial(_chain, "max"),
    "math.any_n": partial(_chain, "or"),
    "math.all_n": partial(_chain, "and"),
    "extra.round_even": _round_even,
    "nnef1.round": partial(_unary, "round"),
    "nnef1.power_of_two": _power_of_two,
}
