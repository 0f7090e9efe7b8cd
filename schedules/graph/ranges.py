"""The limits of the elements of an integer tensor, as far as they are known.

Input: a Relax expression. Output: the min and the max that an element may have, by the dtype that
it was cast from, by constants, and by sums and differences of such.
"""

from __future__ import annotations

import numpy as np

from tvm_nnef.schedules.graph.rewriting import Operands, operator_name
from tvm_nnef.tvm_support.compat import CALL, RelaxExpression, is_tensor, shape_and_dtype

Range = tuple[int, int]

_SAME = ("permute_dims", "reshape", "flatten", "squeeze", "expand_dims", "broadcast_to")
"""Operators whose results have the elements of their operand."""

_SMALL = 16
"""Integers of more bits have no useful limits."""


_DEEPEST = 10
"""The depth of nested sums that is examined: both operands of a sum may be sums."""


def range_of(
    operands: Operands, expression: RelaxExpression, depth: int = _DEEPEST
) -> Range | None:
    """The limits of the elements of an integer tensor; None if they are unknown."""
    found = operands.definition(expression)
    array = operands.array(found)
    if array is not None:
        whole = array.dtype.kind in "iu" and array.size
        return (int(array.min()), int(array.max())) if whole else None
    if not depth or not isinstance(found, CALL):
        return _of_dtype(found)
    name = operator_name(found)
    if name in _SAME or (name == "astype" and _holds(found, found.args[0])):
        return range_of(operands, found.args[0], depth - 1)
    if name in ("add", "subtract"):
        first, second = (range_of(operands, each, depth - 1) for each in found.args)
        if first is None or second is None:
            return None
        low, high = second if name == "add" else (-second[1], -second[0])
        return _within(found, (first[0] + low, first[1] + high))
    return _of_dtype(found)


def _holds(wide: RelaxExpression, narrow: RelaxExpression) -> bool:
    """Whether integers of one tensor are integers of the dtype of the other, too."""
    return np.can_cast(shape_and_dtype(narrow)[1], shape_and_dtype(wide)[1], "safe")


def _of_dtype(expression: RelaxExpression) -> Range | None:
    if not is_tensor(expression):
        return None
    dtype = np.dtype(shape_and_dtype(expression)[1])
    if dtype.kind not in "iu" or dtype.itemsize * 8 > _SMALL:
        return None
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _within(expression: RelaxExpression, found: Range) -> Range | None:
    """The limits, if they fit the dtype of the expression."""
    limits = np.iinfo(shape_and_dtype(expression)[1])
    return found if int(limits.min) <= found[0] and found[1] <= int(limits.max) else None
