"""Loops that change the shapes of what they carry: buffers of a bound, of which a part is used.

A loop of SkriptND keeps the shapes of what it carries. So a tensor that changes its shape is
carried in a buffer: each step takes the used part of it, and puts what it makes into a new one. A
Loop node and the tensors before it in, its body in steps out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeAlias

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import size_of
from tvm_nnef.converters.common.steps import results
from tvm_nnef.converters.common.symbolic import (
    Shape,
    Size,
    array,
    largest,
    maximum,
    minimum,
    product,
    room,
)
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import DEFAULT_BOUND, Node
from tvm_nnef.converters.onnx.values import (
    Stacked,
    Unfilled,
    Value,
    as_tensors,
    empty_like,
    is_sequence,
)
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.symbolic import dimensions

Place: TypeAlias = "tuple[int, int]"
"""A dimension of a carried tensor: the position of the tensor, and the axis."""

MOST_STEPS = 1 << 16
"""Steps that a loop may have if it changes shapes: each counts up to the number of its steps."""
_MOST_ELEMENTS = 1 << 28
"""Elements of a buffer."""
_MOST_ROUNDS = 16
"""Conversions of one body."""
FREEZE = "freeze the number of steps to an initializer, so that they can be written out"
_BOUND = "give the maximum of the dimension, by the name of the result: convert(…, bounds={…})"


@dataclass(frozen=True, slots=True)
class Repetition:
    """A Loop node to convert, with the carried tensors before it, and the condition in its body.

    ``sequences`` are the positions of sequences among the tensors, with the items stacked.
    ``steps`` is the number of steps if it is known, ``most`` an upper bound if one is known.
    """

    node: Node = field(repr=False)
    state: Sequence[Tensor]
    sequences: frozenset[int]
    condition: Tensor
    steps: Size | None
    most: Size | None

    def values(self, tensors: Iterable[Tensor]) -> list[Value]:
        """Carried tensors as the subgraph has them."""
        return [
            Stacked(each) if position in self.sequences else each
            for position, each in enumerate(tensors)
        ]

    def start(self, place: Place) -> Size:
        """A dimension before the loop."""
        return _size(self.state, place)

    def bound(self, place: Place) -> int:
        """The bound of a dimension that the user gives, 0 if there is none."""
        position, axis = place
        found = self.node.given_bound(axis, position)
        start = self.start(place)
        if found and isinstance(start, int) and start > found:
            name = self.node.proto.output[position]
            reason = f"the bound of '{name}' is {found}, and it starts with {start} elements"
            raise Unconvertible(reason, "give a larger bound")
        return found


def repetition(
    node: Node,
    state: Sequence[Value],
    condition: Tensor,
    steps: Size | None,
    most: Size | None,
    builder: Builder,
) -> Repetition:
    """A Loop node with its state as tensors."""
    sequences = frozenset(position for position, each in enumerate(state) if is_sequence(each))
    if any(each == () for each in state):
        state = _with_items(node, state, condition, builder)
    return Repetition(node, as_tensors(state, builder), sequences, condition, steps, most)


def _with_items(
    node: Node, state: Sequence[Value], condition: Tensor, builder: Builder
) -> list[Value]:
    """The state with the shapes of items in empty sequences: those of what the body inserts."""
    unfilled = {position: Unfilled() for position, each in enumerate(state) if each == ()}
    body = node.attributes["body"]
    given = [unfilled.get(position, each) for position, each in enumerate(state)]
    index = Tensor("int64", (), body.input[0].name)
    with suppress(NnefError, Unconvertible):
        node.subgraph(body, [index, condition, *given], Builder(builder))
    found = list(state)
    for position, each in unfilled.items():
        if each.item is None:
            name = body.input[2 + position].name
            reason = f"the shape of the items in the empty sequence '{name}' is not known"
            raise Unconvertible(reason, "begin with an item")
        found[position] = empty_like(each.item, builder)
        if isinstance(outer := state[position], Unfilled):
            outer.item = outer.item or each.item
    return found


@dataclass(frozen=True, slots=True)
class Growth:
    """The dimensions of carried tensors that change.

    Those of ``steady`` change by the same number in each step. Those of ``free`` have lengths,
    which are carried too: one for each group of dimensions that stay equal, with its bound.
    ``tried`` are the dimensions that were taken for steady, ``steps`` is the maximum of the number
    of steps, and ``measured`` says that the bounds follow from what a step adds.
    """

    steps: Size
    steady: Mapping[Place, Size] = field(default_factory=dict)
    free: tuple[tuple[Place, ...], ...] = ()
    bounds: tuple[Size, ...] = ()
    tried: frozenset[Place] = frozenset()
    measured: bool = False

    @property
    def decisions(self) -> tuple[object, ...]:
        """Return the decisions for which the body is converted."""
        return (self.steps, dict(self.steady), self.free, self.bounds)

    def shape(self, start: Tensor, position: int, steps: Size, lengths: Sequence[Size]) -> Shape:
        """The shape of a carried tensor after some steps; ``lengths`` are those of the groups."""
        free = {
            place: each for group, each in zip(self.free, lengths, strict=True) for place in group
        }
        return tuple(
            free.get((position, axis), size + self.steady.get((position, axis), 0) * steps)
            for axis, size in enumerate(start.shape)
        )


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a loop in steps.

    ``inside`` are the tensors that it carries, buffers and then lengths, ``outside`` what they
    start from, and ``yields`` their new values. ``seen`` are the carried tensors as the subgraph
    has them, ``outputs`` what it gives.
    """

    loop: Repetition
    growth: Growth
    builder: Builder
    index: Tensor
    seen: Sequence[Tensor]
    outputs: Sequence[Tensor]
    inside: Sequence[Tensor]
    outside: Sequence[Tensor]
    yields: Sequence[Tensor]

    def following(self, place: Place) -> Size:
        """A dimension after a step."""
        return _size(self.outputs[1:], place)

    @property
    def scanned(self) -> Sequence[Tensor]:
        """The scan outputs of one step, whose shapes must not change."""
        found = self.outputs[1 + len(self.seen) :]
        for each in found:
            if not all(map(self.is_fixed, each.shape)):
                reason = f"its scan output '{each.source}' may change its shape from step to step"
                raise Unconvertible(reason, "concatenate in a carried tensor instead")
        return found

    def is_fixed(self, size: Size) -> bool:
        """Whether a dimension is the same in all steps."""
        if isinstance(size, int):
            return True
        made = {id(each) for step in self.builder.steps for each in results(step)}
        return not any(
            id(size.symbols[name].tensor) in made for name in dimensions.symbols(size.dimension)
        )

    def after(self, finals: Sequence[Tensor], steps: Size, builder: Builder) -> list[Value]:
        """Return the carried values after the loop; ``finals`` are the tensors of ``inside``."""
        count = len(self.seen)
        lengths = _lengths(self.growth, finals[count:], builder)
        return self.loop.values(
            _front(final, self.growth.shape(start, position, steps, lengths), builder)
            for position, (start, final) in enumerate(zip(self.loop.state, finals, strict=False))
        )


def unchanged_body(
    node: Node, state: Sequence[Value], condition: Tensor, steps: int, builder: Builder
) -> Body | None:
    """The body of a loop that keeps the shapes and dtypes of tensors that it carries, else None."""
    if any(map(is_sequence, state)):
        return None
    loop = repetition(node, state, condition, steps, None, builder)
    try:
        body = _attempt(loop, Growth(_most_steps(loop, {})), builder)
    except (NnefError, Unconvertible):
        return None
    return body if _refined(body).decisions == body.growth.decisions else None


def converted_body(loop: Repetition, builder: Builder) -> Body:
    """The body of a loop, converted again until it is known which dimensions change.

    Raises Unconvertible if dtypes or ranks change.
    """
    growth = _remembered(loop) or Growth(_most_steps(loop, {}))
    for _ in range(_MOST_ROUNDS):
        try:
            body = _attempt(loop, growth, builder)
        except NnefError:
            # An operator may need elements, and there may be none before the first step.
            empty = [place for place in _places(loop.state) if loop.start(place) == 0]
            if growth.steady or growth.free or not empty:
                raise
            free = _partitioned(empty, loop.start)
            growth = replace(growth, free=free, bounds=_default_bounds(loop, free))
            continue
        following = _refined(body)
        if following.decisions == growth.decisions:
            loop.node.memory[tuple(loop.node.proto.output)] = growth
            return body
        growth = following
    raise Unconvertible("it is not known which dimensions of what it carries change", FREEZE)


def _remembered(loop: Repetition) -> Growth | None:
    """Return the result of an earlier conversion of the node, for other shapes, in another loop."""
    found = loop.node.memory.get(tuple(loop.node.proto.output))
    if not isinstance(found, Growth):
        return None
    places = {*found.steady, *(place for group in found.free for place in group)}
    if not places <= set(_places(loop.state)):
        return None
    if not all(isinstance(change, int) for change in found.steady.values()):
        return None
    free = tuple(part for group in found.free for part in _partitioned(group, loop.start))
    bounds, steps = _default_bounds(loop, free), _most_steps(loop, found.steady)
    return Growth(steps, found.steady, free, bounds)


def _attempt(loop: Repetition, growth: Growth, builder: Builder) -> Body:
    """The body for carried tensors of which some dimensions change."""
    most = room(growth.steps)
    if growth.steady and isinstance(most, int) and most > MOST_STEPS:
        reason = f"it changes the shapes of what it carries, in {most} steps"
        raise Unconvertible(reason, f"the limit is {MOST_STEPS} steps")
    graph, inner = loop.node.attributes["body"], Builder(builder)
    carried = [Tensor("int64", ()) for _ in growth.free]
    lengths = _lengths(growth, carried, inner)
    index = known = Tensor("int64", (), graph.input[0].name)
    step: Size = 0
    if growth.steady:
        step = size_of(index, most, inner)
        # With the dimension instead of the tensor, what the body makes of it fits the buffers.
        known = Tensor("int64", (), index.source, sizes=array([step]).reshape(()))
    buffers, seen = [], []
    for position, (start, value) in enumerate(zip(loop.state, graph.input[2:], strict=True)):
        buffers.append(Tensor(start.dtype, _room(loop, growth, position), value.name))
        seen.append(_front(buffers[-1], growth.shape(start, position, step, lengths), inner))
    values = loop.node.subgraph(graph, [known, loop.condition, *loop.values(seen)], inner)
    outputs = as_tensors(values, inner)
    new = outputs[1 : 1 + len(seen)]
    for before, after in zip(seen, new, strict=True):
        _check_kind(before, after)
    firsts = [group[0] for group in growth.free]
    outside = [
        *(_in_buffer(each, like, builder) for each, like in zip(loop.state, buffers, strict=True)),
        *(builder.dimension(loop.start(place)) for place in firsts),
    ]
    yields = [
        *(_in_buffer(each, like, inner) for each, like in zip(new, buffers, strict=True)),
        *(inner.dimension(_size(new, place)) for place in firsts),
    ]
    inside = [*buffers, *carried]
    return Body(loop, growth, inner, index, seen, outputs, inside, outside, yields)


def _check_kind(before: Tensor, after: Tensor) -> None:
    if (before.dtype, before.rank) != (after.dtype, after.rank):
        kinds = [f"{each.dtype}[{', '.join(map(str, each.shape))}]" for each in (before, after)]
        reason = f"it carries '{before.source}' as {kinds[0]} and gives {kinds[1]}"
        raise Unconvertible(reason, FREEZE)


def _refined(body: Body) -> Growth:
    """Return the growth with the dimensions that are known after the body was converted."""
    loop, growth, steady = body.loop, body.growth, dict(body.growth.steady)
    free = {place for group in growth.free for place in group}
    tried = set(growth.tried)
    for place in _places(loop.state):
        change = body.following(place) - _size(body.seen, place)
        if change == steady.get(place, 0) and place not in free:
            continue
        if place not in tried and body.is_fixed(change):
            steady[place] = change
            tried.add(place)
            free.discard(place)
        else:
            steady.pop(place, None)
            free.add(place)
    return _with_bounds(body, replace(growth, steady=steady, tried=frozenset(tried)), free)


def _with_bounds(body: Body, growth: Growth, free: Iterable[Place]) -> Growth:
    """The growth with groups of the free dimensions, their bounds, and the number of steps."""
    loop, old = body.loop, body.growth
    growth = replace(growth, steps=_most_steps(loop, growth.steady))
    if {place for group in old.free for place in group} != set(free):
        groups = _partitioned(free, loop.start)
    else:
        groups = tuple(part for group in old.free for part in _partitioned(group, body.following))
    if groups != old.free:
        bounds = _default_bounds(loop, groups)
        return replace(growth, free=groups, bounds=bounds, measured=False)
    if old.measured:
        return growth
    pairs = zip(groups, old.bounds, strict=True)
    return replace(growth, bounds=tuple(_measured(body, *each) for each in pairs), measured=True)


def _partitioned(
    places: Iterable[Place], size: Callable[[Place], Size]
) -> tuple[tuple[Place, ...], ...]:
    """Dimensions in groups of equal sizes."""
    groups: list[list[Place]] = []
    for place in sorted(places):
        equal = (group for group in groups if size(group[0]) == size(place))
        if (group := next(equal, None)) is None:
            groups.append([place])
        else:
            group.append(place)
    return tuple(map(tuple, groups))


def _default_bounds(loop: Repetition, groups: Iterable[Sequence[Place]]) -> tuple[Size, ...]:
    """The bounds of free dimensions that the user gives, else some for a first try."""
    return tuple(
        next(filter(None, map(loop.bound, group)), _most(loop, group) + DEFAULT_BOUND)
        for group in groups
    )


def _most(loop: Repetition, group: Iterable[Place]) -> Size:
    return reduce(maximum, (room(loop.start(place)) for place in group))


def _measured(body: Body, group: Sequence[Place], bound: Size) -> Size:
    """The bound of free dimensions, from what a step adds to them at most."""
    loop = body.loop
    if not isinstance(bound, int):
        return bound  # What a step adds to a dimension without a bound cannot be measured.
    added = max(0, *(largest(body.following(place)) - bound for place in group))
    # A dimension that is doubled, say, or in any number of steps, has no other bound.
    counted = loop.steps is not None or loop.most is not None
    if any(map(loop.bound, group)) or added > DEFAULT_BOUND or (added and not counted):
        return bound
    return _most(loop, group) + added * largest(body.growth.steps)


def _most_steps(loop: Repetition, steady: Mapping[Place, Size]) -> Size:
    """The maximum of the number of steps: as the model has it, or the bounds of what they make."""
    if loop.steps is not None:
        return loop.steps
    limits = [loop.node.given_bound(0, position) for position in _scanned(loop)]
    for place, change in steady.items():
        if isinstance(change, int) and change > 0 and (bound := loop.bound(place)):
            start = loop.start(place)
            limits.append(max(1, (bound - (start if isinstance(start, int) else 0)) // change))
    given = min(filter(None, limits), default=0) or DEFAULT_BOUND
    if loop.most is None:
        return given
    return minimum(given, loop.most) if any(limits) else loop.most


def _scanned(loop: Repetition) -> range:
    """The positions of the scan outputs."""
    return range(len(loop.state), len(loop.node.proto.output))


def _room(loop: Repetition, growth: Growth, position: int) -> Shape:
    """The shape of the buffer of a carried tensor, which is its own if nothing changes."""
    start = loop.state[position]
    full = list(growth.shape(start, position, growth.steps, growth.bounds))
    for axis, size in enumerate(start.shape):
        place = (position, axis)
        if place in growth.steady:
            given = 0 if loop.steps is not None else loop.bound(place)
            full[axis] = given or maximum(size, full[axis])
    volume = room(product(full))
    if tuple(full) != start.shape and isinstance(volume, int) and volume > _MOST_ELEMENTS:
        name = loop.node.proto.output[position] or start.source
        reason = f"the buffer for '{name}' would have {volume} elements"
        raise Unconvertible(f"{reason}; the limit is {_MOST_ELEMENTS}", _BOUND)
    return tuple(full)


def _lengths(growth: Growth, tensors: Sequence[Tensor], builder: Builder) -> list[Size]:
    """The dimensions of the groups, from the tensors that hold them."""
    return [size_of(*each, builder) for each in zip(tensors, growth.bounds, strict=True)]


def _front(x: Tensor, shape: Shape, builder: Builder) -> Tensor:
    """The part of a buffer that is used."""
    for axis, size in enumerate(shape):
        if x.shape[axis] != size:
            x = builder.slice(x, axis, 0, size)
    return x


def _in_buffer(x: Tensor, buffer: Tensor, builder: Builder) -> Tensor:
    """A tensor at the front of a buffer like another one."""
    if x.shape == buffer.shape:
        return x
    return builder.call("onnx.in_buffer", x, as_shape=buffer.shape, shape=list(buffer.shape))


def _places(tensors: Iterable[Tensor]) -> list[Place]:
    return [(position, axis) for position, each in enumerate(tensors) for axis in range(each.rank)]


def _size(tensors: Sequence[Tensor], place: Place) -> Size:
    position, axis = place
    return tensors[position].shape[axis]
