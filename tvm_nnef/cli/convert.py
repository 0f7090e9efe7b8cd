"""``tvm-nnef convert SRC DST``: an ONNX model written as a SkriptND model, or the other way."""

from __future__ import annotations

import argparse

from tvm_nnef.conversion import convert


def run(options: argparse.Namespace) -> int:
    """Converts a model and writes it."""
    shapes = dict(options.shape)
    model = convert(options.source, options.destination, format=options.format, input_shapes=shapes)
    (graph, *_) = model.graphs
    print(f"wrote {options.destination}: graph '{graph}', {len(model.variables)} variables")
    return 0
