"""Evaluation of expressions over constant buffers as NumPy arrays.

Input: an expression, arrays that broadcast for its variables, and those of the buffers that it
reads. Output: the array of its values, or None if it has an unsupported node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from tvm import tirx
from tvm.ir import Call, Op, TensorLoad

from tvm_nnef.tvm_support.compat import Array, Buffer, PrimExpression, Var, choice_of, dtype_of

_BINARY: Mapping[type, Callable[[Array, Array], Array]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.Div: np.divide,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
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
    "tirx.nnef_floordiv": np.floor_divide,
    "tirx.nnef_floormod": np.mod,
    "tirx.nnef_choice": np.where,
}
"""The functions of NumPy that compute calls; the last three are those that lowering emits for long
operands.
"""


class _Unknown(Exception):
    """The expression has an unsupported node."""


def evaluated(
    expression: PrimExpression, values: Mapping[Var, Array], arrays: Mapping[Buffer, Array]
) -> Array | None:
    """Return the values of an expression for those of its variables.

    It is None if it cannot be computed.
    """
    try:
        with np.errstate(all="ignore"):
            return _value(expression, values, arrays)
    except (_Unknown, IndexError):
        return None


def _value(
    node: PrimExpression, values: Mapping[Var, Array], arrays: Mapping[Buffer, Array]
) -> Array:
    def of(other: PrimExpression) -> Array:
        return _value(other, values, arrays)

    if isinstance(node, (tirx.IntImm, tirx.FloatImm)):
        return np.asarray(node.value, dtype_of(node))
    if isinstance(node, tirx.Var) and node in values:
        return values[node]
    if isinstance(node, TensorLoad) and node.source in arrays:
        return _loaded(arrays[node.source], [of(index) for index in node.indices])
    if isinstance(node, tirx.Cast):
        return np.asarray(of(node.value), dtype_of(node))
    if isinstance(node, tirx.Let):
        return _value(node.body, {**values, node.var: of(node.value)}, arrays)
    choice = choice_of(node)
    if choice is not None:
        return np.where(*map(of, choice))
    if isinstance(node, tirx.BitwiseNot):
        return np.asarray(~of(node.a))
    if isinstance(node, Call) and isinstance(node.op, Op) and str(node.op.name) in _CALLS:
        return np.asarray(_CALLS[str(node.op.name)](*map(of, node.args)))
    if type(node) not in _BINARY:
        raise _Unknown
    return _binary(node, *(of(getattr(node, operand)) for operand in ("a", "b")))


def _binary(node: PrimExpression, left: Array, right: Array) -> Array:
    """Return the value of a node of two operands; divisions by powers of two as shifts and
    masks.
    """
    if isinstance(node, tirx.Div) and left.dtype.kind != "f":
        raise _Unknown  # It truncates.
    if isinstance(node, (tirx.FloorDiv, tirx.FloorMod)) and right.ndim == 0:
        divisor = int(right)
        if divisor > 0 and not divisor & (divisor - 1):
            if isinstance(node, tirx.FloorMod):
                return np.asarray(left & right.dtype.type(divisor - 1))
            return np.asarray(left >> right.dtype.type(divisor.bit_length() - 1))
    return np.asarray(_BINARY[type(node)](left, right))


def _loaded(array: Array, indices: list[Array]) -> Array:
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
    return np.asarray(array[tuple(indices)])
