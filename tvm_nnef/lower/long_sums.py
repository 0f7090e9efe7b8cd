"""Long sums of reals in two steps: a Formula that makes one in, two that make it of parts out.

What is added to a sum is rounded to the last place of the sum: of a million numbers of one size,
added one after the other, the total is wrong in its second digit. There are about as many parts as
elements of a part, so each step adds up few numbers; and the parts can be made at the same time.
Only sums whose elements are read once, as no product of matrices does. Knows formulas only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Set

from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Fill,
    Formula,
    Index,
    Load,
    Local,
    Loop,
    Scalar,
    Statement,
    Store,
    Subscript,
    loads,
    replaced,
    walk,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic.dimensions import is_static

LONGEST = 4096
"""As many numbers are added up in one step."""


def in_parts(formula: Formula) -> tuple[Formula, Formula] | None:
    """The formulas that make the parts of a long sum, and of these the result; None for others.

    The second one may read what the formula did before it began to add up.
    """
    if not formula.statements or len(formula.fills) != 1:
        return None
    *before, statement = formula.statements
    extents = _extents(statement)
    if extents is None or len(statement.stores) != 1 or not _reads_once(statement, extents):
        return None
    (store,) = statement.stores
    kept = _plain_indices(store)
    if store.operator != "+=" or store.tensor.type != "real" or kept is None:
        return None
    summed = {name: extent for name, extent in extents.items() if name not in kept}
    if math.prod(summed.values()) <= LONGEST or 0 in extents.values():
        return None
    first, second, parts = _parted(statement, _blocks(summed), extents)
    nothing = Fill(parts, Constant("real", 0.0))
    return Formula((nothing,), (first,)), Formula(formula.fills, (*before, second))


def _extents(statement: Statement) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for loop in statement.loops:
        value = loop.extent.value if isinstance(loop.extent, Constant) else None
        if value is None or not is_static(value):
            return None
        found[loop.index.name] = int(value)
    return found


def _plain_indices(store: Store) -> set[str] | None:
    """The names of the indices that a store uses; None if it uses others than plain ones."""
    if any(each.guarded or each.below is not None for each in store.subscripts):
        return None
    indices = [each.index for each in store.subscripts if not isinstance(each.index, Constant)]
    plain = {index.name for index in indices if isinstance(index, Index)}
    return plain if len(plain) == len(indices) else None


def _reads_once(statement: Statement, extents: Mapping[str, int]) -> bool:
    """Whether each load reads another element at every step."""
    needed = {name for name, extent in extents.items() if extent > 1}
    locals_ = {local.name: local.value for local in statement.locals}

    def names(scalar: Scalar) -> Iterator[str]:
        for inner in walk(scalar):
            if isinstance(inner, Index):
                yield inner.name
            elif isinstance(inner, Local):
                yield from names(locals_[inner.name])

    return all(needed <= set(names(load)) for load in loads(statement))


def _blocks(summed: Mapping[str, int]) -> dict[str, int]:
    """Return the steps of each loop in one part: all of the innermost loops, 1 of others."""
    wanted = math.isqrt(math.prod(summed.values()))
    blocks: dict[str, int] = {}
    for name, extent in reversed([*summed.items()]):
        blocks[name] = extent if extent <= wanted else _block(extent, wanted)
        wanted //= blocks[name]
    return blocks


def _block(extent: int, wanted: int) -> int:
    """Of a loop of ``extent`` steps, a block of about ``wanted``, one that divides it if it can."""
    if wanted < 2:
        return 1
    near = range(max(2, wanted // 2), 2 * wanted + 1)
    fitting = [size for size in near if extent % size == 0]
    return max(fitting, key=lambda size: (size & -size, size), default=wanted)


def _parted(
    statement: Statement, blocks: Mapping[str, int], extents: Mapping[str, int]
) -> tuple[Statement, Statement, Tensor]:
    """Return the statement of the partial sums, that of their sum, and the tensor between them."""
    (store,) = statement.stores
    # The parts lie as the elements do, or they would be read across.
    outer, inner = [], []
    for loop in statement.loops:
        name = loop.index.name
        extent, block = extents[name], blocks.get(name, 1)
        if block == 1:
            outer.append(loop)
        elif block == extent:
            inner.append(loop)
        else:
            taken = {*extents, *(each.index.name for each in outer)}
            taken.update(local.name for local in statement.locals)
            part = _loop(_other_name(name, taken), -(-extent // block))
            statement = _in_blocks(statement, name, part.index, block, extent)
            outer.append(part)
            inner.append(_loop(name, block))
    shape = tuple(map(_extent, outer))
    parts = Tensor(f"{store.tensor.name}.parts", "real", shape, "result", span=store.tensor.span)
    positions = tuple(Subscript(loop.index) for loop in outer)
    (term,) = (each.value for each in statement.stores)
    loops, stores = (*outer, *inner), (Store(parts, positions, "+=", term),)
    total = Store(store.tensor, store.subscripts, "+=", Load(parts, positions))
    second = Statement(tuple(outer), (total,), span=statement.span)
    return dataclasses.replace(statement, loops=loops, stores=stores), second, parts


def _in_blocks(statement: Statement, name: str, part: Index, block: int, extent: int) -> Statement:
    """The statement with an index that counts in a block, of which there may be too many."""
    position = Binary("add", Binary("mul", part, _whole(block)), Index(name))
    moved: Statement = replaced(statement, Index(name), position)
    if extent % block == 0:
        return moved
    test: Scalar = Binary("lt", position, _whole(extent))
    if moved.condition is not None:
        test = Binary("and", test, moved.condition)
    return dataclasses.replace(moved, condition=test)


def _loop(name: str, extent: int) -> Loop:
    return Loop(Index(name), _whole(extent))


def _extent(loop: Loop) -> int:
    assert isinstance(loop.extent, Constant)
    return int(loop.extent.value)


def _whole(number: int) -> Constant:
    return Constant("int", number)


def _other_name(name: str, taken: Set[str]) -> str:
    name += "_part"
    while name in taken:
        name += "_"
    return name
