"""The values of an ONNX model: tensors, and sequences of tensors in one of two forms.

A sequence of a known number of items is a tuple of tensors. If the number is known only at run
time, it is one tensor with the items along its first dimension; they have one shape then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible

Items: TypeAlias = "tuple[Tensor, ...]"


@dataclass(frozen=True, eq=False, slots=True)
class Stacked:
    """A sequence whose items are stacked in one tensor."""

    tensor: Tensor


class Unfilled(tuple[Tensor, ...]):
    """An empty sequence that keeps the first item that is inserted into it."""

    item: Tensor | None = None


Value: TypeAlias = "Tensor | Items | Stacked"


def is_sequence(value: object) -> bool:
    """Whether a value is a sequence of tensors."""
    return isinstance(value, (tuple, Stacked))


def as_tensor(value: Value, builder: Builder) -> Tensor:
    """A value as one tensor, in which the items of a sequence are stacked.

    Raises Unconvertible for items of different shapes, and if there are none.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Stacked):
        return value.tensor
    if not value or any(
        (each.dtype, each.shape) != (value[0].dtype, value[0].shape) for each in value
    ):
        raise unlike(value)
    return builder.concat([builder.unsqueeze(each, [0]) for each in value], 0)


def unlike(items: Sequence[Tensor]) -> Unconvertible:
    """That items cannot be stacked, as those of a sequence of dynamic length must be."""
    kinds = dict.fromkeys(f"{each.dtype}[{', '.join(map(str, each.shape))}]" for each in items)
    return Unconvertible(
        f"it puts together {' and '.join(kinds) or 'no items'} in a number known only at run time",
        "give it items of one dtype and shape",
    )


def as_tensors(values: Sequence[Value], builder: Builder) -> list[Tensor]:
    """Values as tensors."""
    return [as_tensor(each, builder) for each in values]


def empty_like(item: Tensor, builder: Builder) -> Stacked:
    """A sequence without items, into which those of a dtype and shape can be inserted."""
    zero = np.zeros((), item.dtype)
    return Stacked(builder.full(builder.constant(zero), (0, *item.shape), item.dtype))
