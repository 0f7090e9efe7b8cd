"""How many processors' time the control groups of Linux leave to this process.

Input: files of the system. Output: a number of threads that can all be busy, or None
where nothing is limited. Containers are given a part of a machine so; threads beyond that part
make the system stop all of them for the rest of each period.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_FIRST_VERSION = ("cpu,cpuacct", "cpuacct,cpu", "cpu")
"""Where the groups of processors are mounted in the first version of control groups."""


def processor_quota(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> int | None:
    """The smallest quota of the groups of a process and of those around them, rounded up.

    ``membership`` lists the groups, a line for each kind; ``groups`` is where they are mounted.
    """
    quotas = [quota for folder in _folders(membership, groups) if (quota := _quota(folder))]
    return max(1, math.ceil(min(quotas))) if quotas else None


def _folders(membership: Path, groups: Path) -> Iterator[Path]:
    """The folders of the groups; in a container the outermost one is the container's own."""
    for line in _text(membership).splitlines():
        _, kinds, name = (*line.split(":", 2), "", "")[:3]
        if kinds and "cpu" not in kinds.split(","):
            continue
        path = PurePosixPath(name.lstrip("/"))
        for mount in _FIRST_VERSION if kinds else ("", "unified"):
            for group in (path, *path.parents):
                yield groups / mount / group


def _quota(folder: Path) -> float | None:
    """Processors' time in each second; None if a group has no limit."""
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
