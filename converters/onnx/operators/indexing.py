"""Operators that read or write at positions given by tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import decided
from tvm_nnef.converters.common.ranking import first_in_order
from tvm_nnef.converters.common.symbolic import Size, maximum, minimum
from tvm_nnef.converters.common.symbolic import number as number_of
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.caches import within
from tvm_nnef.converters.onnx.registry import operator


@operator("Gather")
def gather(node: Node, builder: Builder) -> Tensor:
    """The slices that indices name; negative ones count from the end."""
    data = node.input(0)
    return gathered(data, node.input(1), node.axis(data.rank), builder)


def gathered(data: Tensor, index: Tensor, axis: int, builder: Builder) -> Tensor:
    """The slices along an axis, counted from the front, that indices name."""
    shape = (*data.shape[:axis], *index.shape, *data.shape[axis + 1 :])
    size = data.shape[axis]
    given = None if index.value is None else index.value.astype(np.int64)
    if given is not None and (isinstance(size, int) or not (given < 0).any()):
        positions = given if not isinstance(size, int) else np.where(given < 0, given + size, given)
        if not index.rank and data.rank:
            position = int(positions)
            return builder.squeeze(builder.slice(data, axis, position, position + 1), [axis])
        plain = builder.constant(positions, index.dtype, index.source)
        return builder.call("layout.gather", data, plain, as_shape=shape, axis=axis)
    return builder.call("extra.gather", data, index, as_shape=shape, axis=axis)


@operator("GatherElements", since=11)
def gather_elements(node: Node, builder: Builder) -> Tensor:
    """For each index, the element at it along an axis."""
    data, index = node.input(0), node.input(1)
    axis = node.axis(data.rank)
    return builder.call("extra.gather_elements", data, index, as_shape=index.shape, axis=axis)


@operator("GatherND", since=11)
def gather_nd(node: Node, builder: Builder) -> Tensor:
    """The slices that index tuples name."""
    data, index, batch = node.input(0), node.input(1), node.integer("batch_dims")
    rest = data.shape[batch + index.shape[-1] :]
    return builder.call(
        "extra.gather_nd", data, index, as_shape=(*index.shape[:-1], *rest), batch_dims=batch
    )


_REDUCTIONS = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _reduction(node: Node) -> str:
    found = node.text("reduction", "none")
    if found not in _REDUCTIONS:
        raise Invalid(f"the reduction '{found}' is not known")
    return _REDUCTIONS[found]


@operator("Scatter", since=9)
def scatter(node: Node, builder: Builder) -> Tensor:
    """The old name of ScatterElements."""
    return _scatter_elements(node, builder)


@operator("ScatterElements", since=11)
def scatter_elements(node: Node, builder: Builder) -> Tensor:
    """A copy with elements at indices along an axis replaced, or joined with what comes."""
    return _scatter_elements(node, builder)


def _scatter_elements(node: Node, builder: Builder) -> Tensor:
    data, index, updates = node.input(0), node.input(1), node.input(2)
    name = f"extra.scatter_elements_{_reduction(node)}"
    return builder.call(name, data, index, updates, axis=node.axis(data.rank))


@operator("ScatterND", since=11)
def scatter_nd(node: Node, builder: Builder) -> Tensor:
    """A copy with slices that index tuples name replaced, or joined with what comes."""
    data, index, updates = node.input(0), node.input(1), node.input(2)
    return builder.call(f"extra.scatter_nd_{_reduction(node)}", data, index, updates)


@operator("TensorScatter", since=24)
def tensor_scatter(node: Node, builder: Builder) -> Tensor:
    """A cache with new entries written from a position on, for each item of the batch."""
    past, update, where = node.input(0), node.input(1), node.optional(2)
    axis, circular = node.axis(past.rank, -2), node.text("mode", "linear") == "circular"
    if where is None:
        where = builder.constant(np.zeros(past.shape[0], np.int64))
    elif not circular:
        where = within(past.shape[axis], where, update.shape[axis], builder)
    return builder.call("onnx.tensor_scatter", past, update, where, axis=axis, circular=circular)


@operator("Compress", since=9)
def compress(node: Node, builder: Builder) -> Tensor:
    """The slices where a condition holds; their number is data-dependent unless declared."""
    x, condition = node.input(0), node.input(1)
    if not node.has("axis"):
        x = builder.reshape(x, (x.size,))
    axis = node.axis(x.rank)
    size = minimum(condition.shape[0], x.shape[axis])
    kept = builder.slice(condition, 0, 0, size)
    shape = node.known_shape()
    if shape is None:
        found = decided(
            builder.call("layout.nonzero", kept, as_type="int64"), (1,), 1, size, builder
        )
        positions = builder.squeeze(found, [0])
        shape = (*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :])
        return builder.call("layout.gather", x, positions, as_shape=shape, axis=axis)
    x = builder.slice(x, axis, 0, size)
    position = builder.call("extra.positions_of_true", kept, as_type="int64")
    return builder.call(
        "extra.compress", x, kept, position, as_shape=shape, axis=axis, count=shape[axis]
    )


@operator("NonZero", since=9)
def nonzero(node: Node, builder: Builder) -> Tensor:
    """The indices of elements that are not zero, a column each."""
    x, shape = node.input(0), node.known_shape()
    if shape is None or not all(isinstance(size, int) for size in shape):
        return decided(
            builder.call("layout.nonzero", x, as_type="int64"), (x.rank,), 1, x.size, builder
        )
    if x.kind != "bool":
        x = builder.cast(x, "bool")
    flat = builder.reshape(x, (x.size,))
    position = builder.call("extra.positions_of_true", flat, as_type="int64")
    spread = builder.reshape(position, x.shape)
    return builder.call("extra.nonzero", x, spread, as_type="int64", as_shape=shape, count=shape[1])


@operator("Unique", since=11)
def unique(node: Node, builder: Builder) -> Sequence[Tensor]:
    """The distinct slices, their first positions, which one each is, and how often it comes."""
    x = node.input(0)
    axis = node.axis(x.rank) if node.has("axis") else None
    if axis is None:
        rows = builder.reshape(x, (x.size, 1))
    else:
        order = [axis, *(position for position in range(x.rank) if position != axis)]
        turned = builder.transpose(x, order)
        rows = builder.reshape(turned, (x.shape[axis], x.size // maximum(x.shape[axis], 1)))
    if rows.shape[1] == 1:
        numbers = builder.reshape(rows, rows.shape[:1])
        values, *others = _distinct(numbers, node.flag("sorted", True), builder)
        return _unrolled(values, x, axis, values.shape[0], builder), *others
    number, width = (number_of(size) for size in rows.shape)
    compared = builder.call("onnx.row_order", rows, as_type="int64", as_shape=(number, number))
    first = builder.call("onnx.first_rows", compared, as_type="bool", as_shape=(number,))
    name = "onnx.sorted_rank" if node.flag("sorted", True) else "onnx.first_rank"
    inverse = builder.call(name, compared, first, as_type="int64", as_shape=(number,))
    # The position of the row of each rank; their number is data-dependent, at most that of rows.
    found = builder.call("onnx.rows_of_ranks", first, inverse, as_type="int64")
    used = builder.call("onnx.used_ranks", first, as_type="bool")
    ranks = decided(builder.call("layout.nonzero", used, as_type="int64"), (1,), 1, number, builder)
    count = ranks.shape[1]
    chosen = builder.squeeze(ranks, [0])
    positions = builder.call("layout.gather", found, chosen, as_shape=(count,), axis=0)
    values = builder.call("layout.gather", rows, positions, as_shape=(count, width), axis=0)
    counts = builder.call("onnx.count_ranks", chosen, inverse, as_type="int64", as_shape=(count,))
    return _unrolled(values, x, axis, count, builder), positions, inverse, counts


def _distinct(x: Tensor, ordered: bool, builder: Builder) -> tuple[Tensor, ...]:
    """The distinct numbers, their first positions, which one each is, and how often it comes.

    Equal numbers are neighbours in order, in the order of their positions.
    """
    (number,) = x.shape
    sortable = builder.cast(x, "int32") if x.kind == "bool" else x
    values, order = first_in_order(sortable, 0, number, builder, largest=False)
    begins = builder.call("onnx.first_of_equal", values, as_type="int64")
    runs, starts = _numbered(begins, builder)
    inverse = builder.call("onnx.at_positions", runs, order)
    counts = builder.call("onnx.lengths_of_runs", starts, begins)
    positions = builder.call("layout.gather", order, starts, as_shape=starts.shape, axis=0)
    if not ordered:
        first = builder.call("layout.gather", positions, inverse, as_shape=(number,), axis=0)
        numbers, positions = _numbered(builder.call("onnx.own_positions", first), builder)
        run = builder.call("layout.gather", inverse, positions, as_shape=positions.shape, axis=0)
        counts = builder.call("layout.gather", counts, run, as_shape=positions.shape, axis=0)
        inverse = builder.call("layout.gather", numbers, first, as_shape=(number,), axis=0)
    return (
        builder.call("layout.gather", x, positions, as_shape=positions.shape, axis=0),
        positions,
        inverse,
        counts,
    )


def _numbered(begins: Tensor, builder: Builder) -> tuple[Tensor, Tensor]:
    """The number of ones up to each element, less one, and the positions of the ones."""
    (number,) = begins.shape
    total = builder.call("math.cumsum", begins, axis=0)
    found = decided(builder.call("layout.nonzero", begins), (1,), 1, number, builder)
    return builder.call("math.sub", total, 1), builder.squeeze(found, [0])


def _unrolled(values: Tensor, x: Tensor, axis: int | None, count: Size, builder: Builder) -> Tensor:
    if axis is None:
        return builder.reshape(values, (count,))
    others = [size for position, size in enumerate(x.shape) if position != axis]
    spread = builder.reshape(values, (count, *others))
    order = [*range(1, axis + 1), 0, *range(axis + 1, x.rank)]
    return builder.transpose(spread, order)
