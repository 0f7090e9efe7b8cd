"""Execution of the source of a converted model by its own library, operation by operation.

Input: a model of another format and the names that the conversion kept. Output: arrays by our
tensors, and the operation of the source that computes each. Only tensors that have a name in the
source are known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_nnef.comparison.differences import Array
from tvm_nnef.converters.common.execution import Execution
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.formats.registry import FORMATS, Format, OpenedSource, open_source
from tvm_nnef.graph.nodes import Graph, Tensor, flatten, opened_nodes
from tvm_nnef.model.model import Model


@dataclass(frozen=True, slots=True)
class Origin:
    """The operation of the source that computes a tensor, its operator, and the tensor's name
    there.

    ``what`` is the word for an operation in the source, with its format.
    """

    node: str
    operator: str
    tensor: str
    what: str

    def __str__(self) -> str:
        return f"'{self.tensor}' of {self.what} '{self.node}' ({self.operator})"


@dataclass(frozen=True, slots=True)
class SourceModel:
    """A model of another format; ``names`` maps our names of tensors to its names."""

    execution: Execution = field(repr=False)
    names: Mapping[str, str] = field(repr=False)
    route: str

    def origin(self, tensor: Tensor) -> Origin | None:
        """Return the origin of a tensor; None for one that the source does not have, or reads."""
        name, makers = self.names.get(tensor.name, ""), self.execution.makers
        return Origin(*makers[name], name, self.execution.what) if name in makers else None

    def execute(self, graph: Graph, inputs: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
        """Return the arrays of all results of a graph whose origin is known, and is numeric."""
        results = flatten(tuple(result for node in opened_nodes(graph) for result in node.results))
        origins = {tensor: self.origin(tensor) for tensor in results}
        wanted = {tensor: each.tensor for tensor, each in origins.items() if each is not None}
        named_inputs = {self.names.get(tensor.name, ""): array for tensor, array in inputs.items()}
        executed = self.execution.execute(named_inputs, wanted.values())
        return {tensor: executed[name] for tensor, name in wanted.items() if name in executed}


def source_model(model: Model, against: Any = None) -> SourceModel:
    """Return the source of a converted model: ``against``, else the file that was converted.

    Raises NnefError for a model that was not converted, and for a source that cannot be read.
    """
    names = source_names(model)
    if against is None and not _is_source(model.path):
        hint = "give the model that it was converted from: --against FILE"
        raise error("the route of another library needs the source", hint=hint, file=model.path)
    opened = open_source(model.path if against is None else against)
    execution = executable(opened.format, opened.path).load(opened.format.execution)
    source: Execution = execution.open_execution(opened.source)
    if source.makers and not any(name in source.makers for name in names.values()):
        message = f"no tensor of '{model.path}' has a name in this model"
        hint = f"give the {opened.format.title} model that it was converted from"
        raise error(message, hint=hint, file=source.path)
    return SourceModel(source, names, opened.format.route)


def source_locations(model: Model, opened: OpenedSource | None = None) -> Mapping[str, Origin]:
    """Return the origin of each tensor of a converted model, if its format has files with lines.

    ``opened`` is the source; if it is None, the source is opened from the path of the
    conversion.
    """
    try:
        if opened is None:
            opened = open_source(model.path) if _is_source(model.path) else None
        if opened is None or not opened.format.locations:
            return {}
        module = opened.format.load(opened.format.locations)
        locations: Mapping[str, tuple[str, str]] = module.operation_locations(opened.source)
    except NnefError:
        return {}
    found: dict[str, Origin] = {}
    for ours, name in model.metadata.source_names.items():
        # What a fragment computes is called after the result of the statement that invokes it.
        parts = name.split("/")
        outer = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        statement = next((each for each in outer if each in locations), None)
        if statement is not None:
            found[ours] = Origin(*locations[statement], name, module.WHAT)
    return found


def source_names(model: Model) -> Mapping[str, str]:
    """Return the names in the source by our names.

    Raises NnefError for a model that was not converted.
    """
    if model.metadata.source_names:
        return model.metadata.source_names
    message = "the model was not converted: it knows no names of a source"
    hint = "convert the source with tvm_nnef, and compare what comes of that"
    raise error(message, hint=hint, file=model.path)


def executable(format: Format, path: str) -> Format:
    """Return a format whose models another library executes. Raises NnefError for any other one."""
    if format.route:
        return format
    titles = " or ".join(each.title for each in FORMATS if each.route)
    message = f"no other library executes {format.title} models"
    raise error(message, hint=f"give the {titles} model that it was converted from", file=path)


def _is_source(path: str) -> bool:
    """Whether a path is that of a file or folder of another format."""
    try:
        return Path(path).exists() and open_source(path).format.is_foreign
    except (OSError, ValueError):
        return False
