"""Where a sequence of steps is best cut: what a person would see as the border of a block.

Never inside of what one node of the source became. Else where the names of the source have least
in common on both sides, then where few tensors cross, then before a step that reads weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from tvm_nnef.converters.common.names import is_path, parts, shows
from tvm_nnef.converters.common.repeats import Repeat
from tvm_nnef.converters.common.steps import reads, results
from tvm_nnef.converters.common.tensors import Step, Tensor

Cost: TypeAlias = "tuple[int, int, int]"

_SAMPLE = 8
"""Costs are added up over as many of the positions where a repeat begins."""


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The cost of a cut before each step, and after the last; None if it is not allowed."""

    costs: Sequence[Cost | None]

    def may_cut(self, position: tuple[int, int]) -> bool:
        """Whether a block may begin and end there."""
        return all(self.costs[each] is not None for each in position)

    def window(self, repeat: Repeat) -> tuple[int, int, Cost] | None:
        """Begin, end and cost of the best block inside of a repeat, counted from its starts.

        A block of a repeat that overlaps itself is as long as its period.
        """
        costs = [self._sum(repeat, position) for position in range(repeat.length + 1)]
        period, length = repeat.unit, repeat.length
        if period < length:
            ends = [(begin, begin + period) for begin in range(length - period, -1, -1)]
        else:
            first = _cheapest(costs, range(length // 3 + 1))
            last = _cheapest(costs, range(length, length - length // 3 - 1, -1))
            ends = [(begin, end) for begin in first for end in last if begin < end]
        usable = [
            (begin, end, _added(before, after))
            for begin, end in ends
            if (before := costs[begin]) and (after := costs[end])
        ]
        return min(usable, key=lambda each: each[2], default=None)

    def _sum(self, repeat: Repeat, position: int) -> Cost | None:
        """The cost of a cut at a position of a repeat, None if hardly any start allows one."""
        every = [self.costs[start + position] for start in repeat.starts[:_SAMPLE]]
        found = [each for each in every if each is not None]
        if len(found) < 2:
            return None
        names, crossing, bare = (sum(column) for column in zip(*found, strict=True))
        return names * 64 // len(found), crossing * 64 // len(found), bare * 64 // len(found)


def _cheapest(costs: Sequence[Cost | None], positions: range) -> list[int]:
    """The first of the positions where a cut costs least, if there is one."""
    known = [
        (cost, number) for number, position in enumerate(positions) if (cost := costs[position])
    ]
    return [positions[min(known)[1]]] if known else []


def _added(left: Cost, right: Cost) -> Cost:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def boundaries(units: Sequence[Sequence[Step]], readers: Mapping[int, int]) -> Boundaries:
    """The costs of all cuts; ``readers`` has the last unit that reads a tensor, by identity."""
    crossing = _crossing(units, readers)
    names = _names_in_common([_name(unit) for unit in units])
    costs: list[Cost | None] = []
    whole = True
    bare = _without_weights(units)
    for position, unit in enumerate(units):
        costs.append((names[position], crossing[position], bare[position]) if whole else None)
        whole = _ends_node(unit)
    return Boundaries([*costs, (0, crossing[-1], 0)])


def _ends_node(unit: Sequence[Step]) -> bool:
    """Whether the last step of a unit gives what its node of the source gives."""
    return any(each.source for each in results(unit[-1]))


def _crossing(units: Sequence[Sequence[Step]], readers: Mapping[int, int]) -> list[int]:
    """How many tensors that steps have made, or that are inputs, are read after each cut."""
    change = [0] * (len(units) + 2)
    made = {id(each) for unit in units for step in unit for each in results(step)}
    read = {id(each): each for unit in units for step in unit for each in reads(step)}
    for key, each in read.items():
        if key not in made and isinstance(each, Tensor) and each.value is None:
            change[0] += 1
            change[readers[key] + 1] -= 1
    for position, unit in enumerate(units):
        for step in unit:
            for each in results(step):
                last = readers.get(id(each), position)
                if last > position:
                    change[position + 1] += 1
                    change[last + 1] -= 1
    return list(accumulate(change))[: len(units) + 1]


def _without_weights(units: Sequence[Sequence[Step]]) -> list[int]:
    """1 for units that begin a node which reads no weights, else 0."""
    found: list[int] = []
    after = 1
    for unit in reversed(units):
        after = 1 if _ends_node(unit) else after
        weights = (
            isinstance(each, Tensor) and each.value is not None and bool(each.rank)
            for step in unit
            for each in reads(step)
        )
        after = 0 if any(weights) else after
        found.append(after)
    return found[::-1]


def _names_in_common(names: Sequence[tuple[str, ...]]) -> list[int]:
    """How many parts the last name before a cut and the first one after it have in common."""
    before = _filled(names)
    after = _filled(names[::-1])[::-1]
    return [
        _in_common(left, right) if left and right else 0
        for left, right in zip(before, after, strict=True)
    ]


def _filled(names: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """For each cut the last name before it, () if there is none."""
    found: list[tuple[str, ...]] = [()]
    for name in names:
        found.append(name or found[-1])
    return found


def _in_common(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    count = 0
    for ours, theirs in zip(left, right, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _name(unit: Sequence[Step]) -> tuple[str, ...]:
    """The parts of a name that shows where in the source a step belongs; () if none does."""
    for step in unit:
        for each in results(step):
            if is_path(each.source):
                return parts(each.source)
        for each in reads(step):
            if isinstance(each, Tensor) and each.value is not None and shows(each.source):
                return parts(each.source)
    return ()
