"""What a format offers for ``compare``: its own library executes a model, tensor by tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from tvm_nnef.converters.common.types import Array


class Execution(Protocol):
    """A foreign model that can be executed.

    ``path`` is its name in messages, ``what`` what it calls an operation, as ``ONNX node``.
    ``makers`` has the name and the operator of the operation that computes each value.
    """

    @property
    def path(self) -> str:
        """The model's name in messages."""

    @property
    def what(self) -> str:
        """What an operation is called, with the format."""

    @property
    def makers(self) -> Mapping[str, tuple[str, str]]:
        """By the name of each value: the name and the operator of its operation."""

    def execute(self, inputs: Mapping[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """The values that are wanted and are numbers, by name.

        Raises NnefError if the library fails.
        """


def as_numbers(value: Any) -> Array | None:
    """What a library returns as an array: scores of classes by name as rows; None for texts."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.asarray([list(row.values()) for row in value], np.float32)
    array = np.asarray(value)
    return None if array.dtype.kind in "OSU" else array
