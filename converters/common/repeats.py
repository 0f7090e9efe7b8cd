"""Search for repeated parts of a sequence.

Input: letters. Output: stretches that occur more than once. A suffix array finds them in nearly
linear time. The meaning of letters and the value of stretches are unknown here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 32
"""Upper limit of the number of stretches."""

_SAME_UNIT = 2
"""Upper limit of stretches whose units have the same length: most are rotations of each other."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A stretch of ``length`` letters that begins at each of ``starts``, in ascending order.

    It extends while the letters at all of these starts are the same. If the least distance of two
    starts is less than ``length``, the stretches overlap, with this distance as their period.
    """

    length: int
    starts: tuple[int, ...]
    distance: int

    @property
    def unit(self) -> int:
        """The number of letters that each start can use without overlap."""
        return min(self.length, self.distance)


def repeats(letters: Sequence[int], shortest: int) -> list[Repeat]:
    """Return stretches of at least ``shortest`` letters, those first that could save most
    letters.
    """
    if len(letters) < 2 * shortest:
        return []
    suffixes = _suffixes(np.asarray(letters, np.int64))
    stretches: list[Repeat] = []
    for length, first, last in _intervals(_common(letters, suffixes)):
        # Beyond twice the sequence, the stretches overlap, so that shorter ones show it too.
        if length >= shortest and (last - first + 1) * length <= 2 * len(letters):
            starts = np.sort(suffixes[first : last + 1])
            distance = int(np.diff(starts).min())
            if distance >= shortest:
                stretches.append(Repeat(length, tuple(starts.tolist()), distance))
    stretches.sort(
        key=lambda each: (-(len(each.starts) - 1) * each.unit, -each.length, each.starts)
    )
    return list(_varied(stretches))


def _varied(stretches: Sequence[Repeat]) -> Iterator[Repeat]:
    """Return the first stretches that have different units."""
    units: dict[int, int] = {}
    for each in stretches:
        units[each.unit] = units.get(each.unit, 0) + 1
        if units[each.unit] <= _SAME_UNIT:
            yield each
        if sum(min(number, _SAME_UNIT) for number in units.values()) >= _MOST:
            return


def _suffixes(letters: Integers) -> Integers:
    """Return the sorted positions of suffixes, computed by doubling the compared length."""
    rank = np.unique(letters, return_inverse=True)[1].reshape(-1).astype(np.int64)
    size, width = len(letters), 1
    while True:
        following = np.full(size, -1, np.int64)
        following[:-width] = rank[width:]
        keys = rank * (size + 1) + following + 1
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        ranks = np.concatenate(([0], np.cumsum(ordered[1:] != ordered[:-1])))
        rank = np.empty(size, np.int64)
        rank[order] = ranks
        width *= 2
        if ranks[-1] == size - 1 or width >= size:
            return order


def _common(letters: Sequence[int], suffixes: Integers) -> list[int]:
    """Return the length of the common prefix of each suffix and its predecessor in order
    (Kasai).
    """
    order = suffixes.tolist()
    position = [0] * len(order)
    for number, start in enumerate(order):
        position[start] = number
    common, length = [0] * len(order), 0
    for start, number in enumerate(position):
        if number == 0:
            length = 0
            continue
        other = order[number - 1]
        limit = len(order) - max(start, other)
        while length < limit and letters[start + length] == letters[other + length]:
            length += 1
        common[number] = length
        length = max(0, length - 1)
    return common


def _intervals(common: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the common prefixes of adjacent suffixes: the length, the first and last suffix."""
    stack: list[tuple[int, int]] = []
    for position, length in enumerate((*common[1:], 0)):
        first = position
        while stack and stack[-1][0] > length:
            longer, first = stack.pop()
            yield longer, first, position
        if length and (not stack or stack[-1][0] < length):
            stack.append((length, first))
