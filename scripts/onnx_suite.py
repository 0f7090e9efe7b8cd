"""Run the backend test suite of ONNX on a route, in processes that a case may end.

    python scripts/onnx_suite.py cuda --processes 14
    python scripts/onnx_suite.py cuda --cases split reduce_sum

Prints each case that fails, one that ended its process with the signal and what it printed last. A
process that has ended, and one whose GPU no longer works, is started again for the next case. Ends
with status 1 if a case failed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import tvm_nnef

CASES = Path(__file__).resolve().parents[1] / "tests" / "onnx" / "conftest.py"

Run = Callable[..., Any]
"""Gets the inputs of a model, and returns its outputs."""


def _evaluated(model: Any) -> Run:
    graph = tvm_nnef.compose(model)
    return lambda *inputs: tvm_nnef.evaluate(graph, *inputs, variables=model.variables)


def _built(*target: str, **options: str) -> Callable[[Any], Run]:
    return lambda model: tvm_nnef.build(model, *target, progress=False, **options)


ROUTES: Mapping[str, Callable[[Any], Run]] = {
    "reference": _evaluated,
    "mapped": _built(),
    "formula": _built(route="formula"),
    "cuda": _built("cuda"),
    "vulkan": _built("vulkan"),
}
"""From a converted model to a function of its inputs, by the name of the route."""


def outcome(case: Any, make: Callable[[], Run]) -> str:
    """Return the error in a case of the suite; empty if there is none."""
    try:
        run = make()
        for inputs, outputs in case.feeds():
            case.check(run(*inputs), outputs)
    except Exception as problem:  # whatever it is, it is the outcome of this case
        return f"{type(problem).__name__}: {problem}"[:300]
    return ""


def core_cases() -> Mapping[str, Any]:
    """The cases of the suite, by name."""
    spec = importlib.util.spec_from_file_location("onnx_suite_cases", CASES)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Mapping[str, Any] = module.core_cases()
    return found


class Worker:
    """A process that runs one case after the other; started again if one has ended it."""

    def __init__(self, command: Sequence[str], limit: float) -> None:
        """Takes the command of the process, and the seconds that a case may take."""
        self._command, self._limit = list(command), limit
        self._process: subprocess.Popen[str] | None = None
        self._printed: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115

    def outcome(self, name: str) -> str:
        """Return the error in a case; empty if there is none."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._limit, end)
        timer.start()
        try:
            print(name, file=process.stdin, flush=True)
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if answer:
            found, goes_on = json.loads(answer)
            if not goes_on:
                self.close()
            return str(found)
        self.close()
        if late.is_set():
            return f"takes more than {self._limit:.0f} seconds"
        status = process.returncode
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"ended the process with {how}: {self._last_lines()}"

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()

    def _started(self) -> subprocess.Popen[str]:
        self._printed.seek(0)
        self._printed.truncate()
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
        )

    def _last_lines(self) -> str:
        self._printed.seek(0)
        lines = [line.strip() for line in self._printed if line.strip()]
        return " ".join(lines[-2:])[-300:]


def worker(route: str, limit: float = 600) -> Worker:
    """A process that runs cases on a route."""
    return Worker([sys.executable, __file__, route, "--work"], limit)


def work(route: str) -> None:
    """Answer with the outcome of each case that is named on standard input, as a line of JSON.

    Beside it is whether the process can run other cases.
    """
    # What kernels and drivers print comes on standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cases = core_cases()
    for line in sys.stdin:
        case = cases[line.strip()]
        found = outcome(case, lambda: ROUTES[route](tvm_nnef.convert(case.model)))  # noqa: B023
        print(json.dumps([found, not (found and _is_broken(route))]), file=answers, flush=True)


def _is_broken(route: str) -> bool:
    from tvm_nnef.tvm_support import device_errors

    return route == "cuda" and device_errors.is_broken()


def main() -> int:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("route", choices=ROUTES)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--cases", nargs="+", default=[""], metavar="PART",
                        help="those whose names contain one of these (default: all)")  # fmt: skip
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS",
                        help="the time that a case may take (default: 600)")  # fmt: skip
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.route)
        return 0
    start = time.monotonic()
    names = [name for name in core_cases() if any(part in name for part in options.cases)]
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in sorted(names, key=lambda name: not name.startswith("light_")):  # These take long.
        waiting.put(name)
    failed: dict[str, str] = {}

    def run() -> None:
        process = worker(options.route, options.limit)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                return process.close()
            found = process.outcome(name)
            if found:
                failed[name] = found
                print(f"{name}: {' '.join(found.split())}", flush=True)

    # Each process would take all cores, and what was compiled before is not what is tested.
    os.environ.update(TVM_NUM_THREADS="1", TVM_NNEF_CACHE_MIB="0")
    threads = [threading.Thread(target=run) for _ in range(min(options.processes, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(names)} cases on the route {options.route}, {len(failed)} failed, "
          f"{time.monotonic() - start:.0f} s")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
