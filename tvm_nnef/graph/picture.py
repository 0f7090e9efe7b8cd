"""A graph as a picture: SVG text, laid out in layers from the inputs down to the outputs.

Shows the outer level, without variables and constants; a box for each operation, with its
operator, its label and the shapes of its results. Nothing is computed, no other program is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tvm_nnef.graph.checks import own_symbols
from tvm_nnef.graph.nodes import Graph, If, Loop, Operand, Tensor, flatten, operator_name, tensors
from tvm_nnef.symbolic import trees

_CHARACTER = 7
_LINE = 15
_GAP = 24
_LAYER_GAP = 34
_COLORS: Mapping[str, str] = {
    "input": "#dbeafe", "output": "#dcfce7", "control": "#fef3c7", "operation": "#f8fafc",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Box:
    """A box before it is placed: its lines of text, its kind, and the boxes that it reads."""

    lines: tuple[str, ...]
    kind: str
    sources: tuple[int, ...]

    @property
    def width(self) -> int:
        """Pixels, from the longest line."""
        return max(len(line) for line in self.lines) * _CHARACTER + 20

    @property
    def height(self) -> int:
        """Pixels, from the number of lines."""
        return len(self.lines) * _LINE + 12


def svg(graph: Graph) -> str:
    """The picture of a graph, deterministic."""
    boxes = _boxes(graph)
    layers = _layers(boxes)
    places, width, height = _places(boxes, layers)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="12">',
        f"<title>{escape(graph.name)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for index, box in enumerate(boxes):
        rows += [_edge(boxes, places, source, index) for source in box.sources]
    rows += [_drawn(box, *places[index]) for index, box in enumerate(boxes)]
    return "\n".join([*rows, "</svg>", ""])


def _boxes(graph: Graph) -> list[Box]:
    """Inputs, operations, outputs, in an order in which every box comes after its sources."""
    boxes: list[Box] = []
    source: dict[Tensor, int] = {}

    def add(lines: Sequence[str], kind: str, reads: Sequence[Operand]) -> int:
        found = (source[tensor] for tensor in flatten(tuple(reads)) if tensor in source)
        boxes.append(Box(tuple(lines), kind, tuple(dict.fromkeys(found))))
        return len(boxes) - 1

    for port in graph.inputs:
        lines = [port.name, _shapes(port.operand), *_bounds(port.operand, graph)]
        index = add(lines, "input", ())
        source.update(dict.fromkeys(tensors(port.operand), index))
    for node in graph.operations:
        lines = [
            operator_name(node),
            *([node.label] if node.label else []),
            *map(_shapes, node.results),
        ]
        kind = "control" if isinstance(node, If | Loop) else "operation"
        index = add(lines, kind, node.operands)
        source.update(dict.fromkeys(flatten(node.results), index))
    for port in graph.outputs:
        add((port.name,), "output", (port.operand,))
    return boxes


def _shapes(operand: Operand) -> str:
    found = tensors(operand)
    if not found:
        return "null"
    shape = " x ".join(map(trees.text, found[0].shape)) or "scalar"
    return f"{len(found)} of {shape}" if isinstance(operand, tuple) else shape


def _bounds(operand: Operand, graph: Graph) -> list[str]:
    names = sorted(own_symbols(tensors(operand)))
    return [f"{name} <= {graph.bounds[name]}" for name in names if name in graph.bounds]


def _layers(boxes: Sequence[Box]) -> list[list[int]]:
    """The boxes by their longest distance from a box without sources."""
    depth: list[int] = []
    for box in boxes:
        depth.append(1 + max((depth[source] for source in box.sources), default=-1))
    layers: dict[int, list[int]] = defaultdict(list)
    for index, layer in enumerate(depth):
        layers[layer].append(index)
    return [layers[layer] for layer in sorted(layers)]


def _places(
    boxes: Sequence[Box], layers: Sequence[Sequence[int]]
) -> tuple[list[tuple[float, float]], int, int]:
    """The upper left corner of each box, and the size of the picture."""
    widths = [sum(boxes[i].width + _GAP for i in layer) + _GAP for layer in layers]
    width = max(widths, default=_GAP)
    places = [(0.0, 0.0)] * len(boxes)
    top = float(_GAP)
    for layer, total in zip(layers, widths, strict=True):
        # A box stands near the middle of what it reads, which keeps edges from crossing.
        ordered = sorted(layer, key=lambda index: (_middle(boxes, places, index), index))
        left = (width - total) / 2 + _GAP
        for index in ordered:
            places[index] = (left, top)
            left += boxes[index].width + _GAP
        top += max(boxes[index].height for index in layer) + _LAYER_GAP
    return places, width, int(top - _LAYER_GAP + _GAP)


def _middle(boxes: Sequence[Box], places: Sequence[tuple[float, float]], index: int) -> float:
    sources = boxes[index].sources
    centers = [places[source][0] + boxes[source].width / 2 for source in sources]
    return sum(centers) / len(centers) if centers else 0.0


def _edge(
    boxes: Sequence[Box], places: Sequence[tuple[float, float]], source: int, target: int
) -> str:
    start_x = places[source][0] + boxes[source].width / 2
    start_y = places[source][1] + boxes[source].height
    end_x, end_y = places[target][0] + boxes[target].width / 2, places[target][1]
    bend = (start_y + end_y) / 2
    path = f"M{start_x:g} {start_y:g} C{start_x:g} {bend:g} {end_x:g} {bend:g} {end_x:g} {end_y:g}"
    return f'<path d="{path}" fill="none" stroke="#94a3b8" stroke-width="1.5"/>'


def _drawn(box: Box, left: float, top: float) -> str:
    color, radius = _COLORS[box.kind], 4 if box.kind == "operation" else 12
    rows = [
        f'<rect x="{left:g}" y="{top:g}" width="{box.width}" height="{box.height}" '
        f'rx="{radius}" fill="{color}" stroke="#475569"/>'
    ]
    for number, line in enumerate(box.lines):
        x, y = left + box.width / 2, top + 6 + _LINE * (number + 0.75)
        weight = ' font-weight="bold"' if number == 0 else ' fill="#475569"'
        rows.append(f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{weight}>{escape(line)}</text>')
    return "\n".join(rows)
