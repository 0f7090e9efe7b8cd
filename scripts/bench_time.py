"""Times that people wait: builds, calls, calls after idling and side by side, checking; and memory.

    python scripts/bench_time.py             # some ten minutes
    python scripts/bench_time.py calls check # some of it

Each row has what was measured, and a goal. Seconds are those of the processor in terms of an idle
machine (``bench_frontend.py``): a peer runs before each measurement. Calls are compared with
those of ONNX Runtime. Every measurement has its own process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bench_calls
import numpy as np
from bench import MEBIBYTE, in_process
from bench_frontend import ALEXNET, PEER, PEER_AT_REST, at_rest, compiled_modules, process
from bench_models import Network, suite
from bench_runtimes import ONNX_RUNTIME, OURS

Row = tuple[str, float, str, float]
"""Name of a measurement, the number, its unit, and the goal."""

BUILDS = {"add": 0.6, "squeezenet": 2.0, "resnet50": 3.5, "bert base": 5.0}
"""Seconds that the builds of models may take."""
DYNAMIC = ("squeezenet", "resnet50")
RATIO = 1.5
"""Upper limit of the time of a dynamic build, in times of a static one."""
CLIENTS = 8
CHAINS = (1_000, 10_000)
"""The lengths of models that are checked, in operations."""


def builds(folder: Path) -> Iterator[Row]:
    """From a file to an executable, nothing cached, and what memory that takes."""
    for name, goal in BUILDS.items():
        file = folder / "model.onnx"
        static, seconds = _built(name, file, dynamic=False)
        yield f"build {name}", seconds, "s", goal
        allowed = 2 * static["weights"] + 600 * MEBIBYTE
        yield f"memory of build {name}", static["memory"] / allowed, "of allowed", 1.0
        if name in DYNAMIC:
            _, longer = _built(name, file, dynamic=True)
            yield f"dynamic build {name}", longer / seconds, "x static", RATIO
    library = _library("add", folder)
    load = f"import tvm_nnef; tvm_nnef.load({str(library)!r})"
    yield "import and load", at_rest(lambda: process("-c", load) - process("-c", ""), 5), "s", 0.4


def calls(folder: Path) -> Iterator[Row]:
    """A call of a small model from Python, beside ONNX Runtime's."""
    import tvm_nnef

    for name, source in bench_calls.MODELS.items():
        file = folder / "model.onnx"
        tvm_nnef.convert(source, file)
        command = [sys.executable, bench_calls.__file__, "--row", name]
        ways = {way: subprocess.check_output([*command, way, file]) for way in bench_calls.WAYS}
        found = {way: float(json.loads(text)) for way, text in ways.items()}
        yield f"call, {name}", found["call"], "us", 8.0
        ratio = found["call"] / found["session.run"]
        yield f"call beside session.run, {name}", ratio, "x", 1.0


def idle(folder: Path) -> Iterator[Row]:
    """A call after a pause, beside one right after another; also of ONNX Runtime."""
    library, file, inputs = _library("squeezenet", folder), folder / "model.onnx", _inputs(folder)
    for runtime in (OURS, ONNX_RUNTIME):
        given: dict[str, Any] = {"library": str(library), "file": str(file), "inputs": inputs}
        given |= {"runtime": runtime, "outputs": str(folder / "out.npz"), "threads": 2}
        found = in_process("run", **given, seconds=4.0)
        yield f"call after idling, {runtime}", found["idle"] / found["busy"], "x busy", 1.15


def clones(folder: Path) -> Iterator[Row]:
    """Calls per second of clones side by side, beside those of one executable on as many cores."""
    import tvm_nnef
    from tvm_nnef.tvm_support.threads import available_cores

    executable = tvm_nnef.load(_library("squeezenet", folder))
    executable.threads = 1
    with np.load(_inputs(folder)) as stored:
        arrays = [stored[name] for name in stored.files]
    alone = _calls_per_second([executable], arrays)
    several = _calls_per_second([executable.clone() for _ in range(CLIENTS)], arrays)
    yield f"{CLIENTS} clones", several / (alone * min(CLIENTS, available_cores())), "of ideal", 0.95


def check(folder: Path) -> Iterator[Row]:
    """Yield the times of ``check`` and of the start of the program."""
    nothing = at_rest(lambda: process("-c", "import tvm_nnef"), 3)
    for length in CHAINS:
        file = folder / f"chain{length}.onnx"
        _write_chain(file, length)
        seconds = at_rest(lambda file=file: process("-m", "tvm_nnef", "check", str(file)), 1)
        yield f"check an operation of {length}", 1e3 * (seconds - nothing) / length, "ms", 0.3
    digits, start = str(bench_calls.DIGITS), process
    statement = "import tvm_nnef; tvm_nnef.check"
    yield "import", at_rest(lambda: start("-c", statement) - start("-c", ""), 5), "s", 0.06
    for name, arguments, goal in (
        ("--help", ("--help",), 0.15),
        ("check digits", ("check", digits), 0.3),
        ("check AlexNet", ("check", str(ALEXNET)), 0.15),
    ):
        yield (
            f"tvm-nnef {name}",
            at_rest(lambda given=arguments: start("-m", "tvm_nnef", *given), 5),
            "s",
            goal,
        )


SECTIONS: dict[str, Callable[[Path], Iterator[Row]]] = {
    each.__name__: each for each in (builds, calls, idle, clones, check)
}


def _built(name: str, file: Path, *, dynamic: bool) -> tuple[dict[str, Any], float]:
    """Return the report of the process of a build, and its seconds on the idle machine."""
    import onnx

    onnx.save(suite()[name].make(), file)
    paths = {"library": str(file.with_name("model.so")), "inputs": _inputs(file.parent)}
    peer = process("-c", PEER)
    found = in_process("build", file=str(file), **paths, dynamic=dynamic)
    return found, found["build"] / peer * PEER_AT_REST


def _library(name: str, folder: Path) -> Path:
    _built(name, folder / "model.onnx", dynamic=False)
    return folder / "model.so"


def _inputs(folder: Path) -> str:
    return str(folder / "inputs.npz")


def _calls_per_second(executables: list[Any], arrays: list[Any], seconds: float = 3.0) -> float:
    """Return how many calls a second executables make, each in its own thread."""
    counts, end = [0] * len(executables), time.perf_counter() + seconds

    def run(number: int) -> None:
        while time.perf_counter() < end:
            executables[number](*arrays)
            counts[number] += 1

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(executables))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(counts) / seconds


def _write_chain(file: Path, length: int) -> None:
    """Write an ONNX model of so many operations, one after the other."""
    import onnx

    made = Network({"x": (8, 64)})
    x = "x"
    for number in range(length):
        x = made.add("Relu", x) if number % 2 else made.add("Add", x, "x")
    onnx.save(made.model(x), file)


def main() -> int:
    """Measure what was asked for, and print a row for each measurement."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    options = parser.parse_args()
    if unknown := sorted({*options.sections}.difference(SECTIONS)):
        parser.error(f"unknown sections {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    print(f"{'':40}{'measured':>10} {'':12}{'goal':>8}")
    for name in options.sections or SECTIONS:
        with tempfile.TemporaryDirectory() as folder, compiled_modules():
            process("-m", "tvm_nnef", "check", str(ALEXNET))
            for what, number, unit, goal in SECTIONS[name](Path(folder)):
                print(f"{what:40}{number:10.3f} {unit:12}{goal:8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
