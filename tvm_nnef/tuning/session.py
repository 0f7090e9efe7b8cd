"""Tuning of a module: the order of searches, progress reports, and storing of results.

Input: a module. Output: schedules in a database. Kernels are those that the strategies get, after
all passes over the graph. The kernel with the best prospects is first: much time in the model, few
trials so far.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.compilation.tuning_database import Database, Record, hash_of
from tvm_nnef.diagnostics import error
from tvm_nnef.measurement.kernels import calls_of
from tvm_nnef.schedules import Scheduled
from tvm_nnef.tuning.report import Observer, TunedKernel, TuningReport, TuningState
from tvm_nnef.tuning.search import BATCH, KernelSearch, kept
from tvm_nnef.tvm_support.build import runs_here
from tvm_nnef.tvm_support.compat import Module, PrimFunction, Target
from tvm_nnef.tvm_support.threads import available_cores, checked_threads, use_threads

_WITHOUT_LOOPS = ("ordered", "unscheduled")
"""Strategies of kernels whose loops no schedule can change."""


def tune_module(
    mod: Module,
    target: object,
    *,
    trials: int,
    database: str | os.PathLike[str],
    progress: bool | Observer = False,
    threads: int | None = None,
) -> TuningReport:
    """Search schedules for the kernels of a module; see :func:`tvm_nnef.tune`."""
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise error(f"trials cannot be {trials!r}", hint="give a whole number, 1 or more")
    threads = min(checked_threads(threads), available_cores())
    resolved = resolve(target)
    if not runs_here(resolved):
        raise error(
            f"this machine does not run code for the target '{resolved}', so it cannot tune for it",
            hint="tune on a machine of that kind, and build there or here with its database",
        )
    folder = Database.opened(database, resolved, create=True)
    with folder.kept_from_others(), _observed(progress) as observe:
        searches, left_out = _searches(mod, resolved, folder, threads)
        return _tuned(searches, left_out, trials, folder, observe)


def _observed(progress: bool | Observer) -> AbstractContextManager[Observer]:
    if progress is not True:
        return nullcontext(progress or (lambda state: None))
    from tvm_nnef.tuning.progress import tuning_reported

    return tuning_reported()


def _tuned(
    searches: list[KernelSearch],
    left_out: tuple[str, ...],
    trials: int,
    folder: Database,
    observe: Observer,
) -> TuningReport:
    def report() -> TuningReport:
        return _report(searches, left_out)

    def judge(search: KernelSearch) -> None:
        if not search.record.judged:
            search.judge()
            kept(folder, search)

    with _interrupted_between_trials() as stop_if_asked:
        for search in searches:
            judge(search)
            stop_if_asked()
        while True:
            done = sum(search.record.trials for search in searches)
            promising = [search for search in searches if not search.exhausted]
            if done >= trials or not promising:
                return report()
            search = max(promising, key=_promise)

            def observe_trial(search: KernelSearch = search) -> None:
                if search.record.trials:
                    kept(folder, search)
                found = report()
                observe(TuningState(found.trials, trials, search.name, found))
                stop_if_asked()

            observe_trial()
            try:
                search.step(min(BATCH, trials - done), observe_trial)
            finally:
                judge(search)


@contextmanager
def _interrupted_between_trials() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C or a request to end was received.

    Threads of TVM's search poll for signals as well, and an exception ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    seen: list[int] = []

    def stop_if_asked() -> None:
        if seen:
            raise KeyboardInterrupt(signal.Signals(seen[0]))

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, lambda number, frame: seen.append(number))
    try:
        yield stop_if_asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)


def _promise(search: KernelSearch) -> float:
    """Return the seconds of a model's run that another batch may save."""
    return search.calls * search.seconds / (search.record.trials + BATCH)


def _searches(
    mod: Module, target: Target, folder: Database, threads: int
) -> tuple[list[KernelSearch], tuple[str, ...]]:
    """Return a search for each kernel that can be searched, and the names of the others."""
    fused = run_phases(mod, target, last="fuse")
    calls = calls_of(fused)
    kernels: dict[str, tuple[str, int, PrimFunction, Scheduled]] = {}
    left_out: list[str] = []

    def see(name: str, function: PrimFunction, by_strategies: Callable[[], Scheduled]) -> None:
        strategy = by_strategies()
        key = hash_of(function)
        if strategy[1].plan.strategy in _WITHOUT_LOOPS or not calls.get(name, 0):
            left_out.append(name)
        elif key in kernels:
            first, number, same, scheduled = kernels[key]
            kernels[key] = (first, number + calls[name], same, scheduled)
        else:
            kernels[key] = (name, calls[name], function, strategy)

    run_phases(fused, target, "schedule", "schedule", tuned=see)
    use_threads(threads)
    searches = []
    for name, number, function, strategy in kernels.values():
        known: Record | None = folder.read(function)
        try:
            searches.append(KernelSearch(name, number, function, strategy, target, threads, known))
        except ValueError:
            left_out.append(name)
    return searches, tuple(sorted(left_out))


def _report(searches: list[KernelSearch], left_out: tuple[str, ...]) -> TuningReport:
    kernels = [
        TunedKernel(
            name=search.name,
            strategy=search.record.strategy,
            calls=search.calls,
            trials=search.record.trials,
            strategy_seconds=search.record.strategy_seconds,
            seconds=search.seconds,
        )
        for search in searches
    ]
    kernels.sort(key=lambda kernel: (-kernel.calls * kernel.seconds, kernel.name))
    return TuningReport(tuple(kernels), left_out, sum(kernel.trials for kernel in kernels))
