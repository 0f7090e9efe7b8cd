"""Data-dependent branches and loops, as nodes of the graph (section 2.10.1).

Input: the bodies and the values that they read. Output: the results of the node. A body is composed
once, in a separate frame, and closed: tensors that it reads from outside become its inputs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.results import results_like
from tvm_nnef.composition.scalar_tensors import item
from tvm_nnef.composition.symbols import Symbols
from tvm_nnef.composition.values import Value, describe, show
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Operand,
    Port,
    Scan,
    Tensor,
    flatten,
    tensors,
)
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Condition, Dimension
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.frame import Frame
    from tvm_nnef.composition.invoker import Invoker


def branch_on(
    composer: Invoker,
    condition: Tensor,
    holds: Condition,
    bodies: tuple[nodes.Body, nodes.Body | nodes.Branch],
    frame: Frame,
    targets: Sequence[nodes.Target],
    span: Span,
) -> tuple[Operand, ...]:
    """Return the results of a branch on a tensor. Raises NnefError if the branches disagree.

    ``holds`` is the condition on dimensions that is true in the first branch.
    """
    check_single(condition, "bool", "a condition", span)
    # What follows 'elif' is a branch inside of the other, and in the same scope.
    scope = frame.scope if frame.around else f"{frame.scope}.{composer.label(targets) or '.if'}"
    outer = frozenset(frame.env.symbols.bounds)
    consequent, alternative = (
        _close(composer, body, frame.separate(scope), targets) for body in bodies
    )
    if len(consequent.outputs) != len(alternative.outputs):
        counts = f"{len(consequent.outputs)} and {len(alternative.outputs)}"
        hint = "let both end in as many results as there are names on the left"
        raise error(f"the branches give {counts} results", span, hint=hint)
    common = _Common(frame.env.symbols, outer, holds, composer.label(targets))
    pairs = zip(consequent.outputs, alternative.outputs, strict=True)
    outputs = tuple(common.operand(left.operand, right.operand, span) for left, right in pairs)
    results = results_like(composer.name, outputs, frame, targets)
    trace = (*frame.trace, span)
    label = composer.label(targets) or ""
    frame.operations.append(If(condition, consequent, alternative, results, label, trace))
    frame.variables += (*consequent.variables, *alternative.variables)
    return results


@dataclass(frozen=True, slots=True)
class _Common:
    """The unification of the results of both branches.

    ``outer`` are the symbols known outside, ``holds`` is the condition on dimensions that is true
    in the first branch. New symbols are named after ``label``.
    """

    symbols: Symbols
    outer: Container[str]
    holds: Condition
    label: str | None

    def operand(self, left: Operand, right: Operand, span: Span) -> Operand:
        """Return the common tensor or pack. Raises NnefError if both differ in type or rank."""
        forms = _form(left), _form(right)
        if forms[0] != forms[1]:
            message = f"the branches disagree: one gives {kind(left)}, the other {kind(right)}"
            raise error(message, span, hint=value_hints.same_kind(left, right))
        pairs = zip(tensors(left), tensors(right), strict=True)
        found = tuple(replace(one, shape=self._shape(one, other)) for one, other in pairs)
        return found if isinstance(left, tuple) else found[0]

    def _shape(self, one: Tensor, other: Tensor) -> tuple[Dimension, ...]:
        name = self.label or one.short_name
        pairs = enumerate(zip(one.shape, other.shape, strict=True))
        return tuple(self._dimension(f"{name}_{axis}", *pair) for axis, pair in pairs)

    def _dimension(self, name: str, one: Dimension, other: Dimension) -> Dimension:
        """Return the dimension of both branches; a new symbol if they differ."""
        is_known = all(each in self.outer for each in dimensions.symbols(other))
        if is_known and dimensions.follows(self.holds, dimensions.compare("eq", one, other)):
            return other
        largest = max(map(self.symbols.largest, (one, other)))
        return self.symbols.new(name, min(largest, dimensions.UNLIMITED))


def _form(operand: Operand) -> tuple[bool, tuple[tuple[str, int], ...]]:
    """Return whether a result is a pack, and the types and ranks of its tensors."""
    return isinstance(operand, tuple), tuple((t.type, t.rank) for t in tensors(operand))


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The properties of a loop that are known before its body is composed.

    ``steps`` is the number of its steps if that is certain, ``most`` an upper bound. ``scans`` and
    ``carried`` have the names that the body uses.
    """

    count: Tensor | int | None
    steps: int | None
    most: Dimension | None
    carried: Mapping[str, Operand]
    scans: Mapping[str, tuple[Tensor, ...] | Tensor]

    @property
    def packs(self) -> dict[str, tuple[Tensor, ...]]:
        """The packs that the loop scans, except empty ones."""
        return {name: each for name, each in self.scans.items() if isinstance(each, tuple) and each}

    @property
    def stacked(self) -> dict[str, Tensor]:
        """The scanned packs whose items are stacked to one tensor."""
        return {name: each for name, each in self.scans.items() if isinstance(each, Tensor)}


class _Step:
    """The tensors of one step of a loop: carried tensors, items of packs, and the step number."""

    def __init__(self, composer: Invoker, node: nodes.Loop, plan: LoopPlan, scope: str) -> None:
        self._composer, self._node, self._plan, self._scope = composer, node, plan, scope
        self.carried = {name: self._locals(name, value) for name, value in plan.carried.items()}
        self.items = {name: self._local(name, pack[0]) for name, pack in plan.packs.items()}
        self.index: dict[str, Tensor] = {}
        if node.iteration and node.iteration.index:
            name, span = node.iteration.index.name, node.iteration.index.span
            full = composer.name(f"{scope}.{name}")
            self.index[name] = Tensor(full, "int", (), "input", None, span)
        elif plan.stacked:
            self.index[".step"] = Tensor(composer.name(f"{scope}..step"), "int", (), "input")

    def _local(self, name: str, like: Tensor) -> Tensor:
        full = self._composer.name(f"{self._scope}.{name}")
        return Tensor(full, like.type, like.shape, "input", None, self._node.span)

    def _locals(self, name: str, like: Operand) -> Operand:
        if isinstance(like, Tensor):
            return self._local(name, like)
        numbered = enumerate(tensors(like), 1)
        return tuple(self._local(f"{name}:{number}", item) for number, item in numbered)

    def block(self, frame: Frame) -> Frame:
        """Return a frame with the tensors of the step, including items of stacked packs."""
        made = frame.separate(self._scope)
        made.declare({**self.carried, **self.items, **self.index})
        for name, pack in self._plan.stacked.items():
            current = replace(self._local(name, pack), shape=pack.shape[1:], role="result")
            (step,) = self.index.values()
            made.operations.append(item(current, pack, step, (*frame.trace, self._node.span)))
            made.declare({name: current})
        return made


def run_loop(
    composer: Invoker,
    node: nodes.Loop,
    plan: LoopPlan,
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> tuple[Operand, ...]:
    """Return the final carried tensors of a loop, then a pack for each scan output."""
    step = _Step(composer, node, plan, f"{frame.scope}.{composer.label(targets) or '.loop'}")
    body = _close(composer, node.body, step.block(frame), ())
    _check_carried(plan.carried, body, node.body.span)
    condition = None
    if node.condition is not None:
        condition = _close(composer, node.condition, step.block(frame), ())
        found = condition.outputs[0].operand if len(condition.outputs) == 1 else None
        check_single(found, "bool", "a loop condition", node.condition.span)
    outputs = [port.operand for port in body.outputs]
    made = outputs[len(plan.carried) :]
    packs = tuple(_pack(each, plan, frame.env.symbols, node.body.span) for each in made)
    results = results_like(composer.name, (*plan.carried.values(), *packs), frame, targets)
    finals, scanned = results[: len(plan.carried)], results[len(plan.carried) :]
    if plan.steps is None:
        frame.env.symbols.stacked.update(flatten(scanned))
    scans = tuple(Scan(step.items[name], pack) for name, pack in plan.packs.items())
    initial = flatten(tuple(plan.carried.values()))
    frame.operations.append(
        Loop(
            flatten(tuple(step.carried.values())), initial, scans,
            next(iter(step.index.values()), None),
            plan.count, condition, node.post_test, _flat(body, len(plan.carried)),
            (*flatten(finals), *scanned), composer.label(targets) or "",
            (*frame.trace, node.span), plan.most,
        )
    )  # fmt: skip
    frame.variables += (*body.variables, *(condition.variables if condition else ()))
    return results


def _flat(body: Graph, carried: int) -> Graph:
    """Return the body of a loop with an output for each item of the packs that it carries."""
    outputs = [
        Port(port.name if tensor is port.operand else f"{port.name}:{i + 1}", tensor)
        for port in body.outputs[:carried]
        for i, tensor in enumerate(tensors(port.operand))
    ]
    return replace(body, outputs=(*outputs, *body.outputs[carried:]))


def _pack(item: Operand, plan: LoopPlan, symbols: Symbols, span: Span) -> Operand:
    """Return the value of a scan output: a pack with the tensor of a step once for each step.

    It is one stacked tensor if the number of steps is known only at run time.
    """
    if not isinstance(item, Tensor):
        hint = "give the tensors of a pack as their own results, or stack them by layout.stack"
        message = f"each step must give a single tensor, found {describe(item)}"
        raise error(message, span, hint=hint)
    if plan.steps is not None:
        return (item,) * plan.steps
    if plan.most is None:
        message = "nothing bounds the number of items that the loop makes"
        raise error(message, span, hint="let it go through a pack as well, or give it a count")
    length = symbols.new("steps", min(symbols.largest(plan.most), dimensions.UNLIMITED))
    return Tensor(item.name, item.type, (length, *item.shape), "result", None, item.span)


def _check_carried(carried: Mapping[str, Operand], body: Graph, span: Span) -> None:
    """Raise NnefError unless carried tensors keep type and shape: a loop updates them in place."""
    if len(body.outputs) < len(carried):
        message = f"the loop body gives {len(body.outputs)} results, {len(carried)} are carried"
        raise error(message, span, hint=carried_first(carried))
    for (name, before), port in zip(carried.items(), body.outputs, strict=False):
        kinds = kind(before), kind(port.operand)
        if kinds[0] != kinds[1]:
            message = f"'{name}' is carried as {kinds[0]}, but the loop body gives {kinds[1]}"
            raise error(message, span, hint="only a loop with 'unroll' may change it")


def carried_first(carried: Iterable[str]) -> str:
    """Return the hint for a loop body with too few results."""
    return f"its first results are the new values of {', '.join(carried)}"


def check_single(value: Value, type_: str, what: str, span: Span) -> None:
    """Raise NnefError unless a value is one tensor of one element of a type."""
    single = isinstance(value, Tensor) and dimensions.product(value.shape) == 1
    if not single or value.type != type_:  # type: ignore[union-attr]
        message = f"{what} must be one {type_} tensor of one element"
        description = kind(value) if isinstance(value, Tensor) else describe(value)
        hint = "invoke a comparison, such as math.gt" if type_ == "bool" else "cast it first"
        if isinstance(value, Tensor) and value.type == type_:
            hint = "reduce it to one element first, as by math.all_reduce or layout.slice"
        raise error(f"{message}, found {description}", span, hint=hint)


def kind(operand: Operand) -> str:
    """Return type and shape of an operand, in the words of an error message."""
    if isinstance(operand, Tensor):
        return f"{operand.type}{show(operand.shape)}"
    if operand is None:
        return "null"
    return f"a pack of {', '.join(kind(item) for item in operand) or 'nothing'}"


def _close(
    composer: Invoker,
    body: nodes.Body | nodes.Branch,
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> Graph:
    """Return a body as a graph; tensors that it captures become its inputs."""
    # Only an invocation names its results after the targets; the names in a block are its own.
    values = composer.value(body, frame, targets if isinstance(body, nodes.Call) else ())
    outputs = tuple(composer.as_tensors(value, frame, body.span) for value in values)
    if any(output is None for output in outputs):
        hint = "give a tensor for the case of null, as in 'x ?? 0.0'"
        raise error("a branch or loop body gives null", body.span, hint=hint)
    own = {*frame.constants, *frame.variables}
    own.update(tensor for node in frame.operations for tensor in flatten(node.results))
    read = [tensor for node in frame.operations for tensor in flatten(node.operands)]
    captured = dict.fromkeys(t for t in (*read, *flatten(outputs)) if t not in own)
    return Graph(
        frame.scope,
        tuple(Port(tensor.short_name, tensor) for tensor in captured),
        tuple(Port(f"output_{i}", output) for i, output in enumerate(outputs)),
        tuple(frame.operations), tuple(frame.constants), tuple(frame.variables),
        checks=tuple(frame.env.symbols.checks),
    )  # fmt: skip


def same_kinds(items: Sequence[Value]) -> bool:
    """Whether all values are tensors of one type and shape, as a loop needs them."""
    return (
        all(isinstance(item, Tensor) for item in items)
        and len(
            {kind(tensor) for item in items for tensor in tensors(item)}  # type: ignore[arg-type]
        )
        <= 1
    )
