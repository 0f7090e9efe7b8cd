"""Types and shapes of the values of a whole model, before any node of it is converted."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import shape_inference

from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Type
from tvm_nnef.converters.onnx.backward import backward
from tvm_nnef.converters.onnx.inference import SMALL, UNKNOWN, declared, spelled, type_of
from tvm_nnef.converters.onnx.inner_graphs import inner_graphs, names_defined
from tvm_nnef.converters.onnx.limits import (
    has_few_dimensions,
    is_short,
    is_within_limits,
    own_vectors,
    vectors,
)
from tvm_nnef.converters.onnx.types import NUMBER_OF


def infer_model(proto: onnx.ModelProto, inputs: Sequence[Tensor]) -> dict[str, Type]:
    """Return the types that are declared, or inferred from inputs and from outputs."""
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
    """Return the types that the inference of ONNX finds in a model.

    It makes a dimension for each element of a vector that says a shape. So nodes with such vectors,
    in the graphs inside nodes too, are shown to it only after the lengths are known and found to be
    short.
    """
    nodes = _copies(light.graph)
    known, unique = _constants(light.graph)
    names = {name for node in nodes for name in vectors(node)}
    if any(known.get(name, UNKNOWN).shape is None for name in names):
        _keep(light.graph, nodes)
        _prune(light.graph, known)
        found = _infer(light)
        known |= {name: found[name] for name in unique & found.keys()}
    _keep(light.graph, nodes)
    _prune(light.graph, known)
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


def _prune(graph: onnx.GraphProto, known: Mapping[str, Type]) -> None:
    """Removes the nodes with a vector not known to be short, in the graphs inside nodes too."""
    kept = [
        node
        for node in graph.node
        if all(is_short(known.get(name, UNKNOWN).shape) for name in own_vectors(node))
    ]
    _keep(graph, kept)
    for node in graph.node:
        for inner in inner_graphs(node):
            if inner.node:
                _prune(inner, known)


def _infer(light: onnx.ModelProto) -> dict[str, Type]:
    _lend_constants(light.graph, ChainMap())
    # Not with data_prop, which makes a dimension for each element of any vector that it meets.
    try:
        return _everywhere(shape_inference.infer_shapes(light).graph)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return _everywhere(light.graph)


def _lend_constants(graph: onnx.GraphProto, around: ChainMap[str, onnx.TensorProto | None]) -> None:
    """Copies small constants into the graphs inside nodes that read them.

    The inference of ONNX uses no values of constants outside of the graph that it is in.
    """
    constants = {each.name: each for each in _small_constants(graph)}
    visible = around.new_child({**dict.fromkeys(names_defined(graph)), **constants})
    for node in graph.node:
        for inner in inner_graphs(node):
            read = {name for each in inner.node for name in each.input} - names_defined(inner)
            lent = (visible.get(name) for name in sorted(read))
            inner.initializer.extend(each for each in lent if each is not None)
            _lend_constants(inner, visible)


def _small_constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The initializers and the tensors of Constant nodes of a graph, if they are small."""
    yield from filter(_is_small, graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant" and len(node.output) == 1:
            for attribute in node.attribute:
                if attribute.name == "value" and _is_small(attribute.t):
                    tensor = onnx.TensorProto()
                    tensor.CopyFrom(attribute.t)
                    tensor.name = node.output[0]
                    yield tensor


def _constants(graph: onnx.GraphProto) -> tuple[dict[str, Type], set[str]]:
    """The types of inputs and constants, inner graphs included, and the names defined only once.

    Where a name is defined again, all that it stands for must be constant, and the longest counts;
    else nothing is known of it.
    """
    known: dict[str, Type] = {}
    unique: set[str] = set()
    for name, each in _definitions(graph):
        if name not in known:
            unique.add(name)
            known[name] = each
            continue
        unique.discard(name)
        shapes = known[name].shape, each.shape
        if None in shapes:
            known[name] = UNKNOWN
        elif is_short(shapes[0]):
            known[name] = each
    return known, unique


def _definitions(graph: onnx.GraphProto) -> Iterator[tuple[str, Type]]:
    """Yield the names that a graph and its inner ones define, with known types."""
    found = {value.name: type_of(value.type) for value in graph.input}
    found |= {each.values.name: UNKNOWN for each in graph.sparse_initializer}
    found |= {each.name: Type(None, tuple(each.dims)) for each in graph.initializer}
    yield from found.items()
    for node in graph.node:
        constant = UNKNOWN
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                constant = Type(None, tuple(attribute.t.dims))
        for inner in inner_graphs(node):
            yield from _definitions(inner)
        yield from ((name, constant) for name in node.output if name)


def _everywhere(graph: onnx.GraphProto) -> dict[str, Type]:
    """Return the types that a graph and the graphs inside it declare, by name."""
    found = declared(graph)
    for node in graph.node:
        for inner in inner_graphs(node):
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
