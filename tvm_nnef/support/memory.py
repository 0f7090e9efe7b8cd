"""The memory that this process may still take.

Input: the number of bytes that something needs. Output: an error, instead of a process that the
system ends.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from tvm_nnef.diagnostics import error

_CGROUPS = (
    ("", "memory.max", "memory.current"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""The folder, the limit and the usage of a control group, of versions 2 and 1."""


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


def require_memory(needed: int, purpose: str, hint: str) -> None:
    """Raise NnefError if fewer bytes are free than something needs."""
    there = available_bytes()
    if there is not None and needed > there:
        amounts = f"{bytes_text(needed)} needed, {bytes_text(there)} free"
        raise error(f"not enough memory for {purpose}: {amounts}", hint=hint)


def bytes_text(size: int) -> str:
    """Bytes for people: ``1.5 GiB``."""
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.1f} {unit}"
    return f"{size >> 10} KiB"
