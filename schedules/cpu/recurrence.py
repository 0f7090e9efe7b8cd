"""Loops that read what they wrote before: what one step of them along an axis computes.

Enters: the nests of a PrimFunc of ordered loops, which lowering makes of ``y[i] += y[i - 1]`` and
the like. Leaves: a :class:`Recurrence`, or None where they are of another kind. Nothing is changed.

An axis is free where everything written is read at the very index at which it is written: nothing
is carried along it, so that its elements may be computed in any order, also beside each other. One
axis may be carried: along it elements are read that lie a known number of steps behind. Then all
loop nests may run together, step by step: a nest that prepares an element runs in front of the one
that reads it, as before, provided that no nest changes what an earlier nest read further behind.
What is read ahead, or in another row, or at a place that data tell, is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Call

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu.ordered_nests import Nest, line, same_place
from tvm_nnef.schedules.expressions import loads, substituted, variables
from tvm_nnef.schedules.stages import is_plain
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    PrimExpression,
    PrimFunction,
    choice_of,
    dtype_of,
)

MOST_BEHIND = 4
"""So many steps behind an element may be that is read."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What one step computes: values with names, in order, and the element of each buffer."""

    named: tuple[tuple[Any, PrimExpression], ...]
    elements: Mapping[Any, PrimExpression]


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """Buffers of one shape, all written at the point whose indices are ``points``.

    Steps go along the dimension ``carried``, from its end where ``backward``. The first ``lead``
    steps are :meth:`step` of their numbers; all others are alike. ``past`` has the variables that
    stand in a step for an element of a buffer some steps behind.
    """

    results: tuple[Any, ...]
    extents: tuple[sizes.Extent, ...]
    points: tuple[Any, ...]
    carried: int
    backward: bool
    index_type: str
    first: tuple[Step, ...]
    others: Step
    place: Any
    past: Mapping[tuple[Any, int], Any]

    @property
    def lead(self) -> int:
        """How many steps are unlike the others."""
        return len(self.first)

    def position(self, place: PrimExpression) -> PrimExpression:
        """The index along the carried dimension of a step."""
        if not self.backward:
            return place
        last = sizes.number(self.extents[self.carried] - 1, self.index_type)
        return last - place


def read_recurrence(function: PrimFunction, nests: Sequence[Nest]) -> Recurrence | None:
    """The recurrence that the loops of a function are; None where they are something else."""
    try:
        return _Reader(function, nests).recurrence()
    except _OfAnotherKindError:
        return None


class _OfAnotherKindError(Exception):
    """The loops are no recurrence of the kind that is read here."""


@dataclass(frozen=True, slots=True, eq=False)
class _Turned:
    """A nest as what it does at the point that it writes, where some conditions hold.

    ``slopes`` are 1 or -1 for each dimension: whether its loop goes forward, or 0 without a loop.
    """

    body: Any
    conditions: tuple[PrimExpression, ...]
    slopes: tuple[int, ...]


class _Reader:
    """Reads the nests of one function."""

    def __init__(self, function: PrimFunction, nests: Sequence[Nest]) -> None:
        self.nests, self.parameters = nests, list(function.params)
        self.written = list(dict.fromkeys(s.buffer for nest in nests for s in nest.stores))
        if not self.written:
            raise _OfAnotherKindError
        shapes = [[sizes.extent(extent) for extent in buffer.shape] for buffer in self.written]
        empty = any(sizes.same(extent, 0) for extent in shapes[0])
        if empty or not all(_alike(shapes[0], shape) for shape in shapes):
            raise _OfAnotherKindError
        self.extents = tuple(shapes[0])
        self.dtype = dtype_of(nests[0].loops[0][0])
        self.points = tuple(tirx.Var(f"p{n}", self.dtype) for n in range(len(shapes[0])))
        self.carried, self.backward = 0, False

    def recurrence(self) -> Recurrence:
        """The recurrence, with as few steps in front as make all others alike."""
        turned = [self._turned(nest) for nest in self.nests]
        self.carried, self.backward = self._direction(turned)
        place = tirx.Var("step", self.dtype)
        extent = self.extents[self.carried]
        for lead in range(1, MOST_BEHIND + 1):
            past: dict[tuple[Any, int], Any] = {}
            count = min(lead, extent) if sizes.is_known(extent) else lead
            try:
                others = self._step(turned, place, lead, past)
                first = [self._step(turned, tirx.const(n, self.dtype), n, past)
                         for n in range(count)]  # fmt: skip
            except _OfAnotherKindError:
                continue
            results = tuple(b for b in self.written if any(b.same_as(p) for p in self.parameters))
            return Recurrence(
                results, self.extents, self.points, self.carried, self.backward, self.dtype,
                tuple(first), others, place, past,
            )  # fmt: skip
        raise _OfAnotherKindError

    def _turned(self, nest: Nest) -> _Turned:
        bound = nest.bound
        places = [tuple(substituted(i, bound) for i in store.indices) for store in nest.stores]
        if not all(same_place(place, places[0]) for place in places[1:]):
            raise _OfAnotherKindError
        left = dict(nest.loops)
        inside: dict[Any, PrimExpression] = {}
        conditions: list[PrimExpression] = []
        slopes: list[int] = []
        for index, point, extent in zip(places[0], self.points, self.extents, strict=True):
            found = line(index, left)
            if found is None:
                raise _OfAnotherKindError
            var, slope, base = found
            slopes.append(slope)
            if var is None:
                if not (sizes.same(base, 0) and sizes.same(extent, 1)):
                    raise _OfAnotherKindError
                continue
            count = left.pop(var)
            inside[var] = (point - base) * tirx.const(slope, self.dtype)
            low = sizes.simplified(base if slope > 0 else base - count + 1)
            conditions += [] if sizes.same(low, 0) else [point >= low]
            high = sizes.simplified(low + sizes.number(count, self.dtype))
            conditions += [] if sizes.same(high, extent) else [point < high]
        if not all(sizes.same(count, 1) for count in left.values()):
            raise _OfAnotherKindError
        inside.update((var, tirx.const(0, self.dtype)) for var in left)
        body = substituted(nest.body, inside)
        return _Turned(body, tuple(conditions), tuple(slopes))

    def _direction(self, turned: Sequence[_Turned]) -> tuple[int, bool]:
        """The dimension along which something is carried, and whether from its end."""
        found = set()
        with ExitStack() as known:
            analyzer = self.analyzer(known)
            for nest in turned:
                own = [load for load in loads(nest.body) if load.source in self.written]
                for load in own:
                    pairs = enumerate(zip(load.indices, self.points, strict=True))
                    found |= {
                        (n, nest.slopes[n])
                        for n, (i, p) in pairs
                        if not sizes.same(sizes.extent(analyzer.simplify(i - p)), 0)
                    }
        if len(found) != 1:
            raise _OfAnotherKindError
        ((dimension, slope),) = found
        return dimension, slope < 0

    def analyzer(self, known: ExitStack) -> Any:
        """What is known of the points."""
        analyzer = sym.Analyzer()
        for point, extent in zip(self.points, self.extents, strict=True):
            if sizes.is_known(extent):
                analyzer.bind(point, sizes.range_of(point, 0, max(1, extent)))
            else:
                analyzer.bind(point, sizes.range_of(point, 0, sizes.LARGEST))
                known.enter_context(analyzer.constraint_scope(point < extent))
        return analyzer

    def _step(
        self,
        turned: Sequence[_Turned],
        place: PrimExpression,
        behind: int,
        past: dict[tuple[Any, int], Any],
    ) -> Step:
        """What a step does that has so many steps behind it at least."""
        extent = self.extents[self.carried]
        last = sizes.number(extent - 1, self.dtype)
        where = last - place if self.backward else place
        with ExitStack() as known:
            analyzer = self.analyzer(known)
            if isinstance(place, tirx.Var):
                analyzer.bind(place, sizes.range_of(place, behind, sizes.LARGEST))
            end = sizes.number(extent, self.dtype)
            for test in (place >= behind, place < end, end > behind, last - place >= 0):
                if not isinstance(test, tirx.IntImm):
                    known.enter_context(analyzer.constraint_scope(test))
            made = _Made(self, where, behind, analyzer, past)
            for nest in turned:
                made.nest(nest)
        return Step(tuple(made.named), made.elements)


class _Made:
    """Follows the nests through one step."""

    def __init__(
        self,
        reader: _Reader,
        where: PrimExpression,
        behind: int,
        analyzer: Any,
        past: dict[tuple[Any, int], Any],
    ) -> None:
        self.reader, self.where, self.behind = reader, where, behind
        self.analyzer, self.past = analyzer, past
        self.named: list[tuple[Any, PrimExpression]] = []
        self.elements: dict[Any, PrimExpression] = {}
        self.values: dict[Any, PrimExpression] = {}
        self.held: dict[Any, PrimExpression] = {}
        self.read: set[Any] = set()
        self.is_lost = False

    def nest(self, nest: _Turned) -> None:
        """Computes what a nest does at the point of the step."""
        before, earlier = dict(self.elements), set(self.read)
        self.values = {self.reader.points[self.reader.carried]: self.where}
        self.held = {}
        self._run(nest.body, self._left(nest.conditions))
        for buffer, value in self.elements.items():
            if value is before.get(buffer):
                continue
            if buffer in earlier:
                raise _OfAnotherKindError
            self.elements[buffer] = self._name(value, f"{buffer.name}_now")

    def _run(self, statement: Any, conditions: list[PrimExpression] | None) -> None:
        """Follows a statement that runs where some conditions hold; None where it never does."""
        if conditions is None:
            return
        match statement:
            case tirx.SeqStmt():
                for each in statement.seq:
                    self._run(each, conditions)
            case tirx.IfThenElse() if statement.else_case is None:
                inner = self._left([statement.condition])
                self._run(statement.then_case, None if inner is None else [*conditions, *inner])
            case tirx.Bind():
                self.values[statement.var] = self._resolved(statement.value)
            case tirx.AllocBuffer():
                pass
            case tirx.BufferStore() if statement.buffer in self.reader.written:
                self._store(statement.buffer, self._resolved(statement.value), conditions)
            case tirx.BufferStore() if not conditions:
                value = self._resolved(statement.value)
                self.held[statement.buffer] = self._name(value, str(statement.buffer.name))
            case _:
                raise _OfAnotherKindError

    def _store(self, buffer: Any, value: PrimExpression, conditions: list[PrimExpression]) -> None:
        old = self.elements.get(buffer)
        if conditions and (old is None or (len(conditions) > 1 and not _is_named(old))):
            raise _OfAnotherKindError
        for condition in reversed(conditions):
            value = tirx.if_then_else(condition, value, old)
        self.elements[buffer] = value

    def _name(self, value: PrimExpression, name: str) -> PrimExpression:
        if _is_named(value):
            return value
        var = tirx.Var(name, dtype_of(value))
        self.named.append((var, value))
        return var

    def _left(self, conditions: Sequence[PrimExpression]) -> list[PrimExpression] | None:
        """Those of some conditions that are not always true; None where one is never."""
        left = []
        for condition in conditions:
            decided = self._decided(substituted(condition, self.values))
            if decided is False:
                return None
            left += [] if decided else [self._resolved(condition)]
        return left

    def _decided(self, condition: PrimExpression) -> bool | None:
        """Whether a condition on indices always holds, or never; None where a run tells."""
        if loads(condition) or not all(dtype_of(v).startswith("int") for v in variables(condition)):
            return None
        if self.analyzer.can_prove(condition):
            return True
        return False if self.analyzer.can_prove(tirx.Not(condition)) else None

    def _resolved(self, expression: PrimExpression) -> PrimExpression:
        """An expression in terms of the step: what is decided is chosen, own elements are known."""
        kinds = [(tirx.Select, self._chosen), (Call, self._chosen), (BUFFER_LOAD, self._loaded)]
        here = substituted(expression, self.values)
        resolved = tvm_ffi.structural_map(here, kinds, order="pre")
        if self.is_lost:
            raise _OfAnotherKindError
        return resolved

    def _chosen(self, branch: Any) -> PrimExpression:
        while (parts := choice_of(branch)) is not None:
            decided = self._decided(parts[0])
            if decided is None:
                return branch
            branch = parts[1] if decided else parts[2]
        return self._loaded(branch) if isinstance(branch, BUFFER_LOAD) else branch

    def _loaded(self, load: Any) -> PrimExpression:
        if load.source in self.held:
            return self.held[load.source]
        if load.source not in self.reader.written:
            indices = (self._index(index) for index in load.indices)
            return load.source[tuple(indices)]
        steps = self._steps_behind(load)
        if steps == 0 and load.source in self.elements:
            return self.elements[load.source]
        if steps is None or not 0 < steps <= min(self.behind, MOST_BEHIND):
            # An exception does not pass through TVM as what it is.
            self.is_lost = True
            return load
        self.read.add(load.source)
        name = f"{load.source.name}_{steps}_behind"
        return self.past.setdefault((load.source, steps), tirx.Var(name, str(load.source.dtype)))

    def _index(self, index: PrimExpression) -> PrimExpression:
        """An index in simpler terms: TVM does not choose between symbols itself."""

        def chosen(extreme: Any) -> PrimExpression:
            small, large = extreme.a, extreme.b
            if isinstance(extreme, tirx.Max):
                small, large = large, small
            is_first = small <= large
            if self.analyzer.can_prove(is_first):
                return extreme.a
            return extreme.b if self.analyzer.can_prove(tirx.Not(is_first)) else extreme

        kinds = (tirx.Min, tirx.Max)
        return self.analyzer.simplify(tvm_ffi.structural_map(index, (kinds, chosen), order="post"))

    def _steps_behind(self, load: Any) -> int | None:
        """How many steps ago what is read was computed; None where that is not certain."""
        carried = self.reader.carried
        points = list(self.reader.points)
        points[carried] = self.where
        apart = [sizes.extent(self.analyzer.simplify(point - self._index(index)))
                 for point, index in zip(points, load.indices, strict=True)]  # fmt: skip
        steps = apart.pop(carried)
        if not sizes.is_known(steps) or not all(sizes.same(each, 0) for each in apart):
            return None
        return -int(steps) if self.reader.backward else int(steps)


def _is_named(value: PrimExpression) -> bool:
    return is_plain(value) or isinstance(value, tirx.Var)


def _alike(first: Sequence[sizes.Extent], second: Sequence[sizes.Extent]) -> bool:
    return len(first) == len(second) and all(map(sizes.same, first, second))
