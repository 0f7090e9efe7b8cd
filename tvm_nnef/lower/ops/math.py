"""Mappings of the module ``math``: element-wise operators and reductions.

Not here, as Relax differs in value: integer division, remainders and powers (Relax traps on zero),
``round`` (halves to even), ``sign``, ``tanh`` and ``atanh`` (nothing is left of a small number),
minimum and maximum of reals unless one is a constant (Relax loses NaN), ``eq`` and ``ne`` of reals
and ``not`` (once fused, TVM takes x == x for true and ``not x < y`` for y <= x, NaN or not),
``min_reduce`` and ``max_reduce`` (as minimum and maximum; and Relax starts at the least finite
number, not at infinity). Their own formulas are lowered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from tvm import relax

from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.long_sums import LONGEST
from tvm_nnef.lower.ops.common import aligned, computes_natively, forward, scalar
from tvm_nnef.symbolic.dimensions import is_static
from tvm_nnef.tvm_support.compat import RelaxExpression, constant_array

Function: TypeAlias = Callable[..., RelaxExpression]

_BINARY_ALIGNMENTS = ("lhs_align", "rhs_align")
_SELECT_ALIGNMENTS = ("cond_align", "lhs_align", "rhs_align")
_CLAMP_ALIGNMENTS = ("val_align", "min_align", "max_align")


def elementwise(function: Function) -> LoweringFunction:
    """The mapping of an operator of one operand that is ``function`` of its operand."""

    def mapping(invocation: Invocation) -> Lowered:
        return function(invocation.expression(0)) if computes_natively(invocation) else None

    return mapping


def _broadcasting(function: Function, kinds: frozenset[str]) -> LoweringFunction:
    """The mapping of an operator of two operands of one type, which is one of ``kinds``."""

    def mapping(invocation: Invocation) -> Lowered:
        left, right = invocation.tensor(0), invocation.tensor(1)
        if left.type not in kinds or not computes_natively(invocation):
            return None
        if invocation.machine_types[left] != invocation.machine_types[right]:
            return None
        return function(*aligned(invocation, _BINARY_ALIGNMENTS))

    return mapping


def _identity(invocation: Invocation) -> Lowered:
    return invocation.expression(0)


def _reciprocal(invocation: Invocation) -> Lowered:
    if not computes_natively(invocation):
        return None
    return relax.op.divide(scalar(1, invocation.dtype), invocation.expression(0))


def _select(invocation: Invocation) -> Lowered:
    if {invocation.machine_types[invocation.tensor(n)] for n in (1, 2)} != {invocation.dtype}:
        return None
    return relax.op.where(*aligned(invocation, _SELECT_ALIGNMENTS))


def _extreme(function: Function) -> LoweringFunction:
    """Minimum or maximum: of ints, or of reals with a constant."""

    def mapping(invocation: Invocation) -> Lowered:
        if not computes_natively(invocation):
            return None
        left, right = aligned(invocation, _BINARY_ALIGNMENTS)
        if invocation.result.type == "int" or _is_number(left):
            return function(left, right)
        return function(right, left) if _is_number(right) else None

    return mapping


def _is_number(expression: RelaxExpression) -> bool:
    """Whether an operand is a constant without NaN.

    As the left operand of Relax's minimum and maximum it leaves NaN on the right as it is.
    """
    array = constant_array(expression)
    return array is not None and not np.isnan(array).any()


def _unless_zero(function: Function, kinds: frozenset[str]) -> LoweringFunction:
    """A sum, product or quotient, unless of a constant zero.

    TVM takes any real times zero for zero, ``x + 0`` for x, which is wrong for -0, and refuses to
    divide by zero.
    """
    mapping = _broadcasting(function, kinds)

    def checked(invocation: Invocation) -> Lowered:
        operands = (invocation.expression(number) for number in range(len(invocation.operands)))
        arrays = [constant_array(operand) for operand in operands]
        zero = any(array is not None and array.ndim == 0 and not array for array in arrays)
        return None if zero else mapping(invocation)

    return checked


def _difference(invocation: Invocation) -> Lowered:
    """A difference, unless of a tensor and itself: TVM takes it for zero, NaN or not."""
    if invocation.tensor(0) is invocation.tensor(1):
        return None
    return _broadcasting(relax.op.subtract, _NUMBERS)(invocation)


def _power(invocation: Invocation) -> Lowered:
    """A power of reals; with exponents that are often written, a few multiplications.

    Other constants are left to the formula: of those from 3 on TVM prints a warning.
    """
    if invocation.result.type != "real" or not computes_natively(invocation):
        return None
    base, exponents = aligned(invocation, _BINARY_ALIGNMENTS)
    number = constant_array(exponents)
    if number is None:
        return relax.op.power(base, exponents)
    if number.size != 1 or invocation.shape(0) != invocation.result.shape:
        return None
    match number.item():
        case 1.0:
            return base
        case 2.0:
            return relax.op.square(base)
        case 3.0:
            return relax.op.multiply(invocation.builder.emit(relax.op.square(base)), base)
        case -1.0:
            return relax.op.divide(scalar(1, invocation.dtype), base)
    return None


def _clamp(invocation: Invocation) -> Lowered:
    """Minimum and maximum, where the bounds are known to be in order.

    Out of order, the operator gives the lower bound for small and the upper one for large values.
    """
    low, high = (constant_array(invocation.expression(number)) for number in (1, 2))
    if low is None or high is None or low.size != 1 or high.size != 1 or low.item() > high.item():
        return None
    if not computes_natively(invocation):
        return None
    value, lower, upper = aligned(invocation, _CLAMP_ALIGNMENTS)
    if np.isnan(low).any() or np.isnan(high).any():
        return None
    # In this order NaN stays NaN.
    return relax.op.maximum(lower, relax.op.minimum(upper, value))


def _pack(function: Function, kinds: frozenset[str]) -> LoweringFunction:
    """The mapping of an operator that folds a pack of one of ``kinds`` with ``function``."""

    def mapping(invocation: Invocation) -> Lowered:
        items = invocation.pack(0)
        if not isinstance(items, tuple) or not items or not computes_natively(invocation):
            return None
        if invocation.result.type not in kinds:
            return None
        total = items[0]
        for item in items[1:]:
            total = function(total, item)
        return total

    return mapping


def _reduction(function: Function, kinds: frozenset[str]) -> LoweringFunction:
    """The mapping of a reduction over ``axes``; long sums are left to the formula."""

    def mapping(invocation: Invocation) -> Lowered:
        tensor = invocation.tensor(0)
        axes = sorted(forward(axis, tensor.rank) for axis in invocation.numbers("axes"))
        empty = 0 in tensor.shape or not axes
        reduced = [size for axis in axes if is_static(size := tensor.shape[axis])]
        if tensor.type == "real" and math.prod(reduced) > LONGEST:
            return None
        if empty or tensor.type not in kinds or not computes_natively(invocation):
            return None
        kept = not invocation.attribute("squeeze")
        return function(invocation.expression(0), axis=axes, keepdims=kept)

    return mapping


_NUMBERS = frozenset({"real", "int"})
_REAL = frozenset({"real"})
_INT = frozenset({"int"})
_BOOL = frozenset({"bool"})

_ELEMENTWISE: Mapping[str, Function] = {
    "neg": relax.op.negative,
    "sqr": relax.op.square,
    "sqrt": relax.op.sqrt,
    "rsqrt": relax.op.rsqrt,
    "exp": relax.op.exp,
    "log": relax.op.log,
    "sin": relax.op.sin,
    "cos": relax.op.cos,
    "tan": relax.op.tan,
    "sinh": relax.op.sinh,
    "cosh": relax.op.cosh,
    "asin": relax.op.asin,
    "acos": relax.op.acos,
    "atan": relax.op.atan,
    "asinh": relax.op.asinh,
    "acosh": relax.op.acosh,
    "abs": relax.op.abs,
    "floor": relax.op.floor,
    "ceil": relax.op.ceil,
}

_BINARY: Mapping[str, tuple[Function, frozenset[str]]] = {
    "lt": (relax.op.less, _NUMBERS),
    "gt": (relax.op.greater, _NUMBERS),
    "le": (relax.op.less_equal, _NUMBERS),
    "ge": (relax.op.greater_equal, _NUMBERS),
    "eq": (relax.op.equal, _INT),
    "ne": (relax.op.not_equal, _INT),
    "and": (relax.op.logical_and, _BOOL),
    "or": (relax.op.logical_or, _BOOL),
}

MAPPINGS: Mapping[str, LoweringFunction] = {
    **{f"math.{name}": elementwise(function) for name, function in _ELEMENTWISE.items()},
    **{f"math.{name}": _broadcasting(*row) for name, row in _BINARY.items()},
    "math.iden": _identity,
    "math.rcp": _reciprocal,
    "math.add": _unless_zero(relax.op.add, _NUMBERS),
    "math.sub": _difference,
    "math.mul": _unless_zero(relax.op.multiply, _NUMBERS),
    "math.div": _unless_zero(relax.op.divide, _REAL),
    "math.pow": _power,
    "math.min": _extreme(relax.op.minimum),
    "math.max": _extreme(relax.op.maximum),
    "math.select": _select,
    "math.clamp": _clamp,
    "math.sum_n": _pack(relax.op.add, _NUMBERS),
    "math.prod_n": _pack(relax.op.multiply, _NUMBERS),
    "math.min_n": _pack(relax.op.minimum, _INT),
    "math.max_n": _pack(relax.op.maximum, _INT),
    "math.sum_reduce": _reduction(relax.op.sum, _NUMBERS),
    "math.prod_reduce": _reduction(relax.op.prod, _NUMBERS),
    "math.mean_reduce": _reduction(relax.op.mean, _REAL),
}
