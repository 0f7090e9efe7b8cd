"""``scripts/bench.py``: what it reports of models that were measured, failed, or are missing."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
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


OTHERS = ("onnxruntime", "openvino")


def row(bench: Any, name: str, *ratios: float) -> Any:
    """A model that takes a millisecond, on 1 and more threads; OpenVINO takes twice that."""

    def times(ratio: float) -> dict[str, float]:
        return {"tvm_nnef": 1e-3, "onnxruntime": ratio * 1e-3, "openvino": 2e-3}

    runs = tuple(bench.Run(n + 1, times(r), times(2 * r), 1e9) for n, r in enumerate(ratios))
    return bench.Row(name, runs, 1e-6, 2.0, 1 << 30, 100 << 20, 500_000)


def test_the_summary_has_the_mean_what_is_slower_and_what_failed(bench: Any) -> None:
    found = [row(bench, "a", 2.0, 0.9), row(bench, "b", 0.5, 1.6), bench.Failure("c", "why")]
    assert list(bench.summary(found, [1, 2], OTHERS[:1])) == [
        "1 thread(s), beside ORT: geometric mean 1.00, after idling 2.00",
        "  below 0.8: b 0.50",
        "  0.8 to 1: none",
        "2 thread(s), beside ORT: geometric mean 1.20, after idling 2.40",
        "  below 0.8: none",
        "  0.8 to 1: a 0.90",
        "failed: c",
    ]
    assert list(bench.summary([bench.Failure("c", "why")], [1, 2], OTHERS)) == ["failed: c"]


def test_a_line_has_time_peak_ratios_error_build_and_memory(bench: Any) -> None:
    # 500 000 operations in a millisecond are half of what the peak of 1e9 a second allows.
    assert str(row(bench, "a", 1.5)).split() == [
        "a", "1.000", "50%", "1.50", "3.00", "2.00", "2.00",
        "1.0e-06", "2.0", "1024", "<", "1424",
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


def test_a_model_that_cannot_be_built_ends_with_the_reason(bench: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.onnx"
    file.write_text("garbage")
    files = {"file": str(file), "library": "unused", "inputs": "unused"}
    with pytest.raises(bench.Failed, match=r"bad\.onnx: error: this is not an ONNX model"):
        bench.in_process("build", **files, dynamic=False)


def test_each_runtime_runs_in_a_process_of_its_own(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tasks: list[dict[str, Any]] = []

    def run(command: list[str], **options: Any) -> Any:
        task = json.loads(command[-1])
        tasks.append(task)
        found = {"busy": 1e-3, "idle": 2e-3}
        if task["task"] == "build":
            found = {"build": 1.0, "memory": 1 << 30, "weights": 1 << 20}
        else:
            np.savez(task["outputs"], **{"0": np.array([0.2, 0.5, 0.3])})
        return subprocess.CompletedProcess(command, 0, "messages\n" + json.dumps(found), "")

    monkeypatch.setattr(bench.subprocess, "run", run)
    options = argparse.Namespace(threads=[1, 2], seconds=0.0, dynamic=False)
    found = bench.measured("a", tmp_path / "model.onnx", None, OTHERS, options)
    assert found.error == 0.0 and found.runs[0].ratio("openvino", "idle") == 1.0
    runs = [(task["runtime"], task["threads"]) for task in tasks[1:]]
    one = ["tvm_nnef", *OTHERS] * bench.ROUNDS
    assert runs == [(runtime, threads) for threads in (1, 2) for runtime in one]


def test_processes_may_end_in_any_way(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([(1, "", "Traceback\nValueError: reason"), (-signal.SIGKILL, "", "messages")])

    def run(command: list[str], **options: Any) -> Any:
        return subprocess.CompletedProcess(command, *next(ends))

    monkeypatch.setattr(bench.subprocess, "run", run)
    for reason in ("ValueError: reason", "it ended with status -9"):
        with pytest.raises(bench.Failed, match=reason):
            bench.in_process("run")


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
    found, interrupted = bench.measured_one_by_one(dict.fromkeys("abc"), OTHERS, options)
    assert interrupted
    assert [each.name for each in found] == ["a", "b"]
    assert json.loads(file.read_text())[1] == {"name": "b", "failed": "why"}
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
    assert "interrupted after 2 of 3 models" in capsys.readouterr().err
