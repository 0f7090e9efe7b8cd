"""What a user says that open extents are at most: of inputs, and of results that data decide.

One number for all, or by name: of an extent, of an input, or of a node's result. A name of an
input or a result may have a number for each dimension, None where it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx

from tvm_nnef.converters.onnx.inner_graphs import inner_graphs
from tvm_nnef.converters.onnx.types import dimension_name
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean

Bound: TypeAlias = "int | Sequence[int | None]"
Bounds: TypeAlias = "Mapping[str, Bound] | int"
"""The name ``""`` stands for all that have no entry of their own."""
_LISTED = 8
"""Names that a hint lists."""


def bound_of_extent(bounds: Bounds, name: str, tensor: str, axis: int) -> int:
    """The bound of an open extent of an input; 0 where there is none."""
    if not isinstance(bounds, Mapping):
        return bounds
    return at_axis(bounds.get(name), 0) or at_axis(bounds.get(tensor), axis) or _others(bounds)


def bounds_of_results(bounds: Bounds, names: Iterable[str]) -> tuple[Bound, ...]:
    """The bounds of a node's results, 0 where there is none."""
    if not isinstance(bounds, Mapping):
        return (bounds,)
    return tuple(bounds.get(name) or _others(bounds) if name else 0 for name in names)


def at_axis(bound: Bound | None, axis: int) -> int:
    """The number of one dimension, 0 where there is none."""
    if bound is None or isinstance(bound, int):
        return bound or 0
    return (bound[axis] or 0) if axis < len(bound) else 0


def _others(bounds: Mapping[str, Bound]) -> int:
    return at_axis(bounds.get(""), 0)


def check_bounds(
    bounds: Bounds, graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int | str]]
) -> None:
    """Raises NnefError for bounds that are no numbers from 1 on, or of names that nothing has."""
    if not isinstance(bounds, Mapping):
        if bounds < 0:
            raise NnefError([_wrong("bounds", bounds)])
        return
    known = {"", *_names(graph)}
    known |= {each for shape in shapes.values() for each in shape if isinstance(each, str)}
    problems = [
        _wrong(f"the bound of '{name}'", bound)
        for name, bound in bounds.items()
        if not _is_bound(bound)
    ]
    for name in (name for name in bounds if name not in known):
        hint = did_you_mean(name, known) or _hint(graph)
        problems.append(Diagnostic(f"there is no '{name}' that could have a bound", hint=hint))
    if problems:
        raise NnefError(problems)


def _hint(graph: onnx.GraphProto) -> str:
    dynamic = list(dict.fromkeys(_dynamic(graph)))
    if not dynamic:
        return "no input has a dynamic dimension; a result has a bound by its own name"
    listed = ", ".join(f"'{name}'" for name in dynamic[:_LISTED])
    more = f" and {len(dynamic) - _LISTED} more" if len(dynamic) > _LISTED else ""
    return f"dynamic dimensions of inputs are {listed}{more}; a result has a bound by its own name"


def _dynamic(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of the dynamic dimensions of inputs."""
    for value in graph.input:
        for axis, extent in enumerate(value.type.tensor_type.shape.dim):
            if not extent.HasField("dim_value"):
                yield dimension_name(extent) or f"{value.name}_{axis}"


def _is_bound(bound: object) -> bool:
    if isinstance(bound, Sequence) and not isinstance(bound, str):
        return bool(bound) and all(each is None or _is_number(each) for each in bound)
    return _is_number(bound)


def _is_number(bound: object) -> bool:
    return isinstance(bound, int) and not isinstance(bound, bool) and bound > 0


def _wrong(what: str, bound: object) -> Diagnostic:
    hint = "give a number from 1 on, or one for each dimension: {'y': (None, 16)}"
    return Diagnostic(f"{what} cannot be {bound!r}", hint=hint)


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of inputs, of their open extents, and of the results of nodes, inner ones too."""
    for value in graph.input:
        yield value.name
        for axis, extent in enumerate(value.type.tensor_type.shape.dim):
            yield dimension_name(extent) or f"{value.name}_{axis}"
    for node in graph.node:
        yield from node.output
        for inner in inner_graphs(node):
            yield from _names(inner)
