"""Access of a stage to an operand: along dimensions, over windows, from a padded copy.

Input: a load in a stage. Output: an :class:`Operand`, with the :class:`WindowIndex` of each index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import linear
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.padding import Padding, read_padding
from tvm_nnef.tir.expressions import variables
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression


@dataclass(frozen=True, slots=True)
class WindowIndex:
    """An index ``stride * axis + dilation * step``."""

    axis: Axis
    step: Axis
    stride: int
    dilation: int


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A load along whole dimensions or over windows; ``source`` is its buffer before padding."""

    load: TensorLoad
    windows: tuple[WindowIndex | None, ...]
    padding: Padding | None
    source: Buffer

    @property
    def moving(self) -> list[WindowIndex]:
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
    load: TensorLoad,
    stage: Stage,
    kernel: Kernel,
    times: Mapping[tirx.Var, int] = MappingProxyType({}),
) -> Operand | None:
    """Return the windows that a stage of a kernel reads by a load; None for indices of other kinds.

    Windows may run over a copy that is padded with zeros. ``times`` are how many values of some
    indices there are along a dimension, such as groups.
    """
    windows = tuple(_window(index, stage) for index in load.indices)
    if not reads_whole_dimensions(load, stage, windows, times):
        return None
    copied = kernel.stage_of(load.source)
    padding = read_padding(copied) if copied is not None and any(windows) else None
    if padding is None or copied is None or not _is_around_source(padding, copied, windows, stage):
        return Operand(load, windows, None, load.source)
    return Operand(load, windows, padding, padding.source.source)


def _window(index: PrimExpression, stage: Stage) -> WindowIndex | None:
    """The window of an index; None for a plain index and for all others."""
    found = variables(index)
    axis = next((axis for axis in stage.axes if axis.var in found), None)
    step = next((axis for axis in stage.reduced if axis.var in found), None)
    if axis is None or step is None:
        return None
    match linear(index, axis.var, step.var):
        case [int(stride), int(dilation), 0] if stride > 0 and dilation > 0:
            return WindowIndex(axis, step, stride, dilation)
    return None


def reads_whole_dimensions(
    load: TensorLoad,
    stage: Stage,
    windows: Sequence[WindowIndex | None] = (),
    times: Mapping[tirx.Var, int] = MappingProxyType({}),
) -> bool:
    """Whether each index is its own axis, all along its dimension, or one of the windows."""
    axes = {a.var: a.extent * times.get(a.var, 1) for a in (*stage.axes, *stage.reduced)}
    seen: list[PrimExpression] = []
    for index, size, window in zip_longest(load.indices, load.source.shape, windows):
        if _is_unit(index, size):
            continue
        used = [window.axis.var, window.step.var] if window else [index]
        if any(var not in axes or var in seen for var in used):
            return False
        if isinstance(index, tirx.Var) and not sizes.same(axes[index], sizes.extent(size)):
            return False
        seen += used
    return True


def _is_unit(index: PrimExpression, size: PrimExpression) -> bool:
    """Whether a dimension has one element, which the index reads."""
    zero = isinstance(index, tirx.IntImm) and index.value == 0
    return zero and sizes.same(sizes.extent(size), 1)


def _is_around_source(
    padding: Padding, copied: Stage, windows: Sequence[WindowIndex | None], stage: Stage
) -> bool:
    """Whether a copy has the neutral value around its whole source, where windows move only."""
    indices, shape = padding.source.indices, padding.source.source.shape
    if len(indices) != len(copied.axes):
        return False
    return tvm_ffi.structural_equal(padding.value, stage.init) and all(
        sizes.same(sizes.simplified(axis.var - index), first)
        and sizes.same(last - first if first else last, sizes.extent(size))
        and (window is not None or sizes.same(axis.extent, sizes.extent(size)))
        for index, size, axis, (first, last), window in zip(
            indices, shape, copied.axes, padding.inside, windows, strict=True
        )
    )


def positions(load: TensorLoad, stage: Stage) -> list[int | None] | None:
    """The position of each index of a load among the axes of a stage; None for another load.

    A dimension of one element has no position.
    """
    found: list[int | None] = []
    for index, size in zip(load.indices, load.source.shape, strict=True):
        position = next((n for n, a in enumerate(stage.axes) if index.same_as(a.var)), None)
        if position is None and not _is_unit(index, size):
            return None
        found.append(position)
    known = [position for position in found if position is not None]
    return found if known == sorted(set(known)) else None
