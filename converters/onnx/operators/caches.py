"""The nodes of caches that grow: their used entries, and the buffers with new entries in them."""

from __future__ import annotations

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import decided, size_of
from tvm_nnef.converters.common.symbolic import Size, Symbolic, number
from tvm_nnef.converters.common.tensors import Buffered, Tensor
from tvm_nnef.converters.onnx.caches import DOMAIN, LENGTH
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator


@operator("CacheEntries", domain=DOMAIN)
def cache_entries(node: Node, builder: Builder) -> Tensor:
    """The used entries of a buffer."""
    whole, length, axis = node.input(0), node.input(1), node.integer("axis")
    key, room = (LENGTH, str(whole.shape[axis])), number(whole.shape[axis])
    if key not in node.memory:
        node.memory[key] = size_of(length, room, builder, room)
    size = node.memory[key]
    assert isinstance(size, (int, Symbolic))
    return first_entries(whole, axis, size, builder)


@operator("CacheBuffer", domain=DOMAIN)
def cache_buffer(node: Node, builder: Builder) -> Tensor:
    """The buffer of entries, which are written to it unless they are in it."""
    entries, whole, axis = node.input(0), node.input(1), node.integer("axis")
    if entries.buffered is not None:
        return entries.buffered.whole
    start = builder.constant(np.zeros(number(whole.shape[0]), np.int64))
    return stored(whole, entries, start, axis, builder)


@operator("CacheLength", domain=DOMAIN)
def cache_length(node: Node, builder: Builder) -> Tensor:
    """Return the number of entries."""
    return builder.dimension(node.input(0).shape[node.integer("axis")])


def first_entries(whole: Tensor, axis: int, count: Size, builder: Builder) -> Tensor:
    """The first entries of a buffer."""
    shape = (*whole.shape[:axis], count, *whole.shape[axis + 1 :])
    found = builder.call("onnx.first_entries", whole, as_shape=shape, axis=axis, count=count)
    found.buffered = Buffered(whole, axis)
    return found


def stored(whole: Tensor, new: Tensor, start: Tensor, axis: int, builder: Builder) -> Tensor:
    """A buffer with new entries from ``start`` on, for each item of its first dimension."""
    return builder.call("onnx.tensor_scatter", whole, new, start, axis=axis, circular=False)


def within(room: Size, start: Tensor, count: Size, builder: Builder) -> Tensor:
    """Return the positions from which entries are stored; a call without room is an error."""
    rows = builder.cast(builder.dimension(count), start.dtype)
    size = builder.cast(builder.dimension(room), start.dtype)
    end = builder.binary("math.add", start, rows)
    late = builder.binary("math.gt", end, size, "bool")
    positions = builder.call("layout.nonzero", late, as_type="int32")
    positions = decided(positions, (1,), 1, start.size, builder)
    message = f"a cache of {room} entries is full: use a longer one, or begin again (reset)"
    return builder.call("extra.impossible", start, positions, message=message)


def appended(past: Tensor, new: Tensor, axis: int, builder: Builder) -> Tensor:
    """Past entries and new ones; in a buffer if the past ones are in one."""
    buffered = past.buffered
    if buffered is None or buffered.axis != axis:
        return builder.concat([past, new], axis)
    before = builder.dimension(past.shape[axis])
    start = builder.expand(builder.reshape(before, (1,)), past.shape[:1])
    whole = stored(buffered.whole, new, start, axis, builder)
    return first_entries(whole, axis, past.shape[axis] + new.shape[axis], builder)
