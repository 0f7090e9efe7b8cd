"""The walk over the nodes of a Graph: each becomes Relax expressions of the function being built.

Input: a Graph's nodes, in order, and what their operands have become. Output: what their results
become. Does not know of ``main``, its parameters and attributes (``lower/module.py``), nor of how
branches and loops are made (``lower/branch_functions.py``, ``lower/loop_functions.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from tvm import relax

from tvm_nnef.arrays.few_bits import FORMATS, computed, held
from tvm_nnef.diagnostics import NnefError, Note, error
from tvm_nnef.graph.checks import bound_checks, size_check
from tvm_nnef.graph.formula import Formula, Scalar, loads
from tvm_nnef.graph.machine_types import compute_types
from tvm_nnef.graph.moving_operators import MOVING
from tvm_nnef.graph.nodes import Check, Graph, If, Loop, Node, Operand, Operation, Tensor, flatten
from tvm_nnef.lower.branch_functions import lower_if
from tvm_nnef.lower.checks import define_shape, require
from tvm_nnef.lower.deconvolution_formulas import find_deconvolution
from tvm_nnef.lower.defects import defect
from tvm_nnef.lower.formula import FormulaTypes
from tvm_nnef.lower.in_place import moves, without_copy
from tvm_nnef.lower.intrinsics import INTRINSICS
from tvm_nnef.lower.invocation import (
    Invocation,
    Lowered,
    LoweredOperand,
    LoweringFunction,
    is_uniform,
)
from tvm_nnef.lower.kernels import call_formula, call_in_place
from tvm_nnef.lower.lookups import TABLE_TYPES, lookup_tables
from tvm_nnef.lower.loop_functions import lower_loop
from tvm_nnef.lower.naming import Names, identifier
from tvm_nnef.lower.ops import MAPPINGS
from tvm_nnef.lower.ops.symbolic import is_safe
from tvm_nnef.lower.symbols import Symbol, occurring, own
from tvm_nnef.lower.values import Values, constant_array
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression

Route: TypeAlias = Literal["mapped", "formula"]
Array: TypeAlias = "np.ndarray[Any, Any]"

UserLowering: TypeAlias = Callable[[Any, Operation, "tuple[LoweredOperand, ...]"], Lowered]
"""Lowers an operation, given the ``relax.BlockBuilder`` and its operands; None declines."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The state of lowering one function.

    Operators get the numbers of tensors in the dtypes of ``computed_types``. ``known`` are the
    symbols that are known in this function, by name, ``bounds`` those of all; ``pending`` are
    checks that wait for theirs. ``in_place`` are variables by the results that may be written to
    their memory.
    """

    values: Values
    computed_types: Mapping[Tensor, str]
    route: Route
    lowerings: Mapping[str, UserLowering]
    bounds: Mapping[str, int] = field(default_factory=dict)
    known: dict[str, Symbol] = field(default_factory=dict)
    pending: list[Check] = field(default_factory=list)
    checked: bool = False
    in_place: Mapping[Tensor, Tensor] = field(default_factory=dict)

    @property
    def builder(self) -> BlockBuilder:
        """The builder of the function."""
        return self.values.builder

    @property
    def machine_types(self) -> Mapping[Tensor, str]:
        """The dtype of every tensor."""
        return self.values.machine_types

    def inside(
        self,
        values: Mapping[Tensor, RelaxExpression],
        updated: Mapping[Tensor, RelaxExpression] | None = None,
    ) -> Walk:
        """A walk that knows the given tensors only: that of another function, or of one step."""
        return replace(
            self,
            values=self.values.inside(values, updated),
            in_place={},
            known=dict(self.known),
            pending=[],
        )

    def run(self, graph: Graph) -> None:
        """Lowers the nodes of a graph, in order, and its checks as soon as they can be made."""
        self.pending.extend(graph.checks)
        self._check()
        for node in graph.operations:
            with self.values.provenance.inside(node):
                self._node(node)
        for variable, tensor in graph.updates:
            self.values.updated[variable] = self.values.get(tensor, self.machine_types[variable])

    def _node(self, node: Node) -> None:
        match node:
            case If():
                self._results(node, "if", lower_if(node, self))
            case Loop():
                self._results(node, "loop", lower_loop(node, self))
            case Operation():
                self._operation(node)

    def _results(
        self, node: If | Loop, kind: str, lowered: Mapping[Tensor, RelaxExpression]
    ) -> None:
        for tensor in flatten(node.results):
            self._define(tensor, lowered[tensor], node, kind, is_value=True)

    def _operation(self, operation: Operation) -> None:
        custom = self.lowerings.get(operation.operator)
        if custom and self._offered(operation, _adapted(custom), from_user=True):
            return
        name = operation.standard_operator or ""
        mapping = MAPPINGS.get(name) if self.route == "mapped" else None
        uniform = is_uniform(operation, self.machine_types)
        if mapping and not (uniform and is_safe(operation)):
            mapping = None
        if any(self.machine_types[tensor] in FORMATS for tensor in flatten(operation.results)):
            if mapping and name in MOVING and self._offered(operation, mapping, moves=True):
                return
            mapping = None
        if mapping and self._offered(operation, mapping):
            return
        match operation.body:
            case Formula() as formula:
                self._formula(operation, formula)
            case Graph() as body:
                self._composite(operation, body)
            case None:
                intrinsic = INTRINSICS.get(name)
                if not (intrinsic and self._offered(operation, intrinsic)):
                    raise _no_lowering(operation)

    def _offered(
        self,
        operation: Operation,
        function: LoweringFunction,
        *,
        from_user: bool = False,
        moves: bool = False,
    ) -> bool:
        """Offers an operation to a function; False where it declines.

        One that only ``moves`` elements gets the bytes of those of few bits.
        """
        types = self.computed_types
        if moves:
            touched = flatten((*operation.operands, *operation.results))
            types = {tensor: held(self.machine_types[tensor]) for tensor in touched}
        take = self.values.get if moves else self.values.number
        operands = tuple(_operand(each, take) for each in operation.operands)
        lowered = function(Invocation(self.builder, operation, operands, types))
        if lowered is None:
            return False
        results = _matched(operation, lowered)
        checked = from_user or operation.body is None
        if not checked and not self._fits(operation, results, types):
            return False
        defines = any(str(s.name) not in self.known for t, _ in results for s in own(t.shape))
        options = {"from_user": from_user, "defines": defines, "is_value": moves}
        for tensor, value in results:
            self._define(tensor, value, operation, operation.operator, **options)
        return True

    def _check(self) -> None:
        """Makes the checks whose symbols are known."""
        for check in tuple(self.pending):
            symbols = occurring([check.condition, *check.message])
            if all(str(symbol.name) in self.known for symbol in symbols):
                self.pending.remove(check)
                require(self.builder, check)

    def _note_symbols(self, tensor: Tensor, node: Node) -> None:
        """Notes the symbols that a tensor defines, and makes the checks that waited for them."""
        new = {str(symbol.name): symbol for symbol in own(tensor.shape)}
        for name, symbol in new.items():
            if name not in self.known:
                self.known[name] = symbol
                if name in self.bounds and not isinstance(node, Loop):
                    for check in bound_checks(tensor, symbol, self.bounds[name], node.span):
                        require(self.builder, check)
                self._check()

    def _define_shape(self, value: RelaxExpression, tensor: Tensor, node: Node) -> None:
        """Defines the new symbols of a tensor by its shape; known dimensions must agree."""
        names = Names({*self.bounds, *self.known})
        shape = [
            size
            if own((size,)) and trees.text(size) not in self.known
            else dimensions.symbol(names.unique(f"found_{position}"))
            for position, size in enumerate(tensor.shape)
        ]
        define_shape(self.builder, value, shape)
        for size, found in zip(tensor.shape, shape, strict=True):
            if size is not found:
                require(self.builder, size_check(tensor, size, found, node.span))

    def _fits(
        self,
        operation: Operation,
        results: Sequence[tuple[Tensor, RelaxExpression]],
        types: Mapping[Tensor, str],
    ) -> bool:
        """Whether a mapping gives the dimensions of the Graph, if symbols are involved.

        Relax does not know the shape of a result if operands agree for some sizes only.
        """
        read = any(occurring(tensor.shape) for tensor in flatten(operation.operands))
        return all(
            _fit(self.builder.normalize(value), tensor, types[tensor]) is not None
            for tensor, value in results
            if read or occurring(tensor.shape)
        )

    def _define(
        self,
        tensor: Tensor,
        expression: RelaxExpression,
        node: Node,
        title: str,
        *,
        from_user: bool = False,
        defines: bool = False,
        is_value: bool = False,
    ) -> None:
        """Makes an expression the value of a tensor; unless it ``is_value`` it has its numbers."""
        hint, dtype = identifier(tensor.short_name), self.machine_types[tensor]
        emitted = self.values.provenance.emitted(self.builder, expression, hint)
        expected = held(dtype) if is_value else computed(dtype)
        fit = _fit(emitted, tensor, expected)
        if fit is False:
            message = (
                f"lowering '{title}' gave {_described(emitted)} "
                f"for '{tensor.name}', which is {expected}{_sizes(tensor.shape)}"
            )
            if from_user:
                hint = "correct the function that 'lowerings' maps the operator to"
                raise error(message, node.span, hint=hint)
            raise defect(message, node.span)
        if fit is None:
            kind = compat.tensor_type(tensor.shape, expected)
            if defines:
                self._define_shape(emitted, tensor, node)
            emitted = self.builder.match_cast(emitted, kind)
        self.values.known[tensor] = emitted if is_value else self.values.stored(emitted, dtype)
        self._note_symbols(tensor, node)

    def _composite(self, operation: Operation, body: Graph) -> None:
        """Opens a composite: its operations replace it."""
        self.run(body)
        results = flatten(operation.results)
        dtypes = [self.machine_types[result] for result in results]
        self.values.known.update(zip(results, self.values.outputs(body, dtypes), strict=True))

    def _formula(self, operation: Operation, formula: Formula) -> None:
        if not formula.fills:
            return
        tables = lookup_tables(formula)
        types = FormulaTypes(
            {**self.computed_types, **{t: TABLE_TYPES[t.type] for t in tables.values()}},
            compute_types(operation, self.machine_types),
            tables,
            self._is_finite,
            self.bounds,
            self.checked,
            self.machine_types,
        )
        results = [fill.tensor for fill in formula.fills]
        name = identifier(operation.operator)
        call = self._written_in_place(formula, types, name)
        call = self._called(formula, types, name) if call is None else call
        if len(results) == 1:
            self._define(results[0], call, operation, operation.operator)
            return
        pack = self.values.provenance.emitted(self.builder, call)
        for number, tensor in enumerate(results):
            self._define(tensor, relax.TupleGetItem(pack, number), operation, operation.operator)

    def _called(self, formula: Formula, types: FormulaTypes, name: str) -> RelaxExpression:
        """The results of a formula, one tensor or a tuple."""
        found = find_deconvolution(formula)
        if found is not None and types.computes_natively((found.data, found.weights, found.result)):
            data, weights = self.values.number(found.data), self.values.number(found.weights)
            made = found.lowered(self.builder, data, weights)
            if found.rest is None:
                return made
            rest = self.builder.emit(self._called(found.rest, types, name))
            return relax.op.add(rest, self.builder.emit(made))
        operands = _operands(formula, types.tables)
        arguments = [self._argument(tensor, types) for tensor in operands]
        return call_formula(self.builder, formula, operands, arguments, types, name)

    def _written_in_place(
        self, formula: Formula, types: FormulaTypes, name: str
    ) -> RelaxExpression | None:
        """The result of a formula in the memory of the variable that it updates; None if it is not.

        Its elements are computed in the dtype in which they are stored, or only moved.
        """
        result = formula.fills[0].tensor
        variable = self.in_place.get(result)
        rest = None if variable is None else without_copy(formula, variable)
        if variable is None or rest is None or self.checked:
            return None
        if result.type == "real" and moves(rest):
            types = replace(types, computed={**types.computed, "real": types.stored[result]})
        dtypes = {types.stored[result], types.computed[result.type], self.machine_types[variable]}
        if len(dtypes) > 1:
            return None
        operands = _operands(rest, types.tables)
        arguments = [self._argument(tensor, types) for tensor in operands]
        old = self.values.get(variable)
        return call_in_place(self.builder, rest, operands, arguments, old, types, name)

    def _is_finite(self, tensor: Tensor) -> bool:
        """Whether a tensor's elements are known to be finite; of weights, those given now are."""
        if tensor.type != "real":
            return True
        value = self.values.weights.get(tensor, tensor.value)
        return value is not None and bool(np.isfinite(value).all())

    def _argument(self, tensor: Tensor, types: FormulaTypes) -> RelaxExpression:
        if tensor in types.tables.values():
            return compat.constant(constant_array(tensor, types.stored[tensor]))
        return self.values.number(tensor)


def _operand(operand: Operand, take: Callable[[Tensor], RelaxExpression]) -> LoweredOperand:
    match operand:
        case None:
            return None
        case Tensor():
            return take(operand)
        case items:
            return tuple(map(take, items))


def _operands(formula: Formula, tables: Mapping[tuple[Scalar, ...], Tensor]) -> list[Tensor]:
    """The tensors that a formula reads and does not make, each once."""
    made = {fill.tensor for fill in formula.fills}
    read = (load.tensor for statement in formula.statements for load in loads(statement))
    found = dict.fromkeys(tensor for tensor in read if tensor not in made)
    return [*found, *tables.values()]


def _adapted(function: UserLowering) -> LoweringFunction:
    return lambda invocation: function(
        invocation.builder, invocation.operation, invocation.operands
    )


def _matched(operation: Operation, lowered: Lowered) -> list[tuple[Tensor, RelaxExpression]]:
    """The result tensors of an operation, each with its expression."""
    results = operation.results
    aligned: tuple[Any, ...] = lowered if isinstance(lowered, tuple) else (lowered,)
    if len(results) == 1 and isinstance(results[0], tuple) and len(aligned) != 1:
        aligned = (aligned,)
    pairs: list[tuple[Tensor, RelaxExpression]] = []
    for result, expression in zip(results, aligned, strict=True):
        match result:
            case None:
                continue
            case Tensor():
                pairs.append((result, expression))
            case items:
                pairs.extend(zip(items, expression, strict=True))
    return pairs


def _fit(value: RelaxExpression, tensor: Tensor, dtype: str) -> bool | None:
    """Whether an expression has the type and shape of a tensor; None if not decidable."""
    rank, found = compat.rank_and_dtype(value)
    if (rank, found) != (tensor.rank, dtype):
        return False
    if not compat.is_tensor(value):
        return None
    shape, _ = compat.shape_and_dtype(value)
    pairs = list(zip(shape, tensor.shape, strict=True))
    if any(dimensions.compare("ne", made, meant) is True for made, meant in pairs):
        return False
    return True if all(dimensions.equal(made, meant) for made, meant in pairs) else None


def _described(value: RelaxExpression) -> str:
    if not compat.is_tensor(value):
        return "something that is not a tensor"
    shape, dtype = compat.shape_and_dtype(value)
    return f"{dtype}{_sizes(shape)}"


def _sizes(shape: Sequence[Dimension]) -> str:
    return f"[{', '.join(map(trees.text, shape))}]"


def _no_lowering(operation: Operation) -> NnefError:
    hint = "give it a @lower or @compose block, or map it to a function in 'lowerings'"
    notes = [Note("invoked from here", span) for span in reversed(operation.trace[:-1])]
    message = f"operator '{operation.operator}' has no body and no lowering"
    return error(message, operation.span, hint=hint, notes=notes)
