"""Steps that repeat a block of steps, as invocations of one operator.

A converted graph in, one that computes the same out, in which every repetition of a block is an
:class:`~tvm_nnef.converters.common.tensors.Invocation`. Two runs of steps are the same block if
their operators, attributes, dtypes and ranks are the same and they are wired alike inside;
what comes from outside, weights included, becomes an input. Numbers of elements may differ. What
the operator and its tensors are called, and how it is written, ``blocks`` and ``emission`` say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from tvm_nnef.converters.common.block_boundaries import Boundaries, Cost, boundaries
from tvm_nnef.converters.common.blocks import invocations
from tvm_nnef.converters.common.emission import is_literal
from tvm_nnef.converters.common.repeats import Repeat, repeats
from tvm_nnef.converters.common.steps import reads, results
from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.converters.common.tensors import (
    Argument,
    Attribute,
    Call,
    ConvertedGraph,
    Invocation,
    Pack,
    Run,
    Step,
    Tensor,
)

_SHORTEST = 4
"""A block has at least as many steps."""

_LEAST_GAIN = 4
"""An operator is worth having where it makes the text shorter by as many steps."""

_MOST_OPERATORS = 24
"""As many operators a model gets; what still repeats then is of no importance to a reader."""

_MOST_STEPS = 300_000
"""Steps are looked through for one block after the other until they add up to as many."""


def outlined(graph: ConvertedGraph) -> ConvertedGraph:
    """The graph with its repeated blocks as operators, the most rewarding block first.

    Later blocks may contain invocations of earlier ones.
    """
    steps: Sequence[Step] = graph.steps
    looked_through = 0
    for _ in range(_MOST_OPERATORS):
        looked_through += len(steps)
        if looked_through > _MOST_STEPS:
            break
        sequence = _sequence(steps, graph.kept)
        block = _best_block(sequence)
        if block is None:
            break
        steps = _replaced(sequence, block)
    return replace(graph, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Steps in units: a step, or one and the same operator invoked again and again.

    ``letters`` are equal for units that may stand for each other. ``readers`` has the number of
    the last unit that reads a tensor, by its identity; that of outputs is beyond all.
    """

    units: Sequence[tuple[Step, ...]]
    letters: Sequence[int]
    readers: dict[int, int]
    boundaries: Boundaries


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a run begins and ends among the units; those skipped are not part of it."""

    start: int
    end: int
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Block:
    """Runs of equal steps: their positions, what they are worth, and what cutting costs."""

    positions: Sequence[_Position]
    runs: Sequence[Run]
    gain: float
    cost: Cost

    @property
    def length(self) -> int:
        """The number of steps of a run."""
        return len(self.runs[0].steps)


def _sequence(steps: Sequence[Step], outputs: Sequence[Tensor]) -> _Sequence:
    units = list(_units(steps))
    numbers: dict[Hashable, int] = {}
    letters = [numbers.setdefault(letter(unit), len(numbers)) for unit in units]
    readers = {
        id(each): position
        for position, unit in enumerate(units)
        for step in unit
        for each in reads(step)
    }
    readers |= dict.fromkeys(map(id, outputs), len(units))
    return _Sequence(units, letters, readers, boundaries(units, readers))


def _units(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    run: list[Step] = []
    for step in steps:
        first = run[0] if run else None
        same = isinstance(step, Invocation) and isinstance(first, Invocation)
        if run and not (same and step.operator is first.operator):  # type: ignore[union-attr]
            yield tuple(run)
            run = []
        run.append(step)
    if run:
        yield tuple(run)


def letter(unit: tuple[Step, ...]) -> Hashable:
    """What must be the same for two units to be in one block; an object for what is in none."""
    step = unit[0]
    match step:
        case Invocation(operator):
            every = (each for invoked in unit for each in invoked.results)
            return (id(operator), tuple(each is None for each in every))
        case Call(operator, types, attributes) if not is_dynamic(step):
            arguments = tuple(map(_argument, step.arguments))
            made = tuple(map(_argument, step.results))
            given = tuple((name, _attribute(value)) for name, value in attributes.items())
            return (operator, types, given, arguments, made)
    return object()


def is_dynamic(step: Step) -> bool:
    """Whether a step has to do with packs, or with data-dependent dimensions."""
    for each in (*reads(step), *results(step)):
        if isinstance(each, Pack):
            return True
        for size in each.shape:
            if isinstance(size, Symbolic) and any(s.tensor for s in size.symbols.values()):
                return True
    return False


def _argument(value: Argument) -> Hashable:
    match value:
        case Tensor() if is_literal(value):
            assert value.value is not None
            return (value.dtype, value.value.tobytes())
        case Tensor(dtype):
            return (dtype, value.rank)
        case tuple() | list():
            return tuple(map(_argument, value))
    return repr(value)


def _attribute(value: Attribute) -> Hashable:
    if isinstance(value, (tuple, list)):
        return tuple(map(_attribute, value))
    return str(value) if isinstance(value, Symbolic) else repr(value)


def _best_block(sequence: _Sequence) -> _Block | None:
    """The block that is worth most, if there is one that is worth the trouble.

    Where most of it is a smaller block again and again, that one comes first; of rotations of each
    other the one is taken that is cut where a person would.
    """
    found = [_block(sequence, each) for each in repeats(sequence.letters, 2)]
    worthy = [each for each in found if each is not None and each.gain >= _LEAST_GAIN]
    best = max(worthy, key=lambda each: each.gain, default=None)
    while best is not None:
        inner = [each for each in worthy if _fills(each, best)]
        if not inner:
            rotations = (each for each in worthy if _is_rotation(each, best))
            return min(rotations, key=lambda each: (each.cost, -each.gain))
        best = max(inner, key=lambda each: each.gain)
    return None


def _fills(inner: _Block, outer: _Block) -> bool:
    """Whether two thirds of a block are another block, twice or more."""
    whole = outer.positions[0]
    within = [p for p in inner.positions if whole.start <= p.start and p.end <= whole.end]
    smaller = inner.length < outer.length
    return smaller and len(within) > 1 and 3 * len(within) * inner.length >= 2 * outer.length


def _is_rotation(block: _Block, best: _Block) -> bool:
    """Whether a block is as long as another, and worth as much except for a repetition or so."""
    return block.length == best.length and block.gain >= best.gain - 1.5 * best.length


def _block(sequence: _Sequence, repeat: Repeat) -> _Block | None:
    """What of a repeat can be one operator."""
    found = sequence.boundaries.window(repeat)
    if found is None:
        return None
    *window, cost = found
    positions: list[_Position] = []
    for start in repeat.starts:
        position = _Position(start + window[0], start + window[1])
        if not positions or position.start >= positions[-1].end:
            positions.append(position)
    alike: dict[Hashable, list[tuple[_Position, Run]]] = {}
    for position in _with_loose(sequence, positions):
        if sequence.boundaries.may_cut((position.start, position.end)):
            run = _run(sequence, position)
            alike.setdefault(run.wiring, []).append((position, run))
    most = max(alike.values(), key=len, default=[])
    if len(most) < 2:
        return None
    runs = [run for _, run in most]
    return _Block([position for position, _ in most], runs, _gain(runs), cost)


def _with_loose(sequence: _Sequence, positions: Sequence[_Position]) -> list[_Position]:
    """Positions, and those beside them with other steps between the same ones.

    So it is with the first layer of a network, which makes what all layers read.
    """
    word = sequence.letters[positions[0].start : positions[0].end]
    found: list[_Position] = []
    free = 0
    for position in positions:
        before = _loose(sequence, word[::-1], range(position.start - 1, free - 1, -1))
        found += [position] if before is None else [before, position]
        free = position.end
    after = _loose(sequence, word, range(free, len(sequence.units)))
    return found if after is None else [*found, after]


def _loose(sequence: _Sequence, word: Sequence[int], units: range) -> _Position | None:
    """The position of a word with other units between, from the first of the units on.

    What is between must not read what the word makes: it is moved before it.
    """
    if len(units) <= len(word) or sequence.letters[units[0]] != word[0]:
        return None
    matched: list[int] = []
    for unit in units[: len(word) * 3 // 2]:
        if len(matched) < len(word) and sequence.letters[unit] == word[len(matched)]:
            matched.append(unit)
    if len(matched) < len(word):
        return None
    start, end = min(matched), max(matched) + 1
    skipped = tuple(unit for unit in range(start, end) if unit not in matched)
    made = {id(t) for unit in matched for step in sequence.units[unit] for t in results(step)}
    between = (t for unit in skipped for step in sequence.units[unit] for t in reads(step))
    return None if any(id(each) in made for each in between) else _Position(start, end, skipped)


def _run(sequence: _Sequence, position: _Position) -> Run:
    units = (unit for unit in range(position.start, position.end) if unit not in position.skipped)
    steps = tuple(step for unit in units for step in sequence.units[unit])
    return run_of(steps, lambda each: sequence.readers.get(id(each), -1) >= position.end)


def run_of(steps: tuple[Step, ...], is_read_later: Callable[[Tensor], bool]) -> Run:
    """Steps with what they read from outside, role by role, and what is read of them there."""
    made: dict[int, int] = {}
    read: list[Tensor] = []
    wiring: list[int] = []
    for step in steps:
        for each in reads(step):
            assert isinstance(each, Tensor)
            if not is_literal(each):
                wiring.append(made.get(id(each), -1))
                if wiring[-1] < 0:
                    read.append(each)
        for given in results(step):
            made[id(given)] = len(made)
    given_out = [
        each if is_read_later(each) else None
        for step in steps
        for each in results(step)
        if isinstance(each, Tensor)
    ]
    return Run(steps, tuple(read), tuple(given_out), tuple(wiring))


def _gain(runs: Sequence[Run]) -> float:
    """The steps that are saved, less something for what goes in and out."""
    length = len(runs[0].steps)
    if length < _SHORTEST:
        return 0
    inputs = len(set(zip(*(map(id, run.read) for run in runs), strict=True)))
    outputs = sum(any(group) for group in zip(*(run.given for run in runs), strict=True))
    more = sum(each is not None for run in runs for each in run.given) - len(runs)
    return (len(runs) - 1) * length - len(runs) - inputs / 4 - outputs - 2 * more


def _replaced(sequence: _Sequence, block: _Block) -> list[Step]:
    """All steps, with invocations instead of the runs of a block."""
    steps: list[Step] = []
    done = 0
    for position, invocation in zip(block.positions, invocations(block.runs), strict=True):
        before = (*range(done, position.start), *position.skipped)
        steps += (step for unit in before for step in sequence.units[unit])
        steps.append(invocation)
        done = position.end
    return [*steps, *(step for unit in sequence.units[done:] for step in unit)]
