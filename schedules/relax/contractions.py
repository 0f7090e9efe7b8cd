"""Stages that are sums of products, and by their indices matrix products or convolutions.

Input: a kernel. Output: its :class:`Contraction` stages, with the roles of their axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tvm import sym, tirx
from tvm.ir import Range, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.padding import read_guard
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.relax.windows import Operand, operand_of, reads_whole_dimensions
from tvm_nnef.tir.expressions import nodes, substituted
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of

_DTYPES = ("float32", "int32")
"""The dtypes in which operators compute what a sum of products does: others are rounded once."""


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A stage that is a sum of products of elements of ``data`` and ``weights``.

    ``shared`` are the axes of both operands and the result, ``rows`` those of the data and the
    result (and what has one element), ``columns`` those of the weights and the result, ``steps``
    those that are summed up; the axes of windows over the data are apart. If there are several
    ``groups`` of channels, the load of the data has a channel of one group as its index. Products
    outside of padded data may be left out, as convolutions do.
    """

    stage: Stage
    data: Operand
    weights: TensorLoad
    groups: int
    shared: list[Axis]
    rows: list[Axis]
    columns: list[Axis]
    steps: list[Axis]

    @property
    def sources(self) -> tuple[Buffer, Buffer]:
        """The buffers that the operator reads."""
        return self.data.source, self.weights.source


def contractions(kernel: Kernel) -> dict[Buffer, Contraction]:
    """The contractions of a kernel by the buffers that they fill."""
    found = ((stage.buffer, _contraction(stage, kernel)) for stage in kernel.stages)
    return {buffer: each for buffer, each in found if each is not None}


def _contraction(stage: Stage, kernel: Kernel) -> Contraction | None:
    guard = read_guard(stage.value, kernel.stage_of)
    product, init = stage.value if guard is None else guard.product, stage.init
    if stage.reducer is not SUM or stage.dtype not in _DTYPES or not isinstance(product, tirx.Mul):
        return None
    if not isinstance(init, (tirx.FloatImm, tirx.IntImm)) or init.value != 0:
        return None
    for data, weights in ((product.a, product.b), (product.b, product.a)):
        if not isinstance(data, TensorLoad) or not isinstance(weights, TensorLoad):
            return None
        if guard is not None and not guard.load.same_as(data):
            continue
        for found in _forms(data, weights, stage, kernel):
            if guard is None or found.data.padding is not None:
                return found
    return None


def _forms(
    load: TensorLoad, weights: TensorLoad, stage: Stage, kernel: Kernel
) -> Iterator[Contraction]:
    """Yield the products that a stage may be: one of all channels, or one for each group."""
    data = operand_of(load, stage, kernel)
    if data is not None:
        yield from _with_roles(stage, data, weights, 1)
        return
    for dimension, groups, output, channel in _groups(load, weights, stage):
        indices = list(load.indices)
        indices[dimension] = channel.var
        added = () if channel in stage.reduced else (channel,)
        own = replace(stage, reduced=(*stage.reduced, *added))
        data = operand_of(load.source[tuple(indices)], own, kernel, {channel.var: groups})
        if data is not None and data.moving:
            for found in _with_roles(own, data, weights, groups):
                if output not in found.columns:  # Another dimension of the data has it as index.
                    continue
                # An operator counts the groups along the outer channels.
                steps, columns = _first(channel, found.steps), _first(output, found.columns)
                yield replace(found, steps=steps, columns=columns)


def _first(axis: Axis, axes: list[Axis]) -> list[Axis]:
    """The axes in another order, with one of them in front."""
    return [axis, *(each for each in axes if each is not axis)]


def _with_roles(
    stage: Stage, data: Operand, weights: TensorLoad, groups: int
) -> Iterator[Contraction]:
    """The contraction of two operands, if all axes have a role."""
    left, axes = data.load, stage.axes
    moving, taps = [w.axis for w in data.moving], [w.step for w in data.moving]
    shared = [axis for axis in axes if has(left, axis) and has(weights, axis)]
    columns = [axis for axis in axes if has(weights, axis) and not has(left, axis)]
    rows = [axis for axis in axes if axis not in (*shared, *columns, *moving)]
    steps = [a for a in stage.reduced if has(left, a) and (has(weights, a) or a.is_unit)]
    complete = (
        reads_whole_dimensions(weights, stage)
        and all(has(left, axis) or axis.is_unit for axis in rows)
        and all(axis in (*steps, *taps) for axis in stage.reduced)
        and all(has(weights, axis) for axis in taps)
        and not any(has(weights, axis) for axis in moving)
    )
    if taps:
        known = len(taps) <= 3 and bool(columns or shared)
    else:
        # Rows come before columns: else the operands are swapped.
        known = bool(rows and columns) and axes.index(rows[-1]) <= axes.index(columns[-1])
    if complete and known:
        yield Contraction(stage, data, weights, groups, shared, rows, columns, steps)


def _groups(
    load: TensorLoad, weights: TensorLoad, stage: Stage
) -> Iterator[tuple[int, int, Axis, Axis]]:
    """Dimensions that are read in groups, their number, the outputs, and the channels of one."""
    for dimension, index in enumerate(load.indices):
        divided = [node.a for node in nodes(index, tirx.FloorDiv)]
        total = sizes.extent(load.source.shape[dimension])
        for output in (axis for axis in stage.axes if axis.var in divided and has(weights, axis)):
            single = Axis(tirx.Var("channel", dtype_of(output.var)), 1)
            for channel in (*stage.reduced, single):
                size = channel.extent
                if not (sizes.is_known(total) and sizes.is_known(size) and output.is_known):
                    continue
                groups = total // size
                if groups < 2 or groups * size != total or output.extent % groups:
                    continue
                if _is_channel(index, output, groups, channel):
                    yield dimension, groups, output, channel


def _is_channel(index: PrimExpression, output: Axis, groups: int, channel: Axis) -> bool:
    """Whether an index is that of a channel in the group of an output: ``o / size * count + c``."""
    dtype, size = dtype_of(output.var), output.extent // groups
    group, inner = tirx.Var("group", dtype), tirx.Var("inner", dtype)
    analyzer = sym.Analyzer()
    for var, extent in ((group, groups), (inner, size), (channel.var, channel.extent)):
        analyzer.bind(var, Range(0, extent))
    whole = {output.var: group * tirx.const(size, dtype) + inner}
    expected = group * tirx.const(channel.extent, dtype) + channel.var
    return bool(analyzer.can_prove_equal(substituted(index, whole), expected))


def has(load: TensorLoad, axis: Axis) -> bool:
    """Whether a load has an axis as an index."""
    return any(index.same_as(axis.var) for index in load.indices)
