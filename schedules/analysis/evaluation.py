"""Evaluation of expressions over constant buffers as NumPy arrays.

Input: an expression, arrays that broadcast for its variables, and those of the buffers that it
reads. Output: the array of its values, or None if it has an unsupported node. The nodes of an
expression are visited once; its function may then be called for many values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from tvm import tirx
from tvm.ir import Call, Op, TensorLoad

from tvm_nnef.tvm_support.compat import Array, Buffer, PrimExpression, Var, choice_of, dtype_of

Values: TypeAlias = "Mapping[Var, Array]"
"""Arrays for the variables of an expression, which broadcast together."""

_Function: TypeAlias = "Callable[[Values], Array]"


class _Unknown(Exception):
    """The expression has an unsupported node."""


def _divided(left: Array, right: Array) -> Array:
    if left.dtype.kind != "f":
        raise _Unknown  # It truncates.
    return np.asarray(left / right)


def _floor_divided(left: Array, right: Array) -> Array:
    """Return rounded quotients; by a power of two, which a shift computes faster."""
    if _is_power_of_two(right):
        return np.asarray(left >> right.dtype.type(int(right).bit_length() - 1))
    return np.asarray(np.floor_divide(left, right))


def _floor_remainder(left: Array, right: Array) -> Array:
    """Return remainders; by a power of two, which a mask computes faster."""
    if _is_power_of_two(right):
        return np.asarray(left & right.dtype.type(int(right) - 1))
    return np.asarray(np.mod(left, right))


def _is_power_of_two(divisor: Array) -> bool:
    return divisor.ndim == 0 and int(divisor) > 0 and not int(divisor) & (int(divisor) - 1)


_BINARY: Mapping[type, Callable[[Array, Array], Array]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.Div: _divided,
    tirx.FloorDiv: _floor_divided,
    tirx.FloorMod: _floor_remainder,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
    tirx.LShift: np.left_shift,
    tirx.RShift: np.right_shift,
    tirx.BitwiseAnd: np.bitwise_and,
    tirx.BitwiseOr: np.bitwise_or,
    tirx.BitwiseXor: np.bitwise_xor,
}
"""The functions of NumPy that compute nodes with operands ``a`` and ``b``."""

_CALLS: Mapping[str, Callable[..., Array]] = {
    "tirx.pow": np.power,
    "tirx.trunc": np.trunc,
    "tirx.floor": np.floor,
    "tirx.fabs": np.abs,
    "tirx.nearbyint": np.rint,
    "tirx.nnef_floordiv": np.floor_divide,
    "tirx.nnef_floormod": np.mod,
    "tirx.nnef_choice": np.where,
}
"""The functions of NumPy that compute calls; the last ones are those that lowering emits for long
operands.
"""


def evaluator(
    expression: PrimExpression, arrays: Mapping[Buffer, Array]
) -> Callable[[Values], Array | None]:
    """Return the function from values of the variables of an expression to its own values.

    It returns None if these cannot be computed.
    """
    try:
        function = _function(expression, arrays)
    except _Unknown:
        return lambda _: None

    def evaluate(values: Values) -> Array | None:
        try:
            with np.errstate(all="ignore"):
                return function(values)
        except (_Unknown, KeyError, IndexError):
            return None

    return evaluate


def evaluated(
    expression: PrimExpression, values: Values, arrays: Mapping[Buffer, Array]
) -> Array | None:
    """Return the values of an expression for those of its variables.

    It is None if it cannot be computed.
    """
    return evaluator(expression, arrays)(values)


def _function(node: PrimExpression, arrays: Mapping[Buffer, Array]) -> _Function:
    def applied(compute: Callable[..., Array], operands: Sequence[PrimExpression]) -> _Function:
        functions = [_function(each, arrays) for each in operands]
        return lambda values: np.asarray(compute(*[each(values) for each in functions]))

    if isinstance(node, (tirx.IntImm, tirx.FloatImm)):
        number = np.asarray(node.value, dtype_of(node))
        return lambda _: number
    if isinstance(node, tirx.Var):
        return lambda values: values[node]
    if isinstance(node, TensorLoad) and node.source in arrays:
        return applied(partial(_loaded, arrays[node.source]), node.indices)
    if isinstance(node, tirx.Cast):
        return applied(partial(np.asarray, dtype=dtype_of(node)), [node.value])
    if isinstance(node, tirx.Let):
        value, body = _function(node.value, arrays), _function(node.body, arrays)
        return lambda values: body({**values, node.var: value(values)})
    choice = choice_of(node)
    if choice is not None:
        return applied(np.where, choice)
    if isinstance(node, tirx.BitwiseNot):
        return applied(np.invert, [node.a])
    if isinstance(node, Call) and isinstance(node.op, Op) and str(node.op.name) in _CALLS:
        return applied(_CALLS[str(node.op.name)], node.args)
    if type(node) in _BINARY:
        return applied(_BINARY[type(node)], [getattr(node, side) for side in ("a", "b")])
    raise _Unknown


def _loaded(array: Array, *indices: Array) -> Array:
    """Return elements at indices; whole rows and columns at once if each index varies along one
    axis.
    """
    if any(index.size and int(index.min()) < 0 for index in indices):
        raise _Unknown
    if len(indices) == 2 and all(index.ndim == 2 for index in indices):
        first, second = indices
        if first.shape[1] == second.shape[0] == 1:
            return np.asarray(array.take(first.reshape(-1), 0).take(second.reshape(-1), 1))
        if first.shape[0] == second.shape[1] == 1:
            return np.asarray(array.take(second.reshape(-1), 1).take(first.reshape(-1), 0).T)
    return np.asarray(array[indices])
