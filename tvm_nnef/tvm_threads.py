"""On how many threads kernels run: TVM's thread pool, set up for all cores of this process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import tvm


def default_threads() -> int:
    """How many threads kernels use: one for each core that this process may run on.

    Where the user has set TVM_NUM_THREADS or OMP_NUM_THREADS, which TVM reads, it is that number,
    though never more than there are cores.
    """
    cores = len(_cores())
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdecimal():
            return min(max(1, int(os.environ[name])), cores)
    return cores


def use_threads(count: int) -> None:
    """Let the kernels that this thread of Python calls run on so many threads, or on all cores."""
    _prepare_threads()
    count = min(count, len(_cores()))
    if tvm.get_global_func("runtime.NumThreads")() != count:
        _configure_threads(count)


@functools.cache
def _prepare_threads() -> None:
    """Before anything else: TVM by itself takes half of the hardware threads, for good.

    Its threads would also spin for a tenth of a second after each kernel, and the system makes who
    spins wait when other processes want the cores. Some hundred microseconds bridge the way to the
    next kernel.
    """
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "2000")
    _configure_threads(default_threads())


def _configure_threads(count: int) -> None:
    share_all_cores = -3
    cores = [str(core) for core in _cores()]
    tvm.get_global_func("runtime.config_threadpool")(share_all_cores, count, cores)


def _cores() -> list[int]:
    """The numbers of the cores that this process may run on."""
    allowed: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return sorted(allowed(0)) if allowed else list(range(os.cpu_count() or 1))
