"""``tvm-nnef bench MODEL``: how fast a model runs on this machine, by number of threads.

A model of another format is converted first, and runs in that format's library as well, in turns
with ours. The outputs of the program that is timed are checked, by those of that library or of the
reference.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tvm_nnef.api.building import build
from tvm_nnef.cli.inputs import naming_random, read_inputs
from tvm_nnef.cli.library import load_library, model_metadata
from tvm_nnef.cli.reading import read_composed
from tvm_nnef.comparison.check import ProgramCheck, check_by_reference, check_by_source
from tvm_nnef.comparison.source import executable as executable_format
from tvm_nnef.diagnostics import error, plural
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.formats.registry import OpenedSource, open_source
from tvm_nnef.measurement.interleaved import Times, timed_in_turns
from tvm_nnef.model.variables import check_variables
from tvm_nnef.tvm_support.threads import available_cores, default_threads

_OURS = "tvm-nnef"


def run(options: argparse.Namespace) -> int:
    """Builds, checks and measures; prints the shortest and the median time of a run.

    Raises NnefError if the outputs are wrong.
    """
    counts = _counts(options.threads)
    library = load_library(options)
    if library is not None:
        measured, judge = _measured_library(library, options, counts), None
    else:
        measured, judge = _measured_model(options, counts)
    if options.json:
        rows = [{**_json(threads, found), "checked": judge} for threads, found in measured.items()]
        print(json.dumps(rows, indent=2))
    else:
        _print(measured)
    return 0


def _measured_library(
    executable: Executable, options: argparse.Namespace, counts: Sequence[int]
) -> dict[int, dict[str, Times]]:
    """The times of a library, whose outputs nothing else computes."""
    inputs = read_inputs(model_metadata(executable).inputs, executable.signature, options)
    return {
        threads: _measured(executable, inputs, None, threads, options.seconds, None)
        for threads in counts
    }


def _measured_model(
    options: argparse.Namespace, counts: Sequence[int]
) -> tuple[dict[int, dict[str, Times]], str | None]:
    """The times of a model by number of threads, and what its outputs were compared with."""
    found = read_composed(options)
    model, graph = found.model, found.graph
    against = _other(options.against, found.source)
    check_variables(model, graph)
    inputs = read_inputs(model.metadata.inputs, graph, options, model.variables)
    # What is wrong with the other model is found before ours is built.
    with naming_random(options):
        theirs = None if against is None else _session_call(against, counts[0], inputs)
    executable = build(
        model,
        database=options.database,
        progress=not options.quiet,
        cache=not options.no_cache,
        **found.options,
    )
    check = None
    with naming_random(options):
        if theirs is not None and against is not None and not options.no_check:
            check = check_by_source(model, graph, inputs, against, theirs())
        elif not options.no_check:
            check = check_by_reference(model, graph, inputs)
        measured = {
            threads: _measured(executable, inputs, against, threads, options.seconds, check)
            for threads in counts
        }
    return measured, None if check is None else check.judge


def _counts(wanted: list[int] | None) -> list[int]:
    """The numbers of threads that are measured. Raises NnefError for more than there are cores."""
    if wanted is None:
        return sorted({1, default_threads()})
    if max(wanted) > available_cores():
        hint = f"this process has {plural(available_cores(), 'core')}"
        raise error(f"cannot measure {max(wanted)} threads", hint=hint)
    return sorted(set(wanted))


def _other(given: str | None, source: OpenedSource) -> OpenedSource | None:
    """The model that another library runs: the one given, else the source if it can be run."""
    if given is not None:
        opened = open_source(given)
        executable_format(opened.format, opened.path)
        return opened
    form = source.format
    return source if form.session and form.load(form.session).installed() else None


def _session_call(against: OpenedSource, threads: int, inputs: list[Any]) -> Callable[[], Any]:
    """Return a function that runs a model of another format. Raises NnefError for wrong inputs."""
    given = (value for value in inputs if value is not None)
    flat = [each for value in given for each in (value if isinstance(value, list) else [value])]
    sessions = against.format.load(against.format.session)
    call: Callable[[], Any] = sessions.open_session(Path(against.path), threads).prepared_in_order(
        flat
    )
    return call


def _measured(
    executable: Executable,
    inputs: list[Any],
    against: OpenedSource | None,
    threads: int,
    seconds: float,
    check: ProgramCheck | None,
) -> dict[str, Times]:
    executable.threads = threads
    executable.reset()
    calls: dict[str, Callable[[], Any]] = {_OURS: lambda: executable(*inputs)}
    if against is not None:
        calls[against.format.route] = _session_call(against, threads, inputs)
    first = [call() for call in calls.values()]
    if check is not None:
        outputs = (each if isinstance(each, list) else [each] for each in first[0])
        check.require(executable, list(chain.from_iterable(outputs)))
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
        for other in names[1:]:
            cells.append(f"{found[other].minimum / found[_OURS].minimum:.2f}")
        rows.append([str(threads), *cells])
    heads += ["ratio"] * len(names[1:])
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
