"""What a converted model was converted from: it runs in its own library, and knows its own nodes.

Enters: an ONNX model, and the names that the conversion kept. Leaves: arrays by tensor of ours, and
where each comes from. Only tensors that bear a name of the source are known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_nnef.comparison.differences import Array
from tvm_nnef.converters.loading import converter
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Graph, Tensor, flatten, opened_nodes
from tvm_nnef.model import Model


@dataclass(frozen=True, slots=True)
class Origin:
    """The node of the source that gives a tensor, its operator, and the tensor's name there."""

    node: str
    operator: str
    tensor: str

    def __str__(self) -> str:
        return f"'{self.tensor}' of ONNX node '{self.node}' ({self.operator})"


@dataclass(frozen=True, slots=True)
class SourceModel:
    """An ONNX model; ``names`` are its names for tensors by ours."""

    model: Any = field(repr=False)
    names: Mapping[str, str] = field(repr=False)
    makers: Mapping[str, tuple[str, str]] = field(repr=False)

    def origin(self, tensor: Tensor) -> Origin | None:
        """Where a tensor comes from; None for one that the source does not know, or reads."""
        name = self.names.get(tensor.name, "")
        return Origin(*self.makers[name], name) if name in self.makers else None

    def execute(self, graph: Graph, inputs: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
        """The arrays of all results of a graph whose origin is known."""
        execute = converter("onnx.execution").execute
        results = flatten(tuple(result for node in opened_nodes(graph) for result in node.results))
        origins = {tensor: self.origin(tensor) for tensor in results}
        wanted = {tensor: each.tensor for tensor, each in origins.items() if each is not None}
        given = {self.names.get(tensor.name, ""): array for tensor, array in inputs.items()}
        found: Mapping[str, Array] = execute(self.model, given, wanted.values())
        return {tensor: found[name] for tensor, name in wanted.items()}


def source_model(model: Model, against: Any = None) -> SourceModel:
    """The source of a converted model: ``against``, else the file that was converted.

    Raises NnefError for a model that was not converted, and for a source that cannot be read.
    """
    names = model.metadata.source_names
    if not names:
        message = "the model was not converted: it knows no names of a source"
        hint = "convert the ONNX model with tvm_nnef, and compare what comes of that"
        raise error(message, hint=hint, file=model.path)
    if against is None and not model.path.endswith(".onnx"):
        hint = "give the ONNX model that it was converted from: --against model.onnx"
        raise error("the route 'onnxruntime' needs the source", hint=hint, file=model.path)
    source = converter("onnx.reading").read(model.path if against is None else against)
    makers = converter("onnx.execution").makers(source)
    if makers and not any(name in makers for name in names.values()):
        message = f"no tensor of '{model.path}' has a name in this model"
        hint = "give the ONNX model that it was converted from"
        raise error(message, hint=hint, file=source.path)
    return SourceModel(source, names, makers)
