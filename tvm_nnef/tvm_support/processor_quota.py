"""The limit that control groups of Linux set on the processor time of this process.

Input: files of the system. Output: the number of threads that can all be busy, or None if nothing
is limited. Containers limit the processor time in this way; the system suspends all threads for the
rest of each period once more threads have used it up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_FIRST_VERSION = ("cpu,cpuacct", "cpuacct,cpu", "cpu")
"""Names of the folders at which version 1 of control groups mounts the controller of processors."""


def processor_quota(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> int | None:
    """Return the smallest quota of a process's control group and its ancestors, rounded up.

    ``membership`` is the file that lists the groups of the process, a line for each kind;
    ``groups`` is the folder at which they are mounted.
    """
    quotas = [quota for folder in _folders(membership, groups) if (quota := _quota(folder))]
    return max(1, math.ceil(min(quotas))) if quotas else None


def _folders(membership: Path, groups: Path) -> Iterator[Path]:
    """Yield the folders of the groups; in a container the outermost one is the container's own."""
    for line in _text(membership).splitlines():
        _, kinds, name = (*line.split(":", 2), "", "")[:3]
        if kinds and "cpu" not in kinds.split(","):
            continue
        path = PurePosixPath(name.lstrip("/"))
        for mount in _FIRST_VERSION if kinds else ("", "unified"):
            for group in (path, *path.parents):
                yield groups / mount / group


def _quota(folder: Path) -> float | None:
    """Return processors' time in each second; None if a group has no limit."""
    limit = _text(folder / "cpu.max").split()
    if not limit:
        limit = [_text(folder / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    try:
        quota, period = map(int, limit)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
