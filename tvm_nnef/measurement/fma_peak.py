"""The measured peak speed of multiply-adds of the CPU, the reference for kernels.

Input: a target. Output: operations in a second. A loop over accumulators that stay in registers,
without loads, is compiled for a target by the same compiler as all kernels. It runs on the machine
itself, so the target has to be one that this machine executes.
"""

from __future__ import annotations

import time

import numpy as np
import tvm
from tvm import tirx

from tvm_nnef.schedules.machine import CpuModel, cpu_model
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    Target,
    opaque_function,
    runtime_tensor,
)

_STEPS = 1 << 16
_SECONDS = 0.2


def fma_peak(target: Target, threads: int = 1) -> float:
    """Return the floating-point operations in a second, in float32, with ``threads`` threads at
    once.

    It is the best of the runs of a fifth of a second. TVM's pool needs to have as many threads.
    """
    machine = cpu_model(target)
    library = tvm.compile(
        tvm.IRModule({"peak": _function(machine, threads).with_attr("global_symbol", "peak")}),
        target,
    )
    lanes, totals = machine.lanes(32), _totals(machine)
    tensors = [
        runtime_tensor(np.full(size, value, "float32"))
        for size, value in ((2, 0.5), (threads * totals * lanes, 0))
    ]
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        library["peak"](*tensors)
        best = min(best, time.perf_counter() - start)
    return 2.0 * _STEPS * threads * totals * lanes / best


def _totals(machine: CpuModel) -> int:
    """Return the number of vectors of accumulators: enough to hide latency, besides the two
    factors.
    """
    return machine.registers - 4


def _function(machine: CpuModel, threads: int) -> PrimFunction:
    """Return a function that repeats ``totals = totals * x[0] + x[1]`` and stores the totals, by
    thread.
    """
    lanes, count = machine.lanes(32), _totals(machine)
    width = lanes * count
    factors = tirx.decl_buffer((2,), "float32", "factors")
    result = tirx.decl_buffer((threads * width,), "float32", "result")

    def number(value: int) -> PrimExpression:
        return tirx.const(value, "int64")

    def task(indices: list[PrimExpression]) -> tirx.Stmt:
        totals = tirx.decl_buffer((width,), "float32", "totals", scope="local")
        factor, addend = (factors[(number(place),)] for place in range(2))
        first = indices[0] * number(width)

        def step(_: PrimExpression) -> tirx.Stmt:
            return emit.vectors(
                width,
                lanes,
                lambda i: tirx.BufferStore(totals, totals[(i,)] * factor + addend, [i]),
            )

        return emit.sequence(
            [
                tirx.AllocBuffer(totals),
                emit.vectors(width, lanes, lambda i: tirx.BufferStore(totals, addend, [i])),
                emit.loop(_STEPS, step, name="step"),
                emit.vectors(
                    width, lanes, lambda i: tirx.BufferStore(result, totals[(i,)], [first + i])
                ),
            ]
        )

    body = emit.grid([threads], task, "int64", parallel=True)
    return opaque_function("peak", [factors, result], [result], [], body)
