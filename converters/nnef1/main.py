"""The converter of NNEF 1 models: a model is read, checked, expanded, converted and assembled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_nnef.converters.common.assembly import assemble_graph
from tvm_nnef.converters.common.bounds import Bounds
from tvm_nnef.converters.common.grouping import grouped
from tvm_nnef.converters.common.input_options import shapes_given
from tvm_nnef.converters.common.operator_modules import EXTRA, Library
from tvm_nnef.converters.nnef1.checking import Checked, examine
from tvm_nnef.converters.nnef1.conversion import convert_graph
from tvm_nnef.converters.nnef1.inputs import Given
from tvm_nnef.converters.nnef1.operators.operation import OperatorFunction
from tvm_nnef.converters.nnef1.operators.registry import Table, standard
from tvm_nnef.converters.nnef1.quantization import quantizers
from tvm_nnef.converters.nnef1.reading import ModelSource, Nnef1Model, read
from tvm_nnef.converters.nnef1.vendors import extended
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean, error
from tvm_nnef.graph.machine_types import dtypes_given
from tvm_nnef.model.model import Model
from tvm_nnef.version import __version__

LIBRARY = Library("nnef1", "tvm_nnef.converters.nnef1", "Operations of NNEF 1")


def convert(
    source: ModelSource,
    *,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    bounds: Bounds = 0,
    converters: Mapping[str, OperatorFunction] | None = None,
    outline: bool = True,
    vendor: str | None = None,
) -> Model:
    """Convert an NNEF 1.0.4 model to a SkriptND model.

    Parameters
    ----------
    source
        A folder with ``graph.nnef``, an archive of it, the path of a ``graph.nnef``, or its text.
    input_shapes
        Shapes of inputs by name, instead of those of the document. A name, as in
        ``{"x": ("N", 3, 224, 224)}``, makes a dimension dynamic.
    dtypes
        NumPy dtypes of inputs by name. Without one, scalar inputs are float32, integer ones int32.
    bounds
        The largest size of each dynamic dimension, as in ``{"N": 16}``, or one number for all.
    converters
        Functions ``(operation, builder) -> tensor or tensors`` by the name of an operation, for
        fragments without a body, or instead of what this package does.
    outline
        Whether repeated blocks become operators of the model's own. Fragments of the document
        that have a body always do.
    vendor
        A vendor whose extensions the document may use: ``"tract"``.

    Returns
    -------
    Model
        Its tensors have the names of the graph, its variables their labels, if SkriptND
        allows; ``model.metadata.source_names`` has the original ones.

    Raises
    ------
    NnefError
        With everything in the document and its files that is wrong or cannot be converted.

    Examples
    --------
    >>> text = "version 1.0; graph g(x) -> (y) { x = external(shape = [2]); y = relu(x); }"
    >>> convert(text).graphs
    ('g',)
    """
    model = read(source)
    extension = extended(model.document, vendor, model.container)
    document = examine(extension.document, extension)
    quantized, checked = quantizers(model.quantization, document)
    table = _table(checked, converters or {})
    graph, groups = convert_graph(
        checked,
        model.container,
        quantized,
        table,
        _given(checked, shapes_given(input_shapes), dtypes_given(dtypes), bounds),
        model.path,
    )
    assembled = assemble_graph(
        grouped(graph, groups),
        checked.document.graph.name.name,
        path=model.path,
        header=_header(model),
        libraries=(EXTRA, LIBRARY),
        outline=outline,
    )
    return Model(*assembled)


def _table(checked: Checked, converters: Mapping[str, OperatorFunction]) -> Table:
    """Return the functions of operations: a user's converters first.

    It is None for fragments with a body.
    """
    if not isinstance(converters, Mapping):
        hint = "give a function for each operation: {'relu': function}"
        raise error(f"'converters' cannot be of type {type(converters).__name__}", hint=hint)
    problems: list[Diagnostic] = []
    for name, function in converters.items():
        if name not in checked.signatures:
            hint = did_you_mean(name, checked.signatures) or "declare it as a fragment"
            problems.append(Diagnostic(f"there is no operation '{name}' to convert", hint=hint))
        elif not callable(function):
            hint = "give a function of (operation, builder)"
            problems.append(Diagnostic(f"the converter of '{name}' is not a function", hint=hint))
    if problems:
        raise NnefError(problems)
    own = {name for name, each in checked.signatures.items() if not each.is_standard}
    every = {**standard(), **checked.extended.functions}
    known = {name: function for name, function in every.items() if name not in own}
    return {**known, **converters}


def _given(
    checked: Checked,
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
) -> Given:
    """Return the user's specifications of inputs. Raises NnefError for unknown names."""
    names = [each.name for each in checked.document.graph.parameters]
    for name in (*shapes, *dtypes):
        if name not in names:
            hint = did_you_mean(name, names) or f"inputs are {', '.join(names)}"
            raise error(f"the graph has no input '{name}'", hint=hint)
    return Given(shapes, dtypes, bounds)


def _header(model: Nnef1Model) -> str:
    """Return the header of the model's text: its source, independent of the folder of its files."""
    name = f"'{Path(model.path).name}'" if model.container else "a text"
    return f"Converted from {name} by tvm-nnef {__version__}.\nNNEF 1.0."
