"""Whether the memory of a call is there, before it is taken.

Input: the plan in the metadata of a library, and the sizes of a call. Output: an error that names
the largest tensors, instead of a process that the system ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.support.memory import bytes_text
from tvm_nnef.symbolic import trees
from tvm_nnef.tvm_support.function_attributes import EQUAL_SIZES

_LISTED = 3
"""The tensors that the error names."""


def needed_bytes(plan: Sequence[Sequence[Any]], sizes: Mapping[str, int]) -> int:
    """The most memory that the tensors of a call take at a time."""
    changes: dict[int, int] = {}
    for size, first, last in _evaluated(plan, sizes):
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    now = most = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most


def shortage(metadata: Mapping[str, Any], sizes: Mapping[str, int], there: int) -> NnefError | None:
    """The error for a call of some sizes that needs more memory than there is; None if it fits."""
    plan = metadata.get("memory", ())
    needed = needed_bytes(plan, sizes)
    if needed <= there:
        return None
    sized = ((n, first, i) for i, (n, first, _) in enumerate(_evaluated(plan, sizes)))
    largest = sorted(sized, reverse=True)[:_LISTED]
    functions = metadata.get("calls", {})
    calls = functions.get(EQUAL_SIZES, functions.get("main", []))
    named = (f"{bytes_text(n)} for {_operation(calls, first, metadata)}" for n, first, _ in largest)
    given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    where = f" at {given}" if given else ""
    hint = f"the largest tensors: {'; '.join(named)}"
    lower = sorted(set().union(*(trees.names(plan[number][0]) for _, _, number in largest)))
    hint += f"; make {' or '.join(lower)} smaller" if lower else ""
    message = f"not enough memory{where}: {bytes_text(needed)} needed, {bytes_text(there)} free"
    return error(message, hint=hint)


def _evaluated(
    plan: Sequence[Sequence[Any]], sizes: Mapping[str, int]
) -> list[tuple[int, int, int]]:
    """The allocations with their bytes; 0 for those of data-dependent size."""
    return [
        (int(trees.evaluate(tree, sizes)) if trees.names(tree) <= sizes.keys() else 0, first, last)
        for tree, first, last in plan
    ]


def _operation(calls: Sequence[Any], number: int, metadata: Mapping[str, Any]) -> str:
    """The name of what the kernel called by a number computes last."""
    if number >= len(calls) or not calls[number][1]:
        return "an operation"
    return f"'{metadata['operations'][calls[number][1][-1][0]]['name']}'"
