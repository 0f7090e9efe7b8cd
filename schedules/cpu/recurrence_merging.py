"""Recurrences with fewer dimensions beside the carried one.

Enters: a :class:`~tvm_nnef.schedules.cpu.recurrence.Recurrence`. Leaves: the same over views of its
buffers in which neighbouring dimensions that all accesses run through together are one, so that
lanes need not end where a short last dimension does; and the statements that declare the views.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm_nnef.schedules.cpu.merging import merge_axes
from tvm_nnef.schedules.cpu.recurrence import Recurrence, Step
from tvm_nnef.schedules.stages import Axis


def merged(recurrence: Recurrence) -> tuple[Recurrence, tuple[Any, ...]]:
    """The recurrence with its dimensions of known extents merged, and declarations of views."""
    pairs = zip(recurrence.points, recurrence.extents, strict=True)
    axes = [Axis(point, extent) for point, extent in pairs]
    carried = axes[recurrence.carried]
    keep = [axis for axis in axes if axis is carried or not axis.is_known]
    steps = (*recurrence.first, recurrence.others)
    expressions = [buffer[recurrence.points] for buffer in recurrence.results]
    for step in steps:
        expressions += [value for _, value in step.named]
        expressions += step.elements.values()
    found = merge_axes(axes, expressions, recurrence.index_type, keep=keep)
    if not found.views:
        return recurrence, ()
    left = iter(found.expressions)
    views = {buffer: next(left).source for buffer in recurrence.results}

    def seen(step: Step) -> Step:
        named = tuple((var, next(left)) for var, _ in step.named)
        return Step(named, {views.get(b, b): next(left) for b in step.elements})

    made = [seen(step) for step in steps]
    return replace(
        recurrence,
        results=tuple(views.values()),
        extents=tuple(axis.extent for axis in found.axes),
        points=tuple(axis.var for axis in found.axes),
        carried=found.axes.index(carried),
        first=tuple(made[:-1]),
        others=made[-1],
        past={(views.get(b, b), steps): var for (b, steps), var in recurrence.past.items()},
    ), found.views
