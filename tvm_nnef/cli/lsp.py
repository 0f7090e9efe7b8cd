"""``tvm-nnef lsp``: a language server on standard input and output, for editors to start."""

from __future__ import annotations

import argparse

from tvm_nnef.requirements import needed_for


def run(options: argparse.Namespace) -> int:
    """Serve an editor until it says that it is done."""
    with needed_for("the language server"):
        from tvm_nnef.language_server.server import make_server
    make_server().start_io()
    return 0
