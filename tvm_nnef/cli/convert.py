"""``tvm-nnef convert SRC DST``: a model written as SkriptND, or in another format."""

from __future__ import annotations

import argparse

from tvm_nnef.api.checking import check
from tvm_nnef.api.conversion import check_destination, convert, not_foreign
from tvm_nnef.cli.arguments import compose_options, convert_options, load_options
from tvm_nnef.cli.refusal import refuse_given
from tvm_nnef.diagnostics import NnefError, error, plural
from tvm_nnef.formats.registry import FORMATS, exported_format, open_source
from tvm_nnef.model.model import Model, save_model
from tvm_nnef.support.progress import progress_reported, report

_OF_COMPOSING = ("graph", "attr", "type", "dialect", "search_path")
"""The options of which nothing is written into a SkriptND model."""


def run(options: argparse.Namespace) -> int:
    """Converts a model and writes it, unless the result is not a valid model."""
    overwrite = options.overwrite
    check_destination(options.source, options.destination, overwrite=overwrite)
    opened = open_source(options.source, options.format)
    if options.flat and not opened.format.is_foreign:
        hint = "leave it out: it is for models of other formats, whose blocks become operators"
        raise error("--flat has no meaning for a SkriptND model", hint=hint, file=opened.path)
    if not opened.format.is_foreign and exported_format(options.destination) is None:
        raise not_foreign(opened.path, options.destination)
    more = {"progress": not options.quiet, **({"outline": False} if options.flat else {})}
    with progress_reported(wanted=not options.quiet):
        if exported_format(options.destination) is not None:
            given = {**load_options(options), **compose_options(options), **more}
            model = convert(opened, options.destination, overwrite=overwrite, **given)
        else:
            suffixes = " or ".join(each.exports for each in FORMATS if each.exports)
            hint = (
                f"it goes with a destination that ends in {suffixes}, or with the converted model"
            )
            refuse_given(options, _OF_COMPOSING, "a model that is written as SkriptND", hint)
            given = {**convert_options(options), **more}
            model = convert(opened, **given)
            report("checking the model", 1, 2)
            _check(model)
            report("writing the model", 1, 2)
            save_model(model, options.destination, overwrite=overwrite)
    if options.quiet:
        return 0
    (graph, *_) = model.graphs
    variables = plural(len(model.variables), "variable")
    print(f"wrote {options.destination}: graph '{options.graph or graph}', {variables}")
    return 0


def _check(model: Model) -> None:
    """Raises NnefError if shapes of the source do not fit, as composition shows."""
    found = [each for each in check(model) if each.severity == "error"]
    if found:
        raise NnefError(found)
