"""Channels last inside of a graph: convolutions and the operators around them run on N X C tensors.

Input: Relax functions with convolutions of ``[N, C, X...]``. Output: the same functions, in which
convolutions read and write channels last, and so does every operator between them that can
(:mod:`layout_operators`). Tensors are permuted back only for an operator that needs the original
order, and at the edges of the graph. A permutation in the graph itself only changes orders.
"""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.graph.layout_operators import ON_PERMUTED
from tvm_nnef.schedules.graph.permuted import Order, Permuted
from tvm_nnef.schedules.graph.rewriting import operator_name, with_functions, without_dataflow
from tvm_nnef.schedules.machine import GENERIC, CpuModel
from tvm_nnef.tvm_support.compat import (
    Module,
    RelaxExpression,
    constant,
    constant_array,
    prim_functions,
    shape_and_dtype,
)


def channels_last(mod: Module, machine: CpuModel = GENERIC) -> Module:
    """The module with convolutions, and the operators around them, channels last."""
    relayout = _Relayout(without_dataflow(mod), machine)
    return relax.transform.DeadCodeElimination()(with_functions(relayout, relayout.visit_expr))


@mutator
class _Relayout(PyExprMutator):  # type: ignore[misc]
    """``forms`` are the permuted forms of variables, lists of those of a tuple."""

    def __init__(self, mod: Module, machine: CpuModel) -> None:
        super().__init__(mod)
        self.machine = machine
        self.functions = prim_functions(mod)
        self.forms: dict[Any, Permuted | list[Permuted]] = {}
        self.restored: dict[Any, Any] = {}
        self.permutations: dict[Any, Any] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        if operator_name(binding.value) == "permute_dims":
            self.permutations[binding.var] = binding.value
        made = self.on_permuted(binding.value)
        if made is None:
            super().visit_var_binding_(binding)
            return
        name = str(binding.var.name)
        if isinstance(made, list):
            self.forms[binding.var] = [self.bound(m, f"{name}_{n}") for n, m in enumerate(made)]
        else:
            self.forms[binding.var] = self.bound(made, name)

    def bound(self, made: Permuted, name: str) -> Permuted:
        """A permuted tensor as a variable."""
        return Permuted(self.builder_.emit(made.value, name), made.order)

    def visit_seq_expr_(self, sequence: Any) -> Any:
        outside = dict(self.forms), dict(self.restored)
        visited = super().visit_seq_expr_(sequence)
        self.forms, self.restored = outside
        return visited

    def visit_var_(self, variable: Any) -> Any:
        """A variable in the original order."""
        if variable in self.restored:
            return self.restored[variable]
        form = self.forms.get(variable)
        if form is None:
            found = self.get_var_remap(variable)
            return variable if found is None else found
        value: RelaxExpression = (
            relax.Tuple([self.restoring(item) for item in form])
            if isinstance(form, list)
            else self.restoring(form)
        )
        if not isinstance(value, relax.Var):
            value = self.builder_.emit(value)
        self.restored[variable] = value
        return value

    def restoring(self, form: Permuted) -> RelaxExpression:
        """The expression of a permuted tensor in the original order."""
        return _permutation(form.value, [form.order.index(d) for d in range(len(form.order))])

    def on_permuted(self, value: Any) -> Permuted | list[Permuted] | None:
        """The permuted form of the value of a variable; None if it keeps the original order."""
        if isinstance(value, relax.TupleGetItem):
            items = self.forms.get(value.tuple_value)
            return items[int(value.index)] if isinstance(items, list) else None
        if isinstance(value, relax.Var):
            return self.forms.get(value)
        apply = ON_PERMUTED.get(operator_name(value))
        return None if apply is None else apply(self, value)

    def permuted(self, operand: Any) -> Permuted | None:
        """The permuted form of an operand, if it has one."""
        form = self.forms.get(operand) if isinstance(operand, relax.Var) else None
        return form if isinstance(form, Permuted) else None

    def has_order(self, operand: Any, order: Order) -> bool:
        """Whether an operand has an order without being permuted for it."""
        form = self.permuted(operand)
        if form is not None:
            return form.order == order
        before = self.before_permutation(operand, order)
        return list(order) == sorted(order) if before is None else self.has_order(*before)

    def before_permutation(self, operand: Any, order: Order) -> tuple[Any, Order] | None:
        """The tensor that an operand is a permutation of, and its order that equals ``order``."""
        permutation = self.permutations.get(operand) if isinstance(operand, relax.Var) else None
        if permutation is None:
            return None
        axes = permutation.attrs.axes
        axes = list(reversed(range(len(order)))) if axes is None else [int(a) for a in axes]
        return permutation.args[0], tuple(axes[d] for d in order)

    def in_order(self, operand: Any, order: Order) -> RelaxExpression:
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
        made = _permutation(found, list(order))
        return made if made is found else self.builder_.emit(made)


def _permutation(value: RelaxExpression, order: list[int]) -> RelaxExpression:
    """The value with its dimensions in an order: a reshape if only those of size 1 move."""
    if order == sorted(order):
        return value
    shape = shape_and_dtype(value)[0]
    moved = [dimension for dimension in order if shape[dimension] != 1]
    if moved == sorted(moved) and all(isinstance(extent, int) for extent in shape):
        return relax.op.reshape(value, tuple(shape[dimension] for dimension in order))
    return relax.op.permute_dims(value, order)
