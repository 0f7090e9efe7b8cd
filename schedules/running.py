"""Cumulative sums and products of Relax as the ordered loops that formulas say them in.

Enters: a call of ``cumsum`` or ``cumprod``. Leaves: a call of a PrimFunc that starts from the
elements and adds to each the one before. TVM's own runs through flat indices, in which nothing is
seen that could go along beside. Which loops are fast is left to the rules.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from tvm_nnef.tvm_support.compat import (
    RelaxExpression,
    buffer,
    dtype_of,
    opaque_function,
    shape_and_dtype,
    tensor_type,
    with_own_symbols,
)


def cumulative_sum(builder: Any, call: Any) -> RelaxExpression:
    """The sum of all elements up to each one."""
    return _cumulative(builder, call, tirx.Add, 0)


def cumulative_product(builder: Any, call: Any) -> RelaxExpression:
    """The product of all elements up to each one."""
    return _cumulative(builder, call, tirx.Mul, 1)


def _cumulative(builder: Any, call: Any, combine: Any, null: int) -> RelaxExpression:
    if call.attrs.axis is None:
        # TVM flattens the operand then; the loops over it are a call of their own.
        return call
    (shape, _), (_, dtype) = shape_and_dtype(call.args[0]), shape_and_dtype(call)
    axis = int(call.attrs.axis) % len(shape)
    source = buffer(shape, shape_and_dtype(call.args[0])[1], "x")
    result = buffer(shape, dtype, "y")
    skipped = int(bool(call.attrs.exclusive))

    def step(body: Any) -> Any:
        indices = [tirx.Var(f"i{number}", "int64") for number in range(len(shape))]
        before = [i - 1 if n == axis else i for n, i in enumerate(indices)]
        statement = body(indices, before)
        for var, extent in reversed([*zip(indices, shape, strict=True)]):
            bound = tirx.const(extent, "int64") if isinstance(extent, int) else extent
            zero = tirx.const(0, "int64")
            statement = tirx.For(var, zero, bound, tirx.ForKind.SERIAL, statement)
        return statement

    def element(indices: list[Any], before: list[Any]) -> Any:
        value = source[tuple(before if skipped else indices)]
        value = value if dtype_of(value) == dtype else tirx.Cast(dtype, value)
        if skipped:
            first = tirx.const(null, dtype)
            value = tirx.if_then_else(before[axis] >= 0, value, first)
        return tirx.BufferStore(result, value, indices)

    def total(indices: list[Any], before: list[Any]) -> Any:
        both = combine(result[tuple(indices)], result[tuple(before)])
        return tirx.IfThenElse(before[axis] >= 0, tirx.BufferStore(result, both, indices), None)

    body = tirx.SeqStmt([step(element), step(total)])
    name = str(call.op.name).removeprefix("relax.")
    kernel = with_own_symbols(opaque_function(name, [source, result], [result], [], body))
    variable = builder.add_func(kernel, name)
    return relax.call_tir(variable, [call.args[0]], tensor_type(shape, dtype))
