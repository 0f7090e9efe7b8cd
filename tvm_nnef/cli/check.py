"""``tvm-nnef check MODEL``: every diagnostic of a model, without executing anything."""

from __future__ import annotations

import argparse
import sys

from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.diagnostics import plural
from tvm_nnef.model import check


def run(options: argparse.Namespace) -> int:
    """Prints diagnostics on standard error and a verdict; 1 where there are errors."""
    found = check(options.model, **load_options(options), **compose_options(options))
    for diagnostic in found:
        print(diagnostic.render(), file=sys.stderr)
    errors = sum(diagnostic.severity == "error" for diagnostic in found)
    if errors:
        print(plural(errors, "error"), file=sys.stderr)
    elif not options.quiet:
        print(f"{options.model}: no errors")
    return 1 if errors else 0
