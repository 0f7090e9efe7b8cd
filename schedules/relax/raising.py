"""Formulas that are contractions or arithmetic on elements become Relax operators.

Input: Relax functions that call PrimFuncs, such as formulas are lowered to. Output: the same
functions, in which a sum of products is a ``matmul`` or a convolution (:mod:`contractions`), and
arithmetic on elements is that of operators (:mod:`elements`), so that layouts, packing and
simplifications treat them like standard operators. Only the indices decide. A kernel of several
stages is taken apart if it has a contraction; its other stages become their own kernels, and
fuse again later. Reductions and poolings stay kernels: all passes treat these like operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm import relax
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, inlined
from tvm_nnef.schedules.relax.constant_factors import with_own_weights
from tvm_nnef.schedules.relax.contractions import Contraction, contractions
from tvm_nnef.schedules.relax.elements import as_operators
from tvm_nnef.schedules.relax.products import as_product
from tvm_nnef.schedules.relax.rebuilding import call_kernel, kernel_at_call
from tvm_nnef.schedules.relax.rewriting import Operands, operator_name, rewritten
from tvm_nnef.tir.expressions import loads
from tvm_nnef.tvm_support.compat import Buffer, Module, RelaxExpression, prim_functions


def raise_to_operators(mod: Module) -> Module:
    """The module with operators instead of the loops that equal them."""
    functions = prim_functions(mod)

    def rewrite(operands: Operands, node: Call) -> RelaxExpression | None:
        """The operators for a call of a kernel: of a contraction, or of one elementwise stage."""
        if operator_name(node) != "call_tir" or len(node.args) > 2:
            return None
        arguments = list(node.args[1].fields)
        kernel = kernel_at_call(functions[node.args[0].name_hint], arguments)
        if kernel is None:
            return None
        values = dict(zip(kernel.inputs, arguments, strict=True))
        separate = with_own_weights(kernel, lambda buffer: _is_constant(operands, values, buffer))
        if separate is not kernel and contractions(separate):
            kernel = separate
        found = contractions(kernel)
        if found:
            return _taken_apart(operands, kernel, found, values)
        single = len(kernel.stages) == 1
        return as_operators(operands, kernel.stages[0], values) if single else None

    return rewritten(mod, rewrite, ("call_tir",))


def _is_constant(
    operands: Operands, values: Mapping[Buffer, RelaxExpression], buffer: Buffer
) -> bool:
    """Whether a kernel is called with a constant for a buffer."""
    return buffer in values and operands.array(values[buffer]) is not None


def _taken_apart(
    operands: Operands,
    kernel: Kernel,
    found: Mapping[Buffer, Contraction],
    values: dict[Buffer, RelaxExpression],
) -> RelaxExpression:
    """The results of a kernel, computed stage by stage."""
    needed = {*kernel.outputs, *(buffer for each in found.values() for buffer in each.sources)}
    copies: dict[Buffer, Stage] = {}
    for stage in kernel.stages:
        contraction = found.get(stage.buffer)
        made = None if contraction is None else as_product(operands, contraction, values)
        if made is None:
            stage = replace(stage, value=inlined(stage.value, copies))
            if isinstance(stage.value, TensorLoad) and stage.buffer not in needed:
                copies[stage.buffer] = stage
                continue
            made = as_operators(operands, stage, values)
            made = _called(operands, stage, values, kernel.index_type) if made is None else made
        values[stage.buffer] = made
    results = [values[buffer] for buffer in kernel.outputs]
    return results[0] if len(results) == 1 else relax.Tuple(results)


def _called(
    operands: Operands, stage: Stage, values: Mapping[Buffer, RelaxExpression], index_type: str
) -> RelaxExpression:
    """A stage as its own kernel."""
    sources = tuple(dict.fromkeys(load.source for load in loads(stage.value)))
    kernel = Kernel((*sources, stage.buffer), (stage,), index_type)
    arguments = [values[source] for source in sources]
    return operands.emit(call_kernel(operands.builder, kernel, arguments, stage.buffer.name))
