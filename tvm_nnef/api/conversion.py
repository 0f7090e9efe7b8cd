"""``convert``: a model of another format as a SkriptND model, and the other way."""

from __future__ import annotations

import os
from typing import Any

from tvm_nnef.api.building import composed
from tvm_nnef.diagnostics import ModelError, NnefError, error, raised_as
from tvm_nnef.formats.reading import load_model, load_to_compose
from tvm_nnef.formats.registry import FORMATS, exported_format, open_source
from tvm_nnef.model.model import Model, save_model
from tvm_nnef.storage.container import is_text
from tvm_nnef.storage.output import check_output, is_same_file
from tvm_nnef.storage.write import check_target
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.support.collection import rare_collection
from tvm_nnef.support.progress import progress_reported, report


@raised_as(ModelError)
@with_checked_arguments
@rare_collection()
def convert(
    source: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **options: Any,
) -> Model:
    """Convert a model of another format to SkriptND, or write a model in another format.

    Parameters
    ----------
    source
        A model of any format: a path, bytes, or an object such as an ``onnx.ModelProto``, a
        ``torch.nn.Module`` (with ``example_inputs``) or a ``jax.export.Exported``.
    path
        Where to write the model: a folder, or an archive (``.tar``, ``.tgz``). The suffixes
        ``.onnx`` and ``.nnef1`` (a folder; ``.nnef1.tgz`` an archive) write that format. Nothing
        is written by default.
    format
        The format of the source; detected from the content by default.
    overwrite
        Replace the model in an existing folder even if it was changed or made by hand; otherwise
        only if this program wrote it and it was not changed since. Other files stay.
    progress
        Show a progress bar, if standard error is a terminal, or in a notebook.
    **options
        Those of the conversion, such as ``input_shapes``, ``dtypes``, ``bounds``, ``converters``,
        ``outline`` and ``replaceable``; when another format is written, those of :func:`compose`.

    Returns
    -------
    Model
        The SkriptND model.

    Raises
    ------
    ModelError
        For everything that cannot be converted, all at once; for an unknown format or one whose
        package is not installed; and for a path that cannot be written, before the work starts.
    UnsupportedError
        If everything that is reported is valid, but not supported.

    Examples
    --------
    >>> import tvm_nnef
    >>> text = "version 1.0; graph g(x) -> (y) { x = external(shape = [2]); y = relu(x); }"
    >>> tvm_nnef.convert(text).outputs
    {'y': 'real[2]'}
    """
    if path is not None:
        check_destination(source, path, overwrite=overwrite)
    with progress_reported(wanted=progress):
        if path is not None and exported_format(path) is not None:
            return _exported(source, path, {**options, "format": format}, overwrite)
        return _converted(source, path, options, format, overwrite)


def _converted(
    source: Any,
    path: str | os.PathLike[str] | None,
    options: dict[str, Any],
    format: str | None,
    overwrite: bool,
) -> Model:
    opened = None if isinstance(source, Model) else open_source(source, format)
    if opened is None or not opened.format.is_foreign:
        raise not_foreign(None if opened is None else opened.path, path)
    model = load_model(opened, **options)
    if path is not None:
        report("writing the model", 1, 1)
        save_model(model, path, overwrite=overwrite)
    return model


def not_foreign(source: str | None, path: str | os.PathLike[str] | None) -> NnefError:
    """The error for a SkriptND model that would be converted to SkriptND."""
    written = " or ".join(each.exports for each in FORMATS if each.exports)
    hint = f"a SkriptND model is written in another format to a path that ends in {written}"
    if path is None:
        return error("this is not a model of another format", hint=hint, file=source)
    message = "the name does not say in which format the SkriptND model is written"
    return error(message, hint=hint, file=os.fspath(path))


def check_destination(source: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Check, before the work, that the converted model can be written to a path.

    Raises NnefError, also for a path that is the source itself.
    """
    is_path = isinstance(source, os.PathLike) or (isinstance(source, str) and not is_text(source))
    if is_path and is_same_file(path, source):
        hint = "choose another name"
        raise error("cannot be written: it is the source", hint=hint, file=str(path))
    target = exported_format(path)
    if target is not None and not target.exports_folder:
        check_output(path)
    else:
        check_target(path, overwrite=overwrite)


def _exported(
    source: Any, path: str | os.PathLike[str], options: dict[str, Any], overwrite: bool
) -> Model:
    target = exported_format(path)
    assert target is not None
    loaded, composing = load_to_compose(source, options, report)
    exporter = target.load(target.exporter, "writing")
    report(f"writing the {target.title} model", 1, 2)
    graph, names = composed(loaded, composing), loaded.metadata.source_names
    exporter.write_model(graph, loaded.variables, path, overwrite=overwrite, source_names=names)
    return loaded
