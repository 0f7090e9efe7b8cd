"""The rule for ordered loops along some of which nothing is carried.

Enters: a PrimFunc of ordered loops that is no recurrence of one axis (:mod:`scan`). Leaves: one
whose nests run one after the other as before, each with its loops in another order:

- a loop is free where all that is written and read again has its index in one place: its steps
  touch nothing of each other. Free loops run in parallel, and around all others;
- the first loop that is not free stays in front of the others. Where everything that a step reads
  was written by earlier steps of that loop, except for the very element that it stores, then the
  loops that tell which element that is are free inside: as the units of a recurrent network, each
  of which sums over all units of the step before;
- the innermost loop is the free one along which neighbours are stored, in vector lanes.

Sums stay in their order. Nests without a free loop are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx
from tvm.ir import Call

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.accesses import stride_of
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.ordered_nests import (
    Nest,
    line,
    read_nests,
    same_place,
    with_nests,
)
from tvm_nnef.schedules.expressions import loads, mentions, substituted
from tvm_nnef.tvm_support.compat import PrimFunction, dtype_of, is_conditional, opaque_block

NAME = "cpu.free_loops"

_PARALLEL_WORK = 1 << 15

_CHUNK = 256
"""Elements of a free innermost loop that one thread takes at once."""


def apply(function: PrimFunction, description: Description) -> PrimFunction | None:
    """The function with its free loops outside and innermost; None where nothing is free.

    Nests that all read nothing of what they write are taken where all loops are free: in another
    order the others may run across memory.
    """
    nests = read_nests(function)
    if nests is None:
        return None
    read = [_Nest.of(nest) for nest in nests]
    carried = any(nest.carries and nest.gains for nest in read)
    if not carried and any(nest.ordered for nest in read):
        return None
    body = emit.sequence([nest.statement(description) for nest in read])
    return with_nests(function, nests, list(opaque_block(function).alloc_buffers), body)


@dataclass(frozen=True, slots=True, eq=False)
class _Nest:
    """A nest: its ``free`` loops, those in order, and the innermost one, whose steps are lanes.

    ``carries`` tells whether something is read that other steps write.
    """

    nest: Nest
    free: tuple[Any, ...]
    ordered: tuple[Any, ...]
    lane: Any
    carries: bool

    @staticmethod
    def of(nest: Nest) -> _Nest:
        """The nest with its loops sorted."""
        bound, stores = nest.bound, nest.stores
        written = {store.buffer for store in stores}
        own = [load for load in loads(nest.body) if load.source in written]
        accesses = [(s.buffer, _indices(s, bound)) for s in stores]
        accesses += [(load.source, _indices(load, bound)) for load in own]
        names = [var for var, _ in nest.loops]
        free = [var for var in names if _is_told(var, accesses)]
        ordered = [var for var in names if var not in free]
        places = [_indices(store, bound) for store in stores]
        behind = [_indices(load, bound) for load in own]
        others = [place for place in behind if not same_place(place, places[0])]
        inside: list[Any] = []
        if (
            ordered
            and all(same_place(place, places[0]) for place in places)
            and all(_is_behind(place, places[0], ordered[0], nest) for place in others)
        ):
            inside = [var for var in ordered[1:] if any(var.same_as(i) for i in places[0])]
        lane = next((v for v in (*free, *inside) if _fills_lanes(v, nest, places)), None)
        left = tuple(var for var in ordered if lane is None or not var.same_as(lane))
        return _Nest(nest, tuple(free), left, lane, bool(own))

    @property
    def gains(self) -> bool:
        """Whether there are threads or vectors for it."""
        return bool(self.free) or not (self.lane is None or _is_guarded(self.nest, self.lane))

    def statement(self, description: Description) -> Any:
        """The loops in their new order."""
        extents = dict(self.nest.loops)
        outer = [var for var in self.free if self.lane is None or not var.same_as(self.lane)]
        dtype = dtype_of(self.nest.loops[0][0])
        counts = [extents[var] for var in outer]
        chunked = not outer and bool(self.free)
        if chunked:
            counts.append(sizes.quotient_above(extents[self.lane], _CHUNK))
        work = sizes.typical(sizes.product(extents.values()))

        def task(indices: list[Any]) -> Any:
            first: Any = tirx.const(0, dtype)
            count: Any = None if self.lane is None else extents[self.lane]
            known = dict(zip(outer, indices, strict=False))
            if chunked:
                first = indices[-1] * tirx.const(_CHUNK, dtype)
                if not (sizes.is_known(count) and count <= _CHUNK):
                    count = tirx.min(tirx.const(_CHUNK, dtype), count - first)
            return self._ordered(0, known, first, count, description)

        parallel = bool(counts) and work >= _PARALLEL_WORK
        return emit.grid(counts, task, dtype, parallel=parallel)

    def _ordered(
        self, level: int, known: dict[Any, Any], first: Any, count: Any, description: Description
    ) -> Any:
        """The loops in order from a level on, and the lanes inside of them."""
        dtype = dtype_of(self.nest.loops[0][0])
        if level < len(self.ordered):
            var = self.ordered[level]

            def step(index: Any) -> Any:
                return self._ordered(level + 1, {**known, var: index}, first, count, description)

            return emit.loop(dict(self.nest.loops)[var], step, name=str(var.name), dtype=dtype)
        if self.lane is None:
            return substituted(self.nest.body, known)
        stored = [str(s.buffer.dtype) for s in self.nest.found(tirx.BufferStore)]
        lanes = description.lanes(max(map(bits_of, stored)))

        def element(index: Any) -> Any:
            return substituted(self.nest.body, {**known, self.lane: first + index})

        if not self.carries or _is_guarded(self.nest, self.lane):
            # TVM takes lanes that not all take part one by one; LLVM does better, and knows how
            # to fill and to copy.
            return emit.loop(count, element, dtype=dtype)
        return emit.strip(count, lanes, element, dtype)


def _indices(access: Any, bound: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(substituted(index, bound) for index in access.indices)


def _is_told(var: Any, accesses: Sequence[tuple[Any, tuple[Any, ...]]]) -> bool:
    """Whether each buffer has a dimension whose index is always a variable alone."""
    for buffer in {buffer for buffer, _ in accesses}:
        places = [indices for other, indices in accesses if other.same_as(buffer)]
        dimensions = zip(*places, strict=True)
        if not any(all(var.same_as(index) for index in indices) for indices in dimensions):
            return False
    return True


def _is_behind(place: Sequence[Any], own: Sequence[Any], var: Any, nest: Nest) -> bool:
    """Whether an element was written in an earlier step of a loop, or never."""
    analyzer = sym.Analyzer()
    for name, extent in nest.loops:
        if sizes.is_known(extent):
            analyzer.bind(name, sizes.range_of(name, 0, max(1, extent)))
    for index, stored in zip(place, own, strict=True):
        found = line(stored, dict(nest.loops))
        if found is None or found[0] is None or not found[0].same_as(var):
            continue
        steps = (stored - index) * tirx.const(found[1], dtype_of(var))
        return bool(analyzer.can_prove(steps >= 1))
    return False


def _fills_lanes(var: Any, nest: Nest, places: Sequence[tuple[Any, ...]]) -> bool:
    """Whether the steps of a loop store neighbours, and read neighbours or the same."""
    if nest.found((tirx.Bind, tirx.AllocBuffer)):
        return False
    if not all(place and place[-1].same_as(var) for place in places):
        return False
    stores = nest.found(tirx.BufferStore)
    if any(str(store.buffer.dtype) == "bool" for store in stores):
        return False
    return all(stride_of(load, var) in (0, 1) for load in loads(nest.body))


def _is_guarded(nest: Nest, lane: Any) -> bool:
    """Whether steps of a loop may be left out."""
    conditions = [test.condition for test in nest.found(tirx.IfThenElse)]
    conditions += [call.args[0] for call in nest.found(Call) if is_conditional(call)]
    return any(mentions(condition, [lane]) for condition in conditions)
