"""Estimate of the work of a call, relative to others.

Input: a Relax expression. Output: the number of iterations of its loops: multiply-adds, or
elements. It is faster to compute than the number of operations (``profiling/flop_counts.py``), and
suffices to divide a time among operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tvm import s_tir
from tvm.ir import Call

from tvm_nnef.profiling.flop_counts import extent_value, size_estimates
from tvm_nnef.tvm_support import compat, traversal
from tvm_nnef.tvm_support.compat import Module, PrimFunction

NOTHING = 1e-9
"""The work of an expression that needs no kernel, such as the call of a function."""


class WorkEstimate:
    """The work of calls in a module; dynamic dimensions have their size estimates."""

    def __init__(self, mod: Module) -> None:
        self._functions = compat.prim_functions(mod)
        self._known: dict[str, float] = {}
        self._sizes = size_estimates(mod)

    def __call__(self, value: Any) -> float:
        """Return the work of a call of a kernel or an operator; almost nothing for anything
        else.
        """
        name = kernel_of(value)
        if name and name not in self._known:
            self._known[name] = self._of_kernel(self._functions.get(name))
        if name:
            return self._known[name]
        operator = str(getattr(getattr(value, "op", None), "name", "")).removeprefix("relax.")
        if not operator or not isinstance(value, Call) or not compat.is_tensor(value):
            return NOTHING
        return self._product(value.ty.shape) * self._product(_REDUCED.get(operator, _none)(value))

    def _of_kernel(self, function: PrimFunction | None) -> float:
        if function is None:
            return 1.0
        blocks: list[Any] = []
        traversal.walk(function.body, (s_tir.SBlock, blocks.append))
        domains = [[axis.dom.extent for axis in block.iter_vars] for block in blocks]
        shapes = [buffer.shape for buffer in compat.buffers_of(function)]
        # A block without axes has its own loops, over some tensor.
        most = max(map(self._product, shapes), default=1.0)
        return max(most, sum(self._product(domain) for domain in domains if domain))

    def _product(self, sizes: Iterable[Any]) -> float:
        return math.prod(float(extent_value(size, self._sizes) or 1) for size in sizes)


def kernel_of(value: Any) -> str:
    """Return the name of the PrimFunc that an expression calls; empty if it calls none."""
    name = str(getattr(getattr(value, "op", None), "name", ""))
    return str(value.args[0].name_hint) if name.startswith("relax.call_tir") else ""


def _filter(call: Call) -> list[Any]:
    """Return the dimensions of the filters of a convolution without that of the results."""
    weights = call.args[1]
    return list(weights.ty.shape)[1:] if compat.is_tensor(weights) else []


def _contracted(call: Call) -> list[Any]:
    data = call.args[0]
    return list(data.ty.shape)[-1:] if compat.is_tensor(data) else []


def _none(_: Call) -> list[Any]:
    return []


_REDUCED: Mapping[str, Callable[[Call], list[Any]]] = {
    **{f"nn.conv{rank}d": _filter for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d_transpose": _filter for rank in (1, 2, 3)},
    "matmul": _contracted,
}
"""The dimensions that operators sum over, for each element of their results."""
