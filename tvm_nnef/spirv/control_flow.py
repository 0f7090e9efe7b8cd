"""Structured control flow in SPIR-V.

Input: functions that write bodies. Output: basic blocks. SPIR-V requires a merge instruction in the
block before each branch: it names the block in which the paths meet again, and for loops the one
that continues the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_nnef.spirv.assembler import Assembler, Id
from tvm_nnef.vulkan_runtime.opcodes import Op

Write = Callable[[], None]


def branch(code: Assembler, condition: Id, then: Write, otherwise: Write | None = None) -> None:
    """Write ``if``, with or without ``else``."""
    first, second, merge = code.new_id(), code.new_id(), code.new_id()
    code.emit(Op.SelectionMerge, merge, 0)
    code.emit(Op.BranchConditional, condition, first, merge if otherwise is None else second)
    for label, write in ((first, then), (second, otherwise)):
        if write is not None:
            code.begin(label)
            write()
            code.emit(Op.Branch, merge)
    code.begin(merge)


def choose(
    code: Assembler,
    kind: Id,
    condition: Id,
    then: Callable[[], Sequence[Id]],
    otherwise: Callable[[], Sequence[Id]],
) -> tuple[Id, ...]:
    """Return the values of one of two bodies, of which only one runs; they have a type."""
    results: list[tuple[Sequence[Id], Id]] = []

    def kept(body: Callable[[], Sequence[Id]]) -> Write:
        def write() -> None:
            values = body()
            results.append((values, code.block))

        return write

    branch(code, condition, kept(then), kept(otherwise))
    (first, after_first), (second, after_second) = results
    return tuple(
        code.result(Op.Phi, kind, a, after_first, b, after_second)
        for a, b in zip(first, second, strict=True)
    )


def count(
    code: Assembler, dtype: str, bounds: tuple[Id, Id], step: Id, body: Callable[[Id], None]
) -> None:
    """Write the body for each number from the first of the bounds up to the second, excluded."""
    kind, boolean = code.scalar(dtype), code.scalar("bool")
    header, again, merge = code.new_id(), code.new_id(), code.new_id()
    inside, index, following = code.new_id(), code.new_id(), code.new_id()
    first, end = bounds
    before = code.block
    code.emit(Op.Branch, header)
    code.begin(header)
    code.emit(Op.Phi, kind, index, first, before, following, again)
    less = Op.ULessThan if dtype.startswith("u") else Op.SLessThan
    goes_on = code.result(less, boolean, index, end)
    code.emit(Op.LoopMerge, merge, again, 0)
    code.emit(Op.BranchConditional, goes_on, inside, merge)
    code.begin(inside)
    body(index)
    code.emit(Op.Branch, again)
    code.begin(again)
    code.emit(Op.IAdd, kind, following, index, step)
    code.emit(Op.Branch, header)
    code.begin(merge)


def repeat(code: Assembler, condition: Callable[[], Id], body: Write) -> None:
    """Write ``while``: the condition may need several basic blocks."""
    header, test, inside = code.new_id(), code.new_id(), code.new_id()
    again, merge = code.new_id(), code.new_id()
    code.emit(Op.Branch, header)
    code.begin(header)
    code.emit(Op.LoopMerge, merge, again, 0)
    code.emit(Op.Branch, test)
    code.begin(test)
    code.emit(Op.BranchConditional, condition(), inside, merge)
    code.begin(inside)
    body()
    code.emit(Op.Branch, again)
    code.begin(again)
    code.emit(Op.Branch, header)
    code.begin(merge)
