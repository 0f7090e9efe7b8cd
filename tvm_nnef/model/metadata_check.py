"""Compares ``model.json`` with the graph that it describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_nnef.diagnostics import Diagnostic, did_you_mean
from tvm_nnef.graph.machine_types import wrong_names
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.storage.metadata import Metadata
from tvm_nnef.symbolic import trees


def check_metadata(graph: Graph, metadata: Metadata) -> list[Diagnostic]:
    """Return the entries of ``model.json`` about inputs, outputs and tensors that do not fit."""
    found = [
        *_wrong_inputs(graph, metadata),
        *_wrong_labels(graph, metadata),
        *(
            replace(problem, span=metadata.span("machine_types", name))
            for name, problem in wrong_names(graph, metadata.machine_types)
        ),
    ]
    return sorted(found, key=lambda each: each.span.start if each.span else 0)


def _wrong_inputs(graph: Graph, metadata: Metadata) -> Iterator[Diagnostic]:
    names = [port.name for port in graph.inputs]
    known = set(names)
    for name in metadata.inputs:
        if name not in known:
            hint = did_you_mean(name, names) or f"its inputs are: {', '.join(names)}"
            message = f"graph '{graph.name}' has no input '{name}'"
            yield Diagnostic(message, metadata.span("inputs", name), hint)


def _wrong_labels(graph: Graph, metadata: Metadata) -> Iterator[Diagnostic]:
    labels = metadata.labels
    output = graph.outputs[0].operand if graph.outputs else None
    if not labels or not isinstance(output, Tensor) or output.type == "int":
        return  # integers are scores, or indices of classes
    classes = output.shape[-1] if output.shape else 1
    if isinstance(classes, int) and classes != len(labels):
        yield Diagnostic(
            f"{len(labels)} labels, but output '{graph.outputs[0].name}' of shape "
            f"[{', '.join(map(trees.text, output.shape))}] has {classes} classes",
            metadata.span("labels"),
            "give one label for each index of the last dimension",
        )
