"""``tvm-nnef build MODEL -o FILE``: a model compiled into a library."""

from __future__ import annotations

import argparse

from tvm_nnef.api import build
from tvm_nnef.cli.arguments import compose_options, load_options


def run(options: argparse.Namespace) -> int:
    """Builds for the target and writes the library."""
    executable = build(
        options.model,
        options.target,
        dump_dir=options.dump_dir,
        **load_options(options),
        **compose_options(options),
    )
    executable.export(options.output)
    print(f"wrote {options.output}")
    return 0
