"""Plans for one stage without reduction: the assignment (:class:`Assignment`), and its loops.

The plain form is rows: vectors along the last axis, the other axes in one parallel loop. The other
forms are in :mod:`transposition` and :mod:`replicated_loads`.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm import tirx

from tvm_nnef.schedules.analysis import index_splitting, sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.emit import Tail
from tvm_nnef.tir.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Var

Values = Mapping[Var, PrimExpression]
"""The values of variables."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The assignment ``buffer[indices] = value`` for all values of some axes.

    ``views`` declare buffers.
    """

    axes: tuple[Axis, ...]
    buffer: Buffer
    indices: tuple[PrimExpression, ...]
    value: PrimExpression
    index_type: str
    views: tuple[tirx.Stmt, ...] = ()

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return str(self.buffer.dtype)

    def at(self, values: Values, value: PrimExpression | None = None) -> tirx.Stmt:
        """Return the store of one element, of another ``value`` if it is given."""
        computed = substituted(self.value if value is None else value, values)
        return self.put(computed, values)

    def put(self, computed: PrimExpression, values: Values) -> tirx.Stmt:
        """Return the store of a value that was computed for one element."""
        indices = [substituted(index, values) for index in self.indices]
        return tirx.BufferStore(self.buffer, computed, indices)

    def number(self, value: sizes.Extent) -> PrimExpression:
        """Return a dimension as an index."""
        return sizes.number(value, self.index_type)


def widest_bits(value: PrimExpression, dtype: str) -> int:
    """Return the bits of an element of the widest operand of a value, or of the value."""
    return max([bits_of(dtype), *(bits_of(str(load.source.dtype)) for load in loads(value))])


def strip_vectors(value: PrimExpression, dtype: str, lanes: int, machine: CpuModel) -> int:
    """Return the number of vectors that are computed at a time: as many as the widest operand
    allows.
    """
    return max(1, machine.strip_vectors * machine.lanes(widest_bits(value, dtype)) // lanes)


@dataclass(frozen=True, slots=True, eq=False)
class StagePlan(ABC):
    """A plan for an assignment: in vectors of ``lanes``, on several threads if ``parallel``.

    ``otherwise`` is for dynamic dimensions for which the plan does not hold; if they have fewer
    than ``parallel_from`` elements, one thread computes them.
    """

    assignment: Assignment
    machine: CpuModel
    lanes: int
    parallel: bool
    otherwise: RowsPlan | None = field(default=None, kw_only=True)
    parallel_from: int = field(default=0, kw_only=True)

    @property
    @abstractmethod
    def form(self) -> str:
        """The form of the loops, in a word or two."""

    @abstractmethod
    def loops(self) -> tirx.Stmt:
        """Return the loops, for dimensions for which :attr:`condition` holds."""

    @property
    def condition(self) -> PrimExpression | None:
        """The condition on dynamic dimensions under which the plan holds; None for always."""
        return None

    @property
    def cycles(self) -> float:
        """The estimated cycles on one core."""
        return extent_product(self.assignment.axes) / self.lanes * self.machine.element_cycles

    def statement(self) -> tirx.Stmt:
        """Return the loops for all dimensions, serial if there are few elements, after the
        views.
        """
        loops = self._all_loops()
        if self.parallel and self.parallel_from:
            work = self.assignment.number(sizes.product(a.extent for a in self.assignment.axes))
            serial = replace(self, parallel=False)._all_loops()
            loops = tirx.IfThenElse(work >= self.parallel_from, loops, serial)
        return emit.sequence([*self.assignment.views, loops])

    def _all_loops(self) -> tirx.Stmt:
        """Return the loops; those of ``otherwise`` if the plan does not hold."""
        loops, condition = self.loops(), self.condition
        if condition is None or self.otherwise is None:
            return loops
        otherwise = replace(self.otherwise, parallel=self.parallel)
        return tirx.IfThenElse(condition, loops, otherwise.loops())

    def describe(self) -> str:
        """Return the form, the lanes and the binding: ``rows of 16 lanes, parallel``."""
        parallel = ", parallel" if self.parallel else ""
        return f"{self.form} of {self.lanes} lanes{parallel}"

    def alternatives(self) -> Iterator[StagePlan]:
        """Yield other plans for the same assignment."""
        if self.otherwise is not None:
            yield self.otherwise
        if self.lanes > 1:
            yield replace(self, lanes=self.lanes // 2)
        yield replace(self, parallel=not self.parallel)


@dataclass(frozen=True, slots=True, eq=False)
class RowsPlan(StagePlan):
    """A plan with vectors along the last axis, the other axes in one loop.

    ``parts`` are those of the axes that conditions split. A single row is shared among threads in
    chunks of ``chunk`` elements.
    """

    tail: Tail
    chunk: int
    parts: Mapping[Axis, Sequence[index_splitting.Part]] = field(default_factory=dict)

    @property
    def form(self) -> str:
        """``rows``, or ``gathered rows`` if elements of a vector are loaded one by one."""
        return "gathered rows" if self._gathers() and self.lanes > 1 else "rows"

    def _gathers(self) -> int:
        """Return the number of loads that are not contiguous along the last axis."""
        assignment = self.assignment
        if not assignment.axes:
            return 0
        last = assignment.axes[-1].var
        return sum(stride_of(load, last) not in (0, 1) for load in loads(assignment.value))

    @property
    def cycles(self) -> float:
        """The estimated cycles; a gathered element takes about a cycle."""
        work = extent_product(self.assignment.axes)
        return work / self.lanes * self.machine.element_cycles + work * self._gathers()

    def describe(self) -> str:
        """Return the description with the tail, and the chunk if the row is shared among
        threads.
        """
        chunk = f" in chunks of {self.chunk}" if self._is_single_row() else ""
        return f"{StagePlan.describe(self)}{chunk}, {self.tail.value} tail"

    def alternatives(self) -> Iterator[StagePlan]:
        """Yield plans with fewer lanes, another tail, on one thread or on several."""
        yield from StagePlan.alternatives(self)
        if self.lanes > 1:
            tail = Tail.NARROWER if self.tail is Tail.OVERLAP else Tail.OVERLAP
            yield replace(self, tail=tail)

    def loops(self) -> tirx.Stmt:
        """Return the loops over each combination of outer parts, with all parts of the inner
        axis.
        """
        axes = self.assignment.axes
        if not axes:
            return self.assignment.at({})
        if self._is_single_row():
            return self._chunks()
        parts = [self._parts_of(axis) for axis in axes]
        return emit.sequence([self._box(box, parts[-1]) for box in itertools.product(*parts[:-1])])

    def _is_single_row(self) -> bool:
        axes = self.assignment.axes
        return self.parallel and len(axes) == 1 and len(self._parts_of(axes[0])) == 1

    def _parts_of(self, axis: Axis) -> Sequence[index_splitting.Part]:
        return self.parts.get(axis, [(0, axis.extent)])

    def _box(
        self, box: Sequence[index_splitting.Part], parts: Sequence[index_splitting.Part]
    ) -> tirx.Stmt:
        assignment = self.assignment
        *outer, inner = assignment.axes

        def row(indices: list[PrimExpression]) -> tirx.Stmt:
            where = {
                axis.var: index + assignment.number(first)
                for axis, index, (first, _) in zip(outer, indices, box, strict=True)
            }
            return emit.sequence([strip(where, part) for part in parts])

        def strip(where: Values, part: index_splitting.Part) -> tirx.Stmt:
            value = index_splitting.between(assignment.value, assignment.axes, [*box, part])
            first = assignment.number(part[0])

            def element(index: PrimExpression) -> tirx.Stmt:
                return assignment.at({**where, inner.var: index + first}, value)

            return self._row(index_splitting.length(part), element)

        lengths = [index_splitting.length(part) for part in box]
        return emit.grid(lengths, row, assignment.index_type, parallel=self.parallel)

    def _row(self, extent: sizes.Extent, element: emit.Body) -> tirx.Stmt:
        """Return the elements of a row, in vectors if there are lanes."""
        dtype = self.assignment.index_type
        if self.lanes > 1:
            value = self.assignment.value
            vectors = strip_vectors(value, self.assignment.dtype, self.lanes, self.machine)
            return emit.strip(extent, self.lanes, element, dtype, vectors=vectors, tail=self.tail)
        return emit.loop(extent, element, name="element", dtype=dtype)

    def _chunks(self) -> tirx.Stmt:
        """Return the loops over one row, shared among threads."""
        (inner,) = self.assignment.axes

        def chunk(start: PrimExpression, length: sizes.Extent) -> tirx.Stmt:
            def element(index: PrimExpression) -> tirx.Stmt:
                return self.assignment.at({inner.var: start + index})

            return self._row(length, element)

        return emit.split(
            inner.extent,
            self.chunk,
            chunk,
            Tail.GUARD,
            self.assignment.index_type,
            name="task",
            kind=tirx.ForKind.PARALLEL,
        )
