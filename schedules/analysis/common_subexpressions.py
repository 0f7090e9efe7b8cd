"""Common-subexpression elimination between the stages of a row.

Input: a kernel whose stages run row by row. Output: the same, in which a function that is computed
in a reduction and in another stage, of the same elements, is computed once and kept for the row:
``exp(x - max)`` in a softmax whose formula contains it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, mentions, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, is_conditional


def with_shared_stages(kernel: Kernel, rank: int) -> Kernel:
    """The kernel with stages for values computed twice; the first ``rank`` axes are rows."""
    for stage in kernel.stages:
        for value in _functions(stage.value) if stage.reduced else ():
            uses = [s for s in kernel.stages if s is not stage and _uses(s, stage, value, rank)]
            if uses and all(mentions(value, [axis.var]) for axis in stage.reduced):
                return with_shared_stages(_shared(kernel, stage, value, uses, rank), rank)
    return kernel


def _functions(value: PrimExpression) -> Iterator[Call]:
    """The calls in an expression that cost more than a load, outer ones first."""
    found: list[Call] = []
    tvm_ffi.structural_walk(value, (Call, found.append), order="pre")
    return (call for call in found if not is_conditional(call) and loads(call))


def _uses(other: Stage, stage: Stage, value: PrimExpression, rank: int) -> bool:
    axes = _aligned(other, stage, rank)
    return axes is not None and any(
        tvm_ffi.structural_equal(substituted(call, axes), value) for call in _functions(other.value)
    )


def _aligned(other: Stage, stage: Stage, rank: int) -> Mapping[tirx.Var, tirx.Var] | None:
    """The axes of another stage as those of a reduction; None if it has other elements."""
    own = (*other.axes[:rank], *(other.reduced or other.axes[rank:]))
    axes = (*stage.axes[:rank], *stage.reduced)
    if len(own) != len(axes):
        return None
    same = all(sizes.same(a.extent, b.extent) for a, b in zip(own, axes, strict=True))
    return {a.var: b.var for a, b in zip(own, axes, strict=True)} if same else None


def _shared(
    kernel: Kernel, stage: Stage, value: PrimExpression, uses: list[Stage], rank: int
) -> Kernel:
    """The kernel with a stage for a value, before the first stage that computes it."""
    axes = [*stage.axes[:rank], *stage.reduced]
    fresh = tuple(Axis(tirx.Var(str(a.var.name), dtype_of(a.var)), a.extent) for a in axes)
    named = {axis.var: new.var for axis, new in zip(axes, fresh, strict=True)}
    shape = [sizes.number(axis.extent, dtype_of(axis.var)) for axis in axes]
    buffer = tirx.decl_buffer(shape, dtype_of(value), "shared")

    def reading(other: Stage) -> Stage:
        mapped = _aligned(other, stage, rank) if other is stage or other in uses else None
        if mapped is None:
            return other
        own = {theirs: mine for mine, theirs in mapped.items()}

        def loaded(call: Call) -> PrimExpression:
            same = tvm_ffi.structural_equal(substituted(call, mapped), value)
            return buffer[tuple(own[axis.var] for axis in axes)] if same else call

        changed = tvm_ffi.structural_map(other.value, (Call, loaded), order="post")
        return replace(other, value=changed)

    first = min(kernel.stages.index(each) for each in (stage, *uses))
    stages = [reading(each) for each in kernel.stages]
    made = Stage(buffer, fresh, substituted(value, named))
    return replace(kernel, stages=(*stages[:first], made, *stages[first:]))
