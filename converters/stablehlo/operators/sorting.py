"""Converters of sorting by any comparator, and of top-k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.ranking import first_in_order
from tvm_nnef.converters.common.symbolic import number
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.stablehlo.operation import Operation, word
from tvm_nnef.converters.stablehlo.operators.elementwise import total_order
from tvm_nnef.converters.stablehlo.operators.reductions import completed
from tvm_nnef.converters.stablehlo.registry import operation

_KEYED = frozenset(("stablehlo.constant", "stablehlo.compare", "stablehlo.select"))


@operation("sort")
def sort(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Sort tensors by a comparator of the elements at two positions."""
    axis = each.integer("dimension")
    tensors = [builder.computed(one) for one in each.inputs]
    if tensors[0].shape[axis] in (0, 1):
        return tensors
    key = _single_key(each.regions[0].blocks[0])
    if key is None:
        return _ranked(each, tensors, axis, builder)
    keys = _ranks(tensors[key.operand], builder, key)
    values, places = first_in_order(
        keys, axis, keys.shape[axis], builder, largest=key.largest, dtype="int32"
    )
    return [values if one is keys else _taken(one, places, axis, builder) for one in tensors]


@dataclass(frozen=True)
class _Key:
    """The operand that alone decides an order, and whether its largest element is first.

    ``is_total`` if NaN is greater than infinity, unlike the order of ``algo.top_k``, which puts it
    last. ``zeros_differ`` if -0 is before 0.
    """

    operand: int
    largest: bool
    is_total: bool = False
    zeros_differ: bool = False


def _ranks(x: Tensor, builder: Builder, key: _Key) -> Tensor:
    """Return numbers that ``algo.top_k`` orders in the same way as the key."""
    if x.kind == "bool":
        return builder.cast(x, "int32")
    if x.kind != "real" or not key.is_total:
        return x
    if not key.zeros_differ:
        is_zero = builder.binary("math.eq", x, 0.0, "bool")
        x = builder.select(is_zero, builder.constant(0, x.dtype), x)
    return total_order(x, builder)


def _taken(x: Tensor, positions: Tensor, axis: int, builder: Builder) -> Tensor:
    return builder.call("extra.gather_elements", x, positions, as_shape=positions.shape, axis=axis)


def _single_key(block: Any) -> _Key | None:
    """Return the operand that alone decides the order; None for any other comparator.

    JAX compares reals in the total order, with -0 and 0 made equal, and all NaN. A plain comparison
    does not define their order.
    """
    *ops, end = list(block.operations)
    compared = ops[-1] if ops and list(end.operands) == list(ops[-1].results) else None
    if compared is None or compared.operation.name != "stablehlo.compare":
        return None
    if any(op.operation.name not in _KEYED for op in ops):
        return None
    direction = word(compared.attributes["comparison_direction"])
    arguments = list(block.arguments)
    keys = [_key(value, arguments) for value in compared.operands]
    if direction not in ("LT", "GT") or None in keys or keys[0] ^ 1 != keys[1]:  # type: ignore[operator]
        return None
    chosen = keys[0] // 2  # type: ignore[operator]
    largest = (direction == "GT") != bool(keys[0] % 2)  # type: ignore[operator]
    has_type = "compare_type" in compared.attributes
    ordered = word(compared.attributes["compare_type"]) if has_type else ""
    zeros_differ = len(ops) == 1
    is_total = ordered == "TOTALORDER" and (largest or zeros_differ)
    return _Key(chosen, largest, is_total, zeros_differ)


def _key(value: Any, arguments: Sequence[Any]) -> int | None:
    """Return the argument that a value is, with all zeros, and all NaN, made equal."""
    while value not in arguments:
        owner = value.owner
        if getattr(owner, "name", "") != "stablehlo.select":
            return None
        value = owner.operands[2]
    return arguments.index(value)


def _ranked(
    each: Operation, tensors: Sequence[Tensor], axis: int, builder: Builder
) -> list[Tensor]:
    """Return each element's rank: the number of smaller elements, and of equal ones before it."""
    rank = tensors[0].rank
    count = number(tensors[0].shape[axis])
    order = [*(k for k in range(rank) if k != axis), axis]
    last = [builder.transpose(one, order) for one in tensors]
    rows = [builder.unsqueeze(one, [rank]) for one in last]
    columns = [builder.unsqueeze(one, [rank - 1]) for one in last]
    shape = (*last[0].shape, count)

    def compared(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
        pairs = [one for both in zip(left, right, strict=True) for one in both]
        (found,) = each.run(each.regions[0], pairs, builder, True)
        return completed(found, shape, builder)

    # [..., j, i]: whether the element at j comes before that at i
    before, after = compared(rows, columns), compared(columns, rows)
    earlier = builder.constant(np.arange(count)[:, None] < np.arange(count)[None, :])
    equal = builder.call("math.not", builder.binary("math.or", before, after))
    first = builder.binary("math.or", before, builder.binary("math.and", equal, earlier))
    positions = builder.call(
        "math.sum_reduce", builder.cast(first, "int32"), as_shape=last[0].shape,
        axes=[rank - 1], squeeze=True,
    )  # fmt: skip
    back = [order.index(k) for k in range(rank)]
    return [
        builder.transpose(
            builder.call("extra.scatter_elements_set", one, positions, one, axis=rank - 1), back
        )
        for one in last
    ]


@operation("chlo.top_k")
def top_k(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Return the largest elements along the last dimension, and their positions."""
    x, k = each.inputs[0], each.integer("k")
    keys = _ranks(x, builder, _Key(0, largest=True, is_total=True, zeros_differ=True))
    values, places = first_in_order(keys, x.rank - 1, k, builder, dtype=each.dtype(1))
    return [values if keys is x else _taken(x, places, x.rank - 1, builder), places]
