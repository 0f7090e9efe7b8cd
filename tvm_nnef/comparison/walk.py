"""The comparison of a Graph, node by node in order, until one differs.

Input: a Graph with dtypes, arrays of its inputs, the runners of two routes. Output: a
:class:`Report`. Nodes are executed by ``comparison/routes.py``; whether two arrays agree is decided
in ``comparison/differences.py``.

Each node is executed as a separate graph. Unless ``chained``, the second route gets the operands
that the first has computed, or, if one route executes the model as a whole, those of that route. So
a difference is the fault of the node where it appears, and not of an earlier one: rounding cannot
accumulate from one node to the next, nor grow at a threshold, and the tolerance is that of a single
operation.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tvm_nnef.comparison.differences import Array, difference
from tvm_nnef.comparison.program import given, program_rows
from tvm_nnef.comparison.ranges import widths_of_ranges
from tvm_nnef.comparison.report import Report, Row
from tvm_nnef.comparison.routes import COMPILED, RECORDED, ROUTES, Arrays, Runner, Setting, runner
from tvm_nnef.comparison.source import Origin, SourceModel
from tvm_nnef.diagnostics import NnefError, Note, error
from tvm_nnef.graph.checks import check_known
from tvm_nnef.graph.excerpt import excerpt
from tvm_nnef.graph.nodes import (
    Check,
    Graph,
    Node,
    Operation,
    Port,
    Tensor,
    flatten,
    opened_nodes,
    operator_name,
    part_of_graph,
)
from tvm_nnef.support.progress import Report as Progress
from tvm_nnef.support.progress import silent
from tvm_nnef.symbolic import trees


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The common state of all levels of one comparison.

    ``symbols`` has the values of the dimensions known so far in the run, by name, and ``carriers``
    a tensor for each: a node may need a dimension that none of its operands has. ``pending`` are
    the graph's checks that wait for others. ``parts`` are the nodes that computed a tensor which
    the source of a converted model does not have. Operators that are ``lowered`` by functions of
    the user are not opened. ``widths`` are those of the ranges of tensors that bounded functions
    compute.
    """

    graph: Graph
    routes: tuple[str, str]
    runners: tuple[Runner, Runner]
    rtol: float | None
    atol: float | None
    source: SourceModel | None = None
    parts: dict[Tensor, tuple[Node, ...]] = field(default_factory=dict)
    carriers: dict[str, Tensor] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    pending: list[Check] = field(default_factory=list)
    lowered: Collection[str] = ()
    locations: Mapping[str, Origin] = field(default_factory=dict)
    widths: Mapping[Tensor, float] = field(default_factory=dict)

    def row(self, tensor: Tensor, node: Node, arrays: Sequence[Array], depth: int) -> Row:
        """Return the comparison of a tensor of a node."""
        first, second = arrays
        width = self.widths.get(tensor, 0.0)
        apart = difference(first, second, self.rtol, self.atol, width=width)
        origin = self.origin(tensor)
        parts = () if origin is None else self._parts(node)
        return Row(tensor, node, apart, self.routes, depth, origin, parts)

    @property
    def lead(self) -> int:
        """The index of the route whose tensors are the operands.

        It is the second one if only that one executes the model as a whole.
        """
        return int(self.routes[0] not in RECORDED and self.routes[1] in RECORDED)

    @property
    def recorded(self) -> bool:
        """Whether a route has only the tensors of the source."""
        return any(route in RECORDED for route in self.routes)

    def note_parts(self, node: Node) -> None:
        """Record the node as a part of later nodes that read results which the source does not
        have.
        """
        if self.recorded:
            whole = (*self._parts(node), node)
            unknown = (each for each in flatten(node.results) if self.origin(each) is None)
            self.parts.update((each, whole) for each in unknown)

    def _parts(self, node: Node) -> tuple[Node, ...]:
        parts_of_operands = (
            part for each in flatten(node.operands) for part in self.parts.get(each, ())
        )
        return tuple(dict.fromkeys(parts_of_operands))

    def origin(self, tensor: Tensor) -> Origin | None:
        """Return the operation of the source that computes a tensor, if known."""
        if self.source and self.recorded:
            return self.source.origin(tensor)
        return self.locations.get(tensor.name)

    def define(self, arrays: Arrays) -> None:
        """Record dimensions from arrays, and evaluate the checks that waited for them."""
        for tensor, array in arrays.items():
            for extent, value in zip(tensor.shape, array.shape, strict=True):
                name = trees.tree(extent)
                if isinstance(name, str):
                    self.symbols.setdefault(name, value)
                    self.carriers.setdefault(name, tensor)
        check_known(self.pending, self.symbols)


def compare_routes(
    graph: Graph,
    inputs: Arrays,
    setting: Setting,
    *,
    routes: Sequence[str],
    rtol: float | None = None,
    atol: float | None = None,
    chained: bool = False,
    progress: Progress = silent,
) -> Report:
    """Return the report on two routes through a graph; it ends with the first tensor that differs.

    ``inputs`` are the arrays of the graph's input tensors. If a composition differs, its operations
    are compared in turn, so that the innermost one is named. If all agree, the program of each
    compiled route is run as ``build`` makes it, with its operations fused and no inner tensor
    observed, and its outputs are compared (:func:`_program_rows`).

    Raises NnefError for an unknown route, for anything that a route cannot execute, and if a check
    of the model fails.
    """
    if len(routes) != 2:
        hint = f"give two of {', '.join(ROUTES)}"
        raise error(f"two routes are compared, but {len(routes)} are given", hint=hint)
    first, second = routes
    runners = (runner(first, setting), runner(second, setting))
    pending = list(graph.checks)
    walk = _Comparison(
        graph, (first, second), runners, rtol, atol, setting.source,
        pending=pending, lowered=setting.lowerings, locations=setting.locations,
        widths=widths_of_ranges(graph),
    )  # fmt: skip
    walk.define(inputs)
    values = [dict(inputs), dict(inputs)] if chained else [dict(inputs)]
    rows = list(_level(walk, graph, values, progress))
    program: list[Row] = []
    if all(row.agrees for row in rows):
        for number, route in enumerate(walk.routes):
            if route in COMPILED:
                program += _program_rows(walk, number, inputs, values)
    nodes = opened_nodes(graph, setting.lowerings)
    results = flatten(tuple(result for node in nodes for result in node.results))
    count = sum(not walk.recorded or walk.origin(each) is not None for each in results)
    lead = walk.routes[walk.lead]
    return Report(graph.name, walk.routes, chained, count, tuple(rows), tuple(program), lead)


def _level(
    walk: _Comparison,
    level: Graph,
    values: Sequence[dict[Tensor, Array]],
    progress: Progress = silent,
    depth: int = 0,
    keep: Collection[Tensor] = (),
) -> Generator[Row, None, bool]:
    """Yield the rows of the nodes of a graph, up to the first that differs and those inside of it.

    ``values`` are arrays by tensor, and grow: those of the first route, and of the second if it has
    separate operands. Those of ``keep`` stay there, others until they have been read. Return
    whether all rows agree.
    """
    last = _last_use(level)
    for position, node in enumerate(level.operations):
        name = node.label or operator_name(node)
        progress(f"comparing {name}", position, len(level.operations))
        body = part_of_graph(node, walk.lowered)
        if body is None:
            agree = yield from _node(walk, level, node, values, depth)
        else:
            operands = {*keep, *flatten(node.operands)}
            agree = yield from _level(walk, body, values, depth=depth, keep=operands)
            _take_over(walk, node, body, values)
        if not agree:
            return False
        for arrays in values:
            for tensor in (*flatten(node.operands), *flatten(node.results)):
                carries = tensor in walk.carriers.values() or tensor in keep
                if last.get(tensor, -1) <= position and not carries:
                    arrays.pop(tensor, None)
    return True


def _node(
    walk: _Comparison, level: Graph, node: Node, values: Sequence[dict[Tensor, Array]], depth: int
) -> Generator[Row, None, bool]:
    """Yield the rows of a node, and those inside of it if it differs."""
    single = _single(walk, level, node)
    operands = (values[0], values[-1])
    found = [_run(walk, number, single, arrays) for number, arrays in enumerate(operands)]
    shared = [tensor for tensor in found[0] if tensor in found[1]]
    rows = [walk.row(tensor, node, [each[tensor] for each in found], depth) for tensor in shared]
    yield from rows
    if not all(row.agrees for row in rows):
        if isinstance(node, Operation) and isinstance(node.body, Graph) and not walk.recorded:
            yield from _level(walk, node.body, values, depth=depth + 1)
        return False
    walk.note_parts(node)
    results = flatten(node.results)
    # Arrays that one route does not have are taken from the other.
    known = {**found[1 - walk.lead], **found[walk.lead]}
    walk.define({tensor: known[tensor] for tensor in results})
    computed = [known] if len(values) == 1 else found
    for arrays, each in zip(values, computed, strict=True):
        arrays.update(each)
    return True


def _take_over(
    walk: _Comparison, node: Node, body: Graph, values: Sequence[dict[Tensor, Array]]
) -> None:
    """Set the results of a part of the graph to the arrays that its nodes have computed."""
    outputs = body.output_tensors
    pairs = list(zip(flatten(node.results), outputs, strict=True))
    walk.parts.update(
        (result, walk.parts[output]) for result, output in pairs if output in walk.parts
    )
    for arrays in values:
        for result, output in pairs:
            if output in arrays:
                arrays[result] = arrays[output].astype(walk.graph.machine_types[result], copy=False)


def _last_use(level: Graph) -> dict[Tensor, int]:
    """Return the index of the last node that reads each tensor; after all nodes for results."""
    last = {
        tensor: position
        for position, node in enumerate(level.operations)
        for tensor in flatten(node.operands)
    }
    return {**last, **dict.fromkeys(given(level), len(level.operations))}


def _single(walk: _Comparison, level: Graph, node: Node) -> Graph:
    """Return a graph of one node: its operands are the inputs, its results the outputs."""
    read = (t for t in flatten(node.operands) if t.role not in ("variable", "constant"))
    inputs = _ports(dict.fromkeys((*read, *walk.carriers.values())))
    return excerpt(walk.graph, [node], inputs, _ports(flatten(node.results)), level.constants)


def _ports(tensors: Iterable[Tensor]) -> tuple[Port, ...]:
    return tuple(Port(tensor.short_name, tensor) for tensor in tensors)


def _run(walk: _Comparison, number: int, graph: Graph, values: Arrays) -> Arrays:
    try:
        return walk.runners[number](graph, values)
    except NnefError as problem:
        raise problem.with_note(Note(f"on route '{walk.routes[number]}'")) from None


def _program_rows(
    walk: _Comparison, number: int, inputs: Arrays, values: Sequence[dict[Tensor, Array]]
) -> list[Row]:
    """Return the rows for the outputs of the program of a compiled route, as ``build`` makes it.

    They are compared with the results of the leading route operation by operation. If that is
    another route they may differ although both are right, since rounding grows at a threshold. Then
    they are compared with the results of the same route operation by operation.
    """
    route, lead = walk.routes[number], walk.routes[walk.lead]
    program_outputs = _run(walk, number, walk.graph, inputs)
    program = f"{route} as a whole"
    if len(values) == 1 and route != lead:
        rows = program_rows(
            walk.graph, values[0], program_outputs, (lead, program), walk.rtol, walk.atol
        )
        if all(row.agrees for row in rows):
            return rows
        own = _operation_by_operation(walk, number, inputs)
    else:
        own = values[min(number, len(values) - 1)]
    sides = (f"{route} operation by operation", program)
    return program_rows(walk.graph, own, program_outputs, sides, walk.rtol, walk.atol)


def _operation_by_operation(walk: _Comparison, number: int, inputs: Arrays) -> dict[Tensor, Array]:
    """Return the tensors of a graph that one route computes from its own operands."""
    route, run = walk.routes[number], walk.runners[number]
    alone = _Comparison(
        walk.graph, (route, route), (run, lambda graph, _: {}), walk.rtol, walk.atol,
        pending=list(walk.graph.checks), lowered=walk.lowered,
    )  # fmt: skip
    alone.define(inputs)
    values = dict(inputs)
    for _ in _level(alone, walk.graph, [values]):
        pass
    return values
