"""Caches: pairs of an input and an output that become state, because a user asks for it.

Input: a model that was read, and the pairs by name or prefix. Output: the model in which each pair
is the last input and output, and the state that it is. A cache that grows by each call becomes a
buffer of its largest size; how many of its entries are used is one more state. In the model, the
used entries are the first ones of the buffer, and new ones are written after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from tvm_nnef.converters.common.bounds import Bounds, bound_of_dimension
from tvm_nnef.converters.onnx.inference import type_of
from tvm_nnef.converters.onnx.inputs import bounded_names
from tvm_nnef.converters.onnx.reading import OnnxModel
from tvm_nnef.converters.onnx.state import State
from tvm_nnef.converters.onnx.types import NUMBER_OF
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean

DOMAIN = "tvm_nnef"
"""The domain of the nodes that are put in here."""
LENGTH = "cache.length"
"""The name of the state that says how many entries of caches are used."""

Shapes = Mapping[str, Sequence[int | str]]


@dataclass(frozen=True, slots=True)
class _Pair:
    """An input and an output that are state, with the shape of the buffer.

    ``axis`` is the dimension in which it grows, None if it does not.
    """

    past: onnx.ValueInfoProto
    present: onnx.ValueInfoProto
    shape: tuple[int, ...]
    axis: int | None


def with_caches(
    model: OnnxModel, names: Mapping[str, str], shapes: Shapes, bounds: Bounds
) -> tuple[OnnxModel, tuple[State, ...], Bounds]:
    """The model whose pairs of some names are its last inputs and outputs, and what they are.

    The bounds that are returned are those of other dimensions. Raises NnefError for names of no
    pair, and for dimensions that are not known.
    """
    if not names:
        return model, (), bounds
    graph = model.proto.graph
    values = list(_pairs(model, names))
    sizes = _numbers(graph.input, shapes)
    found: list[_Pair] = []
    problems: list[Diagnostic] = []
    for past, present in values:
        try:
            found.append(_pair(model, past, present, shapes, sizes, bounds))
        except NnefError as problem:
            problems += problem.diagnostics
    if problems:
        raise NnefError(problems)
    proto = _rewritten(model.proto, found)
    states = [_state(pair) for pair in found]
    if any(pair.axis is not None for pair in found):
        states.append(State(LENGTH, np.zeros((), np.int64)))
    return replace(model, proto=proto), tuple(states), _other_bounds(bounds, proto.graph, graph)


def without_states(shapes: Shapes, states: Sequence[State]) -> Shapes:
    """The shapes that a user gives for inputs that stay inputs."""
    names = {state.name for state in states}
    if names.isdisjoint(shapes):
        return shapes
    return {name: shape for name, shape in shapes.items() if name not in names}


def _pairs(
    model: OnnxModel, names: Mapping[str, str]
) -> Iterator[tuple[onnx.ValueInfoProto, onnx.ValueInfoProto]]:
    """The inputs and outputs whose names begin as a user says, and then are the same."""
    graph = model.proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {each.name: each for each in graph.input if each.name not in constants}
    outputs = {each.name: each for each in graph.output}
    problems = []
    for past, present in names.items():
        matching = [name for name in inputs if name.startswith(past)]
        if not matching:
            hint = did_you_mean(past, inputs) or f"the inputs are {', '.join(inputs)}"
            problems.append(_problem(model, f"no input of the model begins with '{past}'", hint))
        for name in matching:
            wanted = present + name.removeprefix(past)
            if wanted in outputs:
                yield inputs[name], outputs[wanted]
                continue
            hint = did_you_mean(wanted, outputs) or f"the outputs are {', '.join(outputs)}"
            message = f"the input '{name}' is to be state, but there is no output '{wanted}'"
            problems.append(_problem(model, message, hint))
    if problems:
        raise NnefError(problems)


def _problem(model: OnnxModel, message: str, hint: str) -> Diagnostic:
    return Diagnostic(message, hint=hint, file=model.path)


def _numbers(inputs: Iterable[onnx.ValueInfoProto], shapes: Shapes) -> dict[str, int]:
    """The numbers that a user gives for named dimensions, by their names."""
    found = {}
    for value in inputs:
        declared = type_of(value.type).shape or ()
        for own, given in zip(declared, shapes.get(value.name, ()), strict=False):
            if isinstance(own, str) and isinstance(given, int):
                found[own] = given
    return found


def _pair(
    model: OnnxModel,
    past: onnx.ValueInfoProto,
    present: onnx.ValueInfoProto,
    shapes: Shapes,
    sizes: Mapping[str, int],
    bounds: Bounds,
) -> _Pair:
    """A pair with its shape; NnefError if that is not known."""
    before, after = type_of(past.type), type_of(present.type)
    declared = before.shape
    if declared is None:
        hint = f"declare its shape, or give it: input_shapes={{'{past.name}': (1, 8, 'past', 64)}}"
        raise NnefError([_problem(model, f"the state '{past.name}' has no known rank", hint)])
    given = [*shapes.get(past.name, declared)]
    shape = [sizes.get(each, each) if isinstance(each, str) else each for each in given]
    others = after.shape or (None,) * len(shape)
    open_axes = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
    growing = [axis for axis in open_axes if declared[axis] != others[axis]]
    fixed = [axis for axis in open_axes if axis not in growing]
    if len(growing) > 1 or fixed:
        axes = fixed or growing
        shown = ", ".join(f"'{shape[axis] or axis}'" for axis in axes)
        hint = f"give numbers for the others: input_shapes={{'{past.name}': (1, 8, 'past', 64)}}"
        message = f"the state '{past.name}' has dynamic dimensions ({shown})"
        raise NnefError([_problem(model, message, hint)])
    for axis in growing:
        name = str(declared[axis] or f"{past.name}_{axis}")
        bound = bound_of_dimension(bounds, name, past.name, axis)
        if bound < 1:
            hint = f"say how many entries it has at most: bounds={{'{name}': 2048}}"
            hint += f", or --bound {name}=2048"
            message = f"the state '{past.name}' grows without a bound"
            raise NnefError([_problem(model, message, hint)])
        shape[axis] = bound
    sizes_ = tuple(size for size in shape if isinstance(size, int))
    return _Pair(past, present, sizes_, growing[0] if growing else None)


def _state(pair: _Pair) -> State:
    dtype = type_of(pair.past.type).dtype
    return State(pair.past.name, np.zeros(pair.shape, np.dtype(dtype)))


def _buffer(pair: _Pair) -> str:
    """The name of the input that is the whole of a cache."""
    return pair.past.name if pair.axis is None else f"{pair.past.name}.buffer"


def _rewritten(source: onnx.ModelProto, pairs: Sequence[_Pair]) -> onnx.ModelProto:
    """The model with the pairs as its last inputs and outputs, and the nodes that they need."""
    proto = onnx.ModelProto()
    proto.CopyFrom(source)
    graph = proto.graph
    past, present = ({getattr(pair, side).name for pair in pairs} for side in ("past", "present"))
    inputs = [value for value in graph.input if value.name not in past]
    outputs = [value for value in graph.output if value.name not in present]
    nodes = list(graph.node)
    before, after = [], []
    for pair in pairs:
        number = NUMBER_OF[str(type_of(pair.past.type).dtype)]
        inputs.append(helper.make_tensor_value_info(_buffer(pair), number, pair.shape))
        if pair.axis is None:
            outputs.append(pair.present)
            continue
        own = {"axis": pair.axis, "domain": DOMAIN}
        read, kept = [_buffer(pair), LENGTH], f"{pair.present.name}.buffer"
        before.append(helper.make_node("CacheEntries", read, [pair.past.name], **own))
        written = [pair.present.name, _buffer(pair)]
        after.append(helper.make_node("CacheBuffer", written, [kept], **own))
        outputs.append(helper.make_tensor_value_info(kept, number, pair.shape))
    growing = [pair for pair in pairs if pair.axis is not None]
    if growing:
        inputs.append(helper.make_tensor_value_info(LENGTH, onnx.TensorProto.INT64, []))
        first, length = growing[0], f"{LENGTH}.new"
        after.append(
            helper.make_node(
                "CacheLength", [first.present.name], [length], axis=first.axis, domain=DOMAIN
            )
        )
        outputs.append(helper.make_tensor_value_info(length, onnx.TensorProto.INT64, []))
        proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    for field, values in (
        (graph.input, inputs), (graph.output, outputs), (graph.node, [*before, *nodes, *after])
    ):  # fmt: skip
        del field[:]
        field.extend(values)
    return proto


def _other_bounds(bounds: Bounds, graph: onnx.GraphProto, before: onnx.GraphProto) -> Bounds:
    """The bounds without those of names that only the inputs have which became state."""
    if not isinstance(bounds, Mapping):
        return bounds
    gone = set(bounded_names(before)) - set(bounded_names(graph))
    return {name: bound for name, bound in bounds.items() if name not in gone}
