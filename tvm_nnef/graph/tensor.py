"""Tensors: the arrays that formulas load and store, and that operations read and write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import Span
from tvm_nnef.symbolic import trees
from tvm_nnef.symbolic.dimensions import Dimension

ScalarType: TypeAlias = Literal["real", "int", "bool"]


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A typed array with a name that is unique in its model, such as ``main.Net.conv1``.

    ``value`` of a constant is one number for all elements, or a flat row-major tuple of them.
    A tensor that its author did not name has a name with a last part such as ``.T1``.
    """

    name: str
    type: ScalarType
    shape: tuple[Dimension, ...]
    role: Literal["input", "variable", "constant", "result"]
    value: int | float | bool | tuple[int | float | bool, ...] | None = None
    span: Span | None = field(default=None, repr=False)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def short_name(self) -> str:
        """The name without its scope."""
        return self.name.rpartition(".")[2]

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a shape fits the tensor, whose dynamic dimensions may have any size."""
        return len(shape) == self.rank and all(
            size == own or not isinstance(own, int)
            for size, own in zip(shape, self.shape, strict=True)
        )

    def described(self, dtype: str | None = None) -> str:
        """Return the type with the shape, as ``float32[1, 8]``: the dtype if it is known."""
        return f"{dtype or self.type}[{', '.join(map(trees.text, self.shape))}]"
