"""Labels and data types of the tensors of the flat graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm_nnef.converters.common.names import UniqueNames
from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.calls import Tensor, Value
from tvm_nnef.converters.nnef1.types import ArrayType, TensorType, TupleType, Type, bound

Labels: TypeAlias = "str | tuple[Labels, ...] | None"
"""The labels that tensors should get, in the structure of a value; None for any label."""


@dataclass
class Labelling:
    """The labels in use, and the data type of each tensor by label."""

    labels: UniqueNames = field(default_factory=UniqueNames)
    item_types: dict[str, str] = field(default_factory=dict)

    def note_types(self, type_: Type, value: Value, generic: str | None) -> None:
        """Record the data types of the tensors in a value."""
        match bound(type_, generic) if generic else type_:
            case TensorType(item) if isinstance(value, Tensor) and item is not None:
                self.item_types.setdefault(value.label, item)
            case ArrayType(inner) if isinstance(value, tuple) and inner is not None:
                for each in value:
                    self.note_types(inner, each, generic)
            case TupleType(items) if isinstance(value, tuple):
                for part, each in zip(items, value, strict=True):
                    self.note_types(part, each, generic)


def labels_of(target: nodes.Expression, label: Callable[[str], Labels]) -> Labels:
    """Return the labels of a left-hand side; ``label`` maps a name to a label."""
    match target:
        case nodes.Name(name=name):
            return label(name)
        case nodes.Array(items=items) | nodes.Tuple(items=items):
            return tuple(labels_of(each, label) for each in items)
    raise AssertionError(target)


def leaves(labels: Labels) -> Iterator[str]:
    """Yield the labels in a structure."""
    if isinstance(labels, str):
        yield labels
    elif labels is not None:
        for each in labels:
            yield from leaves(each)


def tensors(labels: Labels) -> Value:
    """Return tensors of labels, in the same structure."""
    if isinstance(labels, str):
        return Tensor(labels)
    assert labels is not None
    return tuple(map(tensors, labels))
