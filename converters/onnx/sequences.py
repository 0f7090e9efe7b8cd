"""Sequences of tensors whose length is known: they come apart while a model is converted.

A sequence is a tuple of tensors here, from which nodes take and put together what they say; it
makes no step of its own. One that a loop carries, or a run decides on, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import onnx

from tvm_nnef.converters.onnx.builder import Builder
from tvm_nnef.converters.onnx.node import attributes_of
from tvm_nnef.converters.onnx.propagation import known_extents
from tvm_nnef.converters.onnx.refusal import Unconvertible
from tvm_nnef.converters.onnx.symbolic import Extent, number
from tvm_nnef.converters.onnx.tensors import Tensor

Items: TypeAlias = "tuple[Tensor, ...]"
Sequences: TypeAlias = "MutableMapping[str, Items]"

_OPERATORS = frozenset(
    ("SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert", "SequenceErase",
     "SequenceLength", "SplitToSequence", "ConcatFromSequence")
)  # fmt: skip


def is_about_sequences(proto: onnx.NodeProto, known: Sequences) -> bool:
    """Whether a node makes a sequence or reads one."""
    if proto.domain not in ("", "ai.onnx"):
        return False
    return proto.op_type in _OPERATORS or (proto.op_type == "Identity" and proto.input[0] in known)


def convert_sequence(
    proto: onnx.NodeProto,
    scope: Mapping[str, Tensor | None],
    known: Sequences,
    builder: Builder,
) -> Tensor | Items:
    """The result of a node about sequences: a tensor or a sequence.

    Raises Unconvertible for what only a run tells.
    """
    attributes = attributes_of(proto)
    tensors = [scope.get(name) for name in proto.input]
    items = known.get(proto.input[0], ()) if proto.input else ()
    match proto.op_type:
        case "SequenceConstruct":
            return tuple(each for each in tensors if each is not None)
        case "SequenceAt":
            return items[_place(tensors[1], len(items))]
        case "SequenceInsert":
            place = len(items) if len(tensors) < 3 else _place(tensors[2], len(items) + 1)
            new = tuple(each for each in tensors[1:2] if each is not None)
            return (*items[:place], *new, *items[place:])
        case "SequenceErase":
            place = len(items) - 1 if len(tensors) < 2 else _place(tensors[1], len(items))
            return (*items[:place], *items[place + 1 :])
        case "SequenceLength":
            return builder.constant(len(items), "int64")
        case "SplitToSequence":
            return _split(tensors, attributes, builder)
        case "ConcatFromSequence":
            return _joined(items, attributes, builder)
    return items


def _place(tensor: Tensor | None, length: int) -> int:
    if tensor is None or tensor.value is None:
        raise Unconvertible(
            "which item of a sequence it means only a run tells", "freeze it to an initializer"
        )
    place = int(tensor.value.reshape(()))
    if not -length <= place < length:
        raise Unconvertible(f"the sequence has {length} items, and it means {place}")
    return place % length


def _joined(items: Items, attributes: Mapping[str, Any], builder: Builder) -> Tensor:
    if not items:
        raise Unconvertible("it joins a sequence without items", "correct the model")
    axis = attributes["axis"]
    if attributes.get("new_axis", 0):
        place = axis % (items[0].rank + 1)
        return builder.concat([builder.unsqueeze(each, [place]) for each in items], place)
    return builder.concat(items, axis)


def _split(
    tensors: Sequence[Tensor | None], attributes: Mapping[str, Any], builder: Builder
) -> Items:
    x, sizes = tensors[0], tensors[1] if len(tensors) > 1 else None
    assert x is not None
    axis = attributes.get("axis", 0) % x.rank
    parts: list[Extent] = [1] * number(x.shape[axis]) if sizes is None else _sizes(x, axis, sizes)
    results = tuple(
        Tensor(x.dtype, (*x.shape[:axis], part, *x.shape[axis + 1 :])) for part in parts
    )
    builder.add("layout.split", (x,), (results,), axis=axis, sizes=parts)
    if sizes is None and not attributes.get("keepdims", 1):
        return tuple(builder.squeeze(each, [axis]) for each in results)
    return results


def _sizes(x: Tensor, axis: int, sizes: Tensor) -> list[Extent]:
    """How large the parts are: as listed, or all of one size but the last one."""
    found = known_extents(sizes)
    if found is None:
        raise Unconvertible("how large the parts are only a run tells")
    if sizes.rank:
        return list(found)
    extent, size = number(x.shape[axis]), number(found.reshape(-1)[0])
    whole = [size] * (extent // size)
    return [*whole, *([extent % size] if extent % size else [])]
