"""Which types of a node's results suit what comes after the node.

Types in, yes or no out. Nothing is converted here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Type
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.inference import UNKNOWN, by_schema, type_of
from tvm_nnef.converters.onnx.limits import is_short, own_vectors
from tvm_nnef.converters.onnx.values import Value

Accept: TypeAlias = "Callable[[Sequence[Type]], bool]"
"""Whether types of the results of a node, or of the outputs of a graph, are accepted."""


@dataclass(frozen=True, slots=True)
class Following:
    """The nodes of a graph after one, by its ``position``, with what is known of what they read.

    ``around`` says whether what is outside of the graph accepts its outputs.
    """

    outputs: Sequence[onnx.ValueInfoProto]
    scope: Mapping[str, Tensor | None]
    declared: Mapping[str, Type]
    opsets: Mapping[str, int]
    around: Accept
    nodes: Sequence[onnx.NodeProto] = ()
    position: int = -1

    def accepts(self, names: Sequence[str], types: Sequence[Type]) -> bool:
        """Whether results of these types fit all nodes that read them, and the declared outputs."""
        found = dict(zip(names, types, strict=False))
        for node in self.nodes[self.position + 1 :]:
            if any(name in found for name in node.input):
                try:
                    found |= self._results(node, found)
                except Unconvertible:
                    return False
        outputs = [found.get(value.name, UNKNOWN) for value in self.outputs]
        declared = [type_of(value.type) for value in self.outputs]
        return all(map(agree, outputs, declared)) and self.around(outputs)

    def _results(self, node: onnx.NodeProto, found: Mapping[str, Type]) -> dict[str, Type]:
        """The types of the results of a node; none if too little is known of its inputs."""
        inner = any(attribute.HasField("g") for attribute in node.attribute)
        names = [name for name in node.input if name]
        types = {name: found.get(name) or self._known(name) for name in names}
        long = any(not is_short(types[name].shape) for name in own_vectors(node))
        if inner or long or any(each.dtype is None for each in types.values()):
            return {}
        tensors = {name: each for name in names if (each := self.scope.get(name)) is not None}
        return by_schema(node, types, tensors, self.opsets)

    def _known(self, name: str) -> Type:
        tensor = self.scope.get(name)
        return (
            self.declared.get(name, UNKNOWN) if tensor is None else Type(tensor.dtype, tensor.shape)
        )


def agree(one: Type, other: Type) -> bool:
    """Whether two types may be of one rank."""
    return one.shape is None or other.shape is None or len(one.shape) == len(other.shape)


def accepts_outputs(
    node: onnx.NodeProto, arguments: Sequence[Value], following: Following
) -> Accept:
    """Return a test whether the node around a graph, and those after it, accept outputs."""

    def accepted(outputs: Sequence[Type]) -> bool:
        if node.op_type == "If":
            return following.accepts(node.output, outputs)
        if node.op_type != "Loop":
            return True
        carried = [
            Type(each.dtype, each.shape) if isinstance(each, Tensor) else UNKNOWN
            for each in arguments[2:]
        ]
        kept, scanned = outputs[1 : 1 + len(carried)], outputs[1 + len(carried) :]
        stacked = [
            Type(each.dtype, None if each.shape is None else (None, *each.shape))
            for each in scanned
        ]
        return all(map(agree, kept, carried)) and following.accepts(node.output, [*kept, *stacked])

    return accepted
