"""``tvm-nnef tune MODEL``: schedules searched by measuring, for ``build --database``."""

from __future__ import annotations

import argparse
import json
import sys

from tvm_nnef.api.tuning import tune
from tvm_nnef.cli.arguments import compose_options, load_options


def run(options: argparse.Namespace) -> int:
    """Tunes and reports the result; an interruption keeps what was found until then."""
    try:
        report = tune(
            options.model,
            options.target,
            trials=options.trials,
            database=options.database,
            threads=options.threads,
            progress=not options.quiet,
            **load_options(options),
            **compose_options(options),
        )
    except KeyboardInterrupt:
        kept = f"what was found is in {options.database}"
        print(f"{kept}, and the same command goes on", file=sys.stderr)
        raise
    print(json.dumps(report.to_json(), indent=2) if options.json else report.summary())
    return 0
