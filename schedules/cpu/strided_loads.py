"""Loads of every second or third element as loads of all of them, sorted in registers.

Enters: a PrimFunc whose loops are lowered, with vectors. Leaves: the same without loads whose lanes
lie a small stride apart, which LLVM would take one lane after the other. Nothing is read that does
not lie between the first lane and the last.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.tvm_compat import BUFFER_LOAD, PrimFunction

WIDEST = 4
"""The widest stride: for each load of lanes so far apart there are as many of all lanes."""

_FEWEST = 4
"""Lanes below which the single loads are as fast."""


def sorted_in_registers(function: PrimFunction) -> PrimFunction:
    """The function with loads of neighbours only, as far as strides are small."""
    return function.with_body(
        tvm_ffi.structural_map(function.body, (BUFFER_LOAD, _sorted), order="post")
    )


def _sorted(load: Any) -> Any:
    if len(load.indices) != 1 or not isinstance(load.indices[0], tirx.Ramp):
        return load
    ramp = load.indices[0]
    if not isinstance(ramp.stride, tirx.IntImm) or not isinstance(ramp.lanes, (int, tirx.IntImm)):
        return load
    stride, lanes = int(ramp.stride), int(ramp.lanes)
    if str(load.source.dtype) == "bool" or lanes < _FEWEST:
        return load
    if stride == -1:
        vectors = [_vector(load, ramp, 1 - lanes, lanes)]
        return tirx.Shuffle(vectors, list(reversed(range(lanes))))
    if not 1 < stride <= WIDEST:
        return load
    # The last vector ends with the last lane, so that it reads nothing behind.
    last = (stride - 1) * (lanes - 1)
    starts = [*(lanes * number for number in range(stride - 1)), last]
    whole = lanes * (stride - 1)
    places = [
        position if position < whole else whole + position - last
        for position in range(0, stride * lanes, stride)
    ]
    return tirx.Shuffle([_vector(load, ramp, start, lanes) for start in starts], places)


def _vector(load: Any, ramp: Any, start: int, lanes: int) -> Any:
    dtype = str(ramp.base.ty.dtype)
    first = ramp.base + tirx.const(start, dtype)
    return load.source[(tirx.Ramp(first, tirx.const(1, dtype), lanes),)]
