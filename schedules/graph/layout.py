"""Channels last inside of a graph: convolutions and the operators around them run on N X C tensors.

Input: Relax functions with convolutions of ``[N, C, X...]``. Output: the same functions, in which
convolutions read and write channels last, and so does every operator between them that can
(:mod:`layout_operators`). Tensors are permuted back only for an operator that needs the original
order, and at the edges of the graph. A permutation in the graph itself only changes orders.
"""

from __future__ import annotations

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.graph.layout_operators import ON_PERMUTED
from tvm_nnef.schedules.graph.permuted import Order, Permuted
from tvm_nnef.schedules.graph.rewriting import (
    operator_name,
    permutation_axes,
    with_functions,
    without_dataflow,
)
from tvm_nnef.schedules.machine import GENERIC, CpuModel
from tvm_nnef.tvm_support.compat import (
    CALL,
    Module,
    RelaxExpression,
    constant,
    constant_array,
    is_tensor,
    prim_functions,
    shape_and_dtype,
)


def channels_last(mod: Module, machine: CpuModel = GENERIC) -> Module:
    """The module with convolutions, and the operators around them, channels last."""
    relayout = _Relayout(without_dataflow(mod), machine)
    return relax.transform.DeadCodeElimination()(with_functions(relayout, relayout.visit_expr))


@mutator
class _Relayout(PyExprMutator):  # type: ignore[misc]
    """``forms`` are the permuted forms of variables, lists of those of a tuple.

    Each variable also gets its original order; dead code elimination removes what nothing reads.
    """

    def __init__(self, mod: Module, machine: CpuModel) -> None:
        super().__init__(mod)
        self.machine = machine
        self.functions = prim_functions(mod)
        self.forms: dict[RelaxExpression, Permuted | list[Permuted]] = {}
        self.permutations: dict[RelaxExpression, CALL] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
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
        if not isinstance(value, CALL):
            return None
        apply = ON_PERMUTED.get(operator_name(value))
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
