"""Scalar loops instead of vector loops in which lanes share a bfloat16.

Input: a scheduled PrimFunc. Output: the same without vectors that broadcast a bfloat16: TVM stores
these as integers, and cannot broadcast one to a vector.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.tir.expressions import mentions, nodes
from tvm_nnef.tvm_support.compat import PrimFunction, buffers_of, dtype_of, with_mapped_body

_TYPE = "bfloat16"


def without_repeated_bfloat16(function: PrimFunction) -> PrimFunction:
    """Return the function with such loops serial; itself if no parameter has that dtype."""
    if all(str(tensor.dtype) != _TYPE for tensor in buffers_of(function)):
        return function

    def loop(found: tirx.For) -> tirx.For:
        if found.kind != tirx.ForKind.VECTORIZED or not _repeats(found):
            return found
        return tirx.For(found.loop_var, found.min, found.extent, tirx.ForKind.SERIAL, found.body)

    return with_mapped_body(function, (tirx.For, loop))


def _repeats(loop: tirx.For) -> bool:
    """Whether a bfloat16 may be the same in all lanes."""
    values = nodes(loop.body, TensorLoad, tirx.FloatImm, tirx.Cast)
    return any(dtype_of(each) == _TYPE and not mentions(each, [loop.loop_var]) for each in values)
