"""The rule for the places of extremes: argmax, argmin and their like, however they are written.

Each lane of a vector keeps the best value that it has met and where its vector began, in numbers of
the same width, so that a step is a comparison and two selections for a whole vector. Only what is
better replaces a value, so a lane keeps the first of equals; that a comparison with NaN is false
passes it over. Where neighbouring elements are compared with each other the lanes of a row are
joined at its end: the best value of all, then the least place among the lanes that hold it. Where
they belong to different results, each lane has one of its own.

An end that fills no vector is covered by one that overlaps the last, as it changes nothing to meet
an element twice. Rows run in parallel; few long ones are cut, and the parts joined in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx

from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.accesses import is_cheap
from tvm_nnef.schedules.cpu.copies import copy_statement
from tvm_nnef.schedules.cpu.description import Description
from tvm_nnef.schedules.cpu.merging import merge_axes
from tvm_nnef.schedules.cpu.reduction import Reduction, read_reduction
from tvm_nnef.schedules.cpu.search_loops import Loops
from tvm_nnef.schedules.stages import Axis, Kernel, Stage, extent_product, inlined, is_short
from tvm_nnef.tvm_support.compat import PrimFunction, dtype_of, with_opaque_body

NAME = "cpu.extreme_place"

_FEW_ROWS = 8
"""So few rows are too few to share among threads."""

_LONG = 1 << 15
"""What a thread takes of a row is at least so long."""

_MOST_PARTS = 64


def apply(function: PrimFunction, kernel: Kernel, description: Description) -> PrimFunction | None:
    """The function in vector lanes; None where it finds no place, or does more than that."""
    found = [stage for stage in kernel.stages if stage.finds_place]
    if len(found) != 1:
        return None
    (stage,) = found
    reduction = read_reduction(_with_values_inside(kernel, stage))
    if reduction is None or reduction.borders:
        return None
    reduction = _with_merged_steps(reduction, kernel.index_type)
    loops = Loops.of(reduction, stage.combine, kernel.index_type, description)
    parts = _parts(reduction, loops.across)
    statements, held = loops.parts(parts) if parts > 1 else (loops.statement(), [])
    copied = [copy_statement(copy, kernel.index_type, description) for copy in reduction.copies]
    body = emit.sequence([*reduction.views, *copied, statements])
    allocated = [*(copy.buffer for copy in reduction.copies), *held]
    return with_opaque_body(function, [r.buffer for r in kernel.results], allocated, body)


def _with_values_inside(kernel: Kernel, stage: Stage) -> Kernel:
    """The kernel with what is computed for one element in the search that compares it.

    A long value stays in front of the search, which writes it out for each vector of a step.
    """
    others = [s for s in kernel.stages if not s.reduced and s not in kernel.results]
    cheap = [other for other in others if is_cheap(other.value)]
    single = [other for other in others if other in cheap or other.work >= stage.work]
    candidates = ({s.buffer: s for s in inside} for inside in (single, cheap))
    short = (inside for inside in candidates if is_short(stage.value, inside))
    searching = replace(stage, value=inlined(stage.value, next(short, {})))
    stages = (searching if other is stage else other for other in kernel.stages)
    return replace(kernel, stages=tuple(stages))


def _with_merged_steps(reduction: Reduction, index_type: str) -> Reduction:
    """Neighbouring reduced axes as one, where they run through neighbouring elements."""
    merged = merge_axes(reduction.reduced, (reduction.term,), index_type)
    return replace(
        reduction,
        reduced=merged.axes,
        term=_narrow(merged.expressions[0]),
        views=(*reduction.views, *merged.views),
    )


def _narrow(value: Any) -> Any:
    """Whole numbers as they are before they are cast to a type that has all of them."""
    while isinstance(value, tirx.Cast):
        limits = [
            (int(tirx.min_value(kind).value), int(tirx.max_value(kind).value))
            for kind in (dtype_of(value.value), dtype_of(value))
            if kind.startswith(("int", "uint"))
        ]
        if len(limits) < 2 or limits[0][0] < limits[1][0] or limits[0][1] > limits[1][1]:
            return value
        value = value.value
    return value


def _parts(reduction: Reduction, across: Axis | None) -> int:
    """Into how many parts each row is cut, for threads to share it."""
    *outer, last = reduction.reduced
    if across is not None or outer or not last.is_known:
        return 1
    if extent_product(reduction.axes) > _FEW_ROWS:
        return 1
    return min(_MOST_PARTS, int(last.extent) // _LONG)
