"""``convert``: an ONNX model, read, converted step by step, named, and put together as a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tvm_nnef.composition import compose_graph
from tvm_nnef.converters.assembly import assemble
from tvm_nnef.converters.onnx import emission
from tvm_nnef.converters.onnx.bounds import Bounds
from tvm_nnef.converters.onnx.conversion import ConvertedGraph, convert_graph
from tvm_nnef.converters.onnx.library import MODULE, module_text
from tvm_nnef.converters.onnx.names import Namer
from tvm_nnef.converters.onnx.naming import (
    give_names,
    machine_types,
    made_names,
    own_operators,
)
from tvm_nnef.converters.onnx.outlining import outlined
from tvm_nnef.converters.onnx.reading import OnnxModel, Source, read
from tvm_nnef.converters.onnx.registry import Custom, standard, with_custom
from tvm_nnef.converters.onnx.tensors import Branch, Loop, Tensor
from tvm_nnef.graph import nodes
from tvm_nnef.graph.nodes import Graph, If, bodies, flatten
from tvm_nnef.graph.nodes import Tensor as GraphTensor
from tvm_nnef.model import Model
from tvm_nnef.semantics.program import MAIN
from tvm_nnef.storage.metadata import Metadata


def convert(
    source: Source,
    *,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    bounds: Bounds = 0,
    converters: Custom | None = None,
    outline: bool = True,
) -> Model:
    """An ONNX model (a path, bytes or a ModelProto; opset 7 and up) as a SkriptND model.

    ``input_shapes`` and ``dtypes`` (NumPy's) settle what the model leaves open, by input. An extent
    that has a name, in the model or in ``input_shapes``, and no number stays open up to its bound:
    ``bounds={"batch": 16}``, or one number for all. A result whose extents data decide has bounds
    by its name, one for all of its dimensions or one for each: ``bounds={"y": (None, 16)}``.
    ``converters`` are a user's own: functions by operator (``"domain::Name"``), or what
    :func:`~tvm_nnef.converters.onnx.operator` marks. Blocks of operations that repeat become
    operators of the model's own, unless ``outline`` is false. The model keeps names, machine types
    and the names in the source (``metadata``).

    Raises NnefError, which lists every node that cannot be converted, why, and what to do.
    """
    model = read(source)
    table = standard() if converters is None else with_custom(converters)
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    named = {name: str(np.dtype(dtype)) for name, dtype in (dtypes or {}).items()}
    graph = convert_graph(model, table, shapes, named, bounds)
    given = model.proto.graph.name or "G"
    name = Namer().name(given.removeprefix(f"{MAIN}.") if model.scope else given)
    if outline:
        graph = outlined(graph)
    return _assembled(model, graph, give_names(graph, name, model.scope), name)


def _assembled(
    model: OnnxModel, graph: ConvertedGraph, variables: list[Tensor], name: str
) -> Model:
    blocks = map(emission.operator_definition, own_operators(graph.steps))
    definition = emission.graph_definition(
        name, graph.inputs, variables, graph.outputs, graph.steps
    )
    invoked = emission.operators(graph.steps)
    brought = {each.partition(".")[2] for each in invoked if each.startswith(f"{MODULE}.")}
    imports = sorted({each.partition(".")[0] for each in invoked})
    main = emission.module(imports, [*blocks, definition])
    modules = {MODULE: module_text(brought)} if brought else {}
    scope = f"{MAIN}.{name}"
    values = {f"{scope}.{tensor.name}": tensor.value for tensor in variables}
    made = assemble(main, modules, values, Metadata(), path=model.path, header=_header(model))
    types = machine_types(graph, variables)
    names = {each.name: each.source for each in (*graph.inputs, *variables) if each.name}
    names |= dict(made_names(graph.steps, graph.steps))
    full = {name: f"{scope}.{name}" for name in names}
    if any(isinstance(step, (Branch, Loop)) for step in graph.steps):
        full |= _inner_names(made, set(types) - set(full))
    metadata = Metadata(
        machine_types={full[each]: dtype for each, dtype in types.items() if each in full},
        source_names={full[name]: source for name, source in names.items() if source},
    )
    return Model(made.program, made.path, values, metadata)


def _inner_names(model: Model, wanted: set[str]) -> dict[str, str]:
    """The full names of tensors inside branches and loops, which composing decides."""
    graph = compose_graph(model.program)
    return {
        tensor.short_name: tensor.name
        for node in _control_flow(graph)
        for tensor in _tensors(node)
        if tensor.short_name in wanted
    }


def _control_flow(graph: Graph) -> Iterator[If | nodes.Loop]:
    for node in graph.operations:
        if isinstance(node, (If, nodes.Loop)):
            yield node
            for body in bodies(node):
                yield from _control_flow(body)


def _tensors(node: If | nodes.Loop) -> Iterator[GraphTensor]:
    """The tensors of a node's bodies, without those inside of operators."""
    if isinstance(node, nodes.Loop):
        yield from node.local
    for body in bodies(node):
        for inner in body.operations:
            yield from flatten(inner.results)


def _header(model: OnnxModel) -> str:
    """Where a model comes from; the same for the same model wherever its file lies."""
    proto = model.proto
    producer = " ".join(filter(None, (proto.producer_name, proto.producer_version)))
    versions = ", ".join(f"{domain or 'ai.onnx'} {v}" for domain, v in model.opsets.items())
    file = "an ONNX model" if model.folder is None else f"'{Path(model.path).name}'"
    origin = f", made by {_line(producer)}" if producer else ""
    return (
        f"Converted from {file} by tvm-nnef {version('tvm-nnef')}.\nONNX opset {versions}{origin}."
    )


def _line(text: str) -> str:
    """A text of the source as one line of a comment."""
    return " ".join(text.split())
