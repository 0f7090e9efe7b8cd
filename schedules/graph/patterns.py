"""How kernels may fuse: the attribute ``op_pattern``, where TVM's own analysis is too careful.

TVM looks for equal indices, and finds none where a dimension of one element is read at 0. Changes
the attribute of kernels without reduction only; the others keep what TVM says.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_nnef.function_attributes import OP_PATTERN, FusionPattern
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, read_kernel
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimFunction,
    is_scalar,
    prim_functions,
    update_functions,
)


def annotate(mod: Module) -> Module:
    """The module with a pattern for each kernel that computes element by element."""
    found = {}
    for name, function in prim_functions(mod).items():
        if _reads_scalars_only(function):
            found[name] = function.with_attr(OP_PATTERN, int(FusionPattern.OPAQUE))
            continue
        if (
            int((function.attrs or {}).get(OP_PATTERN, FusionPattern.INJECTIVE))
            > FusionPattern.INJECTIVE
        ):
            continue
        kernel = read_kernel(function)
        if kernel is None or any(stage.reduced for stage in kernel.stages):
            continue
        found[name] = function.with_attr(OP_PATTERN, int(_pattern(kernel)))
    return update_functions(mod, found)


def _reads_scalars_only(function: PrimFunction) -> bool:
    """Whether a kernel writes scalars and reads no tensor.

    FuseTIR fails if one is fused with a kernel whose dimensions no tensor defines.
    """
    scalars = [parameter for parameter in function.params if is_scalar(parameter)]
    return bool(scalars) and len(function.params) == len(scalars) + 1


def _pattern(kernel: Kernel) -> FusionPattern:
    return max(_stage_pattern(stage) for stage in kernel.stages)


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
    places = []
    for index, extent in zip(load.indices, load.source.shape, strict=True):
        unit = isinstance(index, tirx.IntImm) and index.value == 0
        unit = unit and sizes.same(sizes.extent(extent), 1)
        place = next((n for n, a in enumerate(stage.axes) if index.same_as(a.var)), None)
        if place is None and not unit:
            return FusionPattern.INJECTIVE
        places.append(place)
    known = [place for place in places if place is not None]
    if known != sorted(set(known)):
        return FusionPattern.INJECTIVE
    same = len(places) == len(stage.axes) and all(
        place == n or (place is None and stage.axes[n].is_unit) for n, place in enumerate(places)
    )
    return FusionPattern.ELEMENTWISE if same else FusionPattern.BROADCAST
