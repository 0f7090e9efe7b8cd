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

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.pipeline import build_module, compile_stages
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.tuning import search, trial
from tvm_nnef.tuning.database import HEADER
from tvm_nnef.tuning.session import State, tune_module

X, W = np.random.default_rng(0).standard_normal((2, 96, 96)).astype("float32")
EXPECTED = np.abs(X[:, :, None] - W[None]).sum(1)


def rules_of(mod: Any, database: Path | None) -> list[str | None]:
    stages = compile_stages(mod, "native", database=database, last="schedule")
    return [kernel.rule for kernel in schedules.report(stages["schedule"])]


def records(folder: Path) -> list[dict[str, Any]]:
    files = sorted(file for file in folder.iterdir() if file.name != HEADER)
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.slow
def test_a_kernel_that_rules_leave_slow_becomes_faster_and_stays_right(
    tuning: SimpleNamespace, tmp_path: Path
) -> None:
    tuning.slow()
    states: list[State] = []
    report = tune_module(
        tuning.module(), "native", trials=8, database=tmp_path / "db", progress=states.append
    )
    (kernel,) = report.kernels
    assert (kernel.rule, kernel.calls, kernel.trials, report.trials) == ("lazy", 1, 8, 8)
    assert kernel.tuned
    assert [state.done for state in states if state.done][-1] == 8
    assert rules_of(tuning.module(), tmp_path / "db") == ["tuned"]
    assert rules_of(tuning.module(), None) == ["lazy"]
    executable = build_module(tuning.module(), database=tmp_path / "db")
    np.testing.assert_allclose(executable(X, W)[0], EXPECTED, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"tuned": 1.0}, {"same": False}], ids=["slower", "wrong"])
def test_who_loses_beside_the_rule_is_not_built(
    tuning: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    tuning.slow()
    verdict = replace(trial.Verdict(rule=1e-3, tuned=1e-6, same=True), **change)
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
    def impatient(state: State) -> None:
        if state.done == 3:
            signal.raise_signal(signal.SIGINT)

    database = tmp_path / "db"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        tune_module(tuning.module(), "native", trials=10, database=database, progress=impatient)
    assert signal.getsignal(signal.SIGINT) is handler
    (record,) = records(database)
    assert record["trials"] == 3
    assert len(record["traces"]) == 3
    before = record["traces"][0]["seconds"]

    states: list[State] = []
    report = tune_module(
        tuning.module(), "native", trials=10, database=database, progress=states.append
    )
    assert (states[0].done, report.trials) == (3, 10)
    (record,) = records(database)
    assert record["traces"][0]["seconds"] <= before

    again: list[State] = []
    tune_module(tuning.module(), "native", trials=10, database=database, progress=again.append)
    assert again == [], "there is nothing left to do"


@pytest.mark.slow
def test_schedules_measured_against_other_rules_are_compared_again(
    tuning: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning.slow()
    database = tmp_path / "db"
    assert tune_module(tuning.module(), "native", trials=8, database=database).kernels[0].tuned
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="rules have changed"):
        build_module(tuning.module(), database=database)
    never = trial.Verdict(rule=1e-6, tuned=1.0, same=True)
    monkeypatch.setattr(trial, "compared", lambda *arguments: never)
    report = tune_module(tuning.module(), "native", trials=8, database=database)
    assert (report.trials, report.kernels[0].tuned) == (8, False)
    assert report.kernels[0].rule.startswith("cpu.")


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
