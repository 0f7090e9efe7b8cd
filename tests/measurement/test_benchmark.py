"""``scripts/bench.py``: what it tells of models that were measured, that failed, or never came."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tvm_nnef.tvm_support.threads import available_cores

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("onnx")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("bench")


def row(bench: Any, name: str, *ratios: float) -> Any:
    """A model that takes a millisecond, on 1 and more threads."""
    runs = tuple(bench.Run(n + 1, 1e-3, ratio * 1e-3, 1e9) for n, ratio in enumerate(ratios))
    return bench.Row(name, runs, 1e-6, 2.0, 1 << 30, 100 << 20, 500_000)


def test_the_summary_has_the_mean_who_is_behind_and_who_failed(bench: Any) -> None:
    found = [row(bench, "a", 2.0, 0.9), row(bench, "b", 0.5, 1.6), bench.Failure("c", "why")]
    assert list(bench.summary(found, [1, 2])) == [
        "1 thread(s): geometric mean 1.00",
        "  below 0.8: b 0.50",
        "  0.8 to 1: none",
        "2 thread(s): geometric mean 1.20",
        "  below 0.8: none",
        "  0.8 to 1: a 0.90",
        "failed: c",
    ]
    assert list(bench.summary([bench.Failure("c", "why")], [1, 2])) == ["failed: c"]


def test_a_line_has_times_ratio_peak_error_build_and_memory(bench: Any) -> None:
    # 500 000 operations in a millisecond are half of what the peak of 1e9 a second allows.
    assert str(row(bench, "a", 2.0)).split() == [
        "a", "2.000", "1.000", "2.00", "50%", "1.0e-06", "2.0", "1024", "<", "1424",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ([1.0, 2.0, np.nan], "not finite"),
        ([3.0, 3.0, 3.0], "constant"),
        ([0.0, 1.0, 1e-9], "one number and many zeros"),
        ([0.2, 0.5, 0.3], None),
    ],
)
def test_outputs_that_hide_errors_are_found(bench: Any, output: list[float], what: Any) -> None:
    assert bench.what_hides_errors(np.array(output)) == what


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", str(available_cores() + 1)])
def test_threads_are_at_most_the_cores(bench: Any, text: str) -> None:
    with pytest.raises(SystemExit):
        bench.make_parser().parse_args(["--threads", text])
    assert bench.make_parser().parse_args(["--threads", "1"]).threads == [1]


def test_a_model_that_cannot_be_measured_ends_with_the_reason(bench: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.onnx"
    file.write_text("garbage")
    with pytest.raises(SystemExit, match=r"bad\.onnx: error: this is no ONNX model"):
        bench.one({"name": "bad", "file": str(file), "flop": None, "counts": [1]}, 0.0)


def test_models_run_in_processes_of_their_own_and_may_end_in_any_way(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = row(bench, "good", 1.0)
    ends = iter(
        [
            (0, "remarks\n" + json.dumps(bench.asdict(good)), ""),
            (1, "", "Traceback\nValueError: reason"),
            (-signal.SIGKILL, "", "remarks"),
        ]
    )

    def run(command: list[str], **options: Any) -> Any:
        return subprocess.CompletedProcess(command, *next(ends))

    monkeypatch.setattr(bench.subprocess, "run", run)
    entries = {name: Path(f"{name}.onnx") for name in ("good", "bad", "killed")}
    found = list(bench.rows(entries, SimpleNamespace(threads=[1], seconds=0.0)))
    assert found == [
        good,
        bench.Failure("bad", "ValueError: reason"),
        bench.Failure("killed", "it ended with status -9"),
    ]


def test_an_interruption_keeps_what_was_measured(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "found.json"

    def rows(*arguments: Any) -> Iterator[Any]:
        yield row(bench, "a", 1.5)
        assert [each["name"] for each in json.loads(file.read_text())] == ["a"]
        yield bench.Failure("b", "why")
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "rows", rows)
    options = argparse.Namespace(json=str(file), threads=[1], seconds=0.0)
    found, interrupted = bench.measured_one_by_one(dict.fromkeys("abc"), options)
    assert interrupted
    assert [each.name for each in found] == ["a", "b"]
    assert json.loads(file.read_text())[1] == {"name": "b", "failed": "why"}
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
    assert "interrupted after 2 of 3 models" in capsys.readouterr().err
