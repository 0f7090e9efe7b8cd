"""Time of a call of a small model from Python, beside ONNX Runtime.

    python scripts/bench_calls.py

Each row runs in its own process, on one thread. Times are microseconds of the processor, which
other processes disturb little: the median of rounds of many calls. ``call`` is ``executable(...)``,
``out`` the same with preallocated outputs, ``prepared`` a run on fixed inputs that returns TVM's
tensors; ``session.run`` and ``run_with_iobinding`` are ONNX Runtime's, of the same model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tvm_nnef

DIGITS = Path(__file__).parents[1] / "docs" / "examples" / "digits"

PAIR = """
import math;
graph Pair {
    @input { a: real[4,4]; b: real[4,4]; }
    @output { sum: real[4,4]; product: real[4,4]; }
    @compose { sum = math.add(a, b); product = math.mul(a, b); }
}
"""

MODELS: dict[str, str | Path] = {"digits": DIGITS, "two inputs, two outputs": PAIR}
"""Models whose kernels take a few microseconds."""

WAYS = ("call", "out", "prepared", "session.run", "run_with_iobinding")
ROUND, ROUNDS = 2000, 9


def ours(name: str, way: str) -> Callable[[], Any]:
    """A call of a compiled model."""
    executable = tvm_nnef.build(MODELS[name], progress=False)
    executable.threads = 1
    arrays = _inputs(executable)
    if way == "prepared":
        return executable.prepared(*arrays)
    if way == "call":
        return lambda: executable(*arrays)
    outputs = [np.empty(port.shape, port.dtype) for port in executable.outputs]  # type: ignore[union-attr]
    return lambda: executable(*arrays, out=outputs)


def theirs(file: str, way: str) -> Callable[[], Any]:
    """A call of an ONNX model in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    arrays = {
        port.name: random.random(port.shape, dtype="float32") for port in session.get_inputs()
    }
    if way == "session.run":
        return lambda: session.run(None, arrays)
    binding = session.io_binding()
    for key, array in arrays.items():
        binding.bind_cpu_input(key, array)
    for port in session.get_outputs():
        binding.bind_output(port.name)
    return lambda: session.run_with_iobinding(binding)


def _inputs(executable: tvm_nnef.Executable) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.random(port.shape, dtype="float32") for port in executable.inputs]  # type: ignore[union-attr]


def microseconds(call: Callable[[], Any]) -> float:
    """The median time of a call, over rounds of many."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(ROUND):
            call()
        found.append((time.process_time() - start) / ROUND * 1e6)
    return float(np.median(found[1:]))


def main() -> None:
    """Measure each row in its own process, and print a table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        name, way, file = options.row
        make = theirs(file, way) if way in WAYS[3:] else ours(name, way)
        print(json.dumps(microseconds(make)))
        return
    print("\t".join(("model", *WAYS)))
    for name, source in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model.onnx")
            tvm_nnef.convert(source, file)
            command = [sys.executable, __file__, "--row", name]
            rows = [subprocess.check_output([*command, way, file]) for way in WAYS]
        print("\t".join((name, *(f"{json.loads(row):.1f}" for row in rows))), flush=True)


if __name__ == "__main__":
    main()
