"""Branches and loops as ONNX's If and Loop.

What the bodies read from outside they capture by name. The items that a loop goes through are
stacked to one tensor, and one is gathered in each step; what it gives for each step is taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import onnx

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.context import Context, value_info
from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Scan,
    Tensor,
    flatten,
    tensors,
    updated_variables,
)

Walk: TypeAlias = Callable[[Graph, Emitter, Context], None]


def branch(node: If, emitter: Emitter, context: Context, walk: Walk) -> None:
    """One of two graphs, by a condition of one element."""
    start = len(emitter.nodes)
    results = flatten(node.results)
    state = updated_variables(node.consequent, node.alternative)
    graphs = {}
    for name, body in (("then_branch", node.consequent), ("else_branch", node.alternative)):
        inner = Emitter(context.shared, emitter)
        walk(body, inner, context)
        values = [
            context.converted(inner, output, context.types[result])
            for output, result in zip(body.output_tensors, results, strict=True)
        ]
        values += [context.new_value(inner, variable) for variable in state]
        graphs[name] = _graph(name, inner, [], _given(values, (*results, *state), inner, context))
    condition = _single(context.value(emitter, node.condition), node.condition, emitter)
    made = emitter.nodes_of("If", [condition], len(results) + len(state), **graphs)
    for result, value in zip(results, made, strict=False):
        context.bind(emitter, result, value, context.types[result], start)
    emitter.updated.update(zip(state, made[len(results) :], strict=True))


def loop(node: Loop, emitter: Emitter, context: Context, walk: Walk) -> None:
    """A graph run again and again."""
    start = len(emitter.nodes)
    if node.condition is not None and updated_variables(node.condition):
        raise Inexpressible("its condition updates variables")
    initial = [
        context.converted(emitter, tensor, context.types[carried])
        for tensor, carried in zip(node.initial, node.carried, strict=True)
    ]
    limits = [len(scan.items) for scan in node.scans]
    limits += [node.count] if isinstance(node.count, int) else []
    if limits and min(limits) == 0:
        _no_step(node, initial, emitter, context, start)
        return
    stacks = {scan.item: _stacked(scan, emitter, context) for scan in node.scans}
    first = ""
    if node.condition is not None and not node.post_test:
        values = dict(zip(node.carried, initial, strict=True))
        zero = emitter.constant(0, "int64", "size")
        first = _condition(node, values, zero, stacks, emitter, context, walk)
    trips = _trips(node, limits, emitter, context)
    state = updated_variables(node.body)
    initial += [context.new_value(emitter, variable) for variable in state]
    body = _body(node, state, stacks, emitter, context, walk)
    made = emitter.nodes_of("Loop", [trips, first, *initial], len(body.output) - 1, body=body)
    count = len(node.carried)
    for result, value, carried in zip(
        flatten(node.results[:count]), made, node.carried, strict=False
    ):
        context.bind(emitter, result, value, context.types[carried], start)
    emitter.updated.update(zip(state, made[count:], strict=False))
    for operand, value in zip(node.results[count:], made[count + len(state) :], strict=True):
        _bind_scanned(tensors(operand), isinstance(operand, Tensor), value, emitter, context, start)


def _body(
    node: Loop,
    state: Sequence[Tensor],
    stacks: Mapping[Tensor, str],
    outer: Emitter,
    context: Context,
    walk: Walk,
) -> onnx.GraphProto:
    inner = Emitter(context.shared, outer)
    step, going = (context.shared.names.name(f"{outer.hint}/{word}") for word in ("step", "going"))
    names = {each: context.shared.names.name(each.name) for each in (*node.carried, *state)}
    inputs = [value_info(step, "int64", ()), value_info(going, "bool", ())]
    inputs += [value_info(name, context.types[each], each.shape) for each, name in names.items()]
    for each in node.carried:
        inner.define(names[each], each.shape)
    inner.updated.update((variable, names[variable]) for variable in state)
    _enter(node, {each: names[each] for each in node.carried}, step, stacks, inner, context)
    walk(node.body, inner, context)
    count = len(node.carried)
    found = node.body.output_tensors
    items = [(tensors(result) or (output,))[0] for output, result in
             zip(found[count:], node.results[count:], strict=True)]  # fmt: skip
    values = [
        context.converted(inner, output, context.types[like])
        for output, like in zip(found, (*node.carried, *items), strict=True)
    ]
    values[count:count] = [context.new_value(inner, variable) for variable in state]
    likes = [*node.carried, *state, *found[count:]]
    dtypes = [context.types[each] for each in (*node.carried, *state, *items)]
    outputs = _given(values, likes, inner, context, dtypes)
    again = going
    if node.condition is not None:
        carried_on = dict(zip(node.carried, (name for name, _, _ in outputs), strict=False))
        one = inner.constant(1, "int64", "size")
        seen = step if node.post_test else inner.node("Add", step, one)
        again = _condition(node, carried_on, seen, stacks, inner, context, walk)
    if not inner.makes(again):
        again = inner.node("Identity", again)
    return _graph("body", inner, inputs, [(again, "bool", None), *outputs])


_Output: TypeAlias = "tuple[str, str, Tensor | None]"
"""A value, its dtype, and the tensor that has its shape; None is one of rank 0."""


def _given(
    values: Sequence[str],
    likes: Sequence[Tensor],
    inner: Emitter,
    context: Context,
    dtypes: Sequence[str] | None = None,
) -> list[_Output]:
    """Values as outputs of a body, each made inside and none twice; ``likes`` have their shapes."""
    found: list[_Output] = []
    given = dtypes or [context.types[like] for like in likes]
    for value, dtype, like in zip(values, given, likes, strict=True):
        own = value
        if not inner.makes(own) or any(own == name for name, _, _ in found):
            own = inner.node("Identity", own)
        found.append((own, dtype, like))
    return found


def _condition(
    node: Loop,
    values: Mapping[Tensor, str],
    step: str,
    stacks: Mapping[Tensor, str],
    emitter: Emitter,
    context: Context,
    walk: Walk,
) -> str:
    """Whether the loop goes on, asked in the graph of the emitter; what it knows stays as it is."""
    assert node.condition is not None
    kept = emitter.memory()
    _enter(node, values, step, stacks, emitter, context)
    walk(node.condition, emitter, context)
    (output,) = node.condition.output_tensors
    answer = _single(context.value(emitter, output), output, emitter)
    emitter.recall(kept)
    return answer


def _enter(
    node: Loop,
    values: Mapping[Tensor, str],
    step: str,
    stacks: Mapping[Tensor, str],
    emitter: Emitter,
    context: Context,
) -> None:
    """Gives carried tensors, index and items of a step their values."""
    emitter.values.update(values)
    if node.index is not None:
        emitter.values[node.index] = emitter.cast(step, "int64", context.types[node.index])
    for scan in node.scans:
        # After the last step there is no item; what a condition says about it is not heard.
        last = emitter.constant(len(scan.items) - 1, "int64", "size")
        position = emitter.node("Min", step, last)
        emitter.values[scan.item] = emitter.node("Gather", stacks[scan.item], position, axis=0)
        emitter.define(emitter.values[scan.item], scan.item.shape)


def _stacked(scan: Scan, emitter: Emitter, context: Context) -> str:
    dtype = context.types[scan.item]
    items = [context.converted(emitter, item, dtype) for item in scan.items]
    return emitter.node("Concat", *(emitter.unsqueeze(item, [0]) for item in items), axis=0)


def _trips(node: Loop, limits: Sequence[int], emitter: Emitter, context: Context) -> str:
    """Return the upper limit of the number of steps; empty if nothing limits them."""
    known = [emitter.constant(min(limits), "int64", "size")] if limits else []
    if isinstance(node.count, Tensor):
        count = context.converted(emitter, node.count, "int64")
        known.append(_single(count, node.count, emitter))
    if len(known) == 2:
        return emitter.node("Min", *known)
    return known[0] if known else ""


def _no_step(
    node: Loop, initial: Sequence[str], emitter: Emitter, context: Context, start: int
) -> None:
    """A loop that ends before it begins."""
    results = flatten(node.results[: len(initial)])
    for result, value, carried in zip(results, initial, node.carried, strict=True):
        context.bind(emitter, result, value, context.types[carried], start)
    for tensor in flatten(node.results[len(initial) :]):
        shape = (0, *tensor.shape[1:])
        if not all(isinstance(size, int) for size in shape):
            raise Inexpressible("it makes no step, and the shape of what it gives is not known")
        empty = emitter.expand(emitter.constant(0, context.types[tensor]), shape)
        context.bind(emitter, tensor, empty, context.types[tensor], start)


def _bind_scanned(
    items: Sequence[Tensor],
    whole: bool,
    value: str,
    emitter: Emitter,
    context: Context,
    start: int,
) -> None:
    """Bind the results of each step of a loop: stacked as they are, or an item for each."""
    if whole:
        context.bind(emitter, items[0], value, context.types[items[0]], start)
        return
    sizes = emitter.integers([1] * len(items))
    parts = emitter.nodes_of("Split", [value, sizes], len(items), axis=0)
    for item, part in zip(items, parts, strict=True):
        single = emitter.squeeze(part, [0])
        context.bind(emitter, item, single, context.types[items[0]], start)


def _single(value: str, tensor: Tensor, emitter: Emitter) -> str:
    """A value of one element as one of rank 0."""
    return emitter.reshape(value, tensor.shape, ())


def _graph(
    name: str,
    inner: Emitter,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[_Output],
) -> onnx.GraphProto:
    declared = [
        value_info(value, dtype, () if tensor is None else tensor.shape)
        for value, dtype, tensor in outputs
    ]
    return onnx.helper.make_graph(inner.nodes, name, list(inputs), declared)
