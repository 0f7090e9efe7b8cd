"""Hoisting of buffers of dynamic sizes out of while loops.

Input: a PrimFunc whose loops are lowered. Output: the same, with such allocations before the loop,
once for all steps. TVM frees them after the loop, where the variable with the last one is not
defined.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx
from tvm_ffi import WalkResult

from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import nodes, variables
from tvm_nnef.tvm_support.compat import PrimFunction, with_mapped_body


def with_hoisted_buffers(function: PrimFunction) -> PrimFunction:
    """Return the function without allocations of dynamic sizes in its while loops."""
    return with_mapped_body(function, (tirx.While, _hoisted))


def _hoisted(loop: tirx.While) -> tirx.Stmt:
    defined = {bind.var for bind in nodes(loop.body, tirx.Bind)}
    defined |= {inner.loop_var for inner in nodes(loop.body, tirx.For)}
    hoisted: list[tirx.AllocBuffer] = []

    def look(statement: tirx.AllocBuffer | tirx.For) -> WalkResult:
        if isinstance(statement, tirx.For):
            # What is allocated in a parallel loop belongs to one thread.
            is_parallel = statement.kind == tirx.ForKind.PARALLEL
            return WalkResult.SKIP if is_parallel else WalkResult.ADVANCE
        symbols = {var for size in statement.buffer.shape for var in variables(size)}
        if symbols and not symbols & defined:
            hoisted.append(statement)
        return WalkResult.ADVANCE

    def without(allocation: tirx.AllocBuffer) -> tirx.Stmt:
        gone = any(allocation.same_as(each) for each in hoisted)
        return tirx.Evaluate(0) if gone else allocation

    tvm_ffi.structural_walk(loop.body, ((tirx.AllocBuffer, tirx.For), look), order="pre")
    body = tvm_ffi.structural_map(loop.body, (tirx.AllocBuffer, without))
    return emit.sequence([*hoisted, tirx.While(loop.condition, body)]) if hoisted else loop
