"""What a format offers for ``compare``: its own library executes a model, tensor by tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

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
        """The values that are wanted, by name; raises NnefError if the library fails."""
