"""Basis of the rewrites of Relax functions: a walk over bindings, and access to operands.

A rewrite is a function from a call (its operands already rewritten) to an expression, or to None if
the call stays.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Container, Sequence
from operator import attrgetter
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    Array,
    BlockBuilder,
    Module,
    RelaxExpression,
    constant_array,
    shape_and_dtype,
)

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
"""The names of the convolutions."""

Rewrite: TypeAlias = "Callable[[Operands, Call], RelaxExpression | None]"


class Operands:
    """Looks through variables at what they are bound to, and counts the uses of old ones.

    ``name`` is that of the variable whose value is rewritten; new variables are called like it.
    """

    def __init__(self, builder: BlockBuilder, function: relax.Function | None = None) -> None:
        """Takes the builder of the new function, and the old one if uses are asked for."""
        self.builder = builder
        self.name = ""
        self._function = function

    def definition(self, expression: RelaxExpression) -> RelaxExpression:
        """Return the expression that a variable is bound to; any other expression itself."""
        while isinstance(expression, relax.Var):
            bound = self.builder.lookup_binding(expression)
            if bound is None:
                return expression
            expression = bound
        return expression

    def array(self, expression: RelaxExpression) -> Array | None:
        """The value of an expression if it is a constant tensor."""
        return constant_array(self.definition(expression))

    def view(self, expression: RelaxExpression) -> Array | None:
        """The value of a constant tensor, also if calls permute or reshape it."""
        found = self.definition(expression)
        name = operator_name(found)
        if name not in ("permute_dims", "reshape") or not isinstance(found, Call):
            return constant_array(found)
        inner = self.view(found.args[0])
        if inner is None:
            return None
        if name == "reshape":
            reshaped: Array = inner.reshape([int(e) for e in found.ty.shape])
            return reshaped
        moved: Array = inner.transpose(permutation_axes(found))
        return moved

    def call(self, expression: RelaxExpression, *names: str) -> Call | None:
        """The call that an expression is bound to, if it is of one of the operators."""
        found = self.definition(expression)
        return found if isinstance(found, Call) and operator_name(found) in names else None

    def emit(self, expression: RelaxExpression) -> RelaxExpression:
        """The expression bound to a variable, with its type."""
        return self.builder.emit(expression, self.name)

    def is_used_once(self, variable: RelaxExpression) -> bool:
        """Whether a variable has one use; those that a rewrite has made have one."""
        return self._uses.get(variable, 1) == 1

    @functools.cached_property
    def _uses(self) -> Counter[RelaxExpression]:
        """The uses of each variable; few rewrites ask, and counting takes as long as rewriting."""
        counts: Counter[RelaxExpression] = Counter()
        relax.analysis.post_order_visit(self._function, lambda node: counts.update([node]))
        return counts


def operator_name(expression: RelaxExpression) -> str:
    """The name of the operator that is called, without ``relax.``; empty for other expressions."""
    operator = getattr(expression, "op", None)
    return str(operator.name).removeprefix("relax.") if isinstance(operator, tvm.ir.Op) else ""


def permutation_axes(call: Call) -> list[int]:
    """The dimensions of the operand of ``permute_dims`` in the order of its result."""
    axes = call.attrs.axes
    return [int(axis) for axis in axes or range(len(call.args[0].ty.shape))[::-1]]


def operator(name: str) -> Callable[..., RelaxExpression]:
    """The function that makes a call of an operator, such as ``nn.conv2d``."""
    made: Callable[..., RelaxExpression] = attrgetter(name)(relax.op)
    return made


def again(call: Call, *arguments: RelaxExpression, **changed: object) -> RelaxExpression:
    """The operator of a call on other arguments, with some attributes changed."""
    make = operator(operator_name(call))
    names = list(inspect.signature(make).parameters)[len(arguments) :]
    return make(*arguments, **{name: getattr(call.attrs, name) for name in names} | changed)


def reshaped(
    operands: Operands, value: RelaxExpression, shape: Sequence[sizes.Extent]
) -> RelaxExpression:
    """The value in a shape; the value itself if that is its shape."""
    old, dtype = shape_and_dtype(value)
    if len(shape) == len(old) and all(map(sizes.same, shape, old)):
        return value
    if any(isinstance(size, int) and not size for size in shape):
        # To Relax, a dimension of 0 is that of the operand.
        return operands.emit(relax.op.zeros(tuple(shape), dtype))
    return operands.emit(relax.op.reshape(value, tuple(shape)))


@mutator
class _Rewriter(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Module, rewrite: Rewrite) -> None:
        super().__init__(mod)
        self.rewrite = rewrite
        self.operands = Operands(self.builder_)

    def begin(self, function: relax.Function) -> relax.Function:
        self.operands = Operands(self.builder_, function)
        visited: relax.Function = self.visit_expr(function)
        return visited

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self.operands.name = str(binding.var.name)
        super().visit_var_binding_(binding)

    def visit_call_(self, call: Call) -> RelaxExpression:
        visited: Call = super().visit_call_(call)
        made = self.rewrite(self.operands, visited)
        return visited if made is None else made


def calls_any(mod: Module, operators: Container[str]) -> bool:
    """Whether Relax functions of a module call one of some operators, given by name."""
    calls: list[Call] = []
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            traversal.walk(function.body, (Call, calls.append))
    return any(operator_name(call) in operators for call in calls)


def rewritten(mod: Module, rewrite: Rewrite, operators: Container[str] | None = None) -> Module:
    """The module with a rewrite applied to each call of its Relax functions.

    ``operators`` are the names of those whose calls it may change, if these are few. A module
    without any stays as it is. Otherwise the result has no dataflow blocks
    (:func:`without_dataflow`).
    """
    if operators is not None and not calls_any(mod, operators):
        return mod
    walk = _Rewriter(without_dataflow(mod), rewrite)
    return without_dead_code(with_functions(walk, walk.begin))


def without_dead_code(mod: Module) -> Module:
    """The module without variables that are other ones, and without those that nothing reads."""
    canonical = relax.transform.CanonicalizeBindings()(mod)
    return relax.transform.DeadCodeElimination()(canonical)


def with_functions(
    walk: PyExprMutator, visit: Callable[[relax.Function], relax.Function]
) -> Module:
    """The module of a mutator with each of its Relax functions visited."""
    for variable, function in list(walk.builder_.get().functions.items()):
        if isinstance(function, relax.Function):
            walk.builder_.update_func(variable, visit(function))
    made: Module = walk.builder_.get()
    return made


def without_dataflow(mod: Module) -> Module:
    """The module without dataflow blocks.

    A variable of a dataflow block is not defined outside of it. A rewrite that finds the definition
    of an operand may read variables of an earlier block: of one before a run-time check.
    """
    return relax.transform.ToNonDataflow()(mod)
