"""A PrimFunc as a list of stages: what each computes, free of any order of loops.

Enters: a PrimFunc as lowering and fusion make it, one loop nest for each buffer. Leaves: a
:class:`Kernel`, or None where the function is of another kind (ordered loops, several stores in a
step, a position that is no plain index). An extent may be an expression of symbols. Nothing is
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from tvm_nnef.function_attributes import read_annotation
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, mentions, substituted
from tvm_nnef.schedules.analysis.min_max import extreme_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimExpression, PrimFunction, dtype_of

_COMBINERS = (tirx.Add, tirx.Mul, tirx.Max, tirx.Min, tirx.Or, tirx.And)

_LONGEST = 64
"""So many elements and numbers make an expression that is short."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """An index of a stage: its variable, and how many values it takes from 0."""

    var: Any
    extent: sizes.Extent

    @property
    def is_known(self) -> bool:
        """Whether the extent is a number."""
        return sizes.is_known(self.extent)

    @property
    def is_unit(self) -> bool:
        """Whether it certainly takes one value."""
        return self.is_known and bool(self.extent == 1)

    @property
    def typical(self) -> int:
        """The extent, or a guess where only a run tells it."""
        return sizes.typical(self.extent)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One buffer: ``buffer[axes] = value``, or ``combine(init, value over all reduced)``.

    ``combine`` makes the expression of two partial results; None for a stage without reduction.
    """

    buffer: Any
    axes: tuple[Axis, ...]
    value: PrimExpression
    reduced: tuple[Axis, ...] = ()
    init: PrimExpression | None = None
    combine: Any = None

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return str(self.buffer.dtype)

    @property
    def work(self) -> int:
        """How often the value is computed; a guess where only a run tells it."""
        return extent_product((*self.axes, *self.reduced))


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """The stages of a PrimFunc in an order in which they can be computed, and its parameters."""

    parameters: tuple[Any, ...]
    stages: tuple[Stage, ...]
    index_type: str

    def stage_of(self, buffer: Any) -> Stage | None:
        """The stage that computes a buffer; None for an input."""
        return next((s for s in self.stages if s.buffer.same_as(buffer)), None)

    @property
    def results(self) -> list[Stage]:
        """The stages whose buffers are parameters."""
        return [s for s in self.stages if any(s.buffer.same_as(p) for p in self.parameters)]

    @property
    def outputs(self) -> list[Any]:
        """The parameters that it fills, in their order."""
        return [p for p in self.parameters if self.stage_of(p) is not None]

    @property
    def inputs(self) -> list[Any]:
        """The parameters that it reads, in their order."""
        return [p for p in self.parameters if self.stage_of(p) is None]


def extent_product(axes: Iterable[Axis]) -> int:
    """The number of points of some axes; a guess where only a run tells it."""
    return sizes.typical(sizes.product(axis.extent for axis in axes))


def read_kernel(function: PrimFunction) -> Kernel | None:
    """The stages of a function; None where it is of another kind, or has an annotation."""
    realize = function.body
    if read_annotation(function.attrs) is not None:
        return None
    if not isinstance(realize, s_tir.SBlockRealize) or len(realize.block.iter_vars):
        return None
    body = realize.block.body
    nests = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    stages = []
    for nest in _without_idle(nests, function):
        stage = _stage(nest)
        if stage is None:
            return None
        stages.append(stage)
    types = {dtype_of(a.var) for s in stages for a in (*s.axes, *s.reduced)}
    written = [stage.buffer for stage in stages]
    twice = any(a.same_as(b) for n, a in enumerate(written) for b in written[:n])
    if len(types) > 1 or twice:
        return None
    return Kernel(tuple(function.params), tuple(stages), types.pop() if types else "int64")


def _without_idle(nests: list[Any], function: PrimFunction) -> list[Any]:
    """The loop nests without those that fill a buffer of no elements that nobody reads."""

    def is_idle(nest: Any) -> bool:
        found: list[Any] = []
        tvm_ffi.structural_walk(nest, (tirx.BufferStore, found.append), order="post")
        return all(
            sizes.same(sizes.elements(store.buffer), 0)
            and not any(store.buffer.same_as(p) for p in function.params)
            and not any(loads(other, store.buffer) for other in nests)
            for store in found
        )

    return [nest for nest in nests if not is_idle(nest)]


def at(stage: Stage, indices: Iterable[PrimExpression]) -> PrimExpression:
    """The value of a stage without reduction at some indices."""
    pairs = zip(stage.axes, indices, strict=True)
    return substituted(stage.value, {axis.var: index for axis, index in pairs})


def inlined(
    expression: PrimExpression, stages: Mapping[Any, Stage], axes: Sequence[Axis] = ()
) -> PrimExpression:
    """The expression with the loads of some buffers replaced by what their stages compute.

    ``stages`` are in the order in which they can be computed. What is read several times at the
    ``axes`` themselves, where it is always there, is computed once, under a name: integers only
    where they would become long otherwise, and out of sight of TVM, which looks into them for their
    bounds, each time anew; nothing where bfloat16 is read or made, which TVM takes for integers
    inside of what has a name.
    """
    values = (expression, *(stage.value for stage in stages.values()))
    if any("bfloat16" in (dtype_of(v), *map(dtype_of, loads(v))) for v in values):
        axes = ()
    long = not is_short(expression, stages)
    for stage in reversed([*stages.values()]):
        uses = loads(expression, stage.buffer)
        real = stage.dtype.startswith("float")
        worth = (real or (long and stage.dtype != "bool")) and not is_plain(stage.value)
        if len(uses) > 1 and worth and is_pointwise(uses, axes):
            named = tirx.Var(str(stage.buffer.name), stage.dtype)
            value = at(stage, uses[0].indices)
            if not real:
                value = tirx.bitwise_or(value, tirx.const(0, stage.dtype))
            expression = tirx.Let(named, value, _without_loads(expression, stage, named))
        elif uses:
            expression = _without_loads(expression, stage)
    return expression


def is_short(expression: PrimExpression, stages: Mapping[Any, Stage]) -> bool:
    """Whether an expression with stages inlined may be written out for each vector of a step.

    It is made of few elements and numbers then: where stages read each other more than once, they
    double with each.
    """
    known: dict[Any, int] = {}

    def size(value: PrimExpression) -> int:
        constants: list[Any] = []
        for kind in (tirx.FloatImm, tirx.IntImm):
            tvm_ffi.structural_walk(value, (kind, constants.append), order="post")
        return len(constants) + sum(known.get(load.source, 1) for load in loads(value))

    for stage in stages.values():
        known[stage.buffer] = size(stage.value)
    return size(expression) <= _LONGEST


def _without_loads(expression: PrimExpression, stage: Stage, name: Any = None) -> PrimExpression:
    """The expression with what a stage computes, or its name, in place of loads of its buffer."""

    def value(load: BUFFER_LOAD) -> PrimExpression:
        if not load.source.same_as(stage.buffer):
            return load
        return at(stage, load.indices) if name is None else name

    return tvm_ffi.structural_map(expression, (BUFFER_LOAD, value))


def is_plain(value: Any) -> bool:
    """Whether a value is one element of another buffer, or a constant."""
    return isinstance(value, (BUFFER_LOAD, tirx.FloatImm, tirx.IntImm))


def is_pointwise(uses: Sequence[Any], axes: Sequence[Axis]) -> bool:
    """Whether loads of a buffer are all of one element, whose indices are axes of its extents."""
    first, *others = uses
    if not all(tvm_ffi.structural_equal(first, other) for other in others):
        return False

    def is_axis(index: Any, extent: Any) -> bool:
        if isinstance(index, tirx.IntImm):
            return bool(index.value == 0)
        found = next((axis for axis in axes if index.same_as(axis.var)), None)
        return found is not None and sizes.same(found.extent, sizes.extent(extent))

    return all(map(is_axis, first.indices, first.source.shape))


def _stage(nest: Any) -> Stage | None:
    loops: dict[Any, sizes.Extent] = {}
    while isinstance(nest, tirx.For):
        if nest.kind != tirx.ForKind.SERIAL or mentions(nest.extent, loops):
            return None
        if not isinstance(nest.min, tirx.IntImm) or nest.min.value:
            return None
        loops[nest.loop_var] = sizes.extent(nest.extent)
        nest = nest.body
    if not isinstance(nest, s_tir.SBlockRealize) or not _always(nest.predicate):
        return None
    block = nest.block
    axes: list[Axis] = []
    reduced: list[Axis] = []
    for iterator, bound in zip(block.iter_vars, nest.iter_values, strict=True):
        extent = loops.pop(bound, None) if isinstance(bound, tirx.Var) else _unit(bound)
        if extent is None:
            return None
        plain = iterator.iter_type == tirx.IterVar.DataPar
        (axes if plain else reduced).append(Axis(iterator.var, extent))
    if any(axis.is_known and axis.extent < 1 for axis in (*axes, *reduced)):
        return None
    idle = all(sizes.is_known(extent) and extent == 1 for extent in loops.values())
    if not idle or len(block.alloc_buffers):
        return None
    return _stored(block, tuple(axes), tuple(reduced))


def _is_overwritten(value: Any, store: Any) -> bool:
    """Whether a value is the element that a store overwrites."""
    return (
        isinstance(value, BUFFER_LOAD)
        and value.source.same_as(store.buffer)
        and all(a.same_as(b) for a, b in zip(value.indices, store.indices, strict=True))
    )


def _always(predicate: Any) -> bool:
    return isinstance(predicate, tirx.IntImm) and bool(predicate.value)


def _unit(bound: Any) -> int | None:
    return 1 if isinstance(bound, tirx.IntImm) and bound.value == 0 else None


def _stored(block: Any, axes: tuple[Axis, ...], reduced: tuple[Axis, ...]) -> Stage | None:
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return None
    if not len(store.indices):
        # A scalar is stored in a block with an iterator of one value.
        axes = tuple(axis for axis in axes if not axis.is_unit or _uses(store.value, [axis]))
    ordered = _in_order(store.indices, axes)
    if ordered is None or not _covers(store.buffer, ordered):
        return None
    if not reduced and block.init is None:
        if loads(store.value, store.buffer):
            return None
        return Stage(store.buffer, ordered, store.value)
    if not isinstance(block.init, tirx.BufferStore) or loads(block.init.value):
        return None
    found = combination(store.value)
    if found is None:
        return None
    combine, first, second = found
    if not _is_overwritten(first, store):
        first, second = second, first
    value = second
    if not _is_overwritten(first, store):
        return None
    if loads(value, store.buffer) or _uses(block.init.value, (*axes, *reduced)):
        return None
    return Stage(store.buffer, ordered, value, reduced, block.init.value, combine)


def combination(value: Any) -> tuple[Any, PrimExpression, PrimExpression] | None:
    """The function by which an expression combines two operands, and these; None for others."""
    if isinstance(value, _COMBINERS):
        return type(value), value.a, value.b
    return extreme_of(value)


def _in_order(indices: Any, axes: tuple[Axis, ...]) -> tuple[Axis, ...] | None:
    """The axes in the order of the dimensions that they index; None for other indices."""
    by_var = {axis.var: axis for axis in axes}
    ordered = []
    for index in indices:
        axis = by_var.pop(index, None) if isinstance(index, tirx.Var) else None
        if axis is None:
            return None
        ordered.append(axis)
    return None if by_var else tuple(ordered)


def _covers(buffer: Any, axes: tuple[Axis, ...]) -> bool:
    shape = buffer.shape
    return len(shape) == len(axes) and all(
        sizes.same(sizes.extent(extent), axis.extent)
        for extent, axis in zip(shape, axes, strict=True)
    )


def _uses(expression: Any, axes: Iterable[Axis]) -> bool:
    return mentions(expression, [axis.var for axis in axes])
