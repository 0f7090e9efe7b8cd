"""Attention, as every operator for it needs it: products of queries and keys, limits, softmax.

Input: queries, keys and values with a dimension for the heads; heads of queries may share those of
keys in groups. Output: the weighted sums of values, and what is computed on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible


@dataclass(frozen=True, slots=True)
class Limits:
    """Which keys a query may look at, by their positions.

    Queries start at the position ``before``, or at ``start`` for each item of the batch; keys from
    ``total`` on are not there. ``left`` and ``right`` are how many keys on a side of the query
    count at most, if they are not negative.
    """

    causal: bool = False
    left: int = -1
    right: int = -1
    before: Size = 0
    start: Tensor | None = None
    total: Tensor | None = None

    @property
    def limiting(self) -> bool:
        """Whether any key may be out of the limits."""
        return self.causal or self.left >= 0 or self.right >= 0 or self.total is not None

    def applied(self, x: Tensor, builder: Builder, other: float | None = None) -> Tensor:
        """Scores or additions to them, -inf or another number for keys out of the limits."""
        if not self.limiting:
            return x
        tensors = [self.start] if self.total is None else [self.start, self.total]
        return builder.call(
            "onnx.visible_scores", x, *(tensors if any(tensors) else ()),
            causal=self.causal or None, left=None if self.left < 0 else self.left,
            right=None if self.right < 0 else self.right,
            before=None if self.start is not None or self.before == 0 else self.before, other=other,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attention:
    """Results of attention: the output, its scores after each step, and their softmax."""

    result: Tensor
    products: Tensor
    capped: Tensor
    biased: Tensor
    limited: Tensor
    weights: Tensor


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    builder: Builder,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: Tensor | None = None,
    limits: Limits = Limits(),
    sink: Tensor | None = None,
    precision: str | None = None,
    guarded: bool = False,
) -> Attention:
    """The sums of values weighted by the softmax of scores, [batch, head, query, element].

    The ``bias`` broadcasts to the scores. ``sink`` is one more score for each head, of no key.
    The softmax is computed in a ``precision``, by default that of the queries. If ``guarded``, a
    query to which no key is left has weights of zero.
    """
    batch, heads, rows, depth = query.shape
    groups = key.shape[1]
    if scale is None:
        scale = float(np.float32(1.0 / np.sqrt(float(_number(depth)))))
    scaled = query if scale == 1.0 else builder.binary("math.mul", query, scale)
    shape = (batch, heads, rows, key.shape[2])
    apart = sink is None and (heads != groups or _entries(key) is not None)
    if apart:
        # Groups stay a dimension of the scores: their rows are not joined.
        scaled = _in_groups(scaled, groups, builder)
        bias = None if bias is None else _in_groups(bias, groups, builder)
    product = _product(scaled, key, groups, True, builder)
    product = product if apart else builder.reshape(product, shape)
    capped = product
    if softcap > 0.0:
        bent = builder.call("math.tanh", builder.binary("math.div", product, softcap))
        capped = builder.binary("math.mul", bent, softcap)
    biased = capped if bias is None else builder.binary("math.add", capped, bias)
    limited = limits.applied(biased, builder)
    logits = builder.cast(limited, precision) if precision else limited
    if sink is None:
        weights = builder.call("nn.softmax", logits, axes=[logits.rank - 1])
    else:
        column = builder.reshape(builder.cast(sink, logits.dtype), (heads, 1, 1))
        weights = builder.call("onnx.softmax_with_sink", logits, column)
    weights = builder.cast(weights, query.dtype)
    if guarded:
        weights = _guarded(weights, bias, limits, builder)
    mixed = _product(weights, value, groups, False, builder)
    result = builder.reshape(mixed, (batch, heads, rows, value.shape[-1]))
    shown = (product, capped, biased, limited, weights)
    return Attention(result, *(builder.reshape(each, shape) for each in shown))


def _number(size: Size) -> int:
    if not isinstance(size, int):
        raise Unconvertible(
            f"the size of its heads, {size}, is known only at run time",
            "declare the shape of the queries in the model",
        )
    return size


def _in_groups(x: Tensor, groups: Size, builder: Builder) -> Tensor:
    """A tensor whose heads, if it has any, are two dimensions: groups, and heads of a group."""
    *before, heads, rows, size = [1] * (3 - x.rank) + list(x.shape)
    split = (1, 1) if heads == 1 else (groups, heads // groups)
    return builder.reshape(x, (*before, *split, rows, size))


def _entries(y: Tensor) -> Tensor | None:
    """The buffer whose first entries are the rows of the matrices of each head, if there is one."""
    return y.buffered.whole if y.buffered is not None and y.buffered.axis == 2 else None


def _product(x: Tensor, y: Tensor, groups: Size, transposed: bool, builder: Builder) -> Tensor:
    """Products of the matrices of each head; those of a group share the second one."""
    whole, columns = _entries(y), y.shape[-2] if transposed else y.shape[-1]
    if x.rank == 4 and (whole is not None or x.shape[1] != groups):
        x = _in_groups(x, groups, builder)
    shape = (*x.shape[:-1], columns)
    if whole is None:
        y = y if x.rank == 4 else builder.unsqueeze(y, [2])
        return builder.call("linalg.matmul", x, y, as_shape=shape, transB=transposed or None)
    # The entries are read where they are, once for all rows of a group.
    name = "onnx.products_with_entries" if transposed else "onnx.sums_of_entries"
    return builder.call(name, x, whole, as_shape=shape, count=columns if transposed else None)


def _guarded(weights: Tensor, bias: Tensor | None, limits: Limits, builder: Builder) -> Tensor:
    """The weights, zero for a query to which the bias and the limits leave no key."""
    batch, *heads, rows, keys = weights.shape
    if bias is None:
        bias = builder.full(0.0, (batch, *(1 for _ in heads), rows, keys), weights.dtype)
    if limits.limiting:
        whole = (*([1] * (weights.rank - bias.rank)), *bias.shape)
        shape = (batch, *whole[1:-2], rows, keys)
        bias = limits.applied(builder.expand(builder.reshape(bias, whole), shape), builder)
    last = (*bias.shape[:-1], 1)
    highest = builder.call("math.max_reduce", bias, as_shape=last, axes=[bias.rank - 1])
    empty = builder.binary("math.eq", highest, float("-inf"), "bool")
    return builder.select(empty, 0.0, weights)


def split_heads(x: Tensor, heads: Size, builder: Builder) -> Tensor:
    """Rows [batch, row, head * element] as [batch, head, row, element]."""
    if x.rank == 4:
        return x
    batch, rows, size = x.shape
    if isinstance(size, int) and isinstance(heads, int) and (heads < 1 or size % heads):
        raise Invalid(f"{size} elements are not a number for each of {heads} heads")
    split = builder.reshape(x, (batch, rows, heads, size // heads))
    return builder.transpose(split, [0, 2, 1, 3])


def join_heads(x: Tensor, builder: Builder) -> Tensor:
    """The inverse of :func:`split_heads`."""
    batch, heads, rows, size = x.shape
    return builder.reshape(builder.transpose(x, [0, 2, 1, 3]), (batch, rows, heads * size))


def rotated(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor | None,
    interleaved: bool,
    builder: Builder,
) -> Tensor:
    """Heads with elements rotated by the angles of their positions.

    The tables have a row for each position, or without positions one for each item and row.
    """
    batch, _, rows, _ = x.shape

    def of(table: Tensor) -> Tensor:
        if positions is None:
            return builder.reshape(table, (batch, rows, table.shape[-1]))
        shape = (*positions.shape, table.shape[1])
        found = builder.call("extra.gather", table, positions, as_shape=shape, axis=0)
        return builder.expand(found, (batch, rows, table.shape[1]))

    return builder.call("onnx.rotate_pairs", x, of(cosines), of(sines), interleaved=interleaved)
