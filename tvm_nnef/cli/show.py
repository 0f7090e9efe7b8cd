"""``tvm-nnef show MODEL``: the composed graph as a table, a text, JSON data, or a picture.

Of a compiled library it shows the metadata.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping

from tvm_nnef.cli.reading import Composed, read_composed
from tvm_nnef.diagnostics import error, printable
from tvm_nnef.display.difference import Difference, Side, difference
from tvm_nnef.display.page import page, read_profile
from tvm_nnef.display.table import table
from tvm_nnef.executable.library_file import described_library
from tvm_nnef.graph import dump
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.model.model import Model
from tvm_nnef.storage.output import STANDARD_OUTPUT, check_output, write_file

_FILES = ("dot", "html", "svg")
"""The options that write a file."""


def run(options: argparse.Namespace) -> int:
    """Show the graph, or print the metadata of a library on standard output."""
    form = next((each for each in _FILES if getattr(options, each) is not None), None)
    if options.profile is not None and form != "html":
        hint = "add '--html FILE', or leave it out"
        raise error("--profile is for the colours of --html", hint=hint)
    if options.diff is not None and (form not in (None, "html") or options.full or options.bodies):
        hint = "use --html or --json, or none of these options"
        raise error("a difference cannot be shown in this form", hint=hint)
    if (
        form is None
        and options.diff is None
        and (metadata := described_library(options.model)) is not None
    ):
        print(json.dumps(json.loads(metadata), indent=2))
        return 0
    path = getattr(options, form) if form else STANDARD_OUTPUT
    seconds = read_profile(options.profile) if options.profile is not None else {}
    read = [each for each in (options.profile, options.diff) if each is not None]
    check_output(path, [options.model, *options.search_path, *read])
    found = read_composed(options)
    model, graph = found.model, found.graph
    changes = None if options.diff is None else _difference(options, found)
    if form is not None:
        write_file(path, _text(form, graph, model, seconds, changes).encode())
        if path != STANDARD_OUTPUT and not options.quiet:
            print(f"wrote {path}")
    elif changes is not None:
        print(json.dumps(changes.to_json(), indent=2) if options.json else changes.text())
    elif options.json:
        print(json.dumps(dump.to_json(graph), indent=2))
    elif options.bodies:
        print(printable(dump.text(graph)))
    else:
        print(table(graph, model.program, width=_width(), full=options.full))
    return 0


def _difference(options: argparse.Namespace, found: Composed) -> Difference:
    """Return the difference between a model and the one of ``--diff``."""
    before = read_composed(argparse.Namespace(**{**vars(options), "model": options.diff}))
    sides = (Side(each.graph, each.model.variables) for each in (before, found))
    return difference(*sides)


def _text(
    form: str,
    graph: Graph,
    model: Model,
    seconds: Mapping[str, float],
    changes: Difference | None,
) -> str:
    """The text of a file."""
    match form:
        case "dot":
            return dump.dot(graph)
        case "html":
            return page(graph, model, seconds, changes)
    from tvm_nnef.display.picture import svg  # Slow to import, and seldom needed.

    return svg(graph)


def _width() -> int | None:
    """The characters of a line of the terminal; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
