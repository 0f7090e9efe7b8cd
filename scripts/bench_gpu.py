"""Speed on a GPU beside PyTorch and ONNX Runtime, in two halves: ``prepare`` here, ``run`` there.

``prepare`` needs nvcc and no GPU. It builds the cases of ``bench_gpu_cases.py`` for CUDA, computes
some elements of their outputs on the CPU, and puts them, and the part of TVM that runs them, into
one folder of some tens of MiB. ``run`` needs this repository, that folder, a GPU with its driver,
and NumPy; PyTorch and ONNX Runtime are measured where they are installed. Each runtime has its
own process, one at a time; the outputs of ours are compared with the expected ones, and
kernels with what the bandwidth and the arithmetic of the GPU allow (``roof``). What was measured is
kept after each case, so that ``run`` can be interrupted and called again with the same ``--json``.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bench import Failed
from bench_gpu_cases import (
    DTYPES,
    TOLERANCES,
    Case,
    described,
    folder_of,
    key,
    made,
    sampled,
    suite,
)

SCRIPT = "bench_gpu_runtimes.py"
OURS = {"ours": False, "graphs": True}
"""Our runs: without and with CUDA graphs."""

RUNTIMES = (*OURS, "pytorch", "compiled", "onnxruntime")
MULTIPLY_ADDS = {
    **{75: {"float32": 64, "float16": 512}, 80: {"float32": 64, "float16": 1024}},
    **{90: {"float32": 128, "float16": 2048}, 100: {"float32": 128, "float16": 4096}},
}
"""Operations per cycle of a multiprocessor, by version and dtype, as NVIDIA lists them."""

RUNTIME_FILES = (
    *("_version.py", "libinfo.py"),
    *(f"lib/libtvm_runtime{part}.so" for part in ("", "_cuda")),
)
"""Files of the package ``tvm`` that running a library needs."""


def prepare(options: argparse.Namespace) -> int:
    """Build what was asked for that is not there, and write what ``run`` needs."""
    folder = folder_of(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    copy_packages(Path(options.folder) / "site", options.python, RUNTIME_FILES, [])
    if options.compiler:
        pack_compiler(Path(options.folder) / "compiler" / "site.tar.xz", options.python)
    failed = 0
    chosen = {name: case for name, case in suite().items() if wanted(name, options.cases)}
    for number, (name, case) in enumerate(chosen.items()):
        for batch in case.batches:
            start = time.perf_counter()
            print(f"{number + 1}/{len(chosen)} {name}, batch {batch}", end=" ", flush=True)
            try:
                prepare_case(folder, name, case, batch, options.target)
                print(f"{time.perf_counter() - start:.0f} s", flush=True)
            except Exception as problem:  # The others are prepared.
                failed += 1
                print(f"failed: {str(problem).splitlines()[0]}", flush=True)
    size = sum(each.stat().st_size for each in Path(options.folder).rglob("*") if each.is_file())
    print(f"{options.folder}: {size / 2**20:.1f} MiB")
    return bool(failed)


def wanted(name: str, cases: list[str]) -> bool:
    """Whether a case was asked for."""
    return not cases or name in cases


def prepare_case(folder: Path, name: str, case: Case, batch: int, target: str) -> None:
    """The libraries of a case for each dtype, and its inputs and expected outputs; unless there."""
    from bench_models import with_batch
    from tvm import relax

    import tvm_nnef

    description = folder / f"{key(name, batch)}.json"
    if description.exists():
        return
    proto = case.make()
    proto = with_batch(proto, batch) if batch > 1 else proto
    model = tvm_nnef.convert(proto.SerializeToString())

    @functools.cache
    def lowered(dtype: str) -> tuple[Any, list[Any]]:
        # Some tensors of a converted model have their own dtype.
        named = (name for name, own in model.machine_types.items() if own == "float32")
        types = {"real": dtype, **dict.fromkeys(named, dtype)}
        module = tvm_nnef.from_nnef(model, keep_params_in_input=True, dtypes=types)
        module, weights = relax.frontend.detach_params(module)
        return module, [each.numpy() for each in weights.get("main", [])]

    module, weights = lowered("float32")
    on_cpu = tvm_nnef.build(module, progress=False)
    specs = [input_spec(port) for port in on_cpu.inputs[: len(on_cpu.inputs) - len(weights)]]
    specs += [described(each) for each in weights]
    given = [made(s, n, p.dtype) for n, (s, p) in enumerate(zip(specs, on_cpu.inputs, strict=True))]
    outputs = on_cpu(*given)
    np.savez_compressed(
        folder / f"{key(name, batch)}.npz", **{f"{n:03}": sampled(e) for n, e in enumerate(outputs)}
    )
    for dtype in DTYPES:
        for suffix, graphs in library_suffixes(case).items():
            library = folder / f"{key(name, batch, dtype)}{suffix}.so"
            if not library.exists():
                module = lowered(dtype)[0]
                built = tvm_nnef.build(module, target, progress=False, cuda_graphs=graphs)
                built.export(library)
    moved = sum(e.nbytes for e in (*given, *outputs)) / 4 if not case.is_network else 0
    content = {"name": name, "batch": batch, "flop": case.flop * batch, "elements": moved}
    description.write_text(json.dumps({**content, "specs": specs}))


def library_suffixes(case: Case) -> Mapping[str, bool]:
    """The ends of the names of libraries, and whether they have CUDA graphs."""
    return {"": False, "-graphs": True} if case.is_network else {"": False}


def input_spec(port: Any) -> dict[str, Any]:
    """Return the recipe of an input."""
    if port.dtype.startswith("int"):
        return {"shape": list(port.shape), "below": 1000}
    return {"shape": list(port.shape), "mean": 0.0, "deviation": 1.0}


def copy_packages(folder: Path, python: str, tvm_files: Iterable[str], packages: list[str]) -> None:
    """Write files of TVM, and packages for a version of Python, into a folder."""
    import tvm
    import tvm_ffi

    for name in tvm_files:
        (folder / "tvm" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(tvm.__file__).parent / name, folder / "tvm" / name)
    platforms = [f"--platform=manylinux_2_{n}_x86_64" for n in (17, 24, 27, 28, 31)]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *platforms]
    command += ["--only-binary=:all:", f"--python-version={python}", "-d"]
    with tempfile.TemporaryDirectory() as wheels:
        packages = [f"apache-tvm-ffi=={tvm_ffi.__version__}", *packages]
        subprocess.run([*command, wheels, *packages], check=True)
        for wheel in Path(wheels).glob("*.whl"):
            shutil.unpack_archive(wheel, folder, "zip")
    for part in ("3rdparty", "include", "src", "testing", "stub", "share"):
        shutil.rmtree(folder / "tvm_ffi" / part, ignore_errors=True)


def pack_compiler(archive: Path, python: str) -> None:
    """Write an archive of what tests on a GPU need: TVM with its compiler, and small packages."""
    import tvm

    print(f"packing {archive}, which takes some 10 minutes", flush=True)
    root = Path(tvm.__file__).parent
    files = [each.relative_to(root) for each in root.rglob("*") if each.is_file()]
    left_out = {"3rdparty", "include", "src", "__pycache__"}
    names = [str(each) for each in files if not left_out.intersection(each.parts)]
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as site:
        copy_packages(Path(site), python, names, ["lark", "interegular"])
        # Machine code is smaller by the first filter.
        environment = {**os.environ, "XZ_OPT": "--x86 --lzma2=preset=9e,dict=192MiB"}
        command = ["tar", "-cJf", str(archive), "-C", site, "."]
        subprocess.run(command, check=True, env=environment)


def run(options: argparse.Namespace) -> int:
    """Measure what was prepared, and print tables."""
    use_site(Path(options.folder) / "site")
    kept = Path(options.json)
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    worker = Worker(options.limit)
    try:
        found["device"] = found.get("device") or worker.result("device")
    except Failed as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    print(json.dumps(found["device"]), flush=True)
    cases = prepared(options)
    if not cases:
        print(f"error: '{options.folder}' has no case; call prepare first", file=sys.stderr)
        return 1
    end = time.perf_counter() + options.budget
    left = 0
    for runtime in options.runtimes:
        worker.stop()
        for case in cases:
            name = f"{case['key']} {runtime}"
            if name in found or not applies(runtime, case):
                continue
            if time.perf_counter() > end:
                left += 1
                continue
            found[name] = measured(worker, runtime, case, options)
            print(f"{name:40} {line(found[name])}", flush=True)
            kept.write_text(json.dumps(found, indent=1))
    worker.stop()
    print(*table(cases, found), sep="\n")
    if left:
        print(f"{left} measurements are left; call it again with the same --json")
    wrong = [n for n, each in found.items() if n != "device" and is_wrong(n, each)]
    print(*(f"wrong or failed: {name}" for name in wrong), sep="\n")
    return bool(wrong)


def use_site(site: Path) -> None:
    """Let processes that are started find the packages that were prepared, and this repository."""
    if not site.is_dir():
        sys.exit(f"'{site}' is missing; call prepare first")
    paths = [str(Path(__file__).parents[1]), str(site.resolve()), os.environ.get("PYTHONPATH", "")]
    if importlib.util.find_spec("tvm") is not None:
        paths.remove(str(site.resolve()))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def prepared(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The cases that were prepared and asked for, for each dtype."""
    found = []
    for file in sorted(folder_of(options.folder).glob("*.json")):
        content = json.loads(file.read_text())
        if wanted(content["name"], options.cases):
            for dtype in options.dtypes:
                name = key(content["name"], content["batch"], dtype)
                found.append({**content, "dtype": dtype, "key": name, "file": file})
    return sorted(found, key=lambda case: (bool(case["elements"]), case["file"], case["dtype"]))


def applies(runtime: str, case: Mapping[str, Any]) -> bool:
    """Whether a case is measured in a runtime: kernels neither with graphs nor compiled."""
    return not case["elements"] or runtime not in ("graphs", "compiled")


class Worker:
    """A process that does tasks of ``bench_gpu_runtimes.py``; a new one after each that failed."""

    def __init__(self, limit: float) -> None:
        """Takes the seconds that a task may last."""
        self._limit = limit
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def result(self, task: str, **arguments: object) -> dict[str, Any]:
        """Return the result of a task."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        print(json.dumps({"task": task, **arguments}), file=self._process.stdin, flush=True)
        try:
            line = self._lines.get(timeout=self._limit)
            found: dict[str, Any] = json.loads(line or '{"failed": "the process has ended"}')
        except queue.Empty:
            found = {"failed": f"it took longer than {self._limit:.0f} s"}
        if "failed" in found:
            self.stop()
            raise Failed(found["failed"])
        return found

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name(SCRIPT))]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        lines: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            assert process.stdout is not None
            for each in process.stdout:
                if each.startswith("{"):
                    lines.put(each)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        self._process, self._lines = process, lines


def measured(
    worker: Worker, runtime: str, case: Mapping[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """The times of a case in a runtime, or why there are none."""
    common = {"specs": case["specs"], "seconds": options.seconds}
    named = {"name": case["name"], "dtype": case["dtype"]}
    try:
        if runtime in OURS:
            suffix = "-graphs" if OURS[runtime] else ""
            library = case["file"].with_name(f"{case['key']}{suffix}.so")
            expected = case["file"].with_suffix(".npz")
            return worker.result("ours", library=str(library), expected=str(expected), **common)
        if runtime == "onnxruntime":
            return worker.result("onnxruntime", batch=case["batch"], **named, **common)
        return worker.result("pytorch", compiled=runtime == "compiled", **named, **common)
    except Failed as problem:
        return {"failed": str(problem)[:300]}


def is_wrong(name: str, found: Mapping[str, Any]) -> bool:
    """Whether one of our runs failed, or its outputs are not those that are expected."""
    case, runtime = name.rsplit(" ", 1)
    if runtime not in OURS:
        return False
    return "failed" in found or found["error"] > TOLERANCES[case.rsplit("-", 1)[1]]


def line(found: Mapping[str, Any]) -> str:
    """Return the measurements of one case in one runtime."""
    if "failed" in found:
        return f"failed: {found['failed']}"
    times = f"{1e3 * found['busy']:9.3f} ms, alone {1e3 * found['single']:9.3f} ms"
    return times + (f", error {found['error']:.1e}" if "error" in found else "")


def table(cases: list[dict[str, Any]], found: Mapping[str, Any]) -> Iterator[str]:
    """Milliseconds of our runs, how many times faster we are, and our share of the roof."""
    others = [name for name in RUNTIMES if name not in OURS]
    heads = "".join(f"{name:>13}" for name in (*OURS, *others, "roof", "error"))
    yield f"\n{'back to back':32}{heads}"
    for case in cases:
        runs = {name: found.get(f"{case['key']} {name}", {}) for name in RUNTIMES}
        best = min((runs[name].get("busy", np.inf) for name in OURS), default=np.inf)
        cells = [f"{case['key']:32}"]
        cells += [
            f"{1e3 * runs[name]['busy']:13.3f}" if "busy" in runs[name] else f"{'-':>13}"
            for name in OURS
        ]
        for name in others:
            ratio = runs[name]["busy"] / best if "busy" in runs[name] else None
            cells.append(f"{'-':>13}" if ratio is None else f"{ratio:12.2f}x")
        roof = lowest_time(case, found["device"])
        cells.append(f"{'-':>13}" if roof is None else f"{roof / best:13.0%}")
        errors = [runs[name]["error"] for name in OURS if "error" in runs[name]]
        cells.append(f"{max(errors):13.1e}" if errors else f"{'-':>13}")
        yield "".join(cells)


def lowest_time(case: Mapping[str, Any], device: Mapping[str, Any]) -> float | None:
    """The seconds that arithmetic and memory take at least; None if the GPU is not known."""
    version = int("".join(filter(str.isdigit, device["arch"])))
    known = MULTIPLY_ADDS.get(version, {}).get(case["dtype"])
    if known is None:
        return None
    arithmetic = case["flop"] / (2 * known * device["multiprocessors"] * device["clock"])
    width = np.dtype(case["dtype"]).itemsize
    return float(max(arithmetic, case["elements"] * width / device["bandwidth"]))


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="build what is measured; needs no GPU")
    first.add_argument("--target", default="cuda:sm_90a", help="such as cuda:sm_80,sm_90a")
    first.add_argument("--python", default="3.12", help="the version of Python on that machine")
    first.add_argument("--compiler", action="store_true", help="pack all of TVM, for tests")
    second = commands.add_parser("run", help="measure on a GPU what was prepared")
    second.add_argument("--json", default="bench_gpu.json", help="where results are kept")
    second.add_argument("--runtimes", nargs="+", default=RUNTIMES, choices=RUNTIMES)
    second.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES)
    second.add_argument("--seconds", type=float, default=0.6, help="of one measurement")
    second.add_argument("--limit", type=float, default=120.0, help="seconds of one case")
    second.add_argument("--budget", type=float, default=540.0, help="seconds in all, about")
    for command in (first, second):
        command.add_argument("folder", help="what is carried to the machine with the GPU")
        command.add_argument("--cases", nargs="+", default=[], choices=[*suite()], metavar="CASE")
    return parser


def main() -> int:
    """Prepare or run."""
    options = make_parser().parse_args()
    return prepare(options) if options.command == "prepare" else run(options)


if __name__ == "__main__":
    sys.exit(main())
