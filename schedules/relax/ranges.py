"""The limits of the elements of an integer tensor, if known.

Input: a Relax expression. Output: the min and the max that an element may have, by the dtype that
it was cast from, by constants, and by sums and differences of such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax, tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis.kernel import read_kernel
from tvm_nnef.schedules.relax.rewriting import Operands, operator_name
from tvm_nnef.tvm_support.compat import PrimExpression, RelaxExpression, is_tensor, shape_and_dtype

Range = tuple[int, int]

_SAME = (
    "astype", "permute_dims", "reshape", "flatten", "squeeze", "expand_dims", "broadcast_to",
    "strided_slice", "concat", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d",
)  # fmt: skip
"""Operators whose results have the elements of their operand, if their dtype holds them."""

_SMALL = 16
"""Integers of more bits have no useful limits: those of half a pair (:mod:`word_packing`)."""

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
    elif isinstance(found, Call) and name == "call_tir":
        limits = _range_of_kernel(operands, found)
    elif depth and isinstance(found, Call) and name in _SAME:
        data = found.args[0]
        parts = data.fields if isinstance(data, relax.Tuple) else [data]
        limits = _union([range_of(operands, part, depth - 1) for part in parts])
    elif depth and isinstance(found, Call) and name in ("add", "subtract"):
        first, second = (range_of(operands, each, depth - 1) for each in found.args)
        if first is not None and second is not None:
            low, high = second if name == "add" else (-second[1], -second[0])
            limits = first[0] + low, first[1] + high
    whole = np.iinfo(dtype)
    if limits is not None and whole.min <= limits[0] and limits[1] <= whole.max:
        return limits
    return (int(whole.min), int(whole.max)) if whole.bits <= _SMALL else None


def _union(ranges: Sequence[Range | None]) -> Range | None:
    """The limits of elements of which each has one of some limits."""
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _range_of_kernel(operands: Operands, call: Call) -> Range | None:
    """The limits of what a kernel of one stage stores, if its expression shows them."""
    kernel = read_kernel(operands.builder.get()[call.args[0]])
    if kernel is None or len(kernel.stages) != 1 or kernel.stages[0].reduced:
        return None
    low, high = _limits(kernel.stages[0].value)
    return (int(low), int(high)) if math.isfinite(low) and math.isfinite(high) else None


def _limits(value: PrimExpression) -> tuple[float, float]:
    """The least and the largest that an expression may be."""
    match value:
        case tirx.FloatImm() | tirx.IntImm():
            return float(value.value), float(value.value)
        case tirx.Cast():
            return _limits(value.value)
        case tirx.Max() | tirx.Min():
            combine = max if isinstance(value, tirx.Max) else min
            first, second = _limits(value.a), _limits(value.b)
            return combine(first[0], second[0]), combine(first[1], second[1])
        case tirx.Select():
            first, second = _limits(value.true_value), _limits(value.false_value)
            return min(first[0], second[0]), max(first[1], second[1])
    return -math.inf, math.inf
