"""``tvm-nnef build MODEL -o FILE``: a model compiled into a library."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tvm_nnef.api import build
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.diagnostics import error
from tvm_nnef.measurement.kernel_report import KernelReport


def run(options: argparse.Namespace) -> int:
    """Builds for the target, tells of the kernels where that is wanted, and writes the library."""
    if Path(options.output).is_dir():
        hint = "give the library a name: model.so"
        raise error(f"'{options.output}' is a folder", hint=hint)
    executable = build(
        options.model,
        options.target,
        database=options.database,
        dump_dir=options.dump_dir,
        threads=options.threads,
        verbose=_print_json if options.json else options.verbose,
        **load_options(options),
        **compose_options(options),
    )
    executable.export(options.output)
    if not options.json:
        print(f"wrote {options.output}")
    return 0


def _print_json(report: KernelReport) -> None:
    print(json.dumps(report.to_json(), indent=2))
