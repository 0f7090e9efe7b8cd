"""The pipeline from a lowered module to an executable, as one function to read.

Enters: an IRModule with a Relax function ``main``, and a target. Leaves: what TVM's virtual
machine runs. What each stage does stands in the module that it calls.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm import relax

from tvm_nnef import schedules
from tvm_nnef.compilation.metadata import with_metadata
from tvm_nnef.compilation.target import loads_here, resolve, runs_here
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.lower.checks import outside
from tvm_nnef.measurement.kernel_report import KernelReport
from tvm_nnef.runtime import Executable
from tvm_nnef.schedules.bounds_checks import with_bounds_checks
from tvm_nnef.storage.output import check_output, write_file
from tvm_nnef.tvm_support.build import compile_virtual_machine, kernels_of
from tvm_nnef.tvm_support.compat import Module, PrimFunction, Target
from tvm_nnef.tvm_support.threads import checked_threads

if TYPE_CHECKING:
    from tvm_nnef.tuning.database import Database

STAGES = ("bind", "legalize", "fuse", "schedule", "compile")
"""The stages in their order, by the names under which they are reported and dumped."""

Progress = Callable[[str, int, int], None]
"""Is told the name of the stage that begins, its number from 0, and the number of stages."""

Verbose = Callable[[KernelReport], None]
"""Is told what became of each kernel."""


def build_module(
    mod: Module,
    target: object = "native",
    *,
    progress: bool | Progress = False,
    dump_dir: str | os.PathLike[str] | None = None,
    database: str | os.PathLike[str] | None = None,
    verbose: bool | Verbose = False,
    threads: int | None = None,
    checked: bool = False,
    verify: bool = False,
) -> Executable:
    """The executable of a module for a target.

    ``progress`` is what is told of each stage, or true for a bar on standard error, plain
    lines where that is no terminal. ``database`` is a folder that ``tune`` wrote. ``verbose`` is
    what is told the report of the kernels, or true to print it; kernels are timed for it where
    this machine runs code for the target. ``threads`` is how many threads they, and calls of the
    executable, use. ``checked`` compiles bounds checks into the kernels. ``verify`` compares each
    scheduled kernel with its unscheduled TIR (:mod:`tvm_nnef.compilation.verify`), if this machine
    runs code for the target.

    Raises NnefError for an unknown target, for one whose code this machine cannot load, for a
    number of threads below 1, and for a database that cannot be used.
    """
    threads, resolved = checked_threads(threads), resolve(target)
    if str(resolved.kind.name) == "llvm" and not (loads_here(resolved) or verbose):
        raise _not_loaded(target)
    with _reporting(progress) as report:
        stages = compile_stages(
            mod, target, dump_dir=dump_dir, progress=report, database=database, checked=checked
        )
    if verify and runs_here(resolved):
        from tvm_nnef.compilation.verify import verify_kernels

        checks = _with_checks(None) if checked else None
        verify_kernels(stages["fuse"], stages["schedule"], kernels_of(stages["compile"]), checks)
    if verbose:
        from tvm_nnef.measurement.kernels import kernel_report

        found = kernel_report(
            stages["fuse"],
            stages["schedule"],
            stages["compile"],
            here=runs_here(resolved),
            threads=threads,
        )
        found.print() if isinstance(verbose, bool) else verbose(found)
    if not loads_here(resolved):
        raise _not_loaded(target)
    executable = Executable(stages["compile"])
    executable.threads = threads
    return executable


def _not_loaded(target: object) -> NnefError:
    message = f"this machine cannot load code for '{target}', nor write it to a library yet"
    return error(message, hint="build on a machine of that kind")


def _reporting(progress: bool | Progress) -> AbstractContextManager[Progress | None]:
    if progress is False:
        return nullcontext()
    if progress is not True:
        return nullcontext(progress)
    from tvm_nnef.compilation.progress import progress_reported

    return progress_reported()


def compile_module(
    mod: Module,
    target: object,
    *,
    dump_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    database: str | os.PathLike[str] | None = None,
) -> Any:
    """The executable (``relax.VMExecutable``) of a module for a target.

    Takes and raises what :func:`compile_stages` does.
    """
    stages = compile_stages(mod, target, dump_dir=dump_dir, progress=progress, database=database)
    return stages["compile"]


def compile_stages(
    mod: Module,
    target: object,
    *,
    dump_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    database: str | os.PathLike[str] | None = None,
    last: str = STAGES[-1],
    checked: bool = False,
) -> Mapping[str, Any]:
    """What the stages ``fuse``, ``schedule`` and ``compile`` gave, by name, up to the ``last``.

    ``dump_dir`` receives a file for each stage with what stands after it, and the list of kernels
    with the rules that scheduled them. ``checked`` compiles bounds checks into the kernels.

    Raises NnefError for an unknown target and for one that there are no schedules for, and where
    ``database`` is no database for this target and version of TVM.
    """
    resolved = resolve(target)
    tuned = None if database is None else _opened(database, resolved)
    dump = _dumping(dump_dir)
    expand = schedules.lowered_functions(resolved)
    expand = _with_checks(expand) if checked else expand
    stages: dict[str, Callable[[Module], Any]] = {
        "bind": lambda mod: with_metadata(_bound(mod)),
        "legalize": lambda mod: schedules.legalize(mod, resolved),
        "fuse": lambda mod: schedules.fuse(mod, resolved),
        "schedule": lambda mod: _scheduled(mod, resolved, None if tuned is None else tuned.tuned),
        "compile": lambda mod: compile_virtual_machine(mod, resolved, expand),
    }
    found: dict[str, Any] = {}
    for number, name in enumerate(STAGES):
        if progress is not None:
            progress(name, number, len(STAGES))
        mod = stages[name](mod)
        dump(number, name, mod)
        if name not in ("bind", "legalize"):
            found[name] = mod
        if name == last:
            break
    if tuned is not None and tuned.stale:
        kernels = f"{len(tuned.stale)} kernels" if len(tuned.stale) > 1 else "1 kernel"
        message = f"{kernels} of '{database}' are left to the rules: these rules have changed since"
        warnings.warn(f"{message}; tune again", stacklevel=2)
    return found


@functools.cache
def _with_checks(
    expand: Callable[[PrimFunction], PrimFunction] | None,
) -> Callable[[PrimFunction], PrimFunction]:
    """What makes of a lowered PrimFunc what ``expand`` does, with checks of all indices."""

    def checked(function: PrimFunction) -> PrimFunction:
        expanded = function if expand is None else expand(function)
        return with_bounds_checks(expanded, outside)

    return checked


def _bound(mod: Module) -> Module:
    """The module with its weights folded in, where they came along as parameters."""
    main = mod["main"]
    if "params" not in (main.attrs or {}):
        return mod
    first = int(main.attrs["num_input"])
    behind = len(main.params) - int(main.attrs.get("num_state", 0))
    names = [str(parameter.name) for parameter in main.params[first:behind]]
    values = dict(zip(names, main.attrs["params"], strict=True))
    bare = mod.clone()
    bare.update_func(mod.get_global_var("main"), main.without_attr("params"))
    return relax.transform.BindParams("main", values)(bare)


def _scheduled(mod: Module, target: Target, tuned: schedules.Tuned | None) -> Module:
    try:
        return schedules.schedule_kernels(mod, target, tuned)
    except NotImplementedError as problem:
        raise error(str(problem), hint="build for a CPU, such as 'native'") from None


def _opened(database: str | os.PathLike[str], target: Target) -> Database:
    from tvm_nnef.tuning.database import Database

    return Database.opened(database, target)


def _dumping(directory: str | os.PathLike[str] | None) -> Callable[[int, str, Any], None]:
    """What writes the state after a stage; nothing where no folder is given."""
    if directory is None:
        return lambda number, name, state: None
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        hint = "give a folder that can be written to"
        raise error(f"cannot write to '{folder}': {reason}", hint=hint) from None
    check_output(folder / "kernels.txt")

    def dump(number: int, name: str, state: Any) -> None:
        text = state.as_text() if name == STAGES[-1] else state.script()
        write_file(folder / f"{number}_{name}.txt", text.encode())
        if name == "schedule":
            lines = [f"{k.rule or 'none':16} {k.name}\n" for k in schedules.report(state)]
            write_file(folder / "kernels.txt", "".join(lines).encode())

    return dump
