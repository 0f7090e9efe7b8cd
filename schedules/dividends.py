"""Quotients of shifted indices, out of sight of a simplification of TVM that gets them wrong.

A PrimFunc in, the same out. When TVM 0.27 flattens buffers it takes ``[i % 3, (i + 1) % 3]`` for
twice the same, and ``[f % 24 // 8, (f % 8 + 1) % 2]`` for digits of ``f + 1``. A dividend with an
offset is combined with no bits, which it does not look into, and which LLVM removes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, sym, tirx

from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimExpression, PrimFunction, dtype_of

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


def with_hidden_dividends(function: PrimFunction) -> PrimFunction:
    """The function with the dividends of its indices hidden if they are not 0 at the origin."""
    origin = _origin(function)

    def hidden(indices: Any) -> list[PrimExpression]:
        return [_hidden(index, origin) for index in indices]

    def load(found: Any) -> Any:
        indices = hidden(found.indices)
        return found.source[tuple(indices)] if _differ(indices, found.indices) else found

    def store(found: Any) -> Any:
        indices = hidden(found.indices)
        if not _differ(indices, found.indices):
            return found
        return tirx.BufferStore(found.buffer, found.value, indices)

    body = tvm_ffi.structural_map(function.body, (BUFFER_LOAD, load), order="post")
    body = tvm_ffi.structural_map(body, (tirx.BufferStore, store), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _origin(function: PrimFunction) -> dict[Any, PrimExpression]:
    """Zero for each variable of a loop or block."""
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, lambda f: found.append(f.loop_var)))
    tvm_ffi.structural_walk(
        function.body, (s_tir.SBlock, lambda b: found.extend(i.var for i in b.iter_vars))
    )
    return {var: tirx.const(0, dtype_of(var)) for var in found}


def _differ(indices: Sequence[Any], others: Sequence[Any]) -> bool:
    return not all(a.same_as(b) for a, b in zip(indices, others, strict=True))


def _hidden(index: PrimExpression, origin: Mapping[Any, PrimExpression]) -> PrimExpression:
    def replaced(division: Any) -> Any:
        if not _is_shifted(division.a, origin):
            return division
        nothing = tirx.const(0, dtype_of(division.a))
        return type(division)(division.a | nothing, division.b)

    return tvm_ffi.structural_map(index, (_DIVISIONS, replaced), order="post")


def _is_shifted(dividend: PrimExpression, origin: Mapping[Any, PrimExpression]) -> bool:
    if isinstance(dividend, (tirx.Var, tirx.IntImm)):
        return False
    first = sym.Analyzer().simplify(substituted(dividend, origin))
    return not (isinstance(first, tirx.IntImm) and first.value == 0)
