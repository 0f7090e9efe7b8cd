"""``tvm-nnef show MODEL``: the composed graph as text, as JSON, or as a picture.

Of a compiled library it shows the metadata.
"""

from __future__ import annotations

import argparse
import json

from tvm_nnef.api import compose
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.diagnostics import printable
from tvm_nnef.graph import dump, picture
from tvm_nnef.library_file import described_library
from tvm_nnef.storage.output import STANDARD_OUTPUT, check_output, write_file


def run(options: argparse.Namespace) -> int:
    """Prints the graph, or the metadata of a library, on standard output."""
    if options.svg is None and (metadata := described_library(options.model)) is not None:
        print(json.dumps(json.loads(metadata), indent=2))
        return 0
    if options.svg is not None:
        check_output(options.svg, [options.model, *options.search_path])
    graph = compose(options.model, **load_options(options), **compose_options(options))
    if options.svg is not None:
        write_file(options.svg, picture.svg(graph).encode())
        if options.svg != STANDARD_OUTPUT and not options.quiet:
            print(f"wrote {options.svg}")
    elif options.json:
        print(json.dumps(dump.to_json(graph), indent=2))
    else:
        print(printable(dump.text(graph, bodies=options.bodies)))
    return 0
