"""Quantized tensors in Relax: constants with few values, and integers times a scale.

Input: an expression of a function. Output: the array that it is, or the integers and the scale
that it is the product of; None for anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.evaluation import evaluated
from tvm_nnef.schedules.relax import constants
from tvm_nnef.schedules.relax.constant_elements import ConstantReader, varies
from tvm_nnef.schedules.relax.constant_factors import factors
from tvm_nnef.schedules.relax.quantizers import Cast, Reader, Rounding
from tvm_nnef.schedules.relax.rewriting import Operands, again, operator_name
from tvm_nnef.tvm_support.compat import (
    Array,
    Buffer,
    PrimFunction,
    RelaxExpression,
    Var,
    is_tensor,
    shape_and_dtype,
)

WHOLE = ("int8", "uint8", "int16", "uint16", "int32")
"""Dtypes of the integers that reals are made from."""


@dataclass(frozen=True, slots=True)
class Dequantized:
    """Integers and the scale that they are multiplied by."""

    integers: RelaxExpression
    scale: RelaxExpression


@dataclass(frozen=True, slots=True)
class TensorReader:
    """Reads what tensors are: constants, dequantized integers, rounded reals."""

    operands: Operands
    reader: Reader
    functions: Mapping[str, PrimFunction]

    def value(self, expression: RelaxExpression) -> Array | None:
        """The value of an expression of constants."""
        known = self.reader.values
        if expression not in known:
            known[expression] = self._computed_value(self.operands.definition(expression))
        return known[expression]

    def _computed_value(self, found: RelaxExpression) -> Array | None:
        array = self.operands.array(found)
        if array is not None or not isinstance(found, Call) or not is_tensor(found):
            return array
        if not self.reader.is_constant(self.operands, found):
            return None
        if operator_name(found) == "call_tir":
            return self._computed(found)
        shape, dtype = shape_and_dtype(found)
        values = [self.value(each) for each in found.args if is_tensor(each)]
        known = [each for each in values if each is not None]
        if len(known) < len(values) or not sizes.are_known(shape):
            return None
        value = constants.value_of(operator_name(found), found, known, tuple(shape), dtype)
        return None if value is None else value.astype(dtype, copy=False)

    def argument(self, call: Call) -> RelaxExpression:
        """The operand of a call that has one."""
        of_kernel = operator_name(call) == "call_tir"
        operand: RelaxExpression = call.args[1].fields[0] if of_kernel else call.args[0]
        return operand

    def _inner(self, expression: RelaxExpression, kind: object) -> RelaxExpression | None:
        """The operand of an elementwise kernel, if the expression is one of a kind."""
        found = self.operands.definition(expression)
        if not isinstance(found, Call) or operator_name(found) not in ("call_tir", "astype"):
            return None
        return self.argument(found) if self.reader.read(self.operands, found) == kind else None

    def _from_integers(self, expression: RelaxExpression) -> RelaxExpression | None:
        """The integers that reals were cast from."""
        if not is_tensor(expression) or shape_and_dtype(expression)[1] != "float32":
            return None
        inner = self._inner(expression, Cast("float32"))
        return inner if inner is not None and shape_and_dtype(inner)[1] in WHOLE else None

    def dequantized(self, expression: RelaxExpression) -> Dequantized | None:
        """The integers and the scale of reals that are their product."""
        found = self.operands.call(expression, "multiply")
        if found is None:
            return None
        for value, scale in (found.args, found.args[::-1]):
            integers = self._from_integers(value)
            if integers is not None:
                same = len(shape_and_dtype(integers)[0]) == len(shape_and_dtype(found)[0])
                return Dequantized(integers, scale) if same else None
        return None

    def rounded(self, x: RelaxExpression) -> tuple[Rounding, RelaxExpression] | None:
        """Return how a tensor was rounded, and the reals before that."""
        found = self.operands.definition(x)
        if not isinstance(found, Call) or operator_name(found) != "call_tir":
            return None
        kind = self.reader.read(self.operands, found)
        return (kind, self.argument(found)) if isinstance(kind, Rounding) else None

    def _computed(self, call: Call) -> Array | None:
        """Return what a kernel computes from constants."""
        arrays: dict[Buffer, Array] = {}
        element = ConstantReader(self.operands, self.functions, arrays).element(call)
        if element is None:
            return None
        axes, value = element
        shape, dtype = shape_and_dtype(call)
        found = evaluated(value, _grid(axes, shape), arrays)
        return None if found is None else np.broadcast_to(found, shape).astype(dtype)

    def weights(self, expression: RelaxExpression, outputs: int) -> tuple[Array, Array] | None:
        """Return the integers and the scale of constant weights, for all or for each output.

        The scale has as many dimensions. Nothing but the values of an element decides: it is a
        product of factors, of which one is whole and the others are the same for an output.
        """
        shape, dtype = shape_and_dtype(expression)
        is_plain = self.operands.array(expression) is not None or not sizes.are_known(shape)
        if is_plain or dtype != "float32" or not self.reader.is_constant(self.operands, expression):
            return None
        arrays: dict[Buffer, Array] = {}
        element = ConstantReader(self.operands, self.functions, arrays).element(expression)
        if element is None:
            return None
        axes, value = element
        inner = [axis for axis in range(len(axes)) if axis != outputs % len(axes)]
        every = factors(value)
        whole = [f for f in every if any(varies(f, axes[a], shape[a], shape[a]) for a in inner)]
        if len(whole) != 1:
            return None
        grid = _grid(axes, shape)
        steps = evaluated(whole[0], grid, arrays)
        if steps is None or not np.array_equal(steps, integers := steps.astype("int32")):
            return None
        first = {axes[axis]: grid[axes[axis]].flat[:1].reshape((1,) * len(axes)) for axis in inner}
        scale = np.ones((1,) * len(axes), "float32")
        for factor in every:
            known = scale if factor is whole[0] else evaluated(factor, {**grid, **first}, arrays)
            if known is None:
                return None
            scale = scale if factor is whole[0] else scale * known.astype("float32")
        return np.broadcast_to(integers, shape), scale


def _grid(axes: Sequence[Var], shape: Sequence[int]) -> dict[Var, Array]:
    """Return the indices of all elements of a shape, for each axis an array that broadcasts."""
    return dict(zip(axes, np.ix_(*map(np.arange, shape)), strict=True))


def as_dtype(operands: Operands, value: RelaxExpression, dtype: str) -> RelaxExpression:
    """Return a tensor in a dtype."""
    if shape_and_dtype(value)[1] == dtype:
        return value
    return operands.emit(relax.op.astype(value, dtype))


def as_real(operands: Operands, integers: RelaxExpression) -> RelaxExpression:
    """Return integers as float32, from the dtype that they were cast from."""
    return as_dtype(operands, narrowed(operands, integers), "float32")


def narrowed(operands: Operands, integers: RelaxExpression) -> RelaxExpression:
    """Return integers as they were before a cast to wider ones."""
    cast = operands.call(integers, "astype")
    return integers if cast is None or not _widens(cast) else cast.args[0]


def _widens(cast: Call) -> bool:
    """Whether a cast is from integers to wider ones."""
    before, after = shape_and_dtype(cast.args[0])[1], shape_and_dtype(cast)[1]
    whole = before in WHOLE and after in WHOLE
    return whole and np.iinfo(before).bits < np.iinfo(after).bits


def again_with(call: Call, data: RelaxExpression) -> RelaxExpression:
    """Return the operator of a call with another first operand."""
    return again(call, data, *call.args[1:])
