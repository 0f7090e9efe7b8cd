"""Evaluation of a Formula on arrays.

Input: the arrays that it reads. Output: those of its results. A statement runs over blocks of its
iteration space, of bounded size, in the order of its loops; the steps of a block are computed
together. If a statement reads or repeatedly writes elements that it writes, the loops that
determine their order have blocks of one step. Operators are unknown here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tvm_nnef.graph.formula import (
    Constant,
    Fill,
    Formula,
    Index,
    Load,
    Loop,
    Scalar,
    Select,
    Statement,
    Store,
    StoreOperator,
    Subscript,
    counter,
    guards,
    loads,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.reference.arithmetic import CONTRACTIONS, Array, constant, null
from tvm_nnef.reference.scalars import INDEX, Block, evaluate, number, positions

BLOCK = 2**22
"""Upper limit of the steps in a block: it bounds the memory that a statement takes."""


def run(
    formula: Formula, context: Block, stored: Mapping[Tensor, np.dtype[Any]] | None = None
) -> dict[Tensor, Array]:
    """Return the results of a formula, in the dtypes in which it computes.

    ``context`` has the arrays of all tensors that the formula reads besides its results; its fields
    for single statements are ignored. ``stored`` are the dtypes of the results if they differ: an
    infinite int is the largest or smallest of that type. Raises OutOfBounds.
    """
    repeated = _repeated(formula, context)
    if repeated is not None:
        return {formula.fills[0].tensor: repeated}
    with np.errstate(all="ignore"):
        results = {
            fill.tensor: np.full(
                [int(number(size, context)) for size in fill.tensor.shape],
                _first_value(fill, context, (stored or {}).get(fill.tensor)),
            )
            for fill in formula.fills
        }
        for statement in formula.statements:
            arrays = {**context.arrays, **results}
            _run_statement(statement, results, replace(context, arrays=arrays))
    return results


def _repeated(formula: Formula, context: Block) -> Array | None:
    """Return a tensor if a formula only repeats its dimensions of 1; None for others."""
    match formula.fills, formula.statements:
        case (
            (fill,),
            (
                Statement(
                    stores=(Store(operator="=", value=Load() as load) as store,),
                    locals=(),
                    condition=None,
                ) as statement,
            ),
        ):
            loops = [loop.index for loop in statement.loops]
        case _:
            return None
    shape = tuple(int(number(size, context)) for size in fill.tensor.shape)
    array, outer = context.arrays[load.tensor], len(loops) - len(load.subscripts)
    if list(map(_plain, store.subscripts)) != loops or outer < 0:
        return None
    for axis, subscript in enumerate(load.subscripts):
        index = _plain(subscript)
        if isinstance(index, Select) and isinstance(index.condition, Constant):
            holds = bool(number(index.condition.value, context))
            index = index.consequent if holds else index.alternative
        size = array.shape[axis]
        is_whole = index == loops[outer + axis] and size == shape[outer + axis]
        if not (is_whole or (index == Constant("int", 0) and size == 1)):
            return None
    extents = [loop.extent for loop in statement.loops]
    if any(not isinstance(extent, Constant) for extent in extents):
        return None
    if tuple(int(number(extent.value, context)) for extent in extents) != shape:  # type: ignore[union-attr]
        return None
    return np.broadcast_to(array, shape)


def _plain(subscript: Subscript) -> Scalar | None:
    """Return the index of a subscript without guards; None for others."""
    remapped = subscript.guarded or subscript.below is not None or subscript.above is not None
    return None if remapped else subscript.index


def _first_value(fill: Fill, context: Block, stored: np.dtype[Any] | None) -> Array:
    value = number(fill.value.value, context)
    first = evaluate(fill.value, context, np.array(True))
    if stored is not None and fill.value.type == "int" and math.isinf(value):
        first = constant(value, stored).astype(context.dtypes["int"])
    return first.astype(np.uint64) if stored == np.uint64 else first


@dataclass(frozen=True, slots=True)
class _Write:
    """The stores of the steps of a block to one tensor: values for positions of the flattened
    result.
    """

    target: Array
    operator: StoreOperator
    places: Array
    values: Array

    def commit(self) -> None:
        flat = self.target.reshape(-1)
        if self.operator == "=":
            flat[self.places] = self.values
        else:
            CONTRACTIONS[self.operator].at(flat, self.places, self.values)


def _run_statement(statement: Statement, results: Mapping[Tensor, Array], context: Block) -> None:
    count = counter(statement)
    stores = tuple(store for store in statement.stores if store.tensor is not count)
    context = replace(context, locals=statement.locals)
    extents = _extents(statement.loops, context)
    guarded = tuple(guards(statement))
    for starts, stops in _boxes(extents, _free(statement, count)):
        grid = _grid(statement.loops, starts, stops, context)
        block = replace(context, indices=grid, values={})
        active = _active(statement, guarded, block)
        if not active.any():
            continue
        shape = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
        if count is not None:
            taken = np.broadcast_to(active, shape)
            before = np.cumsum(taken).reshape(shape) - taken
            block = replace(block, counts={count: results[count] + before})
        writes = [_prepare(store, results[store.tensor], block, active, shape) for store in stores]
        for write in writes:
            write.commit()
        if count is not None:
            results[count][...] += taken.sum()


def _extents(loops: tuple[Loop, ...], context: Block) -> tuple[int, ...]:
    """Return the extent of each loop; the largest one if it depends on outer loops."""
    found: tuple[int, ...] = ()
    for loop in loops:
        outer = found + (0,) * (len(loops) - len(found))
        grid = _grid(loops, (0,) * len(loops), outer, context)
        extent = evaluate(loop.extent, replace(context, indices=grid), np.array(False))
        found += (int(extent.max(initial=0)),)
    return found


def _free(statement: Statement, count: Tensor | None) -> tuple[bool, ...]:
    """Return for each loop whether its steps may be computed together, whatever they ``count``.

    All may if no tensor is both read and written, or written by two stores. Otherwise only those
    may that index the written tensors directly, in the same dimension at every access: the steps of
    such a loop access different elements.
    """
    written = [store.tensor for store in statement.stores if store.tensor is not count]
    read = [load for load in loads(statement) if load.tensor in written]
    if not read and len(set(written)) == len(written):
        return (True,) * len(statement.loops)
    accesses = [(load.tensor, load.subscripts) for load in read]
    accesses += [(s.tensor, s.subscripts) for s in statement.stores if s.tensor is not count]
    return tuple(
        all(
            _apart(loop.index, [at for owner, at in accesses if owner is tensor])
            for tensor in written
        )
        for loop in statement.loops
    )


def _apart(index: Index, accesses: list[tuple[Subscript, ...]]) -> bool:
    return any(
        all(subscript.index == index and subscript.below is None for subscript in dimension)
        for dimension in zip(*accesses, strict=True)
    )


def _boxes(
    extents: tuple[int, ...], free: tuple[bool, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield starts and stops of blocks that cover the iteration space, in the order of its
    steps.
    """
    sizes: list[int] = []
    room = BLOCK
    for extent, together in zip(reversed(extents), reversed(free), strict=True):
        sizes.insert(0, max(1, min(extent, room)) if together else 1)
        room //= sizes[0]
    ranges = [range(0, extent, size) for extent, size in zip(extents, sizes, strict=True)]
    for starts in itertools.product(*ranges):
        ends = zip(starts, sizes, extents, strict=True)
        yield starts, tuple(min(start + size, extent) for start, size, extent in ends)


def _grid(
    loops: tuple[Loop, ...], starts: tuple[int, ...], stops: tuple[int, ...], context: Block
) -> dict[str, Array]:
    return {
        loop.index.name: np.arange(start, stop, dtype=INDEX).reshape(
            [-1 if axis == other else 1 for other in range(len(loops))]
        )
        for axis, (loop, start, stop) in enumerate(zip(loops, starts, stops, strict=True))
    }


def _active(
    statement: Statement, guarded: tuple[tuple[Tensor, int, Subscript], ...], block: Block
) -> Array:
    """Return which steps of a block are executed, in a shape that broadcasts against it."""
    # Apart, because locals that are evaluated for the guards are not checked yet.
    unchecked = replace(block, values={})
    bounds = [
        (block.indices[loop.index.name], evaluate(loop.extent, block, np.array(False)))
        for loop in statement.loops
    ]
    bounds += [
        (
            evaluate(subscript.index, unchecked, np.array(False)),
            np.array(block.arrays[tensor].shape[dimension]),
        )
        for tensor, dimension, subscript in guarded
    ]
    active = np.array(True)
    for index, extent in bounds:
        within = (index >= 0) & (index < extent)
        # What holds everywhere is left out, so that the array of active steps stays small.
        active = active if within.all() else active & within
    if statement.condition is not None:
        active = active & evaluate(statement.condition, block, active)
    return active


def _prepare(
    store: Store, target: Array, block: Block, active: Array, shape: tuple[int, ...]
) -> _Write:
    """Return a store of the active steps of a block, of which there is at least one."""
    where = positions(store.tensor, store.subscripts, target.shape, block, active)
    strides = [prod(target.shape[axis + 1 :]) for axis in range(target.ndim)]
    position = sum(
        (index * stride for index, stride in zip(where, strides, strict=True)), np.array(0)
    )
    values = evaluate(store.value, block, active).astype(target.dtype, copy=False)
    if store.operator == "=":
        position, values = np.broadcast_to(position, shape), np.broadcast_to(values, shape)
        taken = np.broadcast_to(active, shape)
        return _Write(target, "=", position[taken], values[taken])
    position = position.reshape((1,) * (len(shape) - position.ndim) + position.shape)
    if not active.all():
        values = np.where(active, values, null(store.operator, values.dtype))
    contracted = tuple(axis for axis in range(len(shape)) if position.shape[axis] == 1)
    # A long sum loses no digits here, so that it can judge those of the other routes.
    exact = store.operator == "+=" and values.dtype == np.float32
    total = CONTRACTIONS[store.operator].reduce(
        np.broadcast_to(values, shape),
        axis=contracted,
        dtype=np.float64 if exact else values.dtype,
        keepdims=True,
    )
    return _Write(target, store.operator, position.ravel(), total.astype(values.dtype).ravel())
