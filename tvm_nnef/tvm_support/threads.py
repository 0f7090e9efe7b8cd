"""Number of threads on which kernels run: TVM's thread pools, set up for all cores of this process.

Input: the number that a user asks for. TVM has a pool for each thread of Python that runs
kernels.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

from tvm_nnef.diagnostics import error
from tvm_nnef.support.environment import whole_number
from tvm_nnef.tvm_support import forked_pools
from tvm_nnef.tvm_support.processor_quota import processor_quota
from tvm_nnef.tvm_support.runtime import runtime_function

_MOST_POOLS = 256
"""Upper limit of the number of Python threads whose pools are remembered as set up."""


def default_threads() -> int:
    """Return the default number of threads for kernels: one for each core that this process may
    use.

    These are the cores of its affinity, limited by the quota of its control group. If the user has
    set TVM_NUM_THREADS or OMP_NUM_THREADS, which TVM reads, it is that number, at most the number
    of cores.
    """
    cores = available_cores()
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        number = whole_number(name, 1, first_of_list=True)
        if number is not None:
            return min(number, cores)
    return min(cores, processor_quota() or cores)


def available_cores() -> int:
    """Return the number of cores that the current thread may run on, the most that kernels use."""
    return len(_cores())


def checked_threads(count: object) -> int:
    """Return the number of threads that a user gave, or the default for None; NnefError below 1."""
    if count is None:
        return default_threads()
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        hint = "give 1 or more; all cores are used if it is more than there are"
        raise error(f"threads cannot be {count!r}", hint=hint)
    return count


def use_threads(count: int) -> None:
    """Let the kernels that this thread of Python calls run on so many threads, or on all cores."""
    if getattr(_ASKED, "count", None) == count:
        return
    least = min(count, _cores_of_pool(threading.current_thread()))
    if runtime_function("runtime.NumThreads")() != least:
        _configure_threads(least)
    _ASKED.count = count


_ASKED = threading.local()
"""The number of threads that the current Python thread asked for last."""


@functools.lru_cache(_MOST_POOLS)
def _cores_of_pool(thread: threading.Thread) -> int:
    """Return the number of cores of the current thread's pool; set the pool up on the first call.

    This has to run before anything else: TVM by itself takes half of the hardware threads for good,
    and limits the calling thread to one of them. Its threads would also spin for a tenth of a
    second after each kernel, and the system delays threads that spin when other processes want the
    cores. Spinning for some hundred microseconds suffices until the next kernel.
    """
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "2000")
    _watch_forks()
    if thread in _FORGOTTEN:
        forked_pools.renew()
        _FORGOTTEN.remove(thread)
    _configure_threads(default_threads())
    return available_cores()


@functools.cache
def _watch_forks() -> None:
    """Let processes that are forked from now on make the pool of their thread again."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_note_pool, after_in_child=_forget_pool)


_FORKING: dict[int, Any] = {}
"""The pools of threads that fork this process, by the numbers of the threads."""

_FORGOTTEN: set[threading.Thread] = set()
"""The thread of a forked process whose pool has no threads yet."""


def _note_pool() -> None:
    _FORKING[threading.get_ident()] = forked_pools.pool_of_this_thread()


def _forget_pool() -> None:
    pool = _FORKING.get(threading.get_ident())
    _FORKING.clear()
    vars(_ASKED).clear()
    _cores_of_pool.cache_clear()
    if pool is not None:
        forked_pools.forget(pool)
        _FORGOTTEN.add(threading.current_thread())


def _configure_threads(count: int) -> None:
    share_all_cores = -3
    cores = [str(core) for core in _cores()]
    runtime_function("runtime.config_threadpool")(share_all_cores, count, cores)


def _cores() -> list[int]:
    """Return the numbers of the cores that the current thread may run on."""
    allowed: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return sorted(allowed(0)) if allowed else list(range(os.cpu_count() or 1))
