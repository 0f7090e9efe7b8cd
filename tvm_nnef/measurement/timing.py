"""How long an action takes, run again and again: a function in, the times of its runs out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Timing:
    """How long runs took, in seconds."""

    median: float
    minimum: float
    mean: float
    runs: int


def timed(action: Callable[[], object], repeat: int, warmup: int) -> Timing:
    """The times of ``repeat`` runs, after ``warmup`` others."""
    for _ in range(warmup):
        action()
    times = [_seconds(action) for _ in range(repeat)]
    return Timing(float(np.median(times)), min(times), sum(times) / repeat, repeat)


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
