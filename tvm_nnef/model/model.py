"""A model in memory: its checked program, its variables, and its metadata from ``model.json``.

Input: whatever the user calls a model (see ``load_model``). Output: a :class:`Model`; and back to
disk. Nothing is composed or executed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm_nnef.diagnostics import (
    error,
    plural,
    printable,
)
from tvm_nnef.model.pickling import Texts, program_of, texts_of
from tvm_nnef.model.variables import variable_bytes
from tvm_nnef.semantics.program import MAIN, STDLIB_PREFIX, Program
from tvm_nnef.storage.metadata import Metadata, write_metadata
from tvm_nnef.storage.names import METADATA_FILE, variable_file_name
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.support.html_table import html_table
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    pass

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
    quantization_report
        The errors of weights, of a model that :func:`quantize` returned.

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
    quantization_report: Any = None

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
