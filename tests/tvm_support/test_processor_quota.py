"""The part of a machine's processors that control groups leave to a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_nnef.tvm_support.processor_quota import processor_quota

SECOND, FIRST = "0::/docker/abc\n", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n"
MEMORY = "5:memory:/docker/abc\n"


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        (SECOND, {"docker/abc/cpu.max": "150000 100000\n"}, 2),
        (SECOND, {"docker/abc/cpu.max": "20000 100000\n"}, 1),
        (SECOND, {"docker/abc/cpu.max": "max 100000\n"}, None),
        # Whatever group is around has its say; in a container its own one is the root.
        (SECOND, {"docker/abc/cpu.max": "max 100000\n", "docker/cpu.max": "300000 100000\n"}, 3),
        (SECOND, {"cpu.max": "400000 100000\n"}, 4),
        (SECOND, {"unified/docker/abc/cpu.max": "100000 50000\n"}, 2),
        (
            FIRST,
            {
                "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "250000\n",
                "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (FIRST, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        (MEMORY, {"docker/abc/cpu.max": "100000 100000\n"}, None),
        ("nonsense\n", {"cpu.max": "nonsense\n"}, None),
        ("", {}, None),
    ],
)
def test_the_smallest_quota_counts_in_both_versions_of_groups(
    tmp_path: Path, membership: str, files: dict[str, str], expected: int | None
) -> None:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert processor_quota(tmp_path / "membership", tmp_path / "groups") == expected


def test_what_the_system_does_not_say_is_no_limit(tmp_path: Path) -> None:
    assert processor_quota(tmp_path / "none", tmp_path / "none") is None
