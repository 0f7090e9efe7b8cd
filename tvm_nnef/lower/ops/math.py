"""Mappings of the module ``math``: element-wise operators and reductions.

Not here, as Relax differs in value: integer division, remainders and powers (Relax traps on zero),
``round`` (halves to even), ``min_reduce`` and ``max_reduce`` (Relax starts at the least finite
number, not at infinity), ``softplus``. Their own formulas are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax, te, tirx

from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.naming import identifier
from tvm_nnef.lower.ops.common import aligned, computes_natively, forward, scalar
from tvm_nnef.tvm_compat import RelaxExpression, constant_array

Function: Any = Callable[..., RelaxExpression]

_BINARY_ALIGNMENTS = ("lhs_align", "rhs_align")
_SELECT_ALIGNMENTS = ("cond_align", "lhs_align", "rhs_align")
_CLAMP_ALIGNMENTS = ("val_align", "min_align", "max_align")


def elementwise(function: Function) -> LoweringFunction:
    """The mapping of an operator of one operand that is ``function`` of its operand."""

    def mapping(invocation: Invocation) -> Lowered:
        return function(invocation.operands[0]) if computes_natively(invocation) else None

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
    return invocation.operands[0]


def _reciprocal(invocation: Invocation) -> Lowered:
    if not computes_natively(invocation):
        return None
    return relax.op.divide(scalar(1, invocation.dtype), invocation.operands[0])


def _select(invocation: Invocation) -> Lowered:
    if {invocation.machine_types[invocation.tensor(n)] for n in (1, 2)} != {invocation.dtype}:
        return None
    return relax.op.where(*aligned(invocation, _SELECT_ALIGNMENTS))


def _clamp(invocation: Invocation) -> Lowered:
    """Minimum and maximum, where the bounds are known to be in order.

    Out of order, the operator gives the lower bound for small and the upper one for large values.
    """
    low, high = (constant_array(invocation.operands[number]) for number in (1, 2))
    if low is None or high is None or low.size != 1 or high.size != 1 or low.item() > high.item():
        return None
    if not computes_natively(invocation):
        return None
    value, lower, upper = aligned(invocation, _CLAMP_ALIGNMENTS)
    return relax.op.maximum(relax.op.minimum(value, upper), lower)


def _pack(function: Function) -> LoweringFunction:
    """The mapping of an operator that folds a pack with ``function``."""

    def mapping(invocation: Invocation) -> Lowered:
        (items,) = invocation.operands
        if not isinstance(items, tuple) or not items or not computes_natively(invocation):
            return None
        total = items[0]
        for item in items[1:]:
            total = function(total, item)
        return total

    return mapping


def _reduction(function: Function, kinds: frozenset[str]) -> LoweringFunction:
    """The mapping of a reduction over ``axes``."""

    def mapping(invocation: Invocation) -> Lowered:
        tensor = invocation.tensor(0)
        axes = sorted(forward(axis, tensor.rank) for axis in invocation.numbers("axes"))
        empty = 0 in tensor.shape or not axes
        if empty or tensor.type not in kinds or not computes_natively(invocation):
            return None
        kept = not invocation.attribute("squeeze")
        return function(invocation.operands[0], axis=axes, keepdims=kept)

    return mapping


def _first_extreme(is_better: Callable[[Any, Any], Any], worst: float) -> LoweringFunction:
    """argmin and argmax as one reduction over pairs of a value and its index.

    The formula reads its output in a condition, which leaves no order but its own; and Relax's
    argmax gives -1 for a row of infinities.
    """

    def mapping(invocation: Invocation) -> Lowered:
        if not computes_natively(invocation):
            return None
        axis = forward(invocation.number("axis"), invocation.tensor(0).rank)
        function = _extreme_of(invocation.result, invocation.dtype, axis, is_better, worst)
        name = identifier(invocation.operation.operator)
        return invocation.builder.call_te(function, invocation.operands[0], primfunc_name_hint=name)

    return mapping


def _extreme_of(
    result: Tensor,
    dtype: str,
    axis: int,
    is_better: Callable[[Any, Any], Any],
    worst: float,
) -> Callable[[Any], Any]:
    def combine(left: Any, right: Any) -> tuple[Any, Any]:
        earlier = tirx.And(tirx.EQ(left[1], right[1]), left[0] <= right[0])
        keep = tirx.Or(is_better(left[1], right[1]), earlier)
        return (
            tirx.Select(keep, left[0], right[0]),
            tirx.Select(keep, left[1], right[1]),
        )

    def null(index_type: str, value_type: str) -> tuple[Any, Any]:
        return tirx.max_value(index_type), tirx.const(worst, value_type)

    def function(data: Any) -> Any:
        reducer = te.comm_reducer(combine, null, name="first_extreme")
        reduced = te.reduce_axis((0, data.shape[axis]), "candidate")
        kept = len(data.shape) == result.rank

        def element(*axes: Any) -> Any:
            rest = axes[axis + 1 :] if kept else axes[axis:]
            value = data(*axes[:axis], reduced.var, *rest)
            return reducer((reduced.var.astype(dtype), value), axis=[reduced])

        return te.compute(result.shape, element, name="first_extreme")[0]

    return function


_NUMBERS = frozenset({"real", "int"})
_REAL = frozenset({"real"})
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
    "tanh": relax.op.tanh,
    "asin": relax.op.asin,
    "acos": relax.op.acos,
    "atan": relax.op.atan,
    "asinh": relax.op.asinh,
    "acosh": relax.op.acosh,
    "atanh": relax.op.atanh,
    "abs": relax.op.abs,
    "not": relax.op.logical_not,
    "floor": relax.op.floor,
    "ceil": relax.op.ceil,
}

_BINARY: Mapping[str, tuple[Function, frozenset[str]]] = {
    "add": (relax.op.add, _NUMBERS),
    "sub": (relax.op.subtract, _NUMBERS),
    "mul": (relax.op.multiply, _NUMBERS),
    "div": (relax.op.divide, _REAL),
    "pow": (relax.op.power, _REAL),
    "min": (relax.op.minimum, _NUMBERS),
    "max": (relax.op.maximum, _NUMBERS),
    "lt": (relax.op.less, _NUMBERS),
    "gt": (relax.op.greater, _NUMBERS),
    "le": (relax.op.less_equal, _NUMBERS),
    "ge": (relax.op.greater_equal, _NUMBERS),
    "eq": (relax.op.equal, _NUMBERS),
    "ne": (relax.op.not_equal, _NUMBERS),
    "and": (relax.op.logical_and, _BOOL),
    "or": (relax.op.logical_or, _BOOL),
}

MAPPINGS: Mapping[str, LoweringFunction] = {
    **{f"math.{name}": elementwise(function) for name, function in _ELEMENTWISE.items()},
    **{f"math.{name}": _broadcasting(*row) for name, row in _BINARY.items()},
    "math.iden": _identity,
    "math.rcp": _reciprocal,
    "math.select": _select,
    "math.clamp": _clamp,
    "math.sum_n": _pack(relax.op.add),
    "math.prod_n": _pack(relax.op.multiply),
    "math.min_n": _pack(relax.op.minimum),
    "math.max_n": _pack(relax.op.maximum),
    "math.sum_reduce": _reduction(relax.op.sum, _NUMBERS),
    "math.prod_reduce": _reduction(relax.op.prod, _NUMBERS),
    "math.mean_reduce": _reduction(relax.op.mean, _REAL),
    "math.argmin": _first_extreme(lambda left, right: left < right, float("inf")),
    "math.argmax": _first_extreme(lambda left, right: left > right, float("-inf")),
}
