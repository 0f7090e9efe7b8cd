"""Strategy for loops that read elements which they wrote: recurrences, scans, scattered sums.

Input: a PrimFunc of serial loop nests, as lowering makes it of a formula that reads its own result.
Output: one in which the nests still run one after the other, and their dependent loops in order.

A dimension of the written buffers is independent if all accesses of a nest to them have the same
index there, which is the variable of one loop or a fixed distance from it: different steps of that
loop touch different elements. Consecutive nests share loops over independent dimensions, which are
moved outside and run in parallel. One of them is moved innermost instead: that over contiguous
elements, in vector lanes, or else a few rows at once. Along contiguous elements, a nest annotated
as a :class:`PrefixScan` is computed in vectors (:mod:`prefix_scan`). Other sums stay in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call

from tvm_nnef.function_attributes import PrefixScan, read_annotation
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import loads, mentions, substituted
from tvm_nnef.schedules.cpu import prefix_scan
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    is_conditional,
    opaque_block,
    with_opaque_body,
)

NAME = "cpu.sequential"

STEP_CYCLES = 8
"""Cycles of a vector of steps."""

_CHUNK_VECTORS = 16
"""Vectors of contiguous elements that one thread takes at once."""

_Node = TypeVar("_Node")


def apply(function: PrimFunction, machine: CpuModel) -> PrimFunction | None:
    """The function with its independent loops in parallel and in lanes; None if it has none.

    Nests that read nothing of what they write are taken only if all of their loops are
    independent: in another order the others may run across memory.
    """
    nests = _nests(function)
    if nests is None:
        return None
    annotation, groups = read_annotation(function.attrs), _groups(nests)
    scan = annotation if isinstance(annotation, PrefixScan) else None
    gains = any(nest.is_recurrent and (group.dimensions or scan)
                for group in groups for nest in group.nests)  # fmt: skip
    if not gains and any(len(nest.independent) < len(nest.loops) for nest in nests):
        return None
    body = emit.sequence([_Emitter(group, scan, machine).statement() for group in groups])
    written = {store.buffer for nest in nests for store in nest.stores}
    results = [parameter for parameter in function.params if parameter in written]
    allocated = list(opaque_block(function).alloc_buffers)
    return with_opaque_body(function, results, allocated, body)


@dataclass(frozen=True, slots=True, eq=False)
class _Nest:
    """Loops from 0, the outermost one first, and the body inside of all.

    ``independent`` has the loop of each independent dimension; it is in ``aligned``, too, if its
    variable alone is the index.
    """

    loops: Mapping[tirx.Var, sizes.Extent]
    body: tirx.Stmt
    independent: Mapping[int, tirx.Var]
    aligned: frozenset[int] = frozenset()

    def found(self, *kinds: type[_Node]) -> Iterator[_Node]:
        """The statements of some kinds inside."""
        found: list[_Node] = []
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

    def at(self, indices: Mapping[int, PrimExpression]) -> dict[tirx.Var, PrimExpression]:
        """The values of the loops over some dimensions."""
        return {self.independent[dimension]: index for dimension, index in indices.items()}

    def elements(self, row: prefix_scan.Row) -> prefix_scan.Elements | None:
        """What computes the elements of a row, if the nest does nothing but store all of them."""
        known, body, axis = self.at(row.indices), self.body, row.scan.axis
        left = [var for var in self.loops if var not in known]
        if self.is_recurrent or not isinstance(body, tirx.BufferStore) or len(left) != 1:
            return None
        (var,), extent = left, sizes.extent(row.buffer.shape[axis])
        if not body.buffer.same_as(row.buffer) or not sizes.same(self.loops[var], extent):
            return None
        if body.indices[axis].same_as(var):
            return lambda position: substituted(body.value, {**known, var: position})
        if not sizes.same(sizes.simplified(body.indices[axis] + var), extent - 1):
            return None
        return lambda position: substituted(body.value, {**known, var: extent - 1 - position})

    def fills_vectors(self, lane: tirx.Var) -> bool:
        """Whether TVM makes vectors of the steps of a loop: all are made, without values inside."""
        conditions: list[PrimExpression] = [test.condition for test in self.found(tirx.IfThenElse)]
        conditions += [call.args[0] for call in self.found(Call) if is_conditional(call)]
        if any(mentions(condition, [lane]) for condition in conditions):
            return False
        types = {str(store.buffer.dtype) for store in self.stores}
        return "bool" not in types and not any(self.found(tirx.Bind, tirx.AllocBuffer))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Nests that share the loops over some independent dimensions, given by their extents."""

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
    return [_with_independent(nest, written) for nest in nests]


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


def _with_independent(nest: _Nest, written: Sequence[tirx.Buffer]) -> _Nest:
    """The nest with its independent dimensions."""
    bound = {each.var: each.value for each in nest.found(tirx.Bind)}
    names = {var: value for var, value in bound.items() if not loads(value)}
    accesses = [store.indices for store in nest.stores]
    accesses += [load.indices for load in loads(nest.body) if load.source in written]
    found: dict[int, tirx.Var] = {}
    aligned: set[int] = set()
    for dimension, indices in enumerate(zip(*accesses, strict=False)):
        first, *others = (substituted(index, names) for index in indices)
        inside = [var for var in nest.loops if mentions(first, [var])]
        if len(inside) != 1 or inside[0] in found.values():
            continue
        if loads(first) or mentions(first, bound):
            # They may differ from step to step.
            continue
        if not all(tvm_ffi.structural_equal(first, other) for other in others):
            continue
        distance = sizes.simplified(first - inside[0])
        if sizes.is_known(distance) or not mentions(distance, inside):
            found[dimension] = inside[0]
            aligned |= {dimension} if first.same_as(inside[0]) else set()
    return _Nest(nest.loops, nest.body, found, frozenset(aligned))


def _groups(nests: Sequence[_Nest]) -> list[_Group]:
    """Consecutive nests joined as long as they share the loops over some dimension."""
    groups: list[_Group] = []
    for nest in nests:
        own = {dimension: nest.loops[var] for dimension, var in nest.independent.items()}
        nests_, dimensions = (groups[-1].nests, groups[-1].dimensions) if groups else ((), {})
        shared = {
            dimension: extent
            for dimension, extent in dimensions.items()
            if all(dimension in each.aligned for each in (*nests_, nest))
            and sizes.same(extent, own[dimension])
        }
        if shared:
            groups[-1] = _Group((*nests_, nest), shared)
        else:
            groups.append(_Group((nest,), own))
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class _Inner:
    """The shared dimension whose loop is innermost; a task takes ``width`` elements of it."""

    dimension: int
    extent: sizes.Extent
    width: sizes.Extent
    is_contiguous: bool

    @property
    def tasks(self) -> sizes.Extent:
        """How many tasks there are."""
        whole = sizes.same(self.width, self.extent)
        return 1 if whole else sizes.quotient_above(self.extent, self.width)

    def task(self, number: PrimExpression) -> tuple[PrimExpression, sizes.Extent]:
        """The first element of a task, and how many there are."""
        if sizes.same(self.width, self.extent):
            return number * 0, self.extent
        width = tirx.const(self.width, dtype_of(number))
        if sizes.is_divisible(self.extent, self.width):
            return number * width, self.width
        return number * width, tirx.min(width, self.extent - number * width)


_Values = Mapping[tirx.Var, PrimExpression]


class _Emitter:
    """Writes the loops of one group."""

    def __init__(self, group: _Group, scan: PrefixScan | None, machine: CpuModel) -> None:
        self.nests, self.dimensions = group.nests, dict(group.dimensions)
        self.scan, self.machine = scan, machine
        self.dtype = dtype_of(next(iter(group.nests[0].loops)))
        self.inner = self._lanes() or self._rows()

    def _lanes(self) -> _Inner | None:
        """The last dimension, if its neighbours are stored, and neighbours or the same are read."""
        last = max(len(store.indices) for nest in self.nests for store in nest.stores) - 1
        extent = self.dimensions.get(last, 1)
        if sizes.same(extent, 1):
            return None
        for nest in self.nests:
            if any(len(store.indices) <= last for store in nest.stores):
                return None
            var = nest.independent[last]
            if not all(stride_of(load, var) in (0, 1) for load in loads(nest.body)):
                return None
        chunk = _CHUNK_VECTORS * self.machine.lanes(32)
        is_long = len(self.dimensions) == 1 and not sizes.is_at_most(extent, chunk)
        return _Inner(last, extent, chunk if is_long else extent, is_contiguous=True)

    def _rows(self) -> _Inner | None:
        """The last dimension of several rows, if a nest has to wait for the steps of each."""
        long = [number for number, extent in self.dimensions.items() if not sizes.same(extent, 1)]
        if not long or not any(nest.is_recurrent for nest in self.nests):
            return None
        if any(self._scanned(nest, self.dimensions) for nest in self.nests):
            return None
        extent = self.dimensions[long[-1]]
        # While a step of one row waits for the step before, those of others go on.
        rows = self.machine.fma_in_flight
        width = min(extent, rows) if sizes.is_known(extent) else rows
        return _Inner(long[-1], extent, width, is_contiguous=False)

    def _scanned(
        self, nest: _Nest, indices: Mapping[int, PrimExpression]
    ) -> prefix_scan.Row | None:
        """The row that a nest scans in vectors; None for other nests."""
        if self.scan is None or not nest.is_recurrent:
            return None
        row = prefix_scan.Row(nest.stores[0].buffer, self.scan, indices, self.dtype)
        return row if row.has_vectors else None

    def statement(self) -> tirx.Stmt:
        """The shared loops, and the nests inside."""
        inner = [] if self.inner is None else [self.inner.dimension]
        outer = [dimension for dimension in self.dimensions if dimension not in inner]
        counts = [self.dimensions[dimension] for dimension in outer]
        counts += [] if self.inner is None else [self.inner.tasks]

        def task(indices: list[PrimExpression]) -> tirx.Stmt:
            known = dict(zip(outer, indices, strict=False))
            return emit.sequence(self._task(known, indices[-1] if indices else None))

        work = max(sizes.typical(sizes.product(nest.loops.values())) for nest in self.nests)
        parallel = bool(counts) and work >= self.machine.parallel_work(STEP_CYCLES)
        return emit.grid(counts, task, self.dtype, parallel=parallel)

    def _task(
        self, indices: Mapping[int, PrimExpression], number: PrimExpression | None
    ) -> list[tirx.Stmt]:
        """All nests at some indices of the outer dimensions, for one task of the inner one."""
        statements: list[tirx.Stmt] = []
        for nest, before in zip(self.nests, (None, *self.nests), strict=False):
            row = self._scanned(nest, indices)
            if row is None:
                statements.append(self._loops(nest, nest.at(indices), number))
                continue
            elements = before.elements(row) if before is not None else None
            if elements is not None:
                # The scan takes them before they are stored.
                statements.pop()
            statements.append(row.statement(self.machine, elements))
        return statements

    def _loops(self, nest: _Nest, known: _Values, number: PrimExpression | None) -> tirx.Stmt:
        """The loops of a nest in order, and the inner one."""

        def step(values: _Values) -> tirx.Stmt:
            return substituted(nest.body, values)

        if self.inner is None or number is None:
            return self._ordered(nest, known, step)
        var = nest.independent[self.inner.dimension]
        first, count = self.inner.task(number)

        def row(index: PrimExpression) -> tirx.Stmt:
            return self._ordered(nest, {**known, var: first + index}, step)

        def elements(values: _Values) -> tirx.Stmt:
            return self._strip(nest, var, count, lambda i: step({**values, var: first + i}))

        if nest.is_recurrent or self.inner.is_contiguous:
            return self._ordered(nest, {**known, var: first}, elements)
        return emit.loop(count, row, dtype=self.dtype)

    def _ordered(
        self, nest: _Nest, known: _Values, body: Callable[[_Values], tirx.Stmt]
    ) -> tirx.Stmt:
        """The loops over all variables without a value, in order."""
        var = next((var for var in nest.loops if var not in known), None)
        if var is None:
            return body(known)

        def step(index: PrimExpression) -> tirx.Stmt:
            return self._ordered(nest, {**known, var: index}, body)

        return emit.loop(nest.loops[var], step, name=str(var.name), dtype=self.dtype)

    def _strip(
        self, nest: _Nest, var: tirx.Var, count: sizes.Extent, element: emit.Body
    ) -> tirx.Stmt:
        """The innermost loop: vectors, a number of rows written out, or one after the other."""
        serial = emit.loop(count, element, dtype=self.dtype)
        if self.inner is None or not nest.is_recurrent or not nest.fills_vectors(var):
            # LLVM finds the vectors of steps without dependences, also of those with conditions.
            return serial
        if self.inner.is_contiguous:
            widest = max(bits_of(str(store.buffer.dtype)) for store in nest.stores)
            return emit.strip(count, self.machine.lanes(widest), element, self.dtype)
        width = self.inner.width
        whole = emit.loop(width, element, kind=tirx.ForKind.UNROLLED, dtype=self.dtype)
        return whole if sizes.is_known(count) else tirx.IfThenElse(count >= width, whole, serial)
