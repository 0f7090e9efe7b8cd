"""Launches as loops of a CPU, so that the numbers of a schedule can be checked without a GPU.

Input: a function whose loops are bound. Output: the same with serial loops: blocks one after the
other, and in each the phases one after the other, each for all threads. That is what a GPU computes
if no thread reads what another one writes in the same phase; as the order of threads is free, a
function that breaks this rule gives other numbers if it is reversed.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.emit import Statement
from tvm_nnef.schedules.gpu.launch import THREAD
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    Buffer,
    PrimExpression,
    PrimFunction,
    dtype_of,
    with_mapped_body,
)


def simulated(function: PrimFunction, *, reverse: bool = False) -> PrimFunction:
    """The function with serial loops; those over threads may run from the last to the first."""
    buffers: dict[Buffer, Buffer] = {}

    def collect(allocation: Statement) -> None:
        buffer = allocation.buffer
        name, size = str(buffer.name), [int(extent) for extent in buffer.shape]
        if str(buffer.scope()) == "shared":
            buffers[buffer] = tirx.decl_buffer(size, buffer.dtype, name)
        elif buffer not in private:
            buffers[buffer] = tirx.decl_buffer([_most_threads(function), *size], buffer.dtype, name)

    private = _private(function)
    tvm_ffi.structural_walk(function.body, (tirx.AllocBuffer, collect))
    return with_mapped_body(
        function,
        (tirx.For, lambda loop: _serial(loop, buffers, reverse)),
        (tirx.AllocBuffer, lambda each: _allocated(each, buffers)),
    )


def _serial(loop: Statement, buffers: dict[Buffer, Buffer], reverse: bool) -> Statement:
    """A loop without binding; its buffers are those of its thread."""
    if loop.thread_binding is None:
        return loop
    if str(loop.thread_binding.thread_tag) != THREAD:
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)
    thread = loop.loop_var
    last = loop.extent - tirx.const(1, dtype_of(thread))
    body = _of_thread(loop.body, buffers, thread)
    if reverse:
        back = {thread: last - thread}
        body = tvm_ffi.structural_map(body, (tirx.Var, lambda var: back.get(var, var)))
    return tirx.For(thread, loop.min, loop.extent, tirx.ForKind.SERIAL, body)


def _of_thread(body: Statement, buffers: dict[Buffer, Buffer], thread: PrimExpression) -> Statement:
    """A statement with the elements of one thread in buffers for all of them."""

    def indices(buffer: Buffer, own: list[PrimExpression]) -> list[PrimExpression]:
        return own if str(buffer.scope()) == "shared" else [thread, *own]

    def load(each: PrimExpression) -> PrimExpression:
        found = buffers.get(each.source)
        return each if found is None else found[tuple(indices(each.source, list(each.indices)))]

    def store(each: Statement) -> Statement:
        found = buffers.get(each.buffer)
        if found is None:
            return each
        return tirx.BufferStore(found, each.value, indices(each.buffer, list(each.indices)))

    return tvm_ffi.structural_map(
        body, [(BUFFER_LOAD, load), (tirx.BufferStore, store)], order="post"
    )


def _allocated(allocation: Statement, buffers: dict[Buffer, Buffer]) -> Statement:
    found = buffers.get(allocation.buffer)
    return allocation if found is None else tirx.AllocBuffer(found)


def _thread_loops(function: PrimFunction) -> list[Statement]:
    found: list[Statement] = []

    def look(loop: Statement) -> None:
        if loop.thread_binding is not None and str(loop.thread_binding.thread_tag) == THREAD:
            found.append(loop)

    tvm_ffi.structural_walk(function.body, (tirx.For, look))
    return found


def _private(function: PrimFunction) -> list[Buffer]:
    """The buffers that are allocated inside of a phase."""
    found: list[Buffer] = []
    for loop in _thread_loops(function):
        tvm_ffi.structural_walk(
            loop.body, (tirx.AllocBuffer, lambda each: found.append(each.buffer))
        )
    return found


def _most_threads(function: PrimFunction) -> int:
    return max((int(loop.extent) for loop in _thread_loops(function)), default=1)
