"""How a stage reads an operand: along dimensions, over windows, from a padded copy.

Input: a load in a stage. Output: an :class:`Operand`, with the :class:`Window` of each index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import mentions
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.padding import Padding, read_padding


@dataclass(frozen=True, slots=True)
class Window:
    """An index ``stride * axis + dilation * step``."""

    axis: Axis
    step: Axis
    stride: int
    dilation: int


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A load along whole dimensions or over windows, of a buffer that may be padded."""

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
        """The padding before each dimension that a window moves over."""
        if self.padding is None:
            return [0] * len(self.moving)
        inside = zip(self.padding.inside, self.windows, strict=True)
        return [first for (first, _), window in inside if window is not None]


def operand_of(
    load: Any, stage: Stage, kernel: Kernel, times: Mapping[Any, int] | None = None
) -> Operand | None:
    """What a stage of a kernel reads by a load; None if its indices are of another kind.

    Windows may run over a copy that is padded with zeros. ``times`` are how many values of some
    indices there are along a dimension, such as groups.
    """
    load = _with_unit_axes(load, stage)
    windows = tuple(_window(index, stage) for index in load.indices)
    if not are_plain(load, stage, windows, times or {}):
        return None
    copied = kernel.stage_of(load.source)
    padding = read_padding(copied) if copied is not None and any(windows) else None
    if padding is not None and copied is not None:
        shifted = all(
            first == 0 or window is not None
            for (first, _), window in zip(padding.inside, windows, strict=True)
        )
        same = tvm_ffi.structural_equal(padding.value, stage.init)
        if shifted and same and _is_shift(padding, copied):
            return Operand(load, windows, padding, padding.source.source)
    return Operand(load, windows, None, load.source)


def _with_unit_axes(load: Any, stage: Stage) -> Any:
    """The load with axes of size 1 as indices instead of zeros, if the value has them nowhere.

    Those of the same dimension come first; if there is none, any of the others will do.
    """
    idle = {
        dimension: axis
        for dimension, axis in enumerate(stage.axes)
        if axis.is_unit and not mentions(stage.value, [axis.var])
    }
    indices = list(load.indices)
    pairs = enumerate(zip(indices, load.source.shape, strict=True))
    units = [n for n, (index, extent) in pairs if is_unit(index, extent)]
    for dimension in sorted(units, key=lambda each: each not in idle):
        if idle:
            indices[dimension] = idle.pop(dimension if dimension in idle else next(iter(idle))).var
    return load.source[tuple(indices)]


def _window(index: Any, stage: Stage) -> Window | None:
    """The window of an index; None for a plain index and for all others."""
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
    stage: Stage,
    windows: Sequence[Window | None] = (),
    times: Mapping[Any, int] = MappingProxyType({}),
) -> bool:
    """Whether each index is an axis of its own, all along its dimension, or one of the windows."""
    axes = {a.var: a.extent * times.get(a.var, 1) for a in (*stage.axes, *stage.reduced)}
    seen: list[Any] = []
    for index, extent, window in zip_longest(load.indices, load.source.shape, windows):
        if is_unit(index, extent):
            continue
        used = [window.axis.var, window.step.var] if window else [index]
        if any(var not in axes or var in seen for var in used):
            return False
        if window is None and not sizes.same(axes[index], sizes.extent(extent)):
            return False
        seen += used
    return True


def is_unit(index: Any, extent: Any) -> bool:
    """Whether a dimension has one element, which the index reads."""
    zero = isinstance(index, tirx.IntImm) and index.value == 0
    return zero and sizes.same(sizes.extent(extent), 1)


def positions(load: Any, stage: Stage) -> list[int | None] | None:
    """The position of each index of a load among the axes of a stage; None for another load.

    A dimension of one element has no position.
    """
    found: list[int | None] = []
    for index, extent in zip(load.indices, load.source.shape, strict=True):
        position = next((n for n, a in enumerate(stage.axes) if index.same_as(a.var)), None)
        if position is None and not is_unit(index, extent):
            return None
        found.append(position)
    known = [position for position in found if position is not None]
    return found if known == sorted(set(known)) else None


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
