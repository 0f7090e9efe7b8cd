"""The inputs of an ONNX model as tensors, with types and shapes from the model and the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx

from tvm_nnef.converters.common.bounds import Bounds, check_bounds
from tvm_nnef.converters.common.inputs import input_tensors
from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.inference import type_of
from tvm_nnef.converters.onnx.inner_graphs import inner_graphs
from tvm_nnef.converters.onnx.reading import OnnxModel
from tvm_nnef.converters.onnx.types import NUMBER_OF, dimension_name, type_name
from tvm_nnef.diagnostics import Diagnostic


def graph_inputs(
    model: OnnxModel,
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
) -> tuple[list[Tensor], dict[str, Symbolic]]:
    """A tensor for each input that is not an initializer, and the dynamic dimensions, by name.

    Raises NnefError, which lists all inputs that stay unknown.
    """
    graph = model.proto.graph
    named = (each for shape in shapes.values() for each in shape if isinstance(each, str))
    check_bounds(bounds, {*bounded_names(graph), *named}, list(_dynamic_dimensions(graph)))
    constants = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in constants]
    problems = {value.name: _without_dtype(value, model.path) for value in values}
    return input_tensors(
        {value.name: type_of(value.type) for value in values},
        shapes,
        dtypes,
        bounds,
        model.path,
        problems={name: each for name, each in problems.items() if each is not None},
        others={value.name for value in graph.input},
    )


def _without_dtype(value: onnx.ValueInfoProto, path: str) -> Diagnostic | None:
    """Why nothing can be made of an input, None for a tensor of a supported element type."""
    form = value.type.WhichOneof("value") or "nothing"
    if form != "tensor_type":
        message = f"input '{value.name}' is of kind {form}; only tensors can be converted"
        hint = "give the tensors that it holds as their own inputs, and join them in the model"
        return Diagnostic(message, hint=hint, file=path)
    if type_of(value.type).dtype is not None:
        return None
    name = type_name(value.type.tensor_type.elem_type)
    message = f"input '{value.name}' has elements of type {name}, which cannot be converted"
    hint = (
        "encode texts as integers before the model"
        if name == "string"
        else f"types that can be: {', '.join(sorted(NUMBER_OF))}"
    )
    return Diagnostic(message, hint=hint, file=path)


def _dynamic_dimensions(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of the dynamic dimensions of inputs."""
    for value in graph.input:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if not size.HasField("dim_value"):
                yield dimension_name(size) or f"{value.name}_{axis}"


def bounded_names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of inputs, of their dimensions, and of the results of nodes, inner ones too."""
    for value in graph.input:
        yield value.name
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            yield dimension_name(size) or f"{value.name}_{axis}"
    for node in graph.node:
        yield from node.output
        for inner in inner_graphs(node):
            yield from bounded_names(inner)
