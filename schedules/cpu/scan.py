"""The rule for running totals and other recurrences, which are read from ordered loops.

Enters: a PrimFunc that reads what it wrote before (:mod:`recurrence`). Leaves: one whose free axes
run in parallel and in vector lanes (:mod:`recurrence_lanes`); a running total along contiguous
elements is made of vectors of totals instead (:mod:`running_totals`).

Along which axis something is carried may be told by data, as by a test ``axis[] == 1`` in an index.
Then there are loops for each such test where it alone holds, and those in order for all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit, recurrence_lanes, running_totals
from tvm_nnef.schedules.cpu.description import Description
from tvm_nnef.schedules.cpu.ordered_nests import Nest, read_nests, with_nests
from tvm_nnef.schedules.cpu.recurrence import read_recurrence
from tvm_nnef.schedules.cpu.recurrence_merging import merged
from tvm_nnef.schedules.expressions import loads, mentions
from tvm_nnef.tvm_support.compat import PrimFunction, opaque_block

NAME = "cpu.scan"

_MOST_TESTS = 8
"""So many tests at most have loops of their own."""


def apply(function: PrimFunction, description: Description) -> PrimFunction | None:
    """The function step by step, many steps at once; None where it is no such recurrence."""
    nests = read_nests(function)
    if nests is None:
        return None
    block = opaque_block(function)
    body, allocated = _statement(function, nests, description), []
    if body is None:
        tests = _tests(nests)
        made = [(test, _statement(function, [_where(nest, test, tests) for nest in nests],
                                  description)) for test in tests]  # fmt: skip
        if not any(found is not None for _, found in made):
            return None
        body, allocated = block.body, list(block.alloc_buffers)
        for test, found in made:
            if found is not None:
                others = [tirx.Not(other) for other in tests if other is not test]
                body = tirx.IfThenElse(tirx.all(test, *others), found, body)
    return with_nests(function, nests, allocated, body)


def _statement(function: PrimFunction, nests: Sequence[Nest], description: Description) -> Any:
    """The loops of a recurrence; None where the nests are none."""
    recurrence = read_recurrence(function, nests)
    if recurrence is None:
        return None
    recurrence, views = merged(recurrence)
    body = running_totals.statement(recurrence, description)
    if body is None:
        body = recurrence_lanes.statement(recurrence, description)
    return emit.sequence([*views, body])


def _tests(nests: Sequence[Nest]) -> list[Any]:
    """The tests in indices that are the same in all steps; none of them where they are many."""
    found: list[Any] = []
    inside = [var for nest in nests for var, _ in nest.loops]
    inside += [s.buffer for nest in nests for s in nest.found((tirx.BufferStore, tirx.AllocBuffer))]
    inside += [bound.var for nest in nests for bound in nest.found(tirx.Bind)]
    for nest in nests:
        for index in (index for load in loads(nest.body) for index in load.indices):
            tests: list[Any] = []
            tvm_ffi.structural_walk(index, (tirx.EQ, tests.append), order="post")
            for test in tests:
                known = any(tvm_ffi.structural_equal(test, other) for other in found)
                fixed = not mentions(test, inside)
                if not known and fixed and all(map(_is_there, loads(test))):
                    found.append(test)
    return found if len(found) <= _MOST_TESTS else []


def _is_there(load: Any) -> bool:
    """Whether an element is known, and certainly one of the buffer."""
    pairs = zip(load.indices, load.source.shape, strict=True)
    return all(isinstance(index, tirx.IntImm) and sizes.is_below(int(index), sizes.extent(extent))
               for index, extent in pairs)  # fmt: skip


def _where(nest: Nest, test: Any, tests: Sequence[Any]) -> Nest:
    """A nest where one of the tests holds, and no other does."""

    def decided(found: Any) -> Any:
        for each in tests:
            if tvm_ffi.structural_equal(found, each):
                return tirx.const(each is test, "bool")
        return found

    return replace(nest, body=tvm_ffi.structural_map(nest.body, (tirx.EQ, decided), order="post"))
