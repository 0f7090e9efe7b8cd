"""The limits of the elements of an integer tensor, if known.

Input: a Relax expression. Output: the min and the max that an element may have, by the dtype that
it was cast from, by constants, and by sums and differences of such.
"""

from __future__ import annotations

import numpy as np
from tvm.ir import Call

from tvm_nnef.schedules.relax.rewriting import Operands, operator_name
from tvm_nnef.tvm_support.compat import RelaxExpression, is_tensor, shape_and_dtype

Range = tuple[int, int]

_SAME = ("astype", "permute_dims", "reshape", "flatten", "squeeze", "expand_dims", "broadcast_to")
"""Operators whose results have the elements of their operand, if their dtype holds them."""

_SMALL = 16
"""Integers of more bits have no useful limits: those of half a pair (:mod:`pair_packing`)."""

_DEEPEST = 10
"""The depth of nested sums that is examined, as compile time doubles with each."""


def range_of(
    operands: Operands, expression: RelaxExpression, depth: int = _DEEPEST
) -> Range | None:
    """The limits of the elements of an integer tensor; None if they are unknown."""
    found = operands.definition(expression)
    dtype = shape_and_dtype(found)[1] if is_tensor(found) else ""
    if not dtype.startswith(("int", "uint")):
        return None
    array, name = operands.array(found), operator_name(found)
    limits: Range | None = None
    if array is not None:
        limits = (int(array.min()), int(array.max())) if array.size else None
    elif depth and isinstance(found, Call) and name in _SAME:
        limits = range_of(operands, found.args[0], depth - 1)
    elif depth and isinstance(found, Call) and name in ("add", "subtract"):
        first, second = (range_of(operands, each, depth - 1) for each in found.args)
        if first is not None and second is not None:
            low, high = second if name == "add" else (-second[1], -second[0])
            limits = first[0] + low, first[1] + high
    whole = np.iinfo(dtype)
    if limits is not None and whole.min <= limits[0] and limits[1] <= whole.max:
        return limits
    return (int(whole.min), int(whole.max)) if whole.bits <= _SMALL else None
