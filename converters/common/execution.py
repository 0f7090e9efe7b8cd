"""The interface through which ``compare`` executes a foreign model in its own library."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from tvm_nnef.converters.common.types import Array


class Execution(Protocol):
    """A foreign model that can be executed.

    ``path`` is its name in messages, ``what`` the word for an operation, as ``ONNX node``.
    ``makers`` has the name and the operator of the operation that computes each value.
    """

    @property
    def path(self) -> str:
        """The model's name in messages."""

    @property
    def what(self) -> str:
        """The word for an operation, with the format."""

    @property
    def makers(self) -> Mapping[str, tuple[str, str]]:
        """The name and the operator of the operation that computes each value, by the name of the
        value.
        """

    def execute(self, inputs: Mapping[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """Return the wanted values that are numeric, by name.

        Raises NnefError if the library fails.
        """


def as_numbers(value: Any) -> Array | None:
    """Return a library's result as an array; class scores by name become rows; None for texts."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.asarray([list(row.values()) for row in value], np.float32)
    array = np.asarray(value)
    return None if array.dtype.kind in "OSU" else array
