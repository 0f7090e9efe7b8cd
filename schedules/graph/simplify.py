"""Rewrites that make a graph simpler or cheaper on any target.

Calls that change nothing are removed; batch normalization becomes one multiplication and one
addition, and the multiplication goes into the constant weights of the convolution before it;
padding becomes that of a convolution after it; a sum over a stack becomes additions; common
subexpressions are computed once. Shapes and the order of dimensions stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.graph import constants
from tvm_nnef.schedules.graph.rewriting import (
    CONVOLUTIONS,
    Operands,
    again,
    operator_name,
    rewritten,
)
from tvm_nnef.tvm_support.compat import CALL, Module, RelaxExpression, constant, shape_and_dtype


def simplify(mod: Module) -> Module:
    """The module in simpler terms, constants folded."""
    canonical = relax.transform.CanonicalizeBindings()(rewritten(mod, _rewrite))
    shared = relax.transform.EliminateCommonSubexpr()(canonical)
    return relax.transform.DeadCodeElimination()(shared)


def _rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
    if isinstance(node, relax.TupleGetItem):
        return _item(operands, node)
    folded = constants.fold(operands, node)
    if folded is not None:
        return folded
    simpler = _SIMPLER.get(operator_name(node))
    return simpler(operands, node) if simpler else None


def _item(operands: Operands, node: relax.TupleGetItem) -> RelaxExpression | None:
    """The first result of batch normalisation and of dropout."""
    if int(node.index) != 0:
        return None
    dropout = operands.call(node.tuple_value, "nn.dropout")
    if dropout is not None:
        first: RelaxExpression = dropout.args[0]
        return first
    norm = operands.call(node.tuple_value, "nn.batch_norm")
    return None if norm is None or norm.attrs.training else _batch_norm(operands, norm)


def _batch_norm(operands: Operands, call: Any) -> RelaxExpression | None:
    statistics = [operands.array(argument) for argument in call.args[1:5]]
    if any(array is None for array in statistics):
        return None
    gamma, beta, mean, variance = (
        np.asarray(array, dtype="float64") for array in statistics if array is not None
    )
    factor = 1 / np.sqrt(variance + float(call.attrs.epsilon))
    factor = factor * gamma if call.attrs.scale else factor
    shift = -mean * factor + (beta if call.attrs.center else 0)
    shape, dtype = shape_and_dtype(call.args[0])
    along = [1] * len(shape)
    along[int(call.attrs.axis)] = factor.size
    product = relax.op.multiply(call.args[0], constant(factor.reshape(along).astype(dtype)))
    product = operands.builder.normalize(product)
    scaled = _multiply(operands, product)
    scaled = operands.emit(product if scaled is None else scaled)
    total = relax.op.add(scaled, constant(shift.reshape(along).astype(dtype)))
    total = operands.builder.normalize(total)
    merged = _add(operands, total)
    return total if merged is None else merged


def _subtract(operands: Operands, call: Any) -> RelaxExpression | None:
    """A constant that is subtracted is added with the other sign."""
    shift = operands.array(call.args[1])
    if shift is None or not str(shift.dtype).startswith("float"):
        return None
    return relax.op.add(call.args[0], constant(-shift))


def _divide(operands: Operands, call: Any) -> RelaxExpression | None:
    """A constant divisor moves as a factor, if other constants take it."""
    divisor = operands.array(call.args[1])
    if divisor is None or str(divisor.dtype) != "float32" or not divisor.all():
        return None
    return _moved(operands, call, 1 / divisor.astype("float64"))


def _multiply(operands: Operands, call: Any) -> RelaxExpression | None:
    """A constant factor moves to constants that it can be multiplied into."""
    if not str(call.ty.dtype).startswith("float"):
        return None
    factor = operands.array(call.args[1])
    if factor is not None:
        return _moved(operands, call, factor)
    if operands.array(call.args[0]) is None:
        return None
    swapped = operands.builder.normalize(relax.op.multiply(call.args[1], call.args[0]))
    moved = _multiply(operands, swapped)
    return swapped if moved is None else moved


def _moved(operands: Operands, call: Any, factor: np.ndarray[Any, Any]) -> RelaxExpression | None:
    rank = len(call.ty.shape)
    return _scaled(
        operands, call.args[0], factor.reshape((1,) * (rank - factor.ndim) + factor.shape)
    )


def _scaled(
    operands: Operands, expression: RelaxExpression, factor: np.ndarray[Any, Any]
) -> RelaxExpression | None:
    """An expression times a constant, if that costs no further multiplication."""
    if not operands.is_used_once(expression):
        return None
    found = operands.definition(expression)
    if not isinstance(found, CALL):
        return None
    match operator_name(found):
        case "add" if _is_affine(operands, found, factor):
            inner = _scaled(operands, found.args[0], factor)
            shift = operands.array(found.args[1])
            if inner is None or shift is None:
                return None
            return relax.op.add(operands.emit(inner), constant(_product(shift, factor)))
        case "multiply" if _is_affine(operands, found, factor):
            other = operands.array(found.args[1])
            assert other is not None
            return relax.op.multiply(found.args[0], constant(_product(other, factor)))
        case name if name in CONVOLUTIONS:
            return _scaled_convolution(operands, found, factor)
        case _:
            return None


def _is_affine(operands: Operands, call: Any, factor: np.ndarray[Any, Any]) -> bool:
    """Whether the second operand is a constant that does not grow when it is scaled."""
    other = operands.array(call.args[1])
    if other is None:
        return False
    return int(np.prod(np.broadcast_shapes(other.shape, factor.shape))) <= max(
        other.size, factor.size
    )


def _product(array: np.ndarray[Any, Any], factor: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    product: np.ndarray[Any, Any] = (array.astype("float64") * factor).astype(array.dtype)
    return product


def _scaled_convolution(
    operands: Operands, call: Any, factor: np.ndarray[Any, Any]
) -> RelaxExpression | None:
    weights = operands.array(call.args[1])
    layouts = str(call.attrs.data_layout)[:2], str(call.attrs.kernel_layout)[:2]
    if weights is None or layouts != ("NC", "OI"):
        return None
    if factor.size not in (1, weights.shape[0]) or factor.size != factor.shape[1]:
        return None
    along = factor.reshape(-1, *[1] * (weights.ndim - 1))
    return relax.Call(
        call.op, [call.args[0], constant(_product(weights, along))], call.attrs, call.ty_args
    )


def _add(operands: Operands, call: Any) -> RelaxExpression | None:
    """Two constants that are added in turn are added at once."""
    second = operands.array(call.args[1])
    inner = operands.call(call.args[0], "add")
    first = None if inner is None else operands.array(inner.args[1])
    if first is None or second is None or first.size != second.size:
        return None
    return relax.op.add(inner.args[0], constant(first + second))


def _stacked_sum(operands: Operands, call: Any) -> RelaxExpression | None:
    """The sum over a new dimension: additions of what was stacked."""
    stack = operands.call(call.args[0], "stack")
    axes = call.attrs.axis
    if stack is None or call.attrs.keepdims or axes is None or len(axes) != 1:
        return None
    rank = len(call.ty.shape) + 1
    if int(axes[0]) % rank != int(stack.attrs.axis or 0) % rank:
        return None
    items = operands.definition(stack.args[0])
    assert isinstance(items, relax.Tuple)
    total = items.fields[0]
    for item in items.fields[1:]:
        total = operands.emit(relax.op.add(total, item))
    return total


def _same_shape(operands: Operands, call: Any) -> RelaxExpression | None:
    """The operand of a reshape that changes nothing."""
    source, result = call.args[0].ty, call.ty
    if source.shape is None or result.shape is None:
        return None
    same = len(source.shape) == len(result.shape) and all(
        sizes.same(sizes.extent(a), sizes.extent(b))
        for a, b in zip(source.shape, result.shape, strict=True)
    )
    return call.args[0] if same else None


def _reshape(operands: Operands, call: Any) -> RelaxExpression | None:
    unchanged = _same_shape(operands, call)
    if unchanged is not None:
        return unchanged
    inner = operands.call(call.args[0], "reshape")
    return None if inner is None else relax.op.reshape(inner.args[0], call.args[1])


def _permute(operands: Operands, call: Any) -> RelaxExpression | None:
    axes = call.attrs.axes
    if axes is None or [int(axis) for axis in axes] != list(range(len(axes))):
        return None
    operand: RelaxExpression = call.args[0]
    return operand


def _padded_convolution(operands: Operands, call: Any) -> RelaxExpression | None:
    """A convolution of data padded with zeros, as one that pads."""
    pad = operands.call(call.args[0], "nn.pad")
    layout = str(call.attrs.data_layout)
    if pad is None or layout[:2] != "NC":
        return None
    widths = [int(width) for width in pad.attrs.pad_width]
    if str(pad.attrs.pad_mode) != "constant" or float(pad.attrs.pad_value) != 0:
        return None
    if any(widths[:4]) or min(widths) < 0:
        return None
    before, after = widths[4::2], widths[5::2]
    padding = [int(o) + w for o, w in zip(call.attrs.padding, (*before, *after), strict=True)]
    return again(call, pad.args[0], call.args[1], padding=padding)


_SIMPLER: Mapping[str, Callable[[Operands, Any], RelaxExpression | None]] = {
    "multiply": _multiply,
    "divide": _divide,
    "subtract": _subtract,
    "add": _add,
    "sum": _stacked_sum,
    "broadcast_to": _same_shape,
    "reshape": _reshape,
    "squeeze": _same_shape,
    "permute_dims": _permute,
    **dict.fromkeys(CONVOLUTIONS, _padded_convolution),
}
