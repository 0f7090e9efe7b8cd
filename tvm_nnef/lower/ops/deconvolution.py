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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.ops.common import permuted
from tvm_nnef.symbolic.dimensions import Dimension, equal, is_static, mul, sub
from tvm_nnef.tvm_support.compat import (
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
        """The axis with these sizes; None if the output does not grow with the input."""
        growth = sub(output, mul(size, stride))
        return Axis(taps, stride, dilation, offset, growth) if is_static(growth) else None

    @cached_property
    def phases(self) -> list[Phase | None]:
        """The phases by their remainders; None for one without taps."""
        period = self.stride // gcd(self.stride, self.dilation)
        found: list[Phase | None] = [None] * self.stride
        for first in range(min(period, self.taps)):
            lag, remainder = divmod(first * self.dilation, self.stride)
            found[remainder] = Phase(range(first, self.taps, period), lag)
        return found

    @property
    def step(self) -> int:
        """The distance between the elements of the data that neighbouring taps of a phase read."""
        return self.dilation // gcd(self.stride, self.dilation)

    def reach(self, phase: Phase) -> int:
        """How many elements before ``q`` the last tap of a phase reads."""
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


Phases = tuple[Phase | None, ...]
"""One phase of each axis; None for an axis on which it has no taps."""


def deconvolution(
    builder: Any,
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
    everything = list(itertools.product(*(axis.phases for axis in axes)))
    parts = _parts(everything)
    made = [_convolved(builder, data, weights, axes, part, groups) for part in parts]
    if len(everything) == 1 and _is_whole(made[0], axes, shape):
        return made[0]
    outputs, dtype = shape_and_dtype(weights)[0][1], shape_and_dtype(data)[1]
    strides = [axis.stride for axis in axes]

    def interleaved(*sources: te.Tensor) -> te.Tensor:
        def element(batch: Any, channel: Any, *indices: Any) -> PrimExpression:
            moved = [index + axis.begin for index, axis in zip(indices, axes, strict=True)]
            where = [tirx.floordiv(i, s) for i, s in zip(moved, strides, strict=True)]
            remainders = [tirx.floormod(i, s) for i, s in zip(moved, strides, strict=True)]

            def of_phase(part: int, number: Any) -> PrimExpression:
                count, group, inner = len(parts[part]), 0, channel
                if groups > 1 and count > 1:
                    group, inner = tirx.floordiv(channel, outputs), tirx.floormod(channel, outputs)
                own = (group * count + number) * outputs + inner if count > 1 else channel
                return sources[part](batch, own, *where)

            if len(parts[0]) == len(everything):
                return of_phase(0, _number(remainders, strides))
            values = []
            for phase in everything:
                found = [(n, part.index(phase)) for n, part in enumerate(parts) if phase in part]
                values.append(of_phase(*found[0]) if found else tirx.const(0, dtype))
            return _chosen(values, remainders, strides)

        return te.compute(list(shape), element, name="interleaved")

    return call_kernel(builder, interleaved, made, "interleave")


def _parts(phases: Sequence[Phases]) -> list[list[tuple[Phase, ...]]]:
    """The phases that have taps, those together that one convolution can compute."""
    parts: dict[Any, list[tuple[Phase, ...]]] = {}
    for phase in phases:
        taken = tuple(one for one in phase if one is not None)
        if len(taken) == len(phase):
            geometry = tuple((len(one.taps), one.lag) for one in taken)
            parts.setdefault(geometry, []).append(taken)
    return list(parts.values())


def _is_whole(value: RelaxExpression, axes: Sequence[Axis], shape: Sequence[Dimension]) -> bool:
    """Whether the result of the only phase is all of the output, and no more."""
    found = shape_and_dtype(value)[0]
    return not any(axis.begin for axis in axes) and all(
        equal(own, wanted) for own, wanted in zip(found[2:], shape[2:], strict=True)
    )


def _number(remainders: Sequence[Any], strides: Sequence[int]) -> Any:
    """The number of a phase among all of them."""
    number: Any = 0
    for remainder, stride in zip(remainders, strides, strict=True):
        number = number * stride + remainder
    return number


def _chosen(
    values: Sequence[PrimExpression], remainders: Sequence[Any], strides: Sequence[int]
) -> PrimExpression:
    """The value of one phase, from those of all phases in the order of their numbers."""
    if not strides:
        return values[0]
    count = len(values) // strides[0]
    *rest, result = (
        _chosen(values[first : first + count], remainders[1:], strides[1:])
        for first in range(0, len(values), count)
    )
    for number, value in reversed(list(enumerate(rest))):
        result = tirx.if_then_else(
            tirx.EQ(remainders[0], tirx.const(number, dtype_of(remainders[0]))), value, result
        )
    return result


def _convolved(
    builder: Any,
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
    builder: Any, weights: RelaxExpression, phase: Sequence[Phase], shape: Sequence[int]
) -> RelaxExpression:
    """The weights of one phase as those of a convolution, ``[G, O, C, K...]``.

    ``shape`` is ``[G, C, O, K...]``. A convolution reads the data in the order of its taps, so the
    last tap of the phase comes first.
    """
    order, spatial = [0, 2, 1, *range(3, len(shape))], range(2, 2 + len(phase))
    array = constant_array(weights)
    if array is not None:
        taken = array[(slice(None), slice(None), *(_slice(one.taps) for one in phase))]
        turned = np.flip(taken, tuple(spatial)).reshape(shape)
        return constant(turned.transpose(order))
    slices = [_slice(one.taps) for one in phase]
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


def _slice(taps: range) -> slice:
    return slice(taps[0], taps[-1] + 1, taps.step)


def _joined(
    builder: Any, kernels: Sequence[RelaxExpression], shape: Sequence[int]
) -> RelaxExpression:
    """The weights ``[G, O, C, K...]`` of several phases as those of one convolution."""
    arrays = [array for array in map(constant_array, kernels) if array is not None]
    if len(arrays) == len(kernels):
        return constant(np.concatenate(arrays, axis=1).reshape(shape))
    value = kernels[0]
    if len(kernels) > 1:
        value = builder.emit(relax.op.concat(list(kernels), axis=1))
    return builder.emit(relax.op.reshape(value, tuple(shape)))
