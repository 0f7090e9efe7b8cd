"""The report of the kernels: strategies, calls, work, times; as text, as a table, as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tvm_nnef.compilation.options import Compiling
from tvm_nnef.compilation.pipeline import build_module, compile_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.measurement.interleaved import timed_in_turns
from tvm_nnef.measurement.kernel_report import NOT_TIMED, KernelReport, KernelRow
from tvm_nnef.measurement.kernels import kernel_report
from tvm_nnef.profiling.flop_counts import Work
from tvm_nnef.tvm_support.build import runs_here

TWICE = """
import linalg;
import math;

graph G {
    @input {
        x: real[16,32];
        w: real[32,32];
    }
    @output {
        y: real[16,32];
    }
    @compose {
        h = linalg.matmul(x, w);
        z = linalg.matmul(h, w);
        y = math.exp(z);
    }
}
"""


def lowered() -> Any:
    from tvm_nnef import from_nnef

    return from_nnef(TWICE)


@pytest.fixture(scope="module")
def report() -> KernelReport:
    found: list[KernelReport] = []
    build_module(lowered(), "native", Compiling(verbose=found.append))
    (report,) = found
    return report


@pytest.mark.slow
def test_every_kernel_has_rule_work_and_time(report: KernelReport) -> None:
    flop = sum(row.calls * row.work.flop for row in report.rows if row.work)
    products, exponentials = 2 * (2 * 16 * 32 * 32), 16 * 32
    assert flop == products + exponentials
    assert all(row.strategy not in ("", "none") and row.seconds for row in report.rows)


def test_the_slowest_come_first_and_the_shares_are_a_whole(report: KernelReport) -> None:
    totals = [row.total or 0.0 for row in report.rows]
    assert totals == sorted(totals, reverse=True)
    shares = [report.share(row) or 0.0 for row in report.rows]
    assert sum(shares) == pytest.approx(1)


def test_nothing_is_timed_for_another_machine() -> None:
    stages = compile_phases(lowered(), "aarch64")
    here = runs_here(resolve("aarch64"))
    report = kernel_report(stages["fuse"], stages["schedule"], stages["code"], here=here, threads=1)
    assert report.threads is None
    assert all(row.seconds is None and row.work for row in report.rows)
    assert NOT_TIMED in report.summary()


ROWS = (
    KernelRow("conv", "cpu.register_tile", 2, Work(4_000_000, 1_000_000), 1e-3),
    KernelRow("odd", "ordered", 1, None, None),
)


def test_the_lines_say_what_was_measured() -> None:
    first, conv, odd, *_, last = KernelReport(ROWS, 2).lines()
    assert first.split() == ["kernel", "strategy", "calls", "MFLOP", "MB", "us", "GFLOP/s", "GB/s",
                             "time"]  # fmt: skip
    assert conv.split()[2:] == ["2", "4.00", "1.00", "1000.0", "4.0", "1.0", "100.0%"]
    assert odd.split() == ["odd", "ordered", "1"]
    assert "cpu.register_tile 1, ordered 1" in last
    assert "2.000 ms on 2 threads, 4.0 GFLOP/s" in last


def test_on_a_narrow_terminal_names_take_several_lines_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    long = KernelRow("fused_" * 12, "cpu.register_tile", 12, Work(10**9, 10**8), 1e-2)
    KernelReport((long, *ROWS), 2).print()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    table = plain.split("\n\n")[0].splitlines()
    assert all(len(line) <= 80 for line in table)
    first = next(line for line in table if line.startswith("fused_"))
    assert first.split()[1:] == ["cpu.register_tile", "12", "1000.00", "100.00", "10000.0", "100.0",
                                 "10.0", "98.4%"]  # fmt: skip


def test_the_same_as_json() -> None:
    found = json.loads(json.dumps(KernelReport(ROWS, 1).to_json()))
    assert found["threads"] == 1
    assert found["kernels"][0] == {
        "name": "conv", "strategy": "cpu.register_tile", "calls": 2, "flop": 4_000_000,
        "bytes": 1_000_000, "seconds": 1e-3, "share": 1.0, "plan": "",
        "operations": [], "dtype": "", "notes": [],
    }  # fmt: skip
    assert found["kernels"][1]["seconds"] is None


def test_kernels_name_the_operations_of_the_model(report: KernelReport) -> None:
    named = {name for row in report.rows for name in row.operations}
    assert named == {"main.G.h", "main.G.z", "main.G.y"}
    (exp,) = [row for row in report.rows if "main.G.y" in row.operations]
    assert exp.dtype == "float32"
    assert f"{exp.name} computes {', '.join(exp.operations)} in float32" in report.lines()


def test_calls_run_in_turns_and_each_at_least_once() -> None:
    seen: list[str] = []
    times = timed_in_turns([lambda: seen.append("a"), lambda: seen.append("b")], 0.0, alone=True)
    assert seen == ["a", "b"]
    assert [len(each.seconds) for each in times] == [1, 1]
    assert times[0].minimum <= times[0].median


def test_plans_and_why_they_won_are_printed(report: KernelReport) -> None:
    assert all(f"{row.name}: {row.plan}" in report.lines() for row in report.rows)
    (exp,) = [row for row in report.rows if row.strategy == "cpu.elementwise"]
    assert exp.plan.startswith("cpu.elementwise: ")
    assert "lanes" in exp.plan
    assert exp.plan.endswith(" cycles)")
