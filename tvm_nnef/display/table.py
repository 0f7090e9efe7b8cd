"""A Graph as a table of its operations, for terminals, files and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_nnef.diagnostics import printable
from tvm_nnef.display.counts import at_bounds
from tvm_nnef.display.rows import Row, Totals, rows_of, totals_of
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.semantics.program import Program
from tvm_nnef.support.html_table import html_table
from tvm_nnef.symbolic import trees
from tvm_nnef.symbolic.dimensions import Dimension

HEADS = ("name", "operator", "output", "parameters", "multiply-adds")
_NUMBERS = (3, 4)
_GAP = 2
_LEAST = (12, 10, 14)
"""The widths below which the columns with text are not cut."""

_LONGEST = 20
"""The longest formula that a cell shows; longer ones are replaced by their upper bound."""


def table(
    graph: Graph, program: Program | None, *, width: int | None = None, full: bool = False
) -> str:
    """The operations of a graph, a line each, and the totals.

    Lines are cut to ``width``, if there is one. ``full``: nothing is cut, every attribute is
    there, also those with their defaults, and names are full. ``program`` declares the defaults.

    >>> import tvm_nnef
    >>> text = "graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = -x; } }\\n"
    >>> model = tvm_nnef.load_model(text)
    >>> print(table(tvm_nnef.compose(model), model.program).splitlines()[2])
    name  operator  output      parameters  multiply-adds
    """
    rows = rows_of(graph, None if full else program)
    cells = [HEADS, *(_cells(row, graph.limits, full) for row in rows)]
    bounds = ", ".join(f"{name} <= {bound}" for name, bound in graph.limits.items())
    title = f"graph {graph.signature}{f', {bounds}' if bounds else ''}"
    totals = totals_text(totals_of(graph, rows), graph.limits)
    label = max(map(len, totals))
    lines = [f"{name:{label}}  {value}".rstrip() for name, value in totals.items()]
    return "\n".join([printable(title), "", *_aligned(cells, None if full else width), "", *lines])


def html(graph: Graph) -> str:
    """The same table for a notebook."""
    rows = rows_of(graph)
    cells = [_cells(row, graph.limits, full=False) for row in rows]
    cells = [(name.replace("  ", "\u2003"), operator.partition("{")[0], *rest)
             for name, operator, *rest in cells]  # fmt: skip
    totals = totals_of(graph, rows)
    last = (
        "total",
        "",
        "",
        f"{totals.parameters:,}",
        count_text(totals.multiply_adds, graph.limits),
    )
    return html_table(f"graph {graph.signature}", HEADS, [*cells, last], numbers=_NUMBERS)


def _cells(row: Row, bounds: Mapping[str, int], full: bool) -> tuple[str, ...]:
    name = row.full_name if full else row.name
    return (
        printable("  " * row.depth + name, single_line=True),
        printable(row.operator + row.attributes, single_line=True),
        row.types,
        f"{row.parameters:,}" if row.parameters else "",
        "" if row.multiply_adds == 0 else count_text(row.multiply_adds, bounds),
    )


def count_text(value: Dimension | None, bounds: Mapping[str, int]) -> str:
    """A number; a short formula of dynamic dimensions; "?" for what is data-dependent."""
    if isinstance(value, int):
        return f"{value:,}"
    if value is None:
        return "?"
    text = trees.text(value)
    if len(text) <= _LONGEST:
        return text
    most = at_bounds(value, bounds)
    return "?" if most is None else f"<= {most:,}"


def totals_text(totals: Totals, bounds: Mapping[str, int]) -> dict[str, str]:
    """The totals of a graph as names and texts."""
    parameters = f"{totals.parameters:,}"
    if totals.parameters:
        parameters += f" ({count_text(totals.parameter_bytes, bounds)} bytes)"
    peak = "?" if totals.peak_bytes is None else f"{totals.peak_bytes:,} bytes"
    return {
        "operations": f"{totals.operations:,}",
        "parameters": parameters,
        "multiply-adds": count_text(totals.multiply_adds, bounds),
        "peak memory": f"{peak} of inputs and results, without fusion",
    }


def _aligned(cells: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Columns of text; those that are not numbers are cut if the lines are too long."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        # Attributes go first, then shapes, names at last.
        for column in (1, 2, 0):
            excess = sum(widths) + _GAP * (len(widths) - 1) - width
            widths[column] -= min(max(excess, 0), max(widths[column] - _LEAST[column], 0))
    return [_line(row, widths) for row in cells]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    texts = [
        f"{text:>{size}}" if column in _NUMBERS else f"{_cut(text, size):{size}}"
        for column, (text, size) in enumerate(zip(row, widths, strict=True))
    ]
    return (" " * _GAP).join(texts).rstrip()


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
