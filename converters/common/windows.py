"""The geometry of sliding windows, independent of a format's rules for paddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_nnef.converters.common.symbolic import Shape


@dataclass(frozen=True, slots=True)
class Geometry:
    """A window, a number for each dimension; ``inside`` and ``out`` are sizes of input and result.

    ``before`` and ``after`` are the paddings.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: Shape
    after: Shape
    inside: Shape
    out: Shape

    @property
    def reach(self) -> tuple[int, ...]:
        """The dilated size."""
        pairs = zip(self.size, self.dilation, strict=True)
        return tuple((size - 1) * dilation + 1 for size, dilation in pairs)

    @property
    def covered_after(self) -> Shape:
        """The paddings after the input with which the last window ends."""
        return tuple(
            (out - 1) * stride + reach - inside - before
            for out, stride, reach, inside, before in zip(
                self.out, self.stride, self.reach, self.inside, self.before, strict=True
            )
        )


def unless_ones(values: Sequence[int]) -> list[int] | None:
    """Return the strides or dilations of a window; None if all are 1, the default."""
    return None if all(value == 1 for value in values) else list(values)
