"""A model that was read: its checked program, its variables, what ``model.json`` says of it.

Enters whatever the user calls a model (see ``load_model``), leaves a :class:`Model`; and back to
disk. Nothing is composed here but for :func:`check`, and nothing is executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm_nnef.diagnostics import (
    MAX_REPORTED,
    Diagnostic,
    NnefError,
    Source,
    capped,
    did_you_mean,
    error,
)
from tvm_nnef.semantics.bounds import invoked_names
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import MAIN, STDLIB_PREFIX, Program
from tvm_nnef.standard_library import standard_module, tools_names
from tvm_nnef.storage.container import Container, ModelPath, open_container, open_files
from tvm_nnef.storage.metadata import Metadata, read_metadata, write_metadata
from tvm_nnef.storage.names import METADATA_FILE, variable_file_name
from tvm_nnef.syntax.dialect import Ambiguity, detect

if TYPE_CHECKING:
    import numpy as np

    from tvm_nnef.graph.nodes import Graph
    from tvm_nnef.storage.tensor_file import TensorHeader

DIALECTS = ("auto", "draft", "tools")
_TOOLS_LINE = "# dialect: tools\n"


class Variables(Mapping[str, Any]):
    """The variables of a model by full name, each read from its file when it is first asked for.

    Values are NumPy arrays. Raises NnefError for a file that is no valid tensor file.
    """

    def __init__(self, container: Container) -> None:
        suffix = variable_file_name("")
        files = [name for name in container.names() if name.endswith(suffix) and "/" not in name]
        self._container = container
        self._files = {name.removesuffix(suffix): name for name in files}
        self._read: dict[str, np.ndarray[Any, Any]] = {}

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self._read:
            from tvm_nnef.storage.tensor_file import read_tensor

            file = self._files[name]
            data = self._container.read(file)
            self._read[name] = read_tensor(data, self._container.place(file)).array
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def header(self, name: str) -> TensorHeader:
        """The header of a variable's file, of which nothing else is read."""
        from tvm_nnef.storage.tensor_file import HEADER_SIZE, read_tensor_header

        file = self._files[name]
        header = self._container.read(file, HEADER_SIZE)
        return read_tensor_header(header, self._container.place(file))

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def check(self) -> list[Diagnostic]:
        """What is wrong with the files as far as their headers and sizes tell."""
        if not self._files:
            return []
        from tvm_nnef.storage.tensor_file import HEADER_SIZE, check_size, read_tensor_header

        found: list[Diagnostic] = []
        for file in self._files.values():
            place = self._container.place(file)
            try:
                header = read_tensor_header(self._container.read(file, HEADER_SIZE), place)
                check_size(header, self._container.size(file), place)
            except NnefError as problem:
                found += problem.diagnostics
        return found


@dataclass(frozen=True, eq=False)
class Model:
    """A model in memory; it compares by identity.

    ``variables`` maps full names (``main.Net.weight``) to NumPy arrays, ``machine_types`` tensor
    names to dtypes. ``path`` is the model's name in messages. ``given_variables`` says whether
    the variables are those of a caller, whose unknown names are mistakes.
    """

    program: Program = field(repr=False)
    path: str
    variables: Mapping[str, Any] = field(repr=False)
    metadata: Metadata = field(default_factory=Metadata, repr=False)
    given_variables: bool = field(default=False, repr=False)

    @property
    def modules(self) -> Mapping[str, Any]:
        """The checked modules by name, ``main`` first."""
        return self.program.modules

    @property
    def graphs(self) -> tuple[str, ...]:
        """The names of the graphs of the main module; the first one is the primary one."""
        return tuple(definition.name for definition in self.program.graphs)

    @property
    def machine_types(self) -> Mapping[str, str]:
        """The dtypes of tensors by full name, where the model prescribes them."""
        return self.metadata.machine_types

    @property
    def dialect(self) -> str:
        """``draft`` or ``tools``."""
        return self.program.dialect


AnyModel: TypeAlias = "ModelPath | Model"


def load_model(
    model: AnyModel,
    *,
    dialect: str = "auto",
    search_path: Sequence[str | os.PathLike[str]] = (),
    variables: Mapping[str, Any] | None = None,
) -> Model:
    """Reads a model: parse, resolve imports, check, find the variables (sections 2.7, 2.15).

    ``model`` is a folder, a ``.sknd`` file, a ``.tar`` or ``.tgz`` archive, SkriptND text (with a
    newline), or a Model, which is given back as it is. Modules are looked for in the model, then in
    the folders of ``search_path``, then in the standard library. ``variables`` (full name to
    array) takes the place of ``.dat`` files.

    Raises NnefError, whose ``diagnostics`` list everything found.
    """
    if isinstance(model, Model):
        return model
    loaded, found = _read(model, dialect, search_path, variables)
    if loaded is None:
        raise NnefError(each for each in found if each.severity != "warning")
    return loaded


def _read(
    model: ModelPath,
    dialect: str,
    search_path: Sequence[str | os.PathLike[str]],
    variables: Mapping[str, Any] | None,
) -> tuple[Model | None, list[Diagnostic]]:
    """A model and everything found on the way; None where there are errors."""
    try:
        container = open_container(model)
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


def check(
    model: AnyModel,
    *,
    dialect: str = "auto",
    search_path: Sequence[str | os.PathLike[str]] = (),
    variables: Mapping[str, Any] | None = None,
    graph: str | None = None,
    attributes: Mapping[str, object] | None = None,
    types: Mapping[str, str] | None = None,
    input_shapes: Mapping[str, Any] | None = None,
) -> list[Diagnostic]:
    """Everything that is wrong with a model, in the order of position; no errors when valid.

    Beyond what :func:`load_model` finds, every graph whose attributes and input shapes are known
    is composed (only ``graph``, where one is named), and its variables are compared with their
    files; what could not be composed for lack of values is said in a note. TVM is not imported for
    static graphs. Raises nothing that a user can cause.
    """
    loaded: Model | None
    found: list[Diagnostic]
    if isinstance(model, Model):
        loaded, found = model, []
    else:
        loaded, found = _read(model, dialect, search_path, variables)
    if loaded is not None:
        found += _without_body(loaded)
        known = {(each.span, each.message) for each in found}
        for name in _to_compose(loaded) if graph is None else (graph,):
            for each in _check_graph(loaded, name, attributes, types, input_shapes):
                if (each.span, each.message) not in known:
                    known.add((each.span, each.message))
                    found.append(each)
    return capped(found)


def _without_body(model: Model) -> Iterator[Diagnostic]:
    """Operators of the model that say nowhere how their results are computed.

    One that a graph invokes is an error, any other a warning.
    """
    found = [
        definition
        for module in model.program.modules.values()
        if not module.is_standard
        for definition in module.definitions.values()
        if not (definition.is_graph or definition.is_lowered or definition.is_composed)
    ]
    invoked = model.program.invoked() if found else frozenset()
    for definition in found:
        yield Diagnostic(
            f"operator '{definition.name}' has no body",
            definition.node.name.span,
            "add '@lower' with formulas, or '@compose' with invocations; without them, only a "
            "function in 'lowerings' can compute it",
            severity="error" if definition.qualified_name in invoked else "warning",
        )


def _to_compose(model: Model) -> Iterator[str]:
    """The first graph, and the others that no graph invokes with attributes and shapes of its own.

    What is invoked is composed where it is.
    """
    invoked = invoked_names(model.program.modules[MAIN].node.definitions)
    return (name for i, name in enumerate(model.graphs) if not (i and name in invoked))


def _check_graph(
    model: Model,
    name: str,
    attributes: Mapping[str, object] | None,
    types: Mapping[str, str] | None,
    input_shapes: Mapping[str, Any] | None,
) -> list[Diagnostic]:
    from tvm_nnef.composition import NotGiven, compose_graph
    from tvm_nnef.metadata_check import check_metadata

    try:
        graph = compose_graph(
            model.program, graph=name, attributes=attributes, types=types, input_shapes=input_shapes
        )
    except NotGiven as missing:
        (first, *_) = missing.diagnostics
        message = f"graph '{name}' was not composed: {first.message}"
        return [Diagnostic(message, first.span, first.hint, severity="note")]
    except NnefError as problem:
        return list(problem.diagnostics)
    # What model.json names may belong to any graph.
    found = check_metadata(graph, model.metadata) if len(model.graphs) == 1 else []
    if not model.variables and graph.variables:
        message = f"the model has no variable files; graph '{name}' needs {len(graph.variables)}"
        return [*found, Diagnostic(message, severity="note", file=model.path)]
    try:
        check_variables(model, graph)
    except NnefError as problem:
        found += problem.diagnostics
    return found


def check_variables(model: Model, graph: Graph) -> None:
    """Raises an NnefError that lists what is wrong with the values of variables.

    That is every variable without a value, or with one of another shape or type, and every name
    that a caller gives and no variable has.
    """
    found = _unknown_variables(model, graph) if model.given_variables else []
    for tensor in graph.variables:
        if len(found) > MAX_REPORTED:
            break
        file = variable_file_name(tensor.name)
        if tensor.name not in model.variables:
            hint = did_you_mean(tensor.name, model.variables) or (
                f"it is read from '{file}' beside main.sknd"
            )
            message = f"variable '{tensor.name}' has no value: {model.path} has no file '{file}'"
            found.append(Diagnostic(message, tensor.span, hint))
            continue
        shape, dtype = _described(model.variables, tensor.name)
        fault = None
        if shape != tensor.shape:
            fault = f"with shape {list(tensor.shape)}, but '{file}' holds shape {list(shape)}"
        elif _KINDS.get(dtype.kind, tensor.type) != tensor.type:
            fault = f"as {tensor.type}, but '{file}' holds items of {dtype}"
        if fault:
            hint = "correct the declaration, or write the file again"
            message = f"variable '{tensor.name}' is declared {fault}"
            found.append(Diagnostic(message, tensor.span, hint))
    if found:
        raise NnefError(found)


def _unknown_variables(model: Model, graph: Graph) -> list[Diagnostic]:
    """The names given that are no variables; those of the model's other graphs are left out."""
    known = {tensor.name for tensor in graph.variables}
    others = tuple(f"{MAIN}.{name}." for name in model.graphs if f"{MAIN}.{name}" != graph.name)
    unknown = [
        name for name in model.variables if name not in known and not name.startswith(others)
    ]
    return [
        Diagnostic(
            f"graph '{graph.name}' has no variable '{name}'",
            hint=did_you_mean(name, known) or "variables are given by their full names",
        )
        for name in unknown[:MAX_REPORTED]
    ]


# NumPy's extension types, such as bfloat16, are of none of these kinds.
_KINDS: Mapping[str, str] = MappingProxyType({"f": "real", "i": "int", "u": "int", "b": "bool"})


def _described(variables: Mapping[str, Any], name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a variable."""
    if isinstance(variables, Variables):
        header = variables.header(name)
        return tuple(header.shape), header.dtype
    import numpy as np

    array = np.asarray(variables[name])
    return array.shape, array.dtype


def save_model(model: Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model as a folder, or as an archive if the path ends in .tar, .tgz or .tar.gz.

    Texts are written as they were read, in the tools dialect after a line that says so; the model
    that is read again is equal. The target is replaced only when everything is written. An
    existing folder is replaced if this program wrote it and its files were not changed since, or
    with ``overwrite``, or if the model was read from it; then files that are not part of the model
    stay. Raises NnefError if the model cannot be written.
    """
    from tvm_nnef.storage.output import is_same_file
    from tvm_nnef.storage.write import Content, write_container

    files: dict[str, Content] = {}
    for name, module in model.program.modules.items():
        if not module.source.path.startswith(STDLIB_PREFIX):
            text = module.source.text
            if name == MAIN and model.dialect == "tools" and not text.startswith(_TOOLS_LINE):
                text = _TOOLS_LINE + text
            files[f"{name.replace('.', '/')}.sknd"] = text.encode()
    for name in model.variables:
        files[variable_file_name(name)] = partial(_variable_bytes, model.variables, name)
    if model.metadata != Metadata():
        files[METADATA_FILE] = write_metadata(model.metadata)
    write_container(path, files, overwrite=overwrite or is_same_file(model.path, path))


def _variable_bytes(variables: Mapping[str, Any], name: str) -> bytes:
    from tvm_nnef.storage.tensor_file import write_tensor

    return write_tensor(variables[name], variable_file_name(name))


def _metadata(container: Container) -> Metadata:
    if not container.exists(METADATA_FILE):
        return Metadata()
    return read_metadata(container.read_text(METADATA_FILE), container.place(METADATA_FILE))


def _check_container(
    container: Container, dialect: str, search_path: Sequence[str | os.PathLike[str]]
) -> tuple[Program | None, list[Diagnostic]]:
    assert container.main is not None
    main = container.read_source(container.main)
    folders = [_search_folder(folder) for folder in search_path]
    told, ambiguities = _dialect(container, dialect)

    def load(parts: tuple[str, ...]) -> Source | tuple[Source, ...] | None:
        file = "/".join(parts) + ".sknd"
        if container.exists(file):
            return container.read_source(file)
        for folder in folders:
            if folder.exists(file):
                return folder.read_source(file)
        return (standard_module(parts[0], told) if len(parts) == 1 else ()) or None

    return check_program(main, load, dialect=told, ambiguities=ambiguities)


def _search_folder(folder: str | os.PathLike[str]) -> Container:
    try:
        if Path(folder).is_dir():
            return open_files(Path(folder))
    except (OSError, ValueError):
        pass
    hint = "search_path (--search-path) takes folders in which modules are found"
    raise error("there is no such folder", hint=hint, file=str(folder))


def _dialect(container: Container, dialect: str) -> tuple[str, Sequence[Ambiguity]]:
    """The dialect of a model, as it was given or as its text tells it, and what is ambiguous."""
    if dialect not in DIALECTS:
        hint = did_you_mean(dialect, DIALECTS) or f"one of {', '.join(DIALECTS)}"
        raise error(f"unknown dialect '{dialect}'", hint=hint)
    if dialect != "auto":
        return dialect, ()
    files = (name for name in container.names() if name.endswith(".sknd"))
    return detect((container.read_source(name) for name in files), tools_names())
