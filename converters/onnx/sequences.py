"""Sequences of tensors: they come apart while a model is converted, and add no step.

A sequence is a tuple of tensors here, from which nodes take and put together what they say, or one
tensor with the items along its first dimension, if their number is known only at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import onnx

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import size_of, sizes_of
from tvm_nnef.converters.common.symbolic import Size, maximum, number, room
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import attributes_of
from tvm_nnef.converters.onnx.propagation import known_sizes
from tvm_nnef.converters.onnx.values import Items, Stacked, Unfilled, Value, as_tensor, unlike

Sequences: TypeAlias = "MutableMapping[str, Items | Stacked]"
"""Sequences by name."""

MOST_ITEMS = 1 << 12
"""Items that a sequence may have: each is a tensor of the model."""

_OPERATORS = frozenset(
    ("SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert", "SequenceErase",
     "SequenceLength", "SplitToSequence", "ConcatFromSequence")
)  # fmt: skip


def is_about_sequences(proto: onnx.NodeProto, known: Sequences) -> bool:
    """Whether a node makes a sequence or reads one."""
    reads = proto.op_type == "Identity" and any(name in known for name in proto.input)
    return is_sequence_operator(proto) or (reads and proto.domain in ("", "ai.onnx"))


def is_sequence_operator(proto: onnx.NodeProto) -> bool:
    """Whether an operator is one that makes, changes or reads sequences."""
    return proto.domain in ("", "ai.onnx") and proto.op_type in _OPERATORS


def convert_sequence(
    proto: onnx.NodeProto,
    scope: Mapping[str, Tensor | None],
    known: Sequences,
    builder: Builder,
) -> Value:
    """The result of a node about sequences.

    Raises Unconvertible for what is known only at run time.
    """
    attributes = attributes_of(proto)
    tensors = [scope.get(name) for name in proto.input]
    items = known.get(proto.input[0], ()) if proto.input else ()
    if not isinstance(items, Stacked) and _is_dynamic(proto.op_type, items, tensors):
        items = Stacked(as_tensor(items, builder))
    if isinstance(items, Stacked):
        return _of_stacked(proto.op_type, items.tensor, tensors, attributes, builder)
    return _of_items(proto.op_type, items, tensors, attributes, builder)


def _is_dynamic(operator: str, items: Items, tensors: Sequence[Tensor | None]) -> bool:
    """Whether an operator takes, inserts or erases an item at an index known only at run time."""
    indexed = {"SequenceAt": 1, "SequenceErase": 1, "SequenceInsert": 2}.get(operator)
    if indexed is None or indexed >= len(tensors) or not items:
        return False
    index = tensors[indexed]
    return index is not None and index.value is None


def _of_stacked(
    operator: str,
    stacked: Tensor,
    tensors: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
    builder: Builder,
) -> Value:
    match operator:
        case "SequenceLength":
            return builder.dimension(stacked.shape[0])
        case "SequenceAt":
            return _taken(stacked, tensors[1], builder)
        case "SequenceInsert":
            return Stacked(_inserted(stacked, tensors, builder))
        case "SequenceErase":
            return Stacked(_erased(stacked, tensors, builder))
        case "ConcatFromSequence" if attributes.get("new_axis", 0):
            axis = _axis(attributes["axis"], stacked.rank)
            order = [*range(1, axis + 1), 0, *range(axis + 1, stacked.rank)]
            return builder.transpose(stacked, order)
        case "ConcatFromSequence":
            axis = _axis(attributes["axis"], stacked.rank - 1)
            order = [*range(1, axis + 1), 0, *range(axis + 1, stacked.rank)]
            shape = list(stacked.shape[1:])
            shape[axis] = shape[axis] * stacked.shape[0]
            return builder.reshape(builder.transpose(stacked, order), shape)
    return Stacked(stacked)


def _taken(stacked: Tensor, index: Tensor | None, builder: Builder) -> Tensor:
    """An item of a stacked sequence."""
    assert index is not None
    length = stacked.shape[0]
    if isinstance(length, int) or index.value is None or index.value not in (0, -1):
        first = _position(index, length, length - 1, builder)
        return builder.squeeze(builder.slice(stacked, 0, first, first + 1), [0])
    return builder.squeeze(builder.one_slice(stacked, 0, int(index.value)), [0])


def _inserted(stacked: Tensor, tensors: Sequence[Tensor | None], builder: Builder) -> Tensor:
    """A stacked sequence with one more item."""
    item = tensors[1]
    assert item is not None
    if (item.dtype, item.shape) != (stacked.dtype, stacked.shape[1:]):
        kinds = (Tensor(stacked.dtype, stacked.shape[1:]), item)
        raise unlike(kinds)
    row, length = builder.unsqueeze(item, [0]), stacked.shape[0]
    if len(tensors) < 3 or tensors[2] is None:
        return builder.concat([stacked, row], 0)
    position = _position(tensors[2], length, length, builder)
    before, after = (
        builder.slice(stacked, 0, 0, position),
        builder.slice(stacked, 0, position, length),
    )
    return builder.concat([before, row, after], 0)


def _erased(stacked: Tensor, tensors: Sequence[Tensor | None], builder: Builder) -> Tensor:
    """A stacked sequence without one of its items."""
    index, length = tensors[1] if len(tensors) > 1 else None, stacked.shape[0]
    position = length - 1 if index is None else _position(index, length, length - 1, builder)
    before = builder.slice(stacked, 0, 0, position)
    return builder.concat([before, builder.slice(stacked, 0, position + 1, length)], 0)


def _position(index: Tensor, length: Size, last: Size, builder: Builder) -> Size:
    """An index into a sequence as a dimension, from 0 to ``last``."""
    known = known_sizes(index)
    if known is not None:
        found: Size = known.reshape(-1)[0]
        return found + length if isinstance(found, int) and found < 0 else found
    index = builder.cast(builder.reshape(index, ()), "int64")
    negative = builder.binary("math.lt", index, 0, as_type="bool")
    from_end = builder.binary("math.add", index, builder.dimension(length))
    index = builder.select(negative, from_end, index)
    # What lies before the first item is an error too, like what lies beyond the last one.
    before = builder.binary("math.lt", index, 0, as_type="bool")
    bound = maximum(room(last), 0)
    beyond = builder.dimension(bound + 1)
    return size_of(builder.select(before, beyond, index), bound, builder, bound)


def _of_items(
    operator: str,
    items: Items,
    tensors: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
    builder: Builder,
) -> Value:
    match operator:
        case "SequenceConstruct":
            return tuple(each for each in tensors if each is not None)
        case "SequenceAt":
            return items[_index(tensors[1], len(items))]
        case "SequenceInsert":
            position = len(items) if len(tensors) < 3 else _index(tensors[2], len(items) + 1)
            new = tuple(each for each in tensors[1:2] if each is not None)
            if isinstance(items, Unfilled):
                items.item = items.item or next(iter(new), None)
            return (*items[:position], *new, *items[position:])
        case "SequenceErase":
            position = len(items) - 1 if len(tensors) < 2 else _index(tensors[1], len(items))
            return (*items[:position], *items[position + 1 :])
        case "SequenceLength":
            return builder.constant(len(items), "int64")
        case "SplitToSequence":
            return _split(tensors, attributes, builder)
        case "ConcatFromSequence":
            return _joined(items, attributes, builder)
    return items


def _index(tensor: Tensor | None, length: int) -> int:
    if tensor is None or tensor.value is None:
        raise Unconvertible(
            "the index into the sequence is known only at run time", "freeze it to an initializer"
        )
    position = int(tensor.value.reshape(()))
    if not -length <= position < length:
        hint = f"use a position from {-length} to {length - 1}" if length else "insert one first"
        raise Unconvertible(f"the sequence has {length} items, and it means {position}", hint)
    return position % length


def _joined(items: Items, attributes: Mapping[str, Any], builder: Builder) -> Tensor:
    if not items:
        raise Invalid("it joins a sequence without items")
    if attributes.get("new_axis", 0):
        axis = _axis(attributes["axis"], items[0].rank + 1)
        return builder.concat([builder.unsqueeze(each, [axis]) for each in items], axis)
    return builder.concat(items, _axis(attributes["axis"], items[0].rank))


def _axis(axis: int, rank: int) -> int:
    """An axis of a tensor, counted from the front."""
    if not -rank <= axis < rank:
        raise Invalid(f"'axis' is {axis}, and the rank is {rank}")
    return axis % rank


def _split(
    tensors: Sequence[Tensor | None], attributes: Mapping[str, Any], builder: Builder
) -> Items:
    x, sizes = tensors[0], tensors[1] if len(tensors) > 1 else None
    assert x is not None
    axis = _axis(attributes.get("axis", 0), x.rank)
    parts = _equal(number(x.shape[axis]), 1) if sizes is None else _sizes(x, axis, sizes, builder)
    results = tuple(
        Tensor(x.dtype, (*x.shape[:axis], part, *x.shape[axis + 1 :])) for part in parts
    )
    builder.add("layout.split", (x,), (results,), axis=axis, sizes=parts)
    if sizes is None and not attributes.get("keepdims", 1):
        return tuple(builder.squeeze(each, [axis]) for each in results)
    return results


def _sizes(x: Tensor, axis: int, sizes: Tensor, builder: Builder) -> list[Size]:
    """Return the sizes of the parts: as listed, or all of one size but the last one."""
    found = known_sizes(sizes)
    if found is None and sizes.rank and isinstance(sizes.shape[0], int):
        bounds = [room(x.shape[axis])] * sizes.shape[0]
        return list(sizes_of(sizes, bounds, builder))
    if found is None:
        raise Unconvertible(
            "the number of parts is known only at run time", "freeze 'split' to an initializer"
        )
    if sizes.rank:
        return _listed(list(found), x.shape[axis])
    return _equal(number(x.shape[axis]), number(found.reshape(-1)[0]))


def _listed(sizes: list[Size], size: Size) -> list[Size]:
    """Parts of the sizes that are listed, which must add up to the dimension."""
    static = [each for each in sizes if isinstance(each, int)]
    if isinstance(size, int) and len(static) == len(sizes) and sum(static) != size:
        reason = f"it splits {size} elements into parts of {sum(static)} in all"
        raise Invalid(reason)
    if any(each < 0 for each in static):
        raise Invalid(f"a part has the size {min(static)}")
    return sizes


def _equal(length: int, size: int) -> list[Size]:
    """Parts of one size, except for the last one, which is what remains."""
    if size < 1:
        raise Invalid(f"it splits into parts of size {size}")
    if length // size > MOST_ITEMS:
        reason = f"the sequence has {length // size} items, and the limit is {MOST_ITEMS}"
        raise Unconvertible(reason, "split into fewer parts")
    return [*[size] * (length // size), *([length % size] if length % size else [])]
