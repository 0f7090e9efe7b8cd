"""Stages that are sums of products: how their indices tell products of matrices and convolutions.

Enters: a kernel. Leaves: its :class:`Contraction` stages and the roles of their
axes. Builds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.padding import Padding, read_padding
from tvm_nnef.schedules.stages import Axis, Kernel, Stage
from tvm_nnef.tvm_compat import BUFFER_LOAD


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A stage that is a sum of products, and the padding of its first operand."""

    stage: Stage
    left: Any
    right: Any
    windows: tuple[Window | None, ...]
    padding: Padding | None
    source: Any

    @property
    def is_product(self) -> bool:
        """Whether all indices are plain, so that it is a product of matrices."""
        return not any(self.windows)


@dataclass(frozen=True, slots=True)
class Window:
    """An index ``stride * axis + dilation * step``."""

    axis: Axis
    step: Axis
    stride: int
    dilation: int


def contractions(kernel: Kernel) -> dict[Any, Contraction]:
    """The contractions of a kernel by the buffers that they fill."""
    found = {}
    for stage in kernel.stages:
        contraction = _contraction(stage, kernel)
        if contraction is not None:
            found[stage.buffer] = contraction
    return found


def _contraction(stage: Stage, kernel: Kernel) -> Contraction | None:
    product, init = stage.value, stage.init
    if stage.combine is not tirx.Add or not isinstance(product, tirx.Mul):
        return None
    if stage.dtype != "float32" or not isinstance(init, tirx.FloatImm) or init.value != 0:
        return None
    operands = (product.a, product.b)
    if not all(isinstance(operand, BUFFER_LOAD) for operand in operands):
        return None
    if product.a.source.same_as(product.b.source):
        return None
    for data, right in (operands, operands[::-1]):
        left = with_unit_axes(data, stage)
        windows = [_window(index, stage) for index in left.indices]
        plain = _are_plain(left, windows, stage) and _are_plain(
            right, [None] * len(right.indices), stage
        )
        if not plain:
            continue
        found = _with_padding(stage, left, right, tuple(windows), kernel)
        valid = found is not None and (
            matrix_axes(found) if found.is_product else convolution_axes(found)
        )
        if valid:
            return found
    return None


def with_unit_axes(load: Any, stage: Stage) -> Any:
    """The load with axes of extent 1 in place of zeros, where the value mentions them nowhere."""
    found: list[Any] = []
    tvm_ffi.structural_walk(stage.value, (tirx.Var, found.append), order="post")
    indices = list(load.indices)
    for place, (index, axis) in enumerate(zip(indices, stage.axes, strict=False)):
        idle = axis.is_unit and not any(var.same_as(axis.var) for var in found)
        if idle and _is_unit(index, load.source.shape[place]):
            indices[place] = axis.var
    return load.source[tuple(indices)]


def _window(index: Any, stage: Stage) -> Window | None:
    """The window that an index moves over; None for a plain index and for all others."""
    if isinstance(index, tirx.Var):
        return None
    for axis in stage.axes:
        for step in stage.reduced:
            equation = sym.detect_linear_equation(index, [axis.var, step.var])
            if not len(equation) or not all(isinstance(c, tirx.IntImm) for c in equation):
                continue
            stride, dilation, base = (int(c.value) for c in equation)
            if stride > 0 and dilation > 0 and base == 0:
                return Window(axis, step, stride, dilation)
    return None


def _are_plain(load: Any, windows: Sequence[Window | None], stage: Stage) -> bool:
    """Whether each index is an axis of its own, or a window."""
    axes = [axis.var for axis in (*stage.axes, *stage.reduced)]
    seen: list[Any] = []
    for index, window, extent in zip(load.indices, windows, load.source.shape, strict=True):
        if _is_unit(index, extent):
            continue
        used = [window.axis.var, window.step.var] if window else [index]
        if any(var not in axes or var in seen for var in used):
            return False
        seen += used
    return True


def _is_unit(index: Any, extent: Any) -> bool:
    """Whether a dimension has one element, and that is read."""
    zero = isinstance(index, tirx.IntImm) and index.value == 0
    return zero and sizes.same(sizes.extent(extent), 1)


def _with_padding(
    stage: Stage, left: Any, right: Any, windows: tuple[Window | None, ...], kernel: Kernel
) -> Contraction | None:
    """The contraction; with windows over a padded copy it reads what was copied."""
    copied = kernel.stage_of(left.source)
    if copied is not None and _is_copy(copied):
        return Contraction(stage, left, right, windows, None, copied.value.source)
    padding = read_padding(copied) if copied is not None and any(windows) else None
    if padding is not None and copied is not None:
        shifted = all(
            first == 0 or window is not None
            for (first, _), window in zip(padding.inside, windows, strict=True)
        )
        if shifted and float(padding.value.value) == 0 and _is_shift(padding, copied):
            return Contraction(stage, left, right, windows, padding, padding.source.source)
    return Contraction(stage, left, right, windows, None, left.source)


def _is_copy(stage: Stage) -> bool:
    """Whether a stage holds another buffer as it is."""
    value = stage.value
    if stage.reduced or not isinstance(value, BUFFER_LOAD):
        return False
    shape = [sizes.extent(extent) for extent in value.source.shape]
    return len(shape) == len(stage.axes) and all(
        sizes.same(extent, axis.extent) and index.same_as(axis.var)
        for extent, index, axis in zip(shape, value.indices, stage.axes, strict=True)
    )


def _is_shift(padding: Padding, copied: Stage) -> bool:
    """Whether the copy holds its whole source, at the beginning of the range inside."""
    for index, (first, last), axis, extent in zip(
        padding.source.indices, padding.inside, copied.axes, padding.source.source.shape,
        strict=True,
    ):  # fmt: skip
        equation = sym.detect_linear_equation(index, [axis.var])
        if not len(equation) or not all(isinstance(c, tirx.IntImm) for c in equation):
            return False
        slope, base = (int(c.value) for c in equation)
        length = last - first if first else last
        if slope != 1 or base != -first or not sizes.same(length, sizes.extent(extent)):
            return False
    return True


def has(load: Any, axis: Axis) -> bool:
    """Whether a dimension of a load is an axis."""
    return any(index.same_as(axis.var) for index in load.indices)


def _moving(stage: Stage) -> list[Axis]:
    """The axes without those of extent 1 that the value does not mention."""
    found: list[Any] = []
    tvm_ffi.structural_walk(stage.value, (tirx.Var, found.append), order="post")
    return [a for a in stage.axes if not a.is_unit or any(var.same_as(a.var) for var in found)]


def matrix_axes(found: Contraction) -> tuple[list[Axis], list[Axis], list[Axis]] | None:
    """The axes that both operands share, those of the left one, and those of the right one."""
    stage, left, right = found.stage, found.left, found.right
    if not all(has(left, axis) and has(right, axis) for axis in stage.reduced):
        return None
    both = [a for a in stage.axes if has(left, a) and has(right, a)]
    rows = [a for a in stage.axes if has(left, a) and not has(right, a)]
    columns = [a for a in stage.axes if has(right, a) and not has(left, a)]
    complete = all(axis in (*both, *rows, *columns) for axis in _moving(stage))
    if not complete or not rows or not columns:
        return None
    ordered = [*both, *rows, *columns]
    # Rows in front of columns: else the operands change places.
    if stage.axes.index(rows[-1]) > stage.axes.index(columns[-1]):
        return None
    return (both, rows, columns) if ordered else None


@dataclass(frozen=True, slots=True, eq=False)
class ConvolutionAxes:
    """What the axes of a convolution are for; ``channel`` is ``output`` where it is depthwise."""

    batch: Axis
    channel: Axis
    output: Axis
    windows: list[Window]
    depthwise: bool


def convolution_axes(found: Contraction) -> ConvolutionAxes | None:
    """The roles of the axes of a convolution; None where one is missing."""
    stage, left, right = found.stage, found.left, found.right
    windows = [window for window in found.windows if window is not None]
    plain = [
        axis
        for axis in (*stage.axes, *stage.reduced)
        if any(index.same_as(axis.var) for index in left.indices)
    ]
    moving = [window.axis for window in windows]
    steps = [window.step for window in windows]
    if len(plain) != 2 or not 1 <= len(windows) <= 3 or len(stage.axes) != len(windows) + 2:
        return None
    channels = [axis for axis in plain if has(right, axis)]
    batches = [axis for axis in plain if not has(right, axis) and axis in stage.axes]
    if len(channels) != 1 or len(batches) != 1:
        return None
    (channel,), (batch,) = channels, batches
    depthwise = channel in stage.axes
    outputs = [a for a in stage.axes if a not in (*moving, batch)]
    expected = [*steps, *(outputs if depthwise else [*outputs, channel])]
    reduced = steps if depthwise else [*steps, channel]
    if len(outputs) != 1 or len(right.indices) != len(expected):
        return None
    complete = all(has(right, axis) for axis in expected) and all(
        axis in reduced for axis in stage.reduced
    )
    if not complete or len(reduced) != len(stage.reduced):
        return None
    return ConvolutionAxes(batch, channel, outputs[0], windows, depthwise)
