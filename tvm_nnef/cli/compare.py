"""``tvm-nnef compare MODEL``: two routes through a model, up to the first tensor that differs.

A model of another format is converted first, and its own library is one of the routes.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.text import Text

from tvm_nnef.cli.images import given_images
from tvm_nnef.cli.inputs import read_inputs
from tvm_nnef.cli.reading import read_composed
from tvm_nnef.cli.terminal import rendered
from tvm_nnef.comparison import Report
from tvm_nnef.comparison.models import compare
from tvm_nnef.comparison.report import WIDTH
from tvm_nnef.model.variables import check_variables


def run(options: argparse.Namespace) -> int:
    """Prints the report; the exit status is 1 if the routes differ."""
    found = read_composed(options)
    model, source = found.model, found.source if found.source.format.route else None
    inputs = []
    if options.input:
        check_variables(model, found.graph)
        inputs = read_inputs(model.metadata.inputs, found.graph, options, model.variables)
    else:
        given_images(model.metadata.inputs, (), options)  # Raises NnefError for its options.
    report = compare(
        model,
        *inputs,
        routes=options.routes,
        against=options.against or source,
        rtol=options.rtol,
        atol=options.atol,
        chained=options.chained,
        seed=options.seed,
        progress=not options.quiet,
        **found.options,
    )
    if options.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        _print(report)
    return 0 if report.agrees else 1


def _print(report: Report) -> None:
    """The table and the outcome on standard output, the difference on standard error."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    console.print(report.table())
    console.print()
    found = report.diagnostic()
    if found is not None:
        sys.stdout.flush()
        print(rendered(found), file=sys.stderr)
    console.print(Text(report.summary(), "green" if report.agrees else "bold red"), soft_wrap=True)
