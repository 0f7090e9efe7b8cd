"""Evaluation of the scalars of a formula over a block of steps.

Input: a scalar. Output: the array of its values. The array broadcasts against the block: a scalar
that depends on few loops stays small. Nothing is stored here. A step that is not ``active`` may
have any value; an active one that reads outside of a tensor or a pack is an error of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Index,
    Let,
    Load,
    Local,
    Lookup,
    Scalar,
    ScalarType,
    Select,
    Subscript,
    Unary,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.reference.arithmetic import BINARY, UNARY, Array, alike, cast, constant
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

INDEX = np.dtype(np.int64)
"""The dtype in which indices and dimensions are computed, whatever that of int tensors is."""


class OutOfBounds(Exception):
    """An active step accesses an element outside of a tensor, or of a pack, which the message
    names.

    The evaluator of the operation adds the location and raises an NnefError.
    """


@dataclass(frozen=True, slots=True)
class Block:
    """A box of the iteration space of a statement, with the values that its scalars read.

    ``indices`` is an open grid: each array has as many dimensions as there are loops, and extends
    along its own. ``values`` caches those of the locals, ``counts`` has tensors of rank 0 that
    count the steps, for each step of the block.
    """

    arrays: Mapping[Tensor, Array]
    dtypes: Mapping[ScalarType, np.dtype[Any]]
    symbols: Mapping[str, int]
    indices: Mapping[str, Array] = field(default_factory=dict)
    locals: tuple[Let, ...] = ()
    values: dict[str, Array] = field(default_factory=dict)
    counts: Mapping[Tensor, Array] = field(default_factory=dict)


def evaluate(scalar: Scalar, block: Block, active: Array) -> Array:
    """Return the values of a scalar; raise OutOfBounds (see the module)."""
    match scalar:
        case Constant(type, value):
            is_size = type == "int" and dimensions.is_symbolic(value)
            return constant(number(value, block), INDEX if is_size else block.dtypes[type])
        case Index(name):
            return block.indices[name]
        case Local(name):
            return _local(name, block, active)
        case Unary(function, operand):
            return UNARY[function](evaluate(operand, block, active))
        case Binary(function, left, right):
            first = evaluate(left, block, active)
            second = evaluate(right, block, _reached(function, first, active))
            return BINARY[function](*_paired(left, first, right, second))
        case Select(condition, consequent, alternative):
            chosen = evaluate(condition, block, active)
            first = evaluate(consequent, block, active & chosen)
            second = evaluate(alternative, block, active & ~chosen)
            return np.where(chosen, *_paired(consequent, first, alternative, second))
        case Cast("int", operand) if operand.type == "int":
            return evaluate(operand, block, active)
        case Cast(type, operand):
            return _computed(evaluate(operand, block, active), block.dtypes[type])
        case Lookup(items, index):
            return _lookup(items, index, block, active)
        case Load(tensor, subscripts):
            return _load(tensor, subscripts, block, active)


def _paired(left: Scalar, first: Array, right: Scalar, second: Array) -> tuple[Array, Array]:
    """Return two operands in one dtype: the wider one, where a constant follows the other
    operand.
    """
    if {first.dtype, second.dtype} == {np.dtype(np.int32), INDEX}:
        if isinstance(left, Constant):
            return first.astype(second.dtype), second
        if isinstance(right, Constant):
            return first, second.astype(first.dtype)
    return alike(first, second)


def number(value: float | Dimension, block: Block) -> float:
    """Return a number as it is, a dimension by the values of its symbols."""
    if isinstance(value, (int, float)):
        return value
    value_of_dimension: int = trees.evaluate(value, block.symbols)
    return value_of_dimension


def _load(tensor: Tensor, subscripts: tuple[Subscript, ...], block: Block, active: Array) -> Array:
    if tensor in block.counts:
        return block.counts[tensor]
    array, dtype = block.arrays[tensor], block.dtypes[tensor.type]
    indices = positions(tensor, subscripts, array.shape, block, active)
    # Nothing of an empty tensor is read in an active step, or positions had complained.
    return _computed(np.asarray(array[indices]), dtype) if array.size else np.zeros((), dtype)


def _computed(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in a compute type; unsigned ints of 64 bits stay so."""
    is_int = dtype.kind == "i" and array.dtype == np.uint64
    return array if is_int else cast(array, dtype)


def positions(
    tensor: Tensor,
    subscripts: tuple[Subscript, ...],
    shape: tuple[int, ...],
    block: Block,
    active: Array,
) -> tuple[Array, ...]:
    """Return the positions of an access, an array for each dimension, clipped to the shape.

    A guarded index is clipped silently: the caller skips its step.
    """
    clipped = []
    for dimension, (subscript, size) in enumerate(zip(subscripts, shape, strict=True)):
        index = evaluate(subscript.index, block, active)
        if subscript.below is not None and subscript.above is not None:
            low, high = index < 0, index >= size
            below = evaluate(subscript.below, block, active & low)
            above = evaluate(subscript.above, block, active & high)
            index = np.where(low, below, np.where(high, above, index))
        if subscript.below is not None or not subscript.guarded:
            _check(index, size, active, f"dimension {dimension} of '{tensor.name}'")
        clipped.append(np.clip(index, 0, max(size - 1, 0)).astype(np.intp))
    return tuple(clipped)


def _check(index: Array, size: int, active: Array, position: str) -> None:
    wrong = (index < 0) | (index >= size)
    if wrong.any() and (wrong & active).any():
        worst = np.broadcast_arrays(index, wrong & active)
        example = int(worst[0][worst[1]].flat[0])
        raise OutOfBounds(f"index {example} is out of bounds for {position}, which has {size}")


def _reached(function: str, first: Array, active: Array) -> Array:
    """Return the steps in which the second operand matters: the first may decide ``and`` and
    ``or``.
    """
    match function:
        case "and":
            return active & first
        case "or":
            return active & ~first
        case _:
            return active


def _local(name: str, block: Block, active: Array) -> Array:
    if name not in block.values:
        value = next(local.value for local in block.locals if local.name == name)
        block.values[name] = evaluate(value, block, active)
    return block.values[name]


def _lookup(items: tuple[Scalar, ...], index: Scalar, block: Block, active: Array) -> Array:
    chosen = evaluate(index, block, active)
    _check(chosen, len(items), active, "a pack")
    if all(isinstance(item, Constant) for item in items):
        table = np.stack([evaluate(item, block, active) for item in items])
        return np.asarray(table[np.clip(chosen, 0, len(items) - 1)])
    result = evaluate(items[0], block, active & (chosen == 0))
    for number, item in enumerate(items[1:], 1):
        is_chosen = chosen == number
        result = np.where(is_chosen, evaluate(item, block, active & is_chosen), result)
    return result
