"""What launches any function at all: one thread that runs its loops in their order.

For kernels that are not made of stages: ordered loops, sorting, scans. Correct for everything;
buffers inside of the function lie in the memory of the GPU.
"""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from tvm_nnef.schedules.emit import Statement
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.tvm_support.compat import Buffer, PrimFunction

NAME = "gpu.sequential"

_DTYPE = "int32"


def apply(function: PrimFunction) -> PrimFunction:
    """The function as the work of one thread."""
    lifted: list[Buffer] = []

    def without_buffers(block: Statement) -> Statement:
        lifted.extend(block.alloc_buffers)
        return s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            block.body,
            block.init,
            match_buffers=block.match_buffers,
            annotations=block.annotations,
        )

    def without_allocation(allocation: Statement) -> Statement:
        lifted.append(allocation.buffer)
        return tirx.Evaluate(tirx.const(0, _DTYPE))

    body = tvm_ffi.structural_map(
        function.body,
        [(s_tir.SBlock, without_buffers), (tirx.AllocBuffer, without_allocation)],
        order="post",
    )
    launched = launch.blocks(1, lambda _: launch.threads(1, lambda _: body, _DTYPE), _DTYPE)
    root = s_tir.SBlock([], [], [], "root", launched, alloc_buffers=lifted)
    return function.with_body(s_tir.SBlockRealize([], True, root))
