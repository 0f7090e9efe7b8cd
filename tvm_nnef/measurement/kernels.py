"""Timing of the kernels of a built module, each alone.

Input: modules and a library. Output: a report. A kernel runs by itself on random data, repeatedly:
its operands are in the nearest cache that holds them, and the sum over all kernels excludes the
overhead of the virtual machine.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows the name "bfloat16" once this is imported.
import numpy as np
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef import schedules
from tvm_nnef.measurement.kernel_report import KernelReport, KernelRow
from tvm_nnef.profiling.flop_counts import extent_value, size_estimates, work_of
from tvm_nnef.schedules.cpu.quotients import divides_data
from tvm_nnef.tir.expressions import loads
from tvm_nnef.tvm_support import build, compat
from tvm_nnef.tvm_support.compat import Module, PrimFunction, bits_of, prim_functions
from tvm_nnef.tvm_support.threads import use_threads

SECONDS = 8.0
"""The time limit for all kernels of a model, in seconds."""

_PATIENCE = 0.2
"""The time limit for one kernel, if there are few, in seconds."""

_PATTERN = 1 << 16
"""The number of random numbers that are generated; larger buffers repeat them."""

_LARGEST_INT = 7
"""The largest of random ints: a shift by it is always valid."""


def kernel_report(
    fused: Module, scheduled: Module, library: Any, *, here: bool, threads: int
) -> KernelReport:
    """Return the report of a module, from before scheduling, after it, and compiled.

    Kernels are timed if the library runs ``here``, on ``threads`` threads.
    """
    # Loops that scheduling made hold kernels without own code then.
    functions, calls = prim_functions(scheduled) | prim_functions(fused), calls_of(scheduled)
    sizes = size_estimates(scheduled)
    reported = {kernel.name: kernel for kernel in schedules.report(scheduled)}
    seconds: Mapping[str, float | None] = {}
    if here:
        use_threads(threads)
        seconds = _timed(functions, library, sizes)
    metadata = json.loads(library.metadata or "{}")
    operations = operations_of(metadata)
    notes = {
        each["name"]: each["note"] for each in metadata.get("operations", ()) if "note" in each
    }
    rows = []
    for name, function in functions.items():
        own, sums = tuple(operations.get(name, ())), sums_of(function)
        row = KernelRow(
            name=name,
            strategy=reported[name].strategy or "none" if name in reported else "none",
            calls=calls.get(name, 0),
            work=work_of(function, sizes),
            seconds=seconds.get(name),
            plan=reported[name].plan if name in reported else "",
            operations=own,
            dtype=(sums or stores_of(function) or [""])[-1],
            notes=tuple(f"{each}: {notes[each]}" for each in own if each in notes and sums),
        )
        rows.append(row)
    rows.sort(key=lambda row: (-(row.total or 0.0), -(row.work.flop if row.work else 0), row.name))
    return KernelReport(tuple(rows), threads if here else None)


def operations_of(metadata: Mapping[str, Any]) -> dict[str, dict[str, None]]:
    """Return the operations of the model in each kernel, by its name, from the metadata."""
    operations: dict[str, dict[str, None]] = {}
    for calls in metadata.get("calls", {}).values():
        for kernel, shares in calls:
            names = (metadata["operations"][number]["name"] for number, _ in shares)
            operations.setdefault(kernel, {}).update(dict.fromkeys(names))
    return operations


def _stores(function: PrimFunction) -> list[Any]:
    """Return the blocks of a kernel that store something, in order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, found.append), order="post")
    return [each for each in found if isinstance(each.body, tirx.BufferStore)]


def stores_of(function: PrimFunction) -> list[str]:
    """Return the dtypes of what a kernel stores."""
    return [str(block.body.buffer.dtype) for block in _stores(function)]


def sums_of(function: PrimFunction) -> list[str]:
    """Return the dtypes of the sums of a kernel.

    That of a sum of integers comes after that of the operands, as in ``int16 to int32``.
    """
    found: list[str] = []
    for block in _stores(function):
        if block.init is not None:
            dtype = str(block.body.buffer.dtype)
            operands = {str(load.source.dtype) for load in loads(block.body.value)}
            whole = [each for each in operands if each.startswith(("int", "uint"))]
            least = min(sorted(whole), key=bits_of, default=dtype)
            found.append(dtype if least == dtype else f"{least} to {dtype}")
    return found


def calls_of(mod: Module) -> Counter[str]:
    """Return the number of calls of each PrimFunc in the Relax functions, by its name."""
    counts: Counter[str] = Counter()

    def visit(expression: Any) -> None:
        if isinstance(expression, Call) and expression.args:
            first = expression.args[0]
            operator = str(getattr(expression.op, "name", ""))
            if operator.startswith("relax.call_tir") and hasattr(first, "name_hint"):
                counts[str(first.name_hint)] += 1

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return counts


def _timed(
    functions: Mapping[str, PrimFunction], library: Any, sizes: Mapping[str, int]
) -> dict[str, float | None]:
    patience = min(_PATIENCE, SECONDS / 2 / max(1, len(functions)))
    machine_code = build.kernels_of(library)
    times: dict[str, float | None] = {}
    for name, function in functions.items():
        arguments = random_arguments(function, sizes)
        kernel = machine_code(name)
        if arguments is None or kernel is None:
            times[name] = None
        else:
            times[name] = best_time(kernel, arguments, patience)
    return times


def best_time(kernel: Callable[..., object], arguments: Sequence[Any], patience: float) -> float:
    """Return the shortest run of a kernel within a time limit; of at least two runs."""
    times: list[float] = []
    deadline = time.perf_counter() + patience
    while len(times) < 2 or time.perf_counter() < deadline:
        start = time.perf_counter()
        kernel(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def random_arguments(function: PrimFunction, sizes: Mapping[str, int]) -> list[Any] | None:
    """Return random arguments for a PrimFunc; None if a dimension is unknown or negative.

    Ints are small, from 0 on, or from 1 if they are divisors. If they are bounds of loops or
    indices of elements, they are 0 or 1, as such elements always exist.
    """
    least = int(_divides(function))
    most = least if _are_places(function) else _LARGEST_INT
    arguments = []
    for parameter in function.params:
        if compat.is_scalar(parameter):
            value = extent_value(parameter, sizes)
            if value is None:
                return None
            arguments.append(value)
            continue
        shape = [extent_value(size, sizes) for size in parameter.shape]
        if any(size is None or size < 0 for size in shape):
            return None
        known = tuple(size for size in shape if size is not None)
        array = _random(known, str(parameter.dtype), least, most)
        if array is None:
            return None
        arguments.append(compat.runtime_tensor(array))
    return arguments


def _divides(function: PrimFunction) -> bool:
    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, stores.append), order="post")
    return any(divides_data(store.value) for store in stores)


def _are_places(function: PrimFunction) -> bool:
    """Whether elements of tensors are indices or the ends of loops."""
    places: list[Any] = []
    while_loops: list[Any] = []

    def look(node: Any) -> None:
        match node:
            case tirx.While():
                while_loops.append(node)
            case tirx.For():
                places.append(node.extent)
            case tirx.Let() | tirx.Bind():
                places.append(node.value)
            case _:
                places.extend(node.indices)

    kinds = (
        TensorLoad, tirx.BufferStore, tirx.For, tirx.While, tirx.Let, tirx.Bind,
    )  # fmt: skip
    tvm_ffi.structural_walk(function.body, (kinds, look), order="post")
    return bool(while_loops) or any(map(loads, places))


def _random(shape: tuple[int, ...], dtype: str, least: int, most: int) -> Any:
    """Return an array of a shape, with ints between limits.

    It is None for a dtype that NumPy does not have.
    """
    generator = np.random.default_rng(0)
    if dtype.startswith(("int", "uint")):
        return np.resize(generator.integers(least, most + 1, _PATTERN).astype(dtype), shape)
    if dtype == "bool":
        return np.resize(generator.integers(0, 2, _PATTERN).astype(bool), shape)
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return np.resize(generator.standard_normal(_PATTERN).astype(dtype), shape)
    return None
