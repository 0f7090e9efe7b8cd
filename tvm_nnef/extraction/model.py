"""A part of a Graph as a model: the program of its text, its variables and its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.extraction.cutting import Part
from tvm_nnef.extraction.writing import written
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.machine_types import DEFAULTS
from tvm_nnef.graph.nodes import (
    Graph,
    Node,
    Operation,
    Tensor,
    bodies,
    flatten,
    operator_name,
)
from tvm_nnef.model.model import Model
from tvm_nnef.model.pickling import program_of, texts_of
from tvm_nnef.semantics.program import MAIN, Program
from tvm_nnef.storage.metadata import Metadata

_OTHER = "its operations would be others"

Composes = Callable[[Model], Graph]
"""Composes the only graph of a model."""


def model_of(part: Part, model: Model, compose: Composes) -> Model:
    """Return a model of a part of a graph of a model.

    Raises NnefError if the part cannot be written so that it has the same operations.
    """
    module = written(part, model.program)
    scope = part.graph.name
    constants = {f"{scope}.{name}": each for name, each in module.variables.items()}
    try:
        program = _program(model, module.text, module.imports)
        first = Model(program, model.path, {}, Metadata())
        pairs = [*_pairs(part, compose(first), constants)]
    except NnefError as problem:
        raise _unwritable(problem.diagnostics[0].message) from problem
    names = {new.name: old for old, new in pairs}
    metadata = _metadata(part, model, names)
    variables = {
        name: _value(old, model.variables)
        for name, old in names.items()
        if old.role in ("variable", "constant") and (old.role == "variable" or name in constants)
    }
    return replace(first, metadata=metadata, variables=variables)


def _unwritable(reason: str) -> NnefError:
    hint = "begin and end elsewhere, or give the shapes of inputs (--shape)"
    return error(f"this part cannot be written as a model: {reason}", hint=hint)


def _program(model: Model, text: str, imports: Any) -> Program:
    """Return the program of a main module with the modules of the model that it needs."""
    texts = texts_of(model.program, Metadata())
    needed, pending = set[str](), [*imports]
    while pending:
        name = pending.pop()
        if name in texts.modules and name not in needed:
            needed.add(name)
            pending += model.program.modules[name].imports
    modules = {name: each for name, each in texts.modules.items() if name in needed}
    path, _ = texts.modules[MAIN]
    return program_of(replace(texts, modules={MAIN: (path, text), **modules}))[0]


def _pairs(
    part: Part, graph: Graph, stored: Mapping[str, Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the tensors of the part and those that they became.

    Raises NnefError if the operations are others.
    """
    inputs = graph.input_tensors
    yield from zip(part.inputs, inputs, strict=True)
    yield from ((stored[each.name], each) for each in graph.variables if each.name in stored)
    if len(part.nodes) != len(graph.operations):
        raise error(_OTHER, hint="begin and end elsewhere")
    for old, new in zip(part.nodes, graph.operations, strict=True):
        yield from _node_pairs(old, new)


def _node_pairs(old: Node, new: Node) -> Iterator[tuple[Tensor, Tensor]]:
    sides = [_own_tensors(old), _own_tensors(new)]
    if operator_name(old) != operator_name(new) or len(sides[0]) != len(sides[1]):
        raise error(_OTHER, hint="begin and end elsewhere")
    for one, other in zip(*sides, strict=True):
        if (one.type, len(one.shape)) != (other.type, len(other.shape)):
            raise error(_OTHER, hint="begin and end elsewhere")
        yield one, other
    for body, other_body in zip(bodies(old), bodies(new), strict=True):
        if len(body.operations) != len(other_body.operations):
            raise error(_OTHER, hint="begin and end elsewhere")
        for inner, other_inner in zip(body.operations, other_body.operations, strict=True):
            yield from _node_pairs(inner, other_inner)


def _own_tensors(node: Node) -> tuple[Tensor, ...]:
    """Return what a node makes, and what an operation reads."""
    if not isinstance(node, Operation):
        return flatten(node.results)
    read = node.body.captures if isinstance(node.body, Formula) else ()
    return (*flatten(node.results), *flatten(node.operands), *read)


def _metadata(part: Part, model: Model, names: Mapping[str, Tensor]) -> Metadata:
    """Return what ``model.json`` says about tensors that the part has, and their dtypes."""
    found, types = model.metadata, part.graph.machine_types
    own = {*part.inputs, *(each for node in part.nodes for each in flatten(node.results))}
    dtypes = {
        name: types[old]
        for name, old in names.items()
        if old in types and (old.name in found.machine_types or types[old] != DEFAULTS[old.type])
        if old in own or old.role == "variable" or old.name in found.machine_types
    }
    outputs = flatten(tuple(port.operand for port in part.graph.outputs[:1]))
    is_classifier = part.outputs[:1] == tuple(map(part.computed, outputs))
    return replace(
        found,
        labels=found.labels if is_classifier else (),
        inputs={
            name.rpartition(".")[2]: found.inputs[old.name.rpartition(".")[2]]
            for name, old in names.items()
            if old.role == "input" and old.name.rpartition(".")[2] in found.inputs
        },
        machine_types=dtypes,
        source_names=_renamed(found.source_names, names),
        source_operations=_renamed(found.source_operations, names),
        defaults=(),
        fixed_inputs=(),
        source=None,
    )


def _renamed(texts: Mapping[str, str], names: Mapping[str, Tensor]) -> dict[str, str]:
    return {name: texts[old.name] for name, old in names.items() if old.name in texts}


def _value(tensor: Tensor, variables: Mapping[str, Any]) -> Any:
    if tensor.role == "variable":
        return variables[tensor.name]
    value = np.asarray(tensor.value, DEFAULTS[tensor.type])
    if isinstance(tensor.value, tuple):
        return value.reshape(tensor.shape)
    return np.full(tensor.shape, value)
