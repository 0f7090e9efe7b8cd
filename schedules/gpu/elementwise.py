"""The strategy for kernels without reduction: elementwise code, copies, relayouts, gathers.

A thread computes one element of the result, or a vector of neighbours that all accesses load as
neighbours. Neighbouring axes along which all accesses are contiguous are one axis, so that most
indices need no division.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap, stride_of
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, inlined, is_costly_to_repeat
from tvm_nnef.schedules.analysis.merging import merge_axes
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import LAUNCH_CYCLES, GpuPlan, memory_cycles
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, Buffer, PrimExpression, Statement

NAME = "gpu.elementwise"


@dataclass(frozen=True, slots=True, eq=False)
class ElementwisePlan(GpuPlan):
    """A launch for each of the ``kept`` stages, the others computed where they are read."""

    kept: tuple[Stage, ...]

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return NAME

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        moved = memory_cycles(self.kernel.stages, self.kernel, self.machine)
        return len(self.kept) * LAUNCH_CYCLES + moved

    def decisions(self) -> Mapping[str, int | str]:
        """Threads of a block and elements of a thread."""
        vectors = [self._copy(stage).lanes for stage in self.kept]
        return {"threads": self.machine.usual_threads, "vector": "/".join(map(str, vectors))}

    @property
    def allocated(self) -> Sequence[Buffer]:
        """The kept stages that are no results."""
        results = self.kernel.results
        return [stage.buffer for stage in self.kept if stage not in results]

    def statement(self) -> Statement:
        """The launches."""
        return emit.sequence([self._copy(stage).statement() for stage in self.kept])

    def _copy(self, stage: Stage) -> _Copy:
        inside = {s.buffer: s for s in self.kernel.stages if s not in self.kept}
        value = inlined(stage.value, inside, stage.axes)
        return _Copy.of(stage, value, self.kernel.index_type, self.machine)


def match(kernel: Kernel, machine: GpuModel) -> ElementwisePlan | None:
    """A plan for a kernel in which nothing is reduced; None for others."""
    if any(stage.reduced for stage in kernel.stages):
        return None
    results = kernel.results
    kept = tuple(s for s in kernel.stages if s in results or is_costly_to_repeat(s, kernel))
    return ElementwisePlan(kernel, machine, kept)


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """``target = value`` over axes, as many elements a thread as there are ``lanes``."""

    axes: tuple[Axis, ...]
    value: PrimExpression
    target: BUFFER_LOAD
    views: tuple[Statement, ...]
    lanes: int
    threads: int
    dtype: str

    @staticmethod
    def of(stage: Stage, value: PrimExpression, dtype: str, machine: GpuModel) -> _Copy:
        """The loops of a stage with a value."""
        unit = {axis.var: tirx.const(0, dtype) for axis in stage.axes if axis.is_unit}
        axes = [axis for axis in stage.axes if not axis.is_unit]
        target = stage.buffer[tuple(unit.get(axis.var, axis.var) for axis in stage.axes)]
        merged = merge_axes(axes, (substituted(value, unit), target), dtype)
        value, stored = merged.expressions
        assert isinstance(stored, BUFFER_LOAD)
        lanes = _lanes(merged.axes, value, stage.dtype, machine)
        return _Copy(merged.axes, value, stored, merged.views, lanes, machine.usual_threads, dtype)

    def statement(self) -> Statement:
        """The launch."""
        total = sizes.product(axis.extent for axis in self.axes)
        groups = sizes.quotient(total, self.lanes)
        copy = launch.elements(groups, self.threads, self._group, self.dtype)
        return emit.sequence([*self.views, copy])

    def _group(self, number: PrimExpression) -> Statement:
        """The elements of one thread."""

        def element(lane: PrimExpression) -> Statement:
            return self._element([*point[:-1], point[-1] * width + lane])

        extents = [axis.extent for axis in self.axes]
        if self.lanes == 1:
            return self._element(emit.decoded(number, extents, self.dtype))
        width = tirx.const(self.lanes, self.dtype)
        extents[-1] = sizes.quotient(extents[-1], self.lanes)
        point = emit.decoded(number, extents, self.dtype)
        kind = tirx.ForKind.VECTORIZED
        return emit.loop(self.lanes, element, name="lane", kind=kind, dtype=self.dtype)

    def _element(self, point: Sequence[PrimExpression]) -> Statement:
        here = {axis.var: index for axis, index in zip(self.axes, point, strict=True)}
        indices = [substituted(index, here) for index in self.target.indices]
        return tirx.BufferStore(self.target.source, substituted(self.value, here), indices)


def _lanes(axes: Sequence[Axis], value: PrimExpression, dtype: str, machine: GpuModel) -> int:
    """The neighbours that a thread loads and stores as vectors; 1 if some access is not even."""
    types = {dtype, *(str(load.source.dtype) for load in loads(value))}
    if not axes or len(types) > 1 or dtype not in _VECTOR_TYPES or not is_cheap(value):
        return 1
    lanes = machine.lanes(bits_of(dtype))
    inner = axes[-1]
    if not sizes.is_divisible(inner.extent, lanes):
        return 1
    even = all(stride_of(load, inner.var) in (0, 1) for load in loads(value))
    return lanes if even else 1


_VECTOR_TYPES = ("float32", "int32")
"""The dtypes that CUDA has vectors of, with arithmetic by elements."""
