"""Memory whose size is known only at run time, in a few sizes.

Input: a module whose memory is planned. Output: the same, in which each allocation of dynamic size
is rounded up to a power of two. The virtual machine keeps what it let go of, and gives it to the
next request of exactly the same size: memory of one call serves another one of similar sizes, and
what is kept for all sizes together is at most twice that for the largest. A CPU has pages only for
what is written, so that rounding costs it nothing.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from tvm_nnef.tvm_support.compat import Module
from tvm_nnef.tvm_support.relax_functions import with_mapped_calls

_ALLOCATION = "relax.memory.alloc_storage"

_LEAST = 4096
"""The bytes of the smallest allocation: TVM gives whole pages."""


def with_size_classes(mod: Module) -> Module:
    """The module whose allocations of dynamic size are rounded up to powers of two."""
    return with_mapped_calls(mod, _rounded)


def _rounded(call: Any) -> Any:
    if str(getattr(call.op, "name", "")) != _ALLOCATION:
        return call
    (size,) = call.args[0].values
    if isinstance(size, tirx.IntImm):
        return call
    last = tirx.max(size, tirx.const(_LEAST, "int64")) - 1
    rounded = tirx.const(1, "int64") << (tirx.const(64, "int64") - tirx.clz(last).astype("int64"))
    return relax.Call(call.op, [relax.ShapeExpr([rounded]), *call.args[1:]], call.attrs)
