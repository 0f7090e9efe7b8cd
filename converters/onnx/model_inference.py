"""Types and shapes of the values of a whole model, before any node of it is converted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import shape_inference

from tvm_nnef.converters.onnx.backward import backward
from tvm_nnef.converters.onnx.inference import SMALL, UNKNOWN, declared, spelled, type_of
from tvm_nnef.converters.onnx.limits import has_few_dimensions, is_short, is_within_limits, vectors
from tvm_nnef.converters.onnx.tensors import Tensor
from tvm_nnef.converters.onnx.types import NUMBER_OF, Type


def infer_model(proto: onnx.ModelProto, inputs: Sequence[Tensor]) -> dict[str, Type]:
    """What is declared, what follows forward from the inputs, and backward from the outputs."""
    light = _without_weights(proto)
    by_name = {each.source: each for each in inputs}
    for value in light.graph.input:
        given = by_name.get(value.name)
        if given is not None:
            value.type.CopyFrom(
                onnx.helper.make_tensor_type_proto(NUMBER_OF[given.dtype], spelled(given.shape))
            )
    return backward(proto.graph.node, {**_everywhere(proto.graph), **_inferred(light)})


def _inferred(light: onnx.ModelProto) -> dict[str, Type]:
    """What the inference of ONNX finds out about a model.

    It makes a dimension for each element of a vector that says a shape. So nodes with such vectors
    are shown to it only after the lengths are known and found to be short.
    """
    nodes = [(node, tuple(vectors(node))) for node in _copies(light.graph)]
    known = _constants(light.graph)
    if any(name not in known for _, names in nodes for name in names):
        _keep(light.graph, [node for node, names in nodes if not names])
        known |= _infer(light)
    kept = [
        node
        for node, names in nodes
        if all(is_short(known.get(name, UNKNOWN).shape) for name in names)
    ]
    _keep(light.graph, kept)
    return _infer(light)


def _copies(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Copies of the nodes that are within the limits."""
    found = []
    for node in filter(is_within_limits, graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        found.append(copy)
    return found


def _keep(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)


def _infer(light: onnx.ModelProto) -> dict[str, Type]:
    # Not with data_prop, which makes a dimension for each element of any vector that it meets.
    try:
        return _everywhere(shape_inference.infer_shapes(light).graph)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return _everywhere(light.graph)


def _constants(graph: onnx.GraphProto) -> dict[str, Type]:
    """The types of a graph's inputs and constants, and of those of the graphs inside it."""
    found = {value.name: type_of(value.type) for value in graph.input}
    found |= {each.name: Type(None, tuple(each.dims)) for each in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and node.output and attribute.name == "value":
                found[node.output[0]] = Type(None, tuple(attribute.t.dims))
            for inner in (attribute.g, *attribute.graphs):
                found |= _constants(inner)
    return found


def _everywhere(graph: onnx.GraphProto) -> dict[str, Type]:
    """What a graph and the graphs inside it declare."""
    found = declared(graph)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= _everywhere(inner)
    return found


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model with large constants as inputs, whose types are all that the inference needs."""
    light = onnx.ModelProto()
    light.ir_version = proto.ir_version
    light.opset_import.extend(proto.opset_import)
    light.graph.name = proto.graph.name
    light.graph.input.extend(proto.graph.input)
    light.graph.output.extend(filter(has_few_dimensions, proto.graph.output))
    light.graph.value_info.extend(filter(has_few_dimensions, proto.graph.value_info))
    named = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        if _is_small(tensor):
            light.graph.initializer.append(tensor)
        elif tensor.name not in named:
            light.graph.input.append(_declaration(tensor.name, tensor))
    for node in proto.graph.node:
        if node.op_type == "Constant" and len(node.attribute) == len(node.output) == 1:
            tensor = node.attribute[0].t
            if not _is_small(tensor):
                light.graph.input.append(_declaration(node.output[0], tensor))
                continue
        light.graph.node.append(node)
    return light


def _is_small(tensor: onnx.TensorProto) -> bool:
    return int(np.prod(tensor.dims, dtype=np.int64)) <= SMALL and not tensor.external_data


def _declaration(name: str, tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
