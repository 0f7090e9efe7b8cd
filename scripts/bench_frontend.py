"""Measures the speed of the front end against its limits.

The limits are seconds of the processor on an idle machine of the year 2026. The same program takes
a third longer from one minute to the next where a machine is shared with others, so a peer runs in
front of each measurement, and the median of the ratios counts, in terms of the peer's time on the
idle machine. What still differs from run to run is up to a quarter: exit status 1 where a limit is
exceeded by more. The start of the interpreter is taken off the import. All modules are compiled, as
pip leaves them, whatever the environment says about writing bytecode and wherever the sources lie.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PEER = """
import argparse, ast, dataclasses, inspect, pickle, typing
for module in (argparse, ast, dataclasses, inspect, pickle, typing):
    ast.unparse(ast.parse(inspect.getsource(module)))
"""
"""Python's own parser and printer: modules loaded, objects made, as in the front end."""
PEER_AT_REST = 0.28
"""Processor seconds of the peer on the idle machine."""
NOISE = 1.25
"""By what factor the same program may differ."""
ALEXNET = Path(__file__).resolve().parents[1] / "docs" / "examples" / "alexnet"


def at_rest(measure: Callable[[], float], repeats: int) -> float:
    """Processor seconds that something would take on the idle machine."""
    ratios = []
    for _ in range(repeats):
        peer = process("-c", PEER)
        ratios.append(measure() / peer)
    return PEER_AT_REST * statistics.median(ratios)


def process(*arguments: str) -> float:
    """Processor seconds of a fresh interpreter; raises CalledProcessError if it fails."""
    start = children_seconds()
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return children_seconds() - start


def children_seconds() -> float:
    """Processor seconds of all processes that this one started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def compiled_modules() -> Iterator[None]:
    """Let the processes that are started inside find all modules compiled after their first run."""
    with tempfile.TemporaryDirectory() as compiled:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        yield


def import_seconds() -> float:
    """``import tvm_nnef`` and the names that need no TVM, without the interpreter's own start."""
    statement = "import tvm_nnef; tvm_nnef.load_model, tvm_nnef.check, tvm_nnef.NnefError"
    return process("-c", statement) - process("-c", "")


def check_seconds() -> float:
    """``tvm-nnef check`` of AlexNet in a fresh process, interpreter start included."""
    return process("-m", "tvm_nnef", "check", str(ALEXNET))


def from_nnef_seconds() -> Callable[[], float]:
    """``from_nnef`` of AlexNet with its weights as parameters, in a warm process."""
    import numpy as np

    import tvm_nnef

    graph = tvm_nnef.compose(ALEXNET)
    zero = np.float32(0)
    empty = {tensor.name: np.broadcast_to(zero, tensor.shape) for tensor in graph.variables}

    def measure() -> float:
        start = time.process_time()
        tvm_nnef.from_nnef(ALEXNET, variables=empty, keep_params_in_input=True)
        return time.process_time() - start

    measure()
    return measure


def main() -> int:
    """Measure, print, and say by the exit status whether all limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    rows: list[tuple[str, Callable[[], float], float]] = [
        ("import tvm_nnef", import_seconds, 0.2),
        ("tvm-nnef check AlexNet", check_seconds, 0.5),
        ("from_nnef AlexNet", from_nnef_seconds(), 0.3),
    ]
    print(f"{'':24}{'seconds':>9}{'limit':>8}")
    exceeded = False
    with compiled_modules():
        for name, measure, limit in rows:
            at_rest(measure, 1)  # fills the folder of compiled modules and the cache of parsed ones
            seconds = at_rest(measure, repeats)
            exceeded |= seconds >= limit * NOISE
            print(f"{name:24}{seconds:9.3f}{limit:8.1f}{'  exceeded' if seconds >= limit else ''}")
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
