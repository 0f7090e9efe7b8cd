"""Speed of compiled models beside ONNX Runtime and OpenVINO: a table, and geometric means.

Each model of ``bench_models`` is converted and built, and run in each runtime that is installed,
each alone in its process (``bench_runtimes.py``), in rounds: warm, back to back (``busy``) and
after idling (``idle``), with one thread and with all. A process reports its median, and the fastest
round of each runtime counts, since other load of the machine only slows. A ratio above 1
says that we are faster; ``peak`` is the share of what a loop of multiplications and additions in
registers reaches. Building is from reading the ONNX file to the executable, in processor time;
memory is the most that this takes. A model that fails is named, and left out of the means. Ctrl-C
ends with what was measured until then.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_models import Entry, suite
from bench_runtimes import BOUNDED, ONNX_RUNTIME, OPENVINO, OURS, installed

MEBIBYTE = 1 << 20
FLOOR = 0.8
ROUNDS = 3
NAMES = {ONNX_RUNTIME: "ORT", OPENVINO: "OV", BOUNDED: "bounded"}


@dataclass(frozen=True)
class Run:
    """Seconds of each runtime with a number of threads, busy and after idling: fastest medians."""

    threads: int
    busy: Mapping[str, float]
    idle: Mapping[str, float]
    peak: float

    def ratio(self, runtime: str, kind: str = "busy") -> float:
        """Return how many times faster we are than a runtime."""
        times: Mapping[str, float] = getattr(self, kind)
        return times[runtime] / times[OURS]


@dataclass(frozen=True)
class Row:
    """Measurements of one model; memory in bytes, of the weights and of the whole process."""

    name: str
    runs: tuple[Run, ...]
    error: float
    build: float
    memory: int
    weights: int
    flop: int | None

    @property
    def allowed(self) -> int:
        """Return the upper limit of the memory of a build."""
        return 4 * self.weights + 1024 * MEBIBYTE

    def __str__(self) -> str:
        """A line of the table."""
        cells = [f"{self.name:18}"]
        for run in self.runs:
            share = "" if self.flop is None else f"{self.flop / run.busy[OURS] / run.peak:.0%}"
            cells.append(f"{1e3 * run.busy[OURS]:10.3f}{share:>6}")
            for runtime in run.busy:
                if runtime != OURS:
                    cells += [f"{run.ratio(runtime, kind):9.2f}" for kind in ("busy", "idle")]
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


class Failed(Exception):
    """A process ended with an error; the last line that it printed."""


def header(threads: Sequence[int], others: Sequence[str]) -> str:
    """The head of the table."""
    ratios = "".join(f"{NAMES[other]:>9}{'idle':>9}" for other in others)
    runs = "".join(f"{f'ours ms @{n}':>10}{'peak':>6}{ratios}" for n in threads)
    return f"{'':18}{runs}{'error':>10}{'build s':>8}{'MiB':>7}{'allowed':>8}"


def in_process(
    task: str, *, script: str = "bench_runtimes.py", limit: float | None = None, **arguments: object
) -> dict[str, Any]:
    """The result of a task of a script, in its own process, of at most ``limit`` seconds."""
    file = Path(__file__).with_name(script)
    command = [sys.executable, str(file), json.dumps({"task": task, **arguments})]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"it took longer than {limit:.0f} s") from None
    if done.returncode:
        reasons = done.stderr.strip().splitlines() if done.returncode > 0 else []
        raise Failed((reasons or [f"it ended with status {done.returncode}"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@functools.cache
def peak(threads: int) -> float:
    """The multiplications and additions per second of this machine."""
    return float(in_process("peak", threads=threads)["peak"])


def measured(
    name: str, file: Path, flop: int | None, others: Sequence[str], options: argparse.Namespace
) -> Row:
    """One line of the table, from an ONNX file in its own folder."""
    library, inputs = (str(file.with_name(each)) for each in ("model.so", "inputs.npz"))
    common = {"file": str(file), "library": library, "inputs": inputs}
    kept = file.with_name("built.json")
    if not kept.exists():
        built = in_process("build", **common, dynamic=options.dynamic)
        kept.write_text(json.dumps(built))
    built = json.loads(kept.read_text())
    runs, largest = [], 0.0
    runtimes = (OURS, *others)
    for threads in options.threads:
        rounds = []
        for _ in range(ROUNDS):
            found = {}
            for runtime in runtimes:
                outputs = str(file.with_name(f"{runtime}.npz"))
                arguments = {"runtime": runtime, "outputs": outputs, "threads": threads}
                seconds = options.seconds / ROUNDS
                found[runtime] = in_process("run", **common, **arguments, seconds=seconds)
            rounds.append(found)
        largest = max(largest, largest_error(file.parent))
        busy, idle = (
            {each: min(float(r[each][kind]) for r in rounds) for each in runtimes}
            for kind in ("busy", "idle")
        )
        runs.append(Run(threads, busy, idle, peak(threads) if flop else 1.0))
    return Row(name, tuple(runs), largest, **built, flop=flop)


def largest_error(folder: Path) -> float:
    """The largest difference of our outputs from those of ONNX Runtime, relative to the largest."""
    from tvm_nnef.converters.onnx.runtime import largest_relative_error

    errors = []
    with np.load(folder / f"{OURS}.npz") as ours, np.load(folder / f"{ONNX_RUNTIME}.npz") as theirs:
        for name in theirs.files:
            if emptiness := what_hides_errors(theirs[name].astype("float64")):
                raise Failed(f"an output is {emptiness}, so that no error would be seen")
            errors.append(largest_relative_error(ours[name], theirs[name]))
    return max(errors)


def what_hides_errors(output: np.ndarray) -> str | None:
    """Return why an output hides errors; None if it shows them."""
    if not np.isfinite(output).all():
        return "not finite"
    sizes = np.abs(output)
    if np.ptp(output) <= 1e-5 * sizes.max(initial=0.0):
        return "constant"
    return "one number and many zeros" if sizes.max() > 0.9 * sizes.sum() else None


def rows(
    entries: Mapping[str, Entry | Path], others: Sequence[str], options: argparse.Namespace
) -> Iterator[Row | Failure]:
    """Each model, with its files in a folder: a temporary one, or one that is kept."""
    import onnx

    for name, entry in entries.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if options.folder:
                folder = options.folder / (name.replace(" ", "_") + ".dynamic" * options.dynamic)
                folder.mkdir(parents=True, exist_ok=True)
            file = folder / "model.onnx"
            flop = None if isinstance(entry, Path) else entry.flop
            if not file.exists():
                onnx.save(onnx.load(entry) if isinstance(entry, Path) else entry.make(), file)
            try:
                yield measured(name, file, flop, others, options)
            except Failed as problem:
                yield Failure(name, str(problem))


def summary(
    found: Sequence[Row | Failure], counts: Sequence[int], others: Sequence[str]
) -> Iterator[str]:
    """Geometric means, and the models that are slower, or failed."""
    measured_rows = [row for row in found if isinstance(row, Row)]
    for position, threads in enumerate(counts if measured_rows else ()):
        for other in others:
            ratios = {row.name: row.runs[position].ratio(other) for row in measured_rows}
            idle = [row.runs[position].ratio(other, "idle") for row in measured_rows]
            means = [float(np.exp(np.mean(np.log(each)))) for each in ([*ratios.values()], idle)]
            yield (
                f"{threads} thread(s), beside {NAMES[other]}: "
                f"geometric mean {means[0]:.2f}, after idling {means[1]:.2f}"
            )
            for what, low, high in (("below 0.8", 0.0, FLOOR), ("0.8 to 1", FLOOR, 1.0)):
                names = [
                    f"{name} {ratio:.2f}"
                    for name, ratio in sorted(ratios.items(), key=lambda pair: pair[1])
                    if low <= ratio < high
                ]
                yield f"  {what}: {', '.join(names) or 'none'}"
    if failures := [row.name for row in found if isinstance(row, Failure)]:
        yield f"failed: {', '.join(failures)}"


def measured_one_by_one(
    chosen: Mapping[str, Entry | Path], others: Sequence[str], options: argparse.Namespace
) -> tuple[list[Row | Failure], bool]:
    """The result of each model, printed and kept at once, and whether that was interrupted."""
    from tvm_nnef.storage.output import write_file

    found: list[Row | Failure] = []
    try:
        for row in rows(chosen, others, options):
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


_DYNAMIC = "make the batch dynamic, without a bound; also beside a build with one"


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names of models, or ONNX files; all without")
    parser.add_argument(
        "--threads", type=thread_count, nargs="+", help="numbers of threads (default: 1, all)"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="how long each runtime runs each model"
    )
    parser.add_argument("--dynamic", action="store_true", help=_DYNAMIC)
    parser.add_argument("--json", help="a file to write what was measured to")
    parser.add_argument("--folder", type=Path, help="where models and libraries are kept")
    return parser


def main() -> int:
    """Measure the models that were asked for and print the table."""
    from tvm_nnef.tvm_support.threads import default_threads

    parser = make_parser()
    options = parser.parse_args()
    options.threads = options.threads or sorted({1, default_threads()})
    if options.json and (Path(options.json).is_dir() or not Path(options.json).parent.is_dir()):
        parser.error(f"cannot write '{options.json}'")
    models = suite()
    unknown = [n for n in options.models if n not in models and not n.endswith(".onnx")]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; there are {', '.join(models)}")
    chosen = {n: models[n] if n in models else Path(n) for n in options.models or models}
    others = [each for each in (ONNX_RUNTIME, OPENVINO) if installed(each)]
    others += [BOUNDED] if options.dynamic else []
    if OPENVINO not in others:
        print("OpenVINO is not installed (pip install openvino), and is left out", file=sys.stderr)
    print(header(options.threads, others))
    found, interrupted = measured_one_by_one(chosen, others, options)
    print(*summary(found, options.threads, others), sep="\n")
    if interrupted:
        return 130
    return 0 if all(isinstance(row, Row) for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
