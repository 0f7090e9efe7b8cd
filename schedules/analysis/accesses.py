"""How a block reads and writes: its memory accesses in, a judgement for its iterators out.

Looks only; schedules nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Call

_STRIDED = -2


def stride(region: Any, iterator: Any) -> int | None:
    """By how many elements an access moves when an iterator moves by one; None: not evenly."""
    if any(not isinstance(r.extent, tirx.IntImm) or r.extent.value != 1 for r in region.region):
        return None
    if not len(region.region):
        return 0
    (offset,) = region.source.offset_of([r.min for r in region.region])
    return slope(offset, iterator.var)


def slope(index: Any, var: Any) -> int | None:
    """By how much an index grows with a variable; None if unevenly, or by a dynamic step."""
    equation = sym.detect_linear_equation(index, [var])
    if not len(equation) or not isinstance(equation[0], tirx.IntImm):
        return None
    return int(equation[0].value)


def stride_of(load: Any, var: Any) -> int | None:
    """By how many elements a load moves when a variable grows by one; None: not evenly.

    None also where a dimension behind has an extent that only a run tells.
    """
    total, step = 0, 1
    for index, extent in zip(reversed(load.indices), reversed(load.source.shape), strict=True):
        moved = slope(index, var)
        if moved is None or (moved and not step):
            return None
        total += moved * step
        step *= int(extent) if isinstance(extent, tirx.IntImm) else 0
    return total


def contiguity(regions: Iterable[Any], iterator: Any) -> int:
    """How well the lanes of a vector can run along an iterator; the greater, the better.

    Each access to neighbouring elements counts for it, each other one against it, as it takes a
    gather; an access to one element for all lanes is free.
    """
    score = 0
    for region in regions:
        step = stride(region, iterator)
        score += step if step in (0, 1) else _STRIDED
    return score


def is_cheap(statement: Any) -> bool:
    """Whether computing what a block or an expression says twice costs no more than loading it."""
    costly: list[Any] = []
    for kind in (Call, tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.Mod):
        tvm_ffi.structural_walk(statement, (kind, costly.append), order="post")
    return not costly
