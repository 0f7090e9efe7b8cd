"""How each operator runs on permuted tensors: a call in, its permuted result out, or None.

A rule says what it needs in which order, and leaves to the walk where that comes from. An operator
without a rule, or one whose rule gives None, gets its operands in the original order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from tvm_nnef.schedules.graph.layout_moves import MOVES
from tvm_nnef.schedules.graph.placement import Order, Placed, Rule, Walk, last
from tvm_nnef.schedules.graph.rebuilding import Symbols, call_te, kernel_at_call, tensors_of
from tvm_nnef.schedules.graph.rewriting import operator_name
from tvm_nnef.tvm_support.compat import (
    RelaxExpression,
    constant,
    constant_array,
    is_tensor,
    shape_and_dtype,
)


def _convolution(walk: Walk, call: Any) -> Placed | None:
    attributes = call.attrs
    layout = str(attributes.data_layout)
    if layout[:2] != "NC" or str(attributes.out_layout) not in ("", layout):
        return None
    if _stays(walk, call):
        return None
    rank = len(layout)
    order = last(rank)
    moved = "N" + layout[2:] + "C"
    make = {3: relax.op.nn.conv1d, 4: relax.op.nn.conv2d, 5: relax.op.nn.conv3d}[rank]
    data = walk.in_order(call.args[0], order)
    weights = walk.visit_expr(call.args[1])
    made = make(
        data,
        weights,
        strides=list(attributes.strides),
        padding=list(attributes.padding),
        dilation=list(attributes.dilation),
        groups=int(attributes.groups),
        data_layout=moved,
        kernel_layout=str(attributes.kernel_layout),
        out_layout=moved,
        out_dtype=attributes.out_dtype,
    )
    return Placed(made, order)


_NARROW = 8
"""Rows of fewer elements fill no vectors."""

_FEW = 4
"""So few channels fill none either, and to compute them is worth a change of order."""


def _stays(walk: Walk, call: Any) -> bool:
    """Whether a convolution is faster with vectors along rows than along channels.

    So it is where there are few channels to compute; and where each is computed from one channel,
    unless the data come in another order already, or steps over a single channel are wide.
    """
    outputs, inputs = shape_and_dtype(call.args[1])[0][:2]
    width = shape_and_dtype(call.args[0])[0][-1]
    if isinstance(width, int) and width < _NARROW:
        return False
    dense = int(call.attrs.groups) > 1 or all(int(step) == 1 for step in call.attrs.strides)
    order = last(len(shape_and_dtype(call.args[0])[0]))
    placed = walk.placement(call.args[0]) is not None or walk.comes_in(call.args[0], order)
    alone = inputs == 1 and dense and not placed
    few = isinstance(outputs, int) and outputs <= _FEW
    return few or bool(alone)


_POOLS = {
    "nn.max_pool1d": relax.op.nn.max_pool1d,
    "nn.max_pool2d": relax.op.nn.max_pool2d,
    "nn.max_pool3d": relax.op.nn.max_pool3d,
    "nn.avg_pool1d": relax.op.nn.avg_pool1d,
    "nn.avg_pool2d": relax.op.nn.avg_pool2d,
    "nn.avg_pool3d": relax.op.nn.avg_pool3d,
}


def _pool(walk: Walk, call: Any) -> Placed | None:
    layout = str(call.attrs.layout)
    placed = walk.placement(call.args[0])
    if placed is None or layout[:2] != "NC":
        return None
    options = {
        "pool_size": list(call.attrs.pool_size),
        "strides": list(call.attrs.strides),
        "padding": list(call.attrs.padding),
        "dilation": list(call.attrs.dilation),
        "ceil_mode": bool(call.attrs.ceil_mode),
        "count_include_pad": bool(call.attrs.count_include_pad),
    }
    spatial = tuple(range(2, len(layout)))
    # Nothing is done along the first two dimensions: either may stand for the other.
    for first, moved in ((1, "N" + layout[2:] + "C"), (2, layout)):
        if placed.order[first : first + len(spatial)] == spatial:
            pool = _POOLS[operator_name(call)]
            return Placed(pool(placed.value, layout=moved, **options), placed.order)
    return _pool_over_last(walk, call, placed, options)


def _pool_over_last(
    walk: Walk, call: Any, placed: Placed, options: Mapping[str, Any]
) -> Placed | None:
    """Windows over the one dimension that is stored last, as a pooling of two dimensions."""
    spatial = len(options["pool_size"])
    used = [d for d in range(spatial) if int(options["pool_size"][d]) != 1]
    padding = [int(p) for p in options["padding"]]
    padding = padding if len(padding) == 2 * spatial else padding * (2 * spatial // len(padding))
    others = [d for d in range(spatial) if d not in used]
    idle = all(
        int(options["strides"][d]) == 1 and padding[d] == padding[d + spatial] == 0 for d in others
    )
    if len(used) != 1 or placed.order[-1] != used[0] + 2 or not idle:
        return None
    if not all(isinstance(extent, int) for extent in placed.shape):
        return None
    (dimension,) = used
    *rest, extent = placed.shape
    rows = 1
    for other in rest:
        rows *= other
    flat = walk.builder_.emit(relax.op.reshape(placed.value, (1, 1, rows, extent)))
    pool = _POOLS[operator_name(call)[:-2] + "2d"]
    made = pool(
        flat,
        pool_size=[1, options["pool_size"][dimension]],
        strides=[1, options["strides"][dimension]],
        padding=[0, padding[dimension], 0, padding[dimension + spatial]],
        dilation=[1, options["dilation"][dimension]],
        ceil_mode=options["ceil_mode"],
        count_include_pad=options["count_include_pad"],
    )
    pooled = walk.builder_.emit(made)
    shape = (*rest, shape_and_dtype(pooled)[0][-1])
    return Placed(relax.op.reshape(pooled, shape), placed.order)


def _elementwise(walk: Walk, call: Any) -> Placed | None:
    """One tensor with a permuted form decides the order for all."""
    rank = len(call.ty.shape)
    placements = [walk.placement(operand) for operand in call.args]
    full = [p for p in placements if p is not None and len(p.order) == rank]
    if not full or not all(is_tensor(operand) for operand in call.args):
        return None
    sizes = [_elements(p.shape) for p in full]
    order = full[sizes.index(max(sizes))].order
    operands = [_aligned(walk, operand, order, rank) for operand in call.args]
    return Placed(relax.Call(call.op, operands, call.attrs, call.ty_args), order)


def _elements(shape: Sequence[Any]) -> int:
    total = 1
    for extent in shape:
        total *= extent if isinstance(extent, int) else 1
    return total


def _aligned(walk: Walk, operand: Any, order: Order, rank: int) -> RelaxExpression:
    """An operand that broadcasts as before against tensors in the order."""
    shape = shape_and_dtype(operand)[0]
    if not shape:
        scalar: RelaxExpression = walk.visit_expr(operand)
        return scalar
    if len(shape) < rank:
        wide = (1,) * (rank - len(shape)) + tuple(shape)
        array = constant_array(operand)
        if array is not None:
            return constant(array.reshape(wide).transpose(order))
        operand = walk.builder_.emit(relax.op.reshape(walk.visit_expr(operand), wide))
    return walk.in_order(operand, order)


def _reduction(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    axes = call.attrs.axis
    if placed is None or axes is None:
        return None
    rank = len(placed.order)
    gone = {int(axis) % rank for axis in axes}
    keep = bool(call.attrs.keepdims)
    make = getattr(relax.op, operator_name(call))
    made = make(placed.value, axis=[placed.order.index(a) for a in sorted(gone)], keepdims=keep)
    if keep:
        return Placed(made, placed.order)
    left = [dimension for dimension in range(rank) if dimension not in gone]
    return Placed(made, tuple(left.index(d) for d in placed.order if d not in gone))


def _softmax(walk: Walk, call: Any) -> Placed | None:
    placed = walk.placement(call.args[0])
    if placed is None:
        return None
    axis = int(call.attrs.axis) % len(placed.order)
    make = getattr(relax.op.nn, operator_name(call).removeprefix("nn."))
    return Placed(make(placed.value, axis=placed.order.index(axis)), placed.order)


def _kernel(walk: Walk, call: Any) -> Placed | list[Placed] | None:
    """A PrimFunc reads permuted operands as they are stored, and writes in the same order.

    One with several results gives a list of them.
    """
    if len(call.args) > 2 or not isinstance(call.args[1], relax.Tuple):
        return None
    arguments = list(call.args[1].fields)
    placements = [walk.placement(argument) for argument in arguments]
    known = [placed for placed in placements if placed is not None]
    function = walk.functions.get(str(call.args[0].name_hint))
    if not known or function is None:
        return None
    kernel = kernel_at_call(function, arguments)
    if kernel is None:
        return None
    order = max(known, key=lambda placed: _elements(placed.shape)).order
    orders = {stage.buffer: order for stage in kernel.stages if len(stage.axes) == len(order)}
    for buffer, placed in zip(kernel.inputs, placements, strict=True):
        if placed is not None:
            orders[buffer] = placed.order
    values = [
        placed.value if placed is not None else walk.visit_expr(argument)
        for argument, placed in zip(arguments, placements, strict=True)
    ]

    def rebuilt(symbols: Symbols, *tensors: Any) -> Any:
        made = tensors_of(kernel, tensors, orders, symbols)
        results = [made[buffer] for buffer in kernel.outputs]
        return results if len(results) > 1 else results[0]

    made = call_te(walk.builder_, rebuilt, values, str(call.args[0].name_hint))
    written = [orders.get(b, tuple(range(len(b.shape)))) for b in kernel.outputs]
    if len(written) == 1:
        return Placed(made, written[0])
    items = walk.builder_.emit(made)
    return [Placed(relax.TupleGetItem(items, n), own) for n, own in enumerate(written)]


_UNARY = (
    "nn.relu", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.leakyrelu", "nn.dropout", "sigmoid",
    "tanh", "exp", "log", "sqrt", "rsqrt", "abs", "negative", "erf", "clip", "astype", "square",
    "floor", "ceil", "round", "sign", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan",
    "asinh", "acosh", "atanh", "logical_not",
)  # fmt: skip

_BINARY = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "where", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
)  # fmt: skip

RULES: Mapping[str, Rule] = {
    **MOVES,
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _convolution),
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys((*_UNARY, *_BINARY), _elementwise),
    **dict.fromkeys(("mean", "sum", "max", "min", "prod", "variance", "std"), _reduction),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), _softmax),
    "call_tir": _kernel,
}
