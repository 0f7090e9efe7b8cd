"""A PrimFunc as a list of stages, each an expression over axes without an order of loops.

Input: a PrimFunc after lowering and fusion, with one loop nest for each buffer. Output: a
:class:`Kernel`; None for other functions (sequential loops, several stores in a step, stores at
indices that are not plain axes). Dimensions may be dynamic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.reducers import Reducer, read_combined
from tvm_nnef.tir.expressions import (
    loads,
    mentions,
    nodes,
    substituted,
    with_loads,
)
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of
from tvm_nnef.tvm_support.function_attributes import CODE_BITS, INT8_DATA, PANEL_WIDTH, read_sort

_LONGEST = 64
"""Upper limit of the elements and constants of a short expression, to limit compile time."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """An index of a stage: its variable, from 0 to its extent, excluded."""

    var: tirx.Var
    extent: sizes.Extent

    @property
    def is_known(self) -> bool:
        """Whether the size is static."""
        return sizes.is_known(self.extent)

    @property
    def is_unit(self) -> bool:
        """Whether it certainly has one value."""
        return self.is_known and bool(self.extent == 1)

    @property
    def estimate(self) -> int:
        """The size, estimated if it is dynamic."""
        return sizes.estimate(self.extent)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A stage computes one buffer: ``buffer[axes] = value``, or a reduction of values over
    ``reduced``.

    ``init`` and ``reducer`` are None for a stage without reduction. ``panel_width`` is that of an
    operand in panels along the last axis
    (:data:`~tvm_nnef.tvm_support.function_attributes.PANEL_WIDTH`), ``code_bits`` are those of its
    codes (:data:`~tvm_nnef.tvm_support.function_attributes.CODE_BITS`), ``int8_data`` whether what
    they are multiplied with may be rounded
    (:data:`~tvm_nnef.tvm_support.function_attributes.INT8_DATA`).
    """

    buffer: tirx.Var
    axes: tuple[Axis, ...]
    value: PrimExpression
    reduced: tuple[Axis, ...] = ()
    init: PrimExpression | None = None
    reducer: Reducer | None = None
    panel_width: int | None = None
    code_bits: int | None = None
    int8_data: bool = False

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return str(self.buffer.dtype)

    @property
    def work(self) -> int:
        """The number of times that the value is computed, estimated for dynamic axes."""
        return extent_product((*self.axes, *self.reduced))


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """The stages of a PrimFunc in an order in which they can be computed, and its parameters."""

    parameters: tuple[tirx.Var, ...]
    stages: tuple[Stage, ...]
    index_type: str

    def stage_of(self, buffer: tirx.Var) -> Stage | None:
        """Return the stage that computes a buffer; None for an input."""
        return next((s for s in self.stages if s.buffer.same_as(buffer)), None)

    @property
    def results(self) -> list[Stage]:
        """The stages whose buffers are parameters."""
        return [s for s in self.stages if any(s.buffer.same_as(p) for p in self.parameters)]

    @property
    def outputs(self) -> list[tirx.Var]:
        """The parameters that the kernel writes, in their order."""
        return [p for p in self.parameters if self.stage_of(p) is not None]

    @property
    def inputs(self) -> list[tirx.Var]:
        """The parameters that the kernel reads, in their order."""
        return [p for p in self.parameters if self.stage_of(p) is None]


def extent_product(axes: Iterable[Axis]) -> int:
    """Return the number of points of some axes, estimated for dynamic axes."""
    return sizes.estimate(sizes.product(axis.extent for axis in axes))


def read_kernel(function: PrimFunction) -> Kernel | None:
    """Return the stages of a function; None for other functions and those annotated as sorting."""
    realize = function.body
    if read_sort(function.attrs) is not None:
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


def _without_idle(nests: list[tirx.Stmt], function: PrimFunction) -> list[tirx.Stmt]:
    """Return the loop nests without those that fill an empty buffer that is not read."""

    def is_idle(nest: tirx.Stmt) -> bool:
        stores = nodes(nest, tirx.BufferStore)
        # Without any store it calls a function that writes, such as TVM's sorting for CPUs.
        return bool(stores) and all(
            sizes.same(sizes.elements(store.buffer), 0)
            and not any(store.buffer.same_as(p) for p in function.params)
            and not any(loads(other, store.buffer) for other in nests)
            for store in stores
        )

    return [nest for nest in nests if not is_idle(nest)]


def at(stage: Stage, indices: Iterable[PrimExpression]) -> PrimExpression:
    """Return the value of a stage without reduction at some indices."""
    pairs = zip(stage.axes, indices, strict=True)
    return substituted(stage.value, {axis.var: index for axis, index in pairs})


def inlined(
    expression: PrimExpression, stages: Mapping[tirx.Var, Stage], axes: Sequence[Axis] = ()
) -> PrimExpression:
    """Return the expression with the loads of some buffers replaced by the values of their stages.

    ``stages`` are in the order in which they can be computed. A value that is read several times at
    the ``axes`` themselves is computed once, in a ``Let``. Integers get one only if the expression
    would become long otherwise, and hidden from TVM, which analyzes their bounds at each use.
    Values with bfloat16 in them get none: TVM takes bfloat16 in a ``Let`` for integers.
    """
    unnamed = _with_bfloat16(stages.values())
    long = not is_short(expression, stages)
    for stage in reversed([*stages.values()]):
        uses = loads(expression, stage.buffer)
        real = stage.dtype.startswith("float")
        worth = (real or (long and stage.dtype != "bool")) and not is_plain(stage.value)
        if len(uses) > 1 and worth and stage.buffer not in unnamed and is_pointwise(uses, axes):
            named = tirx.Var(str(stage.buffer.name), stage.dtype)
            value = at(stage, uses[0].indices)
            if not real:
                value = tirx.bitwise_or(value, tirx.const(0, stage.dtype))
            expression = tirx.Let(named, value, _without_loads(expression, stage, named))
        elif uses:
            expression = _without_loads(expression, stage)
    return expression


def _with_bfloat16(stages: Iterable[Stage]) -> set[tirx.Var]:
    """Return the buffers of the stages that involve bfloat16, in their values or their operands."""
    buffers: set[tirx.Var] = set()
    for stage in stages:
        typed = (stage.value, *nodes(stage.value, TensorLoad, tirx.Cast))
        read = {load.source for load in loads(stage.value)}
        if "bfloat16" in map(dtype_of, typed) or read & buffers:
            buffers.add(stage.buffer)
    return buffers


def is_short(expression: PrimExpression, stages: Mapping[tirx.Var, Stage]) -> bool:
    """Whether an expression with stages inlined has few elements and constants.

    Then it may be repeated for each vector of a step. Its size doubles with each stage that is read
    twice.
    """
    lengths: dict[tirx.Var, int] = {}

    def constants(value: PrimExpression) -> int:
        return len(nodes(value, tirx.FloatImm, tirx.IntImm))

    def size(value: PrimExpression) -> int:
        # Those of the shape of a buffer are nodes of each load.
        sources = [load.source for load in loads(value)]
        own = constants(value) - sum(map(constants, sources))
        return own + sum(lengths.get(source, 1) for source in sources)

    for stage in stages.values():
        lengths[stage.buffer] = size(stage.value)
    return size(expression) <= _LONGEST


def _without_loads(
    expression: PrimExpression, stage: Stage, name: tirx.Var | None = None
) -> PrimExpression:
    """Return the expression with the value of a stage, or its name, instead of loads of its
    buffer.
    """
    buffer = stage.buffer
    if name is not None:
        return with_loads(expression, buffer, lambda load: name)
    return with_loads(expression, buffer, lambda load: at(stage, load.indices))


def is_costly_to_repeat(stage: Stage, kernel: Kernel) -> bool:
    """Whether inlining a value would compute it much more often than storing it."""
    readers = [s for s in kernel.stages for _ in loads(s.value, stage.buffer)]
    return not is_cheap(stage.value) and sum(s.work for s in readers) > 2 * stage.work


def stages_inside(stage: Stage, kernel: Kernel, kept: Sequence[Stage]) -> list[Stage]:
    """Return the stages that are inlined into one, in order: its operands that are not kept."""
    needed = [stage]
    for other in reversed(kernel.stages[: kernel.stages.index(stage)]):
        if other not in kept and any(loads(each.value, other.buffer) for each in needed):
            needed.insert(0, other)
    return needed[:-1]


def is_plain(value: PrimExpression) -> bool:
    """Whether a value is one element of another buffer, or a constant."""
    return isinstance(value, (TensorLoad, tirx.FloatImm, tirx.IntImm))


def is_pointwise(uses: Sequence[TensorLoad], axes: Sequence[Axis]) -> bool:
    """Whether all loads of a buffer read the same element, indexed by axes of its sizes."""
    first, *others = uses
    if not all(tvm_ffi.structural_equal(first, other) for other in others):
        return False

    def is_axis(index: PrimExpression, extent: PrimExpression) -> bool:
        if isinstance(index, tirx.IntImm):
            return bool(index.value == 0)
        matching = next((axis for axis in axes if index.same_as(axis.var)), None)
        return matching is not None and sizes.same(matching.extent, sizes.extent(extent))

    return all(map(is_axis, first.indices, first.source.shape))


def _stage(nest: tirx.Stmt) -> Stage | None:
    loops: dict[tirx.Var, sizes.Extent] = {}
    while isinstance(nest, tirx.For):
        size = sizes.extent(nest.extent)
        if nest.kind != tirx.ForKind.SERIAL or any(var in loops for var in sizes.symbols(size)):
            return None
        if not isinstance(nest.min, tirx.IntImm) or nest.min.value:
            return None
        loops[nest.loop_var] = size
        nest = nest.body
    if not isinstance(nest, s_tir.SBlockRealize) or len(nest.block.alloc_buffers):
        return None
    if not isinstance(nest.predicate, tirx.IntImm) or not nest.predicate.value:
        return None
    axes: list[Axis] = []
    reduced: list[Axis] = []
    for iterator, bound in zip(nest.block.iter_vars, nest.iter_values, strict=True):
        is_zero = isinstance(bound, tirx.IntImm) and bound.value == 0
        extent = 1 if is_zero else loops.pop(bound, None) if isinstance(bound, tirx.Var) else None
        if extent is None or (sizes.is_known(extent) and extent < 1):
            return None
        plain = iterator.iter_type == tirx.IterVar.DataPar
        (axes if plain else reduced).append(Axis(iterator.var, extent))
    if not all(sizes.same(extent, 1) for extent in loops.values()):
        return None
    return _stored(nest.block, tuple(axes), tuple(reduced))


def _is_overwritten(value: PrimExpression, store: tirx.BufferStore) -> bool:
    """Whether a value is the element that a store overwrites."""
    return (
        isinstance(value, TensorLoad)
        and value.source.same_as(store.buffer)
        and all(a.same_as(b) for a, b in zip(value.indices, store.indices, strict=True))
    )


def _stored(block: s_tir.SBlock, axes: tuple[Axis, ...], reduced: tuple[Axis, ...]) -> Stage | None:
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return None
    if not len(store.indices):
        # A scalar is stored in a block with an iterator of one value.
        axes = tuple(a for a in axes if not a.is_unit or mentions(store.value, [a.var]))
    ordered = _in_order(store, axes)
    if ordered is None:
        return None
    if not reduced and block.init is None:
        if loads(store.value, store.buffer):
            return None
        return Stage(store.buffer, ordered, store.value)
    combined = read_combined(store.value)
    if not isinstance(block.init, tirx.BufferStore) or combined is None:
        return None
    init = block.init.value
    reducer, first, value = combined
    if not _is_overwritten(first, store):
        first, value = value, first
    if not _is_overwritten(first, store) or loads(value, store.buffer):
        return None
    if loads(init) or mentions(init, [axis.var for axis in (*axes, *reduced)]):
        return None
    width, bits = (block.annotations.get(name) for name in (PANEL_WIDTH, CODE_BITS))
    return Stage(
        store.buffer, ordered, value, reduced, init, reducer,
        None if width is None else int(width), None if bits is None else int(bits),
        INT8_DATA in block.annotations,
    )  # fmt: skip


def _in_order(store: tirx.BufferStore, axes: tuple[Axis, ...]) -> tuple[Axis, ...] | None:
    """Return the axes in the order of the dimensions of a buffer that they fill.

    It is None for other stores.
    """
    by_var = {axis.var: axis for axis in axes}
    indices = [index for index in store.indices if isinstance(index, tirx.Var)]
    ordered = tuple(by_var.pop(index) for index in indices if index in by_var)
    if by_var or len(ordered) != len(store.indices):
        return None
    dimensions = zip(store.buffer.shape, ordered, strict=True)
    same = all(sizes.same(sizes.extent(size), axis.extent) for size, axis in dimensions)
    return ordered if same else None
