"""Everything that is wrong with a model, as a list: what users call ``check``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvm_nnef.diagnostics import Diagnostic, NnefError, capped
from tvm_nnef.formats.reading import AnyModel, load, read_model
from tvm_nnef.formats.registry import open_source
from tvm_nnef.model.dtypes import split_dtypes, with_dtypes
from tvm_nnef.model.model import Model
from tvm_nnef.model.options import Reading
from tvm_nnef.model.variables import check_variables, unknown_variables, without_files
from tvm_nnef.semantics.bounds import invoked_names
from tvm_nnef.semantics.program import MAIN
from tvm_nnef.support.argument_kinds import given_options, wrong_arguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvm_nnef.model.options import ConversionOptions


def check(
    model: AnyModel,
    *,
    dialect: str = "auto",
    search_path: Sequence[str | os.PathLike[str]] = (),
    variables: Mapping[str, Any] | None = None,
    format: str | None = None,
    graph: str | None = None,
    attributes: Mapping[str, object] | None = None,
    types: Mapping[str, str] | None = None,
    input_shapes: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    **convert_options: Unpack[ConversionOptions],
) -> list[Diagnostic]:
    """Report everything that is wrong with a model.

    Besides reading the model as :func:`load_model` does, this composes each graph whose attributes
    and input shapes are known, and compares its variables with their files. A note names a graph
    that was not composed. TVM is not imported for static graphs.

    Parameters
    ----------
    model, dialect, search_path, variables, format
        As for :func:`load_model`.
    graph
        The only graph to compose; all by default.
    attributes, types, input_shapes, dtypes
        As for :func:`compose`.
    **convert_options
        Those of the conversion, for a model of another format.

    Returns
    -------
    list of Diagnostic
        Errors, warnings and notes in the order of position; without errors if the model is valid.

    Examples
    --------
    >>> import tvm_nnef
    >>> tvm_nnef.check("docs/examples/digits")
    []
    >>> text = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = z; } }"
    >>> [each.message for each in tvm_nnef.check(text + chr(10))]
    ["'z' is not defined"]
    """
    converting: dict[str, Any] = given_options(convert_options)
    reading = {"dialect": dialect, "search_path": search_path, "format": format, "graph": graph}
    mappings = {"attributes": attributes, "types": types, "input_shapes": input_shapes}
    mappings |= {"dtypes": dtypes, "variables": variables}
    if wrong := wrong_arguments({**reading, **mappings, **converting}):
        return wrong
    loaded: Model | None
    found: list[Diagnostic]
    try:
        opened = None if isinstance(model, Model) else open_source(model, format)
        if opened is not None and opened.format.is_foreign:
            converting["input_shapes"], input_shapes = input_shapes, None
            dtypes, converting["dtypes"] = split_dtypes(dtypes)
        asked = Reading(dialect, search_path, variables, format, converting)
        loaded, found = (load(model, asked), []) if opened is None else read_model(opened, asked)
    except NnefError as problem:
        return list(problem.diagnostics)
    if loaded is not None:
        found += _without_body(loaded)
        composing = {"attributes": attributes, "types": types, "input_shapes": input_shapes}
        known = {(each.span, each.message) for each in found}
        for name in _to_compose(loaded) if graph is None else (graph,):
            for each in _check_graph(loaded, name, composing, dtypes):
                if (each.span, each.message) not in known:
                    known.add((each.span, each.message))
                    found.append(each)
        unknown = () if variables is None else unknown_variables(loaded.program, variables)
        found += (each for each in unknown if (None, each.message) not in known)
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
    invoked = model.program.invoked() if found else {}
    for definition in found:
        yield Diagnostic(
            f"operator '{definition.name}' has no body",
            definition.node.name.span,
            "add '@lower' with formulas, or '@compose' with invocations; without them, only a "
            "function in 'lowerings' can compute it",
            severity="error" if definition.qualified_name in invoked else "warning",
        )


def _to_compose(model: Model) -> Iterator[str]:
    """The first graph, and the others that no graph invokes with its own attributes and shapes.

    What is invoked is composed where it is.
    """
    invoked = invoked_names(model.program.modules[MAIN].node.definitions)
    return (name for i, name in enumerate(model.graphs) if not (i and name in invoked))


def _check_graph(
    model: Model, name: str, composing: Mapping[str, Any], dtypes: Mapping[str, Any] | None
) -> list[Diagnostic]:
    from tvm_nnef.composition import NotGiven, compose_graph
    from tvm_nnef.model.metadata_check import check_metadata

    try:
        graph = compose_graph(model.program, graph=name, **composing)
        if dtypes:
            with_dtypes(graph, {}, dtypes)
    except NotGiven as missing:
        (first, *_) = missing.diagnostics
        message = f"graph '{name}' was not composed: {first.message}"
        return [Diagnostic(message, first.span, first.hint, severity="note")]
    except NnefError as problem:
        return list(problem.diagnostics)
    # What model.json names may belong to any graph.
    found = check_metadata(graph, model.metadata) if len(model.graphs) == 1 else []
    if not model.variables and graph.variables:
        return [*found, without_files(model, graph, "note")]
    try:
        check_variables(model, graph)
    except NnefError as problem:
        found += problem.diagnostics
    return found
