"""Common-subexpression elimination between the stages of a row.

Input: a kernel whose stages run row by row. Output: the same, in which a function that a reduction
and another stage compute of the same elements is computed once and stored for the row: ``exp(x -
max)`` in a softmax whose formula contains it twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.tir.expressions import loads, mentions, substituted
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, is_conditional


def with_shared_stages(kernel: Kernel, rank: int) -> Kernel:
    """Return the kernel with stages for values computed twice; the first ``rank`` axes are rows."""
    for stage in kernel.stages:
        for value in _functions(stage) if stage.reduced else ():
            shared = _shared(kernel, stage, value, rank)
            if shared is not None:
                return with_shared_stages(shared, rank)
    return kernel


def _functions(stage: Stage) -> Iterator[Call]:
    """Yield the calls over all steps of a reduction that cost more than a load, outer ones
    first.
    """
    calls: list[Call] = []
    tvm_ffi.structural_walk(stage.value, (Call, calls.append), order="pre")
    for call in calls:
        whole = all(mentions(call, [axis.var]) for axis in stage.reduced)
        if whole and not is_conditional(call) and loads(call):
            yield call


def _shared(kernel: Kernel, stage: Stage, value: PrimExpression, rank: int) -> Kernel | None:
    """Return the kernel with a stage for a value, before the first of several stages that compute
    it.
    """
    axes = [*stage.axes[:rank], *stage.reduced]
    fresh = tuple(Axis(tirx.Var(str(a.var.name), dtype_of(a.var)), a.extent) for a in axes)
    named = {axis.var: new.var for axis, new in zip(axes, fresh, strict=True)}
    shape = [sizes.number(axis.extent, dtype_of(axis.var)) for axis in axes]
    buffer = tirx.decl_buffer(shape, dtype_of(value), "shared")

    def reading(other: Stage) -> Stage:
        """Return a stage that loads the value, if it computes it of the same elements."""
        own = [*other.axes[:rank], *(other.reduced or other.axes[rank:])]
        same = len(own) == len(axes) and all(
            sizes.same(a.extent, b.extent) for a, b in zip(own, axes, strict=True)
        )
        if not same:
            return other
        mapped = {mine.var: axis.var for mine, axis in zip(own, axes, strict=True)}

        def loaded(call: Call) -> PrimExpression:
            equal = tvm_ffi.structural_equal(substituted(call, mapped), value)
            return buffer[tuple(mapped)] if equal else call

        changed = tvm_ffi.structural_map(other.value, (Call, loaded), order="post")
        return other if changed.same_as(other.value) else replace(other, value=changed)

    stages = [reading(each) for each in kernel.stages]
    readers = [n for n, each in enumerate(stages) if each is not kernel.stages[n]]
    if len(readers) < 2:
        return None
    made = Stage(buffer, fresh, substituted(value, named))
    return replace(kernel, stages=(*stages[: readers[0]], made, *stages[readers[0] :]))
