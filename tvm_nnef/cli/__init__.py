"""The command line: ``tvm-nnef COMMAND …``.

Exit status 0 when all is well, 1 for a problem in the user's model or files (diagnostics on
standard error, no traceback), 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from tvm_nnef.cli.arguments import make_parser
from tvm_nnef.diagnostics import NnefError

_SHORT = ("check", "ops", "show")
"""Commands that only read: nearly all that they make lives until they end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives the exit status."""
    options = make_parser().parse_args(arguments)
    try:
        return _run(options)
    except NnefError as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(options: argparse.Namespace) -> int:
    if options.command in _SHORT:
        gc.disable()  # A tenth of their time went into looking for garbage that is not there.
    try:
        # One module a command, so that `check` and `ops` start without TVM.
        command = importlib.import_module(f"tvm_nnef.cli.{options.command}")
        return int(command.run(options))
    finally:
        gc.enable()
