"""One model in one runtime, alone in its process: a task as JSON in, times as JSON out.

``bench.py`` starts this file for every model, runtime and number of threads, so that the spinning
threads, caches and memory of one runtime do not disturb another one. The tasks are ``build`` (the
ONNX file to a library and its inputs) and ``run`` (a library or ONNX file, timed).
"""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_models import with_batch

SEED = 0
OURS, ONNX_RUNTIME, OPENVINO = "tvm_nnef", "onnxruntime", "openvino"
BOUNDED = "bounded"
"""Ours, of the same model with a bound for its dynamic batch."""

Call = Callable[[], list[Any]]
"""Runs a model on its inputs, and returns its outputs."""

_WARM = 0.3
"""Seconds of runs that are not timed: threads start, caches fill, clocks rise."""

_IDLE = 0.1
"""Seconds of sleep before a run that is timed after idling: threads of all runtimes are asleep."""


_LARGEST_BATCH = 32
"""The bound of a dynamic batch in the library ``BOUNDED``."""


def installed(runtime: str) -> bool:
    """Whether a runtime can be imported."""
    return importlib.util.find_spec(runtime) is not None


def build(file: str, library: str, inputs: str, dynamic: bool) -> dict[str, Any]:
    """Build a library from an ONNX file, and write inputs for it; time, memory, and sizes."""
    import tvm_nnef
    from tvm_nnef.diagnostics import NnefError

    if dynamic:
        import onnx

        onnx.save(with_batch(onnx.load(file), "batch"), file)
    start = time.process_time()
    try:
        executable = tvm_nnef.build(tvm_nnef.convert(file), progress=False, cache=False)
        seconds, memory = time.process_time() - start, peak_memory()
        executable.export(library)
        if dynamic:
            bounded = tvm_nnef.convert(file, bounds=_LARGEST_BATCH)
            made = tvm_nnef.build(bounded, progress=False, cache=False)
            made.export(_bounded(library))
    except NnefError as problem:
        sys.exit(str(problem).splitlines()[0])
    arrays = {port.name: random_input(port) for port in executable.inputs}
    np.savez(inputs, **{f"{number}": array for number, array in enumerate(arrays.values())})
    return {"build": seconds, "memory": memory, "weights": Path(file).stat().st_size}


def _bounded(library: str) -> str:
    return str(Path(library).with_name("bounded.so"))


def run(
    runtime: str, file: str, library: str, inputs: str, outputs: str, threads: int, seconds: float
) -> dict[str, Any]:
    """The median times of a runtime, back to back and after idling; its outputs go to a file.

    On one thread the processor time of the process counts, else the time of the wall clock.
    """
    with np.load(inputs) as stored:
        arrays = [stored[name] for name in stored.files]
    files = {OURS: library, BOUNDED: _bounded(library)}
    call = _RUNTIMES[runtime](files.get(runtime, file), arrays, threads)
    found = call()
    np.savez(outputs, **{str(number): np.asarray(each) for number, each in enumerate(found)})
    clock = time.process_time if threads == 1 else time.perf_counter
    timed(call, clock, _WARM, 0.0)
    busy = timed(call, clock, seconds * 0.75, 0.0)
    idle = timed(call, clock, seconds * 0.25, _IDLE)
    return {"busy": float(np.median(busy)), "idle": float(np.median(idle))}


def timed(
    call: Call, clock: Callable[[], float], seconds: float, pause: float, least: int = 3
) -> list[float]:
    """The times of runs for so many seconds, with a pause before each of them."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
        if pause:
            time.sleep(pause)
        start = clock()
        call()
        found.append(clock() - start)
    return found


def peak(threads: int) -> dict[str, Any]:
    """The multiplications and additions per second of a loop in registers."""
    from tvm_nnef.compilation.target import native
    from tvm_nnef.measurement.fma_peak import fma_peak
    from tvm_nnef.tvm_support.threads import use_threads

    use_threads(threads)
    return {"peak": fma_peak(native(), threads)}


def _ours(library: str, inputs: Sequence[Any], threads: int) -> Call:
    import tvm_nnef

    executable = tvm_nnef.load(library)
    executable.threads = threads

    def call() -> list[Any]:
        outputs = executable(*inputs)
        return [array for each in outputs for array in (each if isinstance(each, list) else [each])]

    return call


def _onnx_runtime(file: str, inputs: Sequence[Any], threads: int) -> Call:
    from tvm_nnef.converters.onnx.runtime import open_session

    return open_session(Path(file), threads).prepared_in_order(inputs)


def _openvino(file: str, inputs: Sequence[Any], threads: int) -> Call:
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        # Else it computes in bfloat16 where the processor can.
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.compile_model(file, "CPU", options).create_infer_request()
    for number, array in enumerate(inputs):
        request.set_input_tensor(number, openvino.Tensor(array))

    def call() -> list[Any]:
        request.infer()
        return [each.data for each in request.output_tensors]

    return call


_RUNTIMES: dict[str, Callable[[str, Sequence[Any], int], Call]] = {
    OURS: _ours,
    BOUNDED: _ours,
    ONNX_RUNTIME: _onnx_runtime,
    OPENVINO: _openvino,
}


def random_input(port: Any) -> Any:
    """Random numbers for an input, small indices where it takes such; dynamic dimensions are 1."""
    generator = np.random.default_rng(SEED)
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    if port.dtype.startswith("int"):
        return generator.integers(0, 1000, shape).astype(port.dtype)
    return generator.random(shape, dtype="float32").astype(port.dtype)


def peak_memory() -> int:
    """The most bytes that this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():
        # What getrusage returns begins with what the parent held.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_TASKS: dict[str, Callable[..., dict[str, Any]]] = {"build": build, "run": run, "peak": peak}


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(_TASKS[task.pop("task")](**task)))
