"""The strategy for argmax and argmin.

Each lane of a vector holds the best value that it has met and the index at which its vector began,
in integers of the same width, so that a step is a comparison and two selections for a whole vector.
Only a better value replaces another, so a lane keeps the first of equal ones; a comparison with NaN
is false. Along a row, the lanes hold neighbouring elements and are combined at its end: the best
value, then the least index of the lanes that hold it. Otherwise each lane holds a result of its
own.

An end that fills no vector is covered by one that overlaps the last, as it changes nothing to meet
an element twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.extremes import greatest, is_number, least
from tvm_nnef.function_attributes import ArgReduction, read_annotation
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.cpu.row_accumulation import joined
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import Plan
from tvm_nnef.tvm_support.compat import (
    IR,
    Buffer,
    PrimExpression,
    PrimFunction,
    buffer_view,
    buffers_of,
    statements,
    with_opaque_body,
)

NAME = "cpu.argmax"

_STRIP = 2
"""Vectors of results that are found side by side: a few cache lines of each row."""

_STEP_CYCLES = 8

DTYPE = "int64"

Value = Callable[[PrimExpression, PrimExpression], PrimExpression]
"""The element of a lane at an index along the reduced axes."""


def match(function: PrimFunction, machine: CpuModel) -> ArgmaxPlan | None:
    """The plan for a function that is annotated as argmax or argmin; None for others."""
    reduction = read_annotation(function.attrs)
    if not isinstance(reduction, ArgReduction):
        return None
    data, _ = buffers_of(function)
    shape = list(map(sizes.extent, data.shape))
    first, last = reduction.first, reduction.first + reduction.count
    parts = shape[:first], shape[first:last], shape[last:]
    outer, length, inner = (sizes.product(part) for part in parts)
    compared = _compared_as(str(data.dtype))
    # No dimension has more elements; the product of several dimensions may.
    short = length < 1 << 31 if sizes.is_known(length) else isinstance(length, tirx.Var)
    index_type = "int32" if bits_of(compared) <= 32 and short else "int64"
    lanes = machine.lanes(max(bits_of(compared), bits_of(index_type)))
    along = "results"
    if sizes.same(inner, 1) and not (sizes.is_known(length) and length < lanes):
        along = "rows"
    work = sizes.estimate(sizes.product(shape))
    parallel = work >= machine.parallel_work(_STEP_CYCLES)
    size = (outer, length, inner)
    # Several vectors of a row are filled in turns, as each comparison waits for the one before.
    vectors = machine.partial_sums if along == "rows" else _STRIP
    return ArgmaxPlan(
        reduction.largest, size, compared, index_type, lanes, vectors, along, parallel
    )


@dataclass(frozen=True, slots=True)
class ArgmaxPlan(Plan):
    """Vectors ``along`` "rows", of neighbouring candidates, or "results", one in each lane.

    ``size`` are the numbers of rows before, candidates, and results after them; so many ``vectors``
    are filled at once.
    """

    largest: bool
    size: tuple[sizes.Extent, sizes.Extent, sizes.Extent]
    value_type: str
    index_type: str
    lanes: int
    vectors: int
    along: str
    parallel: bool

    strategy: ClassVar[str] = NAME

    @property
    def cost(self) -> float:
        """A vector of candidates takes ``_STEP_CYCLES``."""
        return sizes.estimate(sizes.product(self.size)) * _STEP_CYCLES / self.lanes

    def decisions(self) -> Mapping[str, int | str]:
        """The vectors, and whether results are computed in parallel."""
        return {"along": self.along, "lanes": self.lanes, "parallel": str(self.parallel)}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with loops that find each index."""
        data, indices = buffers_of(function)
        outer, length, inner = self.size
        if self.along == "results" and sizes.same(inner, 1):
            # Short rows fill no vectors: each lane takes a row.
            source, declared = buffer_view(data, [outer, length])
            target, also = buffer_view(indices, [1, outer])
            body = _columns(_Loops(self, target), 1, outer, lambda _, k, lane: source[lane, k])
        else:
            source, declared = buffer_view(data, [outer, length, inner])
            target, also = buffer_view(indices, [outer, inner])
            loops = _Loops(self, target)
            if self.along == "rows":
                body = _rows(loops, outer, lambda row, index: source[row, index, 0])
            else:
                body = _columns(loops, outer, inner, lambda *at: source[at])
        return with_opaque_body(function, [indices], [], emit.sequence([declared, also, body]))


def _compared_as(dtype: str) -> str:
    """The dtype in which values are compared: one of the same order that processors compute in."""
    if dtype in ("float16", "bfloat16"):
        return "float32"
    return "int32" if bits_of(dtype) < 32 else dtype


def _number(value: sizes.Extent) -> PrimExpression:
    return sizes.number(value, DTYPE)


@dataclass(frozen=True, slots=True, eq=False)
class _Loops:
    """Writes loops; ``target[outer, inner]`` are the results."""

    plan: ArgmaxPlan
    target: Buffer

    @property
    def worst(self) -> PrimExpression:
        """The value that nothing is worse than."""
        return (least if self.plan.largest else greatest)(self.plan.value_type)

    def grid(self, extents: list[sizes.Extent], task: Callable[..., None]) -> tirx.Stmt:
        """A task for each point of a grid."""

        def body(point: list[PrimExpression]) -> tirx.Stmt:
            return statements(lambda: task(*point))

        return emit.grid(extents, body, DTYPE, parallel=self.plan.parallel)

    def lanes_of(self, width: int) -> Iterator[PrimExpression]:
        """The numbers of so many lanes, a vector at a time."""
        return emit.lanes_in_vectors(width, self.plan.lanes)

    def start(self, width: int) -> tuple[Buffer, Buffer]:
        """Buffers of so many lanes, which have met nothing: then index 0 is right."""
        values = IR.alloc_buffer((width,), self.plan.value_type, scope="local")
        indices = IR.alloc_buffer((width,), self.plan.index_type, scope="local")
        for lane in self.lanes_of(width):
            IR.buffer_store(values, self.worst, [lane])
            IR.buffer_store(indices, tirx.const(0, self.plan.index_type), [lane])
        return values, indices

    def step(
        self,
        found: tuple[Buffer, Buffer],
        index: PrimExpression,
        value: Callable[[PrimExpression], PrimExpression],
    ) -> None:
        """Each lane after it has met the value at an index."""
        values, indices = found
        width = sizes.extent(values.shape[0])
        new = IR.alloc_buffer((width,), self.plan.value_type, scope="local")
        for lane in self.lanes_of(width):
            IR.buffer_store(new, tirx.Cast(self.plan.value_type, value(lane)), [lane])
            better = (tirx.GT if self.plan.largest else tirx.LT)(new[lane], values[lane])
            here = tirx.Cast(self.plan.index_type, index)
            IR.buffer_store(indices, tirx.Select(better, here, indices[lane]), [lane])
            IR.buffer_store(values, tirx.Select(better, new[lane], values[lane]), [lane])

    def combined(self, found: tuple[Buffer, Buffer]) -> PrimExpression:
        """The index of the best value of all lanes, which hold neighbouring elements."""
        values, indices = found
        width = sizes.extent(values.shape[0])
        lanes = min(self.plan.lanes, width)
        best = IR.alloc_buffer((1,), self.plan.value_type, scope="local")
        value = joined(tirx.max if self.plan.largest else tirx.min, values, width, lanes, DTYPE)
        IR.buffer_store(best, value, [0])
        for lane in self.lanes_of(width):
            index = indices[lane] + tirx.Cast(self.plan.index_type, lane)
            holds = values[lane].equal(best[0])
            other = tirx.max_value(self.plan.index_type)
            IR.buffer_store(indices, tirx.Select(holds, index, other), [lane])
        return joined(tirx.min, indices, width, lanes, DTYPE)

    def store(
        self,
        where: tuple[PrimExpression, PrimExpression],
        index: PrimExpression,
        first: PrimExpression,
    ) -> None:
        """Store a result, which is 0 where the first value is NaN."""
        if self.plan.value_type.startswith("float"):
            value: PrimExpression = tirx.Cast(self.plan.value_type, first)
            if not sizes.is_known(self.plan.size[1]):
                value = tirx.if_then_else(self.plan.size[1] > 0, value, self.worst)
            index = tirx.Select(is_number(value), index, tirx.const(0, self.plan.index_type))
        IR.buffer_store(self.target, tirx.Cast(self.target.dtype, index), list(where))


def _rows(loops: _Loops, outer: sizes.Extent, value: Value) -> tirx.Stmt:
    """Rows of neighbouring elements."""
    lanes, size = loops.plan.lanes, loops.plan.size[1]
    length = _number(size)

    def search(row: PrimExpression, width: int) -> None:
        found = loops.start(width)

        def step(start: PrimExpression) -> None:
            loops.step(found, start, lambda lane: value(row, start + lane))

        with IR.serial(tirx.floordiv(length, _number(width))) as number:
            step(number * width)
        if not sizes.is_divisible(size, width):
            step(length - width)
        loops.store((row, _number(0)), loops.combined(found), value(row, _number(0)))

    def task(row: PrimExpression) -> None:
        width = lanes * loops.plan.vectors
        if sizes.is_known(size):
            while width > size:
                width //= 2
            search(row, width)
            return
        with IR.If(length >= width):
            with IR.Then():
                search(row, width)
            with IR.Else():
                search(row, 1)

    return loops.grid([outer], task)


def _columns(
    loops: _Loops, outer: sizes.Extent, inner: sizes.Extent, value: Callable[..., PrimExpression]
) -> tirx.Stmt:
    """Results beside each other, each of them in a lane."""
    lanes, length = loops.plan.lanes, _number(loops.plan.size[1])

    def strips(width: int) -> tirx.Stmt:
        def task(row: PrimExpression, number: PrimExpression) -> None:
            start = number * width
            if not sizes.is_divisible(inner, width):
                start = tirx.min(start, _number(inner) - width)
            found = loops.start(width)
            with IR.serial(length) as index:
                loops.step(found, index, lambda lane: value(row, index, start + lane))
            for lane in loops.lanes_of(width):
                first = value(row, _number(0), start + lane)
                loops.store((row, start + lane), found[1][lane], first)

        return loops.grid([outer, sizes.quotient_above(inner, width)], task)

    if sizes.is_known(inner):
        count = -(-inner // (lanes * loops.plan.vectors))
        return strips(min(inner, -(-inner // (count * lanes)) * lanes))
    return tirx.IfThenElse(inner >= lanes, strips(lanes), strips(1))
