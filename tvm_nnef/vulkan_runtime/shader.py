"""A compiled kernel and its arguments. Independent of TVM's compiler and of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_PUSH_CONSTANTS = 16
"""Upper limit of scalars that are push constants: every device has 128 bytes of them."""

HANDLE = "handle"
"""The dtype of an argument that is a buffer."""


@dataclass(frozen=True, slots=True)
class Shader:
    """A SPIR-V module of one kernel, and the arguments of a call.

    ``arguments`` are the dtypes of its arguments: buffers first (:data:`HANDLE`), then numbers. A
    call passes these, and after them the values of ``launch_tags``: the sizes of the grid
    (``blockIdx.x``) and of its workgroups (``threadIdx.x``), which the module contains as well.
    """

    name: str
    words: tuple[int, ...]
    arguments: tuple[str, ...]
    launch_tags: tuple[str, ...]

    @property
    def buffers(self) -> int:
        """The number of buffers."""
        return self.arguments.count(HANDLE)

    @property
    def scalars(self) -> Sequence[str]:
        """The dtypes of the numbers."""
        return self.arguments[self.buffers :]

    @property
    def uses_uniform_buffer(self) -> bool:
        """Whether the numbers lie in a uniform buffer, as they are too many for push constants."""
        return len(self.scalars) > MAX_PUSH_CONSTANTS
