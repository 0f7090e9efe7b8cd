"""The strategy for any single reduction, whatever its indices: pooling, sums of columns or of all.

If there are few elements, threads share an element of the result, and combine their results by a
tree in shared memory. If that is not enough to fill a GPU, blocks share it too, and a second launch
combines their results. Every kernel consists of such reductions and of elementwise code, so each
kernel of stages has a plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.product.normal_form import inlined_reduction, runs_along
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression

_MOST_CHUNKS = 256
"""Upper limit of the blocks that share an element: it limits compile time, as all numbers are
tried.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ThreadReductionPlan(GpuPlan):
    """A plan in which ``sharing`` threads of each of ``chunks`` blocks share an element.

    Their results are in ``partials``, for each chunk all elements.
    """

    reduction: Reduction
    sharing: int
    chunks: int
    along_steps: bool
    partials: Buffer

    strategy: ClassVar[str] = "gpu.thread_reduction"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        machine, elements = self.machine, extent_product(self.reduction.axes)
        steps = extent_product(self.reduction.reduced)
        shared, own = self.sharing * self.chunks, -(-steps // (self.sharing * self.chunks))
        waves = -(-elements * shared // (machine.multiprocessors * machine.threads))
        neighbours = self.sharing if self.along_steps else self._block_elements
        widths = [bits_of(str(load.source.dtype)) for load in loads(self.reduction.term)]
        wasted = max(1, machine.sector_bytes * 8 // (neighbours * max(widths, default=8)))
        loaded = elements * steps * len(loads(self.reduction.term)) * wasted
        busy = loaded / (machine.shared_loads * machine.multiprocessors)
        if shared > 1:
            axes = sum(not axis.is_unit for axis in self.reduction.reduced)
            decoded = elements * steps * (axes - 1) * machine.index_instructions
            busy += decoded / (machine.multiply_adds * machine.multiprocessors)
            own *= max(1, axes)
        barriers = self.sharing.bit_length() * machine.barrier_cycles if self.sharing > 1 else 0
        second = machine.launch_cycles + self.chunks * machine.step_cycles
        return (
            machine.launch_cycles
            + max(busy, waves * (own * machine.step_cycles + barriers))
            + (second if self.chunks > 1 else 0)
        )

    def decisions(self) -> Mapping[str, int | str]:
        """Return the threads of a block, and the number of threads and blocks that share an
        element.
        """
        threads = self.machine.usual_threads
        return {"threads": threads, "element threads": self.sharing, "chunks": self.chunks}

    @property
    def allocated(self) -> Sequence[Buffer]:
        """The results of chunks, in the memory of the GPU."""
        return [self.partials] if self.chunks > 1 else []

    def statement(self) -> tirx.Stmt:
        """Return the launch, or the two launches."""
        axes, dtype, threads = self.reduction.axes, self.kernel.index_type, self._block_elements
        statements = [*self.reduction.views]
        if self.sharing == self.chunks == 1:
            statements.append(launch.elements(axes, threads, self._element, dtype))
        else:
            counts = [self.chunks, sizes.quotient_above(launch.size(axes), threads)]

            def block(number: PrimExpression) -> tirx.Stmt:
                return _Block(self, *emit.decoded(number, counts, dtype)).statement()

            statements.append(launch.blocks(sizes.product(counts), block, dtype))
        if self.chunks > 1:
            statements.append(
                launch.numbered(axes, self.machine.usual_threads, self._joined, dtype)
            )
        return emit.sequence(statements)

    def combined(self, first: PrimExpression, write: Callable[[_Combine], tirx.Stmt]) -> _Combined:
        """Return the code that combines values with a first one, and the expression of the
        result.
        """
        accumulator = launch.local(1, self.reduction.dtype, "accumulator")
        zero = tirx.const(0, "int32")

        def combine(value: PrimExpression) -> tirx.Stmt:
            both = self.reduction.reducer.combine(accumulator[(zero,)], value)
            return tirx.BufferStore(accumulator, both, [zero])

        start = [tirx.AllocBuffer(accumulator), tirx.BufferStore(accumulator, first, [zero])]
        return emit.sequence([*start, write(combine)]), accumulator[(zero,)]

    @property
    def _block_elements(self) -> int:
        return self.machine.usual_threads // self.sharing

    def _element(self, point: launch.Point) -> tirx.Stmt:
        """Return the code for the element of the result at a point, by one thread."""
        reduction = self.reduction
        body, value = self.combined(
            reduction.init,
            lambda combine: launch.serial(
                reduction.reduced, lambda at: combine(substituted(reduction.term, at)), point
            ),
        )
        return emit.sequence([body, reduction.store(value, point)])

    def _joined(self, number: PrimExpression) -> tirx.Stmt:
        """Return the code for the element of the result with a linear index, from the results of
        chunks.
        """
        axes, dtype = self.reduction.axes, self.kernel.index_type
        total = sizes.number(launch.size(axes), dtype)

        def each(combine: _Combine) -> tirx.Stmt:
            def chunk(index: PrimExpression) -> tirx.Stmt:
                return combine(self.partials[(index * total + number,)])

            return emit.loop(self.chunks - 1, chunk, name="chunk", dtype=dtype, start=1)

        body, value = self.combined(self.partials[(number,)], each)
        return emit.sequence([body, self.reduction.store(value, launch.point(axes, number))])


_Combine = Callable[[PrimExpression], tirx.Stmt]
_Combined = tuple[tirx.Stmt, PrimExpression]


class _Block:
    """The code of one block: some elements, each by several threads."""

    def __init__(self, plan: ThreadReductionPlan, chunk: PrimExpression, block: PrimExpression):
        """Create the code, given the chunk, and the index of the block in it."""
        self._plan, self._chunk, self._dtype = plan, chunk, plan.kernel.index_type
        self._threads, self._sharing = plan.machine.usual_threads, plan.sharing
        self._elements = self._threads // plan.sharing
        self._first = block * tirx.const(self._elements, self._dtype)
        self._shared = launch.shared(self._threads, plan.reduction.dtype, "combined")

    def statement(self) -> tirx.Stmt:
        """Return the phases: all threads, a tree, the results."""
        own, result = (
            launch.threads(self._threads, phase, self._dtype) for phase in (self._own, self._result)
        )
        reducer = self._plan.reduction.reducer
        tree = launch.tree(
            self._shared, self._sharing, lambda thread: self._position(thread)[1:], self._elements,
            reducer, self._dtype,
        )  # fmt: skip
        return emit.sequence([tirx.AllocBuffer(self._shared), own, *tree, result])

    def _position(
        self, thread: PrimExpression
    ) -> tuple[PrimExpression, PrimExpression, PrimExpression]:
        """Return the element of a thread in its block, its number among that element's threads, and
        its offset.
        """
        if self._plan.along_steps:
            element, lane = emit.decoded(thread, [self._elements, self._sharing], self._dtype)
        else:
            lane, element = emit.decoded(thread, [self._sharing, self._elements], self._dtype)
        return element, lane, lane * tirx.const(self._elements, self._dtype) + element

    def _limits(self, element: PrimExpression) -> list[launch.Limit]:
        total = launch.size(self._plan.reduction.axes)
        return launch.limits((self._first + element, total, self._elements))

    def _own(self, thread: PrimExpression) -> tirx.Stmt:
        """Return the code by which one thread combines its part of an element."""
        plan, reduction = self._plan, self._plan.reduction
        element, lane, offset = self._position(thread)
        point = launch.point(reduction.axes, self._first + element)
        steps = launch.size(reduction.reduced)
        part = sizes.quotient_above(steps, plan.chunks)
        start = self._chunk * sizes.number(part, self._dtype)

        def each(combine: _Combine) -> tirx.Stmt:
            def step(number: PrimExpression) -> tirx.Stmt:
                index = start + number
                at = {**point, **launch.point(reduction.reduced, index)}
                inside = launch.limits((index, steps, plan.chunks)) if plan.chunks > 1 else []
                return launch.guarded(inside, combine(substituted(reduction.term, at)))

            return launch.strided(part, self._sharing, lane, step, plan.machine.unrolled_steps)

        is_first = tirx.all(lane < 1, self._chunk < 1)
        first = tirx.Select(is_first, reduction.init, reduction.reducer.identity(reduction.dtype))
        body, value = plan.combined(first, each)
        store = tirx.BufferStore(self._shared, value, [offset])
        return launch.guarded(self._limits(element), emit.sequence([body, store]))

    def _result(self, thread: PrimExpression) -> tirx.Stmt:
        plan = self._plan
        element, lane, _ = self._position(thread)
        number, axes = self._first + element, plan.reduction.axes
        # Conditions must not load from shared memory: TVM would insert no barrier before.
        own, zero = launch.local(1, plan.reduction.dtype, "result"), tirx.const(0, "int32")
        load = tirx.BufferStore(own, self._shared[(element,)], [zero])
        if plan.chunks > 1:
            offset = self._chunk * sizes.number(launch.size(axes), self._dtype) + number
            store = tirx.BufferStore(plan.partials, own[(zero,)], [offset])
        else:
            store = plan.reduction.store(own[(zero,)], launch.point(axes, number))
        body = emit.sequence([tirx.AllocBuffer(own), load, store])
        return launch.guarded([(lane, 1), *self._limits(element)], body)


def match(kernel: Kernel, machine: GpuModel) -> ThreadReductionPlan | None:
    """Return a plan for a kernel with one reduction, whatever its indices; None for others."""
    reduction = inlined_reduction(kernel, machine)
    return None if reduction is None else _best(kernel, machine, reduction)


def _best(kernel: Kernel, machine: GpuModel, reduction: Reduction) -> ThreadReductionPlan:
    """Return the plan of the lowest cost."""
    along = runs_along(reduction.term, reduction.reduced, reduction.axes)
    most = _MOST_CHUNKS if _are_known((*reduction.axes, *reduction.reduced)) else 1
    total = launch.size(reduction.axes)

    def plan(sharing: int, chunks: int) -> ThreadReductionPlan:
        shape = (sizes.product([chunks, total]),)
        partials = tirx.decl_buffer(shape, reduction.dtype, "partials")
        settings = reduction, sharing, chunks, along, partials
        return ThreadReductionPlan(kernel, machine, *settings)

    pairs = itertools.product(_powers_of_two(machine.usual_threads), _powers_of_two(most))
    return min(
        itertools.starmap(plan, pairs), key=lambda each: (each.cost, each.sharing, each.chunks)
    )


def _powers_of_two(most: int) -> list[int]:
    return [1 << n for n in range(most.bit_length())]


def _are_known(axes: Sequence[Axis]) -> bool:
    return all(axis.is_known for axis in axes)
