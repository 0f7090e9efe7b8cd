"""Whether any or all of some conditions hold, as the greatest or smallest of small numbers.

Enters: a kernel. Leaves: the same, with each reduction by ``or`` and ``and`` in two stages: the
greatest or smallest of numbers that are 0 or 1, and what that says. TVM has no names for vectors of
conditions, so that no rule can join those; and a processor compares 8 bits in every lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tvm import tirx

from tvm_nnef.schedules.analysis.kernel import Kernel, Stage
from tvm_nnef.tvm_support.compat import buffer, dtype_of

_NUMBER = "int8"

_COMBINERS: Mapping[Any, Any] = {tirx.Or: tirx.Max, tirx.And: tirx.Min}


def with_numbers(kernel: Kernel) -> Kernel:
    """The kernel without reductions of conditions."""
    stages = tuple(each for stage in kernel.stages for each in _in_numbers(stage))
    return replace(kernel, stages=stages)


def _in_numbers(stage: Stage) -> Iterator[Stage]:
    combine = _COMBINERS.get(stage.combine)
    if combine is None or stage.init is None:
        yield stage
        return
    shape = [axis.extent for axis in stage.axes]
    numbers = buffer(shape, _NUMBER, f"{stage.buffer.name}_number")
    first, value = (tirx.Cast(_NUMBER, each) for each in (stage.init, stage.value))
    yield replace(stage, buffer=numbers, value=value, init=first, combine=combine)
    own = {axis.var: tirx.Var(axis.var.name, dtype_of(axis.var)) for axis in stage.axes}
    axes = tuple(replace(axis, var=own[axis.var]) for axis in stage.axes)
    result = tirx.NE(numbers[tuple(own.values())], tirx.const(0, _NUMBER))
    yield Stage(stage.buffer, axes, result)
