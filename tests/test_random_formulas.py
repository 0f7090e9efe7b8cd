"""A sample of ``scripts/fuzz_formulas.py``: compiled formulas give what the evaluator gives.

``TVM_NNEF_SEED`` chooses the first seed of the slow test, which is another one in each run.
"""

from __future__ import annotations

import importlib
import os
import resource
import secrets
import time
from pathlib import Path
from types import ModuleType

import pytest

FORMULAS, MODELS = 200, 25
FIRST = int(os.environ.get("TVM_NNEF_SEED") or secrets.randbits(31))


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "scripts"))
    return importlib.import_module("fuzz_formulas")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", [100, 20000])
def test_random_formulas_compute_what_the_evaluator_does(fuzz: ModuleType, first: int) -> None:
    valid = [seed for seed in range(first, first + 10) if not fuzz.refused(seed)]
    assert len(valid) >= 5
    assert list(fuzz.findings(valid)) == []


@pytest.mark.slow
@pytest.mark.rotated(1)
@pytest.mark.parametrize("part", range(MODELS))
def test_new_random_formulas_compute_what_the_evaluator_does(fuzz: ModuleType, part: int) -> None:
    count = FORMULAS // MODELS
    first = FIRST + part * count
    print(f"seeds {first} to {first + count - 1}")
    valid = [seed for seed in range(first, first + count) if not fuzz.refused(seed)]
    found = list(fuzz.findings(valid)) if valid else []
    assert not found, "\n".join(f"--show {seed}: {problem}" for seed, problem in found)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_a_gpu_computes_random_formulas(fuzz: ModuleType, first: int, on_gpu: None) -> None:
    valid = [seed for seed in range(first, first + 20) if not fuzz.refused(seed)]
    assert list(fuzz.findings(valid)) == []


def test_models_of_seeds_do_not_depend_on_the_order(fuzz: ModuleType) -> None:
    texts = [fuzz.model([seed]).text for seed in range(20)]
    assert [fuzz.model([seed]).text for seed in reversed(range(20))] == texts[::-1]
    assert len(set(texts)) == 20


@pytest.mark.slow
def test_a_formula_beyond_the_limit_is_a_finding(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def findings(seeds: list[int]) -> list[tuple[int, str]]:
        time.sleep(60 if 101 in seeds else 0)
        if 102 in seeds:
            os._exit(3)
        return []

    monkeypatch.setattr(fuzz, "findings", findings)
    monkeypatch.setattr(fuzz, "refused", lambda seed: False)
    monkeypatch.setattr(fuzz, "MEMORY", resource.RLIM_INFINITY)
    found = fuzz.reports([100, 101, 102], 1)
    assert found.refused == 0
    assert found.wrong == [(101, "takes more than 1 s"), (102, "ends the process with status 3")]
