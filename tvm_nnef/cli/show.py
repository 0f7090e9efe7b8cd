"""``tvm-nnef show MODEL``: the composed graph as text or JSON."""

from __future__ import annotations

import argparse
import json

from tvm_nnef.api import compose
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.graph import dump


def run(options: argparse.Namespace) -> int:
    """Prints the graph on standard output."""
    graph = compose(options.model, **load_options(options), **compose_options(options))
    if options.json:
        print(json.dumps(dump.to_json(graph), indent=2))
    else:
        print(dump.text(graph, bodies=options.bodies))
    return 0
