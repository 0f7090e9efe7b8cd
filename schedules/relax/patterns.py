"""Fusion of kernels: the attribute ``op_pattern``, if TVM's own analysis is too careful.

TVM looks for equal indices, and finds none if a dimension of one element is read at 0. Only the
attributes of kernels without reduction change.
"""

from __future__ import annotations

from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis.kernel import Stage, read_kernel
from tvm_nnef.schedules.relax.windows import positions
from tvm_nnef.tir.expressions import loads
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimFunction,
    buffers_of,
    prim_functions,
    update_functions,
)
from tvm_nnef.tvm_support.function_attributes import OP_PATTERN, FusionPattern


def annotate(mod: Module) -> Module:
    """The module with a pattern for each kernel that computes element by element."""
    patterns = {name: _pattern(function) for name, function in prim_functions(mod).items()}
    return update_functions(
        mod,
        {
            name: mod[name].with_attr(OP_PATTERN, int(pattern))
            for name, pattern in patterns.items()
            if pattern is not None
        },
    )


def _pattern(function: PrimFunction) -> FusionPattern | None:
    """The pattern of a function; None if TVM's is right."""
    # FuseTIR cannot fuse a kernel that reads nothing but scalars: no tensor defines its dimensions.
    if len(buffers_of(function)) == 1 < len(function.params):
        return FusionPattern.OPAQUE
    if int((function.attrs or {}).get(OP_PATTERN, 0)) > FusionPattern.INJECTIVE:
        return None
    kernel = read_kernel(function)
    if kernel is None or any(stage.reduced for stage in kernel.stages):
        return None
    return max(map(_stage_pattern, kernel.stages))


def _stage_pattern(stage: Stage) -> FusionPattern:
    """As TVM counts: what is broadcast does not keep a stage with equal indices from fusing."""
    accesses = {_access(load, stage) for load in loads(stage.value)} or {FusionPattern.INJECTIVE}
    return min(accesses) if FusionPattern.INJECTIVE not in accesses else FusionPattern.INJECTIVE


def _access(load: TensorLoad, stage: Stage) -> FusionPattern:
    """Return the relation of the indices of a load to the axes of a stage."""
    found = positions(load, stage)
    if found is None:
        return FusionPattern.INJECTIVE
    equal = [None if axis.is_unit else number for number, axis in enumerate(stage.axes)]
    same = len(found) == len(equal) and all(
        position in (number, equal[number]) for number, position in enumerate(found)
    )
    return FusionPattern.ELEMENTWISE if same else FusionPattern.BROADCAST
