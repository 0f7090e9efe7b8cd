"""Rewrites that make a graph simpler or cheaper on any target.

Reshapes that change nothing are removed; constant factors, as of a batch normalization, go into the
constant weights of the convolution before them, and constants that are added are added at once;
padding becomes that of a convolution after it; common subexpressions are computed once. Shapes and
the order of dimensions stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Call, GenericConst

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.relax import constants
from tvm_nnef.schedules.relax.rewriting import (
    CONVOLUTIONS,
    Operands,
    again,
    operator_name,
    rewritten,
)
from tvm_nnef.tvm_support.compat import (
    Array,
    Module,
    RelaxExpression,
    constant,
    constant_array,
    is_tensor,
    shape_and_dtype,
)
from tvm_nnef.tvm_support.relax_functions import with_mapped


def simplify(mod: Module) -> Module:
    """The module in simpler terms, constants folded."""
    return share_subexpressions(simplify_calls(mod))


def simplify_calls(mod: Module) -> Module:
    """The module in simpler terms, constants folded; common subexpressions stay."""
    return rewritten(mod, _rewrite)


def share_subexpressions(mod: Module) -> Module:
    """The module with each common subexpression computed once.

    Variables stand for large constants meanwhile, the same for equal ones: TVM would compute the
    hash of all of their elements for each expression.
    """
    large = _LargeConstants()
    named = with_mapped(mod, (GenericConst, large.variable))
    shared = relax.transform.EliminateCommonSubexpr()(named)
    shared = with_mapped(shared, (relax.Var, lambda var: large.of_variables.get(var, var)))
    return relax.transform.DeadCodeElimination()(shared)


_LARGE = 1 << 12
"""The elements from which on a constant is large."""

_DTYPES = ("float32", "float16", "int8", "uint8")
"""The dtypes of large constants."""


class _LargeConstants:
    """Variables for large constants, one for all equal ones."""

    def __init__(self) -> None:
        self.of_variables: dict[relax.Var, GenericConst] = {}
        self._variables: dict[Any, list[tuple[Array, relax.Var]]] = {}

    def variable(self, node: GenericConst) -> GenericConst | relax.Var:
        """Return the variable for a constant; a small constant itself."""
        shape, dtype = shape_and_dtype(node) if is_tensor(node) else ((), "")
        array = constant_array(node) if dtype in _DTYPES else None
        if array is None or array.size < _LARGE:
            return node
        elements = array.reshape(-1).view("uint8")
        sample = elements[:: elements.size // 64].tobytes()
        same = self._variables.setdefault((shape, dtype, sample), [])
        for other, variable in same:
            if np.shares_memory(other, elements) or np.array_equal(other, elements):
                return variable
        variable = relax.Var("large", node.ty)
        same.append((elements, variable))
        self.of_variables[variable] = node
        return variable


def _rewrite(operands: Operands, node: Call) -> RelaxExpression | None:
    folded = constants.fold(operands, node)
    if folded is not None:
        return folded
    simpler = _SIMPLER.get(operator_name(node))
    return simpler(operands, node) if simpler else None


def _normalized(operands: Operands, made: RelaxExpression) -> Call:
    """A new call with its type."""
    typed = operands.builder.normalize(made)
    assert isinstance(typed, Call)
    return typed


def _subtract(operands: Operands, call: Call) -> RelaxExpression | None:
    """A constant that is subtracted is added with the other sign."""
    shift = operands.array(call.args[1])
    if shift is None or not str(shift.dtype).startswith("float"):
        return None
    total = _normalized(operands, relax.op.add(call.args[0], constant(-shift)))
    merged = _add(operands, total)
    return total if merged is None else merged


def _divide(operands: Operands, call: Call) -> RelaxExpression | None:
    """A constant divisor moves as a factor, if other constants take it."""
    divisor = operands.array(call.args[1])
    if divisor is None or str(divisor.dtype) != "float32" or not divisor.all():
        return None
    return _moved(operands, call, 1 / divisor.astype("float64"))


def _multiply(operands: Operands, call: Call) -> RelaxExpression | None:
    """A constant factor moves to constants that it can be multiplied into."""
    if not str(call.ty.dtype).startswith("float"):
        return None
    factor = operands.array(call.args[1])
    if factor is not None:
        return _moved(operands, call, factor)
    if operands.array(call.args[0]) is None:
        return None
    swapped = _normalized(operands, relax.op.multiply(call.args[1], call.args[0]))
    moved = _multiply(operands, swapped)
    return swapped if moved is None else moved


def _moved(operands: Operands, call: Call, factor: Array) -> RelaxExpression | None:
    ones = (1,) * (int(call.ty.ndim) - factor.ndim)
    return _scaled(operands, call.args[0], factor.reshape(ones + factor.shape))


def _scaled(
    operands: Operands, expression: RelaxExpression, factor: Array
) -> RelaxExpression | None:
    """An expression times a constant, if that costs no further multiplication."""
    found = operands.definition(expression)
    if not isinstance(found, Call) or not operands.is_used_once(expression):
        return None
    name = operator_name(found)
    if name in CONVOLUTIONS:
        return _scaled_convolution(operands, found, factor)
    other = operands.array(found.args[1]) if name in ("add", "multiply") else None
    if other is None or _grows(other, factor) or not _in_range(other, factor):
        return None
    product = constant(_product(other, factor))
    if name == "multiply":
        return relax.op.multiply(found.args[0], product)
    inner = _scaled(operands, found.args[0], factor)
    return None if inner is None else relax.op.add(operands.emit(inner), product)


def _grows(array: Array, factor: Array) -> bool:
    """Whether a product has more elements than either."""
    shape = np.broadcast_shapes(array.shape, factor.shape)
    return int(np.prod(shape)) > max(array.size, factor.size)


def _in_range(array: Array, factor: Array) -> bool:
    """Whether no product of two constants is too large or too small for their dtype."""
    with np.errstate(all="ignore"):
        sizes = np.abs(_product(array, factor))
    ordinary = np.isfinite(sizes) & (sizes >= np.finfo(array.dtype).tiny)
    return bool(np.all(ordinary | (array == 0) | (factor == 0)))


def _product(array: Array, factor: Array) -> Array:
    product: Array = (array.astype("float64") * factor).astype(array.dtype)
    return product


def _scaled_convolution(operands: Operands, call: Call, factor: Array) -> RelaxExpression | None:
    weights = operands.array(call.args[1])
    layouts = str(call.attrs.data_layout)[:2], str(call.attrs.kernel_layout)[:2]
    if weights is None or layouts != ("NC", "OI"):
        return None
    if factor.size not in (1, weights.shape[0]) or factor.size != factor.shape[1]:
        return None
    along = factor.reshape(-1, *[1] * (weights.ndim - 1))
    if not _in_range(weights, along):
        return None
    return again(call, call.args[0], constant(_product(weights, along)))


def _add(operands: Operands, call: Call) -> RelaxExpression | None:
    """Two constants that are added in turn are added at once, unless they cancel.

    What is added and taken away again rounds: ``x + 12582912 - 12582912`` is a whole number.
    """
    second = operands.array(call.args[1])
    inner = operands.call(call.args[0], "add")
    if inner is None or second is None:
        return None
    first = operands.array(inner.args[1])
    if first is None or first.size != second.size:
        return None
    largest = np.maximum(np.abs(first), np.abs(second))
    total = first + second
    if np.all(np.abs(total) < largest / 64):
        return None
    return relax.op.add(inner.args[0], constant(total))


def _reshape(operands: Operands, call: Call) -> RelaxExpression | None:
    """The operand of a reshape that changes nothing; one reshape instead of two."""
    if not all(map(is_tensor, (call, call.args[0]))):
        return None
    (old, _), (new, _) = map(shape_and_dtype, (call.args[0], call))
    if len(old) == len(new) and all(map(sizes.same, old, new)):
        unchanged: RelaxExpression = call.args[0]
        return unchanged
    inner = operands.call(call.args[0], "reshape")
    return None if inner is None else relax.op.reshape(inner.args[0], call.args[1])


def _padded_convolution(operands: Operands, call: Call) -> RelaxExpression | None:
    """A convolution of data padded with zeros, as one that pads."""
    pad = operands.call(call.args[0], "nn.pad")
    layout = str(call.attrs.data_layout)
    if pad is None or layout[:2] != "NC":
        return None
    widths = [int(width) for width in pad.attrs.pad_width]
    if str(pad.attrs.pad_mode) != "constant" or float(pad.attrs.pad_value) != 0:
        return None
    if any(widths[:4]) or min(widths) < 0:
        return None
    before, after = widths[4::2], widths[5::2]
    padding = [int(o) + w for o, w in zip(call.attrs.padding, (*before, *after), strict=True)]
    return again(call, pad.args[0], call.args[1], padding=padding)


_SIMPLER: Mapping[str, Callable[[Operands, Call], RelaxExpression | None]] = {
    "multiply": _multiply,
    "divide": _divide,
    "subtract": _subtract,
    "add": _add,
    "reshape": _reshape,
    **dict.fromkeys(CONVOLUTIONS, _padded_convolution),
}
