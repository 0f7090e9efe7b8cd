"""Memory that tensors share, planned by the sizes of a call.

Input: a module that allocates its tensors. Output: the same, in which tensors of equal sizes whose
lives do not overlap are in the same storage. TVM plans a dimension by its largest value if it knows
one, as of ``min(1000000000, n)`` or ``n % 8``. So such dimensions are symbols while it plans.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.sym import Analyzer
from tvm_ffi import structural_equal

from tvm_nnef.tvm_support.compat import Module
from tvm_nnef.tvm_support.relax_functions import with_mapped

_UNKNOWN = (1 << 63) - 1
"""The largest value of what may have any."""


def with_planned_memory(mod: Module) -> Module:
    """The module whose tensors have storage."""
    hidden: list[tuple[Any, Any]] = []
    analyzer = Analyzer()

    def symbol(size: Any) -> Any:
        if isinstance(size, tirx.IntImm) or analyzer.const_int_bound(size).max_value == _UNKNOWN:
            return size
        for known, made in hidden:
            if structural_equal(known, size):
                return made
        made = tirx.Var(f"size_{len(hidden)}", size.ty.dtype)
        hidden.append((size, made))
        return made

    def hide(call: Any) -> Any:
        if str(getattr(call.op, "name", "")) != "relax.builtin.alloc_tensor":
            return call
        shape = [symbol(size) for size in call.args[0].values]
        return relax.Call(call.op, [relax.ShapeExpr(shape), *call.args[1:]], call.attrs)

    def show(variable: Any) -> Any:
        return next((size for size, made in hidden if made.same_as(variable)), variable)

    plan = relax.transform.StaticPlanBlockMemory()
    planned = plan(with_mapped(mod, (relax.Call, hide)))
    return with_mapped(planned, (tirx.Var, show)) if hidden else planned
