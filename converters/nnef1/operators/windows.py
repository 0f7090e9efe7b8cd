"""The geometry of sliding windows (section 4.3): paddings, shapes and borders.

Input: an operation and its input. Output: a :class:`Window`. An operation either scales down
(convolution, pooling) or up, as the reverse of one that scales down. Paddings are always computed
here and written explicitly, because SkriptND chooses others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size, largest, maximum
from tvm_nnef.converters.common.tensors import Attribute, Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.common.windows import Geometry, unless_ones
from tvm_nnef.converters.nnef1.operators.borders import padded
from tvm_nnef.converters.nnef1.operators.operation import Operation


@dataclass(frozen=True, slots=True)
class Window(Geometry):
    """A sliding window over ``axes``.

    Paddings, strides and dilations are those of the larger tensor: the input of an operation that
    scales down, the output of one that scales up.
    """

    axes: tuple[int, ...]

    @property
    def static_after(self) -> Shape:
        """The padding after the input that the windows cover, if it is static."""
        pairs = zip(self.after, self.covered_after, strict=True)
        return tuple(each if isinstance(each, int) else after for after, each in pairs)

    @property
    def volume(self) -> int:
        """The number of elements of the window."""
        return prod(self.size)

    @property
    def weights(self) -> list[int]:
        """The stride of each dimension in the row-major order of the window's elements."""
        return [prod(self.size[axis + 1 :]) for axis in range(len(self.size))]

    def shape(self, x: Tensor) -> Shape:
        """Return the shape of the result for an input."""
        sizes = list(x.shape)
        for axis, size in zip(self.axes, self.out, strict=True):
            sizes[axis] = size
        return tuple(sizes)

    def geometry(self) -> dict[str, Attribute | None]:
        """Return the attributes of SkriptND, without the axes."""
        return {
            "size": list(self.size),
            "stride": unless_ones(self.stride),
            "dilation": unless_ones(self.dilation),
            "padding": [*self.before, *self.after],
        }

    def reduced(self) -> Window:
        """Return the window in those dimensions in which it has an effect, or in the last one."""
        used = [
            position
            for position in range(len(self.axes))
            if (self.size[position], self.stride[position]) != (1, 1)
            or self.before[position] != 0
            or self.after[position] != 0
            or self.inside[position] != self.out[position]
        ] or [len(self.axes) - 1]
        return Window(
            tuple(self.size[each] for each in used),
            tuple(self.stride[each] for each in used), tuple(self.dilation[each] for each in used),
            tuple(self.before[each] for each in used), tuple(self.after[each] for each in used),
            tuple(self.inside[each] for each in used), tuple(self.out[each] for each in used),
            tuple(self.axes[each] for each in used),
        )  # fmt: skip


def window_size(operation: Operation, rank: int) -> list[int]:
    """Return the attribute ``size``, which must have an item for each dimension."""
    size = operation.integers("size")
    if not rank:
        raise Unconvertible(
            "its input has no dimensions", "windows need at least one", mismatch=True
        )
    if len(size) != rank or min(size, default=1) < 1:
        hint = "give a positive number for each dimension"
        raise Unconvertible(f"'size' is {size} for {rank} dimensions", hint, mismatch=True)
    return size


def scaling_down(operation: Operation, x: Tensor, size: Sequence[int], first: int = 0) -> Window:
    """Return the window over the dimensions of an input from ``first`` on."""
    inside = x.shape[first:]
    stride, dilation = (_steps(operation, name, len(inside)) for name in ("stride", "dilation"))
    pairs = _paddings(operation, len(inside))
    before: list[Size] = []
    after: list[Size] = []
    out: list[Size] = []
    for axis, length in enumerate(inside):
        reach, step = (size[axis] - 1) * dilation[axis] + 1, stride[axis]
        front, back = (
            _automatic(length, -(-length // step), reach, step) if pairs is None else pairs[axis]
        )
        padded_size = front + length + back
        if largest(padded_size) < reach:
            reason = f"its window covers {reach} elements of dimension {axis + first}, which has "
            message = f"{reason}{padded_size} with its paddings"
            raise Unconvertible(message, "use larger inputs or paddings", mismatch=True)
        before.append(front)
        after.append(back)
        out.append((padded_size - reach) // step + 1)
    return Window(
        tuple(size), stride, dilation, tuple(before), tuple(after),
        inside, tuple(out), tuple(range(first, x.rank)),
    )  # fmt: skip


def scaling_up(operation: Operation, x: Tensor, size: Sequence[int], first: int = 0) -> Window:
    """Return the window of a reverse operation over the dimensions of an input from ``first``
    on.
    """
    inside = x.shape[first:]
    stride, dilation = (_steps(operation, name, len(inside)) for name in ("stride", "dilation"))
    pairs = _paddings(operation, len(inside))
    wanted = operation.integers("output_shape")
    if wanted and len(wanted) != x.rank:
        reason = f"'output_shape' has {len(wanted)} items for {x.rank} dimensions"
        raise Unconvertible(reason, "give one for each dimension, or none", mismatch=True)
    scaled = [
        _enlarged(
            length, (size[axis] - 1) * dilation[axis] + 1, stride[axis],
            None if pairs is None else pairs[axis], wanted[axis + first] if wanted else None,
            axis + first,
        )
        for axis, length in enumerate(inside)
    ]  # fmt: skip
    return Window(
        tuple(size), stride, dilation,
        tuple(each[0] for each in scaled), tuple(each[1] for each in scaled), inside,
        tuple(each[2] for each in scaled), tuple(range(first, x.rank)),
    )  # fmt: skip


def _enlarged(
    size: Size, reach: int, stride: int, pads: tuple[int, int] | None, wanted: int | None,
    axis: int,
) -> tuple[Size, Size, Size]:  # fmt: skip
    """Return the paddings of a dimension that is scaled up, and its size."""
    front: Size
    back: Size
    if pads is not None:
        front, back = pads
    elif wanted is not None:
        front, back = _automatic(wanted, size, reach, stride)
    else:
        front, back = _halves(max(reach - stride, 0))
    least = (size - 1) * stride + reach - front - back
    out = least if wanted is None else wanted
    if not least <= out < least + stride:
        reason = (
            f"'output_shape' has {wanted} in dimension {axis}, and the reverse of the operation"
        )
        hint = f"use at least {least}, and less than {least + stride}"
        raise Unconvertible(f"{reason} would not make {size} of it", hint, mismatch=True)
    if out < 1:
        reason = f"its paddings leave nothing of dimension {axis}"
        raise Unconvertible(reason, "use smaller paddings", mismatch=True)
    # Elements beyond the last window are the same as less padding.
    return front, back - (out - least), out


def _automatic(large: Size, small: Size, reach: int, stride: int) -> tuple[Size, Size]:
    """Return the paddings for which the windows reduce a dimension from ``large`` to ``small``."""
    return _halves(maximum((small - 1) * stride + reach - large, 0))


def _halves(total: Size) -> tuple[Size, Size]:
    return total // 2, total - total // 2


def _steps(operation: Operation, name: str, rank: int) -> tuple[int, ...]:
    values = operation.integers(name) or [1] * rank
    if len(values) != rank or min(values, default=1) < 1:
        hint = "give a positive number for each dimension, or none"
        raise Unconvertible(f"'{name}' is {values} for {rank} dimensions", hint, mismatch=True)
    return tuple(values)


def _paddings(operation: Operation, rank: int) -> list[tuple[int, int]] | None:
    """Return the paddings of an operation; None if they are automatic."""
    pairs = operation.pairs("padding")
    if not pairs:
        return None
    if len(pairs) != rank:
        reason = f"'padding' has {len(pairs)} pairs for {rank} dimensions"
        raise Unconvertible(reason, "give one for each dimension, or none", mismatch=True)
    return pairs


def with_border(x: Tensor, window: Window, border: str, builder: Builder) -> tuple[Tensor, Window]:
    """Return an input that includes its border, and the window on it without paddings.

    Negative paddings stay those of the window.
    """
    window = replace(window, after=window.static_after)
    front = [maximum(each, 0) for each in window.before]
    back = [maximum(each, 0) for each in window.after]
    wide = padded(
        x, _over_all(x, window.axes, front), _over_all(x, window.axes, back), border, builder
    )
    return wide, replace(
        window,
        before=tuple(a - b for a, b in zip(window.before, front, strict=True)),
        after=tuple(a - b for a, b in zip(window.after, back, strict=True)),
        inside=tuple(wide.shape[axis] for axis in window.axes),
    )


def with_reverse_border(
    x: Tensor, window: Window, border: str, builder: Builder
) -> tuple[Tensor, Window]:
    """Return the same for an operation that scales up, whose result extends beyond its input."""
    front: list[Size] = []
    back: list[Size] = []
    for axis, (reach, stride) in enumerate(zip(window.reach, window.stride, strict=True)):
        front.append(maximum((reach - 1 - window.before[axis]) // stride, 0))
        last = (window.out[axis] - 1 + window.before[axis]) // stride
        back.append(maximum(last - window.inside[axis] + 1, 0))
    wide = padded(
        x, _over_all(x, window.axes, front), _over_all(x, window.axes, back), border, builder
    )
    return wide, replace(
        window,
        before=tuple(
            a + b * s for a, b, s in zip(window.before, front, window.stride, strict=True)
        ),
        after=tuple(a + b * s for a, b, s in zip(window.after, back, window.stride, strict=True)),
        inside=tuple(wide.shape[axis] for axis in window.axes),
    )


def _over_all(x: Tensor, axes: Sequence[int], values: Sequence[Size]) -> list[Size]:
    """Return values for all dimensions of a tensor, 0 for those that are not among ``axes``."""
    padded_values: list[Size] = [0] * x.rank
    for axis, value in zip(axes, values, strict=True):
        padded_values[axis] = value
    return padded_values
