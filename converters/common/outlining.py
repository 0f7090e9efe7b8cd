"""Outlining of repeated blocks of steps into invocations of one operator.

Input: a converted graph. Output: an equal graph in which every repetition of a block is an
:class:`~tvm_nnef.converters.common.tensors.Invocation`. Two runs of steps are the same block if
their operators, attributes, dtypes, ranks and inner wiring are the same; tensors from outside,
weights included, become inputs. Sizes of dimensions may differ. ``blocks`` names the operator and
its tensors, ``emission`` writes it.
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
"""Lower limit of the steps of a block."""

_LEAST_GAIN = 4
"""Lower limit of the number of steps by which an operator must shorten the text."""

_MOST_OPERATORS = 24
"""Upper limit of the operators of a model; further repetitions do not matter to a reader."""

_MOST_STEPS = 300_000
"""Upper limit of the steps that are searched in total, over the searches for one block after
another.
"""


def outlined(graph: ConvertedGraph) -> ConvertedGraph:
    """Return the graph with its repeated blocks as operators, the most rewarding block first.

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
    """Steps in units: a step, or repeated invocations of one operator.

    ``letters`` are equal for units that can replace each other. ``readers`` has the number of the
    last unit that reads a tensor, by its identity; that of outputs is after all units.
    """

    units: Sequence[tuple[Step, ...]]
    letters: Sequence[int]
    readers: dict[int, int]
    boundaries: Boundaries


@dataclass(frozen=True, slots=True)
class _Position:
    """Begin and end of a run among the units; the skipped units are not part of it."""

    start: int
    end: int
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Block:
    """Runs of equal steps: their positions, the steps that they save, and the cost of the cuts."""

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
    """Return the properties that units of a block share; a unique object if the unit fits in no
    block.
    """
    step = unit[0]
    match step:
        case Invocation(operator):
            every = (each for invoked in unit for each in invoked.results)
            return (id(operator), tuple(each is None for each in every))
        case Call(operator, types, attributes) if not is_dynamic(step):
            arguments = tuple(map(_argument, step.arguments))
            result_keys = tuple(map(_argument, step.results))
            attribute_keys = tuple((name, _attribute(value)) for name, value in attributes.items())
            return (operator, types, attribute_keys, arguments, result_keys)
    return object()


def is_dynamic(step: Step) -> bool:
    """Whether a step involves packs or data-dependent dimensions."""
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
    """Return the block that saves most, if one saves enough.

    If most of it is a repeated smaller block, that one is preferred; among rotations of the block,
    the one with the lowest cost of cuts.
    """
    blocks = [_block(sequence, each) for each in repeats(sequence.letters, 2)]
    worthy = [each for each in blocks if each is not None and each.gain >= _LEAST_GAIN]
    best = max(worthy, key=lambda each: each.gain, default=None)
    while best is not None:
        inner = [each for each in worthy if _fills(each, best)]
        if not inner:
            rotations = (each for each in worthy if _is_rotation(each, best))
            return min(rotations, key=lambda each: (each.cost, -each.gain))
        best = max(inner, key=lambda each: each.gain)
    return None


def _fills(inner: _Block, outer: _Block) -> bool:
    """Whether two or more repetitions of a block make up two thirds of another."""
    whole = outer.positions[0]
    within = [p for p in inner.positions if whole.start <= p.start and p.end <= whole.end]
    smaller = inner.length < outer.length
    return smaller and len(within) > 1 and 3 * len(within) * inner.length >= 2 * outer.length


def _is_rotation(block: _Block, best: _Block) -> bool:
    """Whether a block has the length of another, and about the same gain, give or take a
    repetition.
    """
    return block.length == best.length and block.gain >= best.gain - 1.5 * best.length


def _block(sequence: _Sequence, repeat: Repeat) -> _Block | None:
    """Return the part of a repeat that can be one operator; None if there is none."""
    window_and_cost = sequence.boundaries.window(repeat)
    if window_and_cost is None:
        return None
    *window, cost = window_and_cost
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
    """Return positions, extended by those at the ends that match with other steps in between.

    This finds the first layer of a network, between whose steps others compute what all layers
    read.
    """
    word = sequence.letters[positions[0].start : positions[0].end]
    extended: list[_Position] = []
    free = 0
    for position in positions:
        before = _loose(sequence, word[::-1], range(position.start - 1, free - 1, -1))
        extended += [position] if before is None else [before, position]
        free = position.end
    after = _loose(sequence, word, range(free, len(sequence.units)))
    return extended if after is None else [*extended, after]


def _loose(sequence: _Sequence, word: Sequence[int], units: range) -> _Position | None:
    """Return the position of a word with other units in between, if it begins at the first of the
    units.

    Units in between must not read results of the word: they are moved before it.
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
    """Return the run of some steps: tensors read from outside, results read outside, and wiring."""
    results_by_id: dict[int, int] = {}
    read: list[Tensor] = []
    wiring: list[int] = []
    for step in steps:
        for each in reads(step):
            assert isinstance(each, Tensor)
            if not is_literal(each):
                wiring.append(results_by_id.get(id(each), -1))
                if wiring[-1] < 0:
                    read.append(each)
        for given in results(step):
            results_by_id[id(given)] = len(results_by_id)
    given_out = [
        each if is_read_later(each) else None
        for step in steps
        for each in results(step)
        if isinstance(each, Tensor)
    ]
    return Run(steps, tuple(read), tuple(given_out), tuple(wiring))


def _gain(runs: Sequence[Run]) -> float:
    """Return the steps that are saved, less a cost for inputs and outputs."""
    length = len(runs[0].steps)
    if length < _SHORTEST:
        return 0
    inputs = len(set(zip(*(map(id, run.read) for run in runs), strict=True)))
    outputs = sum(any(group) for group in zip(*(run.given for run in runs), strict=True))
    more = sum(each is not None for run in runs for each in run.given) - len(runs)
    return (len(runs) - 1) * length - len(runs) - inputs / 4 - outputs - 2 * more


def _replaced(sequence: _Sequence, block: _Block) -> list[Step]:
    """Return all steps, with the runs of a block replaced by invocations."""
    steps: list[Step] = []
    done = 0
    for position, invocation in zip(block.positions, invocations(block.runs), strict=True):
        before = (*range(done, position.start), *position.skipped)
        steps += (step for unit in before for step in sequence.units[unit])
        steps.append(invocation)
        done = position.end
    return [*steps, *(step for unit in sequence.units[done:] for step in unit)]
