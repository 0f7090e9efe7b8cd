"""The strategy for reductions over small windows: pooling, depthwise convolutions.

A thread computes a run of results along an axis on which the window slides. It loads an element
that several of them read once, in the order in which the window reaches it. Consecutive threads
have results that are adjacent in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import COMPARISONS, linear
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.product.normal_form import inlined_reduction
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import loads, mentions, nodes, substituted, variables
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, choice_of, dtype_of

_MOST_STEPS = 64
"""Upper limit of the steps of a window, all of which are unrolled, to limit compile time."""

_MOST_COMBINED = 256
"""Upper limit of the steps of all results of a thread, to limit compile time."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A window ``step * axis + stride * reduced``: the only position on which its operands depend.

    Each operand has its value in the term, and a value that can be computed unconditionally.
    """

    axis: Axis
    reduced: Axis
    step: int
    stride: int
    operands: tuple[tuple[PrimExpression, PrimExpression], ...]

    def position(self, result: int, index: int) -> int:
        """Return the position that a result of a run reads at an index in the window."""
        return self.step * result + self.stride * index

    def readers(self, run: int) -> dict[int, list[tuple[int, int]]]:
        """Return the results, and indices in the window, that read each position, in their
        order.
        """
        readers_by_position: dict[int, list[tuple[int, int]]] = {}
        for pair in itertools.product(range(run), range(sizes.static(self.reduced.extent))):
            readers_by_position.setdefault(self.position(*pair), []).append(pair)
        return dict(sorted(readers_by_position.items()))


@dataclass(frozen=True, slots=True, eq=False)
class WindowPlan(GpuPlan):
    """A plan in which each thread computes ``run`` results along the axis of a window."""

    reduction: Reduction
    window: Window
    run: int

    strategy: ClassVar[str] = "gpu.window"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        machine, window = self.machine, self.window
        others = [axis for axis in self.reduction.axes if axis is not window.axis]
        threads = extent_product(others) * -(-window.axis.estimate // self.run)
        steps = extent_product(self.reduction.reduced)
        of_window = sum(len(loads(operand)) for operand, _ in window.operands)
        once = len(loads(self.reduction.term)) - of_window
        rest = steps // sizes.static(window.reduced.extent)
        loaded = of_window * len(window.readers(self.run)) * rest + once * steps
        busy = threads * loaded / (machine.shared_loads * machine.multiprocessors)
        waves = -(-threads // (machine.multiprocessors * machine.threads))
        own = machine.load_cycles + loaded * machine.issue_cycles
        return machine.launch_cycles + max(busy, waves * own)

    def decisions(self) -> Mapping[str, int | str]:
        """Return the threads of a block and the results of a thread."""
        return {"threads": self.machine.usual_threads, "run": self.run}

    def statement(self) -> tirx.Stmt:
        """Return the launch."""
        axis, found = self.window.axis, self.reduction
        runs = replace(axis, extent=sizes.quotient_above(axis.extent, self.run))
        axes = [runs if each is axis else each for each in found.axes]
        threads, dtype = self.machine.usual_threads, self.kernel.index_type
        return emit.sequence([*found.views, launch.elements(axes, threads, self._results, dtype)])

    def _results(self, point: launch.Point) -> tirx.Stmt:
        """Return the code for the results of a thread, given the index of its run."""
        reduction, axis = self.reduction, self.window.axis
        first = point[axis.var] * tirx.const(self.run, self.kernel.index_type)
        accumulators = launch.local(self.run, reduction.dtype, "accumulators")
        written: list[tirx.Stmt] = [tirx.AllocBuffer(accumulators)]
        written += [
            tirx.BufferStore(accumulators, reduction.init, [_at(n)]) for n in range(self.run)
        ]
        for readers in self.window.readers(self.run).values():
            written += self._position(readers, {**point, axis.var: first}, accumulators)
        for number in range(self.run):
            at = {**point, axis.var: self._index(first, number)}
            store = reduction.store(accumulators[(_at(number),)], at)
            written.append(launch.guarded(self._limits(first, number), store))
        return emit.sequence(written)

    def _position(
        self, readers: Sequence[tuple[int, int]], point: launch.Point, accumulators: Buffer
    ) -> Iterator[tirx.Stmt]:
        """Yield the code that loads a position, and combines it with the results that read it."""
        reduction, window = self.reduction, self.window
        first = point[window.axis.var]
        others = [axis for axis in reduction.reduced if axis is not window.reduced]
        for indices in itertools.product(*(range(sizes.static(a.extent)) for a in others)):
            rest = {a.var: _number(i, a) for a, i in zip(others, indices, strict=True)}

            def at(pair: tuple[int, int], rest: launch.Point = rest) -> launch.Point:
                index = _number(pair[1], window.reduced)
                result = self._index(first, pair[0])
                return {**point, **rest, window.axis.var: result, window.reduced.var: index}

            held = [launch.local(1, dtype_of(each), "loaded") for each, _ in window.operands]
            for (_, operand), buffer in zip(window.operands, held, strict=True):
                value = substituted(operand, at(readers[0]))
                # The first result that reads a position exists if any does.
                limits = self._limits(first, readers[0][0])
                if limits:
                    none = tirx.const(0, dtype_of(value))
                    value = tirx.if_then_else(launch.within(limits), value, none)
                yield tirx.AllocBuffer(buffer)
                yield tirx.BufferStore(buffer, value, [_at(0)])
            for pair in readers:
                term = _with_operands(reduction.term, window, held)
                own = accumulators[(_at(pair[0]),)]
                both = reduction.reducer.combine(own, substituted(term, at(pair)))
                yield tirx.BufferStore(accumulators, both, [_at(pair[0])])

    def _index(self, first: PrimExpression, number: int) -> PrimExpression:
        return first + tirx.const(number, dtype_of(first)) if number else first

    def _limits(self, first: PrimExpression, number: int) -> list[launch.Limit]:
        """Return the limits of the index of a result in a run, whose first result always exists."""
        extent = self.window.axis.extent
        index = self._index(first, number)
        return launch.limits((index, extent, self.run)) if number else []


def match(kernel: Kernel, machine: GpuModel) -> WindowPlan | None:
    """Return the plan of the lowest cost for a reduction over small windows; None for others."""
    reduction = inlined_reduction(kernel, machine)
    if reduction is None or not all(axis.is_known for axis in reduction.reduced):
        return None
    steps = extent_product(reduction.reduced)
    if steps > _MOST_STEPS or nodes(reduction.term, tirx.Let):
        return None
    plans = [
        WindowPlan(kernel, machine, reduction, window, run)
        for window in _windows(reduction)
        for run in range(1, machine.window_run + 1)
        if run * steps <= _MOST_COMBINED
    ]
    return min(plans, key=lambda plan: plan.cost, default=None)


def _windows(reduction: Reduction) -> Iterator[Window]:
    """Return the windows that slide along an axis, except for that of adjacent elements in
    memory.
    """
    for axis, reduced in itertools.product(reduction.axes[:-1], reduction.reduced):
        slopes = _slopes(reduction.term, axis, reduced)
        if slopes is None:
            continue
        operands: list[tuple[PrimExpression, PrimExpression]] = []
        for each in reversed(nodes(reduction.term, *_KINDS)):
            inside = any(_contains(other, each) for other, _ in operands)
            if not inside and _is_operand(each, axis, reduced, slopes):
                guards = _guards(reduction.term, each)
                if guards is None or not all(
                    _is_even(guard, axis, reduced, slopes) for guard in guards
                ):
                    break
                value = each
                for guard in guards:
                    value = tirx.if_then_else(guard, value, tirx.const(0, dtype_of(value)))
                operands.append((each, value))
        else:
            if operands:
                yield Window(axis, reduced, *slopes, tuple(operands))


_KINDS = (Call, TensorLoad, tirx.Cast, tirx.Select)
"""The classes of operands."""


def _contains(expression: PrimExpression, node: PrimExpression) -> bool:
    return any(each.same_as(node) for each in nodes(expression, *_KINDS))


def _guards(term: PrimExpression, operand: PrimExpression) -> list[PrimExpression] | None:
    """Return the conditions that guard an operand; None if it is selected in another way."""
    guards = []
    for each in nodes(term, *_KINDS):
        choice = None if each.same_as(operand) else choice_of(each)
        if choice is None or not _contains(each, operand):
            continue
        condition, _, other = choice
        if _contains(condition, operand) or _contains(other, operand):
            return None
        guards.append(condition)
    return guards


def _slopes(term: PrimExpression, axis: Axis, reduced: Axis) -> tuple[int, int] | None:
    """Return the strides of an index along an axis and a reduced one; None if no index has both."""
    for load in loads(term):
        for index in load.indices:
            if mentions(index, [axis.var]) and mentions(index, [reduced.var]):
                slopes = linear(index, axis.var, reduced.var)[:2]
                if len(slopes) == 2 and sizes.are_known(slopes) and min(slopes) > 0:
                    return int(slopes[0]), int(slopes[1])
    return None


def _is_operand(value: PrimExpression, axis: Axis, reduced: Axis, slopes: tuple[int, int]) -> bool:
    """Whether a loaded value depends on two axes only by their common position."""
    is_read = any(mentions(load, [axis.var]) for load in loads(value))
    return is_read and _is_even(value, axis, reduced, slopes)


def _is_even(value: PrimExpression, axis: Axis, reduced: Axis, slopes: tuple[int, int]) -> bool:
    """Whether only indices and comparisons in a value depend on the position."""
    both = (axis.var, reduced.var)
    tests = [test.a - test.b for test in nodes(value, *COMPARISONS)]
    parts = [*(index for load in loads(value) for index in load.indices), *tests]

    def uses(expression: PrimExpression) -> int:
        return sum(var in both for var in variables(expression))

    def grows(part: PrimExpression) -> bool:
        growth = linear(part, *both)[:2]
        if len(growth) < 2 or not sizes.are_known(growth):
            return False
        return tuple(growth) in (slopes, (-slopes[0], -slopes[1]))

    moving = [part for part in parts if uses(part)]
    return sum(map(uses, moving)) == uses(value) and all(map(grows, moving))


def _with_operands(term: PrimExpression, window: Window, held: Sequence[Buffer]) -> PrimExpression:
    """Return the term with loaded buffers instead of the operands of a window."""

    def replaced(node: PrimExpression) -> PrimExpression:
        for (operand, _), buffer in zip(window.operands, held, strict=True):
            if node.same_as(operand):
                held_value: PrimExpression = buffer[(_at(0),)]
                return held_value
        return node

    made: PrimExpression = traversal.mapped(term, (_KINDS, replaced))
    return made


def _number(index: int, axis: Axis) -> PrimExpression:
    return tirx.const(index, dtype_of(axis.var))


def _at(number: int) -> PrimExpression:
    return tirx.const(number, "int32")
