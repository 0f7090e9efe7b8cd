"""``tvm-nnef show MODEL``: the composed graph as text, as JSON, or as a picture."""

from __future__ import annotations

import argparse
import json

from tvm_nnef.api import compose
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.cli.files import write_file
from tvm_nnef.graph import dump, picture


def run(options: argparse.Namespace) -> int:
    """Prints the graph on standard output."""
    graph = compose(options.model, **load_options(options), **compose_options(options))
    if options.svg:
        write_file(options.svg, picture.svg(graph).encode())
        print(f"wrote {options.svg}")
    elif options.json:
        print(json.dumps(dump.to_json(graph), indent=2))
    else:
        print(dump.text(graph, bodies=options.bodies))
    return 0
