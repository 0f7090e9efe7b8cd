"""From a lowered module to an executable: runs the passes, and reports, dumps and times them.

Input: an IRModule with a Relax function ``main``, and a target. Output: what TVM's virtual machine
runs. The passes are listed in :mod:`tvm_nnef.compilation.passes`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_nnef import schedules
from tvm_nnef.compilation.options import DEFAULT, Compiling, Verbose
from tvm_nnef.compilation.passes import PHASES, Pass, passes
from tvm_nnef.compilation.target import request
from tvm_nnef.compilation.timings import PassTime, Timings
from tvm_nnef.diagnostics import UnsupportedError, error, plural, warn
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.storage.output import check_output, write_file
from tvm_nnef.support.progress import Report as Progress
from tvm_nnef.support.progress import progress_reported, silent
from tvm_nnef.tvm_support import cuda
from tvm_nnef.tvm_support.build import kernels_of, runs_here
from tvm_nnef.tvm_support.compat import Module, Target, is_cpu, prim_functions
from tvm_nnef.tvm_support.threads import checked_threads

if TYPE_CHECKING:
    from tvm_nnef.compilation.tuning_database import Database

_LOG = logging.getLogger(__name__)

After = Callable[[int, Pass, Any, float], None]
"""Gets the number of a pass, the pass, its result, and the seconds that it took."""


def build_module(
    mod: Module,
    target: object = "native",
    options: Compiling = DEFAULT,
    *,
    progress: bool | Progress = False,
) -> Executable:
    """The executable of a module for a target.

    ``progress`` is called before each pass, or true for a bar on standard error if that is a
    terminal.

    An executable for a machine of another kind can be exported, and not called.

    Raises NnefError for an unknown target, for a number of threads below 1, for a database that
    cannot be used, for CUDA graphs if the target is not for CUDA, for int8 activations if it is
    not a CPU or the kernels shall be verified, and for checks on Vulkan.
    """
    threads, resolved = checked_threads(options.threads), request(target).target
    if options.checked and str(resolved.kind.name) == "vulkan":
        hint = "check indices and kernels on the CPU, with target='native'"
        message = "'checked' and 'verify' are not possible for Vulkan"
        raise error(message, hint=hint, kind=UnsupportedError)
    if options.verify and options.int8_activations:
        hint = "verify a build without int8_activations, which has the other kernels too"
        message = "'verify' compares kernels with formulas that round no activations to int8"
        raise error(message, hint=hint, kind=UnsupportedError)
    times: list[PassTime] = []

    def note(number: int, each: Pass, state: Any, seconds: float) -> None:
        _LOG.debug("%s took %.3f s", each.name, seconds)
        times.append(PassTime(each.name, each.phase, seconds))

    with _reporting(progress) as report:
        phases = compile_phases(mod, target, options, progress=report, after=note)
    if options.verify and runs_here(resolved):
        from tvm_nnef.compilation.verify import verify_kernels, verify_plans

        verify_plans(phases["fuse"], phases["schedule"], resolved)
        verify_kernels(
            phases["fuse"],
            phases["schedule"],
            kernels_of(phases["code"]),
            checked=options.checked,
        )
    _LOG.info("compiled for %s in %.1f s", target, sum(each.seconds for each in times))
    if options.timings:
        found = Timings(tuple(times))
        found.print() if isinstance(options.timings, bool) else options.timings(found)
    if options.verbose:
        _report_kernels(phases, runs_here(resolved), threads, options.verbose)
    code = phases["code"]
    executable = Executable(code, metadata=code.metadata, weights=code.parameters)
    executable.threads = threads
    return executable


def _report_kernels(phases: Mapping[str, Any], here: bool, threads: int, verbose: Verbose) -> None:
    from tvm_nnef.measurement.kernels import kernel_report

    found = kernel_report(
        phases["fuse"], phases["schedule"], phases["code"], here=here, threads=threads
    )
    found.print() if isinstance(verbose, bool) else verbose(found)


def _reporting(progress: bool | Progress) -> AbstractContextManager[Progress]:
    if not isinstance(progress, bool):
        return nullcontext(progress)
    return progress_reported(wanted=progress)


_WORDS = {
    "bind": "reading weights",
    "graph": "simplifying the graph",
    "fuse": "fusing operators",
    "schedule": "scheduling kernels",
    "bytecode": "planning memory",
    "lower": "optimizing {}",
    "code": "machine code of {}",
}
"""Descriptions of the phases, for the person who waits; ``{}`` is the number of kernels."""


def compile_phases(
    mod: Module,
    target: object,
    options: Compiling = DEFAULT,
    *,
    progress: Progress = silent,
    last: str = PHASES[-1],
    after: After | None = None,
) -> Mapping[str, Any]:
    """Return the result of each phase by its name, up to the ``last``.

    ``code`` is the executable (``relax.VMExecutable``), all others are modules. ``after`` is called
    after each pass.

    Raises NnefError for an unknown target and for one that there are no schedules for, and if
    the database is not one for this target and version of TVM.
    """
    requested = request(target)
    resolved, architectures = requested.target, requested.cuda_architectures
    forms: tuple[str, ...] = ()
    is_cuda = str(resolved.kind.name) == "cuda"
    if is_cuda:
        oldest = str(resolved.attrs["arch"])
        if architectures or cuda.has_compiler():
            cuda.check_architectures(architectures or [oldest])
        forms = cuda.chosen_forms(architectures, oldest)
    tuned = None if options.database is None else _opened(options.database, resolved)
    dump = _dumping(options.dump_dir)
    if options.cuda_graphs and not is_cuda:
        hint = "build for cuda, or without them"
        raise error(f"'{target}' has no CUDA graphs", hint=hint, kind=UnsupportedError)
    if options.int8_activations and not is_cpu(resolved):
        hint = "build for a CPU, or without them"
        raise error(f"'{target}' has no int8 activations", hint=hint, kind=UnsupportedError)
    number = 0

    def scheduling(kernel: int, count: int) -> None:
        words = f"scheduling {kernel} of {plural(count, 'kernel')}"
        progress(words, number + (kernel - 1) / count, len(chosen))

    every = passes(
        resolved,
        options,
        tuned=None if tuned is None else tuned.tuned,
        code_forms=forms,
        scheduling=scheduling,
    )
    chosen = [each for each in every if PHASES.index(each.phase) <= PHASES.index(last)]
    found: dict[str, Any] = {}
    kernels = ""
    for number, each in enumerate(chosen):
        if each.phase == "bytecode":
            kernels = kernels or plural(len(prim_functions(mod)), "kernel")
        progress(_WORDS[each.phase].format(kernels), number, len(chosen))
        start = time.perf_counter()
        try:
            mod = each.run(mod)
        except NotImplementedError as problem:
            hint = "build for a CPU, such as 'native'"
            raise error(str(problem), hint=hint, kind=UnsupportedError) from None
        seconds = time.perf_counter() - start
        dump(number, each, mod, seconds)
        if after is not None:
            after(number, each, mod, seconds)
        found[each.phase] = mod
    if forms and PHASES[-1] in found:
        found[PHASES[-1]].code_forms = forms
    if tuned is not None and tuned.stale:
        kernels = f"{len(tuned.stale)} kernels" if len(tuned.stale) > 1 else "1 kernel"
        message = f"{kernels} of '{options.database}' were tuned against strategies that have "
        message += "changed since"
        warn(message, hint="tune again")
    return found


def _opened(database: str | os.PathLike[str], target: Target) -> Database:
    from tvm_nnef.compilation.tuning_database import Database

    return Database.opened(database, target)


def _dumping(directory: str | os.PathLike[str] | None) -> After:
    """Return a function that writes the result of each pass; nothing if no folder is given."""
    if directory is None:
        return lambda number, each, state, seconds: None
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        hint = "give a folder that can be written to"
        raise error(f"cannot write to '{folder}': {reason}", hint=hint) from None
    check_output(folder / "kernels.txt")
    listed: list[str] = []
    last = ""

    def dump(number: int, each: Pass, state: Any, seconds: float) -> None:
        nonlocal last
        text = state.as_text() if each.phase == PHASES[-1] else state.script()
        unchanged = "" if text != last else ", unchanged"
        listed.append(f"{number:02} {each.phase:8} {each.name} ({seconds:.3f} s{unchanged})\n")
        if text != last:
            write_file(folder / f"{number:02}_{each.name}.txt", text.encode())
        last = text
        if each.phase == "schedule":
            lines = [f"{k.strategy or 'none':16} {k.name}\n" for k in schedules.report(state)]
            write_file(folder / "kernels.txt", "".join(lines).encode())
        write_file(folder / "passes.txt", "".join(listed).encode())

    return dump
