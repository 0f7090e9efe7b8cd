"""The Graph: the representation of a composed model that all routes lower or evaluate.

Tensors are compared by identity. An operation's body works on the same tensors as the operation: a
Formula stores into its result tensors; a body Graph has the operand tensors as inputs, and its
outputs correspond to the results, in order (an output may be an input: nothing to compute).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import Note, Span, plural
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.tensor import ScalarType
from tvm_nnef.graph.tensor import Tensor as Tensor
from tvm_nnef.symbolic.dimensions import UNLIMITED, Condition, Dimension

Atom: TypeAlias = "bool | int | float | str"
Attribute: TypeAlias = "Atom | Dimension | tuple[Atom | Dimension, ...] | None"
"""A resolved attribute: an atom, a pack of atoms, or null."""


Operand: TypeAlias = "Tensor | tuple[Tensor, ...] | None"
"""A tensor, a pack of tensors, or null."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a graph, by the name that its author gave.

    ``stacked``: it is a pack of dynamic length, whose items are stacked along the first dimension
    of one tensor. ``attributes`` has, for each dimension of an input, the name of the graph
    attribute that is its size, or None; it is empty if there is no such attribute. ``source`` is
    its name in the model from which this one was converted, if it differs. ``has_default``: a call
    may omit the input; its value is then that of the variable with the input's full name.
    """

    name: str
    operand: Operand
    stacked: bool = False
    attributes: tuple[str | None, ...] = ()
    source: str = ""
    has_default: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """A resolved invocation of an operator.

    ``operands`` and ``results`` are in the order of the operator's declaration, null if omitted;
    ``operand_types`` and ``result_types`` are the declared type names, a concrete type or a
    generic's name, aligned with them. ``body`` is None for an intrinsic. ``trace`` holds the spans
    of the chain of invocations, outermost first, this one's ``span`` last. ``public``: its author
    declares the operator as a part of the graph that invokes it. ``standard``: the operator is the
    one of the standard library, not one of the same name in the model. ``using``: the values of its
    ``@using`` block that are attributes. ``definition``: the location of the operator's
    definition.
    """

    operator: str
    attributes: Mapping[str, Attribute]
    types: Mapping[str, ScalarType | Literal["str"]]
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    operand_types: tuple[str, ...]
    result_types: tuple[str, ...]
    body: Formula | Graph | None
    label: str
    trace: tuple[Span, ...] = field(default=(), repr=False)
    public: bool = False
    standard: bool = True
    using: Mapping[str, Attribute] = field(default_factory=dict)
    definition: Span | None = field(default=None, repr=False)

    @property
    def standard_operator(self) -> str | None:
        """The operator's name if it is one of the standard library."""
        return self.operator if self.standard else None

    @property
    def span(self) -> Span | None:
        """The location of the invocation."""
        return self.trace[-1] if self.trace else None


@dataclass(frozen=True, eq=False, slots=True)
class If:
    """A selection of one of two graphs by data (section 2.10.1, branching).

    ``condition`` is a bool tensor of one element. Each branch has the tensors that it captures from
    outside as its inputs, and its outputs correspond to the results, in order, with the same types
    and ranks. A dimension of a result is that of both branches, or that of one if the other is
    equal to it whenever it is taken, or a symbol that the If defines. Variables and constants need
    not be captured: a branch may list them itself. Results are new tensors, which no branch
    computes; if their dtypes differ, they are converted.
    """

    condition: Tensor
    consequent: Graph
    alternative: Graph
    results: tuple[Operand, ...]
    label: str = ""
    trace: tuple[Span, ...] = field(default=(), repr=False)

    @property
    def span(self) -> Span | None:
        """The location of the branch."""
        return self.trace[-1] if self.trace else None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The condition and the tensors that the branches capture, each once."""
        captured = _port_tensors(self.consequent, self.alternative)
        return tuple(dict.fromkeys((self.condition, *captured)))


@dataclass(frozen=True, eq=False, slots=True)
class Scan:
    """A pack over which a loop iterates: the body reads ``item``, one of ``items`` in each step."""

    item: Tensor
    items: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """A graph that is run repeatedly, with a data-dependent number of steps (section 2.10.1,
    looping).

    ``carried`` are the body's names for the state (tensors of role ``input``), ``initial`` their
    initial values, of the same types and shapes. ``index`` is the body's tensor of the step's
    number (int, rank 0), from 0. The loop ends after ``count`` steps (a number, an int tensor of
    one element, with less than 0 as 0; None for no limit), after the last item of its scans, or if
    ``condition`` is false: a graph with one bool output of one element, which is run before each
    step, or after it if ``post_test``. In both cases it reads item and index of that step; the
    count is tested before each step, and first. ``body`` computes the new carried tensors, then the
    scan outputs. Body and condition have ``carried``, scan items, ``index`` and the tensors that
    they capture from outside as inputs, if they read them; as in an If, variables and constants
    need not be captured.

    ``results`` are the final carried tensors, then for each scan output a pack with an item for
    each step. If the number of steps is data-dependent, it is one tensor instead: the items stacked
    along a first dimension, whose size is a symbol that the loop defines, with a bound (the upper
    limit of steps). Results are new tensors, which the body does not compute. Dtypes are those of
    ``carried``, item and results: initial values, updates and results of another dtype are
    converted. ``most`` is an upper bound of the number of steps, if there is one.
    """

    carried: tuple[Tensor, ...]
    initial: tuple[Tensor, ...]
    scans: tuple[Scan, ...]
    index: Tensor | None
    count: Tensor | int | None
    condition: Graph | None
    post_test: bool
    body: Graph
    results: tuple[Operand, ...]
    label: str = ""
    trace: tuple[Span, ...] = field(default=(), repr=False)
    most: Dimension | None = None

    @property
    def span(self) -> Span | None:
        """The location of the loop."""
        return self.trace[-1] if self.trace else None

    @property
    def local(self) -> tuple[Tensor, ...]:
        """The tensors that exist only inside: carried ones, scan items, the index."""
        index = () if self.index is None else (self.index,)
        return (*self.carried, *(scan.item for scan in self.scans), *index)

    @property
    def steps(self) -> int | None:
        """The number of steps if it is known: the number of items of a scan output."""
        limits = [len(scan.items) for scan in self.scans]
        limits += [self.count] if isinstance(self.count, int) else []
        known = self.condition is None and not isinstance(self.count, Tensor)
        return min(limits) if known and limits else None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors that the loop reads from outside, each once."""
        graphs = (self.body,) if self.condition is None else (self.condition, self.body)
        local = self.local
        captured = [each for each in _port_tensors(*graphs) if each not in local]
        scanned = [item for scan in self.scans for item in scan.items]
        count = [self.count] if isinstance(self.count, Tensor) else []
        return tuple(dict.fromkeys((*self.initial, *scanned, *count, *captured)))


Node: TypeAlias = "Operation | If | Loop"
"""An item of a graph; items are in an order in which they can run."""


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """A check at run time: a condition on dimensions that must hold (sections 2.4, 2.6, 2.9).

    ``message`` describes the violation, in parts: texts, and dimensions that are replaced by their
    values.
    """

    condition: Condition
    message: tuple[str | Dimension, ...]
    span: Span | None = field(default=None, repr=False)
    notes: tuple[Note, ...] = field(default=(), repr=False)
    hint: str = field(default="", repr=False)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Graph:
    """Operations in an order in which they can run.

    ``constants`` are those that its operations read directly; ``variables`` those of the graph and
    of everything inside it. ``updates`` pairs a variable with the tensor of this graph that becomes
    its value when the whole model has run (section 2.11). ``machine_types`` has the dtype of every
    tensor, inner ones included, once they are assigned (:mod:`tvm_nnef.graph.machine_types`).

    A symbol in a shape is defined by the first input or operation that has it as a whole dimension,
    not as a part of one; ``bounds`` of the outermost graph has the largest value of each, by name,
    those of inner graphs included. ``checks`` must hold when the graph runs, each as soon as its
    symbols are known: those of composites are in the graph, branch or loop body around them.
    ``fixed_inputs`` are the names of inputs of the source that its conversion made constants.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operations: tuple[Node, ...]
    constants: tuple[Tensor, ...] = ()
    variables: tuple[Tensor, ...] = ()
    updates: tuple[tuple[Tensor, Tensor], ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    machine_types: Mapping[Tensor, str] = field(default_factory=dict, repr=False)
    bounds: Mapping[str, int] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    fixed_inputs: tuple[str, ...] = ()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors of the inputs in order, those of a pack one after the other."""
        return flatten(tuple(port.operand for port in self.inputs))

    @property
    def output_tensors(self) -> tuple[Tensor, ...]:
        """The tensors of the outputs in order, those of a pack one after the other."""
        return flatten(tuple(port.operand for port in self.outputs))

    @property
    def defaults(self) -> tuple[Tensor, ...]:
        """The inputs with a default, which is the value of their name among the variables."""
        return flatten(tuple(port.operand for port in self.inputs if port.has_default))

    @property
    def limits(self) -> Mapping[str, int]:
        """The bounds of the symbols that have one."""
        return {name: each for name, each in self.bounds.items() if each < UNLIMITED}

    @property
    def signature(self) -> str:
        """The name of the graph, and its inputs and outputs with their types, in a line."""
        sides = (", ".join(map(self._port, ports)) for ports in (self.inputs, self.outputs))
        return "{}({}) -> ({})".format(self.name, *sides)

    def _port(self, port: Port) -> str:
        match port.operand:
            case None:
                return f"{port.name}: null"
            case Tensor() as tensor:
                return f"{port.name}: {self._type(tensor)}"
            case pack:
                return f"{port.name}: list of {len(pack)}"

    def _type(self, tensor: Tensor) -> str:
        return tensor.described(self.machine_types.get(tensor))

    def __repr__(self) -> str:
        operations = plural(len(self.operations), "operation")
        return f"<Graph {self.signature}: {operations}, {plural(len(self.variables), 'variable')}>"


def tensors(operand: Operand) -> tuple[Tensor, ...]:
    """Return the tensors of an operand: one, those of a pack, or none."""
    match operand:
        case None:
            return ()
        case Tensor():
            return (operand,)
        case _:
            return operand


def mapped(operand: Operand, change: Callable[[Tensor], Tensor]) -> Operand:
    """Return an operand with its tensors changed."""
    match operand:
        case None:
            return None
        case Tensor():
            return change(operand)
        case _:
            return tuple(map(change, operand))


def flatten(operands: tuple[Operand, ...]) -> tuple[Tensor, ...]:
    """Return the tensors of several operands, in order."""
    return tuple(tensor for operand in operands for tensor in tensors(operand))


def operator_name(node: Node) -> str:
    """Return the operator's name.

    Those of branches and loops are keywords, which no operator has.
    """
    match node:
        case If():
            return "if"
        case Loop():
            return "loop"
        case Operation():
            return node.operator


def bodies(node: Node) -> tuple[Graph, ...]:
    """Return the graphs inside a node: a composite's body, both branches, condition and loop
    body.
    """
    match node:
        case If():
            return (node.consequent, node.alternative)
        case Loop():
            return (node.body,) if node.condition is None else (node.condition, node.body)
        case Operation(body=Graph() as body):
            return (body,)
        case _:
            return ()


def operations(graph: Graph) -> Iterator[Node]:
    """Yield every node of a graph; nodes inside bodies follow the node with the body."""
    for node in graph.operations:
        yield node
        for body in bodies(node):
            yield from operations(body)


def part_of_graph(node: Node, whole: Collection[str] = ()) -> Graph | None:
    """Return the body of a composite that its author declares as a part of the graph around it.

    That is a public operator (section 2.10), unless it is one of ``whole`` or updates variables.
    """
    match node:
        case Operation(public=True, body=Graph() as body) if node.operator not in whole:
            return None if updated_variables(body) else body
    return None


def opened_nodes(graph: Graph, whole: Collection[str] = ()) -> Iterator[Node]:
    """Yield the nodes of a graph, with composites that are parts of it replaced by their nodes."""
    for node in graph.operations:
        body = part_of_graph(node, whole)
        if body is None:
            yield node
        else:
            yield from opened_nodes(body, whole)


def updated_variables(*graphs: Graph) -> tuple[Tensor, ...]:
    """Return the variables that graphs update, or graphs inside of them, each once."""
    inner = (body for graph in graphs for node in operations(graph) for body in bodies(node))
    variables = (variable for graph in (*graphs, *inner) for variable, _ in graph.updates)
    return tuple(dict.fromkeys(variables))


def _port_tensors(*graphs: Graph) -> tuple[Tensor, ...]:
    return flatten(tuple(port.operand for graph in graphs for port in graph.inputs))


def every_tensor(graph: Graph) -> Iterator[Tensor]:
    """Yield every tensor of a graph and of the bodies in it, each once, in a fixed order."""
    seen: dict[Tensor, None] = {}
    _collect(graph, seen)
    yield from seen


def _collect(graph: Graph, seen: dict[Tensor, None]) -> None:
    inputs = graph.input_tensors
    seen.update(dict.fromkeys((*inputs, *graph.variables, *graph.constants)))
    for node in graph.operations:
        seen.update(dict.fromkeys(flatten((*node.operands, *node.results))))
        match node:
            case Loop():
                seen.update(dict.fromkeys(node.local))
            case Operation(body=Formula() as formula):
                seen.update(dict.fromkeys(formula.captures))
        for body in bodies(node):
            _collect(body, seen)
    seen.update(dict.fromkeys(graph.output_tensors))
