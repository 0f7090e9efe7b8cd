"""The rule for reductions along contiguous elements: softmax, normalisation, sums of rows.

All stages of such a kernel run for one row before the next row begins, so the row stays in the
first cache however many stages read it, and what a stage gives for the row stays in registers or
in a small buffer of its own. Rows run in parallel. What is divided by a number of the row is
multiplied by its reciprocal. :mod:`row_accumulation` combines the elements of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.common_subexpressions import with_shared_stages
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, is_short
from tvm_nnef.schedules.analysis.rows import rows_of, with_cheap_inside
from tvm_nnef.schedules.cpu.row_accumulation import Total, total_statements
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimFunction, is_conditional, with_opaque_body

NAME = "cpu.row_reduction"

STEP_CYCLES = 8
"""Cycles of all that a row reduction does with one vector, about."""


def apply(function: PrimFunction, kernel: Kernel, machine: CpuModel) -> PrimFunction | None:
    """The function row by row; None where its stages do not share their rows."""
    if not any(stage.reduced for stage in kernel.stages):
        return None
    if rows_of(kernel) is None:
        kernel = with_cheap_inside(kernel)
    rows = rows_of(kernel)
    if rows is None:
        return None
    kernel = with_shared_stages(kernel, len(rows))
    plan = _Rows(kernel, rows, machine)
    moving = [axis.extent for axis in rows if not axis.is_unit]
    work = sum(stage.work for stage in kernel.stages)

    def row(indices: list[Any]) -> Any:
        given = iter(indices)
        zero = tirx.const(0, kernel.index_type)
        place = [zero if axis.is_unit else next(given) for axis in rows]
        return plan.statement(place)

    parallel = work >= machine.parallel_work(STEP_CYCLES)
    body = emit.grid(moving or [1], row, kernel.index_type, parallel=parallel)
    return with_opaque_body(function, [s.buffer for s in kernel.results], [], body)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A kernel, the axes in front of its rows, and the CPU."""

    kernel: Kernel
    rows: Sequence[Axis]
    machine: CpuModel

    def statement(self, place: Sequence[Any]) -> Any:
        """All stages of one row."""
        dtype = self.kernel.index_type
        rank = len(self.rows)
        kept: dict[Any, Any] = {}
        inside: dict[Any, Stage] = {}
        statements: list[Any] = []
        for stage in self.kernel.stages:
            result = stage in self.kernel.results
            value = self._resolved(stage.value, kept, inside, rank)
            if not stage.reduced and not result and self._moves_inside(stage, value):
                inside[stage.buffer] = replace(stage, value=value)
                continue
            row = {axis.var: index for axis, index in zip(stage.axes, place, strict=False)}
            value = substituted(value, row)
            inner = stage.axes[rank:]
            if stage.reduced:
                value = substituted(value, {axis.var: self._zero() for axis in inner})
            value, divisors = _with_reciprocals(value, inner, stage.reduced)
            statements += divisors
            size = sizes.product(axis.extent for axis in inner)
            lanes = self.machine.lanes(bits_of(stage.dtype))
            if not result or self._is_read(stage):
                scope = _scope(size, self.machine)
                name = f"{stage.buffer.name}_row"
                held = tirx.decl_buffer((size,), stage.dtype, name, scope=scope)
                statements.append(tirx.AllocBuffer(held))
                kept[stage.buffer] = held
            target: Any = kept.get(stage.buffer)
            if stage.reduced:
                total = Total(stage.combine, stage.init, target)
                statements += total_statements(
                    total, value, stage.reduced, (lanes, self.machine.partial_sums), dtype
                )
                if result:
                    zeros = [tirx.const(0, dtype)] * len(inner)
                    total = target[(tirx.const(0, dtype),)]
                    statements.append(tirx.BufferStore(stage.buffer, total, [*place, *zeros]))
            else:
                statements.append(self._elements(stage, inner, value, place, target, result, lanes))
        return emit.sequence(statements)

    def _moves_inside(self, stage: Stage, value: Any) -> bool:
        """Whether a stage is computed where it is read, given what its value has become by that."""
        uses = [load for other in self.kernel.stages for load in loads(other.value, stage.buffer)]
        return len(uses) == 1 or (is_cheap(stage.value) and is_short(value, {}))

    def _is_read(self, stage: Stage) -> bool:
        return stage.reduced != () or any(
            loads(other.value, stage.buffer) for other in self.kernel.stages
        )

    def _resolved(
        self, value: Any, kept: Mapping[Any, Any], inside: Mapping[Any, Stage], rank: int
    ) -> Any:
        """A value that reads what was kept of this row, and computes what moved inside."""

        def replaced(load: Any) -> Any:
            if load.source in kept:
                held = kept[load.source]
                stage = self.kernel.stage_of(load.source)
                assert stage is not None
                return held[(_flat(load.indices[rank:], stage.axes[rank:], self._zero()),)]
            if load.source in inside:
                stage = inside[load.source]
                pairs = zip(stage.axes, load.indices, strict=True)
                return substituted(stage.value, {axis.var: index for axis, index in pairs})
            return load

        return tvm_ffi.structural_map(value, (BUFFER_LOAD, replaced))

    def _zero(self) -> Any:
        return tirx.const(0, self.kernel.index_type)

    def _elements(
        self,
        stage: Stage,
        inner: Sequence[Axis],
        value: Any,
        place: Sequence[Any],
        target: Any,
        result: bool,
        lanes: int,
    ) -> Any:
        """A stage without reduction, for one row."""
        dtype = self.kernel.index_type
        outer, last = ((), None) if not inner else (inner[:-1], inner[-1])

        def at(where: Mapping[Any, Any]) -> Any:
            computed = substituted(value, where)
            indices = [substituted(axis.var, where) for axis in inner]
            stores = []
            if target is not None:
                flat = _flat(indices, inner, self._zero())
                stores.append(tirx.BufferStore(target, computed, [flat]))
                computed = target[(flat,)]
            if result:
                stores.append(tirx.BufferStore(stage.buffer, computed, [*place, *indices]))
            return emit.sequence(stores)

        if last is None:
            return at({})

        def row(indices: list[Any]) -> Any:
            where = {axis.var: index for axis, index in zip(outer, indices, strict=True)}
            return emit.strip(
                last.extent, lanes, lambda index: at({**where, last.var: index}), dtype
            )

        return emit.grid([axis.extent for axis in outer], row, dtype, parallel=False)


def _with_reciprocals(
    value: Any, inner: Sequence[Axis], reduced: Sequence[Axis]
) -> tuple[Any, list[Any]]:
    """Quotients by what is the same for the whole row as products, rounded once more.

    And the statements that compute such divisors, once: a product names its divisor several times,
    and that of a norm of a norm would be written out tens of thousands of times. Those stay where
    they are that a condition may guard.
    """
    variables = [axis.var for axis in inner]
    changing = [
        *variables,
        *(axis.var for axis in reduced),
        *(let.var for let in _all(value, tirx.Let)),
    ]
    guarded = any(map(is_conditional, _all(value, Call)))
    statements: list[Any] = []
    numbers: list[tuple[Any, Any]] = []

    def held(divisor: Any, dtype: str) -> Any:
        if guarded or isinstance(divisor, BUFFER_LOAD) or _mentions(divisor, changing):
            return divisor
        for known, number in numbers:
            if tvm_ffi.structural_equal(known, divisor):
                return number
        number = tirx.decl_buffer((1,), dtype, "divisor", scope="local")
        zero = tirx.const(0, "int32")
        statements.extend([tirx.AllocBuffer(number), tirx.BufferStore(number, divisor, [zero])])
        numbers.append((divisor, number[(zero,)]))
        return numbers[-1][1]

    def replaced(division: Any) -> Any:
        dtype = str(division.ty.dtype)
        fixed = not _mentions(division.b, variables) and bool(loads(division.b))
        known = bool(reduced) and isinstance(division.b, tirx.FloatImm)
        if not (fixed or known) or dtype not in _EXTREMES:
            return division
        divisor = held(division.b, dtype) if fixed else division.b
        return _product(division.a, divisor, dtype)

    return tvm_ffi.structural_map(value, (tirx.Div, replaced), order="post"), statements


def _all(expression: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (kind, found.append), order="post")
    return found


def _mentions(expression: Any, variables: Sequence[Any]) -> bool:
    return any(var in variables for var in _all(expression, tirx.Var))


_EXTREMES = {
    "float16": (12, 10),
    "bfloat16": (100, 64),
    "float32": (100, 64),
    "float64": (999, 512),
}
"""Exponents of 2: of divisors whose reciprocals are near the ends of a type, and what mends it."""


def _product(dividend: Any, divisor: Any, dtype: str) -> Any:
    """The quotient as a product with a reciprocal that neither overflows nor is subnormal."""
    end, shift = (2.0**exponent for exponent in _EXTREMES[dtype])
    if isinstance(divisor, tirx.FloatImm) and 1 / end <= abs(float(divisor.value)) <= end:
        return dividend * (tirx.const(1.0, dtype) / divisor)
    one = tirx.const(1.0, dtype)
    size = tirx.Select(divisor < tirx.const(0.0, dtype), -divisor, divisor)
    down = tirx.Select(size > tirx.const(end, dtype), tirx.const(1 / shift, dtype), one)
    scale = tirx.Select(size < tirx.const(1 / end, dtype), tirx.const(shift, dtype), down)
    return dividend * scale * (one / (divisor * scale))


def _flat(indices: Sequence[Any], axes: Sequence[Axis], zero: Any) -> Any:
    total = zero
    for index, axis in zip(indices, axes, strict=True):
        total = total * axis.extent + index
    return total


def _scope(size: sizes.Extent, machine: CpuModel) -> str:
    return "local" if sizes.is_known(size) and size * 4 <= machine.stack_bytes else "global"
