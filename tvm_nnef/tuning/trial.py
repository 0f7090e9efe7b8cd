"""Compilation and timing of schedules of one kernel in this process: alone, or two in turns.

TVM's own builder and runner start a process for each and give up on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from tvm_nnef.compilation.passes import compile_kernel
from tvm_nnef.measurement.kernels import random_arguments
from tvm_nnef.tvm_support.compat import PrimFunction, Target
from tvm_nnef.tvm_support.threads import use_threads

_PATIENCE = 0.05
"""Seconds for which a schedule is timed while searching."""

_TURNS, _SECONDS = 5, 0.5
"""Lower limits of the number of turns and the seconds of a comparison of two schedules."""

_HOPELESS = 4.0
"""A schedule that takes this many times as long as the best is timed only once."""

_GAIN = 0.97
"""A tuned schedule takes at most this fraction of the strategy's time, to rule out noise."""

_MOST_ACCESSES = 2048
"""Upper limit of the memory accesses in the code of a schedule. LLVM's time grows superlinearly
with its input, to minutes for a hundred unrolled vectors of 61 lanes, and cannot be interrupted.
"""

Kernel = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Two schedules measured in turns, in seconds, and whether they compute the same.

    ``ahead`` means that the tuned one was also faster by the clock; see :func:`compared`.
    """

    strategy: float
    tuned: float
    same: bool
    ahead: bool = True

    @property
    def tuned_wins(self) -> bool:
        """Whether the tuned schedule is correct, and faster."""
        return self.same and self.ahead and self.tuned < _GAIN * self.strategy

    @property
    def gain(self) -> float:
        """The speedup of the tuned schedule."""
        return self.strategy / self.tuned


def compiled(function: PrimFunction, target: Target) -> Kernel | None:
    """Return the machine code of a scheduled PrimFunc; None if TVM cannot compile it."""
    return _compiled(function, target, None)


def compiled_if_small(function: PrimFunction, target: Target) -> Kernel | None:
    """Return the same for an unknown schedule; None also if it is too much code."""
    return _compiled(function, target, _check_size)


def _compiled(
    function: PrimFunction, target: Target, inspect: Callable[[PrimFunction], None] | None
) -> Kernel | None:
    try:
        return compile_kernel(function, target, inspect=inspect)
    except (tvm.error.InternalError, RuntimeError, ValueError, TypeError, s_tir.ScheduleError):
        return None


def _check_size(function: PrimFunction) -> None:
    if (size := accesses(function)) > _MOST_ACCESSES:
        raise ValueError(f"the code has {size} accesses to memory")


def accesses(function: PrimFunction) -> int:
    """Return the number of instructions in a lowered PrimFunc that access memory.

    A contiguous vector of 2^n lanes counts once, any other one once for each lane.
    """
    count = 0

    def see(access: Any) -> None:
        nonlocal count
        lanes = 1
        stride: Any = 1
        for index in access.indices:
            if isinstance(index, tirx.Ramp):
                lanes, stride = int(index.lanes), index.stride
        whole = lanes & (lanes - 1) == 0 and isinstance(stride, int | tirx.IntImm)
        count += 1 if whole and int(stride) == 1 else lanes

    tvm_ffi.structural_walk(function.body, ((TensorLoad, tirx.BufferStore), see), order="post")
    return count


def seconds_of(kernel: Kernel, arguments: Sequence[Any], best: float = float("inf")) -> float:
    """Return the shortest time of repeated runs of a kernel within a time limit."""
    times: list[float] = []
    deadline = time.perf_counter() + _PATIENCE
    while not times or (time.perf_counter() < deadline and min(times) < _HOPELESS * best):
        times.append(_once(kernel, arguments))
    return min(times)


def compared(
    strategy: tuple[Kernel, bool], tuned: tuple[Kernel, bool], function: PrimFunction, threads: int
) -> Verdict | None:
    """Measure both on the same random data, in turns; None if the kernel cannot be called so.

    Each kernel has a flag whether it is parallel. On a busy machine a parallel kernel waits for
    threads that do not get a core, and a schedule with one thread would seem faster. So the
    processor time on one thread is measured as well, and divided by the number of threads if the
    kernel is parallel: the time on an idle machine. The tuned one has to be faster by both
    measures.
    """
    first, second = random_arguments(function, {}), random_arguments(function, {})
    if first is None or second is None:
        return None
    calls = ((strategy[0], first), (tuned[0], second))
    clock = _in_turns(calls, time.perf_counter)
    use_threads(1)
    try:
        alone = _in_turns(calls, time.thread_time)
    finally:
        use_threads(threads)
    quiet = [
        min(by_clock, seconds / (threads if parallel else 1))
        for by_clock, seconds, (_, parallel) in zip(clock, alone, (strategy, tuned), strict=True)
    ]
    same = all(map(_agree, first, second))
    return Verdict(quiet[0], quiet[1], same, ahead=clock[1] < _GAIN * clock[0])


def is_parallel(function: PrimFunction) -> bool:
    """Whether a scheduled PrimFunc has a loop that threads share."""
    loops: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, loops.append), order="post")
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in loops)


def _in_turns(
    calls: Sequence[tuple[Kernel, Sequence[Any]]], clock: Callable[[], float]
) -> list[float]:
    """Return the shortest run of each."""
    times: list[list[float]] = [[] for _ in calls]
    deadline = time.perf_counter() + _SECONDS
    while len(times[-1]) < _TURNS or time.perf_counter() < deadline:
        for (kernel, arguments), found in zip(calls, times, strict=True):
            found.append(_once(kernel, arguments, clock))
    # A clock of processor time may be too coarse for a kernel of nothing.
    return [max(1e-9, min(found)) for found in times]


def _once(
    kernel: Kernel, arguments: Sequence[Any], clock: Callable[[], float] = time.perf_counter
) -> float:
    start = clock()
    kernel(*arguments)
    return clock() - start


def _agree(first: Any, second: Any) -> bool:
    """Whether two arrays are equal, up to rounding by another order of sums."""
    left, right = first.numpy(), second.numpy()
    if left.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    finite = np.abs(left[np.isfinite(left)].astype("float64"))
    tolerance = 1e-2 if left.dtype.itemsize < 4 else 1e-4
    scale = float(finite.max(initial=0.0))
    return bool(np.allclose(left, right, tolerance, tolerance * scale, equal_nan=True))
