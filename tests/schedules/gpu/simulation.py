"""Launches of schedules for GPUs: counted, checked, and run on the CPU.

:func:`simulated` gives serial loops: blocks one after the other, and in each the phases one after
the other, each for all threads. That is what a GPU computes if no thread reads what another one
writes in the same phase; as the order of threads is free, a function that breaks this rule gives
other numbers if it is reversed. A launch without blocks raises an exception.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi
from tvm import s_tir, sym, tirx
from tvm.ir import Call, StringImm, TensorLoad

from tvm_nnef.compilation import pipeline
from tvm_nnef.compilation.passes import PHASES, Pass, compile_kernel
from tvm_nnef.compilation.passes import passes as every_pass
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.gpu.launch import BLOCK, THREAD, without_empty_launches
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import nodes, variables
from tvm_nnef.tvm_support import build, cuda
from tvm_nnef.tvm_support.compat import (
    dtype_of,
    poll_signals,
    prim_functions,
    update_functions,
    with_mapped_body,
)
from tvm_nnef.tvm_support.function_attributes import ON_HOST


def simulate(
    monkeypatch: pytest.MonkeyPatch, arch: str = "sm_80", *, reverse: bool = False
) -> None:
    """Let builds for this CPU have the schedules of a GPU, as serial loops."""
    # Those of the compiler, also where a test simulates several times.
    original, cuda = every_pass, resolve({"kind": "cuda", "arch": arch})

    def serial(module: Any) -> Any:
        functions = _launched(prim_functions(module))
        for function in functions.values():
            launches(function)
        made = {n: _with_serial_loops(f, reverse) for n, f in functions.items()}
        return update_functions(module, made)

    def passes(target: Any, *options: Any, **found: Any) -> list[Pass]:
        last = PHASES.index("schedule")
        others, of_gpu = (original(each, *options, **found) for each in (target, cuda))
        # It comes after barriers are inserted, which are nothing in serial loops.
        (skip,) = (each for each in of_gpu if each.name == "skip_empty_launches")
        # What runs on this CPU describes itself as for this CPU.
        first = [each for each in others if each.phase == "bind"]
        first += [e for e in of_gpu if e.phase != "bind" and PHASES.index(e.phase) <= last]
        first.append(Pass("simulate", "schedule", lambda module: serial(skip.run(module))))
        # CUDA has no common subexpressions by name either (compilation/passes.py).
        named = "eliminate_common_subexpressions"
        later = (e for e in others if PHASES.index(e.phase) > last and e.name != named)
        return [*first, *later]

    monkeypatch.setattr(pipeline, "passes", passes)


def simulated(function: Any, *, reverse: bool = False) -> Any:
    """The function without empty launches, and with serial loops.

    Those over threads may run from the last to the first.
    """
    return _with_serial_loops(without_empty_launches(function), reverse)


def _with_serial_loops(function: Any, reverse: bool) -> Any:
    buffers: dict[Any, Any] = {}

    def collect(allocation: Any) -> None:
        buffer = allocation.buffer
        name, size = str(buffer.name), [int(extent) for extent in buffer.shape]
        if is_shared(buffer):
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


def is_shared(buffer: Any) -> bool:
    """Whether the threads of a block share a buffer."""
    return str(buffer.scope()).startswith("shared")


def _serial(loop: Any, buffers: dict[Any, Any], reverse: bool) -> Any:
    """A loop without binding; its buffers are those of its thread."""
    if loop.thread_binding is None:
        return loop
    if str(loop.thread_binding.thread_tag) != THREAD:
        launched = tirx.Evaluate(tirx.call_packed(LAUNCH, loop.extent))
        blocks = tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)
        return tirx.SeqStmt([launched, blocks])
    thread = loop.loop_var
    last = loop.extent - tirx.const(1, dtype_of(thread))
    body = _of_thread(loop.body, buffers, thread)
    if reverse:
        back = {thread: last - thread}
        body = tvm_ffi.structural_map(body, (tirx.Var, lambda var: back.get(var, var)))
        # LLVM makes vectors of no loop with a call. In reversed ones it takes the address of a load
        # from a lane for which the condition of the load does not hold.
        body = tirx.SeqStmt([body, poll_signals()])
    return tirx.For(thread, loop.min, loop.extent, tirx.ForKind.SERIAL, body)


LAUNCH = "tests.check_launch"
"""The function that is called before each launch."""


@tvm_ffi.register_global_func(LAUNCH, override=True)
def _check_launch(blocks: int) -> None:
    """Raises RuntimeError for what no GPU launches."""
    if blocks < 1:
        raise RuntimeError(f"a launch of {blocks} blocks")


def _of_thread(body: Any, buffers: dict[Any, Any], thread: Any) -> Any:
    """A statement with the elements of one thread in buffers for all of them."""

    def indices(buffer: Any, own: list[Any]) -> list[Any]:
        return own if is_shared(buffer) else [thread, *own]

    def load(each: Any) -> Any:
        found = buffers.get(each.source)
        return each if found is None else found[tuple(indices(each.source, list(each.indices)))]

    def store(each: Any) -> Any:
        found = buffers.get(each.buffer)
        if found is None:
            return each
        return tirx.BufferStore(found, each.value, indices(each.buffer, list(each.indices)))

    rewrites = [
        (TensorLoad, load),
        (tirx.BufferStore, store),
        (tirx.Evaluate, lambda each: _instruction(each.value, thread)),
    ]
    return tvm_ffi.structural_map(body, rewrites, order="post")


def is_aligned(load: Any, count: int) -> Any:
    """Whether an element is the first one of a vector that a GPU can load or store."""
    offset = tirx.const(0, dtype_of(load.indices[-1]))
    for index, extent in zip(load.indices, load.source.shape, strict=True):
        offset = offset * extent + index
    return tirx.floormod(offset, tirx.const(count, dtype_of(offset))) < 1


COPIES = {
    **{f"copy_{size}_bytes": size for size in (2, 4, 8, 16)},
    **{f"copy_{size}_bytes_async": size for size in (4, 8, 16)},
    "clear_vector": 16,
}
"""The bytes that functions of CUDA copy or clear."""


def _instruction(call: Any, thread: Any) -> Any:
    """What one thread does by an instruction of its warp, as loops; barriers do nothing.

    The layouts of fragments are those of mma.m16n8k16 in NVIDIA's manual of PTX.
    """
    if not isinstance(call, Call) or not str(call.op.name).endswith("cuda.func_call"):
        return tirx.Evaluate(0)
    if str(call.args[0].value) in ("end_copies", "wait_for_copies_0", "wait_for_copies_1"):
        return tirx.Evaluate(0)
    name, *arguments = [each.value if isinstance(each, StringImm) else each for each in call.args]
    pointers = [each.args[0] for each in arguments if isinstance(each, Call)]
    warp = thread - tirx.floormod(thread, tirx.const(32, dtype_of(thread)))
    lane = thread - warp
    group, member = lane // 4, lane % 4

    def at(load: Any, offset: Any, other: Any = None) -> Any:
        *outer, index = load.indices
        return load.source, [*([other] if other is not None else outer), index + offset]

    def element(*spot: Any) -> Any:
        buffer, indices = at(*spot)
        return buffer[tuple(indices)]

    def fragment(number: int) -> Any:
        word, half = divmod(number, 2)
        inner, outer = word % 2 * 8, word // 2 * 8
        first = (inner, outer) if name.startswith("load_left") else (outer, inner)
        position, step = first[0] + group, first[1] + member * 2 + half
        stride = arguments[2]
        steps = name.endswith("along_steps")
        offset = position * stride + step if steps else step * stride + position
        buffer, indices = at(pointers[0], number)
        return tirx.BufferStore(buffer, element(pointers[1], offset), indices)

    if name in COPIES:
        dtype = str(pointers[0].source.dtype)
        zero, count = tirx.const(0, dtype), 8 * COPIES[name] // bits_of(dtype)
        inside = arguments[2] if name.endswith("_async") else tirx.const(1, "int32")
        wrong = tirx.const(1 if dtype == "bool" else 77, dtype)
        aligned = tirx.all(*(is_aligned(pointer, count) for pointer in pointers))
        values = [
            tirx.if_then_else(inside > 0, element(pointers[1], n), zero) if pointers[1:] else zero
            for n in range(count)
        ]
        values = [tirx.if_then_else(aligned, value, wrong) for value in values]
        positions = [at(pointers[0], n) for n in range(count)]
        stores = zip(positions, values, strict=True)
        return emit.sequence(
            [tirx.BufferStore(to, value, indices) for (to, indices), value in stores]
        )
    if "_along_" in name:
        return tirx.SeqStmt([fragment(number) for number in range(8)])
    low, high, left, right = pointers

    def product(target: Any, row: int, column: int) -> Any:
        buffer, indices = at(target, column)
        total = buffer[tuple(indices)]
        for k in range(16):
            owner, half = k % 8 // 2, k % 2
            a = element(left, 2 * (row + 2 * (k // 8)) + half, warp + group * 4 + owner)
            b = element(right, 2 * (k // 8) + half, warp + (member * 2 + column) * 4 + owner)
            total += tirx.Cast("float32", a) * tirx.Cast("float32", b)
        return tirx.BufferStore(buffer, total, indices)

    pairs = ((low, 0), (high, 1))
    return tirx.SeqStmt([product(to, row, column) for to, row in pairs for column in range(2)])


def _allocated(allocation: Any, buffers: dict[Any, Any]) -> Any:
    found = buffers.get(allocation.buffer)
    return allocation if found is None else tirx.AllocBuffer(found)


def _thread_loops(function: Any) -> list[Any]:
    found: list[Any] = []

    def look(loop: Any) -> None:
        if loop.thread_binding is not None and str(loop.thread_binding.thread_tag) == THREAD:
            found.append(loop)

    tvm_ffi.structural_walk(function.body, (tirx.For, look))
    return found


def _private(function: Any) -> list[Any]:
    """The buffers that are allocated inside of a phase."""
    found: list[Any] = []
    for loop in _thread_loops(function):
        tvm_ffi.structural_walk(
            loop.body, (tirx.AllocBuffer, lambda each: found.append(each.buffer))
        )
    return found


def _most_threads(function: Any) -> int:
    return max((int(loop.extent) for loop in _thread_loops(function)), default=1)


@dataclass(frozen=True)
class Launch:
    """A launch of blocks of some threads; what they share, in bytes; None for dynamic blocks."""

    blocks: int | None
    threads: int
    shared_bytes: int
    bytes_at_launch: int


def launches(function: Any) -> list[Launch]:
    """The launches of a scheduled function, after checking that each store is in one of them.

    In a launch all phases have the same threads, and no loop over threads is in another one.
    """
    return [_launch(loop) for loop in _launch_loops(function.body)]


def _launched(functions: Mapping[str, Any]) -> dict[str, Any]:
    """The functions that the CPU does not run."""
    return {n: f for n, f in functions.items() if ON_HOST not in (f.attrs or {})}


def check_limits(functions: Mapping[str, Any], machine: GpuModel) -> None:
    """An AssertionError if a function is not bound, or a launch of it is more than a GPU runs."""
    for name, function in _launched(functions).items():
        found = launches(function)
        assert found, f"{name} is not launched"
        for launch in found:
            assert 1 <= launch.threads <= machine.block_threads, name
            assert launch.shared_bytes <= machine.block_shared_bytes, name
            together = launch.shared_bytes + launch.bytes_at_launch
            assert together <= machine.tile_shared_bytes, name


def check_compiled(function: Any, target: Any) -> None:
    """An AssertionError if nvcc does not compile a function, or it spills registers."""
    if ON_HOST in (function.attrs or {}):
        return
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        sources: list[str] = []
        original = build._generated

        def generated(functions: Any, kind: Any) -> Any:
            module = original(functions, kind)
            if str(kind.kind.name) == "cuda":
                sources.append(str(module.inspect_source()))
            return module

        patch.setattr(build, "_generated", generated)
        compile_kernel(function, target)
        file = Path(folder, "kernel.cu")
        file.write_text("".join(sources))
        command = [cuda.find_compiler(), f"-arch={target.attrs['arch']}", "-cubin", "-Xptxas", "-v"]
        done = subprocess.run(
            [*command, file, "-o", Path(folder, "out")], check=False, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert {*re.findall(r"(\d+) bytes spill", done.stderr)} == {"0"}


def steps(function: Any, size: int, *, of_a_thread: bool = False) -> int:
    """The steps of all threads of a function or of one, if each dynamic dimension has a size.

    A loop as long as a condition holds counts as a binary search: as long as a number has bits.
    """
    return _steps(function.body, {}, size, bound=1 if of_a_thread else None)


def _steps(node: Any, values: dict[Any, int | None], size: int, bound: int | None) -> int:
    """The steps of a statement, given the values of loops; None for those of blocks and threads."""

    def steps_of(each: Any, more: dict[Any, int | None]) -> int:
        return 0 if each is None else _steps(each, {**values, **more}, size, bound)

    if isinstance(node, tirx.While):
        return size.bit_length() * steps_of(node.body, {})
    if isinstance(node, tirx.IfThenElse):
        test = _value(node.condition, values, size)
        found = [steps_of(each, {}) for each in (node.then_case, node.else_case)]
        return max(found) if test is None else found[0 if test else 1]
    if isinstance(node, tirx.For):
        extent = _value(node.extent, values, size)
        assert extent is not None, node.extent
        if node.thread_binding is not None:
            return steps_of(node.body, {node.loop_var: None}) * (extent if bound is None else bound)
        if not _decides(node.loop_var, node.body, values):
            return extent * steps_of(node.body, {node.loop_var: 0})
        return sum(steps_of(node.body, {node.loop_var: number}) for number in range(extent))
    if isinstance(node, (tirx.BufferStore, tirx.Bind)):
        return 1
    return sum(steps_of(part, {}) for part in _parts(node))


def _decides(var: Any, body: Any, values: dict[Any, int | None]) -> bool:
    """Whether the number of steps of a statement depends on the value of a variable."""
    loops = nodes(body, tirx.For)
    unknown = {each.loop_var for each in loops if each.thread_binding is not None}
    unknown |= {each for each, value in values.items() if value is None}
    tests = [each.condition for each in nodes(body, tirx.IfThenElse)]
    found = [set(variables(each)) for each in (*tests, *(each.extent for each in loops))
             if not nodes(each, TensorLoad)]  # fmt: skip
    return any(var in each and not each & unknown for each in found)


def _value(expression: Any, values: dict[Any, int | None], size: int) -> int | None:
    """The value of an expression of serial loops and dynamic dimensions; None for others."""
    known = {var: values.get(var, size) for var in variables(expression)}
    if nodes(expression, TensorLoad) or None in known.values():
        return None

    def number(var: Any) -> Any:
        return tirx.const(known[var], dtype_of(var))

    found = sym.Analyzer().simplify(tvm_ffi.structural_map(expression, (tirx.Var, number)))
    return int(found.value) if isinstance(found, tirx.IntImm) else None


def _launch_loops(node: Any) -> Iterator[Any]:
    """The outermost loops over blocks; an AssertionError if something is stored outside of them."""
    if isinstance(node, tirx.For) and node.thread_binding is not None:
        assert str(node.thread_binding.thread_tag) == BLOCK, "threads outside of blocks"
        yield node
        return
    assert not isinstance(node, tirx.BufferStore), f"not bound: {node}"
    for part in _parts(node):
        yield from _launch_loops(part)


def _parts(node: Any) -> list[Any]:
    if isinstance(node, s_tir.SBlockRealize):
        return [node.block.body, *([node.block.init] if node.block.init is not None else [])]
    if isinstance(node, tirx.SeqStmt):
        return list(node.seq)
    if isinstance(node, tirx.IfThenElse):
        return [each for each in (node.then_case, node.else_case) if each is not None]
    return [node.body] if hasattr(node, "body") else []


def _launch(loop: Any) -> Launch:
    threads: list[int] = []
    shared: list[int] = []
    at_launch: list[int] = []

    def phase(inner: Any) -> None:
        if inner.thread_binding is None:
            return
        tag = str(inner.thread_binding.thread_tag)
        assert tag == THREAD, f"a launch inside of another: {tag}"
        threads.append(int(inner.extent))
        nested: list[Any] = []
        tvm_ffi.structural_walk(inner.body, (tirx.For, nested.append))
        assert all(each.thread_binding is None for each in nested), "phases inside of each other"

    def allocation(node: Any) -> None:
        if is_shared(node.buffer):
            elements = math.prod(map(int, node.buffer.shape))
            bytes_of = at_launch if str(node.buffer.scope()).endswith(".dyn") else shared
            bytes_of.append(elements * bits_of(str(node.buffer.dtype)) // 8)

    tvm_ffi.structural_walk(loop.body, (tirx.For, phase))
    tvm_ffi.structural_walk(loop.body, (tirx.AllocBuffer, allocation))
    assert len(set(threads)) == 1, "phases of different threads"
    assert len(at_launch) <= 1, "several buffers that are allocated at the launch"
    _check_stores(loop.body, inside=False)
    blocks = int(loop.extent) if isinstance(loop.extent, tirx.IntImm) else None
    return Launch(blocks, threads[0], sum(shared), sum(at_launch))


def _check_stores(node: Any, *, inside: bool) -> None:
    """Each store of a launch is in a phase, or all threads of the block would do it."""
    if isinstance(node, tirx.For) and node.thread_binding is not None:
        inside = True
    assert inside or not isinstance(node, tirx.BufferStore), f"not bound to threads: {node}"
    for part in _parts(node):
        _check_stores(part, inside=inside)
