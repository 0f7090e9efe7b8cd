"""The routes: ways to execute a Graph, each as a function from arrays to arrays.

A runner takes a graph and the arrays of its inputs, and returns those of its outputs and the new
values of the variables that it updates. The walk passes graphs of one node each, and the whole
graph at the end, unchanged, so a runner does not know about comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from tvm_nnef.comparison.differences import Array
from tvm_nnef.comparison.source import Origin, SourceModel
from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.formats.registry import FORMATS
from tvm_nnef.graph.nodes import Graph, Operand, Tensor, tensors

Arrays: TypeAlias = Mapping[Tensor, Array]
Runner: TypeAlias = Callable[[Graph, Arrays], Arrays]


@dataclass(frozen=True, slots=True)
class Setting:
    """The common settings of a comparison: arrays by full name, and the user's lowerings.

    For a route that executes a model as a whole: the graph and its inputs, and the source of a
    converted model. ``program`` is the executable of the whole graph, if it was built before.
    ``locations`` has the origins of tensors by name, if the source has them.
    """

    variables: Mapping[str, Any]
    lowerings: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    graph: Graph | None = None
    inputs: Arrays = field(default_factory=dict)
    source: SourceModel | None = None
    program: Callable[..., Any] | None = None
    locations: Mapping[str, Origin] = field(default_factory=dict)


def runner(route: str, setting: Setting) -> Runner:
    """Return the runner of a route; raise NnefError for an unknown route."""
    if route not in ROUTES:
        hint = did_you_mean(route, ROUTES) or f"one of {', '.join(ROUTES)}"
        raise error(f"there is no route '{route}'", hint=hint)
    return ROUTES[route](setting)


def _reference(setting: Setting, graph: Graph, inputs: Arrays) -> Arrays:
    from tvm_nnef.reference import evaluate

    state: dict[str, Array] = {}
    values = evaluate(graph, _ports(graph, inputs), setting.variables, new_state=state)
    return {**outputs(graph, values), **_updated(graph, state)}


def _compiled(
    route: Literal["mapped", "formula"], setting: Setting, graph: Graph, inputs: Arrays
) -> Arrays:
    if graph is setting.graph and setting.program is not None:
        return outputs(graph, setting.program(*_ports(graph, inputs)))
    from tvm_nnef.compilation.pipeline import build_module
    from tvm_nnef.lower import lower

    module = lower(
        graph,
        machine_types=graph.machine_types,
        variables=setting.variables,
        route=route,
        lowerings=setting.lowerings if route == "mapped" else None,
    )
    executable = build_module(module)
    values = executable(*_ports(graph, inputs))
    return {**outputs(graph, values), **_updated(graph, executable.state)}


def _recorded(route: str, setting: Setting) -> Runner:
    if setting.source is None or setting.graph is None or setting.source.route != route:
        (title,) = (each.title for each in FORMATS if each.route == route)
        hint = f"give the {title} model, as the model or against it: --against FILE"
        raise error(f"the route '{route}' needs the {title} model", hint=hint)
    executed = setting.source.execute(setting.graph, setting.inputs)
    return lambda graph, _: {
        each: executed[each] for each in graph.output_tensors if each in executed
    }


def _ports(graph: Graph, arrays: Arrays) -> list[Any]:
    """Return the value of each input: an array, a list of arrays for a pack, None for null."""

    def value(operand: Operand) -> Any:
        match operand:
            case None:
                return None
            case Tensor():
                return arrays[operand]
            case pack:
                return [arrays[tensor] for tensor in pack]

    return [value(port.operand) for port in graph.inputs]


def outputs(graph: Graph, values: Sequence[Any]) -> Arrays:
    """Return the arrays of a graph's outputs by tensor; a value is a list of arrays for a pack."""
    arrays: dict[Tensor, Array] = {}
    for port, value in zip(graph.outputs, values, strict=True):
        items = value if isinstance(value, list) else [value]
        arrays.update(zip(tensors(port.operand), items, strict=False))
    return arrays


def _updated(graph: Graph, state: Mapping[str, Array]) -> Arrays:
    return {tensor: state[tensor.name] for tensor in graph.variables if tensor.name in state}


RECORDED = tuple(each.route for each in FORMATS if each.route)
"""The routes that execute the model as a whole, and have only the tensors that its source has."""

ROUTES: Mapping[str, Callable[[Setting], Runner]] = {
    "mapped": lambda setting: partial(_compiled, "mapped", setting),
    "formula": lambda setting: partial(_compiled, "formula", setting),
    "reference": lambda setting: partial(_reference, setting),
    **{route: partial(_recorded, route) for route in RECORDED},
}
"""Functions that create the runner of each route. A runner that can only execute the model as a
whole (that of another library, for a converted model) runs it once and answers each graph from the
results.
"""

COMPILED = ("mapped", "formula")
"""The routes whose kernels are fused when a graph is built as a whole."""
