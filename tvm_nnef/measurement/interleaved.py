"""Calls timed in turns, so that what else the machine does meets all of them alike.

Input: functions that run something. Output: seconds. Knows nothing of what is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_PAUSE = 0.1
"""Threads of a library spin for a while after a run, and would take cores from the next one."""

_BLOCK = 5
_BLOCK_SECONDS = 0.02
"""What follows a pause: so many runs, and so much time. The first of them find cold caches and
threads that sleep, or wake on the core of another one, from where the system moves them later."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long each of several runs took, in seconds."""

    seconds: tuple[float, ...]

    @property
    def minimum(self) -> float:
        """The shortest run: what the machine can do when nothing disturbs."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle one of the runs: what is to be expected."""
        return float(np.median(self.seconds))


def timed_in_turns(
    calls: Sequence[Callable[[], object]], seconds: float, *, alone: bool
) -> list[Times]:
    """The times of each call, run in turns for so many seconds altogether, once at least.

    ``alone`` says that all run on one thread, this one: then the processor time of the process
    counts, and no pauses are needed.
    """
    clock = time.process_time if alone else time.perf_counter
    found: list[list[float]] = [[] for _ in calls]
    deadline = time.perf_counter() + seconds
    while not all(found) or time.perf_counter() < deadline:
        for call, times in zip(calls, found, strict=True):
            time.sleep(0 if alone else _PAUSE)
            runs, end = len(times), time.perf_counter() + (0 if alone else _BLOCK_SECONDS)
            while len(times) < runs + (1 if alone else _BLOCK) or time.perf_counter() < end:
                start = clock()
                call()
                times.append(clock() - start)
    return [Times(tuple(times)) for times in found]
