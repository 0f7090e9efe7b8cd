"""Reset of TVM's thread pool in a process that was forked from one with a pool.

Threads do not survive a fork. The pool that the process inherits would wait for its threads for
good, in a call and when the process ends, and TVM 0.27 has no function that gives it up. It is a
``ThreadPool`` of ``src/runtime/thread_pool.cc`` among the thread-local variables of TVM's runtime:
:func:`pool_of_this_thread` finds it there by its members, :func:`forget` empties them.
"""

from __future__ import annotations

import ctypes
from typing import Any

_RUNTIME = "libtvm_runtime.so"
_RESET = "_ZN3tvm7runtime9threading15ResetThreadPoolEv"
"""The function ``tvm::runtime::threading::ResetThreadPool``, which makes a pool's threads again."""

_THREAD_LOCAL_SEGMENT = 7
"""``PT_TLS``, the type of the part of a library that has its thread-local variables."""


class _Pool(ctypes.Structure):
    """The members of a ``ThreadPool``; ``queues`` is a vector of pointers, one for each worker."""

    _fields_ = (
        ("workers", ctypes.c_int),
        ("workers_used", ctypes.c_int),
        ("excludes_first", ctypes.c_uint64),
        ("queues", ctypes.c_uint64 * 3),
        ("threads", ctypes.c_uint64),
    )

    def is_valid(self) -> bool:
        """Whether the members are plausible for a pool with threads."""
        first, last, capacity = self.queues
        return (
            0 < self.workers_used <= self.workers
            and self.excludes_first & 0xFF in (0, 1)
            and first > 0
            and last - first == ctypes.sizeof(ctypes.c_void_p) * self.workers
            and last <= capacity
            and self.threads != 0
        )


class _Segment(ctypes.Structure):
    """``Elf64_Phdr``: the header that describes a segment of a library."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("offset", "address", "physical", "in_file")),
        ("size", ctypes.c_uint64),
        ("alignment", ctypes.c_uint64),
    )


class _Library(ctypes.Structure):
    """``struct dl_phdr_info``: the description of a loaded library.

    ``variables`` are this thread's.
    """

    _fields_ = (
        ("address", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("segments", ctypes.POINTER(_Segment)),
        ("segment_count", ctypes.c_uint16),
        ("loaded", ctypes.c_uint64),
        ("unloaded", ctypes.c_uint64),
        ("number", ctypes.c_size_t),
        ("variables", ctypes.c_void_p),
    )


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)


def pool_of_this_thread() -> Any:
    """Return the pool of the current thread.

    It is None if it has none, or another form than in TVM 0.27.
    """
    visit_libraries = getattr(ctypes.CDLL(None), "dl_iterate_phdr", None)
    if visit_libraries is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    found: list[tuple[int, int]] = []

    def visit(library: Any, size: int, _: object) -> int:
        each = library.contents
        if size >= ctypes.sizeof(_Library) and each.variables and _is_runtime(each.name):
            segments = each.segments[: each.segment_count]
            sizes = (s.size for s in segments if s.kind == _THREAD_LOCAL_SEGMENT)
            found.extend((each.variables, size) for size in sizes)
        return 0

    visit_libraries(_Visit(visit), None)
    for start, size in found:
        for offset in range(0, size - ctypes.sizeof(_Pool) + 1, ctypes.alignment(_Pool)):
            pool = _Pool.from_address(start + offset)
            if pool.is_valid():
                return pool
    return None


def _is_runtime(path: bytes | None) -> bool:
    return (path or b"").endswith(_RUNTIME.encode())


def forget(pool: Any) -> None:
    """Let a pool have neither threads nor tasks; calls run on one thread until :func:`renew`."""
    pool.workers_used = 1
    pool.queues[:] = (0, 0, 0)
    pool.threads = 0


def renew() -> None:
    """Give the pool of this thread new threads."""
    getattr(ctypes.CDLL(_RUNTIME), _RESET)()
