"""Allocation of a kernel's small buffers on the stack.

Input: a PrimFunc whose loops are lowered. Output: the same, its ``local`` buffers of few bytes
marked for the stack, from which LLVM promotes them to registers. TVM would allocate each of them by
its runtime, for each tile or row, and keep nothing in registers. Those that are too large for
registers are aligned, so that no vector in them crosses the end of a cache line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.machine import bits_of, model_for
from tvm_nnef.tvm_support.compat import Buffer, PrimFunction, lanes_of, with_mapped_body

_MARK = "disable_lower_builtin"
"""TVM's annotation for allocations that do not become calls of its runtime."""


def on_stack(function: PrimFunction) -> PrimFunction:
    """Return the function with its small local buffers on the stack."""
    machine = model_for(function)

    def marked(allocation: tirx.AllocBuffer) -> tirx.Stmt:
        buffer, size = allocation.buffer, sizes.elements(allocation.buffer)
        if str(buffer.scope()) != "local" or not sizes.is_known(size):
            return allocation
        # TVM may have made the elements vectors.
        bits = size * lanes_of(buffer) * bits_of(str(buffer.dtype))
        if bits > 8 * machine.stack_bytes:
            return allocation
        annotations = {**allocation.annotations, _MARK: tirx.IntImm("int32", 1)}
        if not machine.holds(bits):
            return _aligned(buffer, bits // 8, machine.vector_bits // 8, annotations)
        return tirx.AllocBuffer(buffer, annotations)

    return with_mapped_body(function, (tirx.AllocBuffer, marked))


def _aligned(
    buffer: Buffer, size: int, alignment: int, annotations: Mapping[str, Any]
) -> tirx.SeqStmt:
    """Return the allocation of a buffer of ``size`` bytes at a multiple of ``alignment`` bytes.

    TVM aligns arrays on the stack as their elements, and numbers to 16 bytes at most.
    """
    wide = tirx.decl_buffer(
        [-(-size // alignment)], f"int8x{alignment}", buffer.name, scope="local"
    )
    view = tirx.DeclBuffer(buffer, data=tirx.buffer.buffer_data(wide))
    return tirx.SeqStmt([tirx.AllocBuffer(wide, annotations), view])
