"""Channels last inside of a graph: convolutions and what stands around them run on N X C tensors.

Enters: Relax functions with convolutions whose channels stand behind the batch. Leaves: the same
functions, in which convolutions read and write channels last, and every operator between them that
does not mind runs on the permuted tensor too. Tensors are permuted back only where an operator
needs the original order, and at the edges of the graph. Chooses nothing about weights.

A permutation in the graph itself only changes orders (:mod:`placement`). What is done with each
operator stands in :mod:`layout_rules`.
"""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.graph.layout_rules import RULES
from tvm_nnef.schedules.graph.placement import Order, Placed, extent_of
from tvm_nnef.schedules.graph.rewriting import operator_name, without_dataflow
from tvm_nnef.tvm_support.compat import (
    Module,
    RelaxExpression,
    constant,
    constant_array,
    prim_functions,
    shape_and_dtype,
)


def channels_last(mod: Module) -> Module:
    """The module with convolutions, and what is around them, channels last."""
    mod = without_dataflow(mod)
    walk = _Layout(mod)
    for variable, function in list(mod.functions.items()):
        if isinstance(function, relax.Function):
            walk.builder_.update_func(variable, walk.visit_expr(function))
    return relax.transform.DeadCodeElimination()(walk.builder_.get())


@mutator
class _Layout(PyExprMutator):  # type: ignore[misc]
    """Walks over bindings.

    ``placed`` knows the variables that have a permuted form, ``items`` those of several tensors.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__(mod)
        self.functions = prim_functions(mod)
        self.placed: dict[Any, Placed] = {}
        self.items: dict[Any, list[Placed]] = {}
        self.restored: dict[Any, Any] = {}
        self.permutations: dict[Any, Any] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        if operator_name(binding.value) == "permute_dims":
            self.permutations[binding.var] = binding.value
        made = self.permuted(binding.value)
        if made is None:
            super().visit_var_binding_(binding)
            return
        name = str(binding.var.name)
        if isinstance(made, list):
            self.items[binding.var] = [
                self.bound(item, f"{name}_{n}") for n, item in enumerate(made)
            ]
        else:
            self.placed[binding.var] = self.bound(made, name)

    def bound(self, made: Placed, name: str) -> Placed:
        """A permuted tensor as a variable."""
        return Placed(self.builder_.emit(made.value, name), made.order)

    def visit_seq_expr_(self, sequence: Any) -> Any:
        outside = dict(self.placed), dict(self.items), dict(self.restored)
        visited = super().visit_seq_expr_(sequence)
        self.placed, self.items, self.restored = outside
        return visited

    def visit_var_(self, variable: Any) -> Any:
        return self.plain(variable)

    def plain(self, variable: Any) -> Any:
        """A variable in the original order."""
        if variable in self.restored:
            return self.restored[variable]
        if variable not in self.placed and variable not in self.items:
            found = self.get_var_remap(variable)
            return variable if found is None else found
        value = self.original(variable)
        if not isinstance(value, relax.Var):
            value = self.builder_.emit(value)
        self.restored[variable] = value
        return value

    def original(self, variable: Any) -> Any:
        """The expression of what has a permuted form, in the original order."""
        if variable in self.placed:
            return self.restoring(self.placed[variable])
        return relax.Tuple([self.restoring(item) for item in self.items[variable]])

    def restoring(self, placed: Placed) -> Any:
        """The expression of a permuted tensor in the original order."""
        order = placed.order
        inverse = [order.index(dimension) for dimension in range(len(order))]
        if inverse == sorted(inverse):
            return placed.value
        shape = [placed.shape[d] for d in inverse]
        moved = [d for d in order if extent_of(placed, d) != 1]
        if moved == sorted(moved) and all(isinstance(e, int) for e in shape):
            return relax.op.reshape(placed.value, tuple(shape))
        return relax.op.permute_dims(placed.value, inverse)

    def permuted(self, value: Any) -> Placed | list[Placed] | None:
        """The permuted form of what a variable is bound to; None where it stays as it is."""
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self.items:
            return self.items[value.tuple_value][int(value.index)]
        if isinstance(value, relax.Var):
            return self.placed.get(value) or self.items.get(value)
        rule = RULES.get(operator_name(value))
        return None if rule is None else rule(self, value)

    def placement(self, operand: Any) -> Placed | None:
        """The permuted form of an operand, where it has one."""
        return self.placed.get(operand) if isinstance(operand, relax.Var) else None

    def comes_in(self, operand: Any, order: Order) -> bool:
        """Whether an operand has an order without being permuted for it."""
        placed = self.placement(operand)
        if placed is not None:
            return placed.order == order
        before = self.before(operand, order)
        return list(order) == sorted(order) if before is None else self.comes_in(*before)

    def before(self, operand: Any, order: Order) -> tuple[Any, Order] | None:
        """What an operand was permuted from, and the order that is ``order`` then."""
        permutation = self.permutations.get(operand) if isinstance(operand, relax.Var) else None
        if permutation is None:
            return None
        axes = permutation.attrs.axes
        axes = list(reversed(range(len(order)))) if axes is None else [int(a) for a in axes]
        return permutation.args[0], tuple(axes[d] for d in order)

    def in_order(self, operand: Any, order: Order) -> RelaxExpression:
        """An operand in an order, by permuting it where it is not."""
        placed = self.placement(operand)
        if placed is not None and placed.order == order:
            return placed.value
        array = constant_array(operand)
        if array is not None:
            return constant(array.transpose(order))
        before = self.before(operand, order) if placed is None else None
        if before is not None:
            return self.in_order(*before)
        found: RelaxExpression = self.visit_expr(operand)
        if list(order) == sorted(order):
            return found
        shape = shape_and_dtype(found)[0]
        moved = [d for d in order if shape[d] != 1]
        if moved == sorted(moved) and all(isinstance(extent, int) for extent in shape):
            return self._emitted(relax.op.reshape(found, tuple(shape[d] for d in order)))
        return self._emitted(relax.op.permute_dims(found, list(order)))

    def _emitted(self, expression: RelaxExpression) -> RelaxExpression:
        variable: RelaxExpression = self.builder_.emit(expression)
        return variable

    def normal(self, expression: RelaxExpression) -> RelaxExpression:
        """The expression with its type."""
        normal: RelaxExpression = self.builder_.normalize(expression)
        return normal
