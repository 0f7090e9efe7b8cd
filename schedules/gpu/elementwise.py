"""The strategy for kernels without reduction: elementwise code, copies, relayouts, gathers.

A thread computes one element of the result, or a vector of neighbours that all accesses load as
neighbours. Neighbouring axes along which all accesses are contiguous are one axis, so that most
indices need no division.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap, stride_of
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, inlined, is_costly_to_repeat
from tvm_nnef.schedules.analysis.merging import Merged, merge_axes
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import GpuPlan, memory_cycles
from tvm_nnef.schedules.machine import GpuModel, bits_of


@dataclass(frozen=True, slots=True, eq=False)
class ElementwisePlan(GpuPlan):
    """A launch for each of the ``kept`` stages, the others computed where they are read."""

    kept: tuple[Stage, ...]

    strategy: ClassVar[str] = "gpu.elementwise"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        moved = memory_cycles(self.kernel.stages, self.kernel, self.machine)
        return len(self.kept) * self.machine.launch_cycles + moved

    def decisions(self) -> Mapping[str, int | str]:
        """Threads of a block and elements of a thread."""
        vectors = [str(_lanes(self._merged(stage), self.machine)) for stage in self.kept]
        return {"threads": self.machine.usual_threads, "vector": "/".join(vectors)}

    @property
    def allocated(self) -> Sequence[tirx.Buffer]:
        """The kept stages that are no results."""
        return [stage.buffer for stage in self.kept if stage not in self.kernel.results]

    def statement(self) -> tirx.Stmt:
        """The launches."""
        return emit.sequence([self._launch(self._merged(stage)) for stage in self.kept])

    def _merged(self, stage: Stage) -> Merged:
        """The axes, the value and the stored element of a stage, neighbouring axes merged."""
        dtype = self.kernel.index_type
        inside = {s.buffer: s for s in self.kernel.stages if s not in self.kept}
        value = inlined(stage.value, inside, stage.axes)
        unit = {axis.var: tirx.const(0, dtype) for axis in stage.axes if axis.is_unit}
        axes = [axis for axis in stage.axes if not axis.is_unit]
        stored = stage.buffer[tuple(unit.get(axis.var, axis.var) for axis in stage.axes)]
        return merge_axes(axes, (substituted(value, unit), stored), dtype)

    def _launch(self, merged: Merged) -> tirx.Stmt:
        axes, dtype = merged.axes, self.kernel.index_type
        value, stored = merged.expressions
        assert isinstance(stored, TensorLoad)

        def element(point: launch.Point) -> tirx.Stmt:
            indices = [substituted(index, point) for index in stored.indices]
            return tirx.BufferStore(stored.source, substituted(value, point), indices)

        def vector(point: launch.Point) -> tirx.Stmt:
            first = point[axes[-1].var] * tirx.const(lanes, dtype)
            return emit.vector(
                first, lanes, lambda index: element({**point, axes[-1].var: index}), dtype
            )

        lanes, threads = _lanes(merged, self.machine), self.machine.usual_threads
        if lanes == 1:
            return emit.sequence([*merged.views, launch.elements(axes, threads, element, dtype)])
        vectors = replace(axes[-1], extent=sizes.quotient(axes[-1].extent, lanes))
        copy = launch.elements((*axes[:-1], vectors), threads, vector, dtype)
        return emit.sequence([*merged.views, copy])


def match(kernel: Kernel, machine: GpuModel) -> ElementwisePlan | None:
    """A plan for a kernel in which nothing is reduced; None for others."""
    if any(stage.reduced for stage in kernel.stages):
        return None
    results = kernel.results
    kept = tuple(s for s in kernel.stages if s in results or is_costly_to_repeat(s, kernel))
    return ElementwisePlan(kernel, machine, kept)


def _lanes(merged: Merged, machine: GpuModel) -> int:
    """The neighbours that a thread loads and stores as vectors; 1 if an access is not even."""
    value, stored = merged.expressions
    accesses = [*loads(value), *loads(stored)]
    (dtype, *others) = {str(load.source.dtype) for load in accesses}
    if not merged.axes or others or dtype not in _VECTOR_TYPES or not is_cheap(value):
        return 1
    inner, lanes = merged.axes[-1], machine.lanes(bits_of(dtype))
    even = all(stride_of(load, inner.var) in (0, 1) for load in accesses)
    return lanes if even and sizes.is_divisible(inner.extent, lanes) else 1


_VECTOR_TYPES = ("float32", "int32")
"""The dtypes that CUDA has vectors of, with arithmetic by elements."""
