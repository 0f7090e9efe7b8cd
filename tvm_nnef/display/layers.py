"""Boxes in layers, and lines between them: sizes and connections in, places and paths out.

grandalf orders the boxes of each layer and places them (Sugiyama's method); connections that skip
layers have their own space in each of them. A path is vertical inside of a layer and slants
between two, so it crosses no box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, TypeAlias

from tvm_nnef.support.requirements import needed_for

with needed_for("an SVG picture"):
    from grandalf.graphs import Edge, Graph, Vertex
    from grandalf.layouts import SugiyamaLayout

_GAP = 24.0
_LAYER_GAP = 34.0

Point: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True, slots=True)
class Layout:
    """The upper left corner of each box, the path of each connection, and the size of it all."""

    places: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]
    width: float
    height: float


@dataclass(slots=True)
class _View:
    """What grandalf knows of a box: its size in, its middle out."""

    w: float
    h: float
    xy: Point = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Layer:
    """The upper and the lower end of a layer of boxes."""

    top: float
    bottom: float


def layout_of(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place boxes of the given widths and heights, each above all those that it leads to.

    ``edges`` are pairs of indices; they form no circle, and none is there twice.

    >>> layout_of([(20, 10), (30, 10)], [(0, 1)]).places
    ((29.0, 24.0), (24.0, 68.0))
    """
    vertices = [Vertex(number) for number in range(len(sizes))]
    for vertex, size in zip(vertices, sizes, strict=True):
        vertex.view = _View(*size)
    connections = [Edge(vertices[source], vertices[target]) for source, target in edges]
    places: dict[int, Point] = {}
    paths: dict[Any, tuple[Point, ...]] = {}
    left, bottom = _GAP, _GAP
    for component in Graph(vertices, connections).C:
        sugiyama = _ordered(component)
        right = _shifted(sugiyama, left)
        layers = dict(_layers(sugiyama))
        for vertex in component.sV:
            (x, y), view = vertex.view.xy, vertex.view
            places[vertex.data] = (x - view.w / 2, y - view.h / 2)
        for edge in component.sE:
            paths[edge] = tuple(each for each, _ in groupby(_path(sugiyama, edge, layers)))
        left = right + _GAP
        bottom = max(bottom, max(layer.bottom for layer in layers.values()))
    return Layout(
        tuple(places[number] for number in range(len(sizes))),
        tuple(paths[edge] for edge in connections),
        left,
        bottom + _GAP,
    )


def _ordered(component: Any) -> Any:
    sugiyama = SugiyamaLayout(component)
    sugiyama.xspace, sugiyama.yspace = _GAP, _LAYER_GAP
    sugiyama.dw, sugiyama.dh = 8, 1
    # Without circles nothing has to be turned around, which grandalf finds out by recursion.
    component.degenerated_edges = []
    sugiyama.init_all(inverted_edges=[], optimize=True)
    sugiyama.draw(3)
    for layer in sugiyama.layers:
        _separate([vertex.view for vertex in layer])
    return sugiyama


def _separate(views: Sequence[_View]) -> None:
    """Push boxes of a layer to the right that overlap, as grandalf leaves some that do."""
    for left, view in pairwise(views):
        least = left.xy[0] + (left.w + view.w) / 2 + _GAP / 2
        view.xy = (max(view.xy[0], least), view.xy[1])


def _shifted(sugiyama: Any, left: float) -> float:
    """Move everything to the right of ``left`` and below the margin; the new right end."""
    every = [vertex.view for layer in sugiyama.layers for vertex in layer]
    x = left - min(view.xy[0] - view.w / 2 for view in every)
    y = _GAP - min(view.xy[1] - view.h / 2 for view in every)
    for view in every:
        view.xy = (round(view.xy[0] + x, 1), round(view.xy[1] + y, 1))
    return float(max(view.xy[0] + view.w / 2 for view in every))


def _layers(sugiyama: Any) -> Iterator[tuple[int, _Layer]]:
    for rank, layer in enumerate(sugiyama.layers):
        half = max(vertex.view.h for vertex in layer) / 2
        middle = layer[0].view.xy[1]
        yield rank, _Layer(middle - half, middle + half)


def _path(sugiyama: Any, edge: Any, layers: Mapping[int, _Layer]) -> Iterator[Point]:
    source, target = edge.v
    first, last = (sugiyama.grx[vertex].rank for vertex in edge.v)
    (x, y), (end_x, end_y) = source.view.xy, target.view.xy
    yield x, y + source.view.h / 2
    yield x, layers[first].bottom
    for rank in range(first + 1, last):
        passed = sugiyama.ctrls[edge][rank].view.xy[0]
        yield passed, layers[rank].top
        yield passed, layers[rank].bottom
    yield end_x, layers[last].top
    yield end_x, end_y - target.view.h / 2
