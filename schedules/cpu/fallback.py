"""The fallback strategy: correct for all functions, fast for none.

The blocks run one after the other. In each, the loops over elements of the result run in parallel,
outside of those of a reduction; the last one is moved inside of the reduction if it is contiguous
in memory, so that LLVM vectorizes it. Functions of sequential loops stay as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import IRModule, s_tir, tirx
from tvm.s_tir.dlight.analysis import SBlockInfo, get_sblock_info

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support.compat import PrimFunction


def match(function: PrimFunction, machine: CpuModel) -> Plan:
    """Return the plan for any function."""
    body = function.body
    has_root = isinstance(body, s_tir.SBlockRealize) and body.block.name_hint == "root"
    if not has_root or any(nodes(block.body, tirx.For) for block in _innermost(function)):
        return FallbackPlan(0)
    return FallbackPlan(machine.parallel_work(machine.step_cycles))


@dataclass(frozen=True, slots=True)
class FallbackPlan(Plan):
    """A plan that runs blocks in parallel from ``parallel_work`` elements on; 0 for unchanged
    loops.
    """

    parallel_work: int

    cost: ClassVar[float] = float("inf")

    @property
    def strategy(self) -> str:
        """``cpu.fallback``, or ``ordered``."""
        return "cpu.fallback" if self.parallel_work else "ordered"

    def decisions(self) -> Mapping[str, int | str]:
        """Return the number of elements from which a block runs in parallel."""
        return {"parallel_work": self.parallel_work} if self.parallel_work else {}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with its blocks scheduled, if TVM can reorder their loops."""
        if not self.parallel_work:
            return function
        schedule = s_tir.Schedule(IRModule({"main": function}))
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            # A block that TVM cannot reorder stays in order. Dynamic dimensions that it cannot
            # divide end in its own error.
            with contextlib.suppress(s_tir.ScheduleError, tvm.error.InternalError):
                self._reorder(schedule, get_sblock_info(schedule, block))
        made: PrimFunction = schedule.mod["main"].without_attr("global_symbol")
        return made

    def _reorder(self, schedule: s_tir.Schedule, info: SBlockInfo) -> None:
        iters = [each for each in info.iters if not sizes.same(sizes.extent(each.dom), 1)]
        outer = [each for each in iters if each.kind == "S"]
        reduced = [each.loop_rv for each in iters if each.kind == "R"]
        if len(outer) + len(reduced) < len(iters):
            return
        work = sizes.product(sizes.extent(each.dom) for each in iters)
        block = schedule.get(info.block_rv)
        lanes = []
        if len(outer) > 1 and (not reduced or _is_contiguous(block, outer[-1].var)):
            lanes = [outer.pop().loop_rv]
        loops = [each.loop_rv for each in outer]
        schedule.reorder(*loops, *reduced, *lanes)
        if loops and (not sizes.is_known(work) or work >= self.parallel_work):
            schedule.parallel(schedule.fuse(*loops))
        if reduced and block.init is not None:
            # Outside of the reduction, as a dynamic one may have no steps.
            schedule.decompose_reduction(info.block_rv, reduced[0])


def _innermost(function: PrimFunction) -> list[s_tir.SBlock]:
    """Return the blocks without blocks inside."""
    blocks = nodes(function.body, s_tir.SBlock)
    return [block for block in blocks if not nodes(block.body, s_tir.SBlock)]


def _is_contiguous(block: s_tir.SBlock, var: tirx.Var) -> bool:
    """Whether all accesses are contiguous, or constant, along an iterator."""
    strides = [stride_of(load, var) for load in loads(block.body)]
    strides += [stride_of(store, var) for store in nodes(block.body, tirx.BufferStore)]
    return set(strides) <= {0, 1}
