"""Evaluation of a Graph on arrays, one operation after the other.

Input: arrays of inputs and variables. Output: arrays of outputs. An operation is evaluated by its
body, never by its name, except for intrinsics, which have none. An array is released after the last
operation that reads it; a loop keeps its carried tensors from one step to the next, and its scan
outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.arguments.inputs import bind_inputs, bind_variables, default_values
from tvm_nnef.arrays.coded_arrays import rounded
from tvm_nnef.diagnostics import NnefError, Note, error
from tvm_nnef.graph.checks import bound_checks, check_known, complaint, size_check, to_json
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.machine_types import assign, compute_types
from tvm_nnef.graph.nodes import (
    Attribute,
    Check,
    Graph,
    If,
    Loop,
    Node,
    Operand,
    Operation,
    Tensor,
    flatten,
    operator_name,
)
from tvm_nnef.reference.arithmetic import Array, constant, constant_array
from tvm_nnef.reference.formulas import run
from tvm_nnef.reference.intrinsics import INTRINSICS
from tvm_nnef.reference.scalars import Block, OutOfBounds
from tvm_nnef.symbolic import dimensions, trees

Output: TypeAlias = "Array | list[Array] | None"


@dataclass(frozen=True, slots=True)
class _Run:
    """The common state of all graphs of one evaluation.

    ``updated`` collects the new values of variables, which are not read before the run ends.
    ``bounds`` has the largest value of each symbol. ``symbols`` has the values of those that are
    known, and ``pending`` the checks that wait for others; a branch, and each step of a loop, has
    separate copies of both.
    """

    types: Mapping[Tensor, str]
    variables: Mapping[Tensor, Array]
    observe: Callable[[Tensor, Array], None]
    bounds: Mapping[str, int]
    symbols: dict[str, int]
    pending: list[Check] = field(default_factory=list)
    updated: dict[Tensor, Array] = field(default_factory=dict)
    constants: dict[Tensor, Array] = field(default_factory=dict)


def evaluate(
    graph: Graph,
    inputs: Sequence[Any],
    variables: Mapping[str, Any],
    *,
    machine_types: Mapping[Tensor, str] | None = None,
    observe: Callable[[Tensor, Array], None] | None = None,
    new_state: dict[str, Array] | None = None,
) -> tuple[Output, ...]:
    """Return the outputs of a graph, in its order; a pack is a list of arrays, null is None.

    ``inputs`` are in the order of the graph's inputs: an array, a list of arrays for a pack, None
    for null. ``variables`` maps full names to arrays. ``machine_types`` gives each tensor its
    dtype, by default the graph's own, or those of :func:`machine_types.assign`. ``observe`` is
    called with every tensor that an operation computes, inner ones included, and its array, which
    it must not change; in a loop, at every step. ``new_state`` is filled with the new values, by
    full name, of the variables that the graph updates (section 2.11); during the run all have the
    old ones.

    Raises NnefError for inputs and variables that do not fit, if a check fails, and if a formula
    reads or writes outside of a tensor. A loop that never ends runs until it is interrupted.
    """
    types = machine_types or graph.machine_types or assign(graph)
    arrays, sizes = bind_inputs(graph, inputs, types, default_values(graph, variables))
    context = _Run(
        types,
        bind_variables(graph, variables, types),
        observe or (lambda tensor, array: None),
        graph.bounds,
        sizes,
    )
    with np.errstate(all="ignore"):
        values = _run_graph(graph, arrays, context)
    if new_state is not None:
        new_state.update({tensor.name: np.array(new) for tensor, new in context.updated.items()})
    outputs = (_output(port.operand, values) for port in graph.outputs)
    return tuple(
        list(output) if port.stacked and output is not None else output
        for port, output in zip(graph.outputs, outputs, strict=True)
    )


def _output(operand: Operand, values: Mapping[Tensor, Array]) -> Output:
    match operand:
        case None:
            return None
        case Tensor():
            return np.array(values[operand])
        case pack:
            return [np.array(values[tensor]) for tensor in pack]


def _run_graph(graph: Graph, values: dict[Tensor, Array], context: _Run) -> dict[Tensor, Array]:
    """Return the arrays of the output tensors of a graph, from those of its input tensors."""
    context.pending.extend(graph.checks)
    check_known(context.pending, context.symbols)
    outputs = graph.output_tensors
    kept_tensors = {*outputs, *(tensor for _, tensor in graph.updates)}
    last = {
        tensor: position
        for position, node in enumerate(graph.operations)
        for tensor in flatten(node.operands)
    }
    for position, node in enumerate(graph.operations):
        operands = {tensor: _read(tensor, values, context) for tensor in flatten(node.operands)}
        results = _run_node(node, operands, context)
        values.update(results)
        for tensor in (*operands, *results):
            if last.get(tensor, -1) <= position and tensor not in kept_tensors:
                values.pop(tensor, None)
    for variable, tensor in graph.updates:
        context.updated[variable] = _as(variable, _read(tensor, values, context), context)
    return {tensor: _read(tensor, values, context) for tensor in outputs}


def _run_body(body: Graph, values: Mapping[Tensor, Array], context: _Run) -> list[Array]:
    """Return the outputs of a graph inside a node, in order, for the values that the node
    provides.
    """
    computed = _run_graph(body, dict(values), context)
    return [computed[tensor] for tensor in body.output_tensors]


def _apart(context: _Run) -> _Run:
    """Return the state for a branch or a step: it has the symbols so far, and keeps its own
    separate.
    """
    return replace(context, symbols=dict(context.symbols), pending=[])


def _as(tensor: Tensor, array: Array, context: _Run) -> Array:
    """Return an array in the dtype of a tensor that gets its values."""
    return rounded(array, context.types[tensor])


def _read(tensor: Tensor, values: Mapping[Tensor, Array], context: _Run) -> Array:
    if tensor in values:
        return values[tensor]
    if tensor in context.variables:
        return context.variables[tensor]
    # A loop reads its constants in each step.
    if tensor not in context.constants:
        context.constants[tensor] = _constant(tensor, np.dtype(context.types[tensor]))
    return context.constants[tensor]


def _constant(tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    if tensor.value is None:
        raise ValueError(f"tensor '{tensor.name}' ({tensor.role}) has no value")
    return constant_array(tensor.value, dtype, tensor.shape)


def _run_node(node: Node, operands: dict[Tensor, Array], context: _Run) -> dict[Tensor, Array]:
    """Return the arrays of the results of a node, from those of its operands."""
    shown: tuple[Tensor, ...] = ()
    match node:
        case If():
            chosen = node.consequent if operands[node.condition].item() else node.alternative
            arrays = _run_body(chosen, operands, _apart(context))
        case Loop():
            arrays = _run_loop(node, operands, context)
        case Operation(body=Graph() as body):
            arrays = _run_body(body, operands, context)
            # A body that ends in the result itself has shown it already.
            shown = body.output_tensors
        case Operation(body=Formula() as formula):
            arrays = _run_formula(node, formula, operands, context)
        case Operation():
            tensors = [operands[tensor] for tensor in flatten(node.operands)]
            attributes = {name: _known(value, context) for name, value in node.attributes.items()}
            arrays = list(_intrinsic(node)(replace(node, attributes=attributes), tensors))
    results: dict[Tensor, Array] = {}
    for tensor, array in zip(flatten(node.results), arrays, strict=True):
        results[tensor] = _as(tensor, array, context)
        _define(node, tensor, array.shape, context)
        if tensor not in shown:
            context.observe(tensor, results[tensor])
    return results


def _known(value: Attribute, context: _Run) -> Any:
    """Return an attribute, its dimensions as numbers."""
    if isinstance(value, tuple):
        return tuple(_known(item, context) for item in value)
    return trees.evaluate(value, context.symbols) if dimensions.is_symbolic(value) else value


def _run_loop(loop: Loop, operands: Mapping[Tensor, Array], context: _Run) -> list[Array]:
    """Return the final carried arrays, then those of each scan output; steps run one by one."""
    carried = {
        tensor: _as(tensor, operands[initial], context)
        for tensor, initial in zip(loop.carried, loop.initial, strict=True)
    }
    packs: list[list[Array]] = [[] for _ in loop.results[len(carried) :]]
    around = context
    for step in _steps(loop, operands):
        own = {
            scan.item: _as(scan.item, operands[scan.items[step]], context) for scan in loop.scans
        }
        if loop.index is not None:
            own[loop.index] = constant(step, np.dtype(context.types[loop.index]))
        values = {**operands, **own, **carried}
        context = _apart(around)
        if not loop.post_test and not _goes_on(loop, values, context):
            break
        outputs = _run_body(loop.body, values, context)
        carried = {
            tensor: _as(tensor, array, context)
            for tensor, array in zip(carried, outputs, strict=False)
        }
        for pack, array in zip(packs, outputs[len(carried) :], strict=True):
            pack.append(array)
        if loop.post_test and not _goes_on(loop, {**values, **carried}, context):
            break
    results = zip(loop.results[len(carried) :], packs, strict=True)
    return [*carried.values(), *(array for each in results for array in _scanned(*each, around))]


def _scanned(result: Operand, items: list[Array], context: _Run) -> list[Array]:
    """Return the arrays of a scan output: the items, or their stack if their number is data-
    dependent.
    """
    if not isinstance(result, Tensor):
        return items
    if items:
        return [np.stack(items)]
    shape = [trees.evaluate(size, context.symbols) for size in result.shape[1:]]
    return [np.zeros((0, *shape), context.types[result])]


def _steps(loop: Loop, operands: Mapping[Tensor, Array]) -> Iterable[int]:
    """Yield the numbers of the steps that count and scans allow."""
    limits = [len(scan.items) for scan in loop.scans]
    match loop.count:
        case Tensor() as count:
            limits.append(int(operands[count].item()))
        case int() as count:
            limits.append(count)
    return range(min(limits)) if limits else itertools.count()


def _goes_on(loop: Loop, values: Mapping[Tensor, Array], context: _Run) -> bool:
    if loop.condition is None:
        return True
    (answer,) = _run_body(loop.condition, values, context)
    return bool(answer.item())


def _run_formula(
    operation: Operation, formula: Formula, operands: dict[Tensor, Array], context: _Run
) -> list[Array]:
    captures = {tensor: _read(tensor, operands, context) for tensor in formula.captures}
    dtypes = {
        kind: np.dtype(name) for kind, name in compute_types(operation, context.types).items()
    }
    stored = {fill.tensor: np.dtype(context.types[fill.tensor]) for fill in formula.fills}
    try:
        block = Block({**operands, **captures}, dtypes, context.symbols)
        results = run(formula, block, stored)
    except OutOfBounds as problem:
        hint = "correct the indices, or put bars around them, as in 'x[|i|,]'"
        raise _complaint(operation, str(problem), hint) from problem
    return [results[tensor] for tensor in flatten(operation.results)]


def _intrinsic(operation: Operation) -> Callable[..., Sequence[Array]]:
    intrinsic = INTRINSICS.get(operation.standard_operator or "")
    if intrinsic is None:
        known = ", ".join(INTRINSICS)
        message = f"the NumPy evaluator has no implementation of '{operation.operator}'"
        raise _complaint(operation, message, f"operators without a body that it has: {known}")
    return intrinsic


def _define(node: Node, tensor: Tensor, shape: tuple[int, ...], context: _Run) -> None:
    """Record the values of the symbols that a result defines; check those of known ones."""
    for size, value in zip(tensor.shape, shape, strict=True):
        tree = trees.tree(size)
        if isinstance(tree, str) and tree not in context.symbols:
            context.symbols[tree] = value
            if tree in context.bounds:
                found = bound_checks(tensor, size, context.bounds[tree], node.span)
                context.pending[:0] = found
            check_known(context.pending, context.symbols)
        if value != trees.evaluate(tree, context.symbols):
            check = size_check(tensor, size, value, node.span)
            message = complaint(to_json(check), context.symbols) or ""
            raise _complaint(node, message, check.hint)


def _complaint(node: Node, message: str, hint: str) -> NnefError:
    where = f"in '{node.label}' ({operator_name(node)}): " if node.label else ""
    notes = [Note("invoked from here", span) for span in node.trace[:-1]]
    return error(where + message, node.span, hint=hint, notes=notes)
