"""What arrives as loops becomes the Relax operators that it equals.

Enters: Relax functions that call PrimFuncs, such as formulas are lowered to. Leaves: the same
functions, in which a sum of products is a ``matmul`` or a convolution (:mod:`contractions`), the
sum, the greatest or the smallest of whole dimensions and of windows is a reduction or a pooling
(:mod:`reductions`), and arithmetic on elements is that of operators (:mod:`elements`), so that
layouts, packing and simplifications treat both alike. They are told by their indices alone. A
kernel of several stages is taken apart for that where it holds a contraction, or is nothing but
operators; stages that are none become kernels of their own, and fuse again later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi
from tvm import relax

from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, inlined, read_kernel
from tvm_nnef.schedules.graph.contractions import Contraction, contractions
from tvm_nnef.schedules.graph.elements import as_operators, is_elementwise
from tvm_nnef.schedules.graph.products import as_product
from tvm_nnef.schedules.graph.rebuilding import Symbols, call_te, kernel_at_call, tensor_of
from tvm_nnef.schedules.graph.reductions import Reduction, as_reduction, reduction, volume
from tvm_nnef.schedules.graph.rewriting import Operands, Rewrite, operator_name, rewritten
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    Module,
    PrimFunction,
    RelaxExpression,
    prim_functions,
)

Raised: TypeAlias = "Contraction | Reduction"


def raise_to_operators(mod: Module) -> Module:
    """The module with operators in place of the loops that equal them."""
    read = [read_kernel(function) for function in prim_functions(mod).values()]
    kernels = [kernel for kernel in read if kernel is not None]
    steps = [_raising] if any(map(_is_raised, kernels)) else []
    if any(_is_sum_over_windows(reduction(kernel)) for kernel in kernels):
        steps += [_means]
    if not steps:
        return mod
    for step in steps:
        mod = rewritten(mod, step(prim_functions(mod)))
    mod = relax.transform.CanonicalizeBindings()(mod)
    return relax.transform.DeadCodeElimination()(mod)


def _is_raised(kernel: Kernel) -> bool:
    return bool(_raised(kernel)) or _is_elementwise(kernel)


def _raising(functions: Mapping[str, PrimFunction]) -> Rewrite:
    def rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
        kernel = _called_kernel(functions, node)
        raised = {} if kernel is None else _raised(kernel)
        if kernel is None or not (raised or _is_elementwise(kernel)):
            return None
        return _taken_apart(operands, kernel, raised, list(node.args[1].fields))

    return rewrite


def _called_kernel(functions: Mapping[str, PrimFunction], node: Any) -> Kernel | None:
    """The kernel that a call runs, in the symbols of the call; None for other calls."""
    if operator_name(node) != "call_tir" or len(node.args) > 2:
        return None
    function = functions.get(str(node.args[0].name_hint))
    return None if function is None else kernel_at_call(function, list(node.args[1].fields))


def _raised(kernel: Kernel) -> dict[Any, Raised]:
    """The stages that are operators, by the buffers that they fill."""
    found: dict[Any, Raised] = dict(contractions(kernel))
    reduced = None if found else reduction(kernel)
    if reduced is not None and _is_rest_known(kernel, reduced):
        found[reduced.result.buffer] = reduced
    return found


def _is_rest_known(kernel: Kernel, reduced: Reduction) -> bool:
    """Whether all that a kernel computes beside a reduction are operators too."""
    if _is_sum_over_windows(reduced) and reduced.mean is None:
        return False
    copied = None
    if not reduced.data.source.same_as(reduced.data.load.source):
        copied = kernel.stage_of(reduced.data.load.source)
    used = (reduced.stage, reduced.result, copied)
    rest = [stage for stage in kernel.stages if not any(stage is one for one in used)]
    return all(map(is_elementwise, rest))


def _is_sum_over_windows(reduced: Reduction | None) -> bool:
    return reduced is not None and bool(reduced.data.moving) and reduced.make is relax.op.sum


def _is_elementwise(kernel: Kernel) -> bool:
    """Whether operators equal the whole kernel, without contractions in it."""
    return len(kernel.stages) == 1 and is_elementwise(kernel.stages[0])


def _taken_apart(
    operands: Operands,
    kernel: Kernel,
    raised: Mapping[Any, Raised],
    arguments: Sequence[RelaxExpression],
) -> RelaxExpression:
    """The results of a kernel, computed stage by stage."""
    results = kernel.outputs
    values: dict[Any, Any] = dict(zip(kernel.inputs, arguments, strict=True))
    inside: dict[Any, Stage] = {}
    for stage in kernel.stages:
        found = raised.get(stage.buffer)
        made = None if found is None else _operator(operands, found, values)
        if made is None:
            stage = replace(stage, value=inlined(stage.value, inside))
            if isinstance(stage.value, BUFFER_LOAD) and not any(
                stage.buffer.same_as(b) for b in (*results, *_read(raised))
            ):
                inside[stage.buffer] = stage
                continue
            made = as_operators(operands, stage, values)
            made = _called(operands, stage, values) if made is None else made
        values[stage.buffer] = made
    return values[results[0]] if len(results) == 1 else relax.Tuple([values[r] for r in results])


def _operator(
    operands: Operands, found: Raised, values: Mapping[Any, Any]
) -> RelaxExpression | None:
    match found:
        case Contraction():
            return as_product(operands, found, values)
        case Reduction():
            return as_reduction(operands, found, values)


def _read(raised: Mapping[Any, Raised]) -> list[Any]:
    """The buffers that operators read."""
    return [buffer for found in raised.values() for buffer in found.sources]


def _called(operands: Operands, stage: Stage, values: Mapping[Any, Any]) -> RelaxExpression:
    """A stage as a kernel of its own."""
    sources: dict[Any, None] = dict.fromkeys(load.source for load in loads(stage.value))

    def function(symbols: Symbols, *tensors: Any) -> Any:
        return tensor_of(stage, dict(zip(sources, tensors, strict=True)), {}, symbols)

    arguments = [values[source] for source in sources]
    return operands.emit(call_te(operands.builder, function, arguments, str(stage.buffer.name)))


def _means(functions: Mapping[str, PrimFunction]) -> Rewrite:
    """A sum over windows that is divided by their size is their mean."""

    def rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
        size = operands.array(node.args[1]) if operator_name(node) == "divide" else None
        call: Any = None if size is None else operands.call(node.args[0], "call_tir")
        kernel = _called_kernel(functions, call)
        summed = None if kernel is None else reduction(kernel)
        if kernel is None or summed is None or not _is_sum_over_windows(summed):
            return None
        if summed.stage is not kernel.results[0] or np.any(size != volume(summed.stage)):
            return None
        if not tvm_ffi.structural_equal(node.ty, call.ty) or call.ty.dtype != "float32":
            return None
        values = dict(zip(kernel.inputs, call.args[1].fields, strict=True))
        if summed.data.source not in values:
            return None
        return as_reduction(operands, replace(summed, mean=summed.stage), values)

    return rewrite
