"""Branches as private Relax functions: an ``If`` in, an expression for each result out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax

from tvm_nnef.graph.nodes import (
    If,
    bodies,
    flatten,
    updated_variables,
)
from tvm_nnef.lower.checks import block, runs_pure
from tvm_nnef.lower.naming import identifier
from tvm_nnef.lower.private_functions import (
    ALL_CONSTANT,
    Lowered,
    captured_tensors,
    choice_function,
    items_of,
    parameters_for,
    scalar,
)
from tvm_nnef.lower.symbols import sizes

if TYPE_CHECKING:
    from tvm_nnef.lower.scope import Scope


def lower_if(node: If, walk: Scope) -> Lowered:
    """A call of a function that runs one of two others, those of the branches."""
    results, captured = flatten(node.results), captured_tensors(node)
    updates = updated_variables(*bodies(node))
    pure = runs_pure(node, walk.known)
    known = sizes(walk.known.values())
    arguments = [*map(walk.values.get, captured), *map(walk.values.new, updates), *known]
    name = identifier(f"{node.label}_if")
    branches = []
    for suffix, graph in (("then", node.consequent), ("else", node.alternative)):
        parameters = parameters_for(arguments)
        title = f"{name}_{suffix}"
        with walk.builder.function(title, parameters, ALL_CONSTANT, pure=pure, private=True):
            with block(walk.builder, pure=pure) as emit_output:
                updated = dict(zip(updates, parameters[len(captured) :], strict=False))
                inner = walk.inside(dict(zip(captured, parameters, strict=False)), updated)
                inner.run(graph)
                values = inner.values.outputs(graph, [walk.machine_types[t] for t in results])
                values += map(inner.values.new, updates)
                output = emit_output(relax.Tuple(values))
            branches.append(walk.builder.emit_func_output(output))
    parameters = parameters_for(arguments)
    consequent, alternative = (relax.Call(branch, parameters) for branch in branches)
    choice = choice_function(name, parameters, (consequent, alternative), walk, pure)
    condition = scalar(walk.values.get(node.condition), walk)
    call = relax.Call(choice, [condition, *arguments])
    found = items_of(call, len(results) + len(updates), walk)
    walk.values.updated.update(zip(updates, found[len(results) :], strict=True))
    return dict(zip(results, found, strict=False))
