"""Vector loops in which lanes share a bfloat16, as loops of single elements.

Enters: a scheduled PrimFunc. Leaves: the same one, in which no vector repeats a bfloat16: TVM keeps
these as integers, and cannot make a vector of one that all lanes have.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.analysis.expressions import mentions
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimFunction, dtype_of, is_scalar

_TYPE = "bfloat16"


def without_repeated_bfloat16(function: PrimFunction) -> PrimFunction:
    """The function with such loops in order; itself where no parameter is of that type."""
    tensors = [parameter for parameter in function.params if not is_scalar(parameter)]
    if all(str(tensor.dtype) != _TYPE for tensor in tensors):
        return function

    def loop(found: Any) -> Any:
        if found.kind != tirx.ForKind.VECTORIZED or not _repeats(found.body, found.loop_var):
            return found
        return tirx.For(found.loop_var, found.min, found.extent, tirx.ForKind.SERIAL, found.body)

    body = tvm_ffi.structural_map(function.body, (tirx.For, loop), order="post")
    return function.with_body(body)


def _repeats(body: Any, lane: Any) -> bool:
    """Whether something of the type is the same in all lanes, as far as its variables tell."""
    found: list[Any] = []
    for kind in (BUFFER_LOAD, tirx.FloatImm, tirx.Cast):
        tvm_ffi.structural_walk(body, (kind, found.append), order="post")
    return any(dtype_of(each) == _TYPE and not mentions(each, [lane]) for each in found)
