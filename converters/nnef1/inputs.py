"""The external tensors of a graph as inputs, with the user's specifications of shapes and
dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_nnef.converters.common.bounds import Bounds, check_bounds
from tvm_nnef.converters.common.inputs import input_tensors
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Type
from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.calls import Value
from tvm_nnef.converters.nnef1.checking import Checked
from tvm_nnef.converters.nnef1.compile_time import evaluated
from tvm_nnef.converters.nnef1.operators.operation import DTYPES
from tvm_nnef.diagnostics import NnefError, error


@dataclass(frozen=True)
class Given:
    """The user's specifications of inputs."""

    shapes: Mapping[str, Sequence[int | str]]
    dtypes: Mapping[str, str]
    bounds: Bounds


def graph_inputs(
    checked: Checked, given: Given, path: str
) -> tuple[dict[str, Tensor], dict[str, Value]]:
    """Return the inputs by name, and the values of the dimensions that the document names.

    Inputs whose shape cannot be evaluated are omitted; the expansion reports them. Raises NnefError
    for specifications that do not fit, and for dynamic dimensions without a bound.
    """
    declared = _declared(checked)
    symbols = checked.extended.symbols
    dynamic = [
        each
        for name, known in declared.items()
        for each in given.shapes.get(name, known.shape or ())
        if isinstance(each, str)
    ]
    bounds: Bounds = given.bounds
    if isinstance(bounds, Mapping):
        check_bounds(bounds, {*dynamic, *declared, *symbols}, dynamic)
        bounds = {**checked.extended.bounds, **bounds}
    elif not bounds:
        bounds = checked.extended.bounds
    found, values = input_tensors(declared, given.shapes, given.dtypes, bounds, path)
    inputs = {each.source: each for each in found}
    named: dict[str, Value] = {name: each for name, each in values.items() if name in symbols}
    for name, known in declared.items():
        for symbol, size in zip(known.shape or (), inputs[name].shape, strict=True):
            if isinstance(symbol, str):
                named[symbol] = size
    _check_symbols(checked, named)
    return inputs, named


def _declared(checked: Checked) -> dict[str, Type]:
    """Return the declaration of each input in the document; symbols are names."""
    names: dict[str, Value] = {name: name for name in checked.extended.symbols}
    types: dict[str, Type] = {}
    for statement in checked.statements:
        value, target = statement.value, statement.target
        if not isinstance(value, nodes.Invocation) or value.name.name != "external":
            continue
        item_type = checked.generics.get(value) or "scalar"
        if item_type not in DTYPES or not isinstance(target, nodes.Name):
            continue
        dtype = checked.extended.dtypes.get(target.name, DTYPES[item_type])
        (argument,) = value.arguments
        _check_names(argument.value, names)
        try:
            shape = evaluated(argument.value, names)
        except NnefError:
            continue
        assert isinstance(shape, tuple)
        known = tuple(each for each in shape if isinstance(each, (int, str)))
        types[target.name] = Type(dtype, known)
    return types


def _check_names(shape: nodes.Expression, names: Mapping[str, Value]) -> None:
    """Raise NnefError unless each symbol in a shape is a dimension by itself."""
    items = shape.items if isinstance(shape, nodes.Array) else (shape,)
    for item in items:
        inside = (
            () if isinstance(item, nodes.Name) and item is not shape else nodes.expressions(item)
        )
        for node in inside:
            if isinstance(node, nodes.Name) and node.name in names:
                message = f"a dimension of an input is computed from '{node.name}'"
                hint = "give it its own symbol, as in 'extension tract_symbol N;'"
                raise error(message, item.span, hint=hint)


def _check_symbols(checked: Checked, named: Mapping[str, Value]) -> None:
    """Raise NnefError if a document uses a dynamic dimension that no input has."""
    unknown = {name for name in checked.extended.symbols if name not in named}
    bodies = (each.body or () for each in checked.document.fragments)
    for body in (*bodies, checked.document.graph.body):
        for statement in body:
            for node in nodes.expressions(statement.value):
                if isinstance(node, nodes.Name) and node.name in unknown:
                    message = f"'{node.name}' is not a dimension of an input"
                    raise error(message, node.span, hint="write it in the shape of an input")
