"""Speed of compiled models beside ONNX Runtime: a table, and the geometric mean of the ratios.

Each model of ``bench_models`` is converted, built, and run in the same process as ONNX Runtime, in
turns, once with one thread and once with all; the best of many runs counts, on one thread in
processor time, so that other processes disturb little. A ratio above 1 says that we are faster,
``peak`` is the share of what a loop of multiplications and additions in registers reaches. Building
is from reading the ONNX file to the executable, in processor time. Memory is the largest that the
process took for conversion and building, before ONNX Runtime came. What fails is named, and left
out of the mean. Ctrl-C ends with what was measured until then.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_models import SEED, Entry, suite

MEBIBYTE = 1 << 20
FLOOR = 0.8


@dataclass(frozen=True)
class Run:
    """The best times with some number of threads: ours and ONNX Runtime's, in seconds."""

    threads: int
    ours: float
    theirs: float
    peak: float

    @property
    def ratio(self) -> float:
        """How many times faster we are."""
        return self.theirs / self.ours


@dataclass(frozen=True)
class Row:
    """What was measured of one model; memory in bytes, of the weights and of the whole process."""

    name: str
    runs: tuple[Run, ...]
    error: float
    build: float
    memory: int
    weights: int
    flop: int | None

    @property
    def allowed(self) -> int:
        """How much memory building may take."""
        return 4 * self.weights + 1024 * MEBIBYTE

    def __str__(self) -> str:
        """A line of the table."""
        cells = [f"{self.name:18}"]
        for run in self.runs:
            share = "" if self.flop is None else f"{self.flop / run.ours / run.peak:.0%}"
            cells.append(
                f"{1e3 * run.theirs:10.3f}{1e3 * run.ours:10.3f}{run.ratio:7.2f}{share:>6}"
            )
        memory = f"{self.memory / MEBIBYTE:7.0f}{' >' if self.memory > self.allowed else ' <'}"
        cells.append(f"{self.error:10.1e}{self.build:8.1f}{memory}{self.allowed / MEBIBYTE:5.0f}")
        return "".join(cells)


@dataclass(frozen=True)
class Failure:
    """A model that could not be converted, built or run, or not be compared."""

    name: str
    failed: str

    def __str__(self) -> str:
        """A line of the table."""
        return f"{self.name:18} failed: {self.failed[:200]}"


def header(threads: Sequence[int]) -> str:
    """The head of the table."""
    runs = "".join(f"{f'ORT ms @{n}':>10}{'ours ms':>10}{'ratio':>7}{'peak':>6}" for n in threads)
    return f"{'':18}{runs}{'error':>10}{'build s':>8}{'MiB':>7}{'allowed':>8}"


def measured(name: str, file: Path, flop: int | None, seconds: float, counts: list[int]) -> Row:
    """One line of the table, by building and running a model in this process."""
    import tvm_nnef
    from tvm_nnef.compilation.target import native
    from tvm_nnef.diagnostics import error
    from tvm_nnef.measurement.onnx_runtime import largest_relative_error, open_session
    from tvm_nnef.measurement.peak import fma_peak
    from tvm_nnef.measurement.turns import timed_in_turns
    from tvm_nnef.tvm_support.threads import use_threads

    start = time.process_time()
    executable = tvm_nnef.build(tvm_nnef.convert(file), progress=False)
    build = time.process_time() - start
    memory = peak_memory()
    values = [random_input(port) for port in executable.inputs]
    runs, largest = [], 0.0
    for threads in counts:
        session = open_session(file, threads)
        executable.threads = threads
        theirs = session.prepared_in_order(values)
        for found, expected in zip(flat(executable(*values)), theirs(), strict=True):
            if emptiness := what_hides_errors(np.asarray(expected, "float64")):
                raise error(f"an output is {emptiness}, so that no error would be seen")
            largest = max(largest, largest_relative_error(found, expected))
        calls = [executable.prepared(*values), theirs]
        times = timed_in_turns(calls, seconds, alone=threads == 1)
        use_threads(threads)
        peak = fma_peak(native(), threads) if flop else 1.0
        runs.append(Run(threads, times[0].minimum, times[1].minimum, peak))
    return Row(name, tuple(runs), largest, build, memory, file.stat().st_size, flop)


def flat(outputs: Sequence[Any]) -> list[Any]:
    """The arrays of outputs, those of packs one by one."""
    lists = [output if isinstance(output, list) else [output] for output in outputs]
    return [array for each in lists for array in each]


def what_hides_errors(output: np.ndarray) -> str | None:
    """What is wrong with an output that says nothing about errors; None where it says much."""
    if not np.isfinite(output).all():
        return "not finite"
    sizes = np.abs(output)
    if np.ptp(output) <= 1e-5 * sizes.max(initial=0.0):
        return "constant"
    return "one number and many zeros" if sizes.max() > 0.9 * sizes.sum() else None


def peak_memory() -> int:
    """The most bytes that this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():
        # What getrusage tells begins with what the parent held.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def random_input(port: Any) -> Any:
    """Random numbers for an input, small indices where it takes such."""
    generator = np.random.default_rng(SEED)
    if port.dtype.startswith("int"):
        return generator.integers(0, 1000, port.shape).astype(port.dtype)
    return generator.random(port.shape, dtype="float32").astype(port.dtype)


def rows(entries: dict[str, Entry | Path], options: argparse.Namespace) -> Iterator[Row | Failure]:
    """Each model in a process of its own, which bounds what one can do to the next."""
    import onnx

    for name, entry in entries.items():
        with tempfile.TemporaryDirectory() as folder:
            flop = None
            if isinstance(entry, Path):
                file = entry
            else:
                file, flop = Path(folder) / "model.onnx", entry.flop
                onnx.save(entry.make(), file)
            task = {"name": name, "file": str(file), "flop": flop, "counts": options.threads}
            command = [sys.executable, __file__, "--one", json.dumps(task)]
            command += ["--seconds", str(options.seconds)]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reasons = done.stderr.strip().splitlines() if done.returncode > 0 else []
            yield Failure(name, (reasons or [f"it ended with status {done.returncode}"])[-1])
            continue
        found = json.loads(done.stdout.strip().splitlines()[-1])
        yield Row(**{**found, "runs": tuple(Run(**run) for run in found["runs"])})


def summary(found: Sequence[Row | Failure], counts: Sequence[int]) -> Iterator[str]:
    """Geometric means, and the models that are behind, or failed."""
    measured_rows = [row for row in found if isinstance(row, Row)]
    for place, threads in enumerate(counts if measured_rows else ()):
        ratios = {row.name: row.runs[place].ratio for row in measured_rows}
        mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
        yield f"{threads} thread(s): geometric mean {mean:.2f}"
        for what, low, high in (("below 0.8", 0.0, FLOOR), ("0.8 to 1", FLOOR, 1.0)):
            names = [
                f"{name} {ratio:.2f}"
                for name, ratio in sorted(ratios.items(), key=lambda pair: pair[1])
                if low <= ratio < high
            ]
            yield f"  {what}: {', '.join(names) or 'none'}"
    if failures := [row.name for row in found if isinstance(row, Failure)]:
        yield f"failed: {', '.join(failures)}"


def one(task: dict[str, Any], seconds: float) -> None:
    """Measures a model in this process and prints what came out as JSON; ends with the reason."""
    from tvm_nnef.diagnostics import NnefError

    try:
        row = measured(**{**task, "file": Path(task["file"])}, seconds=seconds)
    except NnefError as problem:
        sys.exit(str(problem).splitlines()[0])
    print(json.dumps(asdict(row)))


def measured_one_by_one(
    chosen: dict[str, Entry | Path], options: argparse.Namespace
) -> tuple[list[Row | Failure], bool]:
    """What each model came to, told and kept at once, and whether that was interrupted."""
    from tvm_nnef.storage.output import write_file

    found: list[Row | Failure] = []
    try:
        for row in rows(chosen, options):
            print(row, flush=True)
            found.append(row)
            if options.json:
                write_file(options.json, json.dumps(list(map(asdict, found)), indent=1).encode())
    except KeyboardInterrupt:
        print(f"interrupted after {len(found)} of {len(chosen)} models", file=sys.stderr)
        return found, True
    return found, False


def thread_count(text: str) -> int:
    """A number of threads that this machine has cores for."""
    from tvm_nnef.tvm_support.threads import available_cores

    cores = available_cores()
    if not text.isdecimal() or not 1 <= int(text) <= cores:
        raise argparse.ArgumentTypeError(f"'{text}' is not from 1 to {cores}, the number of cores")
    return int(text)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names of models, or ONNX files; all without")
    parser.add_argument(
        "--threads", type=thread_count, nargs="+", help="numbers of threads (default: 1, all)"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each model runs")
    parser.add_argument("--json", help="a file to write what was measured to")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Measure the models that were asked for and print the table."""
    from tvm_nnef.tvm_support.threads import default_threads

    parser = make_parser()
    options = parser.parse_args()
    if options.one:
        one(options.one, options.seconds)
        return 0
    options.threads = options.threads or sorted({1, default_threads()})
    if options.json and (Path(options.json).is_dir() or not Path(options.json).parent.is_dir()):
        parser.error(f"cannot write '{options.json}'")
    models = suite()
    unknown = [n for n in options.models if n not in models and not n.endswith(".onnx")]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; there are {', '.join(models)}")
    chosen = {n: models[n] if n in models else Path(n) for n in options.models or models}
    print(header(options.threads))
    found, interrupted = measured_one_by_one(chosen, options)
    print(*summary(found, options.threads), sep="\n")
    if interrupted:
        return 130
    return 0 if all(isinstance(row, Row) for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
