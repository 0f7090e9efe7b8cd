"""Kernels that run over the same rows, one after the other, become one kernel.

Input: a module whose kernels are fused by TVM, which fuses no reduction with its readers. Output:
the same, in which a chain such as maximum, difference, exponential, sum and quotient over the last
axis is one PrimFunc. It runs row by row then (:mod:`row_reduction`), as a softmax that is one
formula does. A kernel is only fused if no other kernel reads its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage
from tvm_nnef.schedules.analysis.rows import rows_of
from tvm_nnef.schedules.graph.rebuilding import kernel_at_call
from tvm_nnef.schedules.graph.rewriting import operator_name
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    Module,
    PrimFunction,
    is_tensor,
    prim_functions,
    with_own_symbols,
)

_FEWEST_ROWS = 16
"""Fewer rows leave threads without work, unless the rows are short."""

_SHORT = 1 << 14

_MOST_STAGES = 24


def with_joined_rows(mod: Module) -> Module:
    """The module with kernels over the same rows as functions to be fused (``Primitive``)."""
    functions = prim_functions(mod)
    walk = _Walk(mod, functions)
    for variable, function in list(mod.functions.items()):
        if isinstance(function, relax.Function) and "Primitive" not in (function.attrs or {}):
            walk.groups = dict(_groups(function, functions))
            if walk.groups:
                walk.joined = True
                walk.builder_.update_func(variable, walk.visit_expr(function))
    if not walk.joined:
        return mod
    canonical = relax.transform.CanonicalizeBindings()(walk.builder_.get())
    fused = relax.transform.FuseTIR()(relax.transform.DeadCodeElimination()(canonical))
    return relax.transform.DeadCodeElimination()(fused)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a kernel: the variable of its result, and the kernel on buffers of the group."""

    variable: Any
    value: Any
    function: PrimFunction

    @property
    def arguments(self) -> list[Any]:
        """What it reads."""
        return list(self.value.args[1].fields)


def _groups(
    function: Any, functions: Mapping[str, PrimFunction]
) -> Iterator[tuple[Any, list[_Call]]]:
    """Chains of kernels by the variable of the last one; each kernel is in at most one."""
    for part in function.body.blocks:
        calls = {c.variable: c for b in part.bindings if (c := _called(b, functions)) is not None}
        users = _users(function)
        taken: set[Any] = set()
        for last in reversed(list(calls.values())):
            if last.variable not in taken:
                group = _grown([last], calls, users, taken)
                if len(group) > 1:
                    taken.update(call.variable for call in group)
                    yield last.variable, group


def _called(binding: Any, functions: Mapping[str, PrimFunction]) -> _Call | None:
    value: Any = getattr(binding, "value", None)
    if operator_name(value) != "call_tir" or len(value.args) != 2 or not is_tensor(value):
        return None
    function = functions.get(str(value.args[0].name_hint))
    if function is None or not all(hasattr(a, "ty") and is_tensor(a) for a in value.args[1].fields):
        return None
    return _Call(binding.var, value, function)


def _users(function: Any) -> dict[Any, list[Any]]:
    """The variables whose bindings read a variable; None stands for the result of the function."""
    users: dict[Any, list[Any]] = {}
    read = [(b.value, b.var) for part in function.body.blocks for b in part.bindings]
    for expression, reader in [*read, (function.body.body, None)]:
        for variable in relax.analysis.free_vars(expression):
            users.setdefault(variable, []).append(reader)
    return users


def _grown(
    group: list[_Call],
    calls: Mapping[Any, _Call],
    users: Mapping[Any, list[Any]],
    taken: set[Any],
) -> list[_Call]:
    """The group with all kernels before it that only it reads, and that run over its rows."""
    last = group
    grown: list[_Call] | None = group
    while grown is not None and _over_rows(grown, alone=True) is not None:
        group, inside = grown, {call.variable for call in grown}
        read = dict.fromkeys(argument for call in group for argument in call.arguments)
        candidates = [
            argument
            for argument in read
            if argument in calls
            and argument not in taken
            and argument not in inside
            and all(reader in inside for reader in users[argument])
        ]
        larger = ([c for v, c in calls.items() if v in inside or v.same_as(a)] for a in candidates)
        grown = next((each for each in larger if _over_rows(each, alone=True) is not None), None)
    return group if _over_rows(group, alone=False) is not None else last


def _over_rows(group: Sequence[_Call], *, alone: bool) -> Kernel | None:
    """The kernel of a group, if all of it runs over the same rows.

    With ``alone`` also a kernel without any reduction.
    """
    kernel = _joined(group)
    if kernel is None or len(kernel.stages) > _MOST_STAGES:
        return None
    if not any(stage.reduced for stage in kernel.stages):
        return kernel if alone else None
    rows = rows_of(kernel)
    if rows is None:
        return None
    count = sizes.estimate(sizes.product(axis.extent for axis in rows))
    longest = max(stage.work for stage in kernel.stages) // max(1, count)
    return kernel if count >= _FEWEST_ROWS or longest <= _SHORT else None


def _joined(group: Sequence[_Call]) -> Kernel | None:
    """The stages of all kernels of a group, on the same buffers."""
    buffers: dict[Any, Any] = {}
    stages: list[Stage] = []
    index_type = ""
    for call in group:
        kernel = kernel_at_call(call.function, call.arguments)
        if kernel is None or len(kernel.results) != 1:
            return None
        own = [*call.arguments, call.variable]
        shared = {
            parameter: buffers.setdefault(value, parameter)
            for parameter, value in zip(kernel.parameters, own, strict=True)
        }
        stages += [_on_buffers(stage, shared) for stage in kernel.stages]
        index_type = kernel.index_type
    inside = [call.variable for call in group[:-1]]
    parameters = [b for value, b in buffers.items() if not any(value is v for v in inside)]
    return Kernel(tuple(parameters), tuple(stages), index_type)


def _on_buffers(stage: Stage, buffers: Mapping[Any, Any]) -> Stage:
    """The stage with other buffers in place of some."""

    def moved(load: Any) -> Any:
        source = buffers.get(load.source)
        return load if source is None else source[tuple(load.indices)]

    value = tvm_ffi.structural_map(stage.value, (BUFFER_LOAD, moved))
    return replace(stage, buffer=buffers.get(stage.buffer, stage.buffer), value=value)


@mutator
class _Walk(PyExprMutator):  # type: ignore[misc]
    """Replaces the last kernel of each group by a call of a new function."""

    def __init__(self, mod: Module, functions: Mapping[str, PrimFunction]) -> None:
        super().__init__(mod)
        self.functions = functions
        self.groups: dict[Any, list[_Call]] = {}
        self.joined = False

    def visit_var_binding_(self, binding: Any) -> None:
        group = self.groups.get(binding.var)
        if group is None:
            super().visit_var_binding_(binding)
            return
        inputs: dict[Any, Any] = {}
        function = _function(group, inputs)
        variable = self.builder_.add_func(function, _name(group))
        call = relax.Call(variable, [self.visit_expr(value) for value in inputs])
        made = self.builder_.normalize(call)
        self.builder_.emit_normalized(relax.VarBinding(self.visit_var_def(binding.var), made))


def _name(group: Sequence[_Call]) -> str:
    names = [str(call.value.args[0].name_hint).removeprefix("fused_") for call in group]
    return "rows_" + "_".join(names)


def _function(group: Sequence[_Call], inputs: dict[Any, Any]) -> Any:
    """A function of the kernels of a group; fills in its parameters by what is passed for them."""
    inside = {call.variable for call in group}
    for call in group:
        for argument in call.arguments:
            if argument not in inside and argument not in inputs:
                inputs[argument] = relax.Var(f"p{len(inputs)}", argument.ty)
    builder = relax.BlockBuilder()
    values = dict(inputs)
    with builder.function("rows", list(inputs.values()), {"Primitive": 1}, private=True):
        with builder.dataflow():
            for call in group:
                arguments = relax.Tuple([values[argument] for argument in call.arguments])
                made = relax.op.call_tir(call.value.args[0], arguments, call.value.ty)
                last = call is group[-1]
                values[call.variable] = (builder.emit_output if last else builder.emit)(made)
        builder.emit_func_output(values[group[-1].variable])
    return with_own_symbols(builder.get()["rows"])
