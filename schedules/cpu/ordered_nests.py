"""The loop nests of a PrimFunc of ordered loops.

Enters: a PrimFunc as lowering makes it of a formula that reads what it writes. Leaves: its nests of
loops, or None where it is of another kind. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import s_tir, sym, tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.expressions import loads, mentions
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, opaque_block, with_opaque_body


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """Loops from 0, the outermost one first, and what is inside of them all."""

    loops: tuple[tuple[Any, sizes.Extent], ...]
    body: Any

    def found(self, kind: Any) -> list[Any]:
        """The statements of a kind inside."""
        found: list[Any] = []
        tvm_ffi.structural_walk(self.body, (kind, found.append), order="post")
        return found

    @property
    def stores(self) -> list[Any]:
        """The stores that others see."""
        local = {each.buffer for each in self.found(tirx.AllocBuffer)}
        return [store for store in self.found(tirx.BufferStore) if store.buffer not in local]

    @property
    def bound(self) -> dict[Any, PrimExpression]:
        """What names mean for which nothing is loaded, as those of places."""
        return {b.var: b.value for b in self.found(tirx.Bind) if not loads(b.value)}


def read_nests(function: PrimFunction) -> list[Nest] | None:
    """The loop nests of a function of ordered loops, one after the other; None for other ones."""
    block = opaque_block(function)
    if block is None:
        return None
    parts = list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else [block.body]
    nests = [_nest(part) for part in parts]
    return [nest for nest in nests if nest is not None] if all(nests) else None


def with_nests(
    function: PrimFunction, nests: Sequence[Nest], allocated: Sequence[Any], body: Any
) -> PrimFunction:
    """The function with another body, which writes what its nests write."""
    written = {store.buffer for nest in nests for store in nest.stores}
    results = [parameter for parameter in function.params if parameter in written]
    return with_opaque_body(function, results, allocated, body)


def _nest(statement: Any) -> Nest | None:
    loops: list[tuple[Any, sizes.Extent]] = []
    while isinstance(statement, tirx.For):
        start, extent = statement.min, statement.extent
        if statement.kind != tirx.ForKind.SERIAL or not isinstance(start, tirx.IntImm):
            return None
        if start.value or loads(extent) or mentions(extent, (var for var, _ in loops)):
            return None
        loops.append((statement.loop_var, sizes.extent(extent)))
        statement = statement.body
    nest = Nest(tuple(loops), statement)
    return nest if loops and not nest.found((tirx.For, s_tir.SBlockRealize)) else None


def line(index: PrimExpression, loops: Mapping[Any, Any]) -> tuple[Any, int, PrimExpression] | None:
    """The loop that an index follows, whether forward (1) or backward (-1), and where it begins.

    No loop (None, 0) for what is the same in all steps; None for an index of another kind.
    """
    names = list(loops)
    found = list(sym.detect_linear_equation(index, names)) if names else [index]
    if not found:
        return None
    *slopes, base = found
    used = [(n, sizes.extent(s)) for n, s in zip(names, slopes, strict=True)
            if not sizes.same(sizes.extent(s), 0)]  # fmt: skip
    if not used:
        return None, 0, sizes.extent(base)
    if len(used) > 1 or used[0][1] not in (1, -1):
        return None
    return used[0][0], used[0][1], base


def same_place(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two accesses have the same indices."""
    return len(first) == len(second) and all(
        bool(tvm_ffi.structural_equal(a, b)) for a, b in zip(first, second, strict=True)
    )
