"""Export of quantized integers of 8 and 16 bits as scalars, as NNEF 1 lacks such integers.

Input: operations on them. Output: operations on scalars with the same whole numbers, if float32 can
represent them all. They may be computed from reals, moved, added, subtracted and multiplied, and
converted to reals again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.common.operator_modules import known_operator
from tvm_nnef.converters.nnef1.export.context import Context
from tvm_nnef.converters.nnef1.export.emitter import Emitter
from tvm_nnef.converters.nnef1.export.invocation import Invocation, static
from tvm_nnef.converters.nnef1.export.operators.elementwise import aligned
from tvm_nnef.converters.nnef1.export.registry import LIBRARIES, table
from tvm_nnef.converters.nnef1.export.values import Value
from tvm_nnef.graph.moving_operators import REORDERING
from tvm_nnef.graph.nodes import Graph, Operation, Tensor, flatten

SMALL = frozenset(("int8", "uint8", "int16", "uint16"))
"""The dtypes of such integers."""

_LARGEST = 1 << 24
"""float32 represents all whole numbers up to this one."""

_COMPUTING = frozenset(("math.add", "math.sub", "math.mul"))
_ROUNDING = frozenset(("extra.round_even", "nnef1.round", "math.round", "math.floor", "math.ceil"))


def export_codes(operation: Operation, context: Context) -> bool:
    """Export an operation if it reads or computes such integers; return whether it does.

    Raises Inexpressible for an operation that they cannot be scalars in.
    """
    operands, results = flatten(operation.operands), flatten(operation.results)
    if not any(_is_code(each, context) for each in (*operands, *results)):
        return False
    name = known_operator(operation, LIBRARIES)
    if isinstance(operation.body, Graph) and operation.standard_operator is None:
        return False
    for each in (*operands, *results):
        if _is_code(each, context):
            static(each.shape)
        else:
            context.check(each)
    values = tuple(_scalar(each, context) for each in operands)
    invocation = Invocation(context.emitter, operation, values)
    (result, *others) = results
    bounds = [_bound(each, context) for each in operands]
    if name in REORDERING and len(operands) == 1:
        exported, bound = table()[name](invocation), bounds[0]
    elif name == "extra.saturate" and _fits(invocation, context.types[result]):
        exported, bound = _saturated(invocation, operands[0] in context.whole), 0
    elif name == "layout.cast" and _keeps_values(operands[0], result, context):
        exported, bound = invocation.call("copy", context.emitter.tensor(values[0])), bounds[0]
    elif name in _COMPUTING and context.types[result] in ("int32", "int64"):
        bound = math.prod(bounds) if name == "math.mul" else sum(bounds)
        pair = aligned(invocation, ("lhs_align", "rhs_align"))
        exported = invocation.call(name.partition(".")[2], *pair)
    else:
        raise refusal((*operands, *results), context)
    if bound > _LARGEST or others:
        raise refusal((*operands, *results), context)
    assert isinstance(exported, Value)
    context.bind(result, exported)
    if result.type == "int":
        context.codes[result] = bound or _limit(context.types[result])
    return True


def refusal(tensors: Iterable[Tensor], context: Context) -> Inexpressible:
    """Return the error for tensors that cannot be exported."""
    small = sorted({context.types[each] for each in tensors} & SMALL)
    dtype = f", such as {small[0]}" if small else ""
    hint = "let integers that are quantized reals become reals again before other operators"
    return Inexpressible(f"NNEF 1 has no integers of 8 or 16 bits{dtype}", hint)


def is_whole(operation: Operation, context: Context) -> bool:
    """Whether the results of an operation are whole numbers, though they are reals."""
    name, operands = known_operator(operation, LIBRARIES), flatten(operation.operands)
    if name in ("math.add", "math.sub"):
        return all(each in context.whole for each in operands)
    return name in _ROUNDING or (name == "layout.cast" and operands[0].type == "int")


def _is_code(tensor: Tensor, context: Context) -> bool:
    return tensor in context.codes or context.types[tensor] in SMALL


def _limit(dtype: str) -> int:
    limits = np.iinfo(dtype)
    return max(-int(limits.min), int(limits.max))


def _bound(tensor: Tensor, context: Context) -> int:
    """Return the largest magnitude of the elements."""
    if tensor.type != "int":
        return 0
    if tensor in context.codes:
        return context.codes[tensor]
    array = context.array(tensor)
    if array is None:
        return _limit(context.types[tensor])
    return max((abs(int(each)) for each in (array.min(), array.max())), default=0)


def _scalar(tensor: Tensor, context: Context) -> Value:
    """Return the value of an operand; known integers become scalars."""
    array = None if tensor in context.codes else context.array(tensor)
    if tensor.type != "int" or array is None:
        return context.value(tensor)
    if tensor in context.state:
        raise refusal((tensor,), context)
    label, fixed = context.labels.get(tensor, "constant"), tensor.role == "variable"
    return context.emitter.constant(array.astype(np.float32), label, fixed=fixed)


def _keeps_values(operand: Tensor, result: Tensor, context: Context) -> bool:
    """Whether a conversion of integers changes no value."""
    if result.type == "real":
        return context.types[result] == "float32"
    before, after = context.types[operand], context.types[result]
    return result.type == operand.type == "int" and np.can_cast(before, after)


def _fits(invocation: Invocation, dtype: str) -> bool:
    """Whether the limits of an operation are in the range of a dtype."""
    limits = np.iinfo(dtype)
    return bool(limits.min <= invocation.number("low") <= invocation.number("high") <= limits.max)


def _saturated(invocation: Invocation, is_whole: bool) -> Value:
    emitter, x = invocation.emitter, invocation.value(0)
    low, high = (emitter.number(float(invocation.number(name))) for name in ("low", "high"))
    limited = invocation.call("clamp", x, low, high)
    return limited if is_whole else _truncated(limited, emitter)


def _truncated(x: Value, emitter: Emitter) -> Value:
    """Return x truncated to a whole number."""
    size = emitter.call("abs", x, shape=x.shape)
    sign = emitter.call("sign", x, shape=x.shape)
    return emitter.call("mul", sign, emitter.call("floor", size, shape=x.shape), shape=x.shape)
