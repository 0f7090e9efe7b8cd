"""The rule for kernels without reduction: everything element by element, and copies.

The innermost axis runs in vectors, the others in one parallel loop; neighbouring axes that all
accesses run through together are one. A row that no vector divides ends in narrower vectors.

Conditions that compare an axis with a number (concatenation, padding) divide the axis: each part
has its own loop, without a condition in it, so that a concatenation becomes plain copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import index_splitting, regrouping, sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, inlined, is_pointwise
from tvm_nnef.schedules.analysis.merging import merge_axes
from tvm_nnef.schedules.cpu import replicated_loads, transposition
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    with_opaque_body,
)

NAME = "cpu.elementwise"

STEP_CYCLES = 4
"""Cycles to load, compute and store one vector, about."""

_LOADED = 2
"""Vectors that are loaded for one of the result at most: bools are narrower than what they tell."""


def apply(function: PrimFunction, kernel: Kernel, machine: CpuModel) -> PrimFunction | None:
    """The function in vectors and in parallel; None where something is reduced."""
    if any(stage.reduced for stage in kernel.stages):
        return None
    results = kernel.results
    named = _named(kernel)
    kept = [
        s for s in kernel.stages if s in results or (s not in named and _is_needed_often(s, kernel))
    ]
    inside = {s.buffer: s for s in kernel.stages if s not in kept}
    statements = []
    for stage in kept:
        value = inlined(stage.value, inside, stage.axes)
        flat = Stage(stage.buffer, stage.axes, value)
        statements.append(copy_statement(flat, kernel.index_type, machine))
    allocated = [s.buffer for s in kept if s not in results]
    return with_opaque_body(
        function, [s.buffer for s in results], allocated, emit.sequence(statements)
    )


def _is_needed_often(stage: Stage, kernel: Kernel) -> bool:
    """Whether a value would be computed much more often than once where it is needed."""
    uses = [(s, load) for s in kernel.stages for load in loads(s.value, stage.buffer)]
    return not is_cheap(stage.value) and sum(s.work for s, _ in uses) > 2 * stage.work


def _named(kernel: Kernel) -> list[Stage]:
    """The stages that are needed element by element only, as what is computed from them."""
    found: list[Stage] = []
    for stage in reversed(kernel.stages):
        uses = [(user, loads(user.value, stage.buffer)) for user in kernel.stages]
        inside = all(is_pointwise(u, s.axes) and s in found for s, u in uses if u)
        if inside and not _divides_by_integers(stage.value):
            found.append(stage)
    return found


def _divides_by_integers(value: Any) -> bool:
    """Whether reals are divided by what is made of integers.

    In a comparison TVM looks for the bounds of such a divisor, as if it were an integer, and stops
    where that may be 0: so the quotient is held in memory instead.
    """
    quotients: list[Any] = []
    tvm_ffi.structural_walk(value, (tirx.Div, quotients.append), order="post")
    casts: list[Any] = []
    for quotient in quotients:
        tvm_ffi.structural_walk(quotient.b, (tirx.Cast, casts.append), order="post")
    return any("int" in dtype_of(cast.value) for cast in casts)


def copy_statement(stage: Stage, dtype: str, machine: CpuModel, *, threads: bool = True) -> Any:
    """The loops that compute a stage without reduction, on several threads where it may be."""
    unit = {axis.var: tirx.const(0, dtype) for axis in stage.axes if axis.is_unit}
    axes = [axis for axis in stage.axes if not axis.is_unit]
    indices = tuple(unit.get(axis.var, axis.var) for axis in stage.axes)
    value = substituted(stage.value, unit)
    divided = {axis: index_splitting.parts(value, axis) for axis in axes}
    whole = not any(len(parts) > 1 for parts in divided.values())
    if not indices:
        return tirx.BufferStore(stage.buffer, value, [])
    target: PrimExpression = stage.buffer[indices]
    repeats = replicated_loads.repeats(value, axes, stage.dtype) if whole else None
    # Regrouped, the last axis would be as short as what neighbours share is long.
    even = whole and repeats is None
    merged = regrouping.regrouped(axes, value, target, dtype) if even else None
    if merged is None:
        kept = [axis for axis in axes if len(divided[axis]) > 1]
        merged = merge_axes(axes, (value, target), dtype, keep=kept)
    value, target = merged.expressions
    lanes = 1 if _divides_by_symbols(value) else _lanes(stage, machine)
    parallel = threads and stage.work >= machine.parallel_work(STEP_CYCLES)
    crossing = transposition.crossing(value, merged.axes)
    boxes = _Boxes(merged.axes, divided, value, target, dtype, lanes, parallel, machine)
    if repeats is not None and lanes > 1:
        loops = replicated_loads.rows(
            merged.axes, repeats, value, target, dtype, lanes, parallel=parallel
        )
    elif crossing is not None and whole and lanes > 1:
        loops = transposition.blocks(
            merged.axes, crossing, value, target, dtype, lanes, parallel=parallel
        )
        room = transposition.fits(merged.axes, crossing, lanes)
        loops = loops if room is None else tirx.IfThenElse(room, loops, boxes.statement())
    else:
        loops = boxes.statement()
    return emit.sequence([*merged.views, loops])


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """Writes the loops over all axes, which are ``divided`` into parts."""

    axes: Sequence[Axis]
    divided: Mapping[Axis, Sequence[index_splitting.Part]]
    value: Any
    target: Any
    dtype: str
    lanes: int
    parallel: bool
    machine: CpuModel

    def statement(self) -> Any:
        """The loops over one part of each outer axis and all parts of the inner one, for each."""
        if not self.axes:
            return tirx.BufferStore(self.target.source, self.value, list(self.target.indices))
        parts = [self.divided.get(axis, [(0, axis.extent)]) for axis in self.axes]
        return emit.sequence([self._box(box, parts[-1]) for box in itertools.product(*parts[:-1])])

    def _box(
        self, box: Sequence[index_splitting.Part], parts: Sequence[index_splitting.Part]
    ) -> Any:
        *outer, inner = self.axes

        def row(indices: list[Any]) -> Any:
            where = {
                axis.var: index + sizes.number(first, self.dtype)
                for axis, index, (first, _) in zip(outer, indices, box, strict=True)
            }
            return emit.sequence([strip(where, part) for part in parts])

        def strip(where: Mapping[Any, Any], part: index_splitting.Part) -> Any:
            simple = index_splitting.between(self.value, self.axes, [*box, part])
            first = sizes.number(part[0], self.dtype)

            def element(index: Any) -> Any:
                here = {**where, inner.var: index + first}
                return tirx.BufferStore(
                    self.target.source,
                    substituted(simple, here),
                    [substituted(i, here) for i in self.target.indices],
                )

            return _row(index_splitting.length(part), self.lanes, element, self.dtype)

        if not outer and self.parallel and len(parts) == 1:
            chunk = max(self.lanes, self.machine.parallel_work(STEP_CYCLES) // 8)
            return _long_row(inner, self.value, self.target, self.dtype, self.lanes, chunk)
        lengths = [index_splitting.length(part) for part in box]
        return emit.grid(lengths, row, self.dtype, parallel=self.parallel)


def _lanes(stage: Stage, machine: CpuModel) -> int:
    """As many as a vector of the result has, if what is loaded needs a few vectors for that."""
    own = bits_of(stage.dtype)
    widest = max([own, *(bits_of(str(load.source.dtype)) for load in loads(stage.value))])
    return min(machine.lanes(own), _LOADED * machine.lanes(widest))


def _divides_by_symbols(value: Any) -> bool:
    """Whether integers are divided by what only a run tells, as where open extents are regrouped.

    No machine divides integers in vectors, and LLVM takes minutes to take such vectors apart.
    """
    found: list[Any] = []
    for kind in (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod):
        tvm_ffi.structural_walk(value, (kind, found.append), order="post")
    return any(
        dtype_of(each).startswith(("int", "uint")) and not isinstance(each.b, tirx.IntImm)
        for each in found
    )


def _row(extent: sizes.Extent, lanes: int, element: emit.Body, dtype: str) -> Any:
    """The elements of a row, in vectors where there are lanes."""
    if lanes > 1:
        return emit.strip(extent, lanes, element, dtype, again=True)
    return emit.loop(extent, element, name="element", dtype=dtype)


def _long_row(inner: Axis, value: Any, target: Any, dtype: str, lanes: int, chunk: int) -> Any:
    """One row, divided among threads in chunks."""
    if not inner.is_known:
        return _symbolic_long_row(inner, value, target, dtype, lanes, chunk)
    full, rest = divmod(inner.extent, chunk)

    element_at = _element_at(inner, value, target)
    statements = []
    if full:
        statements.append(
            emit.grid(
                [full],
                lambda i: _row(chunk, lanes, element_at(i[0] * tirx.const(chunk, dtype)), dtype),
                dtype,
                parallel=True,
            )
        )
    if rest:
        start = tirx.const(full * chunk, dtype)
        statements.append(_row(rest, lanes, element_at(start), dtype))
    return emit.sequence(statements)


def _symbolic_long_row(
    inner: Axis, value: Any, target: Any, dtype: str, lanes: int, chunk: int
) -> Any:
    """One row whose length only a run tells, divided among threads."""
    element_at = _element_at(inner, value, target)

    def task(indices: list[Any]) -> Any:
        start = indices[0] * tirx.const(chunk, dtype)
        length = tirx.min(tirx.const(chunk, dtype), inner.extent - start)
        return _row(length, lanes, element_at(start), dtype)

    return emit.grid([sizes.quotient_above(inner.extent, chunk)], task, dtype, parallel=True)


def _element_at(inner: Axis, value: Any, target: Any) -> Any:
    """What stores the element of a number behind a start."""

    def element_at(start: Any) -> Any:
        def element(index: Any) -> Any:
            here = {inner.var: start + index}
            return tirx.BufferStore(
                target.source,
                substituted(value, here),
                [substituted(i, here) for i in target.indices],
            )

        return element

    return element_at
