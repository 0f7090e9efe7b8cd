"""Small buffers of a kernel on its stack.

Input: a PrimFunc whose loops are lowered. Output: the same, its ``local`` buffers of few bytes
marked for the stack, from which LLVM lifts them into registers. TVM would allocate each of them by
its runtime, for each tile or row, and keep nothing in registers.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx

from tvm_nnef.schedules.machine import GENERIC, bits_of, cpu_model
from tvm_nnef.tvm_support.compat import PrimFunction, with_mapped_body

_MARK = "disable_lower_builtin"
"""TVM's annotation for what is not to become a call of its runtime."""


def on_stack(function: PrimFunction) -> PrimFunction:
    """The function with its small local buffers on the stack."""
    target = (function.attrs or {}).get("target")
    machine = GENERIC if target is None else cpu_model(target)

    def marked(allocation: Any) -> Any:
        buffer = allocation.buffer
        extents = [extent for extent in buffer.shape if isinstance(extent, tirx.IntImm)]
        if str(buffer.scope()) != "local" or len(extents) != len(buffer.shape):
            return allocation
        bits = bits_of(str(buffer.dtype))
        if math.prod(int(extent) for extent in extents) * bits > 8 * machine.stack_bytes:
            return allocation
        return kept_on_stack(allocation)

    return with_mapped_body(function, (tirx.AllocBuffer, marked))


def kept_on_stack(allocation: Any) -> Any:
    """An allocation of a buffer of few bytes, on the stack."""
    annotations = {**allocation.annotations, _MARK: tirx.IntImm("int32", 1)}
    return tirx.AllocBuffer(allocation.buffer, annotations)
