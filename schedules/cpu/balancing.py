"""Parallel loops whose parts go to the thread that is free.

Enters: a PrimFunc whose loops are lowered. Leaves: the same, its parallel loops cut into chunks
that threads take one by one. TVM gives each thread an equal part, and the loop ends with the
slowest: where another process holds a core, or cores are of two speeds, the others wait. Here a
thread runs the chunks of its own part first (it has them in its cache), then those of others that
nobody has begun.

Which thread runs a chunk changes no result. A chunk is taken by an atomic exchange of a flag, some
nanoseconds; the exchange is the one thing that TVM has no expression for on CPUs, so it is in
LLVM's language.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import StringImm

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.stack import kept_on_stack
from tvm_nnef.tvm_support.compat import PrimFunction, dtype_of

CHUNKS = 128
"""The most chunks of a loop: many for each thread of a common machine, one on a large one."""

_LAUNCH = "pragma_parallel_launch_point"
"""TVM's mark of a statement that all threads run; a parallel loop in it is cut into parts."""

_TAKE = "tvm_nnef_take"
# The load in front saves the exchange, which would take the flag's cache line from its owner.
_LLVM = f"""
define i32 @{_TAKE}(ptr %flag) alwaysinline {{
  %seen = load atomic i32, ptr %flag monotonic, align 4
  %free = icmp eq i32 %seen, 0
  br i1 %free, label %try, label %end
try:
  %old = atomicrmw xchg ptr %flag, i32 1 monotonic, align 4
  br label %end
end:
  %taken = phi i32 [ %seen, %0 ], [ %old, %try ]
  ret i32 %taken
}}
"""


def balanced(function: PrimFunction) -> PrimFunction:
    """The function with its parallel loops shared out as threads come free."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _balanced), order="post")
    if body.same_as(function.body):
        return function
    imported = tirx.AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", StringImm(_LLVM), body)
    return function.with_body(imported)


def _balanced(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    dtype = dtype_of(loop.loop_var)
    extent = sizes.extent(loop.extent)
    chunk = sizes.quotient_above(extent, CHUNKS)
    count = -(-extent // chunk) if sizes.is_known(extent) else CHUNKS
    flags = tirx.decl_buffer((count,), "int32", "taken", scope="local")
    first = tirx.decl_buffer((1,), dtype, "first", scope="local")
    zero, whole = tirx.const(0, dtype), tirx.const(count, dtype)

    def cleared(index: Any) -> Any:
        return tirx.BufferStore(flags, tirx.const(0, "int32"), [index])

    def own(index: Any) -> Any:
        return tirx.BufferStore(first, tirx.min(first[(zero,)], index), [zero])

    def run(number: Any) -> Any:
        if sizes.is_known(chunk) and chunk == 1:
            return emit.sequence([tirx.Bind(loop.loop_var, number), loop.body])
        start = number * sizes.number(chunk, dtype)
        end = tirx.min(sizes.number(extent, dtype), start + sizes.number(chunk, dtype))
        return tirx.For(loop.loop_var, start, end - start, tirx.ForKind.SERIAL, loop.body)

    def visit(step: Any) -> Any:
        number = tirx.Var("chunk", dtype)
        flag = tirx.address_of(flags[(number,)])
        free = tirx.call_extern("int32", _TAKE, flag).equal(tirx.const(0, "int32"))
        return emit.sequence(
            [
                tirx.Bind(number, tirx.floormod(first[(zero,)] + step, whole)),
                tirx.IfThenElse(free, run(number), None),
            ]
        )

    # The parallel loop does nothing but tell each thread where its own part begins.
    share = tirx.For(index := tirx.Var("own", dtype), zero, whole, loop.kind, own(index))
    part = [
        kept_on_stack(tirx.AllocBuffer(first)),
        tirx.BufferStore(first, whole, [zero]),
        share,
        emit.loop(count, visit, name="step", dtype=dtype),
    ]
    launched = tirx.AttrStmt(
        tirx.const(0, "int32"), _LAUNCH, tirx.const(1, "int32"), emit.sequence(part)
    )
    clear = emit.loop(count, cleared, name="flag", dtype=dtype)
    return emit.sequence([kept_on_stack(tirx.AllocBuffer(flags)), clear, launched])
