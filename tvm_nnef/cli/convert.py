"""``tvm-nnef convert SRC DST``: an ONNX model written as a SkriptND model, or the other way."""

from __future__ import annotations

import argparse
from pathlib import Path

from tvm_nnef.cli.arguments import convert_options, plural
from tvm_nnef.conversion import convert


def run(options: argparse.Namespace) -> int:
    """Converts a model and writes it."""
    given = convert_options(options)
    if Path(options.destination).suffix == ".onnx":
        del given["bounds"]
    model = convert(options.source, options.destination, format=options.format, **given)
    (graph, *_) = model.graphs
    variables = plural(len(model.variables), "variable")
    print(f"wrote {options.destination}: graph '{graph}', {variables}")
    return 0
