"""A sample of ``scripts/fuzz_formulas.py``: compiled formulas give what the evaluator gives."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "scripts"))
    return importlib.import_module("fuzz_formulas")


@pytest.mark.parametrize("first", [100, 20000])
def test_random_formulas_compute_what_the_evaluator_does(fuzz: ModuleType, first: int) -> None:
    valid = [seed for seed in range(first, first + 10) if not fuzz.refused(seed)]
    assert len(valid) >= 5
    assert list(fuzz.findings(valid)) == []


def test_models_of_seeds_do_not_depend_on_the_order(fuzz: ModuleType) -> None:
    texts = [fuzz.model([seed]).text for seed in range(20)]
    assert [fuzz.model([seed]).text for seed in reversed(range(20))] == texts[::-1]
    assert len(set(texts)) == 20
