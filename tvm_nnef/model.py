"""A model in memory: its checked program, its variables, and its metadata from ``model.json``.

Input: whatever the user calls a model (see ``load_model``). Output: a :class:`Model`; and back to
disk. Nothing is composed or executed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm_nnef.argument_kinds import with_checked_arguments
from tvm_nnef.converters.common.formats import OpenedSource, open_source
from tvm_nnef.diagnostics import (
    Diagnostic,
    ModelError,
    NnefError,
    Source,
    did_you_mean,
    error,
    plural,
    printable,
    raised_as,
)
from tvm_nnef.dtypes import split_dtypes
from tvm_nnef.html_table import html_table
from tvm_nnef.options import (
    noting_empty,
    refuse_for_loaded,
    refuse_options,
    refuse_skriptnd_options,
    search_folder,
)
from tvm_nnef.pickling import Texts, program_of, texts_of
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import MAIN, STDLIB_PREFIX, Program
from tvm_nnef.standard_library import standard_module, tools_names
from tvm_nnef.storage.container import Container
from tvm_nnef.storage.metadata import Metadata, read_metadata, write_metadata
from tvm_nnef.storage.names import METADATA_FILE, variable_file_name
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.dialect import Ambiguity, detect
from tvm_nnef.variables import Variables, unknown_variables, variable_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvm_nnef.options import ConvertOptions

DIALECTS = ("auto", "draft", "tools")
_TOOLS_LINE = "# dialect: tools\n"


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model in memory: its checked program, its variables and its metadata.

    Models compare by identity. :func:`load_model` and :func:`convert` return them.

    Parameters
    ----------
    program
        The checked modules of the model.
    path
        The name of the model in messages.
    variables
        NumPy arrays by full name (``main.Net.weight``), read when they are used.
    metadata
        The content of ``model.json``.
    given_variables
        Whether the variables were given by the caller; then unknown names are errors.

    Examples
    --------
    >>> import tvm_nnef
    >>> model = tvm_nnef.load_model("docs/examples/digits")
    >>> model.inputs, model.outputs
    ({'image': 'real[batch, 1, 8, 8]'}, {'probabilities': 'real[batch, 10]'})
    >>> model.variables["main.Digits.kernel1"].shape
    (16, 1, 3, 3)
    """

    program: Program
    path: str
    variables: Mapping[str, Any]
    metadata: Metadata = field(default_factory=Metadata)
    given_variables: bool = False

    @property
    def modules(self) -> Mapping[str, Any]:
        """The checked modules by name, ``main`` first."""
        return self.program.modules

    @property
    def graphs(self) -> tuple[str, ...]:
        """The names of the graphs of the main module; the first one is the primary one."""
        return tuple(definition.name for definition in self.program.graphs)

    @property
    def inputs(self) -> Mapping[str, str]:
        """The inputs of the primary graph: their declared types by name, in order."""
        return _declared(graph.inputs for graph in self.program.graphs[:1])

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs of the primary graph: their declared types by name, in order."""
        return _declared(graph.outputs for graph in self.program.graphs[:1])

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.metadata.labels

    @property
    def dtypes(self) -> Mapping[str, str]:
        """The dtypes of tensors by full name, if the model prescribes them."""
        return self.metadata.machine_types

    machine_types = dtypes

    @property
    def dialect(self) -> str:
        """``draft`` or ``tools``."""
        return self.program.dialect

    def __repr__(self) -> str:
        path, variables = printable(self.path, single_line=True), len(self.variables)
        names = ", ".join(self.graphs)
        return f"<Model '{path}': graph {names}, {plural(variables, 'variable')}>"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        values = {name: self.variables[name] for name in self.variables}
        texts = texts_of(self.program, self.metadata)
        return _restored, (texts, self.path, values, self.given_variables)

    def _repr_html_(self) -> str:
        ports = (("input", self.inputs), ("output", self.outputs))
        rows = [(kind, name, text) for kind, found in ports for name, text in found.items()]
        return html_table(repr(self)[1:-1], ("", "name", "type"), rows)


def _restored(texts: Texts, path: str, variables: Mapping[str, Any], given: bool) -> Model:
    program, metadata = program_of(texts)
    return Model(program, path, variables, metadata, given)


def _declared(parameters: Iterable[Sequence[nodes.Parameter]]) -> dict[str, str]:
    """The types of parameters as their author wrote them, by name."""
    every = itertools.chain.from_iterable(parameters)
    found = {each.name.name: each.span.text.partition(":")[2] for each in every}
    return {name: " ".join(text.split("=")[0].strip(" ;").split()) for name, text in found.items()}


AnyModel: TypeAlias = "str | os.PathLike[str] | bytes | Model | OpenedSource | object"
"""Whatever is a model: see :func:`load_model`."""

_SKRIPTND_OPTIONS = ("dialect", "search_path")


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
    if isinstance(model, Model):
        refuse_options(convert_options)
        refuse_for_loaded(dialect=dialect, search_path=search_path, format=format)
        loaded = model if variables is None else _with_variables(model, variables)
    else:
        opened = open_source(model, format)
        read, found = read_model(opened, dialect, search_path, variables, convert_options)
        if read is None:
            raise NnefError(each for each in found if each.severity != "warning")
        loaded = read
    names = [name for name in variables or () if name not in loaded.metadata.defaults]
    unknown = unknown_variables(loaded.program, names) if names else ()
    if unknown:
        raise NnefError(unknown)
    return loaded


def load_to_compose(model: AnyModel, options: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    """The model that ``options`` of :func:`tvm_nnef.compose` are for, and what is left of them.

    Those of :func:`load_model` are used up. Shapes of inputs are needed to convert a model of
    another format, and used up with it.
    """
    left = dict(options)
    taken = {
        name: left.pop(name) for name in (*_SKRIPTND_OPTIONS, "variables", "format") if name in left
    }
    if isinstance(model, Model):
        return load_model(model, **taken), left
    opened = open_source(model, taken.pop("format", None))
    converting = {name: left.pop(name) for name in opened.format.options if name in left}
    if "dtypes" in converting:
        left["dtypes"], converting["dtypes"] = split_dtypes(converting["dtypes"])
    given = {name: value for name, value in converting.items() if value is not None}
    return load_model(opened, **taken, **given), left


def read_model(
    opened: OpenedSource,
    dialect: str,
    search_path: Sequence[str | os.PathLike[str]],
    variables: Mapping[str, Any] | None,
    convert_options: Mapping[str, Any],
) -> tuple[Model | None, list[Diagnostic]]:
    """A model and everything found on the way; None if there are errors."""
    try:
        if opened.format.is_foreign:
            refuse_skriptnd_options(opened.format.title, dialect=dialect, search_path=search_path)
            return _converted(opened, variables, convert_options), []
        refuse_options(convert_options)
        container = opened.files
        program, found = _check_container(container, dialect, search_path)
    except NnefError as problem:
        return None, list(problem.diagnostics)
    metadata = Metadata()
    try:
        metadata = _metadata(container)
    except NnefError as problem:
        found += problem.diagnostics
    files = Variables(container)
    if variables is None:
        found += files.check()
    if program is None or any(each.severity == "error" for each in found):
        return None, found
    given = variables is not None
    values = files if variables is None else variables
    return Model(program, container.path, values, metadata, given), found


def _converted(
    opened: OpenedSource, variables: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> Model:
    with noting_empty(options.get("input_shapes")):
        model: Model = opened.format.convert(opened.source, options)
    return model if variables is None else _with_variables(model, variables)


def _with_variables(model: Model, variables: Mapping[str, Any]) -> Model:
    return replace(model, variables=variables, given_variables=True)


@with_checked_arguments
def save_model(model: Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model as a folder or an archive; reading it again gives an equal model.

    Texts are written as they were read, in the tools dialect after a line that names it. The target
    is replaced only when everything is written.

    Parameters
    ----------
    model
        The model.
    path
        A folder, or an archive if it ends in ``.tar``, ``.tgz`` or ``.tar.gz``.
    overwrite
        Replace the model in an existing folder even if it was changed or made by hand. By default a
        folder is replaced only if this program wrote it and its files were not changed since, or if
        the model was read from it. Files that are not part of the model stay.

    Raises
    ------
    NnefError
        If the model cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import tvm_nnef
    >>> model = tvm_nnef.load_model("docs/examples/digits")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tvm_nnef.save_model(model, f"{folder}/copy.tgz")
    ...     tvm_nnef.load_model(f"{folder}/copy.tgz").graphs
    ('Digits',)
    """
    from tvm_nnef.storage.output import is_same_file
    from tvm_nnef.storage.write import Content, write_container

    if not isinstance(model, Model):
        hint = "give what load_model or convert returns"
        raise error(f"an object of type {type(model).__name__} is not a Model", hint=hint)
    files: dict[str, Content] = {}
    for name, module in model.program.modules.items():
        if not module.source.path.startswith(STDLIB_PREFIX):
            text = module.source.text
            if name == MAIN and model.dialect == "tools" and not text.startswith(_TOOLS_LINE):
                text = _TOOLS_LINE + text
            files[f"{name.replace('.', '/')}.sknd"] = text.encode()
    for name in model.variables:
        dtype = model.metadata.machine_types.get(name)
        files[variable_file_name(name)] = partial(variable_bytes, model.variables, name, dtype)
    if model.metadata != Metadata():
        files[METADATA_FILE] = write_metadata(model.metadata)
    write_container(path, files, overwrite=overwrite or is_same_file(model.path, path))


def _metadata(container: Container) -> Metadata:
    if not container.exists(METADATA_FILE):
        return Metadata()
    return read_metadata(container.read_text(METADATA_FILE), container.location(METADATA_FILE))


def _own(source: Source) -> Source:
    """A text of a model, under a path that is not taken for one of the standard library."""
    is_odd = source.path.startswith(STDLIB_PREFIX)
    return replace(source, path=f"./{source.path}") if is_odd else source


def _check_container(
    container: Container, dialect: str, search_path: Sequence[str | os.PathLike[str]]
) -> tuple[Program | None, list[Diagnostic]]:
    assert container.main is not None
    main = _own(container.read_source(container.main))
    folders = [search_folder(folder) for folder in search_path]
    chosen_dialect, ambiguities = _dialect(container, dialect)

    def load(parts: tuple[str, ...]) -> Source | tuple[Source, ...] | None:
        file = "/".join(parts) + ".sknd"
        if container.exists(file):
            return _own(container.read_source(file))
        for folder in folders:
            if folder.exists(file):
                return _own(folder.read_source(file))
        return (standard_module(parts[0], chosen_dialect) if len(parts) == 1 else ()) or None

    return check_program(main, load, dialect=chosen_dialect, ambiguities=ambiguities)


def _dialect(container: Container, dialect: str) -> tuple[str, Sequence[Ambiguity]]:
    """The dialect of a model, as given or as detected from its text, and what is ambiguous."""
    if dialect not in DIALECTS:
        hint = did_you_mean(dialect, DIALECTS) or f"one of {', '.join(DIALECTS)}"
        raise error(f"unknown dialect '{dialect}'", hint=hint)
    if dialect != "auto":
        return dialect, ()
    files = (name for name in container.names() if name.endswith(".sknd"))
    return detect((container.read_source(name) for name in files), tools_names())
