"""Schedules of one kernel compiled and timed in this process: alone, or two of them in turns.

TVM's own builder and runner start a process for each and give up on a machine that is busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import s_tir

from tvm_nnef import schedules
from tvm_nnef.measurement.kernels import random_arguments
from tvm_nnef.tvm_build import compile_kernel
from tvm_nnef.tvm_compat import PrimFunction, Target

_PATIENCE = 0.05
"""Seconds for which a schedule is timed while searching."""

_TURNS = 0.5
"""Seconds for which two are compared."""

_HOPELESS = 4.0
"""Who takes so many times as long as the best is timed but once."""

_GAIN = 0.97
"""A tuned schedule has to be shorter than so much of the rule's time, to be no matter of chance."""

Kernel = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Two schedules measured in turns, in seconds, and whether they compute the same."""

    rule: float
    tuned: float
    same: bool

    @property
    def tuned_wins(self) -> bool:
        """Whether the tuned one is right, and faster."""
        return self.same and self.tuned < _GAIN * self.rule


def compiled(function: PrimFunction, target: Target) -> Kernel | None:
    """The machine code of a scheduled PrimFunc; None where TVM cannot compile it."""
    try:
        return compile_kernel(function, target, schedules.lowered_functions(target))
    except (tvm.error.InternalError, RuntimeError, ValueError, TypeError, s_tir.ScheduleError):
        return None


def seconds_of(kernel: Kernel, arguments: Sequence[Any], best: float = float("inf")) -> float:
    """The shortest of the runs of a kernel within some patience."""
    times: list[float] = []
    deadline = time.perf_counter() + _PATIENCE
    while not times or (time.perf_counter() < deadline and min(times) < _HOPELESS * best):
        times.append(_once(kernel, arguments))
    return min(times)


def compared(rule: Kernel, tuned: Kernel, function: PrimFunction) -> Verdict | None:
    """Both on the same random data, in turns; None where the kernel cannot be called so."""
    first, second = random_arguments(function, {}), random_arguments(function, {})
    if first is None or second is None:
        return None
    times: list[list[float]] = [[], []]
    deadline = time.perf_counter() + _TURNS
    while not times[1] or time.perf_counter() < deadline:
        times[0].append(_once(rule, first))
        times[1].append(_once(tuned, second))
    same = all(map(_agree, first, second))
    return Verdict(min(times[0]), min(times[1]), same)


def _once(kernel: Kernel, arguments: Sequence[Any]) -> float:
    start = time.perf_counter()
    kernel(*arguments)
    return time.perf_counter() - start


def _agree(first: Any, second: Any) -> bool:
    """Whether two arrays are equal, up to what another order of sums may change."""
    left, right = first.numpy(), second.numpy()
    if left.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    finite = np.abs(left[np.isfinite(left)].astype("float64"))
    tolerance = 1e-2 if left.dtype.itemsize < 4 else 1e-4
    scale = float(finite.max(initial=0.0))
    return bool(np.allclose(left, right, tolerance, tolerance * scale, equal_nan=True))
