"""Strategy for loops that read elements which they wrote: recurrences, scans, scattered sums.

Input: a PrimFunc of serial loop nests, as lowering makes it of a formula that reads its own result.
Output: one in which the nests still run one after the other, and their dependent loops in order.

A dimension of the written buffers is independent if each access of a nest to any of them has the
variable of one loop as its index there: different steps of that loop touch different elements.
Consecutive nests share the loops over their independent dimensions: these are moved outside and
run in parallel. That of the last dimension is moved innermost instead, in vector lanes. Along
contiguous elements, a nest that is annotated as a :class:`PrefixScan` is computed in vectors
(:mod:`prefix_scan`). Sums stay in their order, except for those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call

from tvm_nnef.function_attributes import PrefixScan
from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit, prefix_scan
from tvm_nnef.schedules.cpu.accesses import stride_of
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.expressions import loads, mentions, substituted
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    is_conditional,
    opaque_block,
    with_opaque_body,
)

NAME = "cpu.sequential"

_PARALLEL_WORK = 1 << 15

_CHUNK = 256
"""Elements of the last dimension that one thread takes at once."""

_ROWS = 8
"""Rows that one thread takes at once: they hide how long a step takes."""


def apply(function: PrimFunction, description: Description) -> PrimFunction | None:
    """The function with its independent loops in parallel and in lanes; None if it has none.

    Nests that read nothing of what they write are taken only if all of their loops are
    independent: in another order the others may run across memory.
    """
    block, nests = opaque_block(function), _nests(function)
    if nests is None:
        return None
    scan = PrefixScan.of(function.attrs or {})
    groups = _groups(nests)
    gains = any(nest.is_recurrent and (group.dimensions or scan) for group in groups
                for nest in group.nests)  # fmt: skip
    whole = all(len(nest.independent) == len(nest.loops) for nest in nests)
    if not gains and not whole:
        return None
    body = emit.sequence([_Emitter(group, scan, description).statement() for group in groups])
    written = {store.buffer for nest in nests for store in nest.stores}
    results = [parameter for parameter in function.params if parameter in written]
    return with_opaque_body(function, results, list(block.alloc_buffers), body)


@dataclass(frozen=True, slots=True, eq=False)
class _Nest:
    """Loops from 0, the outermost one first, and the body inside of all.

    ``independent`` has the loop of each independent dimension.
    """

    loops: Mapping[tirx.Var, sizes.Extent]
    body: tirx.Stmt
    independent: Mapping[int, tirx.Var]

    def found(self, *kinds: type) -> Iterator[tirx.Stmt]:
        """The statements of some kinds inside."""
        found: list[tirx.Stmt] = []
        tvm_ffi.structural_walk(self.body, (kinds, found.append), order="post")
        return iter(found)

    @property
    def stores(self) -> list[tirx.BufferStore]:
        """The stores to buffers that live longer than a step."""
        local = [each.buffer for each in self.found(tirx.AllocBuffer)]
        return [each for each in self.found(tirx.BufferStore) if each.buffer not in local]

    @property
    def is_recurrent(self) -> bool:
        """Whether it reads a buffer that it writes."""
        written = [store.buffer for store in self.stores]
        return any(load.source in written for load in loads(self.body))

    def values(
        self, known: Mapping[int, PrimExpression], axis: int
    ) -> Callable[[PrimExpression], PrimExpression] | None:
        """The value of each index of an axis, if the nest does nothing but store these."""
        left = [var for var in self.loops if var not in [self.independent[n] for n in known]]
        if self.is_recurrent or not isinstance(self.body, tirx.BufferStore) or len(left) != 1:
            return None
        (var,), index = left, self.body.indices[axis]
        last = sizes.extent(self.body.buffer.shape[axis]) - 1
        fixed = {self.independent[number]: value for number, value in known.items()}

        def at(position: PrimExpression) -> PrimExpression:
            place = position if index.same_as(var) else last - position
            return substituted(self.body.value, {**fixed, var: place})

        is_reverse = sizes.same(sizes.simplified(index + var), last)
        return at if index.same_as(var) or is_reverse else None

    def fills_vectors(self, lane: tirx.Var) -> bool:
        """Whether TVM makes vectors of the steps of a loop: all are made, without values inside."""
        conditions = [test.condition for test in self.found(tirx.IfThenElse)]
        conditions += [call.args[0] for call in self.found(Call) if is_conditional(call)]
        if any(mentions(condition, [lane]) for condition in conditions):
            return False
        types = {str(store.buffer.dtype) for store in self.stores}
        return "bool" not in types and not any(self.found(tirx.Bind, tirx.AllocBuffer))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Nests that share the loops over some independent dimensions, by extent."""

    nests: tuple[_Nest, ...]
    dimensions: Mapping[int, sizes.Extent]


def _nests(function: PrimFunction) -> list[_Nest] | None:
    """The loop nests of a function; None if it has other statements."""
    block = opaque_block(function)
    if block is None:
        return None
    statements = list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else [block.body]
    nests = [nest for statement in statements if (nest := _nest(statement)) is not None]
    if len(nests) < len(statements):
        return None
    written = [store.buffer for nest in nests for store in nest.stores]
    return [_Nest(nest.loops, nest.body, _independent(nest, written)) for nest in nests]


def _nest(statement: tirx.Stmt) -> _Nest | None:
    loops: dict[tirx.Var, sizes.Extent] = {}
    while isinstance(statement, tirx.For):
        start, extent = statement.min, statement.extent
        if statement.kind != tirx.ForKind.SERIAL or not isinstance(start, tirx.IntImm):
            return None
        if start.value or loads(extent) or mentions(extent, loops):
            return None
        loops[statement.loop_var] = sizes.extent(extent)
        statement = statement.body
    nest = _Nest(loops, statement, {})
    return nest if loops and not any(nest.found(tirx.For, s_tir.SBlockRealize)) else None


def _independent(nest: _Nest, written: Sequence[tirx.Buffer]) -> dict[int, tirx.Var]:
    """The loop of each dimension in which all accesses to written buffers have its variable."""
    names = {each.var: each.value for each in nest.found(tirx.Bind) if not loads(each.value)}
    accesses = [store.indices for store in nest.stores]
    accesses += [load.indices for load in loads(nest.body) if load.source in written]
    places = [[substituted(index, names) for index in indices] for indices in accesses]
    found: dict[int, tirx.Var] = {}
    for dimension, indices in enumerate(zip(*places, strict=False)):
        first, *others = indices
        is_loop = first in nest.loops and first not in found.values()
        if is_loop and all(first.same_as(other) for other in others):
            found[dimension] = first
    return found


def _groups(nests: Sequence[_Nest]) -> list[_Group]:
    """Consecutive nests joined as long as they share the loops over some dimension."""
    groups: list[_Group] = []
    for nest in nests:
        own = {number: nest.loops[var] for number, var in nest.independent.items()}
        last = groups[-1] if groups else _Group((), own)
        shared = {number: extent for number, extent in last.dimensions.items()
                  if number in own and sizes.same(extent, own[number])}  # fmt: skip
        if shared and groups:
            groups[-1] = _Group((*last.nests, nest), shared)
        else:
            groups.append(_Group((nest,), own))
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class _Inner:
    """The innermost loop: over a shared dimension, so many elements at once in a task.

    Contiguous elements are lanes of vectors. Others, as rows along which a nest is recurrent, are
    written out: while the step of one row waits for the step before, those of others go on.
    """

    dimension: int
    extent: sizes.Extent
    width: sizes.Extent
    is_contiguous: bool

    def chunk(self, number: PrimExpression, dtype: str) -> tuple[PrimExpression, sizes.Extent]:
        """The first index of a task, and how many there are."""
        if sizes.same(self.width, self.extent):
            return tirx.const(0, dtype), self.extent
        width = tirx.const(self.width, dtype)
        if sizes.is_divisible(self.extent, self.width):
            return number * width, self.width
        return number * width, tirx.min(width, self.extent - number * width)


class _Emitter:
    """Writes the loops of one group."""

    def __init__(self, group: _Group, scan: PrefixScan | None, description: Description) -> None:
        self.nests, self.dimensions = group.nests, dict(group.dimensions)
        self.scan, self.description = scan, description
        self.dtype = dtype_of(next(iter(group.nests[0].loops)))
        self.inner = self._lanes() or self._rows()

    def _lanes(self) -> _Inner | None:
        """The last dimension, if its neighbours are stored, and neighbours or the same are read."""
        last = max(len(store.buffer.shape) for nest in self.nests for store in nest.stores) - 1
        extent = self.dimensions.get(last, 1)
        if sizes.same(extent, 1):
            return None
        for nest in self.nests:
            var, ranks = nest.independent[last], {len(store.indices) for store in nest.stores}
            if ranks != {last + 1}:
                return None
            if not all(stride_of(load, var) in (0, 1) for load in loads(nest.body)):
                return None
        is_long = len(self.dimensions) == 1 and not sizes.is_at_most(extent, _CHUNK)
        return _Inner(last, extent, _CHUNK if is_long else extent, is_contiguous=True)

    def _rows(self) -> _Inner | None:
        """The last shared dimension, unless each nest has vectors without it."""
        long = [number for number, extent in self.dimensions.items() if not sizes.same(extent, 1)]
        if not long or not any(nest.is_recurrent for nest in self.nests):
            return None
        if any(self._row(nest, dict.fromkeys(self.dimensions)) for nest in self.nests):
            return None
        extent = self.dimensions[long[-1]]
        few = sizes.is_at_most(extent, _ROWS)
        return _Inner(long[-1], extent, extent if few else _ROWS, is_contiguous=False)

    def _row(self, nest: _Nest, known: Mapping[int, PrimExpression]) -> prefix_scan.Row | None:
        """The row that a nest scans in vectors; None for other nests."""
        if self.scan is None or not nest.is_recurrent:
            return None
        row = prefix_scan.Row(nest.stores[0].buffer, self.scan, known, self.dtype)
        return row if row.has_vectors else None

    def statement(self) -> tirx.Stmt:
        """The shared loops, and the nests inside."""
        inner = self.inner
        outer = [n for n in self.dimensions if inner is None or n != inner.dimension]
        counts = [self.dimensions[number] for number in outer]
        if inner is not None:
            chunks = 1 if sizes.same(inner.width, inner.extent) else sizes.quotient_above(
                inner.extent, inner.width)  # fmt: skip
            counts.append(chunks)

        def task(indices: list[PrimExpression]) -> tirx.Stmt:
            known = dict(zip(outer, indices, strict=False))
            return emit.sequence(self._nests(known, indices[-1] if indices else None))

        work = max(sizes.typical(sizes.product(nest.loops.values())) for nest in self.nests)
        parallel = bool(counts) and work >= _PARALLEL_WORK
        return emit.grid(counts, task, self.dtype, parallel=parallel)

    def _nests(
        self, known: Mapping[int, PrimExpression], number: PrimExpression
    ) -> list[tirx.Stmt]:
        """All nests at some indices of the outer dimensions."""
        statements: list[tirx.Stmt] = []
        for nest, before in zip(self.nests, (None, *self.nests), strict=False):
            row = self._row(nest, known)
            if row is None:
                statements.append(self._loops(nest, known, number))
                continue
            values = None if before is None else before.values(known, self.scan.axis)
            if values is not None:
                statements.pop()
            statements.append(row.statement(self.description, values))
        return statements

    def _loops(
        self, nest: _Nest, known: Mapping[int, PrimExpression], number: PrimExpression
    ) -> tirx.Stmt:
        """The loops of a nest that are not outside of all nests."""
        values = {nest.independent[dimension]: index for dimension, index in known.items()}
        if self.inner is None:
            return self._ordered(nest, values, lambda all_: substituted(nest.body, all_))
        lane = nest.independent[self.inner.dimension]
        first, count = self.inner.chunk(number, self.dtype)

        def elements(known: Mapping[tirx.Var, PrimExpression]) -> tirx.Stmt:
            def element(index: PrimExpression) -> tirx.Stmt:
                return substituted(nest.body, {**known, lane: first + index})

            return self._strip(nest, lane, count, element)

        if self.inner.is_contiguous or nest.is_recurrent:
            return self._ordered(nest, {**values, lane: None}, elements)

        def row(index: PrimExpression) -> tirx.Stmt:
            known = {**values, lane: first + index}
            return self._ordered(nest, known, lambda all_: substituted(nest.body, all_))

        return emit.loop(count, row, dtype=self.dtype)

    def _ordered(
        self,
        nest: _Nest,
        values: Mapping[tirx.Var, PrimExpression],
        body: Callable[[Mapping[tirx.Var, PrimExpression]], tirx.Stmt],
    ) -> tirx.Stmt:
        """The loops over all variables without a value, in order."""
        var = next((var for var in nest.loops if var not in values), None)
        if var is None:
            return body(values)

        def step(index: PrimExpression) -> tirx.Stmt:
            return self._ordered(nest, {**values, var: index}, body)

        return emit.loop(nest.loops[var], step, name=str(var.name), dtype=self.dtype)

    def _strip(
        self, nest: _Nest, lane: tirx.Var, count: sizes.Extent, element: emit.Body
    ) -> tirx.Stmt:
        """The innermost loop."""
        serial = emit.loop(count, element, dtype=self.dtype)
        if not nest.is_recurrent or not nest.fills_vectors(lane):
            # LLVM finds the vectors of steps without dependences, also of those with conditions.
            return serial
        if self.inner.is_contiguous:
            widest = max(bits_of(str(store.buffer.dtype)) for store in nest.stores)
            return emit.strip(count, self.description.lanes(widest), element, self.dtype)
        whole = emit.loop(self.inner.width, element, kind=tirx.ForKind.UNROLLED, dtype=self.dtype)
        if sizes.is_known(count):
            return whole
        return tirx.IfThenElse(count >= self.inner.width, whole, serial)
