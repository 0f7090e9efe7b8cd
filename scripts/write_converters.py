"""Write the tables of ``docs/converters.md``: the formats, and what of each is converted.

They are read off the registry of formats and the tables of the converters. A converter that raises
on every path counts as one that refuses. Exit status 1 with ``--check`` if the page is not what
would be written. It needs the packages onnx and jax.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias, get_args

import onnx
from generated_page import DOCS, with_end, write
from jaxlib.mlir.dialects import stablehlo
from write_onnx_operators import BODY, NONE, OWN, always_raises
from write_onnx_operators import entries as onnx_operators

from tvm_nnef.converters.antares.scalars import FUNCTIONS as ANTARES_FUNCTIONS
from tvm_nnef.converters.antares.statements import ASSIGNMENTS
from tvm_nnef.converters.nnef1 import fragments
from tvm_nnef.converters.nnef1.operators import registry as nnef1_operations
from tvm_nnef.converters.stablehlo import registry as stablehlo_operations
from tvm_nnef.converters.stablehlo.conversion import CALLS, ENDS, TUPLES
from tvm_nnef.converters.tile.text.values import FUNCTIONS as TILE_FUNCTIONS
from tvm_nnef.converters.tile.text.values import OPERATORS as TILE_OPERATORS
from tvm_nnef.converters.tile.tracing import Aggregation
from tvm_nnef.formats.registry import FORMATS, Format

PAGE = DOCS / "converters.md"
SCRIPT = "write_converters.py"
PAGES = {each.name: f"{each.name}.md" for each in FORMATS if each.is_foreign}
GRAPH_OPERATIONS = ("external", "variable")
"""Operations of NNEF 1 that are parts of a graph, not operators."""


@dataclass(frozen=True)
class Row:
    """Names of a format. ``counts`` says whether they are of what is counted."""

    title: str
    names: Sequence[str]
    counts: bool = True


Rows: TypeAlias = "list[Row]"
"""The rows of a format's table; the last one is of what is not converted."""


def onnx_rows() -> Rows:
    """The operators of ONNX's standard domain, and those of others that are converted."""
    names: dict[str, list[str]] = {OWN: [], BODY: [], NONE: []}
    for each in onnx_operators():
        if not each.domain:
            names[each.kind].append(each.name)
    return [Row(kind, names[kind]) for kind in (OWN, BODY, NONE)]


def nnef1_rows() -> Rows:
    """The operations of chapter 4, and those of tract."""
    known = {*nnef1_operations.standard(), *GRAPH_OPERATIONS}
    names = list(fragments.standard())
    file = resources.files("tvm_nnef.converters.nnef1") / "tract.nnef"
    tract = fragments.library("tract.nnef", file.read_text(encoding="utf-8"))
    return [
        Row("converted", [name for name in names if name in known]),
        Row('converted with `vendor="tract"`', ["tract_core_external", *tract], counts=False),
        Row("not converted", [name for name in names if name not in known]),
    ]


def stablehlo_rows() -> Rows:
    """The operations of the dialects ``stablehlo`` and ``chlo``."""
    known = (
        {
            name
            for name, converter in stablehlo_operations.standard().items()
            if not always_raises(converter.function)
        }
        | CALLS
        | TUPLES
    )
    classes = vars(stablehlo).values()
    names = {each.OPERATION_NAME for each in classes if hasattr(each, "OPERATION_NAME")}
    names -= ENDS
    chlo = [name for name in known if name.startswith("chlo.")]
    return [
        Row("converted", _without_dialect(names & known)),
        Row("converted of `chlo`; JAX replaces the others", _without_dialect(chlo), counts=False),
        Row("not converted", _without_dialect(names - known)),
    ]


def _without_dialect(names: Iterable[str]) -> list[str]:
    return [name.partition(".")[2] for name in names]


def tile_rows() -> Rows:
    """Aggregations, operators and functions."""
    return [
        Row("aggregations", list(get_args(Aggregation))),
        Row("element-wise operators", ["/", *(sign for sign in TILE_OPERATORS if sign != "%")]),
        Row("functions", list(TILE_FUNCTIONS)),
        Row("not converted", []),
    ]


def antares_rows() -> Rows:
    """Statements and functions."""
    return [
        Row("statements", list(ASSIGNMENTS)),
        Row("functions of `.call`", list(ANTARES_FUNCTIONS)),
        Row("not converted", []),
    ]


COVERAGE: Mapping[str, tuple[str, Callable[[], Rows]]] = {
    "onnx": (f"operators of opset {onnx.defs.onnx_opset_version()}", onnx_rows),
    "nnef1": ("operations of chapter 4 of NNEF 1.0.4", nnef1_rows),
    "stablehlo": ("operations of the dialect `stablehlo`", stablehlo_rows),
    "tile": ("aggregations, operators and functions", tile_rows),
    "antares": ("assignments, reductions and functions", antares_rows),
}
"""The counts of a format, and the rows of its table."""


def formats_table() -> Iterator[str]:
    """The formats: what is taken, what must be installed, the options, how it is exported."""
    yield "| format | what is taken | extra | options | export to |"
    yield "|---|---|---|---|---|"
    for each in FORMATS:
        if each.is_foreign:
            yield f"| {' | '.join(_cells(each))} |"


def _cells(each: Format) -> Iterator[str]:
    yield f"[{each.title}]({PAGES[each.name]})"
    yield each.source
    yield f"`{each.extra}`" if each.extra else "none"
    yield _listed(each.options)
    yield f"`{each.exports}`" if each.exports else "none"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names))) or "none"


def coverage() -> Iterator[str]:
    """Yield the share of each format that is converted, then the names."""
    titles = {each.name: each.title for each in FORMATS}
    tables = {name: make() for name, (_, make) in COVERAGE.items()}
    yield "| format | counted | converted | not converted |"
    yield "|---|---|---|---|"
    for name, rows in tables.items():
        *converted, refused = ({*row.names} for row in rows if row.counts)
        counts = f"{len(set().union(*converted))} | {len(refused)}"
        yield f"| {titles[name]} | {COVERAGE[name][0]} | {counts} |"
    for name, rows in tables.items():
        yield f"\n### {titles[name]}\n"
        if name == "onnx":
            yield "The [table of operators](onnx-operators.md) lists them."
            continue
        yield f"| | {COVERAGE[name][0]} |"
        yield "|---|---|"
        for row in rows:
            if row.names:
                yield f"| {row.title} | {_listed(row.names)} |"


def text() -> str:
    """The page."""
    parts = ("## Formats", "\n".join(formats_table()), "## Coverage", "\n".join(coverage()))
    return with_end(PAGE, SCRIPT, "\n\n".join(parts) + "\n")


if __name__ == "__main__":
    sys.exit(write(PAGE, text, __doc__))
