"""Formulas written out in ONNX's element-wise operators, gathers and reductions.

A statement is expressible if its stores write an element once, by plain loop indices, or accumulate
over the other loops. Its loops become the dimensions of values; where a step is skipped, what was
there before stays. Everything else raises Inexpressible: what reads what it writes needs an order
of steps, and ONNX has none outside of loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export import scalars
from tvm_nnef.converters.onnx.export.context import Context
from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.converters.onnx.export.expressions import evaluate, number, static
from tvm_nnef.converters.onnx.export.frame import Frame, Spread, single
from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Formula,
    Index,
    Load,
    Scalar,
    ScalarType,
    Store,
    StoreOperator,
    Subscript,
    guards,
    loads,
    walk,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.reference.arithmetic import constant, null
from tvm_nnef.symbolic import dimensions

_REDUCTIONS: Mapping[StoreOperator, tuple[str, str]] = {
    "+=": ("ReduceSum", "add"),
    "*=": ("ReduceProd", "mul"),
    "min=": ("ReduceMin", "min"),
    "max=": ("ReduceMax", "max"),
    "&=": ("ReduceMin", "and"),
    "|=": ("ReduceMax", "or"),
}
"""The reduction of ONNX, and what combines its result with what was there before."""


def written_out(
    formula: Formula, dtypes: Mapping[ScalarType, str], emitter: Emitter, context: Context
) -> dict[Tensor, str]:
    """The values of the results of a formula, in the dtypes in which it computes."""
    made: dict[Tensor, str] = {}
    fills = {fill.tensor: fill.value for fill in formula.fills}
    for statement in formula.statements:
        written = {store.tensor for store in statement.stores}
        read = {load.tensor for load in loads(statement)}
        if written & read:
            raise Inexpressible("its formula reads what it writes")
        if len(written) < len(statement.stores):
            raise Inexpressible("a statement of its formula writes one tensor twice")
        for tensor in (each for each in fills if each in read and each not in made):
            made[tensor] = _filled(tensor, fills[tensor], dtypes, emitter)
        frame = Frame(statement, dtypes, emitter, context, made)
        made |= {store.tensor: _stored(store, fills, frame) for store in statement.stores}
    for tensor in (each for each in fills if each not in made):
        made[tensor] = _filled(tensor, fills[tensor], dtypes, emitter)
    return made


def _filled(
    tensor: Tensor, fill: Constant, dtypes: Mapping[ScalarType, str], emitter: Emitter
) -> str:
    return emitter.expand(number(fill, dtypes, emitter), tensor.shape)


def _stored(store: Store, fills: Mapping[Tensor, Constant], frame: Frame) -> str:
    """The tensor after a store."""
    written = _written_loops(store, frame)
    pairs = zip(written, store.tensor.shape, strict=True)
    if not all(
        name is None or frame.context.same(frame.extent(name), size) for name, size in pairs
    ):
        raise Inexpressible("its formula writes a part of a result only")
    rest = [name for name in frame.order if name not in written]
    value = evaluate(store.value, frame)
    steps = _steps(store, frame)
    fill = fills[store.tensor]
    if store.operator != "=":
        return _accumulated(store, value, steps, written, rest, fill, frame)
    if any(not dimensions.equal(frame.extent(name), 1) for name in rest):
        raise Inexpressible("its formula writes elements more than once")
    reordered = _reordered(value, written, store.tensor, rest, frame)
    if steps is None:
        return reordered
    made = _reordered(steps, written, store.tensor, rest, frame)
    before = _before(store.tensor, fill, frame)
    return scalars.select(made, reordered, before, store.tensor.type, frame.emitter)


def _before(tensor: Tensor, fill: Constant, frame: Frame) -> str:
    if tensor in frame.made:
        return frame.made[tensor]
    return number(fill, frame.dtypes, frame.emitter)


def _steps(store: Store, frame: Frame) -> Spread | None:
    """Which steps are made, None for all: where the condition holds and no guard fails."""
    conditions: list[Scalar] = []
    if frame.statement.condition is not None:
        conditions.append(frame.statement.condition)
    for tensor, dimension, subscript in guards(frame.statement):
        whole = isinstance(subscript.index, Index) and frame.context.same(
            frame.extent(subscript.index.name), tensor.shape[dimension]
        )
        if not whole:
            size = Constant("int", tensor.shape[dimension])
            conditions.append(Binary("ge", subscript.index, Constant("int", 0)))
            conditions.append(Binary("lt", subscript.index, size))
    found: Spread | None = None
    for condition in dict.fromkeys(conditions):
        holds = evaluate(condition, frame)
        found = holds if found is None else frame.node("And", found, holds)
    return found


def _accumulated(
    store: Store,
    value: Spread,
    steps: Spread | None,
    written: Sequence[str | None],
    rest: Sequence[str],
    fill: Constant,
    frame: Frame,
) -> str:
    """Return a contraction added to a tensor that is filled, or was written before."""
    operator, function = _REDUCTIONS[store.operator]
    dtype, emitter = frame.dtypes[store.tensor.type], frame.emitter
    neutral = null(store.operator, np.dtype(dtype))
    if steps is not None:
        alternative = single(emitter.constant(neutral, dtype))
        name = scalars.select(steps.name, value.name, alternative.name, store.tensor.type, emitter)
        loops = value.loops | steps.loops
        value = Spread(name, max(value.rank, steps.rank), loops)
    if rest:
        if len(set(_loaded(store.value))) > 1:
            # What is read of one tensor alone has no more elements than that, or was checked.
            frame.check_size([name for name in frame.order if name in value.loops])
        value = _reduced(operator, value, dtype, rest, frame)
    total = _reordered(value, written, store.tensor, rest, frame)
    if store.tensor not in frame.made and constant(static(fill), np.dtype(dtype)) == neutral:
        return total
    before = _before(store.tensor, fill, frame)
    return scalars.binary(function, before, total, dtype, emitter)


def _loaded(scalar: Scalar) -> Iterator[Scalar]:
    return (inner for inner in walk(scalar) if isinstance(inner, Load))


def _reduced(operator: str, value: Spread, dtype: str, rest: Sequence[str], frame: Frame) -> Spread:
    """A value reduced along loops, along which it must extend; truth values as numbers."""
    emitter, order = frame.emitter, frame.order
    whole, loops = value.name, value.loops
    if value.rank < len(order) or not value.loops.issuperset(rest):
        frame.check_size(order)
        whole, loops = emitter.expand(value.name, frame.extents(order)), frozenset(order)
    axes = emitter.integers([order.index(name) for name in rest])
    if dtype == "bool":
        if any(dimensions.compare("gt", frame.extent(name), 0) is not True for name in rest):
            raise Inexpressible("its formula accumulates truth values of which there may be none")
        numbers = emitter.node(operator, emitter.cast(whole, dtype, "int32"), axes, keepdims=1)
        reduced = emitter.cast(numbers, "int32", dtype)
    else:
        reduced = emitter.node(operator, whole, axes, keepdims=1)
    return Spread(reduced, len(order), loops - frozenset(rest))


def _written_loops(store: Store, frame: Frame) -> list[str | None]:
    """The loop that runs along each dimension of the tensor, None along one of size 1."""
    found: list[str | None] = []
    for subscript, size in zip(store.subscripts, store.tensor.shape, strict=True):
        match subscript:
            case Subscript(Index(name), False) if name not in found:
                found.append(name)
            case Subscript(Constant(_, 0), False) if dimensions.equal(size, 1):
                found.append(None)
            case _:
                raise Inexpressible("its formula writes elements at computed positions")
    return found


def _reordered(
    value: Spread,
    written: Sequence[str | None],
    tensor: Tensor,
    rest: Sequence[str],
    frame: Frame,
) -> str:
    """A value over the loops as a tensor over its own dimensions."""
    emitter, order = frame.emitter, frame.order
    name = emitter.unsqueeze(value.name, list(range(len(order) - value.rank)))
    name = emitter.squeeze(name, [order.index(each) for each in rest])
    left = [each for each in order if each not in rest]
    name = emitter.permute(name, [left.index(each) for each in written if each is not None])
    name = emitter.unsqueeze(name, [axis for axis, each in enumerate(written) if each is None])
    missing = [
        each
        for each in left
        if each not in value.loops and not dimensions.equal(frame.extent(each), 1)
    ]
    return emitter.expand(name, tensor.shape) if missing else name
