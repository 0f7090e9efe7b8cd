"""Buffers of dynamic sizes of a while loop: allocated once before it, not in each of its steps.

Input: a PrimFunc whose loops are lowered. Output: the same, such allocations before the loop. TVM
frees them after the loop, where the variable that holds the last one is not defined.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import variables
from tvm_nnef.tvm_support.compat import PrimFunction


def with_hoisted_buffers(function: PrimFunction) -> PrimFunction:
    """The function without allocations of dynamic sizes in its while loops."""
    body = tvm_ffi.structural_map(function.body, (tirx.While, _hoisted), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _hoisted(loop: Any) -> Any:
    parallel: list[Any] = []
    tvm_ffi.structural_walk(
        loop.body, (tirx.For, lambda each: parallel.extend(_buffers_of_threads(each)))
    )
    defined: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.Bind, lambda each: defined.append(each.var)))
    tvm_ffi.structural_walk(loop.body, (tirx.For, lambda each: defined.append(each.loop_var)))
    hoisted: list[Any] = []

    def moved(allocation: Any) -> Any:
        own = any(allocation.buffer.same_as(buffer) for buffer in parallel)
        symbols = [var for extent in allocation.buffer.shape for var in variables(extent)]
        if own or not symbols or any(var in defined for var in symbols):
            return allocation
        hoisted.append(allocation)
        return tirx.Evaluate(0)

    body = tvm_ffi.structural_map(loop.body, (tirx.AllocBuffer, moved), order="post")
    return emit.sequence([*hoisted, tirx.While(loop.condition, body)]) if hoisted else loop


def _buffers_of_threads(loop: Any) -> list[Any]:
    """What is allocated in a parallel loop, anew for each thread."""
    found: list[Any] = []
    if loop.kind == tirx.ForKind.PARALLEL:
        tvm_ffi.structural_walk(
            loop.body, (tirx.AllocBuffer, lambda each: found.append(each.buffer))
        )
    return found
