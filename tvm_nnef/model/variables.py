"""The values of a model's variables: read when first used, checked against a graph, written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.diagnostics import (
    MAX_REPORTED,
    Diagnostic,
    NnefError,
    Severity,
    did_you_mean,
    plural,
)
from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.semantics.program import MAIN, Program
from tvm_nnef.storage.container import Container
from tvm_nnef.storage.names import variable_file_name

if TYPE_CHECKING:
    import numpy as np

    from tvm_nnef.graph.nodes import Graph, Tensor
    from tvm_nnef.storage.tensor_file import TensorHeader


class WithVariables(Protocol):
    """The part of a model that concerns its variables."""

    @property
    def path(self) -> str:
        """The name of the model in messages."""

    @property
    def graphs(self) -> tuple[str, ...]:
        """The names of its graphs."""

    @property
    def variables(self) -> Mapping[str, Any]:
        """Arrays by full name."""

    @property
    def given_variables(self) -> bool:
        """Whether a caller gave them."""


class Variables(Mapping[str, Any]):
    """The variables of a model by full name, each read from its file when it is first asked for.

    Values are NumPy arrays. Raises NnefError for a file that is not a valid tensor file.
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
            self._read[name] = read_tensor(data, self._container.location(file)).array
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def header(self, name: str) -> TensorHeader:
        """The header of a variable's file, of which nothing else is read."""
        from tvm_nnef.storage.tensor_file import HEADER_SIZE, read_tensor_header

        file = self._files[name]
        header = self._container.read(file, HEADER_SIZE)
        return read_tensor_header(header, self._container.location(file))

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        names = [*islice(self, 3), *(["…"] if len(self) > 3 else [])]
        return f"<{plural(len(self), 'variable')}: {', '.join(names)}>"

    def check(self) -> list[Diagnostic]:
        """Return the errors in the files, judged by their headers and sizes."""
        if not self._files:
            return []
        from tvm_nnef.storage.tensor_file import HEADER_SIZE, check_size, read_tensor_header

        found: list[Diagnostic] = []
        for file in self._files.values():
            location = self._container.location(file)
            try:
                header = read_tensor_header(self._container.read(file, HEADER_SIZE), location)
                check_size(header, self._container.size(file), location)
            except NnefError as problem:
                found += problem.diagnostics
        return found


def check_variables(model: WithVariables, graph: Graph) -> None:
    """Raises an NnefError that lists what is wrong with the values of variables.

    That is every variable without a value, or with one of another shape or type, and every name
    that a caller gives and no variable has.
    """
    if len(graph.variables) > 1 and not model.variables and not model.given_variables:
        raise NnefError([without_files(model, graph)])
    found = _unknown_variables(model, graph) if model.given_variables else []
    unused = set(model.variables).difference(tensor.name for tensor in graph.variables)
    for tensor in (*graph.variables, *graph.defaults):
        if len(found) > MAX_REPORTED:
            break
        if tensor.name in model.variables:
            found += _misfit(model, tensor)
        else:
            found.append(_without_value(model, tensor, unused))
    if found:
        raise NnefError(found)


def unknown_variables(program: Program, names: Iterable[str]) -> list[Diagnostic]:
    """Errors for names of no variable, whatever the attributes of the graphs are.

    A variable has the name of its graph and that of its declaration, which may be in an operator.
    """
    reached = (*program.graphs, *program.invoked().values())
    every = [each for found in reached for each in found.variables]
    last = {(each.name.name, ":" if each.type.pack else "") for each in every}
    graphs = tuple(f"{graph.qualified_name}." for graph in program.graphs)
    known = [
        f"{graph.qualified_name}.{each.name.name}"
        for graph in program.graphs
        for each in graph.variables
    ]
    unknown = (
        name
        for name in names
        if not (name.startswith(graphs) and name.rpartition(".")[2].partition(":")[:2] in last)
    )
    return [_unknown_variable(name, known) for name in islice(unknown, MAX_REPORTED)]


def check_names(graph: Graph, variables: Mapping[str, Any]) -> None:
    """Raises an NnefError for names of no variable; those of other graphs may be given."""
    known = [tensor.name for tensor in (*graph.variables, *graph.defaults)]
    own, every = f"{graph.name}.", f"{MAIN}."
    strange = (each for each in variables if each.startswith(own) or not each.startswith(every))
    unknown = [name for name in strange if name not in known]
    if unknown:
        raise NnefError(_unknown_variable(name, known) for name in unknown[:MAX_REPORTED])


def _unknown_variable(name: str, known: Collection[str]) -> Diagnostic:
    example = f", as '{min(known)}'" if known else ""
    hint = did_you_mean(name, known) or f"variables are given by their full names{example}"
    return Diagnostic(f"the model has no variable '{name}'", hint=hint)


def without_files(model: WithVariables, graph: Graph, severity: Severity = "error") -> Diagnostic:
    """That none of the variables of a graph has a file."""
    count, first = len(graph.variables), graph.variables[0].name
    message = f"the model has no variable files; graph '{graph.name}' needs {count}"
    files = f"'{variable_file_name(first)}'{' and the others' if count > 1 else ''}"
    hint = f"write {files} by tvm_nnef.write_tensor, or give arrays: load_model(…, variables=…)"
    return Diagnostic(message, hint=hint, severity=severity, file=model.path)


def _without_value(model: WithVariables, tensor: Tensor, unused: set[str]) -> Diagnostic:
    """That a variable has no value; a name that nothing uses may be meant for it."""
    file = variable_file_name(tensor.name)
    missing, hint = f"{model.path} has no file '{file}'", "it is read from that file"
    if model.given_variables:
        missing = "'variables' does not have it"
        hint = f"give it by its full name: variables={{'{tensor.name}': …}}"
    message = f"variable '{tensor.name}' has no value: {missing}"
    return Diagnostic(message, tensor.span, did_you_mean(tensor.name, unused) or hint)


def _misfit(model: WithVariables, tensor: Tensor) -> Iterator[Diagnostic]:
    """Yield the difference of a variable from its declaration in shape or type, if it differs."""
    shape, dtype = _described(model.variables, tensor.name)
    if not tensor.fits(shape):
        declared, found = f"with shape {list(tensor.shape)}", f"shape {list(shape)}"
    elif DTYPES.get(dtype.name, tensor.type) != tensor.type:
        declared, found = f"as {tensor.type}", f"items of {dtype}"
    else:
        return
    holder, hint = f"'{variable_file_name(tensor.name)}' holds", "write the file again"
    if model.given_variables:
        holder, hint = "the array given for it has", "give another array"
    message = f"variable '{tensor.name}' is declared {declared}, but {holder} {found}"
    yield Diagnostic(message, tensor.span, f"correct the declaration, or {hint}")


def _unknown_variables(model: WithVariables, graph: Graph) -> list[Diagnostic]:
    """The names given that are not variables; those of the model's other graphs are left out."""
    known = {tensor.name for tensor in (*graph.variables, *graph.defaults)}
    others = tuple(f"{MAIN}.{name}." for name in model.graphs if f"{MAIN}.{name}" != graph.name)
    unknown = [
        name for name in model.variables if name not in known and not name.startswith(others)
    ]
    return [_unknown_variable(name, known) for name in unknown[:MAX_REPORTED]]


def _described(variables: Mapping[str, Any], name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a variable."""
    if isinstance(variables, Variables):
        header = variables.header(name)
        return tuple(header.shape), header.dtype
    import numpy as np

    array = np.asarray(variables[name])
    return array.shape, array.dtype


def variable_bytes(variables: Mapping[str, Any], name: str, dtype: str | None) -> bytes:
    """The content of the file of a variable, for which the model may prescribe a dtype."""
    from tvm_nnef.storage.tensor_file import write_tensor

    array = variables[name]
    if dtype is not None and dtype in FORMATS and FORMATS[dtype].type == "int":
        from tvm_nnef.arrays.coded_arrays import packable

        array = packable(array, dtype)
    return write_tensor(array, variable_file_name(name))
