"""Transposed convolutions, told by their indices, as convolutions of stride 1.

Enters: a stage that sums ``x[n, c, (y + p - j) / s] * w[c, o, j]`` over those steps ``j`` at which
the division leaves nothing. Leaves: a :class:`Deconvolution`, and Relax operators that equal it.

The elements of the result whose ``y + p`` leaves the same remainder after division by ``s`` all use
the same steps ``j``, every ``s``-th one: they are a convolution with these. One convolution gives
the elements of all remainders as so many channels, which are then sorted into place. TVM's own
would spread the data among zeros, and multiply those too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax, sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules.graph.arranging import CONVOLUTIONS, permuted, place_of
from tvm_nnef.schedules.graph.contractions import has
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.schedules.graph.windows import is_whole, with_unit_axes
from tvm_nnef.schedules.stages import Axis, Stage
from tvm_nnef.tvm_compat import BUFFER_LOAD, RelaxExpression, constant, is_conditional


@dataclass(frozen=True, slots=True)
class Spread:
    """An index ``(axis + offset - step) / stride``; it may be written with whole strides apart."""

    axis: Axis
    step: Axis
    stride: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Deconvolution:
    """A stage that is a transposed convolution, and the roles of its axes."""

    stage: Stage
    left: Any
    right: Any
    batch: Axis
    channel: Axis
    output: Axis
    spreads: tuple[Spread | None, ...]

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
    if not isinstance(product, tirx.Mul) or not all(_is_zero(value) for value in (init, other)):
        return None
    if not all(isinstance(operand, BUFFER_LOAD) for operand in (product.a, product.b)):
        return None
    if not all(axis.is_known for axis in (*stage.axes, *stage.reduced)):
        return None
    for data, weights in ((product.a, product.b), (product.b, product.a)):
        found = _with_roles(stage, *(_simplified(load, stage) for load in (data, weights)))
        if found is not None and _allows(condition, found):
            return found
    return None


def _is_zero(value: Any) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value.value) == 0


def _simplified(load: Any, stage: Stage) -> Any:
    """A load without quotients that are always 0; axes of one element stay, to be told apart."""
    analyzer = sym.Analyzer()
    for axis in (*stage.axes, *stage.reduced):
        if not axis.is_unit:
            analyzer.bind(axis.var, Range(0, axis.extent))
    plain = load.source[tuple(analyzer.simplify(index) for index in load.indices)]
    return with_unit_axes(plain, stage)


def _with_roles(stage: Stage, data: Any, weights: Any) -> Deconvolution | None:
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
    if not all(is_whole(data, axis) for axis in plain):
        return None
    steps = [spread.step for spread in found]
    used = [channels[0], outputs[0], *steps]
    complete = len(weights.indices) == len(used) and all(is_whole(weights, a) for a in used)
    if not complete or len({id(a) for a in (*moving, *steps)}) != 2 * len(found):
        return None
    if len(stage.reduced) != len(steps) + 1 or len(stage.axes) != len(found) + 2:
        return None
    return Deconvolution(stage, data, weights, batches[0], channels[0], outputs[0], spreads)


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
    tests = _conjunction(condition)
    for spread, extent in zip(found.spreads, found.source.shape, strict=True):
        if spread is None:
            continue
        mine = [test for test in tests if _mentions(test, spread.axis)]
        tests = [test for test in tests if not any(test.same_as(each) for each in mine)]
        if not _is_inside(mine, spread, int(extent)):
            return False
    return not tests


def _conjunction(condition: Any) -> list[Any]:
    if isinstance(condition, tirx.And):
        return [*_conjunction(condition.a), *_conjunction(condition.b)]
    return [condition]


def _mentions(expression: Any, axis: Axis) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tirx.Var, found.append), order="post")
    return any(var.same_as(axis.var) for var in found)


def _is_inside(tests: Sequence[Any], spread: Spread, extent: int) -> bool:
    """Whether tests hold just for the places ``axis + offset - step`` of elements.

    Both are counted out for all values of axis and step, which are few.
    """
    variables = (spread.axis.var, spread.step.var)
    for test in tests:
        found: list[Any] = []
        tvm_ffi.structural_walk(test, (tirx.Var, found.append), order="post")
        if not all(any(var.same_as(known) for known in variables) for var in found):
            return False
    analyzer = sym.Analyzer()
    # Tests see the axis and the step by their difference only: one step for each axis suffices.
    for place in range(-spread.step.extent + 1, spread.axis.extent):
        axis, step = (place, 0) if place >= 0 else (0, -place)
        values = {
            variables[0]: tirx.const(axis, str(variables[0].ty.dtype)),
            variables[1]: tirx.const(step, str(variables[1].ty.dtype)),
        }
        holds = all(_holds(analyzer, test, values) for test in tests)
        index, rest = divmod(place + spread.offset, spread.stride)
        if holds is not (rest == 0 and 0 <= index < extent):
            return False
    return all(_depends_on_difference(test, spread) for test in tests)


def _holds(analyzer: Any, test: Any, values: Mapping[Any, Any]) -> bool:
    replaced = tvm_ffi.structural_map(test, (tirx.Var, lambda var: values.get(var, var)))
    known = analyzer.simplify(replaced)
    return isinstance(known, tirx.IntImm) and bool(known.value)


def _depends_on_difference(test: Any, spread: Spread) -> bool:
    """Whether a test changes nothing when axis and step both grow by one."""
    one = tirx.const(1, str(spread.axis.var.ty.dtype))
    moved = {v: v + one for v in (spread.axis.var, spread.step.var)}
    shifted = tvm_ffi.structural_map(test, (tirx.Var, lambda var: moved.get(var, var)))
    analyzer = sym.Analyzer()
    return bool(tvm_ffi.structural_equal(analyzer.simplify(shifted), analyzer.simplify(test)))


def as_convolution(
    operands: Operands, found: Deconvolution, data: RelaxExpression, weights: RelaxExpression
) -> RelaxExpression | None:
    """The result of a transposed convolution; None where its weights are not constant."""
    array = operands.view(weights)
    if array is None:
        return None
    spreads = [spread for spread in found.spreads if spread is not None]
    spatial = [n for n, spread in enumerate(found.spreads) if spread is not None]
    places = [place_of(found.left, axis) for axis in (found.batch, found.channel)]
    data = permuted(operands, data, [*places, *spatial])
    steps = [spread.step for spread in spreads]
    order = [place_of(found.right, axis) for axis in (found.channel, found.output, *steps)]
    made, counts = _all_remainders(operands, found, spreads, data, array.transpose(order))
    result = _sorted(operands, found, spreads, made, counts)
    ordered = [found.batch, found.output, *(spread.axis for spread in spreads)]
    return permuted(operands, result, [ordered.index(axis) for axis in found.stage.axes])


def _all_remainders(
    operands: Operands,
    found: Deconvolution,
    spreads: Sequence[Spread],
    data: RelaxExpression,
    weights: np.ndarray[Any, Any],
) -> tuple[RelaxExpression, list[int]]:
    """The convolution with channels for each remainder, and its extents."""
    make, letters = CONVOLUTIONS[len(spreads)]
    extents = [int(extent) for extent in found.source.shape]
    extents = [extents[n] for n, spread in enumerate(found.spreads) if spread is not None]
    steps = [-(-spread.step.extent // spread.stride) for spread in spreads]
    needed = [(s.axis.extent - 1 + s.offset) // s.stride + 1 for s in spreads]
    after = [max(0, n - extent) for n, extent in zip(needed, extents, strict=True)]
    widths = [
        (0, count * s.stride - s.step.extent) for s, count in zip(spreads, steps, strict=True)
    ]
    filled = np.pad(weights, [(0, 0), (0, 0), *widths])
    channels, outputs = weights.shape[:2]
    split = [size for s, count in zip(spreads, steps, strict=True) for size in (count, s.stride)]
    parts = filled.reshape(channels, outputs, *split)
    count = len(spreads)
    times, rests = range(2, 2 + 2 * count, 2), range(3, 3 + 2 * count, 2)
    turned = np.flip(parts, tuple(times)).transpose(*rests, 1, 0, *times)
    kernel = turned.reshape(-1, channels, *steps)
    padding = [*(count - 1 for count in steps), *after]
    layouts = {"data_layout": f"NC{letters}", "kernel_layout": f"OI{letters}"}
    made = operands.emit(make(data, constant(kernel), padding=padding, **layouts))
    return made, [extent + more for extent, more in zip(extents, after, strict=True)]


def _sorted(
    operands: Operands,
    found: Deconvolution,
    spreads: Sequence[Spread],
    made: RelaxExpression,
    counts: Sequence[int],
) -> RelaxExpression:
    """The channels of all remainders beside each other in space, cut to the result."""
    batch, outputs, count = found.batch.extent, found.output.extent, len(spreads)
    strides = [spread.stride for spread in spreads]
    split = operands.emit(relax.op.reshape(made, (batch, *strides, outputs, *counts)))
    order = [0, 1 + count]
    for number in range(count):
        order += [2 + count + number, 1 + number]
    moved = operands.emit(relax.op.permute_dims(split, order))
    whole = [size * stride for size, stride in zip(counts, strides, strict=True)]
    joined = operands.emit(relax.op.reshape(moved, (batch, outputs, *whole)))
    first = [spread.offset for spread in spreads]
    last = [spread.offset + spread.axis.extent for spread in spreads]
    if not any(first) and last == whole:
        return joined
    axes = list(range(2, 2 + count))
    return operands.emit(relax.op.strided_slice(joined, axes, first, last))
