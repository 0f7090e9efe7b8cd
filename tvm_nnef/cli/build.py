"""``tvm-nnef build MODEL -o FILE``: a model compiled into a library."""

from __future__ import annotations

import argparse
import json

from tvm_nnef.api.building import build
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.compilation.target import resolve
from tvm_nnef.executable.library_file import check_library
from tvm_nnef.measurement.kernel_report import KernelReport
from tvm_nnef.storage.output import STANDARD_OUTPUT
from tvm_nnef.tvm_support.build import triple_of


def run(options: argparse.Namespace) -> int:
    """Build for the target, report on the kernels if that is wanted, and write the library."""
    triple = triple_of(resolve(options.target))
    check_library(options.output, [options.model, *options.search_path], triple)
    executable = build(
        options.model,
        options.target,
        database=options.database,
        dump_dir=options.dump_dir,
        threads=options.threads,
        progress=not options.quiet,
        cache=not options.no_cache,
        timings=options.timings,
        cuda_graphs=options.cuda_graphs,
        int8_activations=options.int8_activations,
        verbose=_print_json if options.json else options.verbose,
        **load_options(options),
        **compose_options(options),
    )
    executable.export(options.output)
    if not (options.json or options.quiet) and options.output != STANDARD_OUTPUT:
        print(f"wrote {options.output}")
    return 0


def _print_json(report: KernelReport) -> None:
    print(json.dumps(report.to_json(), indent=2))
