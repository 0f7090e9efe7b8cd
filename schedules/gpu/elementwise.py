"""The strategy for kernels without reduction: elementwise code, copies, relayouts, gathers.

A thread computes one element of the result, or a vector of adjacent elements, if all accesses load
adjacent elements or a single one. Adjacent axes along which all accesses are contiguous are merged,
so that most indices need no division.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap, stride_of
from tvm_nnef.schedules.analysis.kernel import Kernel, inlined, is_costly_to_repeat
from tvm_nnef.schedules.analysis.merging import Merged, merge_axes
from tvm_nnef.schedules.gpu import launch, vectors
from tvm_nnef.schedules.gpu.plan import GpuPlan, memory_cycles
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import (
    LONGEST_EXPRESSION,
    loads,
    nodes,
    size,
    substituted,
)
from tvm_nnef.tvm_support.compat import PrimExpression, is_conditional


@dataclass(frozen=True, slots=True, eq=False)
class ElementwisePlan(GpuPlan):
    """A launch for the result, with other stages inlined; adjacent axes are merged.

    ``merged`` has the expressions of the value and of the stored element.
    """

    merged: Merged
    lanes: int

    strategy: ClassVar[str] = "gpu.elementwise"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        moved = memory_cycles(self.kernel.stages, self.kernel, self.machine)
        return self.machine.launch_cycles + moved

    def decisions(self) -> Mapping[str, int | str]:
        """Threads of a block and elements of a thread."""
        return {"threads": self.machine.usual_threads, "vector": self.lanes}

    def statement(self) -> tirx.Stmt:
        """Return the launch."""
        axes, dtype, lanes = self.merged.axes, self.kernel.index_type, self.lanes
        value, stored = self.merged.expressions
        assert isinstance(stored, TensorLoad)

        def element(point: launch.Point) -> tirx.Stmt:
            indices = [substituted(index, point) for index in stored.indices]
            return tirx.BufferStore(stored.source, substituted(value, point), indices)

        def vector(point: launch.Point) -> tirx.Stmt:
            first = point[axes[-1].var] * tirx.const(lanes, dtype)

            def one(index: PrimExpression) -> tirx.Stmt:
                return element({**point, axes[-1].var: index})

            if not self.machine.has_functions:
                return emit.vector(first, lanes, one, dtype)
            whole = vectors.elementwise(stored, value, axes, lanes, {**point, axes[-1].var: first})
            return vectors.in_vectors(axes[-1].extent, lanes, first, whole, one)

        threads, views = self.machine.usual_threads, self.merged.views
        if lanes == 1:
            return emit.sequence([*views, launch.elements(axes, threads, element, dtype)])
        parts = replace(axes[-1], extent=sizes.quotient_above(axes[-1].extent, lanes))
        copy = launch.elements((*axes[:-1], parts), threads, vector, dtype)
        return emit.sequence([*views, copy])


def match(kernel: Kernel, machine: GpuModel) -> ElementwisePlan | None:
    """Return a plan for a kernel with one result and no reduction; None for others."""
    if any(stage.reduced or is_costly_to_repeat(stage, kernel) for stage in kernel.stages):
        return None
    if len(kernel.results) != 1 or kernel.stages[-1] is not kernel.results[0]:
        return None
    *others, result = kernel.stages
    dtype = kernel.index_type
    value = inlined(result.value, {stage.buffer: stage for stage in others}, result.axes)
    unit = {axis.var: tirx.const(0, dtype) for axis in result.axes if axis.is_unit}
    axes = [axis for axis in result.axes if not axis.is_unit]
    stored = result.buffer[tuple(unit.get(axis.var, axis.var) for axis in result.axes)]
    merged = merge_axes(axes, (substituted(value, unit), stored), dtype)
    return ElementwisePlan(kernel, machine, merged, _lanes(merged, machine))


def _lanes(merged: Merged, machine: GpuModel) -> int:
    """Return the number of adjacent elements that a thread loads and stores as vectors; 1 if
    unaligned.
    """
    value, stored = merged.expressions
    assert isinstance(stored, TensorLoad)
    accesses = [*loads(value), stored]
    dtypes = {str(load.source.dtype) for load in accesses}
    if not merged.axes or any(map(is_conditional, nodes(value, Call))):
        return 1
    inner, lanes = merged.axes[-1], machine.lanes(max(map(bits_of, dtypes)))
    if not all(stride_of(load, inner.var) in (0, 1) for load in accesses):
        return 1
    if machine.has_functions:
        fits = size(value) * lanes <= LONGEST_EXPRESSION // 2
        aligned = vectors.is_vector(stored, inner.var, lanes)
        return lanes if fits and aligned else 1
    arithmetic = len(dtypes) == 1 and dtypes <= _VECTOR_TYPES and is_cheap(value)
    return lanes if arithmetic and sizes.is_divisible(inner.extent, lanes) else 1


_VECTOR_TYPES = {"float32", "int32"}
"""The dtypes of vectors in Vulkan, whose arithmetic is by elements."""
