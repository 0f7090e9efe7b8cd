"""A Graph as a Relax module: the walk over its operations.

Enters: a Graph, its machine types and the values of its variables. Leaves: an IRModule with a
function ``main``. For each operation the first of these is taken: the user's own function, the
mapping of ``lower/ops`` (only on the mapped route), the operator's body, an intrinsic. Infers no
shapes: what Relax finds must be what the Graph says.

``main`` takes one parameter for each input (``name_0``, ``name_1`` … for the items of a pack),
then, where asked for, one for each variable; it returns one flat tuple. Its attributes are

- ``nnef_ports``: a JSON object that names the ``inputs`` and ``outputs`` in order, each as
  ``{"name": ..., "items": n}``, with the length of a pack, or null for a single tensor;
- ``num_input``: how many parameters are inputs;
- ``params``: with ``keep_params_in_input``, the values that ``relax.frontend.detach_params`` reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from tvm import relax

from tvm_nnef import tvm_compat
from tvm_nnef.diagnostics import Diagnostic, NnefError, Note, error
from tvm_nnef.graph.formula import Constant as Number
from tvm_nnef.graph.formula import Formula, Lookup, Scalar, loads, scalars, walk
from tvm_nnef.graph.machine_types import compute_types
from tvm_nnef.graph.nodes import Graph, Operand, Operation, Port, Tensor, flatten
from tvm_nnef.lower.formula import FormulaTypes, is_plain, tensor_expressions
from tvm_nnef.lower.intrinsics import INTRINSICS
from tvm_nnef.lower.invocation import Invocation, Lowered, LoweredOperand, LoweringFunction
from tvm_nnef.lower.naming import Names, identifier, port_items
from tvm_nnef.lower.ops import MAPPINGS
from tvm_nnef.lower.ordered import ordered_function
from tvm_nnef.tvm_compat import Module, RelaxExpression

Route: TypeAlias = Literal["mapped", "formula"]
Array: TypeAlias = "np.ndarray[Any, Any]"

_LARGEST_SELECT_CHAIN = 8
"""A lookup with more items reads a table."""


UserLowering: TypeAlias = Callable[[Any, Operation, "tuple[LoweredOperand, ...]"], Lowered]
"""Lowers an operation, given the ``relax.BlockBuilder`` and its operands; None declines."""


class LoweringError(RuntimeError):
    """A mapping or a body does not give what the Graph says: a bug of tvm_nnef, not of a model."""


def lower(
    graph: Graph,
    *,
    machine_types: Mapping[Tensor, str],
    variables: Mapping[str, Array],
    route: Route = "mapped",
    keep_params_in_input: bool = False,
    lowerings: Mapping[str, UserLowering] | None = None,
) -> Module:
    """The IRModule of a graph whose shapes are static.

    ``machine_types`` gives the dtype of every tensor, ``variables`` the arrays by full name;
    ``lowerings`` maps qualified operator names to functions ``(builder, operation, operands)`` that
    are asked first.

    Raises NnefError where a variable has no value or one of the wrong shape, where an operator
    cannot be lowered, and where a function of ``lowerings`` gives the wrong shape or dtype.
    """
    _require_supported(graph)
    weights = _weights(graph, variables, machine_types)
    names = Names()
    builder = relax.BlockBuilder()
    inputs = [item for port in graph.inputs for item in port_items(port)]
    parameters = {
        tensor: _parameter(names.unique(name), tensor, machine_types) for name, tensor in inputs
    }
    if keep_params_in_input:
        for tensor in weights:
            name = tensor.name.rpartition(".")[2]
            parameters[tensor] = _parameter(names.unique(name), tensor, machine_types)
    attributes: dict[str, Any] = {"nnef_ports": _describe(graph), "num_input": len(inputs)}
    if keep_params_in_input:
        attributes["params"] = [tvm_compat.runtime_tensor(array) for array in weights.values()]
    walk_of = _Walk(builder, dict(parameters), weights, machine_types, route, lowerings or {})
    with builder.function("main", list(parameters.values()), attrs=attributes):
        with builder.dataflow():
            walk_of.run(graph)
            tensors = flatten(tuple(port.operand for port in graph.outputs))
            results = [walk_of.value(tensor) for tensor in tensors]
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    return builder.get()


@dataclass(frozen=True, slots=True)
class _Walk:
    """The state of lowering: what each tensor has become so far."""

    builder: Any
    values: dict[Tensor, RelaxExpression]
    weights: Mapping[Tensor, Array]
    machine_types: Mapping[Tensor, str]
    route: Route
    lowerings: Mapping[str, UserLowering]

    def run(self, graph: Graph) -> None:
        """Lowers the operations of a graph, in order."""
        for operation in graph.operations:
            self._operation(operation)

    def value(self, tensor: Tensor) -> RelaxExpression:
        """What a tensor has become; constants and variables are made at their first use."""
        if tensor not in self.values:
            if tensor.role == "variable":
                array = self.weights[tensor]
            elif tensor.role == "constant":
                array = _constant(tensor, self.machine_types[tensor])
            else:
                raise LoweringError(f"nothing computes tensor '{tensor.name}'")
            self.values[tensor] = tvm_compat.constant(array)
        return self.values[tensor]

    def _operation(self, operation: Operation) -> None:
        custom = self.lowerings.get(operation.operator)
        if custom and self._offered(operation, _adapted(custom), from_user=True):
            return
        mapping = MAPPINGS.get(operation.operator) if self.route == "mapped" else None
        if mapping and self._offered(operation, mapping):
            return
        match operation.body:
            case Formula() as formula:
                self._formula(operation, formula)
            case Graph() as body:
                self._composite(operation, body)
            case None:
                intrinsic = INTRINSICS.get(operation.operator)
                if not (intrinsic and self._offered(operation, intrinsic)):
                    raise _no_lowering(operation)

    def _offered(
        self, operation: Operation, function: LoweringFunction, *, from_user: bool = False
    ) -> bool:
        """Offers an operation to a function; False where it declines."""
        operands = tuple(map(self._operand, operation.operands))
        lowered = function(Invocation(self.builder, operation, operands, self.machine_types))
        if lowered is None:
            return False
        results = _matched(operation, lowered)
        for tensor, expression in results:
            self._define(tensor, expression, operation, from_user=from_user)
        return True

    def _operand(self, operand: Operand) -> LoweredOperand:
        match operand:
            case None:
                return None
            case Tensor():
                return self.value(operand)
            case items:
                return tuple(map(self.value, items))

    def _define(
        self,
        tensor: Tensor,
        expression: RelaxExpression,
        operation: Operation,
        *,
        from_user: bool = False,
    ) -> None:
        hint = identifier(tensor.name.rpartition(".")[2])
        emitted = self.builder.emit(expression, name_hint=hint)
        expected = (tensor.shape, self.machine_types[tensor])
        found = tvm_compat.shape_and_dtype(emitted) if tvm_compat.is_tensor(emitted) else None
        if found != expected:
            message = (
                f"lowering '{operation.operator}' gave {_described(found)} "
                f"for '{tensor.name}', which is {_described(expected)}"
            )
            if from_user:
                hint = "correct the function that 'lowerings' maps the operator to"
                raise error(message, operation.span, hint=hint)
            raise LoweringError(message)
        self.values[tensor] = emitted

    def _composite(self, operation: Operation, body: Graph) -> None:
        """Opens a composite: its operations take its place."""
        self.run(body)
        outputs = flatten(tuple(port.operand for port in body.outputs))
        for result, output in zip(flatten(operation.results), outputs, strict=True):
            value, dtype = self.value(output), self.machine_types[result]
            if self.machine_types[output] != dtype:
                value = self.builder.emit(relax.op.astype(value, dtype))
            self.values[result] = value

    def _formula(self, operation: Operation, formula: Formula) -> None:
        tables = _tables(formula)
        types = FormulaTypes(
            {**self.machine_types, **{t: _TABLE_TYPES[t.type] for t in tables.values()}},
            compute_types(operation, self.machine_types),
            tables,
        )
        operands = _operands(formula, tables)
        arguments = [self._argument(tensor, types) for tensor in operands]
        results = [fill.tensor for fill in formula.fills]
        name = identifier(operation.operator)
        if is_plain(formula):
            function = tensor_expressions(formula, operands, types, identifier(operation.operator))
            call = self.builder.call_te(function, *arguments, primfunc_name_hint=name)
        else:
            prim_function = ordered_function(formula, operands, types, name)
            variable = self.builder.add_func(prim_function, f"{name}_ordered")
            kinds = [tvm_compat.tensor_type(t.shape, types.stored[t]) for t in results]
            call = relax.call_tir(variable, arguments, kinds if len(kinds) > 1 else kinds[0])
        if len(results) == 1:
            self._define(results[0], call, operation)
            return
        pack = self.builder.emit(call)
        for number, tensor in enumerate(results):
            self._define(tensor, relax.TupleGetItem(pack, number), operation)

    def _argument(self, tensor: Tensor, types: FormulaTypes) -> RelaxExpression:
        if tensor in types.tables.values():
            return tvm_compat.constant(_constant(tensor, types.stored[tensor]))
        return self.value(tensor)


_TABLE_TYPES = {"real": "float64", "int": "int64", "bool": "bool"}


def _operands(formula: Formula, tables: Mapping[tuple[Scalar, ...], Tensor]) -> list[Tensor]:
    """The tensors that a formula reads and does not make, each once."""
    made = {fill.tensor for fill in formula.fills}
    read = (load.tensor for statement in formula.statements for load in loads(statement))
    found = dict.fromkeys(tensor for tensor in read if tensor not in made)
    return [*found, *tables.values()]


def _tables(formula: Formula) -> dict[tuple[Scalar, ...], Tensor]:
    """A constant tensor for each lookup in many numbers."""
    tables: dict[tuple[Scalar, ...], Tensor] = {}
    for statement in formula.statements:
        for scalar in (inner for outer in scalars(statement) for inner in walk(outer)):
            if isinstance(scalar, Lookup) and len(scalar.items) > _LARGEST_SELECT_CHAIN:
                values = [item.value for item in scalar.items if isinstance(item, Number)]
                if len(values) == len(scalar.items):
                    name, shape = f"table{len(tables)}", (len(values),)
                    table = Tensor(name, scalar.type, shape, "constant", tuple(values))
                    tables.setdefault(scalar.items, table)
    return tables


def _adapted(function: UserLowering) -> LoweringFunction:
    return lambda invocation: function(
        invocation.builder, invocation.operation, invocation.operands
    )


def _matched(operation: Operation, lowered: Lowered) -> list[tuple[Tensor, RelaxExpression]]:
    """The result tensors of an operation, each with its expression."""
    results = operation.results
    aligned = lowered if isinstance(lowered, tuple) else (lowered,)
    if len(results) == 1 and isinstance(results[0], tuple) and len(aligned) != 1:
        aligned = (aligned,)
    pairs = []
    for result, expression in zip(results, aligned, strict=True):
        match result:
            case None:
                continue
            case Tensor():
                pairs.append((result, expression))
            case items:
                pairs.extend(zip(items, expression, strict=True))
    return pairs


def _weights(
    graph: Graph, variables: Mapping[str, Array], machine_types: Mapping[Tensor, str]
) -> dict[Tensor, Array]:
    """The arrays of a graph's variables in their machine types, all problems found at once."""
    found: dict[Tensor, Array] = {}
    problems: list[Diagnostic] = []
    for tensor in graph.variables:
        array = variables.get(tensor.name)
        if array is None:
            hint = f"give the model a file '{tensor.name}.dat', or pass it in 'variables'"
            message = f"variable '{tensor.name}' has no value"
            problems.append(Diagnostic(message, tensor.span, hint))
        elif array.shape != tensor.shape:
            message = f"variable '{tensor.name}' has shape {tensor.shape}, its value {array.shape}"
            problems.append(Diagnostic(message, tensor.span))
        else:
            found[tensor] = array.astype(machine_types[tensor], copy=False)
    if problems:
        raise NnefError(problems)
    return found


def _constant(tensor: Tensor, dtype: str) -> Array:
    if isinstance(tensor.value, tuple):
        return np.array(tensor.value, dtype).reshape(tensor.shape)
    return np.full(tensor.shape, tensor.value, dtype)


def _parameter(name: str, tensor: Tensor, machine_types: Mapping[Tensor, str]) -> Any:
    return relax.Var(name, tvm_compat.tensor_type(tensor.shape, machine_types[tensor]))


def _describe(graph: Graph) -> str:
    """The ports of a graph, as the attribute ``nnef_ports`` has them."""

    def described(ports: Iterable[Port]) -> list[dict[str, Any]]:
        return [
            {
                "name": port.name,
                "items": len(port.operand) if isinstance(port.operand, tuple) else None,
            }
            for port in ports
            if port.operand is not None
        ]

    return json.dumps({"inputs": described(graph.inputs), "outputs": described(graph.outputs)})


def _described(kind: tuple[Sequence[Any], str] | None) -> str:
    return f"{kind[1]}{list(kind[0])}" if kind else "something that is no tensor"


def _require_supported(graph: Graph) -> None:
    for variable, _ in graph.updates:
        message = f"'{variable.name}' is changed by @update, which cannot be compiled yet"
        hint = "leave the @update block out to compile the graph with fixed variables"
        raise error(message, variable.span, hint=hint)
    for tensor in flatten(tuple(port.operand for port in graph.inputs)):
        if not all(isinstance(extent, int) for extent in tensor.shape):
            hint = "give the extents with input_shapes (or --shape)"
            raise error(f"the shape of '{tensor.name}' is not static", tensor.span, hint=hint)


def _no_lowering(operation: Operation) -> NnefError:
    hint = "give it a @lower or @compose block, or map it to a function in 'lowerings'"
    notes = [Note("invoked from here", span) for span in reversed(operation.trace[:-1])]
    message = f"operator '{operation.operator}' has no body and no lowering"
    return error(message, operation.span, hint=hint, notes=notes)
