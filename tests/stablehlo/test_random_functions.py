"""A sample of ``scripts/fuzz_functions.py``: random functions of JAX, judged by JAX.

``TVM_NNEF_SEED`` chooses the first seed of the slow tests, which is another one in each run.
"""

from __future__ import annotations

import importlib
import os
import secrets
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")

FIRST = int(os.environ.get("TVM_NNEF_SEED") or secrets.randbits(31))


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
    return importlib.import_module("fuzz_functions")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_functions(fuzz: ModuleType, seed: int) -> None:
    assert fuzz.wrong(seed) is None


@pytest.mark.slow
@pytest.mark.parametrize("number", range(60))
def test_new_random_functions(fuzz: ModuleType, number: int) -> None:
    problem = fuzz.wrong(FIRST + number)
    assert problem is None, f"--show {FIRST + number}: {problem}"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(60, 80))
def test_new_random_functions_compiled(fuzz: ModuleType, number: int) -> None:
    problem = fuzz.wrong(FIRST + number, compiled=True)
    assert problem is None, f"--show {FIRST + number}: {problem}"
