"""Parallel loops are cut into chunks that go to the thread that is free."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_nnef.compilation.passes import compile_kernel
from tvm_nnef.schedules.cpu.balancing import CHUNKS
from tvm_nnef.tvm_support.compat import PrimFunction, opaque_function, runtime_tensor
from tvm_nnef.tvm_support.threads import default_threads, use_threads

TARGET = tvm.target.Target("llvm")


def parallel(shape: object, body: Callable[[tirx.Buffer, tirx.Var], tirx.Stmt]) -> PrimFunction:
    """A function of an array of int64 that runs a body for each element, in parallel."""
    data = tirx.decl_buffer((shape,), "int64", "data")
    index = tirx.Var("index", "int64")
    zero = tirx.const(0, "int64")
    extent = shape if not isinstance(shape, int) else tirx.const(shape, "int64")
    loop = tirx.For(index, zero, extent, tirx.ForKind.PARALLEL, body(data, index))
    return opaque_function("main", [data], [data], [], loop)


def compiled(function: PrimFunction) -> Callable[[np.ndarray], np.ndarray]:
    kernel = compile_kernel(function, TARGET)

    def run(array: np.ndarray) -> np.ndarray:
        tensor = runtime_tensor(array)
        kernel(tensor)
        return np.asarray(tensor.numpy())

    return run


def counted(data: tirx.Buffer, index: tirx.Var) -> tirx.Stmt:
    """One more at the element, and its index: what runs twice or never shows."""
    return tirx.BufferStore(data, data[(index,)] + index + tirx.const(1, "int64"), [index])


@pytest.mark.parametrize("threads", [1, default_threads()])
@pytest.mark.parametrize("extent", [2, 3, 127, CHUNKS, CHUNKS + 1, 2 * CHUNKS - 1, 1000, 4096])
def test_each_element_is_visited_once(extent: int, threads: int) -> None:
    use_threads(threads)
    try:
        run = compiled(parallel(extent, counted))
        for _ in range(20):
            np.testing.assert_array_equal(run(np.zeros(extent, "int64")), np.arange(1, extent + 1))
    finally:
        use_threads(default_threads())


def test_each_element_of_a_symbolic_extent_is_visited_once() -> None:
    run = compiled(parallel(tirx.Var("n", "int64"), counted))
    for extent in (0, 1, 2, CHUNKS - 1, CHUNKS, CHUNKS + 1, 777):
        np.testing.assert_array_equal(run(np.zeros(extent, "int64")), np.arange(1, extent + 1))


@pytest.mark.skipif(default_threads() < 2, reason="there is one core")
def test_who_is_done_takes_from_others() -> None:
    """The first half takes all the time; what is stored is the thread that ran an element."""
    extent, steps = 64, 1 << 22

    def slow(data: tirx.Buffer, index: tirx.Var) -> tirx.Stmt:
        who = tirx.call_extern("int64", "pthread_self")
        count = tirx.if_then_else(
            index < tirx.const(extent // 2, "int64"),
            tirx.const(steps, "int64"),
            tirx.const(1, "int64"),
        )
        step = tirx.Var("step", "int64")
        # LLVM cannot leave out what a function of another library might do.
        call = tirx.BufferStore(data, who, [index])
        return tirx.For(step, tirx.const(0, "int64"), count, tirx.ForKind.SERIAL, call)

    run = compiled(parallel(extent, slow))
    assert any(len(set(run(np.zeros(extent, "int64"))[: extent // 2])) > 1 for _ in range(10))
