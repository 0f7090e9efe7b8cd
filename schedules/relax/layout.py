"""Channels last inside of a graph: convolutions and the operators around them run on N X C tensors.

Input: Relax functions with convolutions of ``[N, C, X...]``. Output: the same functions, in which
convolutions read and write channels last, and so does every operator between them that can.

Most operators follow the order of their largest permuted operand: the others get that order, and
attributes that name dimensions are translated (:data:`_DIMENSIONS`). The rest has a function of its
own. Operators that are not in the table, or return None, get operands in the original order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod

import numpy as np
from tvm import relax, te
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Stage
from tvm_nnef.schedules.codegen.dot_products import multiplies_words
from tvm_nnef.schedules.machine import GENERIC, CpuModel
from tvm_nnef.schedules.relax.permuted import OnPermuted, Order, Permuted, Relayout, of_first
from tvm_nnef.schedules.relax.rebuilding import (
    Symbols,
    call_te,
    is_symbol,
    kernel_at_call,
    tensors_of,
)
from tvm_nnef.schedules.relax.rewriting import (
    CONVOLUTIONS,
    again,
    calls_any,
    permutation_axes,
    with_functions,
    without_dataflow,
)
from tvm_nnef.tir.expressions import loads
from tvm_nnef.tvm_support.compat import (
    Buffer,
    Module,
    PrimExpression,
    RelaxExpression,
    constant,
    constant_array,
    is_tensor,
    shape_and_dtype,
)


def channels_last(mod: Module, machine: CpuModel = GENERIC) -> Module:
    """The module with convolutions, and the operators around them, channels last."""
    if not calls_any(mod, CONVOLUTIONS):
        return mod
    relayout = Relayout(without_dataflow(mod), machine, ON_PERMUTED)
    return relax.transform.DeadCodeElimination()(with_functions(relayout, relayout.visit_expr))


def _convolution(relayout: Relayout, call: Call) -> Permuted | None:
    layout = str(call.attrs.data_layout)
    if layout[:2] != "NC" or str(call.attrs.out_layout) not in ("", layout):
        return None
    order, moved = (0, *range(2, len(layout)), 1), f"N{layout[2:]}C"
    if _is_faster_along_rows(relayout, call, order):
        return None
    data, weights = relayout.in_order(call.args[0], order), relayout.visit_expr(call.args[1])
    return Permuted(again(call, data, weights, data_layout=moved, out_layout=moved), order)


def _is_faster_along_rows(relayout: Relayout, call: Call, order: Order) -> bool:
    """Whether a convolution is faster with vectors along rows than along channels (``order``).

    That holds for few output channels; and if each is computed from one channel, unless the data
    have another order already, or a single input channel is read with a stride.
    """
    (outputs, inputs, *_), dtype = shape_and_dtype(call.args[1])
    if dtype == "int32" and inputs > 1 and multiplies_words(relayout.machine):
        return False  # Words are read along channels.
    columns = shape_and_dtype(call.args[0])[0][-1]
    if sizes.is_known(columns) and columns < relayout.machine.narrow_row:
        return False
    dense = int(call.attrs.groups) > 1 or all(int(step) == 1 for step in call.attrs.strides)
    permuted = relayout.permuted(call.args[0]) or relayout.has_order(call.args[0], order)
    few = sizes.is_known(outputs) and outputs <= relayout.machine.few_channels
    return few or bool(inputs == 1 and dense and not permuted)


def _pool(_: Relayout, data: Permuted, call: Call) -> Permuted:
    layout = str(call.attrs.layout)
    moved = "".join(layout[dimension] for dimension in data.order)
    return Permuted(again(call, data.value, layout=moved, out_layout=moved), data.order)


def _following(relayout: Relayout, call: Call) -> Permuted | list[Permuted] | None:
    """An operator whose operands get the order of the largest permuted one."""
    tupled = isinstance(call.args[0], relax.Tuple)
    operands = list(call.args[0].fields if tupled else call.args)
    data = _largest(map(relayout.permuted, operands))
    if data is None:
        return None
    order, rank = data.order, len(data.order)
    if not all(0 <= _rank(each) <= rank for each in operands):
        return None
    values = [_aligned(relayout, operand, order) for operand in operands]
    moved = {
        name: move(data, getattr(call.attrs, name))
        for name, move in _DIMENSIONS.items()
        if hasattr(call.attrs, name)
    }
    made = again(call, *([relax.Tuple(values)] if tupled else values), **moved)
    if isinstance(call.ty, relax.TupleType):
        items = relayout.builder_.emit(made)
        return [Permuted(relax.TupleGetItem(items, n), order) for n in range(len(call.ty.fields))]
    if len(call.ty.shape) == rank:
        return Permuted(made, order)
    gone = {int(dimension) % rank for dimension in call.attrs.axis or range(rank)}
    return Permuted(made, _without(order, gone))


def _rank(operand: RelaxExpression) -> int:
    """The rank of a tensor, or of the tensors that a shape is for; -1 if it is unknown."""
    if isinstance(operand, relax.ShapeExpr):
        return len(operand.values)
    return len(operand.ty.shape) if is_tensor(operand) else -1


def _without(order: Order, gone: Collection[int]) -> Order:
    """The order of the dimensions that are left."""
    left = sorted(set(order).difference(gone))
    return tuple(left.index(dimension) for dimension in order if dimension in left)


def _largest(operands: Iterable[Permuted | None]) -> Permuted | None:
    """The operand with the most elements, dynamic dimensions left out."""

    def elements(operand: Permuted) -> int:
        return prod(filter(sizes.is_known, operand.shape))

    return max((each for each in operands if each is not None), key=elements, default=None)


def _aligned(relayout: Relayout, operand: RelaxExpression, order: Order) -> RelaxExpression:
    """An operand that broadcasts as before against tensors in the order, or a shape of these."""
    if isinstance(operand, relax.ShapeExpr):
        return relax.ShapeExpr([operand.values[dimension] for dimension in order])
    shape = shape_and_dtype(operand)[0]
    if not shape:
        scalar: RelaxExpression = relayout.visit_expr(operand)
        return scalar
    if len(shape) < len(order):
        missing = [*range(len(order) - len(shape))]
        array = constant_array(operand)
        if array is not None:
            return constant(np.expand_dims(array, missing).transpose(order))
        wide = relax.op.expand_dims(relayout.visit_expr(operand), missing)
        operand = relayout.builder_.emit(wide)
    return relayout.in_order(operand, order)


def _permute(_: Relayout, data: Permuted, call: Call) -> Permuted:
    return Permuted(data.value, tuple(map(permutation_axes(call).index, data.order)))


def _reshape(relayout: Relayout, data: Permuted, call: Call) -> Permuted | None:
    """A reshape that splits or joins dimensions, each by itself, keeps the order of the groups."""
    old = [data.extent(dimension) for dimension in range(len(data.order))]
    new = list(shape_and_dtype(call)[0])
    groups = sizes.groups(old, new)
    # To Relax, a dimension of 0 is that of the operand.
    if groups is None or any(isinstance(size, int) and not size for size in new):
        return None
    needed: list[int] = []
    order: list[int] = []
    for dimension in data.order:
        if dimension not in needed:
            sources, targets = next(group for group in groups if dimension in group[0])
            needed += sources
            order += targets
    value = data.value
    if needed != list(data.order):
        axes = [data.axis(dimension) for dimension in needed]
        value = relayout.builder_.emit(relax.op.permute_dims(value, axes))
    shape = tuple(new[dimension] for dimension in order)
    return Permuted(relax.op.reshape(value, shape), tuple(order))


def _slice(_: Relayout, data: Permuted, call: Call) -> Permuted | None:
    if not all(isinstance(part, relax.Tuple) for part in call.args[1:]):
        return None
    axes, *rest = (list(part.fields) for part in call.args[1:])
    moved = [data.axis(axis.value) for axis in axes]
    inside = bool(call.attrs.assume_inbound)
    value = relax.op.strided_slice(data.value, moved, *rest, assume_inbound=inside)
    return Permuted(value, data.order)


def _kernel(relayout: Relayout, call: Call) -> Permuted | list[Permuted] | None:
    """A PrimFunc reads permuted operands as they are stored, and writes in the same order."""
    if len(call.args) > 2 or not isinstance(call.args[1], relax.Tuple):
        return None
    given, name = list(call.args[1].fields), str(call.args[0].name_hint)
    arguments = [argument for argument in given if not is_symbol(argument)]
    permuted = [relayout.permuted(argument) for argument in arguments]
    data = _largest(permuted)
    if data is None:
        return None
    kernel = kernel_at_call(relayout.functions[name], given, numbers=True)
    if kernel is None:
        return None
    order = data.order
    orders = {stage.buffer: order for stage in kernel.stages if len(stage.axes) == len(order)}
    values = []
    for buffer, argument, form in zip(kernel.inputs, arguments, permuted, strict=True):
        if form is not None:
            orders[buffer] = form.order
        values.append(relayout.visit_expr(argument) if form is None else form.value)
    for stage in kernel.stages:
        if stage.buffer not in orders:
            orders[stage.buffer] = _order_of_loads(stage, orders)

    def rebuilt(symbols: Symbols, *tensors: te.Tensor) -> te.Tensor | list[te.Tensor]:
        made = tensors_of(kernel, tensors, orders, symbols)
        results = [made[buffer] for buffer in kernel.outputs]
        return results if len(results) > 1 else results[0]

    symbols = [argument for argument in given if is_symbol(argument)]
    made = call_te(relayout.builder_, rebuilt, values, name, scalars=symbols)
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


def _axis(data: Permuted, axis: int | Sequence[int] | None) -> int | list[int] | None:
    if axis is None or isinstance(axis, int):
        return axis if axis is None else data.axis(axis)
    return [data.axis(each) for each in sorted(int(each) % len(data.order) for each in axis)]


_DIMENSIONS: Mapping[str, Callable[[Permuted, Sequence[int]], int | list[int] | None]] = {
    "axis": _axis,
    "repeats": lambda data, counts: [counts[dimension] for dimension in data.order],
    "pad_width": lambda data, widths: [
        widths[2 * dimension + side] for dimension in data.order for side in (0, 1)
    ],
}
"""Attributes with something for each dimension, or numbers of dimensions, of permuted data."""

_FOLLOWING = (
    "nn.relu", "nn.gelu", "nn.gelu_tanh", "nn.silu", "sigmoid", "tanh", "exp", "log", "sqrt",
    "rsqrt", "abs", "negative", "erf", "astype", "square", "floor", "ceil", "sin", "cos",
    "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "add", "subtract",
    "multiply", "divide", "power", "maximum", "minimum", "where", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "mean", "sum", "prod",
    "max", "min", "concat", "flip", "split", "tile", "broadcast_to", "nn.pad",
    "nn.softmax",
)  # fmt: skip

ON_PERMUTED: Mapping[str, OnPermuted] = {
    **dict.fromkeys(CONVOLUTIONS, _convolution),
    **{f"nn.{kind}_pool{n}d": of_first(_pool) for kind in ("max", "avg") for n in (1, 2, 3)},
    **dict.fromkeys(_FOLLOWING, _following),
    "call_tir": _kernel,
    "permute_dims": of_first(_permute),
    **dict.fromkeys(("reshape", "expand_dims", "squeeze"), of_first(_reshape)),
    "strided_slice": of_first(_slice),
}
"""Functions that apply operators to permuted tensors, by the names of operators."""
