"""A Graph on arrays: from inputs and variables to outputs, one operation after the other.

An operation is evaluated by its body, never by its name, save for intrinsics, which have none.
An array is dropped after the last operation that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.diagnostics import NnefError, Note, error
from tvm_nnef.extents import Extent
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.machine_types import assign, compute_types
from tvm_nnef.graph.nodes import Graph, Operand, Operation, Tensor, flatten
from tvm_nnef.reference.arithmetic import Array, constant
from tvm_nnef.reference.formulas import run
from tvm_nnef.reference.inputs import bind_inputs, bind_variables
from tvm_nnef.reference.intrinsics import INTRINSICS
from tvm_nnef.reference.scalars import Block, OutOfBounds

Output: TypeAlias = "Array | list[Array] | None"


@dataclass(frozen=True, slots=True)
class _Run:
    """What all graphs of one evaluation share; ``symbols`` grows as data decide on extents."""

    types: Mapping[Tensor, str]
    variables: Mapping[Tensor, Array]
    observe: Callable[[Tensor, Array], None]
    symbols: dict[Extent, int] = field(default_factory=dict)


def evaluate(
    graph: Graph,
    inputs: Sequence[Any],
    variables: Mapping[str, Any],
    *,
    machine_types: Mapping[Tensor, str] | None = None,
    observe: Callable[[Tensor, Array], None] | None = None,
) -> tuple[Output, ...]:
    """The outputs of a graph, in its order; a pack is a list of arrays, null is None.

    ``inputs`` are in the order of the graph's inputs: an array, a list of arrays for a pack, None
    for null. ``variables`` maps full names to arrays. ``machine_types`` gives each tensor its
    dtype, by default the graph's own, or those of :func:`machine_types.assign`. ``observe`` is
    called with every tensor that an operation gives, inner ones included, and its array, which it
    must not change.

    Raises NnefError for inputs and variables that do not fit, and where a formula reads or writes
    outside of a tensor.
    """
    types = machine_types or graph.machine_types or assign(graph)
    context = _Run(
        types, bind_variables(graph, variables, types), observe or (lambda tensor, array: None)
    )
    with np.errstate(all="ignore"):
        values = _run_graph(graph, bind_inputs(graph, inputs, types), context)
    return tuple(_output(port.operand, values) for port in graph.outputs)


def _output(operand: Operand, values: Mapping[Tensor, Array]) -> Output:
    match operand:
        case None:
            return None
        case Tensor():
            return np.array(values[operand])
        case pack:
            return [np.array(values[tensor]) for tensor in pack]


def _run_graph(graph: Graph, values: dict[Tensor, Array], context: _Run) -> dict[Tensor, Array]:
    """The arrays of the output tensors of a graph, from those of its input tensors."""
    outputs = flatten(tuple(port.operand for port in graph.outputs))
    last = {
        tensor: position
        for position, operation in enumerate(graph.operations)
        for tensor in flatten(operation.operands)
    }
    for position, operation in enumerate(graph.operations):
        operands = {
            tensor: _read(tensor, values, context) for tensor in flatten(operation.operands)
        }
        results = _run_operation(operation, operands, context)
        values.update(results)
        for tensor in (*operands, *results):
            if last.get(tensor, -1) <= position and tensor not in outputs:
                values.pop(tensor, None)
    return {tensor: _read(tensor, values, context) for tensor in outputs}


def _read(tensor: Tensor, values: Mapping[Tensor, Array], context: _Run) -> Array:
    if tensor in values:
        return values[tensor]
    if tensor in context.variables:
        return context.variables[tensor]
    return _constant(tensor, np.dtype(context.types[tensor]))


def _constant(tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    match tensor.value:
        case tuple() as items:
            return np.array([constant(item, dtype) for item in items], dtype).reshape(tensor.shape)
        case bool() | int() | float() as item:
            return np.broadcast_to(constant(item, dtype), tensor.shape)
        case _:
            raise ValueError(f"tensor '{tensor.name}' ({tensor.role}) has no value")


def _run_operation(
    operation: Operation, operands: dict[Tensor, Array], context: _Run
) -> dict[Tensor, Array]:
    results = flatten(operation.results)
    match operation.body:
        case Graph() as body:
            values = _run_graph(body, dict(operands), context)
            outputs = flatten(tuple(port.operand for port in body.outputs))
            arrays = [values[tensor] for tensor in outputs]
        case Formula() as formula:
            arrays = _run_formula(operation, formula, operands, context)
            outputs = ()
        case None:
            tensors = [operands[tensor] for tensor in flatten(operation.operands)]
            arrays = list(_intrinsic(operation)(operation, tensors))
            outputs = ()
    found: dict[Tensor, Array] = {}
    for tensor, array in zip(results, arrays, strict=True):
        found[tensor] = array.astype(context.types[tensor], copy=False)
        _define(tensor, array.shape, context)
        # A body that ends in the result itself has shown it already.
        if tensor not in outputs:
            context.observe(tensor, found[tensor])
    return found


def _run_formula(
    operation: Operation, formula: Formula, operands: dict[Tensor, Array], context: _Run
) -> list[Array]:
    captures = {tensor: _read(tensor, operands, context) for tensor in formula.captures}
    dtypes = {
        kind: np.dtype(name) for kind, name in compute_types(operation, context.types).items()
    }
    try:
        found = run(formula, Block({**operands, **captures}, dtypes, context.symbols))
    except OutOfBounds as problem:
        raise _complaint(operation, str(problem)) from problem
    return [found[tensor] for tensor in flatten(operation.results)]


def _intrinsic(operation: Operation) -> Callable[..., Sequence[Array]]:
    if operation.operator not in INTRINSICS:
        known = ", ".join(INTRINSICS)
        message = f"the NumPy evaluator has no implementation of '{operation.operator}'"
        raise _complaint(operation, message, f"operators without a body that it has: {known}")
    return INTRINSICS[operation.operator]


def _define(tensor: Tensor, shape: tuple[int, ...], context: _Run) -> None:
    """Remembers the values of the symbols that a result defines."""
    for extent, value in zip(tensor.shape, shape, strict=True):
        if not isinstance(extent, int):
            context.symbols.setdefault(extent, value)


def _complaint(operation: Operation, message: str, hint: str | None = None) -> NnefError:
    where = f"in '{operation.label}' ({operation.operator}): " if operation.label else ""
    notes = [Note("invoked from here", span) for span in operation.trace[:-1]]
    return error(where + message, operation.span, hint=hint, notes=notes)
