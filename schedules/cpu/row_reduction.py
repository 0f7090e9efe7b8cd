"""The strategy for reductions along contiguous elements: softmax, normalization, sums of rows.

All stages of such a kernel run for one row before the next row begins, so the row stays in the
first cache however many stages read it, and the result of a stage for the row stays in registers or
in a small buffer. Rows run in parallel; if there are few and long ones, chunks of a row run in
parallel instead, stage by stage, and the partial results of all chunks are combined in order. A
quotient by a value that is the same for the whole row is a product with its reciprocal.
:mod:`row_accumulation` reduces the elements of a row or chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.common_subexpressions import with_shared_stages
from tvm_nnef.schedules.analysis.kernel import (
    Axis,
    Kernel,
    Stage,
    extent_product,
    is_short,
)
from tvm_nnef.schedules.analysis.rows import row_buffers, with_rows
from tvm_nnef.schedules.cpu.row_accumulation import Accumulation, vectors_of
from tvm_nnef.schedules.cpu.stage_plan import strip_vectors
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.emit import Tail
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, mentions, nodes, substituted
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    dtype_of,
    is_conditional,
    with_opaque_body,
)


def match(kernel: Kernel, machine: CpuModel) -> RowPlan | None:
    """Return the plan row by row; None for kernels whose stages do not share their rows."""
    kernel_and_rows = with_rows(kernel)
    if kernel_and_rows is None:
        return None
    kernel, rows = (
        with_shared_stages(kernel_and_rows[0], len(kernel_and_rows[1])),
        kernel_and_rows[1],
    )
    work = sum(stage.work for stage in kernel.stages)
    least = machine.parallel_work(machine.row_cycles)

    def plan(*, parallel: bool, chunk: int = 0) -> RowPlan:
        stages = tuple(_row_stages(kernel, len(rows), machine))
        return RowPlan(kernel, rows, stages, parallel, machine.task_rows * chunk or least, chunk)

    plain = plan(parallel=work >= least)
    count = sizes.product(axis.extent for axis in rows)
    few = sizes.is_known(count) and count <= machine.parallel_tasks // 16
    if plain.parallel and not few:
        return plain
    shared = plan(parallel=True, chunk=least // 4 if few else 0)
    if isinstance(shared.is_long, bool):
        return shared if shared.is_long else plain
    return replace(shared, short=plain)


@dataclass(frozen=True, slots=True, eq=False)
class _RowStage:
    """A stage, computed row by row.

    Its row is stored in ``result``, a buffer of all rows, or in ``row``, a buffer of one row; a
    reduction uses both. Its value reads such buffers. ``accumulation`` reduces its elements.
    """

    stage: Stage
    inner: tuple[Axis, ...]
    row: Buffer | None
    result: Buffer | None
    lanes: int
    vectors: int
    accumulation: Accumulation | None
    vector_cycles: int

    @property
    def cycles(self) -> float:
        """The estimated cycles of a row."""
        if self.accumulation is not None:
            return self.accumulation.cycles
        last = self.inner[-1].estimate if self.inner else 1
        vectors = extent_product(self.inner[:-1]) * vectors_of(last, self.lanes)
        return self.vector_cycles * vectors


@dataclass(frozen=True, slots=True, eq=False)
class RowPlan(Plan):
    """A plan of all stages of a row before the next row, over the axes ``rows``.

    If there is a ``chunk``, rows run one after the other, and a task has this number of elements of
    a row. ``short`` is the plan for dynamic dimensions that are fewer than ``least`` elements.
    """

    kernel: Kernel
    rows: tuple[Axis, ...]
    stages: tuple[_RowStage, ...]
    parallel: bool
    least: int
    chunk: int = 0
    short: RowPlan | None = None

    strategy: ClassVar[str] = "cpu.row_reduction"

    @property
    def cost(self) -> float:
        """The cost of all vectors of all stages, and of combining partial results."""
        return extent_product(self.rows) * sum(stage.cycles for stage in self.stages)

    @property
    def is_long(self) -> bool | PrimExpression:
        """The condition that a row (with chunks) or all rows have enough elements for threads."""
        rows = () if self.chunk else self.rows
        reduced = [each.stage.reduced for each in self.stages if each.stage.reduced]
        counts = [sizes.product(axis.extent for axis in (*rows, *axes)) for axes in reduced]
        tests = [count >= self.least for count in counts]
        if all(isinstance(test, bool) for test in tests):
            return any(tests)
        return tirx.any(*(tirx.const(t, "bool") if isinstance(t, bool) else t for t in tests))

    def decisions(self) -> Mapping[str, int | str]:
        """Return the rows, partial results and buffers."""
        sums = [s.accumulation for s in self.stages if s.accumulation is not None]
        return {
            "rows": "x".join(str(axis.extent) for axis in self.rows) or 1,
            "stages": len(self.stages),
            "parallel": "yes" if self.parallel else "no",
            "partial results": " ".join(str(each.width) for each in sums),
            **({"sums": "blocked"} if any(each.blocked for each in sums) else {}),
            **({"chunks": self.chunk} if self.chunk else {}),
        }

    def alternatives(self) -> Iterator[RowPlan]:
        """Yield plans with fewer partial results, and with serial rows."""
        for factor in (2, 4):
            fewer = (s.accumulation and s.accumulation.with_fewer(factor) for s in self.stages)
            pairs = zip(self.stages, fewer, strict=True)
            yield replace(self, stages=tuple(replace(s, accumulation=a) for s, a in pairs))
        if self.parallel:
            yield replace(self, parallel=False, chunk=0, short=None)

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with one loop over all rows."""
        body = self._loops()
        condition = self.is_long
        if self.short is not None and not isinstance(condition, bool):
            body = tirx.IfThenElse(condition, body, self.short._loops())
        return with_opaque_body(function, [s.buffer for s in self.kernel.results], [], body)

    def _loops(self) -> tirx.Stmt:
        moving = [axis.extent for axis in self.rows if not axis.is_unit]

        def row(indices: list[PrimExpression]) -> tirx.Stmt:
            given = iter(indices)
            point = [self._zero if axis.is_unit else next(given) for axis in self.rows]
            return emit.sequence([s for each in self.stages for s in self._stage(each, point)])

        parallel = self.parallel and not self.chunk
        return emit.grid(moving or [1], row, self.kernel.index_type, parallel=parallel)

    @property
    def _zero(self) -> PrimExpression:
        return tirx.const(0, self.kernel.index_type)

    def _stage(self, each: _RowStage, point: Sequence[PrimExpression]) -> list[tirx.Stmt]:
        """Return the statements for one row of a stage."""
        stage, inner = each.stage, each.inner
        where = {axis.var: index for axis, index in zip(stage.axes, point, strict=False)}
        if stage.reduced:
            where.update({axis.var: self._zero for axis in inner})
        value = substituted(stage.value, where)
        value, statements = _with_reciprocals(value, inner, stage.reduced)
        if each.row is not None:
            statements.append(tirx.AllocBuffer(each.row))
        if each.accumulation is None or each.row is None:
            return [*statements, self._elements(each, value, point)]
        statements += self._combined(each.accumulation, value, each.row)
        if each.result is not None:
            indices = [*point, *([self._zero] * len(inner))]
            statements.append(tirx.BufferStore(each.result, each.row[(self._zero,)], indices))
        return statements

    def _combined(
        self, accumulation: Accumulation, value: PrimExpression, target: Buffer
    ) -> list[tirx.Stmt]:
        """Return the reduction of a row: in one piece, or of each chunk and then of their
        results.
        """
        if not self.chunk:
            return accumulation.statements(value, target)
        stage, dtype = accumulation.stage, self.kernel.index_type
        longest, size = self._pieces(stage.reduced)
        count = sizes.quotient_above(longest.extent, size)
        partial_results = tirx.decl_buffer((count,), stage.dtype, "chunks")

        def task(axes: Sequence[Axis], start: PrimExpression) -> tirx.Stmt:
            piece = accumulation.over(tuple(axes))
            moved = substituted(value, {longest.var: longest.var + start})
            one = tirx.decl_buffer((1,), stage.dtype, "chunk", scope="local")
            position = tirx.floordiv(start, tirx.const(size, dtype))
            store = tirx.BufferStore(partial_results, one[(self._zero,)], [position])
            return emit.sequence([tirx.AllocBuffer(one), *piece.statements(moved, one), store])

        number = Axis(tirx.Var("chunk", dtype), count)
        last = accumulation.over((number,))
        return [
            tirx.AllocBuffer(partial_results),
            self._tasks(stage.reduced, task),
            *last.statements(partial_results[(number.var,)], target),
        ]

    def _elements(
        self, each: _RowStage, value: PrimExpression, point: Sequence[PrimExpression]
    ) -> tirx.Stmt:
        """Return the statement for one row of a stage without reduction."""
        inner, dtype = each.inner, self.kernel.index_type

        def at(indices: Sequence[PrimExpression]) -> tirx.Stmt:
            pairs = zip(inner, indices, strict=True)
            computed = substituted(value, {axis.var: index for axis, index in pairs})
            stores = []
            if each.row is not None:
                flat = _flat(indices, inner, self._zero)
                stores.append(tirx.BufferStore(each.row, computed, [flat]))
                computed = each.row[(flat,)]
            if each.result is not None:
                stores.append(tirx.BufferStore(each.result, computed, [*point, *indices]))
            return emit.sequence(stores)

        if not inner:
            return at([])

        def piece(axes: Sequence[Axis], start: PrimExpression) -> tirx.Stmt:
            longest = self._pieces(inner)[0]

            def element(indices: list[PrimExpression]) -> tirx.Stmt:
                pairs = zip(inner, indices, strict=True)
                return at([index + start if axis is longest else index for axis, index in pairs])

            *outer, last = (axis.extent for axis in axes)

            def strip(indices: list[PrimExpression]) -> tirx.Stmt:
                def at_last(index: PrimExpression) -> tirx.Stmt:
                    return element([*indices, index])

                return emit.strip(last, each.lanes, at_last, dtype, vectors=each.vectors)

            return emit.grid(outer, strip, dtype)

        return self._tasks(inner, piece) if self.chunk else piece(inner, self._zero)

    def _pieces(self, axes: Sequence[Axis]) -> tuple[Axis, int]:
        """Return the longest axis, and the number of its indices in a task."""
        longest = max(axes, key=lambda axis: axis.estimate)
        inside = extent_product(axis for axis in axes if axis is not longest)
        return longest, max(1, self.chunk // inside)

    def _tasks(
        self, axes: Sequence[Axis], body: Callable[[Sequence[Axis], PrimExpression], tirx.Stmt]
    ) -> tirx.Stmt:
        """Return the body in parallel for parts of the longest axis.

        It gets the axes and the start.
        """
        longest, size = self._pieces(axes)

        def task(start: PrimExpression, length: sizes.Extent) -> tirx.Stmt:
            return body([replace(a, extent=length) if a is longest else a for a in axes], start)

        kind, dtype = tirx.ForKind.PARALLEL, self.kernel.index_type
        return emit.split(longest.extent, size, task, Tail.GUARD, dtype, name="task", kind=kind)


def _row_stages(kernel: Kernel, rank: int, machine: CpuModel) -> Iterator[_RowStage]:
    """Return the stages whose rows are computed separately, and not inlined."""
    dtype = kernel.index_type
    rows: dict[Buffer, Buffer] = {}
    places = row_buffers(kernel)
    inside: dict[Buffer, Stage] = {}

    def read(load: TensorLoad) -> PrimExpression:
        stage = kernel.stage_of(load.source)
        if stage is None:
            return load
        if load.source in rows:
            flat = _flat(load.indices[rank:], stage.axes[rank:], tirx.const(0, dtype))
            return rows[load.source][(flat,)]
        if load.source not in inside:
            return places[load.source][tuple(load.indices)]
        pairs = zip(stage.axes, load.indices, strict=True)
        value = inside[load.source].value
        return substituted(value, {axis.var: index for axis, index in pairs})

    for stage in kernel.stages:
        uses = [load for other in kernel.stages for load in loads(other.value, stage.buffer)]
        is_result = stage in kernel.results
        local = replace(stage, value=tvm_ffi.structural_map(stage.value, (TensorLoad, read)))
        short = is_cheap(stage.value) and is_short(local.value, {})
        if not stage.reduced and not is_result and (len(uses) == 1 or short):
            inside[stage.buffer] = local
            continue
        place = places.get(stage.buffer)
        size = sizes.product(axis.extent for axis in stage.axes[rank:])
        bits = size * bits_of(stage.dtype) if sizes.is_known(size) else None
        in_registers = bits is not None and machine.holds(bits)
        if stage.reduced or place is None or (uses and in_registers):
            small = bits is not None and bits <= 8 * machine.stack_bytes
            scope, name = "local" if small else "global", f"{stage.buffer.name}_row"
            rows[stage.buffer] = tirx.decl_buffer((size,), stage.dtype, name, scope=scope)
            place = place if is_result else None
        accumulation = Accumulation.of(local, dtype, machine) if stage.reduced else None
        lanes = machine.lanes(bits_of(stage.dtype))
        vectors = strip_vectors(local.value, stage.dtype, lanes, machine)
        common = (local, stage.axes[rank:], rows.get(stage.buffer), place)
        yield _RowStage(*common, lanes, vectors, accumulation, machine.element_cycles)


def _with_reciprocals(
    value: PrimExpression, inner: Sequence[Axis], reduced: Sequence[Axis]
) -> tuple[PrimExpression, list[tirx.Stmt]]:
    """Return a value with quotients by row constants as products, which round once more.

    Also return the statements that compute such divisors, once: a product names its divisor several
    times, and the divisor of a nested norm would be repeated tens of thousands of times. Divisors
    that a condition may guard stay as they are.
    """
    elements = [axis.var for axis in inner]
    bound = [let.var for let in nodes(value, tirx.Let)]
    changing = [*elements, *(axis.var for axis in reduced), *bound]
    guarded = any(map(is_conditional, nodes(value, Call)))
    zero = tirx.const(0, "int32")
    divisors: list[tuple[PrimExpression, Buffer]] = []

    def held(divisor: PrimExpression, dtype: str) -> PrimExpression:
        if guarded or isinstance(divisor, TensorLoad) or mentions(divisor, changing):
            return divisor
        buffer = next((b for d, b in divisors if tvm_ffi.structural_equal(d, divisor)), None)
        if buffer is None:
            buffer = tirx.decl_buffer((1,), dtype, "divisor", scope="local")
            divisors.append((divisor, buffer))
        return buffer[(zero,)]

    def product(division: tirx.Div) -> PrimExpression:
        dtype = dtype_of(division)
        fixed = not mentions(division.b, elements) and bool(loads(division.b))
        constant = bool(reduced) and isinstance(division.b, tirx.FloatImm)
        if not (fixed or constant) or dtype not in _MAGNITUDES:
            return division
        divisor = held(division.b, dtype) if fixed else division.b
        return _product(division.a, divisor, dtype)

    value = tvm_ffi.structural_map(value, (tirx.Div, product), order="post")
    stores = [tirx.BufferStore(buffer, divisor, [zero]) for divisor, buffer in divisors]
    return value, [*(tirx.AllocBuffer(buffer) for _, buffer in divisors), *stores]


_MAGNITUDES = {
    "float16": (12, 10),
    "bfloat16": (100, 64),
    "float32": (100, 64),
    "float64": (999, 512),
}
"""By dtype: the exponent of the reciprocals that are nearly infinite or subnormal, and of the
scale.
"""


def _product(dividend: PrimExpression, divisor: PrimExpression, dtype: str) -> PrimExpression:
    """Return the quotient as a product with a reciprocal that neither overflows nor is
    subnormal.
    """
    end, shift = (2.0**exponent for exponent in _MAGNITUDES[dtype])
    if isinstance(divisor, tirx.FloatImm) and 1 / end <= abs(float(divisor.value)) <= end:
        return dividend * (tirx.const(1.0, dtype) / divisor)
    one = tirx.const(1.0, dtype)
    size = tirx.Select(divisor < tirx.const(0.0, dtype), -divisor, divisor)
    down = tirx.Select(size > tirx.const(end, dtype), tirx.const(1 / shift, dtype), one)
    scale = tirx.Select(size < tirx.const(1 / end, dtype), tirx.const(shift, dtype), down)
    return dividend * scale * (one / (divisor * scale))


def _flat(
    indices: Sequence[PrimExpression], axes: Sequence[Axis], zero: PrimExpression
) -> PrimExpression:
    """Return the offset in a row buffer of an element of a row."""
    position = zero
    for index, axis in zip(indices, axes, strict=True):
        position = position * axis.extent + index
    return position
