"""The search for a schedule of one kernel: TVM's evolutionary search, run a batch at a time.

Input: a PrimFunc as the strategies get it, with their schedule of it. Output: a record, which is up
to date after every batch, so that a search can stop at any moment and continue from the record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tvm
from tvm import s_tir
from tvm.s_tir import meta_schedule

from tvm_nnef.compilation.traces import (
    Trace,
    as_module,
    complaint,
    function_of,
    scheduled_by,
    trace_of,
)
from tvm_nnef.compilation.tuning_database import MAX_TRACES, Database, Measured, Record, hash_of
from tvm_nnef.measurement.kernels import random_arguments
from tvm_nnef.schedules import SHORTCUTS, Scheduled
from tvm_nnef.tuning import trial
from tvm_nnef.tvm_support.compat import PrimFunction, Target

BATCH = 8
"""The number of schedules that the search proposes before it gets their times."""

_POPULATION, _RANDOM, _GENERATIONS = 64, 16, 2
_ENDLESS = 100_000
_KIND = "llvm"
"""The kind of TVM's search strategies that works on every CPU."""


class KernelSearch:
    """A kernel, the results so far (``record``), and the search for more.

    ``calls`` is the number of calls in the model. ``exhausted`` means that all schedules were
    tried.
    """

    def __init__(
        self, name: str, calls: int, function: PrimFunction, strategy: Scheduled,
        target: Target, threads: int, known: Record | None,
    ) -> None:  # fmt: skip
        """Time the strategy's schedule; raise ValueError if the kernel cannot be called alone."""
        arguments = random_arguments(function, {})
        by_strategy = trial.compiled(strategy[0], target)
        if arguments is None or by_strategy is None:
            raise ValueError(f"kernel '{name}' cannot be timed by itself")
        self.name, self.calls, self.function = name, calls, function
        self._arguments, self._target = arguments, target
        self._by_strategy = by_strategy, trial.is_parallel(strategy[0])
        self._threads = threads
        self._choice = strategy[1]
        self._context: Any = None
        self.exhausted = strategy[1].plan.strategy in SHORTCUTS
        seconds = trial.seconds_of(by_strategy, arguments)
        fresh = Record(name, strategy[1].plan.strategy, hash_of(strategy[0]), threads, 0, seconds)
        self.record = fresh
        if known is not None:
            self.record = replace(fresh, trials=known.trials, traces=known.traces)
            if (known.strategy_hash, known.threads) == (fresh.strategy_hash, threads):
                self.record = known
            else:
                # Other strategies or threads: what was measured says nothing of who is faster now.
                self.record = replace(self.record, judged=not known.traces)

    @property
    def seconds(self) -> float:
        """The time of the kernel with its best schedule."""
        tuned = self.record.tuned_seconds
        return self.record.strategy_seconds if tuned is None else tuned

    def step(self, batch: int, observe: Callable[[], None]) -> None:
        """Measure a batch, with ``observe`` after each trial; :meth:`judge` has to follow.

        The record has all results so far, also if the batch is interrupted.
        """
        if self._step_plans(batch, observe):
            return
        candidates = self._candidates()
        if not candidates:
            self.exhausted = True
            return
        results = []
        for candidate in candidates[:batch]:
            results.append(self._tried(candidate))
            observe()
        if len(results) == len(candidates):
            self._context.notify_runner_results(candidates, results)
        else:
            # The search needs the results of all that it proposed, or a new start.
            self._context = None

    def _step_plans(self, batch: int, observe: Callable[[], None]) -> bool:
        """Measure a batch of the alternatives of the plan; return whether there were any left."""
        done = len(self.record.plans)
        plans = self._alternatives[done : done + batch]
        for scheduled in plans:
            seconds = None
            kernel = trial.compiled_if_small(scheduled, self._target)
            if kernel is not None:
                seconds = trial.seconds_of(kernel, self._arguments, self.seconds)
            self.record = replace(
                self.record,
                trials=self.record.trials + 1,
                plans=(*self.record.plans, seconds),
                judged=self.record.judged and (seconds is None or seconds >= self.seconds),
            )
            observe()
        return bool(plans)

    @functools.cached_property
    def _alternatives(self) -> list[PrimFunction]:
        return self._choice.alternatives()

    @property
    def _best(self) -> float:
        traces = self.record.traces
        return traces[0].seconds if traces else float("inf")

    def _candidates(self) -> list[Any]:
        try:
            if self._context is None:
                self._context = self._started()
            found = self._context.generate_measure_candidates()
        except (tvm.error.InternalError, RuntimeError, s_tir.ScheduleError):
            return []
        return [] if found is None else list(found)

    def _started(self) -> Any:
        """Return the context of a search that starts with the schedules of the record."""
        context = tuning_context(
            as_module(self.function),
            tvm.target.Target({**dict(self._target.export()), "num-cores": self._threads}),
            seed=1 + self.record.trials,
        )
        spaces = context.generate_design_space()
        self._known = meta_schedule.database.MemoryDatabase()
        self._workload = self._known.commit_workload(context.mod)
        context.pre_tuning(
            _ENDLESS, BATCH, spaces, self._known, meta_schedule.cost_model.RandomModel(seed=0)
        )
        for measured in self.record.traces:
            schedule = scheduled_by(self.function, measured.trace)
            if schedule is not None:
                self._commit(schedule, measured.seconds)
        return context

    def _commit(self, schedule: Any, seconds: float) -> None:
        record = meta_schedule.database.TuningRecord(
            schedule.trace, self._workload, [seconds], self._target
        )
        self._known.commit_tuning_record(record)

    def _tried(self, candidate: Any) -> Any:
        """Return the result of a candidate for the search; add it to the record."""
        trials = self.record.trials + 1
        self.record = replace(self.record, trials=trials)
        kernel = trial.compiled_if_small(function_of(candidate.sch), self._target)
        trace = trace_of(candidate.sch)
        if kernel is None or complaint(trace) is not None:
            return meta_schedule.runner.RunnerResult(None, "it cannot be compiled or kept")
        best = min(self._best, self.record.strategy_seconds)
        seconds = trial.seconds_of(kernel, self._arguments, best)
        self._commit(candidate.sch, seconds)
        judged = self.record.judged and seconds >= self._best
        kept = sorted([*self.record.traces, Measured(seconds, trace)], key=lambda m: m.seconds)
        self.record = replace(self.record, traces=tuple(kept[:MAX_TRACES]), judged=judged)
        return meta_schedule.runner.RunnerResult([seconds], None)

    def judge(self) -> None:
        """Compare the best schedule with the strategy's, in turns, if that was not done yet.

        If it is faster, and by more than the best so far, it will be built. A schedule with
        different results is removed, and the next one is compared.
        """
        if self.record.judged:
            return
        self.record = replace(self.record, judged=True)
        self._judge_plans()
        for measured in self.record.traces:
            verdict = self._compared(measured.trace)
            if verdict is None or not verdict.same:
                rest = tuple(each for each in self.record.traces if each is not measured)
                self.record = replace(self.record, traces=rest)
                continue
            if verdict.tuned_wins and verdict.gain > self.record.gain:
                self.record = replace(
                    self.record,
                    strategy_seconds=verdict.strategy,
                    tuned_seconds=verdict.tuned,
                    chosen=measured.trace,
                    plan=None,
                )
            return

    def _judge_plans(self) -> None:
        """Compare the fastest alternative of the plan with the plan itself, like :meth:`judge`."""
        times = [(s, n) for n, s in enumerate(self.record.plans) if s is not None]
        for seconds, number in sorted(times):
            if seconds >= self.seconds:
                return
            verdict = self._compared(number)
            if verdict is not None and verdict.same:
                if verdict.tuned_wins and verdict.gain > self.record.gain:
                    self.record = replace(
                        self.record, strategy_seconds=verdict.strategy, tuned_seconds=verdict.tuned,
                        chosen=None, plan=number,
                    )  # fmt: skip
                return
            plans = (*self.record.plans[:number], None, *self.record.plans[number + 1 :])
            self.record = replace(self.record, plans=plans)

    def _compared(self, found: Trace | int) -> trial.Verdict | None:
        """Compare a trace, or the alternative of the plan with a number, with the strategy's
        schedule.
        """
        if isinstance(found, int):
            scheduled = self._alternatives[found]
        else:
            schedule = scheduled_by(self.function, found)
            if schedule is None:
                return None
            scheduled = function_of(schedule)
        tuned = trial.compiled_if_small(scheduled, self._target)
        if tuned is None:
            return None
        parallel = trial.is_parallel(scheduled)
        return trial.compared(self._by_strategy, (tuned, parallel), self.function, self._threads)


def tuning_context(mod: Any, target: Target, *, seed: int) -> Any:
    """Return TVM's context of a search over schedules for a CPU.

    It is created without the constructor of the class, which first imports the intrinsics of all
    targets: minutes of parsing for intrinsics that no schedule here uses.
    """
    strategy = meta_schedule.search_strategy.EvolutionarySearch(
        population_size=_POPULATION,
        init_min_unmeasured=_RANDOM,
        genetic_num_iters=_GENERATIONS,
    )
    space = meta_schedule.space_generator.PostOrderApply(
        sch_rules=_KIND, postprocs=_KIND, mutator_probs=_KIND
    )
    context = meta_schedule.TuneContext.__new__(meta_schedule.TuneContext)
    interface = meta_schedule._ffi_api
    context.__init_handle_by_constructor__(
        interface.TuneContext, mod, target, space, strategy, "main", 1, seed, _silent
    )
    interface.TuneContextInitialize(context)
    return context


def _silent(level: int, file: str, line: int, message: str) -> None:
    """Discard the log messages of the search, which would be written to standard error."""


def kept(database: Database, search: KernelSearch) -> None:
    """Write the results of a search into a database."""
    database.write(search.function, search.record)
