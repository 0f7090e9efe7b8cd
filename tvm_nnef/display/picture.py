"""A Graph as a picture: SVG text, from the inputs at the top down to the outputs.

Shows the outer level, without variables and constants; a box for each operation, with its
operator, its label and the types of its results. No other program is needed: ``layers`` places the
boxes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tvm_nnef.display.layers import Layout, layout_of
from tvm_nnef.display.rows import described
from tvm_nnef.graph.checks import own_symbols
from tvm_nnef.graph.nodes import Graph, If, Loop, Operand, Tensor, flatten, operator_name, tensors

_CHARACTER = 7
_LINE = 15
_STYLE = """
svg { --back: #ffffff; --text: #1c2430; --muted: #667085; --line: #98a2b3; --box: #f8fafc;
  --input: #dbeafe; --output: #dcfce7; --control: #fef3c7; }
@media (prefers-color-scheme: dark) { svg { --back: #10141b; --text: #e4e8ef; --muted: #98a2b3;
  --line: #667085; --box: #1d2430; --input: #1e3a5f; --output: #14432a; --control: #4a3a0c; } }
.back { fill: var(--back); } text { fill: var(--muted); } text.first { fill: var(--text);
  font-weight: bold; } rect.box { fill: var(--box); stroke: var(--line); }
rect.input { fill: var(--input); } rect.output { fill: var(--output); }
rect.control { fill: var(--control); } path.edge { fill: none; stroke: var(--line);
  stroke-width: 1.5; } marker path { fill: var(--line); }
"""


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
    edges = [(source, i) for i, box in enumerate(boxes) for source in box.sources]
    layout = layout_of([(box.width, box.height) for box in boxes], edges)
    size = f'width="{layout.width:g}" height="{layout.height:g}"'
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {layout.width:g} {layout.height:g}" font-family="monospace" font-size="12">',
        f"<title>{escape(graph.name)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 1 7 4 0 7z"/></marker></defs>',
        f'<rect class="back" {size}/>',
        *map(_edge, layout.paths),
        *(_drawn(box, layout, index) for index, box in enumerate(boxes)),
    ]
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
        lines = [port.name, described(graph, port.operand), *_bounds(port.operand, graph)]
        index = add(lines, "input", ())
        source.update(dict.fromkeys(tensors(port.operand), index))
    for node in graph.operations:
        lines = [
            operator_name(node),
            *([node.label] if node.label else []),
            *(described(graph, each) for each in node.results if each is not None),
        ]
        kind = "control" if isinstance(node, If | Loop) else "operation"
        index = add(lines, kind, node.operands)
        source.update(dict.fromkeys(flatten(node.results), index))
    for port in graph.outputs:
        add((port.name,), "output", (port.operand,))
    return boxes


def _bounds(operand: Operand, graph: Graph) -> list[str]:
    names = sorted(own_symbols(tensors(operand)))
    return [f"{name} <= {graph.limits[name]}" for name in names if name in graph.limits]


def _edge(path: Sequence[tuple[float, float]]) -> str:
    """A line with rounded corners."""
    parts = ["M{:g} {:g}".format(*path[0])]
    for before, (x, y), after in zip(path, path[1:], path[2:], strict=False):
        near, far = (_toward((x, y), other) for other in (before, after))
        parts.append("L{:g} {:g}Q{:g} {:g} {:g} {:g}".format(*near, x, y, *far))
    parts.append("L{:g} {:g}".format(*path[-1]))
    return f'<path class="edge" d="{"".join(parts)}" marker-end="url(#arrow)"/>'


def _toward(point: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """A point some pixels from another one, at most halfway to the other end of its line."""
    distance = math.dist(point, other) or 1.0
    step = min(8.0, distance / 2) / distance
    return tuple(round(a + (b - a) * step, 1) for a, b in zip(point, other, strict=True))  # type: ignore[return-value]


def _drawn(box: Box, layout: Layout, index: int) -> str:
    left, top = layout.places[index]
    rows = [
        f'<rect class="box {box.kind}" x="{left:g}" y="{top:g}" width="{box.width}" '
        f'height="{box.height}" rx="{4 if box.kind == "operation" else 12}"/>'
    ]
    for number, line in enumerate(box.lines):
        x, y = left + box.width / 2, top + 6 + _LINE * (number + 0.75)
        kind = ' class="first"' if number == 0 else ""
        rows.append(f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{kind}>{escape(line)}</text>')
    return "\n".join(rows)
