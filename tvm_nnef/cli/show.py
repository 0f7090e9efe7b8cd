"""``tvm-nnef show MODEL``: the composed graph as a table, a text, JSON data, or a picture.

Of a compiled library it shows the metadata.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping

from tvm_nnef.cli.reading import read_composed
from tvm_nnef.diagnostics import error, printable
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
    if form is None and (metadata := described_library(options.model)) is not None:
        print(json.dumps(json.loads(metadata), indent=2))
        return 0
    path = getattr(options, form) if form else STANDARD_OUTPUT
    seconds = read_profile(options.profile) if options.profile is not None else {}
    read = [] if options.profile is None else [options.profile]
    check_output(path, [options.model, *options.search_path, *read])
    found = read_composed(options)
    model, graph = found.model, found.graph
    if form is not None:
        write_file(path, _text(form, graph, model, seconds).encode())
        if path != STANDARD_OUTPUT and not options.quiet:
            print(f"wrote {path}")
    elif options.json:
        print(json.dumps(dump.to_json(graph), indent=2))
    elif options.bodies:
        print(printable(dump.text(graph)))
    else:
        print(table(graph, model.program, width=_width(), full=options.full))
    return 0


def _text(form: str, graph: Graph, model: Model, seconds: Mapping[str, float]) -> str:
    """The text of a file."""
    match form:
        case "dot":
            return dump.dot(graph)
        case "html":
            return page(graph, model, seconds)
    from tvm_nnef.display.picture import svg  # Slow to import, and seldom needed.

    return svg(graph)


def _width() -> int | None:
    """The characters of a line of the terminal; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
