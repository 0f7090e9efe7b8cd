"""``convert``: an ONNX model, read, converted step by step, named, and put together as a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_nnef.converters.common.assembly import assemble_graph
from tvm_nnef.converters.common.bounds import Bounds
from tvm_nnef.converters.common.input_options import shapes_given
from tvm_nnef.converters.common.operator_modules import EXTRA, NBITS, Library
from tvm_nnef.converters.onnx.caches import with_caches, without_states
from tvm_nnef.converters.onnx.conversion import convert_graph
from tvm_nnef.converters.onnx.reading import OnnxModel, Source, makers, read
from tvm_nnef.converters.onnx.registry import Custom, Table, standard, with_custom
from tvm_nnef.converters.onnx.replaceable import with_replaceable
from tvm_nnef.converters.onnx.state import State
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.machine_types import dtypes_given
from tvm_nnef.model.model import Model
from tvm_nnef.model.options import search_folder
from tvm_nnef.semantics.program import MAIN
from tvm_nnef.stdlib.library import standard_module
from tvm_nnef.support.progress import report
from tvm_nnef.version import __version__

LIBRARY = Library(
    "onnx", "tvm_nnef.converters.onnx", "ONNX operators that the standard library lacks"
)
"""Operators of ONNX alone."""
_ML = Library(
    "ml", "tvm_nnef.converters.onnx", "Operators of ONNX's domain for classical machine learning"
)


_LIBRARIES = (EXTRA, LIBRARY, _ML, NBITS)


def convert(
    source: Source,
    states: Sequence[State] = (),
    *,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    bounds: Bounds = 0,
    converters: Custom | None = None,
    outline: bool = True,
    replaceable: Collection[str] = (),
    state: Mapping[str, str] | None = None,
) -> Model:
    """An ONNX model (a path, bytes or a ModelProto; opset 7 and up) as a SkriptND model.

    ``input_shapes`` and ``dtypes`` (NumPy's) complete the declarations, by input. A dimension
    that has a name, in the model or in ``input_shapes``, and no number is dynamic up to its bound:
    ``bounds={"batch": 16}``, or one number for all. A data-dependent result has bounds
    by its name, one for all of its dimensions or one for each: ``bounds={"y": (None, 16)}``.
    ``converters`` are a user's own: functions by operator (``"domain::Name"``), or what
    :func:`~tvm_nnef.converters.onnx.operator` marks. Blocks of operations that repeat become
    operators of the model's own, unless ``outline`` is false. ``replaceable`` are names of
    initializers that are inputs, too, and become inputs with a default, instead of constants, which
    come after the others. ``state`` has pairs of an input and an output, by their names or what
    these begin with, that become variables which each call updates, zero at first; those that grow
    have a bound. ``states`` are inputs that are state already, the last ones. The model keeps
    names, dtypes and the names of tensors and nodes in the source (``metadata``).

    Raises NnefError, which lists every node that cannot be converted, why, and what to do.
    """
    model, defaults = with_replaceable(read(source), replaceable)
    table = standard() if converters is None else with_custom(converters)
    shapes, named = shapes_given(input_shapes), dtypes_given(dtypes)
    model, caches, bounds = with_caches(model, state or {}, shapes, bounds)
    shapes = without_states(shapes, caches)
    states = (*states, *caches)
    converted = convert_graph(model, table, shapes, named, bounds, states)
    graph = replace(converted, defaults=defaults.values, fixed_inputs=defaults.fixed)
    given = model.proto.graph.name or "G"
    report("finding repeated blocks", 1, 1)
    assembled = assemble_graph(
        graph,
        given.removeprefix(f"{MAIN}.") if model.scope else given,
        path=model.path,
        header=_header(model),
        libraries=_LIBRARIES,
        modules=_own_modules(table),
        scope=model.scope,
        outline=outline,
    )
    nodes = {value: f"{operator} {name}" for value, (name, operator) in makers(model)}
    names = assembled.metadata.source_names.items()
    operations = {ours: nodes[name] for ours, name in names if name in nodes}
    labels = next((each.texts for each in graph.outputs if each.texts), ())
    metadata = replace(assembled.metadata, source_operations=operations, labels=labels)
    return Model(*assembled._replace(metadata=metadata))


def _own_modules(table: Table) -> dict[str, str]:
    """Return the texts of the modules of a user's own converters, by name.

    Raises NnefError for a file that cannot be read or has the name of another module.
    """
    texts: dict[str, str] = {}
    paths = {each.module for entries in table.values() for each in entries if each.module}
    for path in sorted(paths):
        name = path.stem
        taken = name == MAIN or name in texts or name in {each.name for each in _LIBRARIES}
        if taken or path.suffix != ".sknd" or not name.isidentifier() or standard_module(name):
            hint = "rename it: an identifier that no other module has, and '.sknd'"
            raise error("the module of a converter has a wrong name", hint=hint, file=str(path))
        if not path.is_file():
            hint = "correct the path that 'operator' was given as 'module'"
            raise error("there is no such file", hint=hint, file=str(path))
        texts[name] = search_folder(path.parent).read_source(path.name).text
    return texts


def _header(model: OnnxModel) -> str:
    """Where a model comes from; the same for the same model wherever its file lies."""
    proto = model.proto
    producer = " ".join(filter(None, (proto.producer_name, proto.producer_version)))
    versions = ", ".join(f"{domain or 'ai.onnx'} {v}" for domain, v in model.opsets.items())
    file = "an ONNX model" if model.folder is None else f"'{Path(model.path).name}'"
    origin = f", made by {_line(producer)}" if producer else ""
    return f"Converted from {file} by tvm-nnef {__version__}.\nONNX opset {versions}{origin}."


def _line(text: str) -> str:
    """A text of the source as one line of a comment."""
    return " ".join(text.split())
