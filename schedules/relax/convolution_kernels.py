"""Convolutions as tensor expressions that multiply nothing outside of the data.

Input: the sizes of windows, and layouts of the operands. Output: functions for ``call_te``. Padding
is excluded by a guard if weights may be infinite or NaN: ``0 * inf`` is not 0. If they are finite,
zeros around the data give the same. Strategies turn both into shorter loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import te, tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.codegen.dot_products import SINGLE, Dot
from tvm_nnef.tvm_support.compat import Array, PrimExpression, dtype_of

Axes = Sequence[tirx.IterVar]
"""The axes of a reduction."""

Weight = Callable[[te.Tensor, PrimExpression, Axes, Axes], PrimExpression]
"""The element of a tensor of weights for an output, input channels (one or none), and steps."""


def padded(
    data: te.Tensor,
    axes: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    value: PrimExpression,
) -> te.Tensor:
    """Return the data padded with a value along some axes, by ``before`` and ``after`` elements."""
    if not any((*before, *after)):
        return data
    shape = list(data.shape)
    for axis, front, back in zip(axes, before, after, strict=True):
        shape[axis] = shape[axis] + front + back

    def element(*indices: PrimExpression) -> PrimExpression:
        inner = list(indices)
        tests = []
        for axis, front, back in zip(axes, before, after, strict=True):
            inner[axis] = indices[axis] - front
            tests += [inner[axis] >= 0] if front else []
            tests += [inner[axis] < data.shape[axis]] if back else []
        return tirx.if_then_else(tirx.all(*tests), data(*inner), value)

    return te.compute(shape, element, name="padded")


@dataclass(frozen=True, slots=True)
class Window:
    """Sizes of the windows of a convolution, one for each spatial dimension."""

    size: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]

    @staticmethod
    def of(call: Call, size: Sequence[int]) -> Window:
        """The windows that the attributes of a convolution describe."""
        lists = (call.attrs.strides, call.attrs.dilation, call.attrs.padding)
        strides, dilation, padding = ([int(item) for item in each] for each in lists)
        return Window(size, strides, dilation, padding[: len(size)], padding[len(size) :])

    @property
    def is_padded(self) -> bool:
        """Whether a window may lie outside of the data."""
        return any((*self.before, *self.after))

    def is_plain(self) -> bool:
        """Whether each element of the result depends on one position of the data, the same one."""
        return all(n == 1 for n in (*self.size, *self.stride)) and not self.is_padded

    def extents(self, spatial: Sequence[sizes.Extent]) -> list[sizes.Extent]:
        """The spatial dimensions of the result, from those of the data."""
        return [
            (extent + before + after - (size - 1) * dilation - 1) // stride + 1
            for extent, size, stride, dilation, before, after in zip(
                spatial, self.size, self.stride, self.dilation, self.before, self.after,
                strict=True,
            )
        ]  # fmt: skip

    def axes(self) -> list[tirx.IterVar]:
        """The axes of a reduction over a window."""
        return [te.reduce_axis((0, size), f"k{n}") for n, size in enumerate(self.size)]

    def positions(self, indices: Sequence[PrimExpression], steps: Axes) -> list[PrimExpression]:
        """The spatial indices in the padded data of a step of a window."""
        return [
            index * stride + step.var * dilation
            for index, stride, step, dilation in zip(
                indices, self.stride, steps, self.dilation, strict=True
            )
        ]

    def is_inside(
        self, position: Sequence[PrimExpression], spatial: Sequence[sizes.Extent]
    ) -> PrimExpression:
        """Whether spatial indices in the padded data lie in the data."""
        tests = []
        for index, extent, before, after in zip(
            position, spatial, self.before, self.after, strict=True
        ):
            tests += [index >= before] if before else []
            tests += [index < extent + before] if after else []
        return tirx.all(*tests)


def is_exact(weights: Array | None, dtype: str) -> bool:
    """Whether products in the padding must be left out: weights are unknown, or not all finite."""
    if "float" not in dtype:
        return False
    return weights is None or not bool(np.isfinite(weights).all())


def convolution(
    window: Window,
    outputs: int,
    groups: int,
    depth: int,
    weight: Weight,
    *,
    last: bool,
    exact: bool,
    dot: Dot = SINGLE,
    fill: int = 0,
    attributes: Mapping[str, int] | None = None,
) -> Callable[[te.Tensor, te.Tensor], te.Tensor]:
    """A convolution to ``outputs`` channels in ``groups``, each of ``depth`` steps over channels.

    ``last`` says that channels are the last dimension; ``exact`` that a weight may not be finite;
    ``dot`` is what a step adds; ``fill`` the elements of the padding; ``attributes`` are those of
    the block.
    """

    def function(data: te.Tensor, weights: te.Tensor) -> te.Tensor:
        first = 1 if last else 2
        axes = range(first, first + len(window.size))
        spatial, zero = [data.shape[axis] for axis in axes], tirx.const(fill, data.dtype)
        source = padded(data, axes, window.before, window.after, zero)
        steps = window.axes()
        inputs = [te.reduce_axis((0, depth), "c")]
        is_cast = dot is SINGLE and data.dtype != weights.dtype

        def element(batch: PrimExpression, *indices: PrimExpression) -> PrimExpression:
            *spatial_index, output = indices if last else (*indices[1:], indices[0])
            position = window.positions(spatial_index, steps)
            group = output // (outputs // groups) if groups > 1 else 0
            first_read = (group * depth + inputs[0].var) * dot.loaded

            def loaded(channel: PrimExpression) -> PrimExpression:
                value = source(batch, *((*position, channel) if last else (channel, *position)))
                # Codes become elements of the sum here, and stay bytes in memory.
                return tirx.Cast(weights.dtype, value) if is_cast else value

            values = [loaded(first_read + number) for number in range(dot.loaded)]
            term = dot.term(values, weight(weights, output, inputs, steps))
            if exact and window.is_padded:
                inside = window.is_inside(position, spatial)
                term = tirx.Select(inside, term, tirx.const(0, dtype_of(term)))
            return te.sum(term, axis=[*steps, *inputs] if last else [*inputs, *steps])

        result = window.extents(spatial)
        shape = (*result, outputs) if last else (outputs, *result)
        return te.compute([data.shape[0], *shape], element, name="conv", attrs=attributes)

    return function


def in_panels(groups: int, columns: int, width: int) -> Weight:
    """The weights in panels ``[G, O/width, K..., C, width]`` of so many ``columns`` in each group.

    The first dimension of the panels is left out for one group.
    """

    def weight(
        panels: te.Tensor, output: PrimExpression, inputs: Axes, steps: Axes
    ) -> PrimExpression:
        if groups == 1:
            return panels(output // width, *steps, *inputs, output % width)
        inner = output % columns
        return panels(output // columns, inner // width, *steps, *inputs, inner % width)

    return weight


def by_channel(
    weights: te.Tensor, output: PrimExpression, inputs: Axes, steps: Axes
) -> PrimExpression:
    """The weights ``[K..., C/G, O]``."""
    return weights(*steps, *inputs, output)


def by_output(
    weights: te.Tensor, output: PrimExpression, inputs: Axes, steps: Axes
) -> PrimExpression:
    """The weights ``[O, C/G, K...]``."""
    return weights(output, *inputs, *steps)
