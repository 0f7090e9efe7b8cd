"""``tvm-nnef quantize MODEL DST --weights int4``: a model written with weights of few bits."""

from __future__ import annotations

import argparse
import json

from tvm_nnef.api.conversion import check_destination
from tvm_nnef.api.quantization import quantize
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.model.model import save_model


def run(options: argparse.Namespace) -> int:
    """Quantizes a model, writes it, and prints the errors by operator."""
    check_destination(options.model, options.destination, overwrite=options.overwrite)
    model = quantize(
        options.model,
        weights=options.weights,
        block=options.block,
        method=options.method,
        keep_float=options.keep_float,
        progress=not options.quiet,
        **load_options(options),
        **compose_options(options),
    )
    save_model(model, options.destination, overwrite=options.overwrite)
    report = model.quantization_report
    if options.json:
        print(json.dumps(report.to_json(), indent=2))
    elif not options.quiet:
        print(report.summary())
        print(f"wrote {options.destination}")
    return 0
