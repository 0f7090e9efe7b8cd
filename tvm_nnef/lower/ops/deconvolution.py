"""Transposed convolutions as Relax operators, by polyphase (sub-pixel) decomposition.

Input: the data, the weights, and the geometry of each spatial axis. Output: a Relax expression.

Element ``y`` of the result sums ``x[q - t * dilation / stride] * w[t]`` over those taps ``t`` at
which ``(y + offset - t * dilation)`` is a multiple of the stride. All elements with the same
remainder of ``y + offset`` (a *phase*) use the same taps, every so many, so that a phase is an
ordinary convolution of stride 1 over the data, and the result interleaves the phases. No zeros are
inserted into the data: they would be multiplied with weights, and data with zero weights, which is
NaN for infinite numbers.

Strides, taps, dilation and offsets are static; the batch and the spatial sizes may be dynamic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.ops.common import permuted
from tvm_nnef.symbolic.dimensions import Dimension, equal, is_static, mul, sub
from tvm_nnef.tvm_support.compat import (
    BlockBuilder,
    PrimExpression,
    RelaxExpression,
    constant,
    constant_array,
    dtype_of,
    shape_and_dtype,
)

CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}
"""Relax's convolutions, by the number of spatial dimensions."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The taps of one phase, and how many elements before ``q`` the first of them reads."""

    taps: range
    lag: int


@dataclass(frozen=True, slots=True)
class Run:
    """Phases of equal geometry with remainders from ``first`` on; none if they have no taps."""

    first: int
    phases: tuple[Phase, ...]


_MOST_RUNS = 16
"""An axis with more runs, each its own convolution, is left to the formula."""


@dataclass(frozen=True)
class Axis:
    """The geometry of one spatial axis.

    ``offset``: how many elements of the full result precede the output; it may be negative.
    ``growth``: by how much the output is larger than the input times the stride.
    """

    taps: int
    stride: int
    dilation: int
    offset: int
    growth: int

    @staticmethod
    def of(
        size: Dimension, taps: int, output: Dimension, stride: int, dilation: int, offset: int
    ) -> Axis | None:
        """The axis with these sizes; None if it is not to be decomposed.

        That is so if the output does not grow with the input, or takes too many convolutions.
        """
        growth = sub(output, mul(size, stride))
        if not is_static(growth):
            return None
        axis = Axis(taps, stride, dilation, offset, growth)
        return axis if len(axis.runs) <= _MOST_RUNS else None

    @cached_property
    def phases(self) -> list[Phase | None]:
        """The phases by their remainders; None for one without taps."""
        period = self.stride // math.gcd(self.stride, self.dilation)
        found: list[Phase | None] = [None] * self.stride
        for first in range(min(period, self.taps)):
            lag, remainder = divmod(first * self.dilation, self.stride)
            found[remainder] = Phase(range(first, self.taps, period), lag)
        return found

    @cached_property
    def runs(self) -> list[Run]:
        """The phases in runs of equal geometry; without dilation there are two at most."""
        groups = itertools.groupby(
            enumerate(self.phases), lambda item: item[1] and (len(item[1].taps), item[1].lag)
        )
        items = [list(group) for _, group in groups]
        return [Run(group[0][0], tuple(phase for _, phase in group if phase)) for group in items]

    @property
    def step(self) -> int:
        """The distance between the elements of the data that neighbouring taps of a phase read."""
        return self.dilation // math.gcd(self.stride, self.dilation)

    def reach(self, phase: Phase) -> int:
        """Return the distance before ``q`` of the element that the last tap of a phase reads."""
        return phase.lag + (len(phase.taps) - 1) * self.step

    @cached_property
    def first(self) -> int:
        """The first ``q`` that is computed, such that no phase begins after the data does."""
        reaches = [self.reach(phase) for phase in self.phases if phase is not None]
        return min(self.offset // self.stride, *reaches)

    @property
    def begin(self) -> int:
        """Where the output begins among the interleaved phases."""
        return self.offset - self.first * self.stride

    def padding(self, phase: Phase) -> tuple[int, int]:
        """The padding of a phase's convolution, which gives at least all elements that are used."""
        more = (self.begin + self.growth - 1) // self.stride + 1
        return self.reach(phase) - self.first, max(0, more + self.first - phase.lag)


def deconvolution(
    builder: BlockBuilder,
    data: RelaxExpression,
    weights: RelaxExpression,
    axes: Sequence[Axis],
    shape: Sequence[Dimension],
    groups: int,
) -> RelaxExpression:
    """The transposed convolution of data ``[N, G*C, X...]`` and weights ``[G*C, O, K...]``.

    ``shape`` is that of the result, ``[N, G*O, Y...]``.
    """
    data, weights = map(builder.normalize, (data, weights))
    parts = [
        (part, list(itertools.product(*(run.phases for run in part))))
        for part in itertools.product(*(axis.runs for axis in axes))
    ]
    made = {
        part: _convolved(builder, data, weights, axes, phases, groups)
        for part, phases in parts
        if phases
    }
    if all(axis.stride == 1 for axis in axes):
        (only,) = made.values()
        if _is_whole(only, axes, shape):
            return only
    outputs, dtype = shape_and_dtype(weights)[0][1], shape_and_dtype(data)[1]

    def interleaved(*sources: te.Tensor) -> te.Tensor:
        tensors = dict(zip(made, sources, strict=True))

        def element(batch: Any, channel: Any, *indices: Any) -> PrimExpression:
            moved = [index + axis.begin for index, axis in zip(indices, axes, strict=True)]
            pairs = list(zip(moved, axes, strict=True))
            where = [tirx.floordiv(index, axis.stride) for index, axis in pairs]
            remainders = [tirx.floormod(index, axis.stride) for index, axis in pairs]

            def of_part(part: Sequence[Run]) -> PrimExpression:
                if part not in tensors:
                    return tirx.const(0, dtype)
                number = _number(part, remainders)
                count = math.prod(len(run.phases) for run in part)
                group, inner = tirx.const(0, dtype_of(channel)), channel
                if groups > 1 and count > 1:
                    group, inner = tirx.floordiv(channel, outputs), tirx.floormod(channel, outputs)
                own = (group * count + number) * outputs + inner if count > 1 else channel
                return tensors[part](batch, own, *where)

            return _chosen([axis.runs for axis in axes], remainders, of_part)

        return te.compute(list(shape), element, name="interleaved")

    return call_kernel(builder, interleaved, list(made.values()), "interleave")


def _is_whole(value: RelaxExpression, axes: Sequence[Axis], shape: Sequence[Dimension]) -> bool:
    """Whether the result of the only phase is all of the output, and no more."""
    found = shape_and_dtype(value)[0]
    return not any(axis.begin for axis in axes) and all(
        equal(own, wanted) for own, wanted in zip(found[2:], shape[2:], strict=True)
    )


def _number(part: Sequence[Run], remainders: Sequence[Any]) -> Any:
    """The number of a phase, by its remainders, among those of a part."""
    number: Any = 0
    for run, remainder in zip(part, remainders, strict=True):
        if len(run.phases) > 1:
            number = number * len(run.phases) + (remainder - run.first)
    return number


def _chosen(
    runs: Sequence[Sequence[Run]],
    remainders: Sequence[Any],
    value: Callable[[tuple[Run, ...]], PrimExpression],
    part: tuple[Run, ...] = (),
) -> PrimExpression:
    """The value of the part to which the remainders belong."""
    if len(part) == len(runs):
        return value(part)
    own, remainder = runs[len(part)], remainders[len(part)]
    result = _chosen(runs, remainders, value, (*part, own[-1]))
    for run, following in reversed(list(itertools.pairwise(own))):
        chosen = _chosen(runs, remainders, value, (*part, run))
        end = tirx.const(following.first, dtype_of(remainder))
        result = tirx.if_then_else(remainder < end, chosen, result)
    return result


def _convolved(
    builder: BlockBuilder,
    data: RelaxExpression,
    weights: RelaxExpression,
    axes: Sequence[Axis],
    phases: Sequence[Sequence[Phase]],
    groups: int,
) -> RelaxExpression:
    """The convolution that computes some phases of equal geometry: channels ``[G, phase, O]``."""
    (channels, outputs, *_), _ = shape_and_dtype(weights)
    counts = [len(one.taps) for one in phases[0]]
    pads = [axis.padding(one) for axis, one in zip(axes, phases[0], strict=True)]
    shape = (groups, channels // groups, outputs, *counts)
    kernels = [_kernel(builder, weights, phase, shape) for phase in phases]
    whole = (groups * len(phases) * outputs, channels // groups, *counts)
    made = CONVOLUTIONS[len(axes)](
        data,
        _joined(builder, kernels, whole),
        padding=[*(before for before, _ in pads), *(after for _, after in pads)],
        dilation=[axis.step for axis in axes],
        groups=groups,
    )
    return builder.emit(made)


def _kernel(
    builder: BlockBuilder, weights: RelaxExpression, phase: Sequence[Phase], shape: Sequence[int]
) -> RelaxExpression:
    """The weights of one phase as those of a convolution, ``[G, O, C, K...]``.

    ``shape`` is ``[G, C, O, K...]``. A convolution reads the data in the order of its taps, so the
    last tap of the phase comes first.
    """
    order, spatial = [0, 2, 1, *range(3, len(shape))], range(2, 2 + len(phase))
    array = constant_array(weights)
    slices = [slice(one.taps[0], one.taps[-1] + 1, one.taps.step) for one in phase]
    if array is not None:
        where = (slice(None), slice(None), *slices)
        turned = np.flip(array[where], tuple(spatial)).reshape(shape)
        return constant(turned.transpose(order))
    value = builder.emit(
        relax.op.strided_slice(
            weights,
            list(spatial),
            [each.start for each in slices],
            [each.stop for each in slices],
            [each.step for each in slices],
        )
    )
    for axis, one in zip(spatial, phase, strict=True):
        value = builder.emit(relax.op.flip(value, axis)) if len(one.taps) > 1 else value
    return builder.emit(permuted(builder.emit(relax.op.reshape(value, tuple(shape))), order))


def _joined(
    builder: BlockBuilder, kernels: Sequence[RelaxExpression], shape: Sequence[int]
) -> RelaxExpression:
    """The weights ``[G, O, C, K...]`` of several phases as those of one convolution."""
    arrays = [array for array in map(constant_array, kernels) if array is not None]
    if len(arrays) == len(kernels):
        return constant(np.concatenate(arrays, axis=1).reshape(shape))
    value = kernels[0]
    if len(kernels) > 1:
        value = builder.emit(relax.op.concat(list(kernels), axis=1))
    return builder.emit(relax.op.reshape(value, tuple(shape)))
