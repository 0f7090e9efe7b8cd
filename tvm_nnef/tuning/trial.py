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
"""How often, and for how long, two are compared at least."""

_HOPELESS = 4.0
"""Who takes so many times as long as the best is timed but once."""

_GAIN = 0.97
"""A tuned schedule takes at most this fraction of the strategy's time, to rule out noise."""

_MOST_ACCESSES = 2048
"""How much code a schedule may come to. LLVM's time grows faster than what it is given, to minutes
for a hundred unrolled vectors of 61 lanes, and nothing interrupts it."""

Kernel = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Two schedules measured in turns, in seconds, and whether they compute the same.

    ``ahead`` says that the tuned one was faster by the clock, too; see :func:`compared`.
    """

    strategy: float
    tuned: float
    same: bool
    ahead: bool = True

    @property
    def tuned_wins(self) -> bool:
        """Whether the tuned one is right, and faster."""
        return self.same and self.ahead and self.tuned < _GAIN * self.strategy

    @property
    def gain(self) -> float:
        """How many times faster the tuned one is."""
        return self.strategy / self.tuned


def compiled(function: PrimFunction, target: Target) -> Kernel | None:
    """The machine code of a scheduled PrimFunc; None if TVM cannot compile it."""
    return _compiled(function, target, None)


def compiled_if_small(function: PrimFunction, target: Target) -> Kernel | None:
    """The same for an unknown schedule; None if it is too much code, too."""
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
    """How many instructions access memory in a PrimFunc whose loops are lowered.

    A vector is loaded at once where its elements are neighbours, and as many as registers have.
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
    """The shortest of the runs of a kernel within some patience."""
    times: list[float] = []
    deadline = time.perf_counter() + _PATIENCE
    while not times or (time.perf_counter() < deadline and min(times) < _HOPELESS * best):
        times.append(_once(kernel, arguments))
    return min(times)


def compared(
    strategy: tuple[Kernel, bool], tuned: tuple[Kernel, bool], function: PrimFunction, threads: int
) -> Verdict | None:
    """Both on the same random data, in turns; None if the kernel cannot be called so.

    With each kernel comes whether it is parallel. On a busy machine such a one waits for threads
    that do not get a core, and a schedule with one thread would seem faster. So the
    processor time on one thread is measured as well, and shared out to the threads of who is
    parallel: the time of a quiet machine. The tuned one has to be ahead in both.
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
    """The shortest run of each."""
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
    """Whether two arrays are equal, up to what another order of sums may change."""
    left, right = first.numpy(), second.numpy()
    if left.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    finite = np.abs(left[np.isfinite(left)].astype("float64"))
    tolerance = 1e-2 if left.dtype.itemsize < 4 else 1e-4
    scale = float(finite.max(initial=0.0))
    return bool(np.allclose(left, right, tolerance, tolerance * scale, equal_nan=True))
