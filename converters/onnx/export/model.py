"""``export``: a composed Graph and its variables to an ONNX model.

Each operation becomes what the table says; where it has no entry or declines, a composite is
opened, and a formula is written out. Nothing is computed, and nothing is written to disk.

ONNX does not say what becomes of NaN where elements are ordered (minima, maxima, the largest k,
boxes by score), nor which of several updates of one element counts; there the runtime decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import onnx

from tvm_nnef.arguments.inputs import bind_variables
from tvm_nnef.converters.onnx.export.context import Context, value_info
from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.converters.onnx.export.pruning import pruned
from tvm_nnef.converters.onnx.export.walk import walk
from tvm_nnef.converters.onnx.export.writing import Exported
from tvm_nnef.converters.onnx.reading import PRODUCER
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, Port, Tensor, tensors, updated_variables
from tvm_nnef.version import __version__

OPSET = 21
"""The version of ONNX's operators: the newest of which a runtime of 2024 knows all."""

IR_VERSION = 10
"""The version of the file format of that opset."""

_LATER = frozenset(("int2", "uint2", "float4_e2m1fn", "float8_e8m0fnu"))
"""The dtypes that no operator of that opset takes."""

STATE_KEY = "nnef.state"
"""Metadata of a model with state: JSON, from the name of each input to that of its output."""


def export(graph: Graph, variables: Mapping[str, Any]) -> onnx.ModelProto:
    """A graph with its variables as an ONNX model; all is as :func:`exported` has it."""
    return exported(graph, variables).filled()


def exported(graph: Graph, variables: Mapping[str, Any]) -> Exported:
    """A graph with its variables (full name to array) as an ONNX model of opset 21.

    The elements of the variables stay where they are, so that they need not be copied.

    Inputs and outputs keep their names, the items of a pack get theirs with a number
    (``xs:1``), variables are initializers under their full names, symbols are ``dim_param``.
    Values have the dtypes of the graph; what is computed in a wider type (float16, int8 …,
    design law 11) is cast and cast back. A variable that the graph updates is an input with the
    old value, which has the initial one as a default, and its new value is a further output with
    ``.updated`` after the name; ``metadata_props`` pairs them. An input with a default is an
    initializer, too. Checks of dimensions, which ONNX
    cannot say, are left out.

    Raises NnefError, which lists every operation that cannot be exported, with its location and the
    reason; and for variables that are missing or do not fit.
    """
    types = graph.machine_types or assign(graph)
    if late := _LATER.intersection(types.values()):
        message = f"ONNX has elements of type {', '.join(sorted(late))} only after opset {OPSET}"
        raise error(message, hint="compose it with wider dtypes for them, as int8")
    state = updated_variables(graph)
    stored = (*graph.variables, *graph.defaults)
    arrays = bind_variables(replace(graph, variables=stored), variables, types)
    context = Context(types, arrays, frozenset(state), graph.bounds)
    emitter = Emitter(context.shared)
    context.shared.names.avoid(*(tensor.name for tensor in graph.variables))
    inputs = [
        _input(context, emitter, tensor, name)
        for port in graph.inputs
        for tensor, name in _named(port)
    ]
    for tensor in graph.defaults:
        context.store(emitter.values[tensor], tensor, arrays[tensor])
    inputs += [value_info(context.variable(each), types[each], each.shape) for each in state]
    wanted = [
        (tensor, context.shared.names.name(name))
        for port in graph.outputs
        for tensor, name in _named(port)
    ]
    updates = {
        variable.name: context.shared.names.name(f"{variable.name}.updated") for variable in state
    }
    for tensor, name in wanted:
        context.ports.setdefault(tensor, name)
    walk(graph, emitter, context)
    outputs = [
        _output(context, emitter, tensor, context.value(emitter, tensor), name)
        for tensor, name in wanted
    ]
    outputs += [
        _output(context, emitter, each, context.new_value(emitter, each), updates[each.name])
        for each in state
    ]
    if context.problems:
        # The condition of a loop is walked twice.
        raise NnefError(dict.fromkeys(context.problems))
    return _model(graph.name, emitter, inputs, outputs, updates)


def _named(port: Port) -> list[tuple[Tensor, str]]:
    """The tensors of a port and the names of their values."""
    if isinstance(port.operand, tuple):
        return [(each, f"{port.name}:{number}") for number, each in enumerate(port.operand, 1)]
    return [(each, port.name) for each in tensors(port.operand)]


def _input(context: Context, emitter: Emitter, tensor: Tensor, name: str) -> onnx.ValueInfoProto:
    given = context.shared.names.name(name)
    emitter.values[tensor] = given
    emitter.define(given, tensor.shape)
    return value_info(given, context.types[tensor], tensor.shape)


def _output(
    context: Context, emitter: Emitter, tensor: Tensor, value: str, name: str
) -> onnx.ValueInfoProto:
    """The declaration of an output, which its own node makes where no other did."""
    if value != name:
        emitter.nodes.append(onnx.helper.make_node("Identity", [value], [name]))
    return value_info(name, context.types[tensor], tensor.shape)


def _model(
    name: str,
    emitter: Emitter,
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    updates: Mapping[str, str],
) -> Exported:
    nodes, read = pruned(emitter.nodes, {output.name for output in outputs})
    kept = read | {port.name for port in (*inputs, *outputs)}
    initializers = [each for each in emitter.shared.initializers.values() if each.name in kept]
    graph = onnx.helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name=PRODUCER,
        producer_version=__version__,
    )
    if updates:
        onnx.helper.set_model_props(model, {STATE_KEY: json.dumps(dict(sorted(updates.items())))})
    arrays = {name: each for name, each in emitter.shared.arrays.items() if name in kept}
    return Exported(model, arrays)
