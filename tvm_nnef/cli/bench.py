"""``tvm-nnef bench MODEL``: how fast a model runs on this machine, by number of threads.

A ``.onnx`` file is converted first, and runs in ONNX Runtime as well, in turns with ours.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tvm_nnef.api import build, compose
from tvm_nnef.cli.arguments import compose_options, convert_options, load_options
from tvm_nnef.cli.inputs import read_inputs
from tvm_nnef.conversion import convert
from tvm_nnef.measurement.onnx_runtime import installed, open_session
from tvm_nnef.measurement.turns import Times, timed_in_turns
from tvm_nnef.model import check_variables, load_model
from tvm_nnef.runtime import Executable
from tvm_nnef.tvm_threads import available_cores, default_threads

_OURS, _THEIRS = "tvm-nnef", "onnxruntime"


def run(options: argparse.Namespace) -> int:
    """Builds and measures; prints the shortest and the median time of a run."""
    composing, against = compose_options(options), options.against
    if Path(options.model).suffix == ".onnx":
        model = convert(options.model, **convert_options(options))
        composing["input_shapes"] = {}
        if against is None and installed():
            against = options.model
    else:
        model = load_model(options.model, **load_options(options))
    graph = compose(model, **composing)
    check_variables(model, graph)
    inputs = read_inputs(model, graph, options.input, options.seed)
    executable = build(model, database=options.database, **composing)
    measured = {
        threads: _measured(executable, inputs, against, threads, options.seconds)
        for threads in _counts(options.threads)
    }
    if options.json:
        print(json.dumps([_json(threads, found) for threads, found in measured.items()], indent=2))
    else:
        _print(measured)
    return 0


def _counts(wanted: list[int] | None) -> list[int]:
    """The numbers of threads that are measured; more than there are cores means all."""
    if wanted is None:
        return sorted({1, default_threads()})
    return sorted({min(number, available_cores()) for number in wanted})


def _measured(
    executable: Executable, inputs: list[Any], against: str | None, threads: int, seconds: float
) -> dict[str, Times]:
    executable.threads = threads
    calls = {_OURS: executable.prepared(*inputs)}
    if against is not None:
        session = open_session(Path(against), threads)
        calls[_THEIRS] = session.prepared_in_order(inputs)
    for call in calls.values():
        call()
    times = timed_in_turns(list(calls.values()), seconds, alone=threads == 1)
    return dict(zip(calls, times, strict=True))


def _json(threads: int, found: dict[str, Times]) -> dict[str, Any]:
    return {
        "threads": threads,
        **{
            name: {"minimum": times.minimum, "median": times.median, "runs": len(times.seconds)}
            for name, times in found.items()
        },
    }


def _print(measured: dict[int, dict[str, Times]]) -> None:
    """One line for each number of threads, in milliseconds; the ratio is that of the minima."""
    names = list(next(iter(measured.values())))
    heads = ["threads", *(f"{n} {what} ms" for n in names for what in ("min", "median"))]
    rows = []
    for threads, found in measured.items():
        cells = [f"{1e3 * t:.3f}" for n in names for t in (found[n].minimum, found[n].median)]
        if _THEIRS in found:
            cells.append(f"{found[_THEIRS].minimum / found[_OURS].minimum:.2f}")
        rows.append([str(threads), *cells])
    if _THEIRS in names:
        heads.append("ratio")
    console = Console(highlight=False)
    if not console.is_terminal:
        print("\n".join("\t".join(row) for row in [heads, *rows]))
        return
    table = Table(box=None, header_style="bold")
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
