"""Results in a dtype that does not hold every number from which they are computed.

Input: a stage in its compute type, and the dtype of the result. Output: a number that TVM does not
take for a constant. TVM rejects the conversion of a constant to a dtype that does not hold it, as
of ``x >> 300`` of a uint8; a conversion at run time wraps around, or returns infinity.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from tvm import te, tirx
from tvm.ir import Call
from tvm_ffi import WalkResult

from tvm_nnef.exact.functions import NARROW_INTS
from tvm_nnef.exact.integers import unfolded
from tvm_nnef.tir.min_max import maximum, minimum
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

TeTensor: TypeAlias = te.Tensor

_NARROW = NARROW_INTS | {"float16"}


def holds_constants(stage: TeTensor, dtype: str) -> bool:
    """Whether a stage reads inputs, and all its integer constants fit into a dtype."""
    if dtype not in _NARROW:
        return True
    least, largest = (int(each(dtype).value) for each in (tirx.min_value, tirx.max_value))
    outside: list[tirx.IntImm] = []

    def constant(number: tirx.IntImm) -> WalkResult:
        if not least <= number.value <= largest and dtype != "float16":
            outside.append(number)
        return WalkResult.ADVANCE

    def called(call: Call) -> WalkResult:
        # The constants of an index are none of the result.
        is_load = getattr(call.op, "name", "") == "te.tensor_load"
        return WalkResult.SKIP if is_load else WalkResult.ADVANCE

    entries: list[traversal.Entry] = [(Call, called), (tirx.IntImm, constant)]
    waiting, seen, reads = [stage.op], {stage.op}, False
    while waiting:
        operation = waiting.pop()
        reads = reads or isinstance(operation, te.PlaceholderOp)
        for body in getattr(operation, "body", ()):
            traversal.walk(body, entries, order="pre")
        found = [tensor.op for tensor in operation.input_tensors if tensor.op not in seen]
        waiting += found
        seen.update(found)
    return reads and not outside


def not_constant(value: PrimExpression, dtype: str) -> PrimExpression:
    """Return the same number in a form that TVM does not take for a constant outside of a dtype."""
    if dtype != "float16":
        return unfolded(value)
    # From half a unit after the largest number on, the nearest one is infinite.
    largest, infinite = (tirx.const(each, dtype_of(value)) for each in (65504.0, math.inf))
    bound = tirx.const(65520.0, dtype_of(value))
    high = tirx.Select(value >= bound, infinite, minimum(value, largest))
    return tirx.Select(value <= -bound, -infinite, maximum(high, -largest))
