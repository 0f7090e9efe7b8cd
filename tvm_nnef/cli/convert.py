"""``tvm-nnef convert SRC DST``: a model written as SkriptND, or in another format."""

from __future__ import annotations

import argparse

from tvm_nnef.cli.arguments import convert_options
from tvm_nnef.conversion import check_destination, convert
from tvm_nnef.converters.common.formats import exported_format
from tvm_nnef.diagnostics import NnefError, plural
from tvm_nnef.model import Model, check, save_model


def run(options: argparse.Namespace) -> int:
    """Converts a model and writes it, unless the result is not a valid model."""
    given = convert_options(options)
    if exported_format(options.destination) is not None:
        model = convert(
            options.source,
            options.destination,
            format=options.format,
            overwrite=options.overwrite,
            **given,
        )
    else:
        overwrite = options.overwrite
        check_destination(options.source, options.destination, overwrite=overwrite)
        if options.flat:
            given["outline"] = False
        model = convert(options.source, format=options.format, **given)
        _check(model)
        save_model(model, options.destination, overwrite=overwrite)
    if options.quiet:
        return 0
    (graph, *_) = model.graphs
    variables = plural(len(model.variables), "variable")
    print(f"wrote {options.destination}: graph '{graph}', {variables}")
    return 0


def _check(model: Model) -> None:
    """Raises NnefError if shapes of the source do not fit, as composition shows."""
    found = [each for each in check(model) if each.severity == "error"]
    if found:
        raise NnefError(found)
