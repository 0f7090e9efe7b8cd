"""Tensors stored with their dimensions in another order, and a pass that gives them one.

The *order* of a stored tensor: its dimension ``i`` is dimension ``order[i]`` of the original.
Tensors are permuted back only for an operator that needs the original order, and at the edges of
the graph. A permutation in the graph itself only changes orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tvm import relax
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.relax.rewriting import operator_name, permutation_axes
from tvm_nnef.tvm_support.compat import (
    Module,
    RelaxExpression,
    constant,
    constant_array,
    is_tensor,
    prim_functions,
    shape_and_dtype,
)

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permuted:
    """A tensor that is stored with its dimensions in an order."""

    value: RelaxExpression
    order: Order

    @property
    def shape(self) -> tuple[sizes.Extent, ...]:
        """The dimensions as they are stored."""
        return shape_and_dtype(self.value)[0]

    def axis(self, dimension: int) -> int:
        """The stored position of a dimension of the original, which may be counted from the end."""
        return self.order.index(int(dimension) % len(self.order))

    def extent(self, dimension: int) -> sizes.Extent:
        """The size of a dimension of the original."""
        return self.shape[self.axis(dimension)]


OnPermuted: TypeAlias = "Callable[[Relayout, Call], Permuted | list[Permuted] | None]"
"""A call on permuted operands: its permuted result, a list of several, or None if the operator
needs the original order."""


def of_first(
    apply: Callable[[Relayout, Permuted, Call], Permuted | list[Permuted] | None],
) -> OnPermuted:
    """A call on a permuted first operand; None if that has its original order."""

    def on_permuted(relayout: Relayout, call: Call) -> Permuted | list[Permuted] | None:
        operand = relayout.permuted(call.args[0])
        return None if operand is None else apply(relayout, operand, call)

    return on_permuted


@mutator
class Relayout(PyExprMutator):  # type: ignore[misc]
    """The pass over functions; ``operators`` say how some run on permuted tensors.

    ``forms`` are the permuted forms of variables, lists of those of a tuple.

    Each variable also gets its original order; dead code elimination removes what nothing reads.
    """

    def __init__(self, mod: Module, machine: CpuModel, operators: Mapping[str, OnPermuted]) -> None:
        super().__init__(mod)
        self.machine, self.operators = machine, operators
        self.functions = prim_functions(mod)
        self.forms: dict[RelaxExpression, Permuted | list[Permuted]] = {}
        self.permutations: dict[RelaxExpression, Call] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Binds a variable to what it is in the original order, and keeps its permuted form."""
        if operator_name(binding.value) == "permute_dims":
            self.permutations[binding.var] = binding.value
        made = self.on_permuted(binding.value)
        if made is None:
            super().visit_var_binding_(binding)
            return
        name = str(binding.var.name)
        if isinstance(made, list):
            forms = [self.bound(each, f"{name}_{number}") for number, each in enumerate(made)]
            self.forms[binding.var] = forms
            original: RelaxExpression = relax.Tuple([_original(form) for form in forms])
        else:
            self.forms[binding.var] = form = self.bound(made, name)
            original = _original(form)
        self.set_var_remap(binding.var, self.builder_.emit(original))

    def bound(self, made: Permuted, name: str) -> Permuted:
        """A permuted tensor as a variable."""
        return Permuted(self.builder_.emit(made.value, name), made.order)

    def on_permuted(self, value: RelaxExpression) -> Permuted | list[Permuted] | None:
        """The permuted form of the value of a variable; None if it keeps the original order."""
        if isinstance(value, relax.TupleGetItem):
            items = self.forms.get(value.tuple_value)
            return items[int(value.index)] if isinstance(items, list) else None
        if isinstance(value, relax.Var):
            return self.forms.get(value)
        if not isinstance(value, Call):
            return None
        apply = self.operators.get(operator_name(value))
        known = is_tensor(value) or isinstance(value.ty, relax.TupleType)
        return apply(self, value) if apply is not None and known else None

    def permuted(self, operand: RelaxExpression) -> Permuted | None:
        """The permuted form of an operand, if it has one."""
        form = self.forms.get(operand) if isinstance(operand, relax.Var) else None
        return form if isinstance(form, Permuted) else None

    def has_order(self, operand: RelaxExpression, order: Order) -> bool:
        """Whether an operand has an order without being permuted for it."""
        form = self.permuted(operand)
        if form is not None:
            return form.order == order
        before = self.before_permutation(operand, order)
        return list(order) == sorted(order) if before is None else self.has_order(*before)

    def before_permutation(
        self, operand: RelaxExpression, order: Order
    ) -> tuple[RelaxExpression, Order] | None:
        """The tensor that an operand is a permutation of, and its order that equals ``order``."""
        permutation = self.permutations.get(operand) if isinstance(operand, relax.Var) else None
        if permutation is None:
            return None
        axes = permutation_axes(permutation)
        return permutation.args[0], tuple(axes[dimension] for dimension in order)

    def in_order(self, operand: RelaxExpression, order: Order) -> RelaxExpression:
        """An operand in an order, permuted if it has another one."""
        form = self.permuted(operand)
        if form is not None and form.order == order:
            return form.value
        array = constant_array(operand)
        if array is not None:
            return constant(array.transpose(order))
        before = self.before_permutation(operand, order) if form is None else None
        if before is not None:
            return self.in_order(*before)
        found: RelaxExpression = self.visit_expr(operand)
        made = _permutation(found, order)
        return made if made is found else self.builder_.emit(made)


def _original(form: Permuted) -> RelaxExpression:
    """A permuted tensor in the original order."""
    return _permutation(form.value, tuple(map(form.order.index, range(len(form.order)))))


def _permutation(value: RelaxExpression, order: Order) -> RelaxExpression:
    """The value with its dimensions in an order: a reshape if only those of size 1 move."""
    if list(order) == sorted(order):
        return value
    shape = shape_and_dtype(value)[0]
    moved = [dimension for dimension in order if shape[dimension] != 1]
    # To Relax, a dimension of 0 in a reshape is that of the operand.
    if moved == sorted(moved) and all(isinstance(size, int) and size for size in shape):
        return relax.op.reshape(value, tuple(shape[dimension] for dimension in order))
    return relax.op.permute_dims(value, list(order))
