"""Tuning: faster where it can be, never slower, stopped and taken up again at any time."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.options import Compiling
from tvm_nnef.compilation.pipeline import build_module, compile_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.compilation.tuning_database import HEADER, Measured, Record
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.tuning import search, session, trial
from tvm_nnef.tuning.report import TuningReport, TuningState
from tvm_nnef.tuning.session import tune_module

X, W = np.random.default_rng(0).standard_normal((2, 96, 96)).astype("float32")
EXPECTED = np.abs(X[:, :, None] - W[None]).sum(1)


def rules_of(mod: Any, database: Path | None) -> list[str | None]:
    stages = compile_phases(mod, "native", Compiling(database=database), last="schedule")
    return [kernel.strategy for kernel in schedules.report(stages["schedule"])]


def records(folder: Path) -> list[dict[str, Any]]:
    files = sorted(file for file in folder.iterdir() if file.name != HEADER)
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.slow
def test_a_kernel_that_strategies_leave_slow_becomes_faster_and_stays_right(
    tuning: SimpleNamespace, tmp_path: Path
) -> None:
    tuning.slow()
    states: list[TuningState] = []
    report = tune_module(
        tuning.module(), "native", trials=8, database=tmp_path / "db", progress=states.append
    )
    (kernel,) = report.kernels
    assert (kernel.strategy, kernel.calls, kernel.trials, report.trials) == ("lazy", 1, 8, 8)
    assert kernel.tuned
    assert [state.done for state in states if state.done][-1] == 8
    assert rules_of(tuning.module(), tmp_path / "db") == ["tuned"]
    assert rules_of(tuning.module(), None) == ["lazy"]
    executable = build_module(tuning.module(), "native", Compiling(database=tmp_path / "db"))
    np.testing.assert_allclose(executable(X, W)[0], EXPECTED, rtol=1e-4)


def measured(monkeypatch: pytest.MonkeyPatch, verdict: trial.Verdict) -> None:
    """The strategy takes a second, what is tried a microsecond; in turns as the verdict says."""
    times = iter([1.0, 1e-6])
    monkeypatch.setattr(trial, "seconds_of", lambda *arguments: next(times))
    monkeypatch.setattr(trial, "compared", lambda *arguments: verdict)


def test_an_alternative_of_the_plan_is_measured_and_built(
    tuning: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning.slow(better=True)
    measured(monkeypatch, trial.Verdict(strategy=1.0, tuned=1e-6, same=True))
    report = tune_module(tuning.module(), "native", trials=1, database=tmp_path / "db")
    (kernel,) = report.kernels
    assert (kernel.strategy, kernel.trials, kernel.tuned) == ("lazy", 1, True)
    (record,) = records(tmp_path / "db")
    assert (record["plan"], record["chosen"], len(record["plans"])) == (0, None, 1)
    assert rules_of(tuning.module(), tmp_path / "db") == ["tuned"]
    executable = build_module(tuning.module(), "native", Compiling(database=tmp_path / "db"))
    np.testing.assert_allclose(executable(X, W)[0], EXPECTED, rtol=1e-4)


@pytest.mark.parametrize("change", [{"tuned": 1.0}, {"same": False}], ids=["slower", "wrong"])
def test_an_alternative_that_loses_beside_the_strategy_is_not_built(
    tuning: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    tuning.slow(better=True)
    verdict = replace(trial.Verdict(strategy=1e-3, tuned=1e-6, same=True), **change)
    measured(monkeypatch, verdict)
    tune_module(tuning.module(), "native", trials=1, database=tmp_path / "db")
    (record,) = records(tmp_path / "db")
    assert record["plan"] is None
    assert (record["plans"] == [None]) is not verdict.same
    assert rules_of(tuning.module(), tmp_path / "db") == ["lazy"]


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"tuned": 1.0}, {"same": False}], ids=["slower", "wrong"])
def test_who_loses_beside_the_strategy_is_not_built(
    tuning: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    tuning.slow()
    verdict = replace(trial.Verdict(strategy=1e-3, tuned=1e-6, same=True), **change)
    monkeypatch.setattr(trial, "compared", lambda *arguments: verdict)
    report = tune_module(tuning.module(), "native", trials=4, database=tmp_path / "db")
    assert not report.kernels[0].tuned
    assert rules_of(tuning.module(), tmp_path / "db") == ["lazy"]
    (record,) = records(tmp_path / "db")
    assert (record["chosen"], record["trials"]) == (None, 4)
    assert bool(record["traces"]) is bool(verdict.same), "what computes something else is dropped"


@pytest.mark.slow
def test_an_interrupted_search_keeps_what_it_found_and_goes_on(
    tuning: SimpleNamespace, tmp_path: Path
) -> None:
    def impatient(state: TuningState) -> None:
        if state.done:
            (record,) = records(database)
            assert record["trials"] == state.done, "each trial is kept at once"
        if state.done == 3:
            signal.raise_signal(signal.SIGINT)

    tuning.slow()
    database = tmp_path / "db"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        tune_module(tuning.module(), "native", trials=10, database=database, progress=impatient)
    assert signal.getsignal(signal.SIGINT) is handler
    (record,) = records(database)
    assert record["trials"] == 3
    assert len(record["traces"]) == 3
    assert record["judged"], "what was found before is compared with the strategy"
    before = record["traces"][0]["seconds"]

    states: list[TuningState] = []
    report = tune_module(
        tuning.module(), "native", trials=10, database=database, progress=states.append
    )
    assert (states[0].done, report.trials) == (3, 10)
    (record,) = records(database)
    assert record["traces"][0]["seconds"] <= before

    again: list[TuningState] = []
    tune_module(tuning.module(), "native", trials=10, database=database, progress=again.append)
    assert again == [], "there is nothing left to do"


@pytest.mark.slow
def test_what_a_process_that_died_found_is_compared_with_the_strategy(
    tuning: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning.slow()
    always = trial.Verdict(strategy=1.0, tuned=1e-6, same=True)
    monkeypatch.setattr(trial, "compared", lambda *arguments: always)
    database = tmp_path / "db"
    tune_module(tuning.module(), "native", trials=2, database=database)
    (file,) = (file for file in database.iterdir() if file.name != HEADER)
    found = json.loads(file.read_text())
    assert found["chosen"]
    file.write_text(json.dumps({**found, "judged": False, "chosen": None, "tuned_seconds": None}))
    tune_module(tuning.module(), "native", trials=2, database=database)
    assert records(database) == [found]


@pytest.mark.parametrize(
    ("tuned", "chosen"), [(1e-3, ["new"]), (1.7e-3, ["old"]), (3e-3, ["old"])],
    ids=["by more", "by less", "not at all"],
)  # fmt: skip
def test_who_wins_by_most_is_built(
    monkeypatch: pytest.MonkeyPatch, tuned: float, chosen: list[str]
) -> None:
    verdict = trial.Verdict(strategy=2e-3, tuned=tuned, same=True)
    monkeypatch.setattr(search.KernelSearch, "_compared", lambda self, measured: verdict)
    kernel = search.KernelSearch.__new__(search.KernelSearch)
    found = (Measured(1e-3, ["new"]),)
    kernel.record = Record("y", "strategy", "0", 2, 8, 3e-3, 2e-3, ["old"], found, judged=False)
    kernel.judge()
    assert (kernel.record.chosen, kernel.record.judged) == (chosen, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_a_trial_is_done(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with (
        pytest.raises(KeyboardInterrupt) as ended,
        session._interrupted_between_trials() as stop_if_asked,
    ):
        stop_if_asked()
        signal.raise_signal(number)
        stop_if_asked()
    assert ended.value.args == (number,)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("threads", [0, -1, True, "all"])
def test_threads_are_a_number_from_one(
    tuning: SimpleNamespace, tmp_path: Path, threads: Any
) -> None:
    with pytest.raises(NnefError, match="threads cannot be"):
        tvm_nnef.tune(tuning.module(), trials=1, database=tmp_path / "db", threads=threads)
    with pytest.raises(NnefError, match="threads cannot be"):
        tvm_nnef.build(tuning.module(), threads=threads)
    assert not (tmp_path / "db").exists()


@pytest.mark.slow
def test_schedules_measured_against_other_strategies_are_compared_again(
    tuning: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning.slow()
    database = tmp_path / "db"
    assert tune_module(tuning.module(), "native", trials=8, database=database).kernels[0].tuned
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="strategies that have changed"):
        build_module(tuning.module(), "native", Compiling(database=database))
    never = trial.Verdict(strategy=1e-6, tuned=1.0, same=True)
    monkeypatch.setattr(trial, "compared", lambda *arguments: never)
    report = tune_module(tuning.module(), "native", trials=8, database=database)
    assert (report.trials, report.kernels[0].tuned) == (8, False)
    assert report.kernels[0].strategy.startswith("cpu.")


def test_the_kernel_with_most_time_goes_first() -> None:
    def promise(seconds: float, calls: int, trials: int) -> float:
        from tvm_nnef.tuning.session import _promise

        record = SimpleNamespace(trials=trials)
        return _promise(SimpleNamespace(seconds=seconds, calls=calls, record=record))  # type: ignore[arg-type]

    assert promise(1e-3, 1, 0) > promise(1e-4, 5, 0)
    assert promise(1e-4, 20, 0) > promise(1e-3, 1, 0)
    assert promise(1e-3, 1, 0) > promise(1e-3, 1, search.BATCH)


@pytest.mark.parametrize("trials", [0, -1, True, "many"])
def test_trials_are_a_number_from_one(tuning: SimpleNamespace, tmp_path: Path, trials: Any) -> None:
    with pytest.raises(NnefError, match="trials cannot be"):
        tune_module(tuning.module(), "native", trials=trials, database=tmp_path / "db")
    assert not (tmp_path / "db").exists()


def test_there_is_no_tuning_for_a_machine_that_is_not_here(
    tuning: SimpleNamespace, tmp_path: Path
) -> None:
    with pytest.raises(NnefError, match="does not run code for the target"):
        tvm_nnef.tune(tuning.module(), "aarch64", trials=1, database=tmp_path / "db")


def lowered(lanes: int, copies: int, stride: int = 1) -> Any:
    """A PrimFunc as it is after lowering: vectors of so many lanes, copied one by one."""
    x, y = (tirx.decl_buffer((1 << 20,), "float32", name, layout=None) for name in "xy")

    def copied(number: int) -> Any:
        load = x[(tirx.Ramp(number, stride, lanes),)] if lanes > 1 else x[(number,)]
        position = tirx.Ramp(number * lanes, 1, lanes) if lanes > 1 else number
        return tirx.BufferStore(y, load, [position])

    return tirx.PrimFunc([x, y], tirx.SeqStmt([copied(number) for number in range(copies)]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((16, 5), 10), ((1, 5), 10), ((16, 5, 3), 5 + 80), ((61, 5), 2 * 61 * 5)],
    ids=["vectors", "scalars", "strided", "lanes that registers do not have"],
)
def test_code_is_counted_in_accesses_to_memory(arguments: tuple[int, ...], expected: int) -> None:
    assert trial.accesses(lowered(*arguments)) == expected


def test_what_llvm_would_take_minutes_for_is_not_a_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compiled(function, target, inspect):
        if inspect is not None:
            inspect(function)
        return function

    monkeypatch.setattr(trial, "compile_kernel", compiled)
    small, large = lowered(16, 100), lowered(61, 115)
    assert trial.compiled_if_small(large, resolve("native")) is None
    assert trial.compiled_if_small(small, resolve("native")) is not None
    assert trial.compiled(large, resolve("native")) is not None, "strategies know what they do"


def test_on_a_busy_machine_a_parallel_kernel_is_not_beaten_by_a_slower_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the clock the strategy is held up to 900; it needs 60 on one thread, the tuned one 50."""
    times = iter([[900.0, 50.0], [60.0, 50.0], [900.0, 50.0], [60.0, 50.0]])
    monkeypatch.setattr(trial, "_in_turns", lambda calls, clock: next(times))
    function = lowered(1, 2)
    strategy, tuned = (lambda *arguments: None), (lambda *arguments: None)
    lost = trial.compared((strategy, True), (tuned, False), function, 2)
    assert lost is not None
    assert (lost.strategy, lost.tuned, lost.same, lost.tuned_wins) == (30.0, 50.0, True, False)
    won = trial.compared((strategy, True), (tuned, True), function, 2)
    assert won is not None
    assert (won.strategy, won.tuned, won.tuned_wins) == (30.0, 25.0, True)


def test_one_trial_is_not_trials() -> None:
    assert TuningReport((), (), 1).summary().startswith("1 trial: ")
