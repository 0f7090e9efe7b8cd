"""Measurement of the calls of kernels in a run, and the profile by operations.

Input: a virtual machine, a function that runs a model on it, and the metadata of its library.
Output: a :class:`~tvm_nnef.profiling.profile.Profile`. Imports no compiler.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_nnef.diagnostics import UnsupportedError, error
from tvm_nnef.profiling.profile import KernelTime, OperationTime, Profile
from tvm_nnef.profiling.timing import timed

_Call = tuple[str, int]
"""A call of a kernel: the function that contains it, and its index among the calls there."""


def profiled(
    machine: Any,
    run: Callable[[], object],
    metadata: Mapping[str, Any],
    entry: str,
    repeat: int,
    warmup: int,
) -> Profile:
    """Return the profile of ``run``, which runs the function ``entry`` on a virtual machine.

    Raises UnsupportedError for a device on which a call returns before its kernels have run, and
    NnefError for a library that does not describe its operations.
    """
    check_profile(metadata)
    plain = timed(run, repeat, warmup).median
    recorder = _Recorder(metadata["calls"], entry)
    machine["set_instrument"](recorder.note)
    try:
        for _ in range(repeat):
            recorder.begin()
            run()
    finally:
        machine["set_instrument"](None)
    return _profile(metadata, recorder, plain, repeat)


def check_profile(metadata: Mapping[str, Any]) -> None:
    """Raise NnefError if a library with some metadata cannot be profiled."""
    device = str(metadata["target"]["device"])
    if device != "cpu":
        hint = "profile the model on the CPU, or use the profiler of the GPU"
        message = f"profiling measures kernels on the CPU, and this model is built for {device}"
        raise error(message, hint=hint, kind=UnsupportedError)
    if not metadata.get("operations"):
        hint = "build it from the model with this version; modules of other origin have none"
        raise error("the library does not describe the operations of its model", hint=hint)


@dataclass(slots=True)
class _Recorder:
    """A recorder of the time of each call of a kernel, in runs of the ``entry`` function.

    ``calls`` are the kernels that each function calls, in order. ``cost`` is the shortest time of
    any call: the overhead of the recorder.
    """

    calls: Mapping[str, Sequence[Any]]
    entry: str
    cost: float = float("inf")
    runs: list[dict[_Call, float]] = field(default_factory=list)
    counts: Counter[_Call] = field(default_factory=Counter)
    _positions: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    _frames: list[tuple[str, Counter[str]]] = field(default_factory=list)
    _starts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for function, calls in self.calls.items():
            positions = self._positions.setdefault(function, defaultdict(list))
            for number, (kernel, _) in enumerate(calls):
                positions[kernel].append(number)

    def begin(self) -> None:
        """Begin another run."""
        self.runs.append({})
        self.counts.clear()
        self._starts.clear()
        self._frames[:] = [(self.entry, Counter())]

    def note(self, _: object, name: str, before: bool, *__: object) -> int:
        """Record a call; the virtual machine calls this before and after each."""
        now = time.perf_counter()
        if before:
            if name in self._positions:
                self._frames.append((name, Counter()))
            self._starts.append(time.perf_counter())
            return 0
        seconds = now - self._starts.pop()
        if name in self._positions:
            self._frames.pop()
            return 0
        self.cost = min(self.cost, seconds)
        function, seen = self._frames[-1]
        numbers = self._positions.get(function, {}).get(name)
        if numbers:
            call = (function, numbers[seen[name] % len(numbers)])
            seen[name] += 1
            self.counts[call] += 1
            self.runs[-1][call] = self.runs[-1].get(call, 0.0) + seconds
        return 0

    def medians(self) -> Iterator[tuple[_Call, float, int]]:
        """Return the median seconds of each call in a run, and the number of its calls, in
        order.
        """
        for call, count in self.counts.items():
            seconds = float(np.median([run.get(call, 0.0) for run in self.runs]))
            yield call, max(0.0, seconds - count * self.cost), count


def _profile(metadata: Mapping[str, Any], recorder: _Recorder, plain: float, runs: int) -> Profile:
    described = metadata["operations"]
    names = [str(each["name"]) for each in described]
    seconds = [0.0] * len(names)
    kernels: list[dict[str, None]] = [{} for _ in names]
    is_shared = [False] * len(names)
    found: list[KernelTime] = []
    for (function, number), time_of_call, count in recorder.medians():
        kernel, shares = metadata["calls"][function][number]
        inside = tuple(names[operation] for operation, _ in shares)
        found.append(KernelTime(kernel, inside, time_of_call, count))
        whole = sum(share for _, share in shares)  # 1, except for rounding.
        for operation, share in shares:
            for each in _with_parents(operation, described):
                seconds[each] += time_of_call * share / whole
                kernels[each][kernel] = None
            is_shared[operation] |= len(shares) > 1
    for number in reversed(range(len(names))):
        parent = described[number].get("parent")
        if parent is not None:
            is_shared[parent] |= is_shared[number]
    rows = tuple(
        OperationTime(
            names[number],
            str(each["operator"]),
            seconds[number],
            is_shared[number],
            tuple(kernels[number]),
            None if each.get("parent") is None else names[each["parent"]],
            str(each.get("place", "")),
            str(each.get("source", "")),
        )
        for number, each in enumerate(described)
    )
    overhead = max(0.0, plain - sum(kernel.seconds for kernel in found))
    return Profile(rows, tuple(found), overhead, runs)


def _with_parents(operation: int, described: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    """Return an operation and the composites around it."""
    number: int | None = operation
    while number is not None:
        yield number
        number = described[number].get("parent")
