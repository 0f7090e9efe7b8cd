"""How operators run on permuted tensors: a call in, its permuted result out.

An operator asks for operands in an order; the pass finds or permutes them. Operators that are not
in the table, or return None, get their operands in the original order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tvm import relax

from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Stage
from tvm_nnef.schedules.graph.layout_moves import MOVES
from tvm_nnef.schedules.graph.permuted import OnPermuted, Order, Permuted, Relayout, of_first
from tvm_nnef.schedules.graph.rebuilding import Symbols, call_te, kernel_at_call, tensors_of
from tvm_nnef.schedules.graph.rewriting import CONVOLUTIONS, again, operator, operator_name
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    RelaxExpression,
    constant,
    constant_array,
    is_tensor,
    shape_and_dtype,
)


def _convolution(relayout: Relayout, call: Any) -> Permuted | None:
    layout = str(call.attrs.data_layout)
    if layout[:2] != "NC" or str(call.attrs.out_layout) not in ("", layout):
        return None
    if _is_faster_along_rows(relayout, call):
        return None
    order, moved = _last(len(layout)), f"N{layout[2:]}C"
    data, weights = relayout.in_order(call.args[0], order), relayout.visit_expr(call.args[1])
    return Permuted(again(call, data, weights, data_layout=moved, out_layout=moved), order)


_NARROW = 8
"""Rows of fewer elements fill no vectors."""

_FEW = 4
"""So few output channels fill no vectors either, and cost less than a permutation."""


def _last(rank: int) -> Order:
    """The order in which the second dimension comes last."""
    return (0, *range(2, rank), 1)


def _is_faster_along_rows(relayout: Relayout, call: Any) -> bool:
    """Whether a convolution is faster with vectors along rows than along channels.

    That holds for few output channels; and if each is computed from one channel, unless the data
    have another order already, or a single input channel is read with a stride.
    """
    outputs, inputs = shape_and_dtype(call.args[1])[0][:2]
    shape = shape_and_dtype(call.args[0])[0]
    if isinstance(shape[-1], int) and shape[-1] < _NARROW:
        return False
    dense = int(call.attrs.groups) > 1 or all(int(step) == 1 for step in call.attrs.strides)
    permuted = relayout.permuted(call.args[0]) is not None or relayout.has_order(
        call.args[0], _last(len(shape))
    )
    few = isinstance(outputs, int) and outputs <= _FEW
    return few or bool(inputs == 1 and dense and not permuted)


_POOLS = [f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)]


def _pool(relayout: Relayout, data: Permuted, call: Any) -> Permuted | None:
    layout = str(call.attrs.layout)
    if layout[:2] != "NC":
        return None
    spatial = tuple(range(2, len(layout)))
    # Nothing happens along the first two dimensions: either can be called N or C.
    for first, moved in ((1, f"N{layout[2:]}C"), (2, layout)):
        if data.order[first : first + len(spatial)] == spatial:
            return Permuted(again(call, data.value, layout=moved, out_layout=moved), data.order)
    return _pool_over_last(relayout, data, call)


def _pool_over_last(relayout: Relayout, data: Permuted, call: Any) -> Permuted | None:
    """Windows over the one dimension that is stored last, as a pooling of two dimensions."""
    sizes, strides, dilation, padding = (
        [int(each) for each in getattr(call.attrs, name)]
        for name in ("pool_size", "strides", "dilation", "padding")
    )
    spatial = len(sizes)
    padding = padding if len(padding) == 2 * spatial else padding * (2 * spatial // len(padding))
    used = [d for d in range(spatial) if sizes[d] != 1]
    idle = all(
        strides[d] == 1 and padding[d] == padding[d + spatial] == 0
        for d in range(spatial)
        if d not in used
    )
    if len(used) != 1 or data.order[-1] != used[0] + 2 or not idle:
        return None
    if not all(isinstance(extent, int) for extent in data.shape):
        return None
    (d,) = used
    *rest, extent = data.shape
    flat = relayout.builder_.emit(relax.op.reshape(data.value, (1, 1, prod(rest), extent)))
    made = operator(operator_name(call)[:-2] + "2d")(
        flat,
        pool_size=[1, sizes[d]],
        strides=[1, strides[d]],
        padding=[0, padding[d], 0, padding[d + spatial]],
        dilation=[1, dilation[d]],
        ceil_mode=bool(call.attrs.ceil_mode),
        count_include_pad=bool(call.attrs.count_include_pad),
    )
    pooled = relayout.builder_.emit(made)
    shape = (*rest, shape_and_dtype(pooled)[0][-1])
    return Permuted(relax.op.reshape(pooled, shape), data.order)


def _elementwise(relayout: Relayout, call: Any) -> Permuted | None:
    """The largest operand with a permuted form decides the order for all."""
    rank = len(call.ty.shape)
    known = [each for each in map(relayout.permuted, call.args) if each is not None]
    full = [each for each in known if len(each.order) == rank]
    if not full or not all(is_tensor(operand) for operand in call.args):
        return None
    order = max(full, key=lambda each: _elements(each.shape)).order
    operands = [_aligned(relayout, operand, order, rank) for operand in call.args]
    return Permuted(relax.Call(call.op, operands, call.attrs, call.ty_args), order)


def _elements(shape: Sequence[Any]) -> int:
    return prod(extent for extent in shape if isinstance(extent, int))


def _aligned(relayout: Relayout, operand: Any, order: Order, rank: int) -> RelaxExpression:
    """An operand that broadcasts as before against tensors in the order."""
    shape = shape_and_dtype(operand)[0]
    if not shape:
        scalar: RelaxExpression = relayout.visit_expr(operand)
        return scalar
    if len(shape) < rank:
        wide = (1,) * (rank - len(shape)) + tuple(shape)
        array = constant_array(operand)
        if array is not None:
            return constant(array.reshape(wide).transpose(order))
        operand = relayout.builder_.emit(relax.op.reshape(relayout.visit_expr(operand), wide))
    return relayout.in_order(operand, order)


def _reduction(_: Relayout, data: Permuted, call: Any) -> Permuted | None:
    if call.attrs.axis is None:
        return None
    rank = len(data.order)
    gone = {int(axis) % rank for axis in call.attrs.axis}
    made = again(call, data.value, axis=[data.axis(axis) for axis in sorted(gone)])
    if call.attrs.keepdims:
        return Permuted(made, data.order)
    left = [dimension for dimension in range(rank) if dimension not in gone]
    return Permuted(made, tuple(left.index(d) for d in data.order if d not in gone))


def _softmax(_: Relayout, data: Permuted, call: Any) -> Permuted:
    return Permuted(again(call, data.value, axis=data.axis(call.attrs.axis)), data.order)


def _kernel(relayout: Relayout, call: Any) -> Permuted | list[Permuted] | None:
    """A PrimFunc reads permuted operands as they are stored, and writes in the same order."""
    if len(call.args) > 2 or not isinstance(call.args[1], relax.Tuple):
        return None
    arguments, name = list(call.args[1].fields), str(call.args[0].name_hint)
    permuted = [relayout.permuted(argument) for argument in arguments]
    known = [each for each in permuted if each is not None]
    kernel = kernel_at_call(relayout.functions[name], arguments) if known else None
    if kernel is None:
        return None
    order = max(known, key=lambda each: _elements(each.shape)).order
    orders = {stage.buffer: order for stage in kernel.stages if len(stage.axes) == len(order)}
    values = []
    for buffer, argument, form in zip(kernel.inputs, arguments, permuted, strict=True):
        if form is not None:
            orders[buffer] = form.order
        values.append(relayout.visit_expr(argument) if form is None else form.value)
    for stage in kernel.stages:
        if stage.buffer not in orders:
            orders[stage.buffer] = _order_of_loads(stage, orders)

    def rebuilt(symbols: Symbols, *tensors: Any) -> Any:
        made = tensors_of(kernel, tensors, orders, symbols)
        results = [made[buffer] for buffer in kernel.outputs]
        return results if len(results) > 1 else results[0]

    made = call_te(relayout.builder_, rebuilt, values, name)
    written = [orders.get(b, tuple(range(len(b.shape)))) for b in kernel.outputs]
    if len(written) == 1:
        return Permuted(made, written[0])
    items = relayout.builder_.emit(made)
    return [Permuted(relax.TupleGetItem(items, n), own) for n, own in enumerate(written)]


def _order_of_loads(stage: Stage, orders: Mapping[Buffer, Order]) -> Order:
    """The order in which a stage reads its axes from an operand with an order, else their own."""
    for load in loads(stage.value):
        indices = [load.indices[dimension] for dimension in orders.get(load.source, ())]
        variables: list[PrimExpression] = [axis.var for axis in stage.axes]
        found = [variables.index(index) for index in indices if index in variables]
        if sorted(found) == list(range(len(variables))):
            return tuple(found)
    return tuple(range(len(stage.axes)))


_ELEMENTWISE = (
    "nn.relu", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.leakyrelu", "nn.dropout", "sigmoid",
    "tanh", "exp", "log", "sqrt", "rsqrt", "abs", "negative", "erf", "clip", "astype", "square",
    "floor", "ceil", "round", "sign", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan",
    "asinh", "acosh", "atanh", "logical_not", "add", "subtract", "multiply", "divide", "power",
    "maximum", "minimum", "where", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or",
)  # fmt: skip

_REDUCTIONS = ("mean", "sum", "max", "min", "prod", "variance", "std")

ON_PERMUTED: Mapping[str, OnPermuted] = {
    **MOVES,
    **dict.fromkeys(CONVOLUTIONS, _convolution),
    **dict.fromkeys(_POOLS, of_first(_pool)),
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_REDUCTIONS, of_first(_reduction)),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), of_first(_softmax)),
    "call_tir": _kernel,
}
"""How operators run on permuted tensors, by their names."""
