"""Timing of repeated runs of an action.

Input: a function. Output: the times of its runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvm_nnef.diagnostics import InputError, error


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of runs, in seconds."""

    median: float
    minimum: float
    mean: float
    runs: int


def timed(action: Callable[[], object], repeat: int, warmup: int) -> Timing:
    """Return the times of ``repeat`` runs, after ``warmup`` others. Raises InputError for none."""
    if repeat < 1:
        raise error(f"cannot measure {repeat} runs", hint="repeat is 1 or more", kind=InputError)
    for _ in range(warmup):
        action()
    times = [_seconds(action) for _ in range(repeat)]
    return Timing(float(np.median(times)), min(times), sum(times) / repeat, repeat)


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
