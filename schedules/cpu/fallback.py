"""The rule for every PrimFunc on a CPU that no better rule takes.

Outer loops run in parallel, the inner one in vector lanes. Correct for everything, fast enough to
live with; tiling for registers and caches is left to rules for particular patterns. A PrimFunc
that no schedule can look into (ordered loops) is left as it is, and named so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import IRModule, s_tir, tirx

from tvm_nnef.schedules.cpu.accesses import contiguous_score, extent, is_trivial, iterators
from tvm_nnef.tvm_compat import PrimFunction, Target

FALLBACK = "cpu.fallback"
ORDERED = "ordered"
UNSCHEDULED = "unscheduled"

_PARALLEL_WORK = 1 << 15
"""Starting the threads takes some microseconds: as long as so many scalar operations."""

_LANES = (64, 32, 16, 8, 4)
"""Lengths of the inner loop that are turned into vector operations, the best one first."""

_ACCUMULATORS = (16, 8, 4)
"""Numbers of partial results of a reduction that runs along its contiguous dimension."""


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, str]:
    """The scheduled function, and ``FALLBACK``, ``ORDERED`` or ``UNSCHEDULED``."""
    sch = s_tir.Schedule(IRModule({"main": function}))
    blocks = _blocks(sch)
    if not all(_is_regular(sch, block) for block in blocks):
        return function, ORDERED
    try:
        _inline_producers(sch)
        for block in _blocks(sch):
            for part in _split_reduction(sch, block):
                _schedule_block(sch, part)
    except s_tir.ScheduleError:
        return function, UNSCHEDULED
    return sch.mod["main"].without_attr("global_symbol"), FALLBACK
