"""Groups of channels: what a load reads that takes the quotient of an axis of outputs.

Enters: an index such as ``o / f * m + c``, where ``o`` is an output and ``c`` a step over the
channels of a group. Leaves: whether it is the channel ``c`` in the group of ``o``. Builds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.tvm_support.compat import dtype_of


def channel_of(output: Axis, size: int, groups: int, channel: Axis) -> Callable[[Any], bool]:
    """Whether an index is that of a channel in the group of an output.

    ``size`` is the number of outputs of a group.
    """
    dtype = dtype_of(output.var)
    group, inner = tirx.Var("group", dtype), tirx.Var("inner", dtype)
    analyzer = sym.Analyzer()
    for var, extent in ((group, groups), (inner, size), (channel.var, channel.extent)):
        analyzer.bind(var, Range(0, extent))
    whole = {output.var: group * tirx.const(size, dtype) + inner}
    expected = group * tirx.const(channel.extent, dtype) + channel.var

    def is_that(index: Any) -> bool:
        rest = analyzer.simplify(substituted(index, whole) - expected)
        return isinstance(rest, tirx.IntImm) and int(rest.value) == 0

    return is_that


def single_channel(output: Axis) -> Axis:
    """An axis for the channels of groups that have only one."""
    return Axis(tirx.Var("channel", dtype_of(output.var)), 1)


def with_indices(load: Any, indices: Mapping[int, Any]) -> Any:
    """The load with other indices at some places."""
    return load.source[tuple(indices.get(n, index) for n, index in enumerate(load.indices))]
