"""Stages that reduce whole dimensions, or windows that move over them, as the operators they equal.

Enters: a kernel with one stage that reduces. Leaves: its :class:`Reduction`, and Relax operators
that equal it to the last bit, but for the order in which a sum is added up. The greatest and the
smallest keep what is no number, as our legalization of ``max`` and ``max_pool`` does. A sum over
windows is no operator; the mean is, where a stage divides the sum by the size of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import relax, tirx

from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, PRODUCT, SUM, Reducer
from tvm_nnef.schedules.graph.arranging import (
    cut,
    extents_of,
    settled,
    windowed,
)
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.schedules.graph.windows import Operand, operand_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, RelaxExpression

_OPERATORS: Mapping[Reducer, Callable[..., Any]] = {
    SUM: relax.op.sum,
    PRODUCT: relax.op.prod,
    MAX: relax.op.max,
    MIN: relax.op.min,
}
"""The operators over whole dimensions."""

_MAX_POOLS = {1: relax.op.nn.max_pool1d, 2: relax.op.nn.max_pool2d, 3: relax.op.nn.max_pool3d}
_AVG_POOLS = {1: relax.op.nn.avg_pool1d, 2: relax.op.nn.avg_pool2d, 3: relax.op.nn.avg_pool3d}


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A stage that reduces one operand, and the stage behind it that makes a mean of the sum."""

    stage: Stage
    data: Operand
    make: Callable[..., Any]
    mean: Stage | None = None

    @property
    def sources(self) -> tuple[Any, ...]:
        """The buffers that the operator reads."""
        return (self.data.source,)

    @property
    def result(self) -> Stage:
        """The stage whose buffer the operator fills."""
        return self.stage if self.mean is None else self.mean


def reduction(kernel: Kernel) -> Reduction | None:
    """What the one stage of a kernel that reduces computes; None where there are more or none."""
    reducing = [stage for stage in kernel.stages if stage.reduced]
    if len(reducing) != 1 or len(kernel.results) != 1:
        return None
    (stage,) = reducing
    reducer = stage.reducer
    make = None if reducer is None else _OPERATORS.get(reducer)
    if reducer is None or make is None or not _same(stage.init, reducer.identity(stage.dtype)):
        return None
    data = _data(stage, kernel)
    if data is None or (data.moving and make not in (relax.op.sum, relax.op.max)):
        return None
    return Reduction(stage, data, make, _mean(stage, kernel) if data.moving else None)


def _same(value: Any, wanted: Any) -> bool:
    return bool(tvm_ffi.structural_equal(value, wanted))


def _data(stage: Stage, kernel: Kernel) -> Operand | None:
    """The operand, if each axis runs along a dimension of it, or over one as a window."""
    load = stage.value
    if not isinstance(load, BUFFER_LOAD) or str(load.source.dtype) != stage.dtype:
        return None
    found = operand_of(load, stage, kernel, stage.init)
    if found is None:
        return None
    windows = found.moving
    steps = [window.step for window in windows]
    axes = [*_plain(found, stage), *(window.axis for window in windows), *steps]
    if not all(axis in axes or axis.is_unit for axis in (*stage.axes, *stage.reduced)):
        return None
    return found if not windows or _is_pool(stage, found) else None


def _plain(data: Operand, stage: Stage) -> list[Axis]:
    """The axes that run along dimensions, in the order of these."""
    axes = (*stage.axes, *stage.reduced)
    return [a for index in data.load.indices for a in axes if index.same_as(a.var)]


def _is_pool(stage: Stage, data: Operand) -> bool:
    """Whether windows of known sizes move over all but two dimensions, and nothing else is lost."""
    steps = [window.step for window in data.moving]
    sizes = all(axis.is_known and (axis in steps or axis.is_unit) for axis in stage.reduced)
    plain = _plain(data, stage)
    kept = all(axis in stage.axes for axis in plain)
    return sizes and kept and len(plain) == 2 and 1 <= len(steps) <= 3


def _mean(stage: Stage, kernel: Kernel) -> Stage | None:
    """The stage that divides a sum over windows by their size, if that alone reads it."""
    readers = [s for s in kernel.stages if loads(s.value, stage.buffer)]
    if len(readers) != 1:
        return None
    (mean,) = readers
    if not isinstance(mean.value, tirx.Div):
        return None
    total, size = mean.value.a, mean.value.b
    if not isinstance(total, BUFFER_LOAD) or not isinstance(size, tirx.FloatImm):
        return None
    here = all(i.same_as(a.var) for i, a in zip(total.indices, mean.axes, strict=True))
    return mean if here and float(size.value) == volume(stage) else None


def volume(stage: Stage) -> int:
    """The number of elements that a stage reduces to one."""
    return prod(axis.extent for axis in stage.reduced)


def as_reduction(
    operands: Operands, found: Reduction, values: Mapping[Any, RelaxExpression]
) -> RelaxExpression | None:
    """The result as that of an operator; None where there is none, or a padding is no number."""
    made = _pool if found.data.moving else _total
    return made(operands, found, values[found.data.source])


def _total(operands: Operands, found: Reduction, value: RelaxExpression) -> RelaxExpression | None:
    """Whole dimensions; they may stay as dimensions of one element."""
    stage, indices = found.stage, found.data.load.indices
    left = [next((a for a in stage.axes if index.same_as(a.var)), None) for index in indices]
    gone = [dimension for dimension, axis in enumerate(left) if axis is None]
    kept = [axis for axis in left if axis is not None]
    if not gone:
        return None
    stay = len(left) == len(stage.axes) and all(
        axis is None or axis is stage.axes[dimension] for dimension, axis in enumerate(left)
    )
    total = operands.emit(found.make(value, axis=gone, keepdims=stay))
    return total if stay else settled(operands, total, kept, stage.axes)


def _pool(operands: Operands, found: Reduction, value: RelaxExpression) -> RelaxExpression | None:
    """Windows over the one, two or three dimensions behind two others."""
    windows, plain = found.data.moving, _plain(found.data, found.stage)
    placed = windowed(operands, found.data, value, plain)
    pools = _MAX_POOLS if found.make is relax.op.max else _AVG_POOLS
    if placed is None:
        return None
    data, options = placed
    # TVM counts the elements of a dilated window as if it were none.
    if pools is _AVG_POOLS and (found.mean is None or set(options["dilation"]) != {1}):
        return None
    sizes = [window.step.extent for window in windows]
    counted = {"count_include_pad": True} if pools is _AVG_POOLS else {}
    made = operands.emit(pools[len(windows)](data, pool_size=sizes, **options, **counted))
    ordered = [*plain, *(window.axis for window in windows)]
    made = cut(operands, made, extents_of(ordered))
    return settled(operands, made, ordered, found.stage.axes)
