"""From scheduled PrimFuncs to machine code, and to what runs it: what moves between TVM releases.

Enters: a module in which everything is scheduled, and a target. Leaves: executables, kernels and
virtual machines of TVM. Knows no rule and no file of ours.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.target import codegen

from tvm_nnef.function_attributes import EXACT_BUFFERS, POLLS_SIGNALS
from tvm_nnef.tvm_support.compat import (
    CHECK_SIGNALS,
    Module,
    PrimFunction,
    Target,
    prim_functions,
    update_functions,
)
from tvm_nnef.tvm_support.sound_indices import with_sound_indices

_PIPELINE = "tvm_nnef"
"""What the names begin with under which TVM knows our lowerings of PrimFuncs."""


@functools.cache
def _register_pipeline(expand: Callable[[PrimFunction], PrimFunction]) -> str:
    """Our lowering of PrimFuncs: TVM's own for schedules, and then ``expand`` for each function."""

    @tvm.transform.module_pass(opt_level=0, name="expand_functions")  # type: ignore[untyped-decorator]
    def expanded(mod: Module, context: Any) -> Module:
        # Kernels do not check their arguments: see _sound_passes.
        functions = prim_functions(tirx.transform.SkipAssert()(mod))
        return update_functions(mod, {n: _polling(expand(f)) for n, f in functions.items()})

    def pipeline() -> tuple[Any, Any, Any]:
        lowering, host, device = s_tir.pipeline.default_s_tir_pipeline()
        passes = [_compacted(), _lowered_soundly(lowering), expanded]
        return tvm.transform.Sequential(passes), host, device

    # Each has a name of its own; the cache keeps it alive, so no other gets its number.
    name = f"{_PIPELINE}_{id(expand)}"
    tirx.register_tir_pipeline(name, pipeline)
    return name


def _polling(function: PrimFunction) -> PrimFunction:
    """A lowered function in which polling for signals raises the exception of a signal handler."""
    if POLLS_SIGNALS not in (function.attrs or {}):
        return function

    def checked(statement: Any) -> Any:
        call = statement.value
        names = [str(getattr(each, "value", "")) for each in getattr(call, "args", ())]
        if names != [CHECK_SIGNALS]:
            return statement
        # The error by which TVM says that Python already has an exception.
        kind = tvm.ir.StringImm("EnvErrorAlreadySet")
        return tirx.AssertStmt(call == 0, kind, [tvm.ir.StringImm("")])

    body = tvm_ffi.structural_map(function.body, (tirx.Evaluate, checked), order="post")
    return function.with_body(body)


_COMPACTION = "s_tir.CompactBufferAllocation"


def _compacted() -> Any:
    """A pass that shrinks buffers to what is used of them, as schedules of MetaSchedule need it.

    Not those of our own kernels: where extents are quotients of symbols TVM gets it wrong.
    """
    passes = [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
    ]

    @tvm.transform.module_pass(opt_level=0, name="compact_buffers")  # type: ignore[untyped-decorator]
    def compacted(mod: Module, context: Any) -> Module:
        chosen = {
            n: f for n, f in prim_functions(mod).items() if EXACT_BUFFERS not in (f.attrs or {})
        }
        if not chosen:
            return mod
        with tvm.transform.PassContext():
            made = tvm.transform.Sequential(passes)(tvm.IRModule(chosen))
        return update_functions(mod, prim_functions(made))

    return compacted


def _lowered_soundly(lowering: Any) -> Any:
    """A lowering of PrimFuncs, without TVM's reuse of memory where that goes wrong.

    A buffer takes the memory of one that a loop reads for the last time, if it is as large and the
    loop reads it where it writes. What goes through views of the two buffers is not seen in that
    test, and buffers of dynamic sizes are all taken to be as large. And a loop may compute its last
    elements again, which is no longer the same once their operands are overwritten.
    """

    @tvm.transform.module_pass(opt_level=0, name="lower_soundly")  # type: ignore[untyped-decorator]
    def lowered(mod: Module, context: Any) -> Module:
        parts: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
        for variable, given in mod.functions.items():
            function = with_sound_indices(given)
            parts[_reuse_is_unsound(function)][variable] = function
        plain, viewed = (tvm.IRModule(part, attrs=mod.attrs) for part in parts)
        result = lowering(plain)
        if parts[True]:
            with _sound_passes(_COMPACTION, "tirx.StorageRewrite", asserts=True):
                result.update(lowering(viewed))
        return result

    return lowered


def _reuse_is_unsound(function: Any) -> bool:
    """Whether a PrimFunc reuses memory in a way that TVM does not understand.

    It has several buffers, of dynamic sizes, or with views, or with loops whose last vectors start
    at a minimum and overlap the ones before; or it has truth values, which are stored as other
    types, with views.
    """
    if not isinstance(function, tirx.PrimFunc):
        return False
    allocated: list[Any] = []
    views: list[Any] = []
    tvm_ffi.structural_walk(
        function.body, (s_tir.SBlock, lambda block: allocated.extend(block.alloc_buffers))
    )
    tvm_ffi.structural_walk(function.body, (tirx.DeclBuffer, views.append))
    has_bools = any(str(buffer.dtype) == "bool" for buffer in allocated)
    dynamic = any(not isinstance(size, tirx.IntImm) for each in allocated for size in each.shape)
    overlapping: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.Min, overlapping.append))
    if len(allocated) > 1 and (dynamic or bool(overlapping)):
        return True
    return (len(allocated) > 1 or has_bools) and bool(views)


def compile_virtual_machine(
    mod: Module, target: Target, expand: Callable[[PrimFunction], PrimFunction] | None = None
) -> Any:
    """Machine code for the PrimFuncs of a module, and code of the virtual machine for the rest.

    ``expand`` is applied to each PrimFunc after its loops are lowered. Every operator is a call of
    a PrimFunc already, and every PrimFunc scheduled: TVM's own pipeline
    would fold constants by compiling them, and fuse scheduled kernels anew.
    """
    generic = relax.backend.cpu_generic.pipeline
    passes = [
        relax.transform.DeadCodeElimination(),
        *generic.dataflow_lower_passes(target),
        *generic.finalize_passes(target),
    ]
    lowering, context = _lowering(expand)
    with context:
        return relax.build(
            mod, target, relax_pipeline=tvm.transform.Sequential(passes), tir_pipeline=lowering
        )


def _lowering(expand: Callable[[PrimFunction], PrimFunction] | None) -> tuple[str, Any]:
    """The name of a lowering of PrimFuncs, and the context that it needs."""
    if expand is None:
        return "default", _sound_passes(asserts=False)
    return _register_pipeline(expand), _sound_passes(_COMPACTION, asserts=True)


def _sound_passes(*others: str, asserts: bool) -> Any:
    """A context without TVM's lifting of conditions out of loops, and without other passes.

    It comes after what that loop makes certain was dropped from the condition: a guard of a
    division by a symbol is gone where the loop would not have run. LLVM lifts safely.

    Kernels do not check their arguments: the virtual machine, which alone calls them, has checked
    the shapes of what it was given, and made everything else. Code for these checks would be most
    of the code of a small kernel, and take most of the time to make it. With ``asserts`` they stay,
    for a lowering that drops those checks and inserts its own.
    """
    return tvm.transform.PassContext(
        disabled_pass=["s_tir.HoistIfThenElse", *others],
        config={"tirx.disable_assert": not asserts},
    )


def compile_kernel(
    function: PrimFunction, target: Target, expand: Callable[[PrimFunction], PrimFunction] | None
) -> Callable[..., object]:
    """The machine code of one scheduled PrimFunc, as :func:`compile_virtual_machine` makes it."""
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    lowering, context = _lowering(expand)
    with context:
        compiled: Callable[..., object] = tirx.build(mod, target=target, pipeline=lowering)["main"]
    return compiled


def host_cpu() -> tuple[str, str]:
    """LLVM's name of the host CPU, and its target triple."""
    return str(codegen.llvm_get_system_cpu()), str(codegen.llvm_get_system_triple())


def host_feature_differences(description: Mapping[str, Any]) -> list[str]:
    """The CPU features in which the host differs from the model of CPU that a target names.

    As LLVM writes them: ``+avx2`` where only the host has it, ``-avx512f`` where only the model.
    """
    host = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    model = {str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(description))}
    states = {str(name): bool(present) for name, present in dict(host).items()}
    missing = [f"-{name}" for name, present in states.items() if not present and name in model]
    extra = [f"+{name}" for name, present in states.items() if present and name not in model]
    return sorted([*missing, *extra])


@functools.lru_cache(maxsize=64)
def llvm_complaint(description: str) -> str:
    """What LLVM says against a target, given as JSON; nothing if it takes the target as it is.

    LLVM ignores options that it does not know with a message, and triples that it does not know
    crash it, even while TVM makes the target, so a copy of the process asks.
    """
    if not hasattr(os, "fork"):
        return ""
    try:
        return _in_copy_of_process(
            lambda: codegen.llvm_get_cpu_features(tvm.target.Target(json.loads(description)))
        )
    except OSError as problem:
        return str(problem)


def llvm_architectures() -> list[str]:
    """The names of architectures that LLVM generates code for."""
    return [str(name) for name in codegen.llvm_get_targets()]


def llvm_cpus(description: str) -> list[str]:
    """The names of CPUs of the architecture of a target, given as JSON."""
    target = tvm.target.Target(json.loads(description))
    return [str(name) for name in codegen.llvm_get_cpu_archlist(target)]


@functools.lru_cache(maxsize=16)
def target_features(target: Target) -> tuple[str, frozenset[str]]:
    """The triple of a CPU target, and LLVM's names of the features that it has."""
    if str(target.kind.name) != "llvm":
        return "", frozenset()
    attributes = target.attrs
    triple = str(attributes["mtriple"]) if "mtriple" in attributes else host_cpu()[1]
    return triple, frozenset(str(name) for name in codegen.llvm_get_cpu_features(target))


def virtual_machine(library: Any) -> Any:
    """A Relax virtual machine on the CPU for what was built or loaded."""
    return relax.VirtualMachine(library, tvm.cpu())


def load_library(path: str) -> Any:
    """A shared library that holds what :func:`write_objects` wrote, whatever its name."""
    return tvm.get_global_func("ffi.Module.load_from_file.so")(path, "so")


def write_objects(library: Any, folder: Path) -> list[Path]:
    """Write the object files of what was compiled into an empty folder.

    LLVM ends the process when it cannot write a file, so a copy of the process writes them. Raises
    OSError if that fails.
    """
    if hasattr(os, "fork"):
        _in_copy_of_process(lambda: _export(library, folder))
    else:
        _export(library, folder)
    # A library without kernels has an empty C file.
    return sorted(folder.glob("*.o"))


def _export(library: Any, folder: Path) -> None:
    def linked(*_: object, **options: object) -> None:
        """Takes the place of the linker."""

    # Without this the constants of a library that has no kernels become C source.
    linked.get_target_triple = lambda: host_cpu()[1]  # type: ignore[attr-defined]
    library.export_library("library.so", workspace_dir=str(folder), fcompile=linked)


def _in_copy_of_process(action: Callable[[], object]) -> str:
    """What an action that may end the process prints on standard error, run in a copy of it.

    Raises OSError with the last line of that if the action fails.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The action takes no locks that threads of ours could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(writing, 2)
            action()
            status = 0
        except BaseException as problem:
            os.write(2, str(problem).encode())
        finally:
            os._exit(status)
    os.close(writing)
    printed, ended = b"", False
    try:
        while _FATAL not in printed and not ended:
            piece = os.read(reading, 1 << 16)
            printed, ended = printed + piece, not piece
    finally:
        os.close(reading)
        if not ended:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    lines = printed.decode(errors="replace").strip().splitlines()
    if status:
        raise OSError((lines or [f"status {status}"])[-1].removeprefix("LLVM ERROR: "))
    return "\n".join(lines)


_FATAL = b"LLVM ERROR"
"""What LLVM prints before it ends the process."""


def kernels_of(library: Any) -> Callable[[str], Callable[..., object] | None]:
    """The machine code of the PrimFuncs of what :func:`compile_virtual_machine` gave, by name."""
    parts = list(library.mod.imports)

    def find(name: str) -> Callable[..., object] | None:
        return next((part[name] for part in parts if part.implements_function(name)), None)

    return find
