"""Attention and rotary embeddings, of the standard domain and of ONNX Runtime's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.symbolic import Size, number
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.attention import (
    Limits,
    attention,
    join_heads,
    rotated,
    split_heads,
)
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.caches import appended, first_entries, stored, within
from tvm_nnef.converters.onnx.operators.normalization import rms_norm
from tvm_nnef.converters.onnx.operators.quantized import DOMAIN
from tvm_nnef.converters.onnx.registry import operator
from tvm_nnef.converters.onnx.types import DTYPE_OF

_WITHOUT_BEAMS = "decode without beams, or reorder caches outside"
"""The hint where beams are asked for."""

_FILTER = -10000.0
"""The number that ONNX Runtime adds to the scores of masked keys by default."""


def _refuse(node: Node, positions: Sequence[int], what: str, hint: str) -> None:
    """Raises Unconvertible if an input at one of some positions is there."""
    for position in positions:
        if node.optional(position) is not None:
            raise Unconvertible(f"its input {position} ({what}) cannot be converted", hint)


def _scale(node: Node) -> float | None:
    """The scale that a node gives, None for the default."""
    return node.real("scale") or None


# --- the standard operator ------------------------------------------------------------------


@operator("Attention", since=23)
def standard_attention(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """Attention with a mask, past keys and values, and heads in groups."""
    query, key, value = (
        split_heads(node.input(position), node.integer(heads, 1), builder)
        for position, heads in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads"))
    )
    past_key, past_value, lengths = (node.optional(position) for position in (4, 5, 6))
    before: Size = 0
    if past_key is not None and past_value is not None:
        before = past_key.shape[2]
        key = appended(past_key, key, 2, builder)
        value = appended(past_value, value, 2, builder)
    start = None
    if lengths is not None and past_key is None:
        rows = builder.dimension(query.shape[2])
        start = builder.binary("math.sub", lengths, builder.cast(rows, lengths.dtype))
    limits = Limits(
        node.flag("is_causal"), node.integer("left_window_size", -1),
        node.integer("right_window_size", -1), before, start, lengths,
    )  # fmt: skip
    mask = node.optional(3)
    bias = None if mask is None else _additive(mask, key.shape[2], query.dtype, builder)
    precision = node.integer("softmax_precision")
    found = attention(
        query, key, value, builder, scale=_scale(node), softcap=node.real("softcap"), bias=bias,
        limits=limits, precision=DTYPE_OF[precision] if precision else None,
        guarded=bias is not None or lengths is not None,
    )  # fmt: skip
    is_flat = node.input(0).rank == 3
    result = join_heads(found.result, builder) if is_flat else found.result
    shown = (found.products, found.capped, found.limited, found.weights)
    mode = node.integer("qk_matmul_output_mode")
    return result, key, value, shown[mode] if node.wants(3) else None


def _additive(mask: Tensor, keys: Size, dtype: str, builder: Builder) -> Tensor:
    """A mask as additions to scores; keys that it does not have are masked."""
    if mask.kind == "bool":
        mask = builder.select(mask, builder.constant(0.0, dtype), builder.constant(-np.inf, dtype))
    return _extended(mask, keys, float("-inf"), builder)


# --- ONNX Runtime's operators ---------------------------------------------------------------


@operator("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """Attention of projected queries, keys and values, which may be packed or come from a cache."""
    _refuse(node, [9], "cache_indirection", _WITHOUT_BEAMS)
    heads = node.integer("num_heads")
    query, key, value = _parts(node, heads, builder)
    cache = _Cache(node, 6, 7, 8, builder)
    return _masked(node, query, cache.extended(key, value), 4, 5, builder)


@operator("DecoderMaskedMultiHeadAttention", domain=DOMAIN)
def decoder_masked_attention(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """The same of a single row."""
    _refuse(node, [9], "cache_indirection", _WITHOUT_BEAMS)
    width = node.optional(8)
    if width is not None and not (width.value is not None and int(width.value.reshape(-1)[0]) == 1):
        raise Unconvertible("its input 8 (beam_width) is not 1", _WITHOUT_BEAMS)
    heads = node.integer("num_heads")
    moved = (*node.inputs[:3], node.optional(10))
    query, key, value = _parts(replace(node, inputs=moved), heads, builder)
    cache = _Cache(node, 5, 6, 7, builder)
    return _masked(node, query, cache.extended(key, value), 3, 4, builder)


@operator("Attention", domain=DOMAIN)
def own_attention(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """Attention with the projections of its input; keys and values of the past are one tensor."""
    if node.flag("do_rotary"):
        raise Unconvertible("do_rotary cannot be converted", "export RotaryEmbedding beside it")
    heads = node.integer("num_heads")
    projected = matrix_product(node.input(0), node.input(1), builder)
    bias = node.optional(2)
    if bias is not None:
        projected = builder.binary("math.add", projected, bias)
    width = projected.shape[2]
    sizes: Sequence[Size] = node.integers("qkv_hidden_sizes") or [width // 3] * 3
    query, key, value = (
        split_heads(each, heads, builder) for each in _sections(projected, sizes, builder)
    )
    past = node.optional(4)
    halves = () if past is None else tuple(
        builder.squeeze(builder.slice(past, 0, position, position + 1), [0])
        for position in range(2)
    )  # fmt: skip
    cache = _Cache(
        replace(node, inputs=(*halves, node.optional(6)) if halves else ()), 0, 1, 2, builder
    )
    present = cache.extended(key, value)
    result, *_ = _masked(node, query, present, 3, 5, builder)
    if not node.wants(1):
        return (result,)
    both = [builder.unsqueeze(each, [0]) for each in (present.key, present.value)]
    return result, builder.concat(both, 0)


def _sections(x: Tensor, sizes: Sequence[Size], builder: Builder) -> list[Tensor]:
    """A tensor cut along its last dimension."""
    found, at = [], 0
    for size in sizes:
        found.append(builder.slice(x, -1, at, at + size))
        at += size  # type: ignore[assignment]
    return found


def _parts(node: Node, heads: int, builder: Builder) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values with heads, of what may be packed, and with their biases."""
    query, key, value, bias = node.input(0), *(node.optional(at) for at in (1, 2, 3))
    if query.rank == 5:
        query, key, value = _packed(query, builder)
    elif key is None:
        size = query.shape[2] // 3
        query, key, value = _sections(query, [size] * 3, builder)
    elif key.rank == 5:
        key, value = _packed(key, builder)
    assert key is not None and value is not None
    if bias is not None:
        widths = [query.shape[2], query.shape[2], bias.shape[0] - 2 * query.shape[2]]
        added = _sections(bias, widths, builder)
        query, key, value = (
            each if each.rank == 4 else builder.binary("math.add", each, own)
            for each, own in zip((query, key, value), added, strict=True)
        )
    query, key, value = (split_heads(each, heads, builder) for each in (query, key, value))
    return query, key, value


def _packed(x: Tensor, builder: Builder) -> list[Tensor]:
    """The tensors that are packed as [batch, row, head, position, element], with flat heads."""
    batch, rows, heads, count, size = x.shape
    cut = (builder.slice(x, 3, at, at + 1) for at in range(number(count)))
    return [builder.reshape(each, (batch, rows, heads * size)) for each in cut]


@dataclass(frozen=True, slots=True)
class _Present:
    """Keys and values with those of the past, and which of them are in use."""

    key: Tensor
    value: Tensor
    before: Size = 0
    start: Tensor | None = None
    total: Tensor | None = None


class _Cache:
    """Past keys and values: tensors that grow, or that have room for new entries."""

    def __init__(self, node: Node, key: int, value: int, length: int, builder: Builder) -> None:
        self._key, self._value = node.optional(key), node.optional(value)
        self._length, self._builder = node.optional(length), builder

    def extended(self, key: Tensor, value: Tensor) -> _Present:
        """Past and new keys and values."""
        past_key, past_value, builder = self._key, self._value, self._builder
        if past_key is None or past_value is None:
            return _Present(key, value)
        if self._length is None:
            return _Present(
                appended(past_key, key, 2, builder),
                appended(past_value, value, 2, builder),
                past_key.shape[2],
            )
        length = builder.reshape(self._length, (1,))
        start = builder.expand(length, key.shape[:1])
        rows = builder.cast(builder.dimension(key.shape[2]), start.dtype)
        total = builder.binary("math.add", start, rows)
        key, value = (
            written(past, new, start, past.shape[2], builder)
            for past, new in ((past_key, key), (past_value, value))
        )
        return _Present(key, value, 0, start, total)


def written(past: Tensor, new: Tensor, start: Tensor, length: Size, builder: Builder) -> Tensor:
    """A cache of a length: past entries, and new ones from ``start`` on for each item."""
    if past.buffered is not None:
        whole = stored(past.buffered.whole, new, start, 2, builder)
        return first_entries(whole, 2, length, builder)
    if length == past.shape[2]:
        start = within(length, start, new.shape[2], builder)
        return stored(past, new, start, 2, builder)
    batch, heads, _, size = past.shape
    shape = (batch, heads, length, size)
    return builder.call("onnx.with_new_entries", past, new, start, as_shape=shape, length=length)


def _masked(
    node: Node,
    query: Tensor,
    present: _Present,
    mask: int,
    bias: int,
    builder: Builder,
) -> list[Tensor]:
    """Flat attention with the mask and bias at some positions, the present cache, and scores."""
    keys, batch = present.key.shape[2], query.shape[0]
    added = node.optional(bias)
    added = None if added is None else _extended(added, keys, 0.0, builder)
    masking = _mask_bias(node, node.optional(mask), batch, keys, query.dtype, builder)
    if added is None:
        added = masking
    elif masking is not None:
        added = builder.binary("math.add", added, masking)
    causal = node.flag("unidirectional")
    limits = Limits(causal, before=present.before, start=present.start, total=present.total)
    found = attention(
        query, present.key, present.value, builder, scale=_scale(node), bias=added, limits=limits
    )
    return [join_heads(found.result, builder), present.key, present.value, found.biased]


def _mask_bias(
    node: Node, mask: Tensor | None, batch: Size, keys: Size, dtype: str, builder: Builder
) -> Tensor | None:
    """Return the addend of scores for a mask: lengths of the items, or 0 where a key is masked."""
    if mask is None:
        return None
    value = node.real("mask_filter_value", _FILTER)
    if mask.rank == 1:
        count = mask.shape[0]
        twice = count != batch and count == 2 * batch
        if count != batch and not twice:
            hint = "give a mask [batch, keys], or the lengths [batch]"
            raise Unconvertible(f"a mask of {count} elements cannot be converted", hint)
        parts = [mask]
        if twice:
            parts = [builder.slice(mask, 0, 0, batch), builder.slice(mask, 0, batch, count)]
        return builder.call(
            "onnx.padding_bias", *parts, as_type=dtype, as_shape=(batch, 1, 1, keys),
            length=keys, value=value,
        )  # fmt: skip
    if mask.rank not in (2, 3):
        raise Unconvertible(f"a mask of rank {mask.rank} cannot be converted", "use rank 2 or 3")
    middle = [1] * (4 - mask.rank)
    shape = (mask.shape[0], *middle, *mask.shape[1:])
    there = builder.binary("math.gt", builder.reshape(mask, shape), 0, "bool")
    options = (builder.constant(each, dtype) for each in (0.0, value))
    return _extended(builder.select(there, *options), keys, 0.0, builder)


@operator("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """Causal attention of heads in groups, with rotary embeddings, a cache, windows and sinks."""
    _check_group_query(node)
    heads, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    parts = [node.input(0), node.optional(1), node.optional(2)]
    if parts[1] is None:
        size = node.input(0).shape[2] // (heads + 2 * groups)
        parts = [*_sections(node.input(0), [heads * size, groups * size, groups * size], builder)]
    query, key, value = (
        split_heads(each, count, builder)
        for each, count in zip(parts, (heads, groups, groups), strict=True)
        if each is not None
    )
    query, key = _normed(node, query, key, builder)
    start, total = _positions_of_rows(node, query, builder)
    if node.flag("do_rotary"):
        positions = _rotary_positions(node.optional(9), start, query.shape[2], builder)
        query, key = (
            rotated(
                each, node.input(7), node.input(8), positions, node.flag("rotary_interleaved"),
                builder,
            )
            for each in (query, key)
        )  # fmt: skip
    past_key, past_value = node.optional(3), node.optional(4)
    if past_key is not None and past_value is not None:
        length = _present_length(node, past_key, key)
        key, value = (
            written(past, new, start, length, builder)
            for past, new in ((past_key, key), (past_value, value))
        )
    window = node.integer("local_window_size", -1)
    causal = node.flag("causal", True)
    limits = Limits(causal, window - 1 if window > 0 else -1, -1, 0, start, total)
    bias = node.optional(10)
    if bias is not None:
        bias = _extended(bias, key.shape[2], 0.0, builder)
    sink = node.optional(11)
    if sink is None and node.integer("smooth_softmax", -1) == 1:
        sink = builder.constant(np.zeros(heads), query.dtype)
    found = attention(
        query, key, value, builder, scale=_scale(node), softcap=node.real("softcap"), bias=bias,
        limits=limits, sink=sink,
    )  # fmt: skip
    shown = {1: limits.applied(found.biased, builder, 0.0), 2: found.weights}
    mode = node.integer("qk_output") if node.wants(3) else 0
    return join_heads(found.result, builder), key, value, shown.get(mode)


def _check_group_query(node: Node) -> None:
    for name in ("k_quant_type", "v_quant_type"):
        if node.text(name, "NONE") != "NONE":
            raise Unconvertible(f"{name} cannot be converted", "keep the cache in reals")
    if node.flag("sliding_window_cache"):
        reason = "sliding_window_cache cannot be converted"
        raise Unconvertible(reason, "keep a cache of the whole length, with local_window_size")


def _normed(node: Node, query: Tensor, key: Tensor, builder: Builder) -> tuple[Tensor, Tensor]:
    """Queries and keys divided by the root of the mean square of each head, if there are scales."""
    epsilon = node.real("qk_norm_epsilon", 1e-6)
    found = []
    for letter, x, scale in (("q", query, node.optional(14)), ("k", key, node.optional(15))):
        own = node.real(f"{letter}_norm_epsilon", epsilon)
        found.append(x if scale is None else rms_norm(x, scale, [3], own, builder))
    return found[0], found[1]


def _positions_of_rows(node: Node, query: Tensor, builder: Builder) -> tuple[Tensor, Tensor]:
    """For each item the position of its first row, and how many keys it has after them."""
    lengths = builder.reshape(node.input(5), (query.shape[0],))
    total = builder.binary("math.add", lengths, 1)
    rows = node.optional(16)
    if rows is None:
        rows = builder.cast(builder.dimension(query.shape[2]), lengths.dtype)
    before = builder.binary("math.sub", total, rows)
    return builder.binary("math.max", before, 0), total


def _rotary_positions(given: Tensor | None, start: Tensor, rows: Size, builder: Builder) -> Tensor:
    """The positions of rows: given, or those from the first one of each item on."""
    if given is not None:
        return given
    shape = (start.shape[0], rows)
    return builder.call("onnx.positions_from", start, as_shape=shape, count=rows)


def _present_length(node: Node, past: Tensor, key: Tensor) -> Size:
    """The length of the cache that is returned: that of the past one if the model says so."""
    found = next((each for each in map(node.known_shape, (1, 2)) if each is not None), None)
    if found is not None and len(found) == 4 and found[2] == past.shape[2]:
        return past.shape[2]
    return past.shape[2] + key.shape[2]


def _extended(x: Tensor, keys: Size, value: float, builder: Builder) -> Tensor:
    """A tensor whose last dimension has as many elements as there are keys."""
    missing = keys - x.shape[-1]
    if isinstance(missing, int) and missing <= 0:
        return x
    return builder.concat([x, builder.full(value, (*x.shape[:-1], missing), x.dtype)], -1)


# --- rotary embeddings ----------------------------------------------------------------------


def _rotary(
    node: Node, cosines: Tensor, sines: Tensor, positions: Tensor | None, builder: Builder
) -> Tensor:
    """Elements of heads rotated by the angles of their positions, in the shape of the input."""
    x, size = node.input(0), node.integer("rotary_embedding_dim")
    heads: Size = node.integer("num_heads")
    if x.rank == 3 and not heads:
        heads = x.shape[2] // (size or 2 * number(cosines.shape[-1]))
    apart = split_heads(x, heads, builder)
    found = rotated(apart, cosines, sines, positions, node.flag("interleaved"), builder)
    return join_heads(found, builder) if x.rank == 3 else found


@operator("RotaryEmbedding", since=23)
def rotary_embedding(node: Node, builder: Builder) -> Tensor:
    """Heads rotated by tables of cosines and sines."""
    return _rotary(node, node.input(1), node.input(2), node.optional(3), builder)


@operator("RotaryEmbedding", domain=DOMAIN)
def own_rotary_embedding(node: Node, builder: Builder) -> Tensor:
    """The same with its inputs in another order; a single position is that of the first row."""
    if node.flag("is_packed_batching"):
        raise Unconvertible("is_packed_batching cannot be converted", "give rows of one length")
    x, positions = node.input(0), node.input(1)
    rows = x.shape[2 if x.rank == 4 else 1]
    if positions.rank == 1:
        start = builder.expand(positions, x.shape[:1])
        positions = _rotary_positions(None, start, rows, builder)
    found = _rotary(node, node.input(2), node.input(3), positions, builder)
    scale = node.real("scale", 1.0)
    return found if scale == 1.0 else builder.binary("math.mul", found, scale)
