"""Formulas that are contractions or arithmetic on elements become Relax operators.

Input: Relax functions that call PrimFuncs, such as formulas are lowered to. Output: the same
functions, in which a sum of products is a ``matmul`` or a convolution (:mod:`contractions`), and
arithmetic on elements is that of operators (:mod:`elements`), so that layouts, packing and
simplifications treat them like standard operators. Only the indices decide. A kernel of several
stages is taken apart if it has a contraction; its other stages become kernels of their own, and
fuse again later. Reductions and poolings stay kernels: all passes treat these like operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm import relax

from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, inlined, read_kernel
from tvm_nnef.schedules.graph.contractions import contractions
from tvm_nnef.schedules.graph.elements import as_operators, is_elementwise
from tvm_nnef.schedules.graph.products import as_product
from tvm_nnef.schedules.graph.rebuilding import Symbols, call_te, kernel_at_call, tensor_of
from tvm_nnef.schedules.graph.rewriting import Operands, operator_name, rewritten
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    Module,
    PrimFunction,
    RelaxExpression,
    prim_functions,
)


def raise_to_operators(mod: Module) -> Module:
    """The module with operators in place of the loops that equal them."""
    functions = prim_functions(mod)
    if not any(map(_is_raised, map(read_kernel, functions.values()))):
        return mod

    def rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
        kernel = _called_kernel(functions, node)
        if kernel is None or not _is_raised(kernel):
            return None
        return _taken_apart(operands, kernel, list(node.args[1].fields))

    mod = relax.transform.CanonicalizeBindings()(rewritten(mod, rewrite))
    return relax.transform.DeadCodeElimination()(mod)


def _called_kernel(functions: Mapping[str, PrimFunction], node: Any) -> Kernel | None:
    """The kernel that a call runs, in the symbols of the call; None for other calls."""
    if operator_name(node) != "call_tir" or len(node.args) > 2:
        return None
    function = functions.get(str(node.args[0].name_hint))
    return None if function is None else kernel_at_call(function, list(node.args[1].fields))


def _is_raised(kernel: Kernel | None) -> bool:
    """Whether a kernel has a contraction, or is one stage that operators equal."""
    if kernel is None:
        return False
    single = len(kernel.stages) == 1 and is_elementwise(kernel.stages[0])
    return single or bool(contractions(kernel))


def _taken_apart(
    operands: Operands, kernel: Kernel, arguments: Sequence[RelaxExpression]
) -> RelaxExpression:
    """The results of a kernel, computed stage by stage."""
    found = contractions(kernel)
    needed = [*kernel.outputs, *(buffer for each in found.values() for buffer in each.sources)]
    values: dict[Any, Any] = dict(zip(kernel.inputs, arguments, strict=True))
    inside: dict[Any, Stage] = {}
    for stage in kernel.stages:
        contraction = found.get(stage.buffer)
        made = None if contraction is None else as_product(operands, contraction, values)
        if made is None:
            stage = replace(stage, value=inlined(stage.value, inside))
            copies = isinstance(stage.value, BUFFER_LOAD)
            if copies and not any(stage.buffer.same_as(buffer) for buffer in needed):
                inside[stage.buffer] = stage
                continue
            made = as_operators(operands, stage, values)
            made = _called(operands, stage, values) if made is None else made
        values[stage.buffer] = made
    results = [values[buffer] for buffer in kernel.outputs]
    return results[0] if len(results) == 1 else relax.Tuple(results)


def _called(operands: Operands, stage: Stage, values: Mapping[Any, Any]) -> RelaxExpression:
    """A stage as a kernel of its own."""
    sources: dict[Any, None] = dict.fromkeys(load.source for load in loads(stage.value))

    def function(symbols: Symbols, *tensors: Any) -> Any:
        return tensor_of(stage, dict(zip(sources, tensors, strict=True)), {}, symbols)

    arguments = [values[source] for source in sources]
    return operands.emit(call_te(operands.builder, function, arguments, str(stage.buffer.name)))
