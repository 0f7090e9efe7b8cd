"""The kernels of a module that was built, each timed alone: modules and a library in, a report out.

A kernel runs by itself on random data, over and over: what it reads is as near as the caches allow,
and the sum over all kernels leaves out what the virtual machine needs between them.
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
"""How long the timing of all kernels of a model may take."""

_PATIENCE = 0.2
"""How long one kernel is timed, if there are few."""

_PATTERN = 1 << 16
"""How many random numbers are made; larger buffers repeat them."""

_LARGEST_INT = 7
"""The largest of random ints: no shift by it is longer than an int."""


def kernel_report(
    fused: Module, scheduled: Module, library: Any, *, here: bool, threads: int
) -> KernelReport:
    """The report of a module, from before scheduling, after it, and compiled.

    Kernels are timed where the library runs ``here``, on so many threads.
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
    rows = [
        KernelRow(
            name=name,
            strategy=reported[name].strategy or "none" if name in reported else "none",
            calls=calls.get(name, 0),
            work=work_of(function, sizes),
            seconds=seconds.get(name),
            plan=reported[name].plan if name in reported else "",
            operations=tuple(operations.get(name, ())),
            dtype=(sums_of(function) or stores_of(function) or [""])[-1],
            notes=tuple(
                f"{each}: {notes[each]}"
                for each in operations.get(name, ())
                if each in notes and sums_of(function)
            ),
        )
        for name, function in functions.items()
    ]
    rows.sort(key=lambda row: (-(row.total or 0.0), -(row.work.flop if row.work else 0), row.name))
    return KernelReport(tuple(rows), threads if here else None)


def operations_of(metadata: Mapping[str, Any]) -> dict[str, dict[str, None]]:
    """The operations of the model in each kernel, by its name, as the metadata have them."""
    found: dict[str, dict[str, None]] = {}
    for calls in metadata.get("calls", {}).values():
        for kernel, shares in calls:
            names = (metadata["operations"][number]["name"] for number, _ in shares)
            found.setdefault(kernel, {}).update(dict.fromkeys(names))
    return found


def _stores(function: PrimFunction) -> list[Any]:
    """The blocks of a kernel that store something, in order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, found.append), order="post")
    return [each for each in found if isinstance(each.body, tirx.BufferStore)]


def stores_of(function: PrimFunction) -> list[str]:
    """The dtypes of what a kernel stores."""
    return [str(block.body.buffer.dtype) for block in _stores(function)]


def sums_of(function: PrimFunction) -> list[str]:
    """The dtypes of the sums of a kernel.

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
    """The number of calls of each PrimFunc in the Relax functions, by its name."""
    found: Counter[str] = Counter()

    def visit(expression: Any) -> None:
        if isinstance(expression, Call) and expression.args:
            first = expression.args[0]
            operator = str(getattr(expression.op, "name", ""))
            if operator.startswith("relax.call_tir") and hasattr(first, "name_hint"):
                found[str(first.name_hint)] += 1

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return found


def _timed(
    functions: Mapping[str, PrimFunction], library: Any, sizes: Mapping[str, int]
) -> dict[str, float | None]:
    patience = min(_PATIENCE, SECONDS / 2 / max(1, len(functions)))
    machine_code = build.kernels_of(library)
    found: dict[str, float | None] = {}
    for name, function in functions.items():
        arguments = random_arguments(function, sizes)
        kernel = machine_code(name)
        if arguments is None or kernel is None:
            found[name] = None
        else:
            found[name] = best_time(kernel, arguments, patience)
    return found


def best_time(kernel: Callable[..., object], arguments: Sequence[Any], patience: float) -> float:
    """The shortest of the runs of a kernel in so many seconds; of two at least."""
    times: list[float] = []
    deadline = time.perf_counter() + patience
    while len(times) < 2 or time.perf_counter() < deadline:
        start = time.perf_counter()
        kernel(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def random_arguments(function: PrimFunction, sizes: Mapping[str, int]) -> list[Any] | None:
    """What a PrimFunc may be called with; None if a dimension is unknown or negative.

    Ints are small, from 0 on, or from 1 where they are divided by. Where they say how far a loop
    goes or what element is meant, they are 0 or 1, as elements are always there that low.
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
        shape = [extent_value(extent, sizes) for extent in parameter.shape]
        if any(extent is None or extent < 0 for extent in shape):
            return None
        known = tuple(extent for extent in shape if extent is not None)
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
    found: list[Any] = []

    def look(node: Any) -> None:
        match node:
            case tirx.While():
                found.append(node)
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
    return bool(found) or any(map(loads, places))


def _random(shape: tuple[int, ...], dtype: str, least: int, most: int) -> Any:
    """An array of the shape, its ints between two; None for a dtype that NumPy does not have."""
    generator = np.random.default_rng(0)
    if dtype.startswith(("int", "uint")):
        return np.resize(generator.integers(least, most + 1, _PATTERN).astype(dtype), shape)
    if dtype == "bool":
        return np.resize(generator.integers(0, 2, _PATTERN).astype(bool), shape)
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return np.resize(generator.standard_normal(_PATTERN).astype(dtype), shape)
    return None
