"""How kernels may fuse: the attribute ``op_pattern``, if TVM's own analysis is too careful.

TVM looks for equal indices, and finds none if a dimension of one element is read at 0. Only the
attributes of kernels without reduction change.
"""

from __future__ import annotations

from typing import Any

from tvm_nnef.function_attributes import OP_PATTERN, FusionPattern
from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Stage, read_kernel
from tvm_nnef.schedules.graph.windows import positions
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimFunction,
    is_scalar,
    prim_functions,
    update_functions,
)


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
    if _reads_scalars_only(function):
        return FusionPattern.OPAQUE
    if int((function.attrs or {}).get(OP_PATTERN, 0)) > FusionPattern.INJECTIVE:
        return None
    kernel = read_kernel(function)
    if kernel is None or any(stage.reduced for stage in kernel.stages):
        return None
    return max(_stage_pattern(stage) for stage in kernel.stages)


def _reads_scalars_only(function: PrimFunction) -> bool:
    """Whether a kernel writes scalars and reads no tensor.

    FuseTIR fails if one is fused with a kernel whose dimensions no tensor defines.
    """
    scalars = [parameter for parameter in function.params if is_scalar(parameter)]
    return bool(scalars) and len(function.params) == len(scalars) + 1


def _stage_pattern(stage: Stage) -> FusionPattern:
    """As TVM counts: what is broadcast does not keep a stage with equal indices from fusing."""
    accesses = {_access(load, stage) for load in loads(stage.value)}
    if not accesses or FusionPattern.INJECTIVE in accesses:
        return FusionPattern.INJECTIVE
    return (
        FusionPattern.ELEMENTWISE
        if FusionPattern.ELEMENTWISE in accesses
        else FusionPattern.BROADCAST
    )


def _access(load: Any, stage: Stage) -> FusionPattern:
    """How the indices of a load follow from the axes of a stage."""
    found = positions(load, stage)
    if found is None:
        return FusionPattern.INJECTIVE
    same = len(found) == len(stage.axes) and all(
        position == n or (position is None and axis.is_unit)
        for n, (position, axis) in enumerate(zip(found, stage.axes, strict=True))
    )
    return FusionPattern.ELEMENTWISE if same else FusionPattern.BROADCAST
