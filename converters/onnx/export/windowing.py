"""Windows over dimensions: what strides, dilations and paddings of the draft are to ONNX.

An invocation of a convolution or pooling and dimensions in, numbers out. No node is made here
but those that bring the dimensions of a pooling into ONNX's order, and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.converters.onnx.export.invocation import Invocation
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.symbolic.windows import reach


@dataclass(frozen=True, slots=True)
class Windows:
    """The positions of windows: ``before`` and ``after`` are paddings, which may be negative."""

    size: list[int]
    stride: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]

    @property
    def pads(self) -> list[int]:
        """As ONNX takes them: all in front, then all after; what is negative is cropped."""
        return [max(0, count) for count in (*self.before, *self.after)]

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any(count > 0 for count in (*self.before, *self.after))

    def cropped(self, emitter: Emitter, value: str, axes: Sequence[int]) -> str:
        """A value without the elements that negative padding takes away."""
        positions = [
            (axis, max(0, -before), -max(0, -after) or 1 << 62)
            for axis, before, after in zip(axes, self.before, self.after, strict=True)
            if before < 0 or after < 0
        ]
        if not positions:
            return value
        return emitter.slice(value, *(list(column) for column in zip(*positions, strict=True)))


def windows(invocation: Invocation, inputs: Sequence[Dimension], sizes: Sequence[int]) -> Windows:
    """The windows of a convolution or pooling (draft, sections 4.4.1 and 4.4.2).

    With ``ceil_mode`` the trailing padding is what a last window needs that is not full. Raises
    Inexpressible if the padding depends on dynamic dimensions.
    """
    stride, dilation = invocation.numbers("stride"), invocation.numbers("dilation")
    before, after = paddings(invocation)
    if invocation.attribute("ceil_mode"):
        spans = [reach(size, step) for size, step in zip(sizes, dilation, strict=True)]
        after = [
            _rounded_up(count, lead, step, span, length)
            for count, lead, step, span, length in zip(
                after, before, stride, spans, inputs, strict=True
            )
        ]
    return Windows(list(sizes), stride, dilation, before, after)


def paddings(invocation: Invocation) -> tuple[list[int], list[int]]:
    """The leading and the trailing padding. Raises Inexpressible if it is dynamic."""
    before, totals = (
        [count for count in invocation.using(name) if isinstance(count, int)]
        for name in ("offset", "paddings")
    )
    if len(before) + len(totals) < 2 * len(invocation.using("paddings")):
        raise Inexpressible("its padding depends on dimensions that are known at run time only")
    return before, [total - lead for total, lead in zip(totals, before, strict=True)]


def _rounded_up(count: int, lead: int, step: int, span: int, size: Dimension) -> int:
    if not isinstance(size, int):
        return count + step - 1
    rest = (size + lead + count - span) % step
    return count + (step - rest) % step


@dataclass(frozen=True, slots=True)
class Spatial:
    """A value whose dimensions of interest are last, after two others.

    ``order`` are the dimensions in their present order. If there are not two others, these are one
    dimension and one of size 1; ``filling`` are more of size 1, before the last ones.
    """

    value: str
    order: list[int]
    others: list[Dimension]
    filling: int

    @property
    def first(self) -> int:
        """Where the dimensions of interest begin."""
        return 2 + self.filling

    def restored(self, emitter: Emitter, value: str, shape: Sequence[Dimension]) -> str:
        """A result over the same dimensions in their own order, of the given shape."""
        moved = [shape[axis] for axis in self.order]
        value = emitter.reshape(value, self.widened(moved), moved)
        return emitter.permute(value, [self.order.index(axis) for axis in range(len(shape))])

    def widened(self, moved: Sequence[Dimension]) -> list[Dimension]:
        """The shape that ONNX sees, of the shape in the order of now."""
        count = len(self.others)
        last = [*[1] * self.filling, *moved[count:]]
        if count == 2:
            return [*self.others, *last]
        return [dimensions.product(self.others), 1, *last]


def spatial(
    emitter: Emitter, value: str, shape: Sequence[Dimension], axes: Sequence[int], least: int = 1
) -> Spatial:
    """Brings a value into ONNX's order: two dimensions, then ``least`` or more with ``axes``."""
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    order = [*rest, *axes]
    moved = emitter.permute(value, order)
    before = [shape[axis] for axis in order]
    found = Spatial(moved, order, [shape[axis] for axis in rest], max(0, least - len(axes)))
    return replace(found, value=emitter.reshape(moved, before, found.widened(before)))
