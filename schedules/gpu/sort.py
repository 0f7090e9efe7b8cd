"""The strategy for sorting: the rank of an element is how many come before it.

Counting is quadratic in the length of a row, and a GPU does it for all elements at once. The index
of an element is stored at its rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx

from tvm_nnef.function_attributes import SORT, read_sort
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import read_kernel
from tvm_nnef.schedules.analysis.reduction import read_reduction
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.thread_reduction import ThreadReductionPlan, best
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    buffers_of,
    dtype_of,
    with_opaque_body,
)


@dataclass(frozen=True, slots=True, eq=False)
class SortPlan(ThreadReductionPlan):
    """A reduction for each element, whose result says where its index is stored."""

    strategy: ClassVar[str] = "gpu.sort"

    def stored(self, value: PrimExpression, point: launch.Point) -> tirx.Stmt:
        """What stores the index of the element at a point, given its rank."""
        result = self.kernel.inputs[-1]
        *row, index = (substituted(each, point) for each in self.reduction.indices)
        rank = tirx.Cast(dtype_of(index), value)
        store = tirx.BufferStore(result, tirx.Cast(result.dtype, index), [*row, rank])
        return launch.guarded([(rank, sizes.extent(result.shape[-1]))], store)

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with its loops bound to blocks and threads."""
        written = [self.kernel.inputs[-1]]
        return with_opaque_body(function, written, self.allocated, self.statement())


def match(function: PrimFunction, machine: GpuModel) -> SortPlan | None:
    """The plan for a function that is annotated as sorting; None for others."""
    if read_sort(function.attrs) is None:
        return None
    kernel = read_kernel(function.without_attr(SORT))
    if kernel is None:
        return None
    ranks = next(stage for stage in kernel.stages if stage.reduced)
    data, result = buffers_of(function)
    counting = replace(kernel, parameters=(data, result, ranks.buffer), stages=(ranks,))
    reduction = read_reduction(counting, padded=True)
    return None if reduction is None else best(SortPlan, counting, machine, reduction)
