"""Timing of calls in turns, so that other load of the machine affects all of them alike.

Input: functions. Output: seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_PAUSE = 0.1
"""Seconds of pause: threads of a library spin after a run, and would take cores from the next
one.
"""

_BLOCK = 5
_BLOCK_SECONDS = 0.02
"""The number of runs and the seconds between pauses. The first runs find cold caches and threads
that sleep, or that wake on the core of another one and are moved by the system later.
"""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of several runs, in seconds."""

    seconds: tuple[float, ...]

    @property
    def minimum(self) -> float:
        """The shortest run: the speed of an undisturbed machine."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median of the runs: the usual time."""
        return float(np.median(self.seconds))


def timed_in_turns(
    calls: Sequence[Callable[[], object]], seconds: float, *, alone: bool
) -> list[Times]:
    """Return the times of each call, run in turns for ``seconds`` altogether, at least once.

    ``alone`` means that all run on this thread only: then the processor time of the process is
    measured, and no pauses are needed.
    """
    clock = time.process_time if alone else time.perf_counter
    times_of_calls: list[list[float]] = [[] for _ in calls]
    deadline = time.perf_counter() + seconds
    while not all(times_of_calls) or time.perf_counter() < deadline:
        for call, times in zip(calls, times_of_calls, strict=True):
            time.sleep(0 if alone else _PAUSE)
            runs, end = len(times), time.perf_counter() + (0 if alone else _BLOCK_SECONDS)
            while len(times) < runs + (1 if alone else _BLOCK) or time.perf_counter() < end:
                start = clock()
                call()
                times.append(clock() - start)
    return [Times(tuple(times)) for times in times_of_calls]
