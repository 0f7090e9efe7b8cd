"""Programs of PyTorch that its exporter to ONNX changes the meaning of, made so that it does not.

A program that changes buffers has their new values as further results. The exporter leaves these
out, and writes the buffers as constants. It also leaves out the conversions that it puts after
results, and computes batch norms of training as those of evaluation.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from tvm_nnef.converters.onnx.state import State

_CHANGES = ("BUFFER_MUTATION", "PARAMETER_MUTATION")
"""The kinds of results that are new values of buffers, as PyTorch calls them."""


def corrected(program: Any) -> tuple[Any, list[str]] | None:
    """A program that is exported with all of its meaning, None if the given one was.

    The given program is one that was exported; it cannot be used any more. The new one returns,
    after its results, the new values of buffers, whose names are given as well.
    """
    output = program.graph.output_node()
    results = list(zip(output.args[0], program.graph_signature.output_specs, strict=True))
    state = [each for each in results if each[1].kind.name in _CHANGES]
    others = [each for each in results if each[1].kind.name not in _CHANGES]
    operators = _training_operators(program)
    if not (state or operators or any(_named(spec, node) != spec for node, spec in results)):
        return None
    output.args = (tuple(node for node, _ in (*others, *state)),)
    program.graph_module.recompile()
    result = importlib.import_module("torch.export.graph_signature").OutputKind.USER_OUTPUT
    specs = [_named(spec, node) for node, spec in others]
    specs += [dataclasses.replace(_named(s, node), kind=result, target=None) for node, s in state]
    made = type(program)(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=dataclasses.replace(program.graph_signature, output_specs=specs),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=_with_results(program.module_call_graph, len(state)),
        example_inputs=program.example_inputs,
        constants=program.constants,
    )
    if operators:
        forget_pending_sizes(made)
        made = made.run_decompositions(
            importlib.import_module("torch._decomp").get_decompositions(operators)
        )
    forget_pending_sizes(made)
    return made, [spec.target for _, spec in state]


def _training_operators(program: Any) -> set[Any]:
    """The operators of batch norms that use the statistics of their inputs and change buffers."""
    return {
        node.target
        for module in program.graph_module.modules()
        for node in module.graph.nodes
        if "batch_norm" in str(node.target) and str(node.target).endswith("functional.default")
    }


def _named(spec: Any, node: Any) -> Any:
    """The description of a result that names the tensor which is the result."""
    is_node = hasattr(node, "name")
    arg = dataclasses.replace(spec.arg, name=node.name) if is_node else spec.arg
    return dataclasses.replace(spec, arg=arg)


def _with_results(calls: Iterable[Any], count: int) -> list[Any]:
    """The signatures of the modules; that of the whole program, the first, has more results."""
    trees = importlib.import_module("torch.utils._pytree")
    (whole, *inner) = calls
    shape = whole.signature.out_spec
    results = trees.tree_unflatten([0] * shape.num_leaves, shape)
    # The tensors of the results are in the signature of the graph; names here could become stale.
    signature = dataclasses.replace(
        whole.signature, outputs=[], out_spec=trees.tree_structure((results, [0] * count))
    )
    return [dataclasses.replace(whole, signature=signature), *inner]


def with_buffers_as_inputs(graph: Any, program: Any, names: Sequence[str]) -> list[State]:
    """The buffers of a graph, which become inputs of it; its last outputs are their new values."""
    ir = importlib.import_module("onnxscript.ir")
    values = {**program.state_dict, **program.constants}
    for position, name in enumerate(names, len(graph.outputs) - len(names)):
        new = graph.outputs[position]
        # What is both an input and an output, or two outputs, would get other names.
        copy = ir.node("Identity", [new])
        copy.outputs[0].name = f"{name}.new"
        graph.append(copy)
        graph.outputs[position] = copy.outputs[0]
        buffer = graph.initializers.pop(name, None)  # the exporter drops what nothing reads
        if buffer is None:
            buffer = ir.Input(name, shape=new.shape, type=new.type)
        buffer.const_value = None
        graph.inputs.append(buffer)
    return [State(name, ir.tensor(values[name].detach().clone()).numpy()) for name in names]


def forget_pending_sizes(program: Any) -> None:
    """Makes a program exportable that was exported before.

    In PyTorch 2.13, data-dependent sizes of one export stay in a list, and the next export, which
    does not find them in its graph, fails.
    """
    for node in program.graph.nodes:
        sizes = getattr(getattr(node.meta.get("val"), "fake_mode", None), "shape_env", None)
        getattr(sizes, "pending_fresh_unbacked_symbols", []).clear()
