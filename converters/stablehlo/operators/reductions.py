"""Converters of reductions: the standard ones, and any others step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, product
from tvm_nnef.converters.common.tensors import Block, Loop, Tensor
from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.stablehlo.operation import Operation, word
from tvm_nnef.converters.stablehlo.registry import operation

REDUCE: Mapping[str, str] = {
    "stablehlo.add": "math.sum_reduce", "stablehlo.multiply": "math.prod_reduce",
    "stablehlo.maximum": "math.max_reduce", "stablehlo.minimum": "math.min_reduce",
    "stablehlo.and": "math.all_reduce", "stablehlo.or": "math.any_reduce",
}  # fmt: skip
JOIN: Mapping[str, str] = {
    "stablehlo.add": "math.add", "stablehlo.multiply": "math.mul", "stablehlo.maximum": "math.max",
    "stablehlo.minimum": "math.min", "stablehlo.and": "math.and", "stablehlo.or": "math.or",
}  # fmt: skip


def known_computation(region: Any, dtype: str) -> str:
    """Return the only operation of a region of two scalars; empty for any other region."""
    block = region.blocks[0]
    ops = list(block.operations)
    if len(ops) != 2 or len(block.arguments) != 2 or len(ops[0].operands) != 2:
        return ""
    same = {ops[0].operands[0], ops[0].operands[1]} == set(block.arguments)
    if not same or list(ops[1].operands) != list(ops[0].results):
        return ""
    name = str(ops[0].operation.name)
    if dtype == "bool":
        return {"stablehlo.maximum": "stablehlo.or", "stablehlo.add": "stablehlo.or",
                "stablehlo.minimum": "stablehlo.and", "stablehlo.multiply": "stablehlo.and",
                }.get(name, name if name in ("stablehlo.and", "stablehlo.or") else "")  # fmt: skip
    return name if name in JOIN and name not in ("stablehlo.and", "stablehlo.or") else ""


def is_neutral(name: str, start: Array | None, dtype: str) -> bool:
    """Whether a start value changes nothing."""
    if start is None:
        return False
    whole = np.dtype(dtype).kind in "iu"
    info = np.iinfo(dtype) if whole else None
    neutral: Mapping[str, Any] = {
        "stablehlo.add": 0, "stablehlo.multiply": 1, "stablehlo.and": True, "stablehlo.or": False,
        "stablehlo.maximum": info.min if info else -math.inf,
        "stablehlo.minimum": info.max if info else math.inf,
    }  # fmt: skip
    return bool(start.reshape(()).item() == neutral[name])


@operation("reduce")
def reduce(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Reduce over some dimensions."""
    half = len(each.inputs) // 2
    tensors, starts = each.inputs[:half], each.inputs[half:]
    axes = each.integers("dimensions")
    if half == 1:
        name = known_computation(each.regions[0], tensors[0].dtype)
        if name:
            return [_known(name, tensors[0], starts[0], axes, builder)]
        if not axes:
            return tensors
    position = _extreme(each, tensors, starts, axes, builder)
    return position or _stepwise(each, tensors, starts, axes, builder)


def _known(name: str, x: Tensor, start: Tensor, axes: list[int], builder: Builder) -> Tensor:
    shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
    found = x
    if axes:
        found = builder.call(REDUCE[name], x, as_shape=shape, axes=axes, squeeze=True)
    if is_neutral(name, start.value, x.dtype):
        return found
    return builder.binary(JOIN[name], found, start)


def _extreme(
    each: Operation,
    tensors: Sequence[Tensor],
    starts: Sequence[Tensor],
    axes: Sequence[int],
    builder: Builder,
) -> list[Tensor] | None:
    """Return the positions of the max or min in the form that JAX writes; None for anything else.

    The region compares values, prefers NaN, and for equal values the lower position.
    """
    if len(tensors) != 2 or len(axes) != 1 or tensors[1].kind != "int":
        return None
    x, axis = tensors[0], axes[0]
    direction = _compared(each.regions[0].blocks[0], x.kind == "real")
    if direction is None or not _counts(tensors[1], axis, each):
        return None
    shape = [size for number, size in enumerate(x.shape) if number != axis]
    kind = "max" if direction == "GT" else "min"
    if x.kind == "bool":
        x = builder.cast(x, "int32")
    position = builder.call(
        f"math.arg{kind}", x, as_type=tensors[1].dtype, as_shape=shape, axis=axis, squeeze=True
    )
    if x.kind == "real":
        position = _first_nan(x, position, axis, builder)
    value = builder.call(f"math.{kind}_reduce", x, as_shape=shape, axes=[axis], squeeze=True)
    return [builder.cast(value, tensors[0].dtype), position]


def _compared(block: Any, is_real: bool) -> str | None:
    """Return ``GT`` or ``LT`` if a region selects between two values and their positions as JAX
    does.
    """
    *ops, _ = block.operations
    left, first, right, second = block.arguments
    pairs = {"values": (left, right), "positions": (first, second)}
    tests = [("EQ", pairs["values"]), ("LT", pairs["positions"])]
    kinds = ["compare", "compare", "and", "or", "select", "select"]
    if is_real:
        tests, kinds = [("NE", (left, left)), *tests], ["compare", "or", *kinds]
    names = [op.operation.name.removeprefix("stablehlo.") for op in ops]
    if names != ["compare", *kinds]:
        return None
    found = [
        (word(op.attributes["comparison_direction"]), tuple(op.operands))
        for op, name in zip(ops, names, strict=True)
        if name == "compare"
    ]
    chosen = [tuple(op.operands)[1:] for op in ops[-2:]]
    direction = found[0][0]
    if direction not in ("GT", "LT") or found[1:] != tests or chosen != [*pairs.values()]:
        return None
    return direction if found[0][1] == pairs["values"] else None


def _first_nan(x: Tensor, position: Tensor, axis: int, builder: Builder) -> Tensor:
    """Return the position of the first NaN of each row, or the given one if a row has none."""
    nan = builder.binary("math.ne", x, x, "bool")
    shape = position.shape
    some = builder.call("math.any_reduce", nan, as_shape=shape, axes=[axis], squeeze=True)
    counted = builder.cast(nan, "int32")
    first = builder.call(
        "math.argmax", counted, as_type=position.dtype, as_shape=shape, axis=axis, squeeze=True
    )
    return builder.select(some, first, position)


def _counts(positions: Tensor, axis: int, each: Operation) -> bool:
    """Whether a tensor counts along an axis from 0 on."""
    if positions.value is not None:
        shape = [1] * positions.rank
        shape[axis] = int(positions.shape[axis])
        return bool(np.all(positions.value == np.arange(shape[axis]).reshape(shape)))
    small = each.broadcasts.get(id(positions))
    if small is None or small[1].value is None:
        return False
    row = small[1].value
    sizes = [1] * row.ndim
    sizes[axis - (positions.rank - row.ndim)] = row.size
    return row.shape == tuple(sizes) and bool(np.all(row.reshape(-1) == np.arange(row.size)))


def _stepwise(
    each: Operation,
    tensors: Sequence[Tensor],
    starts: Sequence[Tensor],
    axes: Sequence[int],
    builder: Builder,
) -> list[Tensor]:
    """Convert any scalar computation: it combines one slice after the other."""
    kept_axes = [axis for axis in range(tensors[0].rank) if axis not in axes]
    shape = [tensors[0].shape[axis] for axis in kept_axes]
    count = product([tensors[0].shape[axis] for axis in axes])
    rows = [
        builder.reshape(builder.transpose(one, [*axes, *kept_axes]), (count, *shape))
        for one in tensors
    ]
    return fold_slices(each, rows, starts, count, builder)


def fold_slices(
    each: Operation,
    rows: Sequence[Tensor],
    starts: Sequence[Tensor],
    count: Size,
    builder: Builder,
) -> list[Tensor]:
    """Fold slices by a region's scalar computation, one after the other."""
    inner = Builder(builder)
    shape = rows[0].shape[1:]
    carried = [Tensor(one.dtype, shape, hint="total") for one in rows]
    begin = [builder.full(_variable(one, builder), shape, one.dtype) for one in starts]
    index = Tensor("int32", (), hint="step")
    items = [
        inner.call("layout.gather", one, index, as_shape=shape, axis=0) for one in rows
    ]  # fmt: skip
    found = each.run(each.regions[0], [*carried, *items], inner, True)
    yields = tuple(completed(one, shape, inner) for one in found)
    finals = tuple(Tensor(one.dtype, shape) for one in carried)
    pairs = tuple(zip(carried, begin, strict=True))
    builder.steps.append(
        Loop(Block(tuple(inner.steps), yields), pairs, (), index, count, None, finals)
    )
    return list(finals)


def _variable(start: Tensor, builder: Builder) -> Tensor:
    return builder.computed(start)


def completed(tensor: Tensor, shape: Sequence[Size], builder: Builder) -> Tensor:
    """Return a result of a block in its whole shape, computed inside of the block."""
    tensor = builder.computed(tensor)
    if tensor.shape != tuple(shape):
        if tensor.rank == 0:
            return builder.full(tensor, tuple(shape), tensor.dtype)
        return builder.expand(tensor, shape)
    return builder.call("math.iden", tensor) if tensor.value is not None else tensor
