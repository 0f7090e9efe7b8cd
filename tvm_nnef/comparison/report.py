"""The result of a comparison: rows for tensors, as objects, a table, a diagnostic, and JSON."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tvm_nnef.comparison.differences import Difference
from tvm_nnef.comparison.source import Origin
from tvm_nnef.diagnostics import Diagnostic, Note, Span
from tvm_nnef.graph.nodes import Node, Tensor, operator_name
from tvm_nnef.support.requirements import needed_for

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_OURS = frozenset(("reference", "mapped", "formula"))
"""The routes that execute our model, not its source."""

WIDTH = 160
"""Columns of a table if there is no terminal to ask."""


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor that two routes have computed, and the node of the graph that computes it.

    ``sides`` are the two computations. ``node`` is None for an output of the built program.
    ``depth`` counts the compositions that were opened to get here. ``origin`` is the node of the
    source of a converted model, if a side executes that, and ``parts`` the other nodes into which
    the conversion has turned it.
    """

    tensor: Tensor
    node: Node | None
    difference: Difference
    sides: tuple[str, str]
    depth: int = 0
    origin: Origin | None = None
    parts: tuple[Node, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether both sides are the same up to the tolerances."""
        return self.difference.agrees

    @property
    def operator(self) -> str:
        """The operator's name; "if", "loop", and "(...)" for the whole graph."""
        return f"({self.sides[1]})" if self.node is None else operator_name(self.node)

    @property
    def label(self) -> str:
        """The label of the invocation in the model."""
        return "" if self.node is None else self.node.label

    @property
    def line(self) -> int | None:
        """The line of the invocation, from 1."""
        if not self._trace:
            return None
        span = self._trace[-1]
        return span.source.position(span.start)[0]

    @property
    def _trace(self) -> tuple[Span, ...]:
        return () if self.node is None else self.node.trace

    def diagnostic(self, *, body_agrees: bool = False) -> Diagnostic:
        """Return the difference as an error at the location of the invocation.

        ``body_agrees`` means that all operations in the body of a composition agree.
        """
        left, right = self.sides
        location = f"in '{self.label}' ({self.operator}): " if self.label else f"{self.operator}: "
        if self.node is None:
            location = "outputs of the built program: "
        message = (
            f"{location}{left} and {right} give different values of '{self.tensor.short_name}'"
        )
        notes = [] if self.origin is None else [Note(f"it is {self.origin}")]
        notes += [Note(text) for text in self._findings()]
        notes += [Note(f"together with {_titled(part)}", part.span) for part in self.parts]
        if body_agrees:
            text = f"all operations in its body agree: look at how '{self.operator}' is mapped"
            notes.append(Note(text))
        notes += [Note("invoked from here", span) for span in reversed(self._trace[:-1])]
        span = self._trace[-1] if self._trace else None
        return Diagnostic(message, span, self._hint(), tuple(notes))

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data; numbers that JSON has not are strings, as in "inf"."""
        measured, location = self.difference, self.diagnostic()
        return {
            "tensor": self.tensor.name,
            "operator": self.operator,
            "label": self.label,
            "path": location.path,
            "line": location.line,
            "column": location.column,
            "depth": self.depth,
            "source": None if self.origin is None else asdict(self.origin),
            "sides": list(self.sides),
            "agrees": self.agrees,
            "shapes": [list(shape) for shape in measured.shapes],
            "dtypes": list(measured.dtypes),
            "rtol": _plain(measured.rtol),
            "atol": _plain(measured.atol),
            "largest_difference": _plain(measured.largest),
            "largest_relative_difference": _plain(measured.relative),
            "share_of_tolerance": _plain(measured.share),
            "position": None if measured.position is None else list(measured.position),
            "values": None
            if measured.values is None
            else [_plain(value) for value in measured.values],
            "differing_elements": measured.beyond,
            "nans": list(measured.nans),
        }

    def _findings(self) -> Iterator[str]:
        found, (left, right) = self.difference, self.sides
        kinds = [f"{d} {list(s)}" for d, s in zip(found.dtypes, found.shapes, strict=True)]
        if not found.is_alike:
            yield f"{left} gives {kinds[0]}, {right} gives {kinds[1]}"
            return
        if found.position is None or found.values is None:
            return
        allowed = f"{found.atol:.3g} + {found.rtol:.3g} * |{left}|"
        yield f"{kinds[0]}: {found.beyond} of {found.size} elements differ by more than {allowed}"
        values = [_number(value) for value in found.values]
        yield f"worst at {list(found.position)}: {values[0]} ({left}), {values[1]} ({right})"
        yield f"largest difference {found.largest:.6g}, relative {found.relative:.6g}"
        if any(found.nans):
            yield f"NaN: {found.nans[0]} ({left}), {found.nans[1]} ({right})"

    def _hint(self) -> str:
        if self.node is None:
            return (
                "a compiled kernel is wrong: 'build(verify=True)' checks each by itself; or the "
                "model rounds to codes, as quantized ones do, and a value next to the middle of "
                "two was rounded the other way"
            )
        if self.origin is not None and not _OURS.issuperset(self.sides):
            text = "the conversion is wrong; else it is how the operator is lowered"
            return f"where 'mapped' and 'reference' agree on it, {text}"
        third = next(name for name in sorted(_OURS) if name not in self.sides)
        return f"compare each with '{third}' to find which is right"


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The comparison of two routes through a graph, up to the first tensor that differs.

    :func:`compare` returns it; ``print`` shows a table.

    Parameters
    ----------
    graph
        The name of the graph.
    routes
        The two routes.
    chained
        Whether each route got its own operands.
    count
        The number of tensors at the outer level of the graph that can be compared.
    rows
        The tensors of the operations, each run by itself.
    program
        The outputs of the program as :func:`build` makes it, for each compiled route, if all
        ``rows`` agree.
    lead
        The route whose tensors were the operands.

    Examples
    --------
    >>> import tvm_nnef
    >>> report = tvm_nnef.compare("docs/examples/digits", progress=False)
    >>> report.agrees, report.first_difference, len(report.rows)
    (True, None, 11)
    """

    graph: str
    routes: tuple[str, str]
    chained: bool
    count: int
    rows: tuple[Row, ...]
    program: tuple[Row, ...]
    lead: str

    @property
    def agrees(self) -> bool:
        """Whether no tensor differs, of operations or of the built program."""
        return all(row.agrees for row in (*self.rows, *self.program))

    @property
    def first_difference(self) -> Row | None:
        """The first row that differs, the innermost where it is an operation in a composition."""
        inner = next((row for row in reversed(self.rows) if not row.agrees), None)
        return inner or next((row for row in self.program if not row.agrees), None)

    def diagnostic(self) -> Diagnostic | None:
        """Return the first difference as an error with its location; None if the routes agree."""
        row = self.first_difference
        if row is None:
            return None
        return row.diagnostic(body_agrees=bool(self.rows) and self.rows[-1].depth > row.depth)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data that ``json.dumps`` takes."""
        return {
            "graph": self.graph,
            "routes": list(self.routes),
            "chained": self.chained,
            "agrees": self.agrees,
            "tensors": self.count,
            "rows": [row.to_json() for row in self.rows],
            "program": [row.to_json() for row in self.program],
        }

    def summary(self) -> str:
        """Return the outcome in a line."""
        routes = f"{self.routes[0]} and {self.routes[1]}"
        how = "each route on its own tensors" if self.chained else f"operands of {self.lead}"
        compared = sum(row.depth == 0 for row in self.rows)
        row = self.first_difference
        if row is None:
            outputs = ", and in the outputs of the built program" if self.program else ""
            return (
                f"{routes} agree in all {compared} tensors of graph '{self.graph}' ({how}){outputs}"
            )
        if row.node is None:
            return f"{routes} agree in all {compared} tensors, but not {row.sides[1]}"
        return f"{routes} differ: tensor {compared} of {self.count} in graph '{self.graph}' ({how})"

    def table(self) -> Table:
        """Return the rows as a table for rich."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("")
        for title in ("tensor", "operator", "type"):
            table.add_column(title, overflow="fold")
        for title in ("line", "difference", "of tolerance"):
            table.add_column(title, justify="right")
        for row in (*self.rows, *self.program):
            mark = Text("✓", "green") if row.agrees else Text("✗", "bold red")
            indent = "  " * row.depth
            name = row.tensor.name.removeprefix(f"{self.graph}.")
            cells = (f"{indent}{name}", row.operator, *_measures(row))
            table.add_row(mark, *map(Text, cells), style="" if row.agrees else "bold")
        return table

    def _repr_html_(self) -> str:
        from tvm_nnef.support.html_table import html_table

        every = (*self.rows, *self.program)
        rows = [
            ("✓" if row.agrees else "✗", row.tensor.name, row.operator, *_measures(row))
            for row in every
        ]
        heads = ("", "tensor", "operator", "type", "line", "difference", "of tolerance")
        wrong = [number for number, row in enumerate(every) if not row.agrees]
        return html_table(self.summary(), heads, rows, marked=wrong, numbers=(4, 5, 6))

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        found = self.diagnostic()
        detail = "" if found is None else f"\n{found.render()}\n"
        return Group(self.table(), Text(f"{detail}\n{self.summary()}"))

    def __repr__(self) -> str:
        return f"<Report: {self.summary()}>"

    @needed_for("printing a report")
    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=WIDTH, no_color=True, highlight=False)
        with console.capture() as captured:
            console.print(self)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _measures(row: Row) -> tuple[str, str, str, str]:
    """Return type, line, difference and share of a row, as a table has them."""
    measured = row.difference
    kind = f"{measured.dtypes[0]} {list(measured.shapes[0])}"
    line = "" if row.line is None else str(row.line)
    if not measured.is_alike:
        return kind, line, f"{measured.dtypes[1]} {list(measured.shapes[1])}", ""
    nans = f", {max(measured.nans)} NaN" if any(measured.nans) else ""
    if measured.position is None:
        return kind, line, f"equal{nans}", ""
    share = f"{measured.share:.2%}" if measured.share < 10 else "✗"
    return kind, line, f"{measured.largest:.2g}{nans}", share


def _titled(node: Node) -> str:
    return f"'{node.label}' ({operator_name(node)})" if node.label else operator_name(node)


def _number(value: bool | int | float) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _plain(value: bool | int | float) -> bool | int | float | str:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
