"""Formulas that are transposed convolutions, so that a user's own is as fast as the standard one.

Input: a formula whose last statement adds ``x[b, c, |(y + p - d * t) / s|, ..] * w[c, o, t, ..]``
if ``(y + p - d * t) % s == 0``. Output: a :class:`DeconvolutionFormula`; None for any other one.
Dimensions may have any order; channels may be in groups of ``m`` that give ``f`` each:
``x[b, o / f * m + c, ..] * w[o / f * m + c, o % f, ..]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Formula,
    Index,
    Load,
    Local,
    Scalar,
    Statement,
    Subscript,
    replaced,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.index_maps import extents, linear
from tvm_nnef.lower.ops.common import permuted
from tvm_nnef.lower.ops.deconvolution import CONVOLUTIONS, Axis, deconvolution
from tvm_nnef.symbolic.dimensions import Dimension, equal, is_static
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression

_MOST_LOCALS = 8
_GROUP, _IN_GROUP = Index("group of o"), Index("o in its group")

_Terms = dict[str, int]
"""An index as a sum of indices of loops by their names, each with a factor."""


@dataclass(frozen=True, slots=True)
class DeconvolutionFormula:
    """A transposed convolution, and the formula of what it is added to (None for 0).

    An order lists the dimensions of a tensor: ``[N, C, X...]`` of the data and of the result,
    ``[C, O, K...]`` of the weights.
    """

    data: Tensor
    weights: Tensor
    result: Tensor
    orders: tuple[list[int], list[int], list[int]]
    axes: list[Axis]
    groups: int
    rest: Formula | None

    def lowered(
        self, builder: BlockBuilder, data: RelaxExpression, weights: RelaxExpression
    ) -> RelaxExpression:
        """The transposed convolution as a Relax expression."""
        of_data, of_weights, of_result = self.orders
        shape = [self.result.shape[n] for n in of_result]
        data, weights = permuted(data, of_data), permuted(weights, of_weights)
        made = deconvolution(builder, data, weights, self.axes, shape, self.groups)
        return permuted(made, [of_result.index(n) for n in range(len(shape))])


def find_deconvolution(formula: Formula) -> DeconvolutionFormula | None:
    """The transposed convolution with which a formula ends."""
    if len(formula.fills) != 1 or not formula.statements:
        return None
    *before, last = formula.statements
    if len(last.stores) != 1 or len(last.locals) > _MOST_LOCALS or extents(last) is None:
        return None
    (fill,), (store,) = formula.fills, last.stores
    if last.condition is None or store.operator != "+=" or store.tensor.type != "real":
        return None
    statement = _without_locals(last)
    is_zero = not before and fill.value.value == 0
    rest = None if is_zero else replace(formula, statements=tuple(before))
    match statement.stores[0].value:
        case Binary("mul", Load() as left, Load() as right):
            found = _found(statement, left, right, rest)
            return found or _found(statement, right, left, rest)
    return None


def _without_locals(statement: Statement) -> Statement:
    for local in reversed(statement.locals):
        others = replace(statement, locals=statement.locals[:-1])
        statement = replaced(others, Local(local.name, local.value.type), local.value)
    return statement


def _found(
    statement: Statement, data: Load, weights: Load, rest: Formula | None
) -> DeconvolutionFormula | None:
    """The transposed convolution with these operands."""
    (store,), sizes = statement.stores, extents(statement) or {}
    outputs = [s.index.name for s in store.subscripts if isinstance(s.index, Index)]
    shape = store.tensor.shape
    if len({*outputs}) < len(shape) or any(
        not equal(sizes[name], size) for name, size in zip(outputs, shape, strict=True)
    ):
        return None
    tests = list(_conjunction(statement.condition))
    spatial = [n for n, subscript in enumerate(data.subscripts) if subscript.guarded]
    moving = [_moving(data.subscripts[n], outputs, tests) for n in spatial]
    moved = [each for each in moving if each is not None]
    if len(moved) < len(spatial) or len(spatial) not in CONVOLUTIONS or tests:
        return None
    targets, taps = [each.output for each in moved], [each.tap for each in moved]
    plain = [n for n in range(len(data.subscripts)) if n not in spatial]
    batches = [n for n in outputs if any(data.subscripts[p].index == Index(n) for p in plain)]
    channels = [name for name in outputs if name not in (*batches, *targets)]
    depths = [name for name in sizes if name not in (*outputs, *taps)]
    if not len(batches) == len(channels) == len(depths) == 1 or len({*taps}) < len(taps):
        return None
    (batch,), (channel,), (depth,) = batches, channels, depths
    size = _group_size(weights, channel) or sizes[channel]
    counts = [sizes[name] for name in (channel, depth, *taps)]
    if not all(is_static(count) and count > 0 for count in counts) or sizes[channel] % size:
        return None
    groups, inner, terms = sizes[channel] // size, channel, {depth: 1}
    if _group_size(weights, channel):
        data, weights = (_in_groups(load, channel, size) for load in (data, weights))
        # A channel divided by 1 is simplified when the formula is made.
        group = channel if size == 1 else _GROUP.name
        terms, inner = {group: sizes[depth], depth: 1}, _IN_GROUP.name
    all_channels = groups * sizes[depth]
    data_order = _order(data, plain, [({batch: 1}, sizes[batch]), (terms, all_channels)])
    roles = [(terms, all_channels), ({inner: 1}, size), *(({t: 1}, sizes[t]) for t in taps)]
    weights_order = _order(weights, range(len(weights.subscripts)), roles)
    axes = [
        Axis.of(data.tensor.shape[n], sizes[each.tap], sizes[each.output], *each.geometry)
        for n, each in zip(spatial, moved, strict=True)
    ]
    known = [axis for axis in axes if axis is not None]
    read = (data.tensor, weights.tensor)
    if not data_order or not weights_order or len(known) < len(axes) or store.tensor in read:
        return None
    result_order = [outputs.index(name) for name in (batch, channel, *targets)]
    orders = ([*data_order, *spatial], weights_order, result_order)
    return DeconvolutionFormula(*read, store.tensor, orders, known, groups, rest)


@dataclass(frozen=True, slots=True)
class _Moving:
    """A subscript ``(output + offset - dilation * tap) / stride``."""

    output: str
    tap: str
    geometry: tuple[int, int, int]
    """Stride, dilation, offset."""


def _moving(subscript: Subscript, outputs: Sequence[str], tests: list[Scalar]) -> _Moving | None:
    """Read a guarded subscript, and remove the test of its remainder from ``tests``."""
    index, stride = subscript.index, 1
    match index:
        # All of these are the same if nothing remains.
        case Binary("floordiv" | "truncdiv" | "ceildiv", dividend, Constant("int", int(divisor))):
            index, stride = dividend, divisor
    found, own = _linear(index), [test for test in tests if _is_remainder(test, index, stride)]
    if found is None or subscript.below is not None or stride < 1 or (stride > 1 and not own):
        return None
    for test in own:
        tests.remove(test)
    offset, terms = found
    ends = [name for name, factor in terms.items() if name in outputs and factor == 1]
    taps = [name for name, factor in terms.items() if name not in outputs and factor < 0]
    if len(terms) != 2 or not len(ends) == len(taps) == 1:
        return None
    return _Moving(ends[0], taps[0], (stride, -terms[taps[0]], offset))


def _is_remainder(test: Scalar, index: Scalar, stride: int) -> bool:
    """Whether a test says that an index is a multiple of the stride."""
    match test:
        case Binary(
            "eq",
            Binary("floormod" | "truncmod", dividend, Constant("int", int(divisor))),
            Constant("int", 0),
        ):
            return divisor == stride and _linear(dividend) == _linear(index)
    return False


def _conjunction(condition: Scalar | None) -> Iterator[Scalar]:
    match condition:
        case Binary("and", left, right):
            yield from _conjunction(left)
            yield from _conjunction(right)
        case Constant("bool", True) | None:
            pass
        case _:
            yield condition


def _linear(scalar: Scalar) -> tuple[int, _Terms] | None:
    """A scalar as a number and multiples of indices, if all of these are static."""
    offset, terms = linear(scalar) or (None, {})
    numbers = {name: factor for name, factor in terms.items() if isinstance(factor, int)}
    return (offset, numbers) if isinstance(offset, int) and len(numbers) == len(terms) else None


def _group_size(weights: Load, channel: str) -> int | None:
    """Return the number of outputs of a group if weights are read at a remainder of channels."""
    for subscript in weights.subscripts:
        match subscript.index:
            case Binary("floormod" | "truncmod", Index(name), Constant("int", int(size))):
                if name == channel and size > 0:
                    return size
    return None


def _in_groups(load: Load, channel: str, size: int) -> Load:
    """A load with the group of a channel, and the channel in its group, as indices."""
    operands = Index(channel), Constant("int", size)
    for old, index in (
        (Binary("floordiv", *operands), _GROUP),
        (Binary("truncdiv", *operands), _GROUP),
        (Binary("floormod", *operands), _IN_GROUP),
        (Binary("truncmod", *operands), _IN_GROUP),
    ):
        load = replaced(load, old, index)
    return load


def _order(
    load: Load, numbers: Sequence[int], roles: Sequence[tuple[_Terms, Dimension]]
) -> list[int] | None:
    """Which of some dimensions of a load has each role: an index, and the size of its tensor."""
    order = []
    for terms, size in roles:
        for number in numbers:
            subscript = load.subscripts[number]
            is_plain = not subscript.guarded and subscript.below is None
            whole = equal(load.tensor.shape[number], size)
            if is_plain and whole and _linear(subscript.index) == (0, terms):
                order.append(number)
    return order if len(order) == len(roles) and sorted(order) == sorted(numbers) else None
