"""Sequences of tensors: they come apart while a model is converted.

A sequence is a tuple of tensors here, from which nodes take and put together what they say, or one
tensor with the items of a loop along its first dimension; it adds no step. What else a
run decides on is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import onnx

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import sizes_of
from tvm_nnef.converters.common.symbolic import Size, number, room
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import attributes_of
from tvm_nnef.converters.onnx.propagation import known_sizes

Items: TypeAlias = "tuple[Tensor, ...]"
Sequences: TypeAlias = "MutableMapping[str, Items | Tensor]"
"""Sequences by name: their items, or these stacked along the first dimension."""

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
) -> tuple[Tensor | Items, bool]:
    """The result of a node about sequences, and whether it is a sequence.

    Raises Unconvertible for what is known only at run time.
    """
    attributes = attributes_of(proto)
    tensors = [scope.get(name) for name in proto.input]
    items = known.get(proto.input[0], ()) if proto.input else ()
    if isinstance(items, Tensor):
        return _of_stacked(proto.op_type, items, tensors, attributes, builder)
    found = _of_items(proto.op_type, items, tensors, attributes, builder)
    return found, isinstance(found, tuple)


def _of_stacked(
    operator: str,
    stacked: Tensor,
    tensors: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
    builder: Builder,
) -> tuple[Tensor, bool]:
    match operator:
        case "Identity":
            return stacked, True
        case "SequenceLength":
            return builder.dimension(stacked.shape[0]), False
        case "SequenceAt":
            position = tensors[1]
            first = (
                -1
                if position is None or position.value is None
                else int(position.value.reshape(()))
            )
            if first >= 0:
                return builder.squeeze(builder.slice(stacked, 0, first, first + 1), [0]), False
        case "ConcatFromSequence" if attributes.get("new_axis", 0):
            axis = _axis(attributes["axis"], stacked.rank)
            order = [*range(1, axis + 1), 0, *range(axis + 1, stacked.rank)]
            return builder.transpose(stacked, order), False
        case "ConcatFromSequence":
            axis = _axis(attributes["axis"], stacked.rank - 1)
            order = [*range(1, axis + 1), 0, *range(axis + 1, stacked.rank)]
            shape = list(stacked.shape[1:])
            shape[axis] = shape[axis] * stacked.shape[0]
            return builder.reshape(builder.transpose(stacked, order), shape), False
    hint = "stack the sequence (ConcatFromSequence with new_axis=1), or split into a fixed number"
    raise Unconvertible("the number of items of the sequence is known only at run time", hint)


def _of_items(
    operator: str,
    items: Items,
    tensors: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
    builder: Builder,
) -> Tensor | Items:
    match operator:
        case "SequenceConstruct":
            return tuple(each for each in tensors if each is not None)
        case "SequenceAt":
            return _item(items, tensors[1], builder)
        case "SequenceInsert":
            position = len(items) if len(tensors) < 3 else _index(tensors[2], len(items) + 1)
            new = tuple(each for each in tensors[1:2] if each is not None)
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


def _item(items: Items, position: Tensor | None, builder: Builder) -> Tensor:
    """An item; if its index is dynamic, that of equal tensors in a row."""
    alike = len({(each.dtype, each.shape) for each in items}) == 1
    if position is None or position.value is not None or not alike:
        return items[_index(position, len(items))]
    row = builder.concat([builder.unsqueeze(each, [0]) for each in items], 0)
    return builder.call(
        "extra.gather", row, builder.reshape(position, ()), as_shape=items[0].shape, axis=0
    )


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
    """How large the parts are: as listed, or all of one size but the last one."""
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
