"""Reductions by ``or`` and ``and`` as max and min of numbers that are 0 or 1.

Input: a kernel. Output: the same with two stages for each such reduction: the reduction of numbers,
and the comparison of its result with 0. TVM has no vectors of conditions; processors compare 8 bits
in each lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm import tirx

from tvm_nnef.schedules.analysis.kernel import Kernel, Stage
from tvm_nnef.schedules.analysis.reducers import AND, MAX, MIN, OR
from tvm_nnef.tvm_support.compat import buffer, dtype_of

_NUMBER = "int8"


def with_numbers(kernel: Kernel) -> Kernel:
    """Return the kernel without reductions of conditions."""
    stages = tuple(each for stage in kernel.stages for each in _in_numbers(stage))
    return replace(kernel, stages=stages)


def _in_numbers(stage: Stage) -> Iterator[Stage]:
    if stage.reducer not in (OR, AND) or stage.init is None:
        yield stage
        return
    shape = [axis.extent for axis in stage.axes]
    numbers = buffer(shape, _NUMBER, f"{stage.buffer.name}_number")
    init, value = (tirx.Cast(_NUMBER, each) for each in (stage.init, stage.value))
    reducer = MAX if stage.reducer is OR else MIN
    yield replace(stage, buffer=numbers, value=value, init=init, reducer=reducer)
    own = {axis.var: tirx.Var(axis.var.name, dtype_of(axis.var)) for axis in stage.axes}
    axes = tuple(replace(axis, var=own[axis.var]) for axis in stage.axes)
    result = tirx.NE(numbers[tuple(own.values())], tirx.const(0, _NUMBER))
    yield Stage(stage.buffer, axes, result)
