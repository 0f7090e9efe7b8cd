"""Convolutions as tensor expressions, for which nothing outside of the data is multiplied.

Enters: the sizes of windows, and how operands lie. Leaves: functions for ``call_te``. What lies in
the padding is left out by a guard where weights may be infinite or no number: ``0 * inf`` is none.
Where they are finite, zeros around the data do as well. Rules turn both into shorter loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import te, tirx

from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Times = Callable[[PrimExpression, PrimExpression], PrimExpression]


def padded(
    data: Any, axes: Sequence[int], before: Sequence[int], after: Sequence[int], value: Any
) -> Any:
    """The data in a frame of a value, so many elements wide in front of and behind some axes."""
    if not any((*before, *after)):
        return data
    shape = list(data.shape)
    for axis, front, back in zip(axes, before, after, strict=True):
        shape[axis] = shape[axis] + front + back

    def element(*indices: PrimExpression) -> PrimExpression:
        places = list(indices)
        tests = []
        for axis, front, back in zip(axes, before, after, strict=True):
            places[axis] = indices[axis] - front
            tests += [places[axis] >= 0] if front else []
            tests += [places[axis] < data.shape[axis]] if back else []
        return tirx.if_then_else(tirx.all(*tests), data(*places), value)

    return te.compute(shape, element, name="padded")


class Window:
    """Sizes of a convolution's windows over its spatial dimensions."""

    def __init__(self, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
                 before: Sequence[int], after: Sequence[int]) -> None:  # fmt: skip
        """Takes one number for each spatial dimension."""
        self.size, self.stride, self.dilation = list(size), list(stride), list(dilation)
        self.before, self.after = list(before), list(after)

    @staticmethod
    def of(attributes: Any, spatial: int, size: Sequence[int]) -> Window:
        """The windows that the attributes of a convolution describe."""
        padding = [int(p) for p in attributes.padding]
        return Window(
            size,
            [int(s) for s in attributes.strides],
            [int(d) for d in attributes.dilation],
            padding[:spatial],
            padding[spatial:],
        )

    @property
    def is_padded(self) -> bool:
        """Whether a window may lie outside of the data."""
        return any((*self.before, *self.after))

    def is_plain(self) -> bool:
        """Whether each position of the result sees one position of the data, the same one."""
        return all(n == 1 for n in (*self.size, *self.stride)) and not self.is_padded

    def extents(self, spatial: Sequence[Any]) -> list[Any]:
        """The spatial extents of the result, from those of the data."""
        return [
            (extent + before + after - (size - 1) * dilation - 1) // stride + 1
            for extent, size, stride, dilation, before, after in zip(
                spatial, self.size, self.stride, self.dilation, self.before, self.after,
                strict=True,
            )
        ]  # fmt: skip

    def axes(self) -> list[Any]:
        """The axes of a sum over a window."""
        return [te.reduce_axis((0, size), f"k{n}") for n, size in enumerate(self.size)]

    def positions(self, where: Sequence[Any], steps: Sequence[Any]) -> list[Any]:
        """The spatial position in the padded data of a step of a window."""
        return [
            position * stride + step * dilation
            for position, stride, step, dilation in zip(
                where, self.stride, steps, self.dilation, strict=True
            )
        ]

    def padded(self, data: Any, first: int) -> Any:
        """The data with zeros around it, where there is a padding.

        Its spatial dimensions begin with the ``first`` one.
        """
        axes = range(first, first + len(self.size))
        return padded(data, axes, self.before, self.after, tirx.const(0, data.dtype))

    def inside(self, position: Sequence[Any], spatial: Sequence[Any]) -> PrimExpression:
        """Whether a spatial position in the padded data lies in the data."""
        tests = []
        for index, extent, before, after in zip(
            position, spatial, self.before, self.after, strict=True
        ):
            tests += [index >= before] if before else []
            tests += [index < extent + before] if after else []
        return tirx.all(*tests)

    def product(
        self,
        value: PrimExpression,
        weight: PrimExpression,
        position: Sequence[Any],
        spatial: Sequence[Any],
        exact: bool,
    ) -> PrimExpression:
        """What a step of a window adds; ``exact`` where the weight may be no finite number."""
        if not exact or not self.is_padded:
            return value * weight
        zero = tirx.const(0, dtype_of(value))
        return tirx.Select(self.inside(position, spatial), value * weight, zero)


def is_exact(weights: np.ndarray[Any, Any] | None, dtype: str) -> bool:
    """Whether steps in the padding are to be left out: weights are unknown, or not all finite."""
    if "float" not in dtype:
        return False
    return weights is None or not bool(np.isfinite(weights).all())


def dense(
    window: Window, groups: int, columns: int, width: int, *, exact: bool, times: Times | None
) -> Callable[..., Any]:
    """A convolution of channels last, over panels ``[G, O/width, K..., C, width]`` of weights.

    ``columns`` are those of one group; the first dimension of the panels is left out for one group.
    ``times`` is what is added for an element and a weight, if that is no plain product.
    """

    def function(data: Any, weights: Any) -> Any:
        source, spatial = window.padded(data, 1), data.shape[1:-1]
        depth = weights.shape[-2]
        steps, channel = window.axes(), te.reduce_axis((0, depth), "c")

        def element(batch: Any, *indices: Any) -> Any:
            *where, output = indices
            position = window.positions(where, steps)
            if groups == 1:
                value = source(batch, *position, channel)
                weight = weights(output // width, *steps, channel, output % width)
            else:
                group, inner = output // columns, output % columns
                value = source(batch, *position, group * depth + channel)
                weight = weights(group, inner // width, *steps, channel, inner % width)
            if times is None:
                term = window.product(value, weight, position, spatial, exact)
            else:
                term = times(value, weight)
            return te.sum(term, axis=[*steps, channel])

        shape = [data.shape[0], *window.extents(spatial), groups * columns]
        return te.compute(shape, element, name="conv")

    return function


def depthwise(window: Window, *, exact: bool) -> Callable[..., Any]:
    """A convolution of channels last, each channel by itself, over weights ``[K..., C]``."""

    def function(data: Any, weights: Any) -> Any:
        source, steps, spatial = window.padded(data, 1), window.axes(), data.shape[1:-1]

        def element(batch: Any, *indices: Any) -> Any:
            *where, channel = indices
            position = window.positions(where, steps)
            value, weight = source(batch, *position, channel), weights(*steps, channel)
            return te.sum(window.product(value, weight, position, spatial, exact), axis=steps)

        shape = [data.shape[0], *window.extents(spatial), data.shape[-1]]
        return te.compute(shape, element, name="depthwise_conv")

    return function


def channels_first(window: Window, groups: int, *, exact: bool) -> Callable[..., Any]:
    """A convolution of ``[N, C, X...]`` over weights ``[O, C/groups, K...]``."""

    def function(data: Any, weights: Any) -> Any:
        source, spatial = window.padded(data, 2), data.shape[2:]
        outputs, depth = weights.shape[:2]
        steps, channel = window.axes(), te.reduce_axis((0, depth), "c")

        def element(batch: Any, output: Any, *where: Any) -> Any:
            position = window.positions(where, steps)
            group = output // (outputs // groups) if groups > 1 else 0
            value = source(batch, group * depth + channel, *position)
            weight = weights(output, channel, *steps)
            term = window.product(value, weight, position, spatial, exact)
            return te.sum(term, axis=[channel, *steps])

        shape = [data.shape[0], outputs, *window.extents(spatial)]
        return te.compute(shape, element, name="conv")

    return function
