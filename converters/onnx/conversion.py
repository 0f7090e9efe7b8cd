"""An ONNX graph to steps: node after node, each by folding, by its function, or by its body.

Input: a model that was read and a table of operator functions. Output: a :class:`ConvertedGraph`,
whose tensors have no names yet. What cannot be converted is gathered, and reported at once.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import onnx

from tvm_nnef.converters.common.bounds import Bounds, bounds_of_results
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.steps import hint, needed
from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.converters.common.tensors import ConvertedGraph, Tensor
from tvm_nnef.converters.common.types import Type
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.attributes import check_node
from tvm_nnef.converters.onnx.backward import backward
from tvm_nnef.converters.onnx.folding import fold
from tvm_nnef.converters.onnx.following import Following, accepts_outputs
from tvm_nnef.converters.onnx.functions import as_standard, expand, has_body
from tvm_nnef.converters.onnx.gathering import with_scan_outputs
from tvm_nnef.converters.onnx.inference import declared, infer
from tvm_nnef.converters.onnx.inner_graphs import inner_graphs, names_read, names_read_by
from tvm_nnef.converters.onnx.inputs import graph_inputs
from tvm_nnef.converters.onnx.model_inference import infer_model
from tvm_nnef.converters.onnx.node import Node, OperatorFunction, converted_values
from tvm_nnef.converters.onnx.propagation import is_shape_arithmetic, propagate
from tvm_nnef.converters.onnx.reading import OnnxModel
from tvm_nnef.converters.onnx.registry import Table, find, standard
from tvm_nnef.converters.onnx.sequences import (
    Sequences,
    convert_sequence,
    is_about_sequences,
    is_sequence_operator,
)
from tvm_nnef.converters.onnx.state import State, check_not_given, split, updates
from tvm_nnef.converters.onnx.texts import indices_of_texts, texts_moved
from tvm_nnef.converters.onnx.unsupported import Mismatch, explained, reported, without_converter
from tvm_nnef.converters.onnx.values import Stacked, Unfilled, Value, is_sequence
from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.support.progress import report

Scope: TypeAlias = "MutableMapping[str, Tensor | None]"
"""Values by their names in the source; None for what could not be converted."""

_SEQUENCES = "keep sequences to operators that make, split and join them, and to loops"
_MOST_NODES = 1 << 16
"""Nodes of subgraphs that are converted, each as often as it takes to know the shapes in a loop."""
_SUBGRAPH = 8
"""The work for a subgraph itself, in nodes."""


@dataclass(slots=True)
class _Context:
    """State that all graphs of a model share; ``following`` are the nodes after the current one."""

    model: OnnxModel
    table: Table
    declared: Mapping[str, Type]
    read: frozenset[str]
    symbols: Mapping[str, Symbolic]
    bounds: Bounds
    following: Following
    problems: list[Diagnostic] = field(default_factory=list)
    mismatches: list[Diagnostic] = field(default_factory=list)
    sequences: Sequences = field(default_factory=dict)
    memory: dict[tuple[str, ...], object] = field(default_factory=dict)
    nodes_in_subgraphs: int = 0

    def refuse(self, node: onnx.NodeProto, opsets: Mapping[str, int], why: Unconvertible) -> None:
        """Keeps a diagnostic of a node, once."""
        found = reported(why, node, opsets, self.model.path)
        if why.mismatch:
            self.mismatches.append(found)
        if found not in self.problems:
            self.problems.append(found)


def convert_graph(
    model: OnnxModel,
    table: Table,
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
    states: Sequence[State] = (),
) -> ConvertedGraph:
    """The main graph of a model; shapes, dtypes and bounds are what the user specifies for inputs.

    The last inputs, which are ``states``, become variables. Raises NnefError, which lists
    everything that cannot be converted.
    """
    graph = model.proto.graph
    builder = Builder(stretches=True)
    inputs, symbols = graph_inputs(model, shapes, dtypes, bounds)
    check_not_given(states, inputs, {*shapes, *dtypes})
    scope: Scope = {each.source: each for each in inputs}
    report("inferring shapes", 0, len(graph.node))
    types = infer_model(model.proto, inputs)
    following = Following(graph.output, scope, types, model.opsets, lambda _: True)
    read = frozenset(names_read(graph))
    context = _Context(model, table, types, read, symbols, bounds, following)
    outputs = _run(context, graph, scope, builder, model.opsets, following)
    if context.problems:
        raise NnefError(context.problems)
    tensors = _tensors(context, outputs)
    finished = builder.outputs(tensors, [value.name for value in graph.output])
    steps = tuple(needed(builder.steps, finished))
    changes = updates(states, inputs, finished)
    given, kept = (tuple(split(states, each)[0]) for each in (inputs, finished))
    return ConvertedGraph(given, kept, steps, changes)


def _tensors(context: _Context, outputs: Sequence[Value]) -> list[Tensor]:
    """The outputs of the main graph. Raises NnefError if there are sequences among them."""
    names = (value.name for value in context.model.proto.graph.output)
    problems = [
        Diagnostic(
            f"the output '{name}' is a sequence of tensors",
            hint="join it to one tensor, by ConcatFromSequence",
            file=context.model.path,
            is_unsupported=True,
        )
        for name, each in zip(names, outputs, strict=True)
        if is_sequence(each)
    ]
    if problems:
        raise NnefError(problems)
    return [each for each in outputs if isinstance(each, Tensor)]


def _run(
    context: _Context,
    graph: onnx.GraphProto,
    scope: Scope,
    builder: Builder,
    opsets: Mapping[str, int],
    following: Following,
) -> list[Value]:
    """The outputs of a graph whose inputs are in scope; () where something was refused.

    ``following`` is what comes after the graph.
    """
    for tensor in graph.initializer:
        if tensor.name not in scope:
            scope[tensor.name] = _initializer(context, tensor.name, tensor)
    for sparse in graph.sparse_initializer:
        scope[sparse.values.name] = _initializer(context, sparse.values.name, sparse)
    nodes = tuple(graph.node)
    is_main = graph is context.model.proto.graph
    for position, node in enumerate(nodes):
        if is_main:
            report(f"converting {node.op_type}", position, len(nodes))
        context.following = replace(following, nodes=nodes, position=position)
        _convert(context, node, scope, builder, opsets)
    for value in graph.output:
        if value.name not in scope and value.name not in context.sequences:
            message = f"nothing gives the output '{value.name}'"
            file = context.model.path
            context.problems.append(Diagnostic(message, hint="correct the model", file=file))
    names = [value.name for value in graph.output]
    found = [context.sequences.get(name, scope.get(name)) for name in names]
    return [each for each in found if each is not None]


def _initializer(
    context: _Context, name: str, tensor: onnx.TensorProto | onnx.SparseTensorProto
) -> Tensor | None:
    """A tensor of the model; None for one that cannot be read, which is reported at the end."""
    try:
        if isinstance(tensor, onnx.TensorProto):
            if tensor.data_type == onnx.TensorProto.STRING:
                return indices_of_texts(tensor, context.model.path)
            array = context.model.array(tensor)
        else:
            array = context.model.dense(tensor)
    except NnefError as problem:
        context.problems += problem.diagnostics
        return None
    return Tensor(str(array.dtype), array.shape, name, array)


def _convert(
    context: _Context,
    proto: onnx.NodeProto,
    scope: Scope,
    builder: Builder,
    opsets: Mapping[str, int],
) -> None:
    """Puts the results of a node into the scope, whatever way there is to them."""
    if _converter_of(context, proto, opsets)[0] is None:
        proto, opsets = as_standard(proto, opsets)
    readable = _readable(context, proto, scope, opsets)
    if not (_checked(context, proto, opsets, readable) and readable):
        scope.update(dict.fromkeys(filter(None, proto.output)))
        _check_inner(context, proto, opsets)
        return
    start = len(builder.steps)
    try:
        if is_about_sequences(proto, context.sequences):
            found = convert_sequence(proto, scope, context.sequences, builder)
            _keep(context, scope, proto.output[0], found)
        elif not _convert_gathering(context, proto, scope, builder, opsets):
            _convert_others(context, proto, scope, builder, opsets)
    except NnefError as problem:
        context.problems += [each for each in problem.diagnostics if each not in context.problems]
        scope.update(dict.fromkeys(filter(None, proto.output)))
        _check_inner(context, proto, opsets)
    except Exception as problem:
        # A converter, ours or a user's, may trip over a node in any way; the others go on.
        operands = [str(scope[name]) for name in proto.input if scope.get(name)]
        converter, custom = _converter_of(context, proto, opsets)
        model = context.model.proto
        why = explained(problem, proto, operands, model, opsets, converter, custom=custom)
        context.refuse(proto, opsets, why)
        scope.update(dict.fromkeys(filter(None, proto.output)))
    hint(builder.steps[start:], next(filter(None, proto.output), proto.op_type))


def _converter_of(
    context: _Context, proto: onnx.NodeProto, opsets: Mapping[str, int]
) -> tuple[OperatorFunction | None, bool]:
    """The function that converts a node's operator, and whether a user gave it."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    key = (domain, proto.op_type, opsets.get(domain, 1))
    found = find(context.table, *key)
    return found, found is not find(standard(), *key)


def _readable(
    context: _Context, proto: onnx.NodeProto, scope: Scope, opsets: Mapping[str, int]
) -> bool:
    """Whether all inputs of a node were converted; refuses one that nothing gives."""
    about_sequences = is_about_sequences(proto, context.sequences)
    about_sequences = about_sequences or proto.op_type in ("Loop", "SequenceMap")
    names = [
        name for name in proto.input
        if name and not (about_sequences and name in context.sequences)
    ]  # fmt: skip
    for name in names:
        if name in context.sequences:
            problem = Unconvertible(f"its input '{name}' is a sequence of tensors", _SEQUENCES)
            context.refuse(proto, opsets, problem)
        elif name not in scope:
            problem = Unconvertible(f"nothing gives its input '{name}'", "correct the model")
            context.refuse(proto, opsets, problem)
    return all(scope.get(name) is not None for name in names)


def _checked(
    context: _Context, proto: onnx.NodeProto, opsets: Mapping[str, int], tried: bool
) -> bool:
    """Whether nothing speaks against a node by itself; refuses any other."""
    function, custom = _converter_of(context, proto, opsets)
    try:
        if not custom:
            check_node(proto, opsets)
        ways = (function, is_sequence_operator(proto), is_shape_arithmetic(proto))
        if not (tried or any(ways) or has_body(proto, opsets)):
            raise without_converter(proto, context.table)
    except Unconvertible as problem:
        context.refuse(proto, opsets, problem)
        return False
    return True


def _check_inner(context: _Context, proto: onnx.NodeProto, opsets: Mapping[str, int]) -> None:
    """Refuses what cannot be converted in subgraphs that are not, or not all of them, tried."""
    for graph in inner_graphs(proto):
        for node in graph.node:
            _checked(context, node, opsets, False)
            _check_inner(context, node, opsets)


def _convert_gathering(
    context: _Context,
    proto: onnx.NodeProto,
    scope: Scope,
    builder: Builder,
    opsets: Mapping[str, int],
) -> bool:
    """Converts a loop that only appends to empty sequences as one with scan outputs, if it is one.

    Returns whether it was.
    """
    if proto.op_type != "Loop" or not any(name in context.sequences for name in proto.input):
        return False
    empty = {
        name
        for name, items in context.sequences.items()
        if items == () and not isinstance(items, Unfilled)
    }
    before = len(context.problems)
    try:
        loop, gathered = with_scan_outputs(proto, context.sequences, empty)
        context.read |= frozenset(gathered.values())
        _convert_others(context, loop, scope, builder, opsets)
    except (NnefError, Unconvertible):
        # Another kind of loop, or the items have different shapes.
        del context.problems[before:]
        return False
    for name, items in gathered.items():
        stacked = scope[items]
        assert stacked is not None
        context.sequences[name] = Stacked(stacked)
    return True


def _convert_others(
    context: _Context,
    proto: onnx.NodeProto,
    scope: Scope,
    builder: Builder,
    opsets: Mapping[str, int],
) -> None:
    inputs = [scope.get(name) if name else None for name in proto.input]
    moved = texts_moved(proto, inputs)
    expected = infer(proto, inputs, opsets, context.declared, context.symbols)
    computed = _propagated(proto, inputs, expected) or _folded(proto, inputs, expected, opsets)
    if computed is not None:
        scope.update(computed)
    else:
        _apply(context, proto, inputs, expected, scope, builder, opsets)
    if moved:
        (result,) = proto.output
        moving = scope[result]
        assert moving is not None
        moving.texts = moved


def _keep(context: _Context, scope: Scope, name: str, value: Value) -> None:
    """Puts a result into the scope, or to the sequences."""
    if isinstance(value, Tensor):
        scope[name] = value
    else:
        context.sequences[name] = value


def _propagated(
    proto: onnx.NodeProto, inputs: Sequence[Tensor | None], expected: Sequence[Type | None]
) -> dict[str, Tensor] | None:
    """Results that are dimensions: a constant if all of them are numbers."""
    found = propagate(proto, inputs)
    if found is None:
        return None
    results = {}
    for name, items, type_ in zip(proto.output, found, expected, strict=False):
        dtype = (type_ and type_.dtype) or "int64"
        if all(isinstance(item, int) for item in items.reshape(-1)):
            results[name] = Tensor(dtype, items.shape, name, items.astype(dtype))
        else:
            results[name] = Tensor(dtype, items.shape, name, sizes=items)
    return results


def _folded(
    proto: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    expected: Sequence[Type | None],
    opsets: Mapping[str, int],
) -> dict[str, Tensor] | None:
    found = fold(proto, inputs, expected, opsets)
    if found is None:
        return None
    named = zip(filter(None, proto.output), found, strict=False)
    return {name: Tensor(str(array.dtype), array.shape, name, array) for name, array in named}


def _apply(
    context: _Context,
    proto: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    expected: tuple[Type | None, ...],
    scope: Scope,
    builder: Builder,
    opsets: Mapping[str, int],
) -> None:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    version = opsets.get(domain, 1)
    function = find(context.table, domain, proto.op_type, version)
    if function is None:
        prefix = f"{next(filter(None, proto.output), proto.op_type)}/{proto.op_type}"
        expansion = expand(proto, inputs, opsets, prefix, context.sequences)
        if expansion is None:
            raise without_converter(proto, context.table)
        context.read |= frozenset(names_read_by(expansion.nodes))
        context.declared = backward(expansion.nodes, _with_values(context, proto, inputs))
        for node in expansion.nodes:
            _convert(context, node, scope, builder, expansion.opsets)
        return
    following, given = context.following, set[int]()
    subgraph = partial(_subgraph, context, scope, opsets, given, proto, following)
    wanted = tuple(bool(name) and name in context.read for name in proto.output)
    attributes = context.model.attributes(proto)
    bounds = bounds_of_results(context.bounds, proto.output)
    sequences = {
        position: context.sequences[name]
        for position, name in enumerate(proto.input)
        if name in context.sequences
    }
    accepts = partial(following.accepts, proto.output)
    node = Node(
        proto, version, tuple(inputs), expected, wanted, attributes, subgraph, accepts, bounds,
        sequences, context.memory,
    )  # fmt: skip
    converted = function(node, builder)
    results = converted_values(converted, function)
    for position, (name, result) in enumerate(zip(proto.output, results, strict=False)):
        if name and result is not None:
            if isinstance(result, Tensor):
                result.source = result.source or name
            if isinstance(result, Tensor) and proto.op_type == "If" and position in given:
                result = Stacked(result)
            _keep(context, scope, name, result)
    for name in proto.output:
        known = name in scope or name in context.sequences
        if name and not known and name in context.read:
            hint = "remove what reads this result, or give your own converter (converters=)"
            raise Unconvertible(f"its result '{name}' cannot be computed", hint)


def _with_values(
    context: _Context, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]
) -> dict[str, Type]:
    given = {
        name: Type(each.dtype, each.shape)
        for name, each in zip(proto.input, inputs, strict=True)
        if each is not None
    }
    return {**context.declared, **given}


def _subgraph(
    context: _Context,
    scope: Scope,
    opsets: Mapping[str, int],
    given: set[int],
    proto: onnx.NodeProto,
    following: Following,
    graph: onnx.GraphProto,
    arguments: Sequence[Value],
    builder: Builder,
) -> list[Value]:
    """The outputs of a subgraph of a node for values instead of its inputs.

    It sees what is outside; ``following`` is what comes after the node. The positions of sequences
    among the outputs are added to ``given``.
    """
    context.nodes_in_subgraphs += _SUBGRAPH + len(graph.node)
    if context.nodes_in_subgraphs > _MOST_NODES:
        reason = f"its subgraphs become more than {_MOST_NODES} nodes with those of others"
        raise Unconvertible(reason, "use fewer loops inside of loops")
    inner: Scope = ChainMap({}, scope)
    outside, context.sequences = context.sequences, ChainMap({}, context.sequences)
    known: dict[str, Type] = {}
    for value, argument in zip(graph.input, arguments, strict=True):
        _keep(context, inner, value.name, argument)
        if isinstance(argument, Tensor):
            known[value.name] = Type(argument.dtype, argument.shape)
    context.declared = backward(graph.node, {**context.declared, **declared(graph), **known})
    before = len(context.problems)
    around = accepts_outputs(proto, arguments, following)
    after = Following(graph.output, inner, context.declared, opsets, around)
    try:
        outputs = _run(context, graph, inner, builder, opsets, after)
    finally:
        context.sequences = outside
    given.update(position for position, each in enumerate(outputs) if is_sequence(each))
    problems = context.problems[before:]
    # They are reported with the node, unless it can do without this conversion of the subgraph.
    del context.problems[before:]
    if problems and all(each in context.mismatches for each in problems):
        raise Mismatch(problems)
    if problems or len(outputs) < len(graph.output):
        raise NnefError(problems)
    return outputs
