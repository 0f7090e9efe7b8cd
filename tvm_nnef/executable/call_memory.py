"""Whether the memory of a call is there, before it is taken.

Input: the plan in the metadata of a library, and the sizes of a call. Output: an error that names
the largest tensors, instead of a process that the system ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.symbolic import trees
from tvm_nnef.tvm_support.function_attributes import EQUAL_SIZES

_LISTED = 3
"""The tensors that the error names."""

_CGROUPS = (
    ("", "memory.max", "memory.current"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""The folder, the limit and the usage of a control group, of versions 2 and 1."""


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


def available_bytes() -> int | None:
    """The memory that this process may still take; None if the system does not say."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        entry = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(int(entry.split()[1]) << 10)
    for folder, limit, used in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            root = Path("/sys/fs/cgroup", folder)
            most, now = (int((root / name).read_text("ascii")) for name in (limit, used))
            found.append(max(0, most - now + _cached_bytes(root)))
    return min(found, default=None)


def _cached_bytes(root: Path) -> int:
    """The memory of a control group that holds contents of files, which are dropped if need be."""
    lines = (root / "memory.stat").read_text("ascii").splitlines()
    wanted = ("active_file", "inactive_file")
    return sum(int(line.split()[1]) for line in lines if line.split()[0] in wanted)


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
    named = (f"{_named(n)} for {_operation(calls, first, metadata)}" for n, first, _ in largest)
    given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    where = f" at {given}" if given else ""
    hint = f"the largest tensors: {'; '.join(named)}"
    lower = sorted(set().union(*(trees.names(plan[number][0]) for _, _, number in largest)))
    hint += f"; make {' or '.join(lower)} smaller" if lower else ""
    message = f"not enough memory{where}: {_named(needed)} needed, {_named(there)} free"
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


def _named(size: int) -> str:
    """Bytes for people: ``1.5 GiB``."""
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.1f} {unit}"
    return f"{size >> 10} KiB"
