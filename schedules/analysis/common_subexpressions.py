"""What several stages of a row compute alike becomes a stage of its own.

Enters: a kernel whose stages run row by row. Leaves: the same, in which a function that is computed
in a reduction and again behind it, of the same elements, is computed once and kept for the row. A
softmax that says ``exp(x - greatest)`` twice costs then what one costs that says it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, mentions, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.tvm_support.compat import dtype_of, is_conditional


def with_shared_stages(kernel: Kernel, rank: int) -> Kernel:
    """The kernel with stages for what is computed twice; ``rank`` axes in front number the rows."""
    for stage in kernel.stages:
        for value in _functions(stage.value) if stage.reduced else ():
            uses = [s for s in kernel.stages if s is not stage and _uses(s, stage, value, rank)]
            if uses and _mentions_all(value, stage.reduced):
                return with_shared_stages(_shared(kernel, stage, value, uses, rank), rank)
    return kernel


def _functions(value: Any) -> Iterator[Any]:
    """The calls in an expression that take longer than to load what they give, outer ones first."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (Call, found.append), order="pre")
    return (call for call in found if not is_conditional(call) and loads(call))


def _mentions_all(value: Any, axes: tuple[Axis, ...]) -> bool:
    return all(mentions(value, [axis.var]) for axis in axes)


def _uses(other: Stage, stage: Stage, value: Any, rank: int) -> bool:
    where = _aligned(other, stage, rank)
    return where is not None and any(
        tvm_ffi.structural_equal(substituted(call, where), value)
        for call in _functions(other.value)
    )


def _aligned(other: Stage, stage: Stage, rank: int) -> Mapping[Any, Any] | None:
    """The axes of another stage as those of a reduction; None where it runs over other elements."""
    own = other.reduced if other.reduced else other.axes[rank:]
    if len(own) != len(stage.reduced):
        return None
    pairs = [*zip(other.axes[:rank], stage.axes[:rank], strict=True)]
    pairs += zip(own, stage.reduced, strict=True)
    if not all(sizes.same(a.extent, b.extent) for a, b in pairs):
        return None
    return {a.var: b.var for a, b in pairs}


def _shared(kernel: Kernel, stage: Stage, value: Any, uses: list[Stage], rank: int) -> Kernel:
    """The kernel with a stage for a value, in front of the first stage that computes it."""
    axes = [*stage.axes[:rank], *stage.reduced]
    fresh = tuple(Axis(tirx.Var(str(a.var.name), dtype_of(a.var)), a.extent) for a in axes)
    named = {axis.var: new.var for axis, new in zip(axes, fresh, strict=True)}
    shape = [sizes.number(axis.extent, dtype_of(axis.var)) for axis in axes]
    buffer = tirx.decl_buffer(shape, dtype_of(value), "shared")
    made = Stage(buffer, fresh, substituted(value, named))

    def reading(other: Stage) -> Stage:
        if other is not stage and other not in uses:
            return other
        where = _aligned(other, stage, rank)
        assert where is not None
        own = {theirs: mine for mine, theirs in where.items()}
        indices = tuple(own[axis.var] for axis in axes)

        def loaded(call: Any) -> Any:
            same = tvm_ffi.structural_equal(substituted(call, where), value)
            return buffer[indices] if same else call

        return replace(
            other, value=tvm_ffi.structural_map(other.value, (Call, loaded), order="post")
        )

    first = min(kernel.stages.index(each) for each in (stage, *uses))
    stages = [reading(each) for each in kernel.stages]
    return replace(kernel, stages=(*stages[:first], made, *stages[first:]))
