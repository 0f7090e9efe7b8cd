"""Boxes in layers, and lines between them: sizes and connections in, positions and paths out.

This is Sugiyama's method. Each box is in the layer below its sources; a connection that skips
layers has a bend in each of them, with space around it. Layers are sorted and placed by the
positions of their neighbours, some times down and up. A path is vertical inside of a layer and
slants between two, so it crosses no box.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import TypeAlias

_GAP = 24.0
_LAYER_GAP = 34.0
_BEND = 8.0
"""The width of the bend of a connection."""

_LIGHT = 0.01
"""The weight of a box without sources, such as a constant, which moves aside for others."""

_SWEEPS = 6
"""Number of rounds in which all layers are sorted and placed; those after half keep the order."""

Point: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True, slots=True)
class Layout:
    """The upper left corner of each box, the path of each connection, and the size of it all."""

    places: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layout_of(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place boxes of the given widths and heights, each above all those that it leads to.

    ``edges`` are pairs of indices, of which the first is the lower one; none is there twice.

    >>> layout_of([(20, 10), (30, 10)], [(0, 1)]).places
    ((29.0, 24.0), (24.0, 68.0))
    """
    ranks = _ranks(len(sizes), edges)
    layers: list[list[int]] = [[] for _ in range(max(ranks) + 1)]
    for box, rank in enumerate(ranks):
        layers[rank].append(box)
    widths = [width for width, _ in sizes]
    chains: list[list[int]] = []
    for source, target in edges:
        chain = [source]
        for rank in range(ranks[source] + 1, ranks[target]):
            layers[rank].append(len(widths))
            chain.append(len(widths))
            widths.append(_BEND)
        chains.append([*chain, target])
    middles = _middles(layers, widths, chains)
    left = _GAP - min(middle - width / 2 for middle, width in zip(middles, widths, strict=True))
    middles = [round(middle + left, 1) for middle in middles]
    right = max(middle + width / 2 for middle, width in zip(middles, widths, strict=True))
    heights = [max([sizes[each][1] for each in layer if each < len(sizes)]) for layer in layers]
    *tops, bottom = accumulate((each + _LAYER_GAP for each in heights), initial=_GAP)
    places = tuple(
        (middles[box] - width / 2, tops[rank] + (heights[rank] - height) / 2)
        for box, ((width, height), rank) in enumerate(zip(sizes, ranks, strict=True))
    )

    def path(chain: Sequence[int]) -> Iterator[Point]:
        source, target = chain[0], chain[-1]
        yield middles[source], places[source][1] + sizes[source][1]
        for (above, below), rank in zip(
            pairwise(chain), range(ranks[source], ranks[target]), strict=True
        ):
            yield middles[above], tops[rank] + heights[rank]
            yield middles[below], tops[rank + 1]
        yield middles[target], places[target][1]

    paths = tuple(tuple(each for each, _ in groupby(path(chain))) for chain in chains)
    return Layout(places, paths, right + _GAP, bottom - _LAYER_GAP + _GAP)


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: below its sources; one without sources is above its first reader."""
    ranks = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    readers: dict[int, int] = {}
    for source, target in edges:
        readers[source] = min(ranks[target], readers.get(source, count))
    reading = {target for _, target in edges}
    return [
        rank if box in reading or box not in readers else readers[box] - 1
        for box, rank in enumerate(ranks)
    ]


def _middles(
    layers: Sequence[list[int]], widths: Sequence[float], chains: Sequence[Sequence[int]]
) -> list[float]:
    """The horizontal positions of boxes and bends. Sorts the layers."""
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for upper, lower in (pair for chain in chains for pair in pairwise(chain)):
        below[upper].append(lower)
        above[lower].append(upper)
    middles = [0.0] * len(widths)
    weights = [1.0 if upper else _LIGHT for upper in above]

    def place(layer: list[int], neighbours: Sequence[Sequence[int]], is_sorted: bool) -> None:
        wanted = {}
        for each in layer:
            near = neighbours[each] or [each]
            weight = sum(weights[other] for other in near)
            wanted[each] = sum(weights[other] * middles[other] for other in near) / weight
        if not is_sorted:
            layer.sort(key=wanted.__getitem__)
        placed = _apart(*([of[each] for each in layer] for of in (wanted, widths, weights)))
        for each, middle in zip(layer, placed, strict=True):
            middles[each] = middle

    both = [[*upper, *lower] for upper, lower in zip(above, below, strict=True)]
    for sweep in range(_SWEEPS):
        is_sorted = sweep >= _SWEEPS // 2
        for layer in layers:
            place(layer, both if is_sorted else above, is_sorted)
        for layer in reversed(layers):
            place(layer, both if is_sorted else below, is_sorted)
    return middles


def _apart(
    wanted: Sequence[float], widths: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Middles in the given order that do not overlap, by least squares near the wanted ones.

    Neighbours that would overlap become a group, which is at the mean of what its members want.
    """
    steps = (_GAP + (left + right) / 2 for left, right in pairwise(widths))
    offsets = list(accumulate(steps, initial=0.0))
    groups: list[tuple[float, float, int]] = []
    for middle, offset, weight in zip(wanted, offsets, weights, strict=True):
        start, members = middle - offset, 1
        while groups and groups[-1][0] >= start:
            before, heavy, number = groups.pop()
            start = (before * heavy + start * weight) / (heavy + weight)
            weight, members = heavy + weight, number + members
        groups.append((start, weight, members))
    starts = (start for start, _, members in groups for _ in range(members))
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]
