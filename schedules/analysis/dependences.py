"""Dependences of loop nests that read elements which they wrote: loops whose order does not matter.

Input: a PrimFunc of serial loop nests, from a formula that reads its own result. Output: its nests,
with the dimensions of the written buffers that are independent.

A dimension is independent if all accesses of a nest to the written buffers have the same index
there, which is the variable of one loop or a fixed distance from it: different steps of that loop
touch different elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import s_tir, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tir.expressions import loads, mentions, nodes, substituted
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, PrimFunction, opaque_block


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """Loops from 0, the outermost one first, and the body inside of all.

    ``independent`` has the loop of each independent dimension; the dimension is in ``aligned``,
    too, if the index is exactly the variable of the loop.
    """

    loops: Mapping[tirx.Var, sizes.Extent]
    body: tirx.Stmt
    independent: Mapping[int, tirx.Var]
    aligned: frozenset[int] = frozenset()

    @property
    def stores(self) -> list[tirx.BufferStore]:
        """The stores to buffers that live longer than a step."""
        local = [each.buffer for each in nodes(self.body, tirx.AllocBuffer)]
        stores = nodes(self.body, tirx.BufferStore)
        return [each for each in stores if each.buffer not in local]

    @property
    def is_recurrent(self) -> bool:
        """Whether it reads a buffer that it writes."""
        written = [store.buffer for store in self.stores]
        return any(load.source in written for load in loads(self.body))

    def at(self, indices: Mapping[int, PrimExpression]) -> dict[tirx.Var, PrimExpression]:
        """Return the values of the loops over some dimensions."""
        return {self.independent[dimension]: index for dimension, index in indices.items()}


def read_nests(function: PrimFunction) -> list[Nest] | None:
    """Return the loop nests of a function; None if it has other statements."""
    block = opaque_block(function)
    if block is None:
        return None
    statements = list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else [block.body]
    nests = [nest for statement in statements if (nest := _nest(statement)) is not None]
    if len(nests) < len(statements):
        return None
    written = [store.buffer for nest in nests for store in nest.stores]
    return [_with_independent(nest, written) for nest in nests]


def _nest(statement: tirx.Stmt) -> Nest | None:
    loops: dict[tirx.Var, sizes.Extent] = {}
    while isinstance(statement, tirx.For):
        start, extent = statement.min, statement.extent
        if statement.kind != tirx.ForKind.SERIAL or not isinstance(start, tirx.IntImm):
            return None
        if start.value or loads(extent) or mentions(extent, loops):
            return None
        loops[statement.loop_var] = sizes.extent(extent)
        statement = statement.body
    nest = Nest(loops, statement, {})
    return nest if loops and not nodes(statement, tirx.For, s_tir.SBlockRealize) else None


def _with_independent(nest: Nest, written: Sequence[Buffer]) -> Nest:
    """Return the nest with its independent dimensions."""
    bound = {each.var: each.value for each in nodes(nest.body, tirx.Bind)}
    names = {var: value for var, value in bound.items() if not loads(value)}
    accesses = [store.indices for store in nest.stores]
    accesses += [load.indices for load in loads(nest.body) if load.source in written]
    loops: dict[int, tirx.Var] = {}
    aligned: set[int] = set()
    for dimension, indices in enumerate(zip(*accesses, strict=False)):
        first, *others = (substituted(index, names) for index in indices)
        inside = [var for var in nest.loops if mentions(first, [var])]
        if len(inside) != 1 or inside[0] in loops.values():
            continue
        if loads(first) or mentions(first, bound):
            # They may differ from step to step.
            continue
        if not all(tvm_ffi.structural_equal(first, other) for other in others):
            continue
        distance = sizes.simplified(first - inside[0])
        if sizes.is_known(distance) or not mentions(distance, inside):
            loops[dimension] = inside[0]
            aligned |= {dimension} if first.same_as(inside[0]) else set()
    return Nest(nest.loops, nest.body, loops, frozenset(aligned))


def grouped(
    nests: Sequence[Nest], neighbours: int
) -> list[tuple[tuple[Nest, ...], Mapping[int, sizes.Extent]]]:
    """Return the nests in groups that share the loops over some dimensions, with their sizes.

    A recurrence is joined with adjacent nests as long as they share a dimension, others only if
    they share all of them. Loop interchange keeps ``neighbours`` contiguous elements together.
    """
    groups: list[tuple[tuple[Nest, ...], Mapping[int, sizes.Extent]]] = []
    for nest in nests:
        own = _outer_dimensions(nest, neighbours)
        before, dimensions = groups[-1] if groups else ((), {})
        joined = (*before, nest)
        shared = {
            dimension: extent
            for dimension, extent in dimensions.items()
            if all(dimension in each.aligned for each in joined)
            and dimension in own
            and sizes.same(extent, own[dimension])
        }
        all_shared = len(shared) == len(dimensions) == len(own)
        if shared and (all_shared or any(each.is_recurrent for each in joined)):
            groups[-1] = (joined, shared)
        else:
            groups.append(((nest,), own))
    return groups


def _outer_dimensions(nest: Nest, neighbours: int) -> Mapping[int, sizes.Extent]:
    """Return the independent dimensions whose loops may be outside, and their sizes.

    Without a recurrence, contiguous elements have to stay together: then only the outer loops may
    be moved, or all if the innermost one, which is contiguous, is long.
    """
    own = {dimension: nest.loops[var] for dimension, var in nest.independent.items()}
    if nest.is_recurrent or len(own) == len(nest.loops):
        return own
    independent = set(nest.independent.values())
    *_, (innermost, size) = nest.loops.items()
    last = nest.independent.get(min(len(store.indices) for store in nest.stores) - 1)
    if last is innermost and sizes.estimate(size) >= neighbours:
        return own
    outer = set(itertools.takewhile(independent.__contains__, nest.loops))
    return {
        dimension: own[dimension] for dimension, var in nest.independent.items() if var in outer
    }
