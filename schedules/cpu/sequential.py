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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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


_Chunk: TypeAlias = "tuple[PrimExpression, sizes.Extent]"
"""The first index of the lanes, and how many there are."""


class _Emitter:
    """Writes the loops of one group."""

    def __init__(self, group: _Group, scan: PrefixScan | None, description: Description) -> None:
        self.nests, self.dimensions = group.nests, dict(group.dimensions)
        self.scan, self.description = scan, description
        self.dtype = dtype_of(next(iter(group.nests[0].loops)))
        self.lane = self._lane()

    def _lane(self) -> int | None:
        """The last dimension, if its neighbours are stored, and neighbours or the same are read."""
        last = max(len(store.buffer.shape) for nest in self.nests for store in nest.stores) - 1
        if last not in self.dimensions or sizes.same(self.dimensions[last], 1):
            return None
        for nest in self.nests:
            var = nest.independent[last]
            ranks = {len(store.buffer.shape) - 1 for store in nest.stores}
            if ranks != {last} or not all(
                stride_of(load, var) in (0, 1) for load in loads(nest.body)
            ):
                return None
        return last

    def statement(self) -> tirx.Stmt:
        """The shared loops, and the nests inside."""
        outer = [number for number in self.dimensions if number != self.lane]
        counts = [self.dimensions[number] for number in outer]
        chunked = self.lane is not None and not outer
        if chunked:
            counts.append(sizes.quotient_above(self.dimensions[self.lane], _CHUNK))

        def task(indices: list[PrimExpression]) -> tirx.Stmt:
            known = dict(zip(outer, indices, strict=False))
            chunk = self._chunk(indices[-1] if chunked else None)
            return emit.sequence([self._nest(nest, known, chunk) for nest in self.nests])

        work = max(sizes.typical(sizes.product(nest.loops.values())) for nest in self.nests)
        parallel = bool(counts) and work >= _PARALLEL_WORK
        return emit.grid(counts, task, self.dtype, parallel=parallel)

    def _chunk(self, number: PrimExpression | None) -> _Chunk:
        """The lanes of a task, by its number; all of them without a number."""
        count = None if self.lane is None else self.dimensions[self.lane]
        if number is None:
            return tirx.const(0, self.dtype), count
        first = number * tirx.const(_CHUNK, self.dtype)
        if sizes.is_divisible(count, _CHUNK):
            return first, _CHUNK
        if sizes.is_known(count) and count < _CHUNK:
            return first, count
        return first, tirx.min(tirx.const(_CHUNK, self.dtype), count - first)

    def _nest(self, nest: _Nest, known: Mapping[int, PrimExpression], chunk: _Chunk) -> tirx.Stmt:
        """A nest at some indices of the shared dimensions."""
        if self.scan is not None and nest.is_recurrent:
            buffer = nest.stores[0].buffer
            row = prefix_scan.Row(buffer, self.scan, known, self.dtype)
            if row.is_contiguous:
                return row.statement(self.description)
        values = {nest.independent[number]: index for number, index in known.items()}
        moved = [
            *values,
            *(nest.independent[number] for number in (self.lane,) if number is not None),
        ]
        order = [var for var in nest.loops if var not in moved]
        return self._ordered(nest, order, values, chunk)

    def _ordered(
        self,
        nest: _Nest,
        order: Sequence[tirx.Var],
        values: Mapping[tirx.Var, PrimExpression],
        chunk: _Chunk,
    ) -> tirx.Stmt:
        """The loops of a nest in order, and its lanes inside of them."""
        if order:
            var, *rest = order

            def step(index: PrimExpression) -> tirx.Stmt:
                return self._ordered(nest, rest, {**values, var: index}, chunk)

            return emit.loop(nest.loops[var], step, name=str(var.name), dtype=self.dtype)
        if self.lane is None:
            return substituted(nest.body, values)
        lane, (first, count) = nest.independent[self.lane], chunk

        def element(index: PrimExpression) -> tirx.Stmt:
            return substituted(nest.body, {**values, lane: first + index})

        if not nest.is_recurrent or not nest.fills_vectors(lane):
            # LLVM finds the vectors of steps without dependences, also of those with conditions.
            return emit.loop(count, element, dtype=self.dtype)
        widest = max(bits_of(str(store.buffer.dtype)) for store in nest.stores)
        return emit.strip(count, self.description.lanes(widest), element, self.dtype)
