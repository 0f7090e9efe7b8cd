"""Arguments of a user: from arrays to the tensors of a graph, checked and converted.

A shape must be that of the tensor, and the kind of dtype that of its type, except that an input of
reals may be given as ints or truth values if none is rounded. Within a kind, reals are rounded, and
numbers must fit. Symbols must agree and keep their
bounds (section 2.6); the dimensions of a graph may be trees here. No operation is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.arguments.calls import ordered_inputs
from tvm_nnef.arrays.coded_arrays import named
from tvm_nnef.diagnostics import (
    Diagnostic,
    InputError,
    NnefError,
    Span,
    did_you_mean,
    error,
    plural,
    raised_as,
)
from tvm_nnef.graph.arrays import converted, shape_hint
from tvm_nnef.graph.machine_types import DEFAULTS, kind_of
from tvm_nnef.graph.nodes import Graph, Port, Tensor
from tvm_nnef.symbolic import trees

Array: TypeAlias = NDArray[Any]


@raised_as(InputError)
def bind_inputs(
    graph: Graph,
    given: Sequence[Any],
    types: Mapping[Tensor, str],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[dict[Tensor, Array], dict[str, int]]:
    """The arrays of the input tensors of a graph, and the values of the symbols of their shapes.

    ``given`` has an item for each input: an array (or number, or nested list of numbers, whose
    ints do as reals), for a pack a list of these, and None for null; or its single item maps names
    to these. Inputs that are left out have their values in ``defaults``. Raises InputError, which
    lists every input that is wrong.
    """
    given = ordered_inputs(graph, given, defaults=defaults)
    if len(given) != len(graph.inputs):
        names = ", ".join(f"'{port.name}'" for port in graph.inputs) or "none"
        count = plural(len(graph.inputs), "input")
        raise error(
            f"graph '{graph.name}' takes {count} ({names}), got {len(given)}",
            hint="give one value for each, in this order; None for one that is left out",
        )
    found: dict[Tensor, Array] = {}
    problems: list[Diagnostic] = []
    for port, value in zip(graph.inputs, given, strict=True):
        try:
            for title, tensor, item in _matched(port, value):
                found[tensor] = _converted(item, tensor, types[tensor], title, port.attributes)
        except NnefError as problem:
            problems += problem.diagnostics
    if problems:
        raise NnefError(problems)
    return found, _symbols(graph, found)


def _symbols(graph: Graph, arrays: Mapping[Tensor, Array]) -> dict[str, int]:
    """The values of the symbols in the shapes of the inputs, given their arrays.

    Raises NnefError if a value is beyond its bound, and where inputs do not agree.
    """
    values: dict[str, int] = {}
    givers: dict[str, str] = {}
    compound: list[tuple[str, trees.Tree, int]] = []
    for title, tensor in (each for port in graph.inputs for each in _titled(port)):
        for size, actual in zip(tensor.shape, arrays[tensor].shape, strict=True):
            tree = trees.tree(size)
            if isinstance(tree, list):
                compound.append((title, tree, actual))
            if not isinstance(tree, str):
                continue
            if values.setdefault(tree, actual) != actual:
                hint = f"both have the dimension '{tree}': give them the same size"
                message = f"{title}: {tree} is {actual}, but {givers[tree]} gave {values[tree]}"
                raise error(message, hint=hint)
            givers.setdefault(tree, title)
            if actual > graph.bounds.get(tree, actual):
                bound = graph.bounds[tree]
                hint = (
                    f"give at most {bound}, or build with a larger bound: '{tree}|{actual}' in the "
                    f"model, --bound {tree}={actual} for ONNX"
                )
                message = f"{title}: dimension {tree} = {actual} is beyond its bound {bound}"
                raise error(message, hint=hint)
    for title, tree, actual in compound:
        expected = trees.evaluate(tree, values)
        if actual != expected:
            where = ", ".join(f"{name} = {values[name]}" for name in sorted(trees.names(tree)))
            meant = f"{trees.text(tree)} is {expected} where {where}"
            hint = f"make it {expected}, or change the inputs that give the others"
            raise error(f"{title}: dimension {meant}, got {actual}", hint=hint)
    return values


def default_values(graph: Graph, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The values of inputs that a call may leave out, by the name of the input."""
    names = {port.name: f"{graph.name}.{port.name}" for port in graph.inputs if port.has_default}
    return {name: variables[full] for name, full in names.items() if full in variables}


@raised_as(InputError)
def bind_variables(
    graph: Graph, given: Mapping[str, Any], types: Mapping[Tensor, str]
) -> dict[Tensor, Array]:
    """The arrays of the variables of a graph, found by full name; what is not asked for is left.

    Raises NnefError, which lists every variable that is missing or wrong.
    """
    found: dict[Tensor, Array] = {}
    problems: list[Diagnostic] = []
    for tensor in graph.variables:
        try:
            if tensor.name not in given:
                near = did_you_mean(tensor.name, given)
                hint = (
                    near or f"give the model a file '{tensor.name}.dat', or pass it in 'variables'"
                )
                raise error(f"variable '{tensor.name}' has no value", tensor.span, hint=hint)
            title = f"variable '{tensor.name}'"
            found[tensor] = _converted(given[tensor.name], tensor, types[tensor], title)
        except NnefError as problem:
            problems += problem.diagnostics
    if problems:
        raise NnefError(problems)
    return found


def _matched(port: Port, value: Any) -> list[tuple[str, Tensor, Any]]:
    """The tensors of a port with what was given for each, and how to call it in a message."""
    title = f"input '{port.name}'"
    match port.operand:
        case None:
            if value is None:
                return []
            raise error(f"{title} is null in this graph, but got a value", hint="pass None")
        case Tensor() as tensor if port.stacked:
            return [(title, tensor, _stacked(value, tensor, title))]
        case Tensor() as tensor:
            return [(title, tensor, value)]
        case pack:
            if not isinstance(value, (list, tuple)) or len(value) != len(pack):
                actual = f"{len(value)}" if isinstance(value, (list, tuple)) else "no list"
                hint = f"write [{', '.join(each.short_name for each in pack)}], an array for each"
                message = f"{title} is a pack: expected a list of {len(pack)}, got {actual}"
                raise error(message, hint=hint)
            titled = zip(_titled(port), value, strict=True)
            return [(title, tensor, item) for (title, tensor), item in titled]


def _stacked(value: Any, tensor: Tensor, title: str) -> Any:
    """The items of a pack of dynamic length as one array; an array holds them already."""
    if not isinstance(value, (list, tuple)):
        return value
    if not value:
        shape = [size if isinstance(size, int) else 0 for size in tensor.shape]
        return np.zeros([0, *shape[1:]], DEFAULTS[tensor.type])
    items = [_array(item, tensor, title) for item in value]
    shapes = sorted({item.shape for item in items})
    if len(shapes) > 1:
        hint = "bring them to one shape: they are stacked to one array"
        raise error(f"{title}: items of different shapes {shapes}", tensor.span, hint=hint)
    return np.stack(items)


def _titled(port: Port) -> list[tuple[str, Tensor]]:
    """The tensors of a port, and how to call them in a message."""
    title = f"input '{port.name}'"
    if isinstance(port.operand, tuple):
        return [(f"{title}, item {number}", item) for number, item in enumerate(port.operand, 1)]
    return [] if port.operand is None else [(title, port.operand)]


def _converted(
    value: Any,
    tensor: Tensor,
    dtype: str,
    title: str,
    attributes: Sequence[str | None] = (),
) -> Array:
    array = _array(value, tensor, title)
    expected = [size if isinstance(size, int) else None for size in tensor.shape]
    if array.ndim != len(expected) or any(
        wanted not in (None, actual) for wanted, actual in zip(expected, array.shape, strict=True)
    ):
        text = f"({', '.join(map(trees.text, tensor.shape))})"
        actual = f"({', '.join(str(size) for size in array.shape)})"
        hint = shape_hint(array.shape, tensor, attributes)
        raise error(f"{title}: expected shape {text}, got {actual}", tensor.span, hint=hint)
    array = named(array, dtype)
    if tensor.role == "input" and tensor.type == "real" and kind_of(array.dtype) in ("int", "bool"):
        return _exact(array, converted(array.astype(np.float64), tensor, dtype, title), title)
    if kind_of(array.dtype) != tensor.type:
        hint = f"convert it first, as in x.astype('{dtype}')"
        message = f"{title}: expected {tensor.type} ({dtype}), got {array.dtype}"
        raise error(message, tensor.span, hint=hint)
    return converted(array, tensor, dtype, title)


def _exact(given: Array, made: Array, title: str) -> Array:
    """Integers or truth values as reals. Raises NnefError if one of them is rounded."""
    changed = made.astype(np.float64) != given
    if given.dtype.kind != "b" and np.abs(given.astype(np.float64)).max(initial=0) >= 2**53:
        changed = np.array([int(a) != int(b) for a, b in zip(made.flat, given.flat, strict=True)])
    if changed.any():
        number = given[changed.reshape(given.shape)].flat[0]
        hint = f"round it yourself, as in x.astype('{made.dtype}')"
        raise error(f"{title}: {made.dtype} does not hold {number} of {given.dtype}", hint=hint)
    return made


def _array(value: Any, tensor: Tensor, title: str) -> Array:
    """An array as it is; numbers and lists of them as the tensor's type, where none is lost."""
    array = array_given(value, tensor.type, title, tensor.span)
    plain = isinstance(value, (bool, int, float, list, tuple))
    if plain and tensor.type == "real" and array.dtype.kind in "iu":
        return array.astype(np.float64)
    # An empty list says nothing about its type.
    return array.astype(DEFAULTS[tensor.type]) if plain and not array.size else array


def array_given(value: Any, wanted: str, title: str, span: Span | None = None) -> Array:
    """The array that a value is; ``wanted`` and ``title`` are for a message.

    Raises InputError for what is neither an array nor numbers, and for masked elements.
    """
    if type(value) is np.ndarray and value.dtype.kind not in "OSU":
        return value  # As in nearly all calls.
    if np.ma.is_masked(value):
        hint = "fill in what is masked: x.filled(0)"
        raise error(f"{title}: elements of the array are masked", span, hint=hint, kind=InputError)
    if value is None or isinstance(value, (str, bytes, Iterator, set, frozenset)):
        kind = "None" if value is None else f"a {type(value).__name__}"
        hint = "give an array, or a number or nested list of numbers"
        if isinstance(value, str):
            hint += "; numpy.load and tvm_nnef.load_image read files"
        elif value is not None:
            hint += ": list(x)"
        raise error(f"{title}: expected {wanted}, got {kind}", span, hint=hint, kind=InputError)
    try:
        array = np.asarray(value)
    except ValueError as problem:
        hint = "give lists of equal lengths, or an array"
        message = f"{title}: no array can be made of this: {problem}"
        raise error(message, span, hint=hint, kind=InputError) from problem
    if array.dtype.kind in "OSU" and not kind_of(array.dtype):
        what = "texts" if array.dtype.kind != "O" else f"objects such as {type(value).__name__}"
        hint = "give an array, or a number or nested list of numbers"
        raise error(f"{title}: expected {wanted}, got {what}", span, hint=hint, kind=InputError)
    return array
