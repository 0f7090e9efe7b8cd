"""What schedules any function at all, for kernels that are not made of stages.

Of blocks each element of the result gets a thread, by primitives of TVM. Loops that have an order
run on one thread.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import IRModule, s_tir, tirx

from tvm_nnef.function_attributes import EXACT_BUFFERS
from tvm_nnef.schedules.empty_reductions import with_first_values
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import Buffer, PrimFunction, Statement, with_own_symbols

NAME = "gpu.fallback"
SEQUENTIAL = "gpu.sequential"


def apply(function: PrimFunction, machine: GpuModel) -> tuple[PrimFunction, str]:
    """The function with bound loops, and ``NAME`` or ``SEQUENTIAL``."""
    function = with_first_values(function)
    try:
        made, name = _bound(function, machine.usual_threads), NAME
    except (s_tir.ScheduleError, tvm.error.InternalError, ValueError):
        made, name = _on_one_thread(function), SEQUENTIAL
    return made.with_attr(EXACT_BUFFERS, 1), name


def _bound(function: PrimFunction, threads: int) -> PrimFunction:
    """The function with the loops over elements of each block bound; ValueError for other loops."""
    sch = s_tir.Schedule(IRModule({"main": with_own_symbols(function)}))
    for handle in sch.get_child_blocks(sch.get_sblock("root")):
        block, loops = sch.get(handle), sch.get_loops(handle)
        inner: list[Statement] = []
        tvm_ffi.structural_walk(block.body, (tirx.For, inner.append))
        if inner or len(loops) != len(block.iter_vars):
            raise ValueError("the loops of a block have an order")
        pairs = list(zip(loops, block.iter_vars, strict=True))
        spatial = [loop for loop, each in pairs if each.iter_type == tirx.IterVar.DataPar]
        reduced = [loop for loop in loops if loop not in spatial]
        spatial = spatial or [sch.add_unit_loop(handle)]
        sch.reorder(*spatial, *reduced)
        outer, own = sch.split(sch.fuse(*spatial), [None, threads])
        sch.bind(outer, launch.BLOCK)
        sch.bind(own, launch.THREAD)
        if reduced and block.init is not None:
            sch.decompose_reduction(handle, reduced[0])
    made: PrimFunction = sch.mod["main"].without_attr("global_symbol")
    return made


def _on_one_thread(function: PrimFunction) -> PrimFunction:
    """The function as the work of one thread; its buffers lie in the memory of the GPU."""
    lifted: list[Buffer] = []

    def without_buffers(block: s_tir.SBlock) -> s_tir.SBlock:
        lifted.extend(block.alloc_buffers)
        heads = (block.iter_vars, block.reads, block.writes, block.name_hint)
        return s_tir.SBlock(*heads, block.body, block.init, annotations=block.annotations)

    def without_allocation(allocation: tirx.AllocBuffer) -> Statement:
        lifted.append(allocation.buffer)
        return tirx.Evaluate(tirx.const(0, "int32"))

    rewrites = [(s_tir.SBlock, without_buffers), (tirx.AllocBuffer, without_allocation)]
    body = tvm_ffi.structural_map(function.body, rewrites, order="post")
    launched = launch.blocks(1, lambda _: launch.threads(1, lambda _: body, "int32"), "int32")
    root = s_tir.SBlock([], [], [], "root", launched, alloc_buffers=lifted)
    return function.with_body(s_tir.SBlockRealize([], True, root))
