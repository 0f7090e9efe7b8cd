"""How a stage reads an operand: whole dimensions, windows that move over them, a padded copy.

Enters: a load in a stage. Leaves: the :class:`Window` of each of its indices, and whether all are
told by that; and what a padded or plain copy of an operand was made of. Builds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import mentions
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.padding import Padding, read_padding
from tvm_nnef.tvm_support.compat import BUFFER_LOAD


@dataclass(frozen=True, slots=True)
class Window:
    """An index ``stride * axis + dilation * step``."""

    axis: Axis
    step: Axis
    stride: int
    dilation: int


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A load of whole dimensions or over windows, of a buffer in a frame of one value."""

    load: Any
    windows: tuple[Window | None, ...]
    padding: Padding | None
    source: Any

    @property
    def moving(self) -> list[Window]:
        """The windows, in the order of the dimensions that they move over."""
        return [window for window in self.windows if window is not None]

    @property
    def before(self) -> list[int]:
        """What is padded in front of each dimension that a window moves over."""
        if self.padding is None:
            return [0] * len(self.moving)
        inside = zip(self.padding.inside, self.windows, strict=True)
        return [first for (first, _), window in inside if window is not None]


def operand_of(
    load: Any, stage: Stage, kernel: Kernel, neutral: Any, times: Mapping[Any, int] | None = None
) -> Operand | None:
    """What a stage of a kernel reads by a load; None where its indices are of another kind.

    Windows may run over a copy that is padded with ``neutral``, the value that changes no result.
    ``times`` tells of indices how many of them there are along a dimension, such as groups.
    """
    load = with_unit_axes(load, stage)
    windows = tuple(_window(index, stage) for index in load.indices)
    if not are_plain(load, windows, stage, times or {}):
        return None
    copied = kernel.stage_of(load.source)
    if copied is not None and isinstance(copied.value, BUFFER_LOAD) and _is_copy(copied):
        return Operand(load, windows, None, copied.value.source)
    padding = read_padding(copied) if copied is not None and any(windows) else None
    if padding is not None and copied is not None:
        shifted = all(
            first == 0 or window is not None
            for (first, _), window in zip(padding.inside, windows, strict=True)
        )
        same = tvm_ffi.structural_equal(padding.value, neutral)
        if shifted and same and _is_shift(padding, copied):
            return Operand(load, windows, padding, padding.source.source)
    return Operand(load, windows, None, load.source)


def with_unit_axes(load: Any, stage: Stage) -> Any:
    """The load with axes of extent 1 in place of zeros, where the value mentions them nowhere.

    Those at the same place come first; where there is none, any of the others will do.
    """
    idle = {
        place: axis
        for place, axis in enumerate(stage.axes)
        if axis.is_unit and not mentions(stage.value, [axis.var])
    }
    extents = [sizes.extent(extent) for extent in load.source.shape]
    indices = list(load.indices)
    units = [n for n, index in enumerate(indices) if _is_unit(index, extents[n])]
    for place in sorted(units, key=lambda place: place not in idle):
        if idle:
            indices[place] = idle.pop(place if place in idle else next(iter(idle))).var
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


def are_plain(
    load: Any,
    windows: Sequence[Window | None],
    stage: Stage,
    times: Mapping[Any, int] = MappingProxyType({}),
) -> bool:
    """Whether each index is an axis of its own, all along its dimension, or a window."""
    axes = {a.var: a.extent * times.get(a.var, 1) for a in (*stage.axes, *stage.reduced)}
    seen: list[Any] = []
    for index, window, given in zip(load.indices, windows, load.source.shape, strict=True):
        extent = sizes.extent(given)
        if _is_unit(index, extent):
            continue
        used = [window.axis.var, window.step.var] if window else [index]
        if any(var not in axes or var in seen for var in used):
            return False
        if window is None and not sizes.same(axes[index], extent):
            return False
        seen += used
    return True


def _is_unit(index: Any, extent: sizes.Extent) -> bool:
    """Whether a dimension has one element, and that is read."""
    zero = isinstance(index, tirx.IntImm) and index.value == 0
    return zero and sizes.same(extent, 1)


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
    indices, shape = padding.source.indices, padding.source.source.shape
    if len(indices) != len(copied.axes):
        return False
    for index, (first, last), axis, extent in zip(
        indices, padding.inside, copied.axes, shape, strict=True
    ):
        equation = sym.detect_linear_equation(index, [axis.var])
        if not len(equation) or not all(isinstance(c, tirx.IntImm) for c in equation):
            return False
        slope, base = (int(c.value) for c in equation)
        length = last - first if first else last
        if slope != 1 or base != -first or not sizes.same(length, sizes.extent(extent)):
            return False
    return True
