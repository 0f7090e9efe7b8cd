"""Kernels that run over the same rows, one after the other, become one kernel.

Input: a module whose kernels are fused by TVM, which fuses no reduction with its readers. Output:
the same, in which a chain such as maximum, difference, exponential, sum and quotient over the last
axis is one PrimFunc. It runs row by row then (:mod:`row_reduction`), as a softmax that is one
formula does. A kernel is only fused if no other kernel reads its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Call, TensorLoad
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage
from tvm_nnef.schedules.analysis.rows import rows_of
from tvm_nnef.schedules.machine import CpuModel, GpuModel
from tvm_nnef.schedules.relax.rebuilding import call_kernel, is_symbol, kernel_at_call
from tvm_nnef.schedules.relax.rewriting import operator_name, without_dead_code
from tvm_nnef.tvm_support.compat import (
    Buffer,
    Module,
    PrimFunction,
    RelaxExpression,
    Var,
    is_tensor,
    prim_functions,
    shape_and_dtype,
    with_own_symbols,
)

_MOST_STAGES = 24
"""The most stages of a chain: a limit of compile time, as each longer chain is read whole."""


def with_fused_reductions(mod: Module, machine: CpuModel | GpuModel) -> Module:
    """The module with one kernel for all kernels of a chain over the same rows."""
    return with_chains(mod, functools.partial(_grown, machine))


def with_chains(mod: Module, grown: Grown) -> Module:
    """The module with one kernel for each chain of calls."""
    functions = prim_functions(mod)
    walk, found = _ReductionFuser(mod), False
    for variable, function in list(mod.functions.items()):
        if isinstance(function, relax.Function):
            walk.chains = dict(_chains(function, functions, grown))
            if walk.chains:
                found = True
                walk.builder_.update_func(variable, walk.visit_expr(function))
    return without_dead_code(walk.builder_.get()) if found else mod


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """A call of a kernel: the variable of its result, what it reads, and the kernel.

    ``scalars`` are symbols that it is given as numbers.
    """

    variable: Var
    arguments: list[RelaxExpression]
    kernel: Kernel
    name: str
    scalars: list[Var]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Calls one after the other, of which only the last result is read by others.

    The name of their kernel begins with the ``kind``.
    """

    kind: str
    calls: list[KernelCall]
    kernel: Kernel
    arguments: list[RelaxExpression]

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return "_".join([self.kind, *(call.name.removeprefix("fused_") for call in self.calls)])

    @property
    def scalars(self) -> list[Var]:
        """The symbols that no shape of the arguments defines."""
        sizes_of = (size for each in self.arguments for size in shape_and_dtype(each)[0])
        defined = {size for size in sizes_of if isinstance(size, tirx.Var)}
        given = dict.fromkeys(symbol for call in self.calls for symbol in call.scalars)
        return [symbol for symbol in given if symbol not in defined]


Users: TypeAlias = "Mapping[Var, Sequence[Var | None]]"
"""The variables whose bindings read a variable; None stands for the result of the function."""

Grown: TypeAlias = "Callable[[KernelCall, Sequence[KernelCall], Users], Chain | None]"
"""The chain that ends with a call, of calls that are in no other chain; None for none."""


def _chains(
    function: relax.Function, functions: Mapping[str, PrimFunction], grown: Grown
) -> Iterator[tuple[Var, Chain]]:
    """Chains of kernels by the variable of the last one; each kernel is in at most one."""
    users, taken = _users(function), set[Var]()
    for block in function.body.blocks:
        bindings = [each for each in block.bindings if operator_name(each.value) == "call_tir"]
        called = {binding.var for binding in bindings}
        inner = {var for var in called if called.issuperset(users.get(var, [None]))}
        found = (_called(each.var, each.value, functions, inner) for each in bindings)
        calls = [call for call in found if call is not None]
        for last in reversed(calls):
            if last.variable not in taken:
                free = [call for call in calls if call.variable not in taken]
                chain = grown(last, free, users)
                if chain is not None:
                    taken.update(call.variable for call in chain.calls)
                    yield last.variable, chain


def _called(
    variable: Var,
    value: Call,
    functions: Mapping[str, PrimFunction],
    inner: set[Var],
) -> KernelCall | None:
    """A call of a kernel with one result; None for others, and those that no chain can have.

    In a chain one call reads another: its result is ``inner``, read by calls of kernels only.
    """
    if len(value.args) != 2 or not is_tensor(value):
        return None
    name, given = value.args[0].name_hint, list(value.args[1].fields)
    if inner.isdisjoint([variable, *given]):
        return None
    kernel = kernel_at_call(with_own_symbols(functions[name]), given, numbers=True)
    if kernel is None or len(kernel.results) != 1:
        return None
    scalars = [each for each in given if is_symbol(each)]
    arguments = [each for each in given if not is_symbol(each)]
    return KernelCall(variable, arguments, kernel, name, scalars)


def _users(function: relax.Function) -> Users:
    """The users of each variable of a function."""
    users: dict[Var, list[Var | None]] = {}
    read = [(b.value, b.var) for block in function.body.blocks for b in block.bindings]
    for expression, reader in [*read, (function.body.body, None)]:
        for variable in relax.analysis.free_vars(expression):
            users.setdefault(variable, []).append(reader)
    return users


def _grown(
    machine: CpuModel | GpuModel, last: KernelCall, free: Sequence[KernelCall], users: Users
) -> Chain | None:
    """A call with all before it that only they read, and that run over the same rows."""
    whole: Chain | None = None
    chain = _over_rows([last], machine)
    while chain is not None:
        whole = chain if any(stage.reduced for stage in chain.kernel.stages) else None
        larger = longer(chain, free, users)
        chain = next((found for each in larger if (found := _over_rows(each, machine))), None)
    return whole if whole is not None and len(whole.calls) > 1 else None


def longer(chain: Chain, free: Sequence[KernelCall], users: Users) -> Iterator[list[KernelCall]]:
    """The calls of a chain with one more, whose result only they read."""
    inside = {call.variable for call in chain.calls}
    for argument in chain.arguments:
        for each in free:
            if each.variable.same_as(argument) and inside.issuperset(users[each.variable]):
                yield [call for call in free if call is each or call in chain.calls]


def _over_rows(calls: Sequence[KernelCall], machine: CpuModel | GpuModel) -> Chain | None:
    """The chain of some calls, if they run over the same rows or have no reduction.

    Few rows leave threads without work, unless the rows are short.
    """
    chain = combined(calls, "rows")
    stages = chain.kernel.stages
    if len(stages) > _MOST_STAGES:
        return None
    if not any(stage.reduced for stage in stages):
        return chain
    rows = rows_of(chain.kernel)
    if rows is None:
        return None
    count = sizes.estimate(sizes.product(axis.extent for axis in rows))
    longest = max(stage.work for stage in stages) // max(1, count)
    return chain if count >= machine.task_rows or longest <= machine.short_row else None


def combined(calls: Sequence[KernelCall], kind: str) -> Chain:
    """The stages of all calls as one kernel, and what it reads."""
    buffers: dict[RelaxExpression, Buffer] = {}
    stages: list[Stage] = []
    for call in calls:
        values = zip(call.kernel.parameters, [*call.arguments, call.variable], strict=True)
        shared = {own: buffers.setdefault(value, own) for own, value in values}
        stages += [_on_buffers(stage, shared) for stage in call.kernel.stages]
    result = buffers[calls[-1].variable]
    inside = {call.variable for call in calls}
    read = {value: buffer for value, buffer in buffers.items() if value not in inside}
    kernel = Kernel((*read.values(), result), tuple(stages), calls[0].kernel.index_type)
    return Chain(kind, list(calls), kernel, list(read))


def _on_buffers(stage: Stage, buffers: Mapping[Buffer, Buffer]) -> Stage:
    """The stage with other buffers instead of some."""

    def moved(load: TensorLoad) -> TensorLoad:
        source = buffers.get(load.source)
        return load if source is None else source[tuple(load.indices)]

    value = tvm_ffi.structural_map(stage.value, (TensorLoad, moved))
    return replace(stage, buffer=buffers.get(stage.buffer, stage.buffer), value=value)


@mutator
class _ReductionFuser(PyExprMutator):  # type: ignore[misc]
    """Replaces the last call of each chain by a call of the kernel of all."""

    def __init__(self, mod: Module) -> None:
        super().__init__(mod)
        self.chains: dict[Var, Chain] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        chain = self.chains.get(binding.var)
        if chain is None:
            super().visit_var_binding_(binding)
            return
        arguments = [self.visit_expr(argument) for argument in chain.arguments]
        call = call_kernel(self.builder_, chain.kernel, arguments, chain.name, chain.scalars)
        made = self.builder_.normalize(call)
        self.builder_.emit_normalized(relax.VarBinding(self.visit_var_def(binding.var), made))
