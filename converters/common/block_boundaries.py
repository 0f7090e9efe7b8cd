"""Costs of cutting a sequence of steps into blocks, chosen so that cuts are where a person expects
them.

Input: steps. Output: a cost for each position. Steps of one node of the source are never separated.
The preferred cut is where the source names on both sides have least in common, then where few
tensors cross, then before a step that reads weights.
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
"""The number of repetitions whose costs are added up for a position."""


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The cost of a cut before each step, and after the last; None if the cut is not allowed."""

    costs: Sequence[Cost | None]

    def may_cut(self, position: tuple[int, int]) -> bool:
        """Whether a block may begin or end at a position."""
        return all(self.costs[each] is not None for each in position)

    def window(self, repeat: Repeat) -> tuple[int, int, Cost] | None:
        """Return begin, end and cost of the best block inside of a repeat, relative to its starts.

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
        """Return the cost of a cut at a position of a repeat.

        It is None if fewer than two starts allow one.
        """
        every = [self.costs[start + position] for start in repeat.starts[:_SAMPLE]]
        allowed = [each for each in every if each is not None]
        if len(allowed) < 2:
            return None
        names, crossing, bare = (sum(column) for column in zip(*allowed, strict=True))
        return names * 64 // len(allowed), crossing * 64 // len(allowed), bare * 64 // len(allowed)


def _cheapest(costs: Sequence[Cost | None], positions: range) -> list[int]:
    """Return the first position with the least cost, as a list; empty if no cut is allowed."""
    candidates = [
        (cost, number) for number, position in enumerate(positions) if (cost := costs[position])
    ]
    return [positions[min(candidates)[1]]] if candidates else []


def _added(left: Cost, right: Cost) -> Cost:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def boundaries(units: Sequence[Sequence[Step]], readers: Mapping[int, int]) -> Boundaries:
    """Return the costs of all cuts.

    ``readers`` has the last unit that reads a tensor, by identity.
    """
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
    """Whether the last step of a unit has the result of its node in the source."""
    return any(each.source for each in results(unit[-1]))


def _crossing(units: Sequence[Sequence[Step]], readers: Mapping[int, int]) -> list[int]:
    """Return for each cut the number of inputs and computed tensors that are read after it."""
    change = [0] * (len(units) + 2)
    computed = {id(each) for unit in units for step in unit for each in results(step)}
    read = {id(each): each for unit in units for step in unit for each in reads(step)}
    for key, each in read.items():
        if key not in computed and isinstance(each, Tensor) and each.value is None:
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
    """Return 1 for each unit that begins a node without weights, else 0."""
    flags: list[int] = []
    after = 1
    for unit in reversed(units):
        after = 1 if _ends_node(unit) else after
        weights = (
            isinstance(each, Tensor) and each.value is not None and bool(each.rank)
            for step in unit
            for each in reads(step)
        )
        after = 0 if any(weights) else after
        flags.append(after)
    return flags[::-1]


def _names_in_common(names: Sequence[tuple[str, ...]]) -> list[int]:
    """Return for each cut the number of common leading parts of the names before and after it."""
    before = _filled(names)
    after = _filled(names[::-1])[::-1]
    return [
        _in_common(left, right) if left and right else 0
        for left, right in zip(before, after, strict=True)
    ]


def _filled(names: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return for each cut the last name before it; () if there is none."""
    last_names: list[tuple[str, ...]] = [()]
    for name in names:
        last_names.append(name or last_names[-1])
    return last_names


def _in_common(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    count = 0
    for ours, theirs in zip(left, right, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _name(unit: Sequence[Step]) -> tuple[str, ...]:
    """Return the parts of a name that locates a step in the source; () if there is none."""
    for step in unit:
        for each in results(step):
            if is_path(each.source):
                return parts(each.source)
        for each in reads(step):
            if isinstance(each, Tensor) and each.value is not None and shows(each.source):
                return parts(each.source)
    return ()
