"""Traces: the steps of a schedule as plain data, and a PrimFunc scheduled by them.

A trace comes out of a file that anybody may have written, so each step must be of a kind that only
moves and splits loops. Such steps keep what a kernel computes, or cannot be applied to it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import tvm
from tvm import IRModule, s_tir, tirx

from tvm_nnef.tvm_support.compat import PrimFunction, with_own_symbols

Trace: TypeAlias = "list[Any]"
"""Steps and decisions, as TVM writes a trace as JSON."""

MAX_STEPS = 20_000

_STEPS = frozenset(
    {
        "AddUnitLoop", "Annotate", "CacheRead", "CacheWrite", "ComputeAt", "ComputeInline",
        "DecomposeReduction", "EnterPostproc", "Fuse", "GetChildBlocks", "GetConsumers", "GetLoops",
        "GetOutputBlocks", "GetProducers", "GetSBlock", "LoopPartition", "Merge", "Parallel",
        "RFactor", "Reorder", "ReorderBlockIterVar", "ReverseComputeAt", "ReverseComputeInline",
        "SampleCategorical", "SampleComputeLocation", "SamplePerfectTile", "Split",
        "Unannotate", "Unroll", "Vectorize",
    }
)  # fmt: skip
"""The steps that a trace may have: none that changes values, types, or where memory is."""

_NOTES = ("meta_schedule.",)
"""Prefixes of annotations that TVM reads while it searches. Others may reach code in
another language."""

_UNROLLING = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")
"""Annotations that have a number, which TVM reads when it compiles."""

_LARGEST_UNROLLED = 1024

_MEMORY = ("global", "local")
"""Where copies of a buffer may be: what a CPU has."""

_LARGEST = 1 << 31


def complaint(trace: Any) -> str | None:
    """Return the error in the form of a trace; None if there is none."""
    if not isinstance(trace, list) or len(trace) != 2:
        return "a trace is a list of steps and a list of decisions"
    steps, decisions = trace
    if not isinstance(steps, list) or not isinstance(decisions, list) or len(steps) > MAX_STEPS:
        return "a trace is a list of steps and a list of decisions"
    for step in steps:
        if not isinstance(step, list) or len(step) != 4 or not isinstance(step[0], str):
            return "a step is a name and three lists"
        if step[0] not in _STEPS:
            return f"'{step[0]}' is not a step of a tuned schedule"
        if not all(isinstance(part, list) and _is_plain(part, 3) for part in step[1:]):
            return f"step '{step[0]}' has unreadable arguments"
        if step[0] in ("Annotate", "Unannotate") and not _is_known_note(*step[1:3]):
            return f"step '{step[0]}' writes an annotation that no tuned schedule has"
        if step[0] in ("CacheRead", "CacheWrite") and step[2][-1:] not in ([m] for m in _MEMORY):
            return f"step '{step[0]}' uses memory that no CPU has"
    for decision in decisions:
        if not isinstance(decision, list) or len(decision) != 2 or not _is_plain(decision, 3):
            return "a decision is the number of a step, and a value"
        if not isinstance(decision[0], int) or not 0 <= decision[0] < len(steps):
            return "a decision is about a step that is not there"
    return None


def scheduled_by(function: PrimFunction, trace: Trace) -> Any:
    """The ``Schedule`` of a PrimFunc after the steps of a trace; None if they do not fit.

    The trace has a form that :func:`complaint` has nothing against.
    """
    schedule = s_tir.Schedule(as_module(function))
    try:
        s_tir.schedule.Trace.apply_json_to_schedule(trace, schedule)
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, s_tir.ScheduleError):
        return None
    return schedule


def as_module(function: PrimFunction) -> IRModule:
    """A module with a copy of a PrimFunc as its ``main``.

    TVM's schedules change loops in place, those of a function that others hold, too.
    """
    copy = with_own_symbols(function)
    return tvm.IRModule({"main": copy.with_attr("global_symbol", "main")})


def function_of(schedule: Any) -> PrimFunction:
    """The PrimFunc of a schedule, without the name that :func:`as_module` gave it."""
    function: PrimFunction = schedule.mod["main"]
    return function.without_attr("global_symbol")


def trace_of(schedule: Any) -> Trace:
    """The steps of a schedule as plain data."""
    plain: Trace = _plain(schedule.trace.as_json())
    return plain


def _plain(value: Any) -> Any:
    """Lists, text and numbers instead of TVM's own classes of such."""
    match value:
        case tirx.IntImm():
            return int(value.value)
        case tirx.FloatImm():
            return float(value.value)
        case str():
            return str(value)
        case None | bool() | int() | float():
            return value
        case _:
            return [_plain(item) for item in value]


def _is_plain(value: Any, depth: int) -> bool:
    if value is None or isinstance(value, (bool, float)):
        return True
    if isinstance(value, int):
        return abs(value) <= _LARGEST
    if isinstance(value, str):
        return len(value) <= 4096
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return False


def _is_known_note(inputs: list[Any], attributes: list[Any]) -> bool:
    if len(attributes) != 1 or not isinstance(attributes[0], str):
        return False
    if attributes[0] not in _UNROLLING:
        return attributes[0].startswith(_NOTES)
    values = inputs[1:]
    return all(isinstance(value, int) and 0 <= value <= _LARGEST_UNROLLED for value in values)
