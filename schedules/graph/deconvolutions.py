"""Transposed convolutions, told by their indices.

Enters: a stage that sums ``x[n, c, (y + p - j) / s] * w[c, o, j]`` over those steps ``j`` at which
the division leaves nothing. Leaves: a :class:`Deconvolution`; builds nothing (:mod:`remainders`).
Channels may be in groups of ``m``, where ``c`` is ``o / f * m + c`` and ``w[c, o % f, j]`` is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.expressions import mentions, substituted, with_simple_indices
from tvm_nnef.schedules.graph.contractions import has
from tvm_nnef.schedules.graph.groups import channel_of, single_channel, with_indices
from tvm_nnef.schedules.graph.windows import is_whole, with_unit_axes
from tvm_nnef.schedules.padding import conjunction, is_zero
from tvm_nnef.schedules.stages import Axis, Stage
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, is_conditional


@dataclass(frozen=True, slots=True)
class Spread:
    """An index ``(axis + offset - step) / stride``; it may be written with whole strides apart."""

    axis: Axis
    step: Axis
    stride: int
    offset: int

    @property
    def times(self) -> int:
        """How many steps there are for a remainder, at most."""
        return int(-(-self.step.extent // self.stride))


@dataclass(frozen=True, slots=True, eq=False)
class Deconvolution:
    """A stage that is a transposed convolution, and the roles of its axes.

    ``left`` and ``right`` are loads of the data and of the weights; where there are several groups,
    they have the axes of channels of one group as their indices.
    """

    stage: Stage
    left: Any
    right: Any
    batch: Axis
    channel: Axis
    output: Axis
    spreads: tuple[Spread | None, ...]
    groups: int = 1

    @property
    def source(self) -> Any:
        """The buffer of the data."""
        return self.left.source

    @property
    def sources(self) -> tuple[Any, ...]:
        """The buffers that the operator reads."""
        return self.source, self.right.source


def deconvolution(stage: Stage) -> Deconvolution | None:
    """The transposed convolution that a stage is; None for any other stage."""
    product, init = stage.value, stage.init
    if stage.combine is not tirx.Add or not is_conditional(product) or stage.dtype != "float32":
        return None
    condition, product, other = product.args
    if not isinstance(product, tirx.Mul) or not all(is_zero(value) for value in (init, other)):
        return None
    if not all(isinstance(operand, BUFFER_LOAD) for operand in (product.a, product.b)):
        return None
    extents = [axis.extent for axis in (*stage.axes, *stage.reduced)]
    extents += [sizes.extent(e) for load in (product.a, product.b) for e in load.source.shape]
    if not all(map(sizes.is_known, extents)):
        return None
    for data, weights in ((product.a, product.b), (product.b, product.a)):
        found = _with_roles(stage, *(_simplified(load, stage) for load in (data, weights)))
        if found is not None and _allows(condition, found):
            return found
    return None


def _simplified(load: Any, stage: Stage) -> Any:
    """A load without quotients that are always 0; axes of one element stay, to be told apart."""
    analyzer = sym.Analyzer()
    for axis in (*stage.axes, *stage.reduced):
        if not axis.is_unit:
            analyzer.bind(axis.var, Range(0, axis.extent))
    return with_unit_axes(with_simple_indices(load, analyzer), stage)


def _with_roles(stage: Stage, data: Any, weights: Any) -> Deconvolution | None:
    groups, stage, data, weights = _in_group(stage, data, weights)
    spreads = tuple(_spread(index, stage) for index in data.indices)
    found = [spread for spread in spreads if spread is not None]
    plain = [a for a in (*stage.axes, *stage.reduced) if has(data, a)]
    if not 1 <= len(found) <= 3 or len(plain) != 2 or len(data.indices) != len(found) + 2:
        return None
    channels = [axis for axis in plain if axis in stage.reduced and has(weights, axis)]
    batches = [axis for axis in plain if axis in stage.axes and not has(weights, axis)]
    moving = [spread.axis for spread in found]
    outputs = [a for a in stage.axes if a not in (*moving, *batches) and has(weights, a)]
    if not len(channels) == len(batches) == len(outputs) == 1:
        return None
    several = [*channels, *outputs] if groups > 1 else []
    if not all(is_whole(data, axis) or axis in several for axis in plain):
        return None
    steps = [spread.step for spread in found]
    used = [channels[0], outputs[0], *steps]
    complete = len(weights.indices) == len(used) and all(
        has(weights, a) if a in several else is_whole(weights, a) for a in used
    )
    if not complete or len({id(a) for a in (*moving, *steps)}) != 2 * len(found):
        return None
    if len(stage.reduced) != len(steps) + 1 or len(stage.axes) != len(found) + 2:
        return None
    return Deconvolution(stage, data, weights, batches[0], channels[0], outputs[0], spreads, groups)


def _in_group(stage: Stage, data: Any, weights: Any) -> tuple[int, Stage, Any, Any]:
    """How many groups of channels there are, and both loads with the indices of one of them.

    The stage gets an axis for the channels of a group, where these have only one.
    """
    for place, size, output in _places_in_group(stage, weights):
        groups = output.extent // size
        single = single_channel(output)
        for channel in (*stage.reduced, single):
            index = channel_of(output, size, groups, channel)
            reads = [
                [n for n, i in enumerate(load.indices) if index(i)] for load in (data, weights)
            ]
            extents = [
                int(load.source.shape[n])
                for load, places in zip((data, weights), reads, strict=True)
                for n in places
                if n != place or load is data
            ]
            if extents == [groups * channel.extent] * 2:
                one = {reads[0][0]: channel.var}
                other = {reads[1][0]: channel.var, place: output.var}
                reduced = (*(a for a in stage.reduced if a is not channel), channel)
                own = replace(stage, reduced=reduced)
                return groups, own, with_indices(data, one), with_indices(weights, other)
    return 1, stage, data, weights


def _places_in_group(stage: Stage, weights: Any) -> list[tuple[int, int, Axis]]:
    """Dimensions of the weights that a remainder of an axis may run through, and their extents.

    A dimension of one element has the remainder after division by 1.
    """
    found = []
    for place, (index, given) in enumerate(zip(weights.indices, weights.source.shape, strict=True)):
        size = int(given)
        for axis in stage.axes:
            rest = isinstance(index, tirx.FloorMod) and index.a.same_as(axis.var)
            same = rest and isinstance(index.b, tirx.IntImm) and int(index.b.value) == size
            if axis.extent > size and axis.extent % size == 0 and (same or size == 1):
                found.append((place, size, axis))
    return found


def _spread(index: Any, stage: Stage) -> Spread | None:
    stride, whole = 1, 0
    if isinstance(index, tirx.Add) and isinstance(index.b, tirx.IntImm):
        index, whole = index.a, int(index.b.value)
    if isinstance(index, tirx.FloorDiv) and isinstance(index.b, tirx.IntImm):
        index, stride = index.a, int(index.b.value)
    for axis in stage.axes:
        for step in stage.reduced:
            equation = sym.detect_linear_equation(index, [axis.var, step.var])
            if len(equation) and all(isinstance(c, tirx.IntImm) for c in equation):
                slope, back, rest = (int(c.value) for c in equation)
                offset = rest + whole * stride
                if (slope, back) == (1, -1) and offset >= 0:
                    return Spread(axis, step, stride, offset)
    return None


def _allows(condition: Any, found: Deconvolution) -> bool:
    """Whether a condition holds just where all indices are whole numbers inside of the data."""
    tests = conjunction(condition)
    for spread, extent in zip(found.spreads, found.source.shape, strict=True):
        if spread is None:
            continue
        mine = [test for test in tests if mentions(test, [spread.axis.var])]
        tests = [test for test in tests if not any(test.same_as(each) for each in mine)]
        if not _is_inside(mine, spread, int(extent)):
            return False
    return not tests


def _is_inside(tests: Sequence[Any], spread: Spread, extent: int) -> bool:
    """Whether tests hold just for the places ``axis + offset - step`` of elements.

    Both are counted out for all values of axis and step.
    """
    # Tests see the axis and the step by their difference only: one step for each axis suffices.
    differences = np.arange(-spread.step.extent + 1, spread.axis.extent)
    values = {
        spread.axis.var: np.maximum(differences, 0), spread.step.var: np.maximum(-differences, 0),
    }  # fmt: skip
    index, rest = np.divmod(differences + spread.offset, spread.stride)
    holds = [_evaluated(test, values) for test in tests]
    if any(each is None for each in holds):
        return False
    inside = (rest == 0) & (index >= 0) & (index < extent)
    told = np.logical_and.reduce([np.full(len(differences), True), *holds])
    return np.array_equal(told, inside) and all(_depends_on_difference(t, spread) for t in tests)


_FUNCTIONS: Mapping[Any, Any] = {
    tirx.Add: np.add, tirx.Sub: np.subtract, tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide, tirx.FloorMod: np.mod,
    tirx.LT: np.less, tirx.LE: np.less_equal, tirx.GT: np.greater, tirx.GE: np.greater_equal,
    tirx.EQ: np.equal, tirx.NE: np.not_equal,
}  # fmt: skip


def _evaluated(expression: Any, values: Mapping[Any, Any]) -> Any:
    """What an expression is for arrays of values; None where it is made of anything else."""
    if isinstance(expression, tirx.IntImm):
        return int(expression.value)
    function = _FUNCTIONS.get(type(expression))
    if function is None:
        return values.get(expression)
    parts = [_evaluated(part, values) for part in (expression.a, expression.b)]
    return None if any(part is None for part in parts) else function(*parts)


def _depends_on_difference(test: Any, spread: Spread) -> bool:
    """Whether a test changes nothing when axis and step both grow by one."""
    one = tirx.const(1, str(spread.axis.var.ty.dtype))
    moved = {v: v + one for v in (spread.axis.var, spread.step.var)}
    analyzer = sym.Analyzer()
    shifted = analyzer.simplify(substituted(test, moved))
    return bool(tvm_ffi.structural_equal(shifted, analyzer.simplify(test)))
