"""Kernels of a module for a GPU that the CPU runs: few numbers, made of sizes alone.

Input: a module whose kernels have no schedules yet. Output: the same, in which such kernels have
the attribute ``ON_HOST``. A launch would take longer than they do, and a module that has no others
needs no compiler for the GPU. What a launch reads is computed by a launch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tvm import relax, s_tir, tirx

from tvm_nnef.schedules.plan.plan import STRATEGY
from tvm_nnef.schedules.relax.rewriting import operator_name
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimFunction,
    is_scalar,
    is_tensor,
    is_tensor_constant,
    prim_functions,
)
from tvm_nnef.tvm_support.function_attributes import ON_HOST

NAME = "gpu.host"
"""The strategy of such kernels."""

_MOST_STEPS = 1024
"""The iterations that take a CPU no longer than a launch takes."""


def with_host_kernels(mod: Module) -> Module:
    """The module whose kernels of sizes alone are marked, if no launch reads their results."""
    builder, kernels = relax.BlockBuilder(mod), prim_functions(mod)
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, relax.Function)}
    chosen = {each for f in functions.values() for each in _chosen(f, kernels)}
    launched = {
        str(call.args[0].name_hint)
        for function in functions.values()
        for variable, call in _kernel_calls(function)
        if variable not in chosen
    }

    def marked(binding: Any) -> Any:
        if binding.var not in chosen:
            return binding
        call = binding.value
        kernel, *rest = call.args
        name = str(kernel.name_hint)
        function = kernels[name].with_attr({ON_HOST: 1, STRATEGY: NAME})
        if name in launched:
            kernel = builder.add_func(function, name)
        else:
            builder.update_func(kernel, function)
        made = relax.Call(call.op, [kernel, *rest], call.attrs, call.ty_args, call.span)
        return relax.VarBinding(binding.var, made)

    for variable, function in functions.items() if chosen else ():
        builder.update_func(variable, traversal.mapped(function, (relax.VarBinding, marked)))
    made: Module = builder.get()
    return made


def _chosen(function: Any, kernels: Mapping[str, PrimFunction]) -> set[Any]:
    """The variables of the calls of a function that the CPU runs."""
    calls = list(_kernel_calls(function))
    found: set[Any] = set()
    readers: defaultdict[Any, list[Any]] = defaultdict(list)
    for variable, call in calls:
        kernel, arguments = call.args[0], call.args[1].fields
        for argument in arguments:
            readers[argument].append(variable)
        is_known = all(argument in found or _is_known(argument) for argument in arguments)
        if is_known and _is_short(kernels[str(kernel.name_hint)], variable):
            found.add(variable)
    for variable, _ in reversed(calls):
        if not found.issuperset(readers[variable]):
            found.discard(variable)
    return found


def _kernel_calls(function: Any) -> Iterator[tuple[Any, Any]]:
    """The calls of kernels in a function, in order, with the variables of their results."""
    for binding in _bindings(function.body):
        value = binding.value
        if operator_name(value).startswith("call_tir") and isinstance(value.args[1], relax.Tuple):
            yield binding.var, value


def _bindings(sequence: Any) -> Iterator[Any]:
    """The bindings of a sequence in order, with those of branches."""
    for block in sequence.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.If):
                yield from _bindings(binding.value.true_branch)
                yield from _bindings(binding.value.false_branch)
            yield binding


def _is_known(argument: Any) -> bool:
    """Whether the CPU knows an argument of a kernel: a size, or a constant of few elements."""
    if is_tensor_constant(argument):
        return math.prod(map(int, argument.ty.shape)) <= _MOST_STEPS
    return is_scalar(argument)


def _is_short(kernel: PrimFunction, result: Any) -> bool:
    """Whether a kernel has one result, and takes few steps."""
    return is_tensor(result) and _steps(kernel.body) <= _MOST_STEPS


def _steps(statement: Any) -> float:
    """The iterations of the innermost loops of a statement; infinite if they are dynamic."""
    match statement:
        case tirx.SeqStmt():
            return sum(map(_steps, statement.seq))
        case tirx.IfThenElse():
            return sum(map(_steps, filter(None, (statement.then_case, statement.else_case))))
        case tirx.For():
            extent = statement.extent
            count = int(extent) if isinstance(extent, tirx.IntImm) else math.inf
            return count * _steps(statement.body)
        case tirx.While():
            return math.inf
        case s_tir.SBlockRealize():
            return _steps(statement.block.body)
    return _steps(statement.body) if hasattr(statement, "body") else 1
