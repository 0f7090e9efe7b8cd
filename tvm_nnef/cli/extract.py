"""``tvm-nnef extract MODEL --from TENSOR --to TENSOR -o PART``: a part of a model as a model."""

from __future__ import annotations

import argparse

from tvm_nnef.api.conversion import check_destination
from tvm_nnef.api.extraction import extract
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.diagnostics import plural
from tvm_nnef.model.model import save_model


def run(options: argparse.Namespace) -> int:
    """Cut the part out, write it, and print what goes into it and out of it."""
    check_destination(options.model, options.output, overwrite=options.overwrite)
    given = {**load_options(options), **compose_options(options)}
    part = extract(options.model, options.begin, options.end, **given)
    save_model(part, options.output, overwrite=options.overwrite)
    if not options.quiet:
        for title, ports in (("inputs", part.inputs), ("outputs", part.outputs)):
            print(f"{title}: {', '.join(f'{name}: {type}' for name, type in ports.items())}")
        print(f"wrote {options.output}: {plural(len(part.variables), 'variable')}")
    return 0
