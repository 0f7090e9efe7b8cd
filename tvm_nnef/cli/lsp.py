"""``tvm-nnef lsp``: a language server on standard input and output, for editors to start."""

from __future__ import annotations

import argparse

from tvm_nnef.diagnostics import error
from tvm_nnef.options import search_folder


def run(options: argparse.Namespace) -> int:
    """Serve an editor until it says that it is done."""
    try:
        from tvm_nnef.language_server.server import make_server
    except ModuleNotFoundError as cause:
        if cause.name is None or cause.name.startswith("tvm_nnef"):
            raise
        message = f"the language server needs the package '{cause.name}'"
        raise error(message, hint="pip install 'tvm-nnef[lsp]'") from cause
    for folder in options.search_path:
        search_folder(folder)  # Raises NnefError for one that is not there.
    make_server(options.search_path).start_io()
    return 0
