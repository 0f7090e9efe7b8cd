"""Stages that are sums of products, and by their indices matrix products or convolutions.

Input: a kernel. Output: its :class:`Contraction` stages and the roles of their axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules.analysis.expressions import mentions, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.padding import read_guard
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.graph.windows import Operand, Window, are_plain, operand_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, dtype_of

_DTYPES = ("float32", "int32")
"""The dtypes in which operators compute what a sum of products does: others are rounded once."""


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A stage that is a sum of products; only the first operand may be read over windows.

    Products outside of padded data may be left out, as convolutions do. If there are several
    ``groups`` of channels, the load of the first operand has a channel of one group as its index.
    """

    stage: Stage
    data: Operand
    right: Any
    groups: int = 1

    @property
    def left(self) -> Any:
        """The load of the first operand."""
        return self.data.load

    @property
    def source(self) -> Any:
        """The buffer of the first operand, before it is padded."""
        return self.data.source

    @property
    def sources(self) -> tuple[Any, ...]:
        """The buffers that the operator reads."""
        return self.source, self.right.source

    @property
    def is_product(self) -> bool:
        """Whether all indices are plain, so that it is a product of matrices."""
        return not self.data.moving


def contractions(kernel: Kernel) -> dict[Any, Contraction]:
    """The contractions of a kernel by the buffers that they fill."""
    found = {}
    for stage in kernel.stages:
        contraction = _contraction(stage, kernel)
        if contraction is not None:
            found[stage.buffer] = contraction
    return found


def _contraction(stage: Stage, kernel: Kernel) -> Contraction | None:
    guard = read_guard(stage.value, kernel.stage_of)
    product, init = stage.value if guard is None else guard.product, stage.init
    if stage.reducer is not SUM or not isinstance(product, tirx.Mul):
        return None
    if stage.dtype not in _DTYPES or not isinstance(init, (tirx.FloatImm, tirx.IntImm)):
        return None
    if init.value != 0:
        return None
    operands = (product.a, product.b)
    if not all(isinstance(operand, BUFFER_LOAD) for operand in operands):
        return None
    for first, right in (operands, operands[::-1]):
        if guard is not None and not guard.load.same_as(first):
            continue
        for found in _forms(first, right, stage, kernel):
            if guard is not None and found.data.padding is None:
                continue
            if matrix_axes(found) if found.is_product else convolution_axes(found):
                return found
    return None


def _forms(first: Any, right: Any, stage: Stage, kernel: Kernel) -> Iterable[Contraction]:
    """What the operands of a product are, with all channels or with those of a group each."""
    data = operand_of(first, stage, kernel)
    if data is not None and are_plain(right, stage):
        yield Contraction(stage, data, right)
    for dimension, output, groups, channel in _groups(first, stage) if data is None else ():
        own, load, weights = stage, _with_indices(first, {dimension: channel.var}), right
        if channel not in stage.reduced:
            own = replace(stage, reduced=(*stage.reduced, channel))
            idle = [n for n, index in enumerate(right.indices) if isinstance(index, tirx.IntImm)]
            weights = _with_indices(right, dict.fromkeys(idle[:1], channel.var))
        data = operand_of(load, own, kernel, {channel.var: groups})
        if data is not None and data.moving and are_plain(weights, own) and has(weights, output):
            yield Contraction(own, data, weights, groups)


def _groups(load: Any, stage: Stage) -> Iterable[tuple[int, Axis, int, Axis]]:
    """Dimensions that are read in groups, each with the outputs, groups and channels of a group."""
    for dimension, (index, extent) in enumerate(zip(load.indices, load.source.shape, strict=True)):
        found: list[Any] = []
        tvm_ffi.structural_walk(index, (tirx.FloorDiv, found.append), order="post")
        for output in stage.axes:
            if not any(each.a.same_as(output.var) for each in found):
                continue
            single = Axis(tirx.Var("channel", dtype_of(output.var)), 1)
            for channel in (*stage.reduced, single):
                known = isinstance(extent, tirx.IntImm) and output.is_known and channel.is_known
                groups = int(extent) // channel.extent if known else 0
                if groups < 2 or groups * channel.extent != extent or output.extent % groups:
                    continue
                if _is_channel(index, output, groups, channel):
                    yield dimension, output, groups, channel


def _is_channel(index: Any, output: Axis, groups: int, channel: Axis) -> bool:
    """Whether an index is that of a channel in the group of an output: ``o / size * count + c``."""
    dtype, size = dtype_of(output.var), output.extent // groups
    group, inner = tirx.Var("group", dtype), tirx.Var("inner", dtype)
    analyzer = sym.Analyzer()
    for var, extent in ((group, groups), (inner, size), (channel.var, channel.extent)):
        analyzer.bind(var, Range(0, extent))
    whole = {output.var: group * tirx.const(size, dtype) + inner}
    expected = group * tirx.const(channel.extent, dtype) + channel.var
    rest = analyzer.simplify(substituted(index, whole) - expected)
    return isinstance(rest, tirx.IntImm) and int(rest.value) == 0


def _with_indices(load: Any, indices: Mapping[int, Any]) -> Any:
    """The load with other indices of some dimensions."""
    return load.source[tuple(indices.get(n, index) for n, index in enumerate(load.indices))]


def has(load: Any, axis: Axis) -> bool:
    """Whether a load has an axis as an index."""
    return any(index.same_as(axis.var) for index in load.indices)


def _moving(stage: Stage) -> list[Axis]:
    """The axes without those of extent 1 that the value does not mention."""
    return [a for a in stage.axes if not a.is_unit or mentions(stage.value, [a.var])]


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
    # Rows come before columns: else the operands are swapped.
    if stage.axes.index(rows[-1]) > stage.axes.index(columns[-1]):
        return None
    return both, rows, columns


@dataclass(frozen=True, slots=True, eq=False)
class ConvolutionAxes:
    """What the axes of a convolution are for; ``channel`` is ``output`` if it is depthwise.

    ``group`` is the axis over groups of channels, if there is one.
    """

    batch: Axis
    channel: Axis
    output: Axis
    windows: list[Window]
    depthwise: bool
    group: Axis | None = None


def convolution_axes(found: Contraction) -> ConvolutionAxes | None:
    """The roles of the axes of a convolution; None if one is missing."""
    stage, left, right = found.stage, found.left, found.right
    windows = found.data.moving
    plain = [axis for axis in (*stage.axes, *stage.reduced) if has(left, axis)]
    moving = [window.axis for window in windows]
    steps = [window.step for window in windows]
    shared = [axis for axis in plain if axis in stage.axes and has(right, axis)]
    group = shared[0] if len(plain) == 3 and len(shared) == 1 else None
    plain = [axis for axis in plain if axis is not group]
    grouped = [] if group is None else [group]
    if len(plain) != 2 or not 1 <= len(windows) <= 3:
        return None
    if len(stage.axes) != len(windows) + 2 + len(grouped):
        return None
    channels = [axis for axis in plain if has(right, axis)]
    batches = [axis for axis in plain if not has(right, axis) and axis in stage.axes]
    if len(channels) != 1 or len(batches) != 1:
        return None
    (channel,), (batch,) = channels, batches
    depthwise = channel in stage.axes
    outputs = [a for a in stage.axes if a not in (*moving, batch, *grouped)]
    expected = [*grouped, *steps, *(outputs if depthwise else [*outputs, channel])]
    reduced = steps if depthwise else [*steps, channel]
    # Other dimensions of the weights have one element.
    given = [index for index in right.indices if isinstance(index, tirx.Var)]
    if len(outputs) != 1 or len(given) != len(expected):
        return None
    complete = all(has(right, axis) for axis in expected) and all(
        axis in reduced for axis in stage.reduced
    )
    if not complete or len(reduced) != len(stage.reduced):
        return None
    return ConvolutionAxes(batch, channel, outputs[0], windows, depthwise, group)
