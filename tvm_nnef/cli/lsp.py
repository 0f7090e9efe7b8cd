"""``tvm-nnef lsp``: a language server on standard input and output, for editors to start."""

from __future__ import annotations

import argparse
import sys

from tvm_nnef.diagnostics import error
from tvm_nnef.model.options import search_folder
from tvm_nnef.support.requirements import needed_for


def run(options: argparse.Namespace) -> int:
    """Serve an editor until it says that it is done."""
    if sys.stdin is None or sys.stdout is None:
        hint = "an editor starts this command, and talks to it"
        raise error("standard input or output is closed", hint=hint)
    with needed_for("the language server"):
        from tvm_nnef.language_server.server import make_server
    for folder in options.search_path:
        search_folder(folder)  # Raises NnefError for one that is not there.
    make_server(options.search_path).start_io()
    return 0
