"""Splitting of launches with more blocks than every Vulkan device accepts: each block does several.

Input: a scheduled function, whose loops are bound to threads. Output: the same with fewer
blocks.
"""

from __future__ import annotations

from tvm import tirx

from tvm_nnef.schedules.gpu.launch import BLOCK
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, with_mapped_body

MOST_BLOCKS = 65535
"""The number of blocks along one dimension that every device accepts."""


def split_large_grids(function: PrimFunction) -> PrimFunction:
    """Return the function with at most ``MOST_BLOCKS`` blocks in a launch."""
    return with_mapped_body(function, (tirx.For, _split))


def _split(loop: tirx.For) -> tirx.Stmt:
    binding, extent = loop.thread_binding, loop.extent
    small = isinstance(extent, tirx.IntImm) and int(extent) <= MOST_BLOCKS
    if small or binding is None or str(binding.thread_tag) != BLOCK:
        return loop
    dtype = dtype_of(loop.loop_var)
    most, one = tirx.const(MOST_BLOCKS, dtype), tirx.const(1, dtype)

    def of_block(first: PrimExpression) -> tirx.Stmt:
        def again(turn: PrimExpression) -> tirx.Stmt:
            return substituted(loop.body, {loop.loop_var: first + turn * most})

        turns = tirx.floordiv(extent - one - first, most) + one
        return emit.loop(turns, again, name="turn", dtype=dtype)

    return emit.loop(tirx.min(extent, most), of_block, name="block", dtype=dtype, thread=BLOCK)
