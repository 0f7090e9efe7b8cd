"""Reading of any source of a model as a :class:`~tvm_nnef.model.model.Model`, with conversion.

Nothing is composed or executed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm_nnef.diagnostics import (
    Diagnostic,
    ModelError,
    NnefError,
    Source,
    did_you_mean,
    error,
    raised_as,
)
from tvm_nnef.formats.registry import OpenedSource, open_source
from tvm_nnef.model.dtypes import split_dtypes
from tvm_nnef.model.model import Model
from tvm_nnef.model.options import (
    Composing,
    Reading,
    noting_empty,
    refuse_for_loaded,
    refuse_options,
    refuse_skriptnd_options,
    search_folder,
)
from tvm_nnef.model.variables import Variables, unknown_variables
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import STDLIB_PREFIX, Program
from tvm_nnef.stdlib.library import standard_module, tools_names
from tvm_nnef.storage.container import Container
from tvm_nnef.storage.metadata import Metadata, read_metadata
from tvm_nnef.storage.names import METADATA_FILE
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.support.progress import Report as Progress
from tvm_nnef.support.progress import silent
from tvm_nnef.syntax.dialect import Ambiguity, detect

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvm_nnef.model.options import ConvertOptions

DIALECTS = ("auto", "draft", "tools")

AnyModel: TypeAlias = "str | os.PathLike[str] | bytes | Model | OpenedSource | object"
"""A source of a model: see :func:`load_model`."""


@raised_as(ModelError)
@with_checked_arguments
def load_model(
    model: AnyModel,
    *,
    dialect: str = "auto",
    search_path: Sequence[str | os.PathLike[str]] = (),
    variables: Mapping[str, Any] | None = None,
    format: str | None = None,
    **convert_options: Unpack[ConvertOptions],
) -> Model:
    """Read a model of any format: parse, resolve imports, check, and find its variables.

    Parameters
    ----------
    model
        A SkriptND model (a folder, a ``.sknd`` file, a ``.tar`` or ``.tgz`` archive, or text with a
        newline; sections 2.7 and 2.15), a model of another format, which is converted
        (:func:`convert`), or a Model, which is returned as it is.
    dialect
        ``"draft"`` (the specification), ``"tools"`` (Khronos's tools), or ``"auto"``: detected.
    search_path
        Folders in which modules are looked for, after the model and before the standard library.
    variables
        Arrays by full name, instead of the ``.dat`` files; an unknown name is an error.
    format
        The format of the model; detected from the content by default.
    **convert_options
        Those of the conversion, for a model of another format.

    Returns
    -------
    Model
        The model. Its graphs are not composed yet.

    Raises
    ------
    ModelError
        For all errors in the model; ``diagnostics`` lists them.
    UnsupportedError
        If everything that is reported is valid, but not supported.

    Examples
    --------
    >>> import tvm_nnef
    >>> tvm_nnef.load_model("docs/examples/digits")
    <Model 'docs/examples/digits': graph Digits, 8 variables>
    """
    return load(model, Reading(dialect, search_path, variables, format, convert_options))


def load(model: AnyModel, reading: Reading) -> Model:
    """Return a model of any source. Raises NnefError for all errors in it."""
    variables = reading.variables
    if isinstance(model, Model):
        refuse_for_loaded(reading)
        loaded = model if variables is None else _with_variables(model, variables)
    else:
        read, diagnostics = read_model(open_source(model, reading.format), reading)
        if read is None:
            raise NnefError(each for each in diagnostics if each.severity != "warning")
        loaded = read
    names = [name for name in variables or () if name not in loaded.metadata.defaults]
    unknown = unknown_variables(loaded.program, names) if names else ()
    if unknown:
        raise NnefError(unknown)
    return loaded


@raised_as(ModelError)
def load_to_compose(
    model: AnyModel, options: Mapping[str, Any], progress: Progress = silent
) -> tuple[Model, Composing]:
    """Return the model for ``options`` of :func:`tvm_nnef.compose`, and the options of its
    composition.

    Options of :func:`load_model` are consumed. Shapes of inputs are needed to convert a model of
    another format, and are consumed with it. Raises NnefError also for options that do not
    exist.
    """
    left = dict(options)
    names = ("dialect", "search_path", "variables", "format")
    reading = Reading(**{name: left.pop(name) for name in names if name in left})
    if isinstance(model, Model):
        return load(model, reading), _composing(left)
    progress("reading the model", 0, 1)
    opened = open_source(model, reading.format)
    if opened.format.is_foreign:
        progress(f"converting the {opened.format.title} model", 0, 1)
    converting = {name: left.pop(name) for name in opened.format.options if name in left}
    if "dtypes" in converting:
        left["dtypes"], converting["dtypes"] = split_dtypes(converting["dtypes"])
    given = {name: value for name, value in converting.items() if value is not None}
    return load(opened, replace(reading, conversion=given)), _composing(left)


def _composing(options: Mapping[str, Any]) -> Composing:
    known = {each.name for each in fields(Composing)}
    refuse_options({name: value for name, value in options.items() if name not in known})
    return Composing(**options)


def read_model(opened: OpenedSource, reading: Reading) -> tuple[Model | None, list[Diagnostic]]:
    """Return a model and all diagnostics; the model is None if there are errors."""
    try:
        if opened.format.is_foreign:
            refuse_skriptnd_options(opened.format.title, reading)
            return _converted(opened, reading), []
        refuse_options(reading.conversion)
        container = opened.files
        program, diagnostics = _check_container(container, reading)
    except NnefError as problem:
        return None, list(problem.diagnostics)
    metadata = Metadata()
    try:
        metadata = _metadata(container)
    except NnefError as problem:
        diagnostics += problem.diagnostics
    files, variables = Variables(container), reading.variables
    if variables is None:
        diagnostics += files.check()
    if program is None or any(each.severity == "error" for each in diagnostics):
        return None, diagnostics
    has_arrays = variables is not None
    values = files if variables is None else variables
    return Model(program, container.path, values, metadata, has_arrays), diagnostics


def _converted(opened: OpenedSource, reading: Reading) -> Model:
    options, variables = reading.conversion, reading.variables
    with noting_empty(options.get("input_shapes")):
        model: Model = opened.format.convert(opened.source, options)
    return model if variables is None else _with_variables(model, variables)


def _with_variables(model: Model, variables: Mapping[str, Any]) -> Model:
    return replace(model, variables=variables, given_variables=True)


def _metadata(container: Container) -> Metadata:
    if not container.exists(METADATA_FILE):
        return Metadata()
    return read_metadata(container.read_text(METADATA_FILE), container.location(METADATA_FILE))


def _own(source: Source) -> Source:
    """Return a text of a model, under a path that differs from those of the standard library."""
    is_odd = source.path.startswith(STDLIB_PREFIX)
    return replace(source, path=f"./{source.path}") if is_odd else source


def _check_container(
    container: Container, reading: Reading
) -> tuple[Program | None, list[Diagnostic]]:
    assert container.main is not None
    main = _own(container.read_source(container.main))
    folders = [search_folder(folder) for folder in reading.search_path]
    chosen_dialect, ambiguities = _dialect(container, reading.dialect)

    def find(parts: tuple[str, ...]) -> Source | tuple[Source, ...] | None:
        file = "/".join(parts) + ".sknd"
        if container.exists(file):
            return _own(container.read_source(file))
        for folder in folders:
            if folder.exists(file):
                return _own(folder.read_source(file))
        return (standard_module(parts[0], chosen_dialect) if len(parts) == 1 else ()) or None

    return check_program(main, find, dialect=chosen_dialect, ambiguities=ambiguities)


def _dialect(container: Container, dialect: str) -> tuple[str, Sequence[Ambiguity]]:
    """Return the dialect of a model, given or detected from its text, and its ambiguities."""
    if dialect not in DIALECTS:
        hint = did_you_mean(dialect, DIALECTS) or f"one of {', '.join(DIALECTS)}"
        raise error(f"unknown dialect '{dialect}'", hint=hint)
    if dialect != "auto":
        return dialect, ()
    files = (name for name in container.names() if name.endswith(".sknd"))
    return detect((container.read_source(name) for name in files), tools_names())
