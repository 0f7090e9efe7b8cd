"""Compilation of scheduled PrimFuncs into libraries and virtual machines by TVM.

Input: a module in which everything is scheduled, and a target. Output: executables, kernels and
virtual machines of TVM. Imports no schedule strategy and no file format of this compiler.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.target import codegen
from tvm.tirx.build import split_host_device_mods

from tvm_nnef.tvm_support import cuda, runtime
from tvm_nnef.tvm_support.compat import (
    Array,
    Module,
    PrimFunction,
    Target,
    is_cpu,
)
from tvm_nnef.tvm_support.threads import available_cores


class CompiledLibrary(relax.VMExecutable):  # type: ignore[misc]
    """The result of a compilation: instructions of the virtual machine, constants, and kernels.

    ``target`` is the target of the compilation, ``code_forms`` are the forms of its code for CUDA
    (:func:`tvm_nnef.tvm_support.cuda.chosen_forms`). ``metadata`` describes it, ``parameters`` is
    the content of its parameter file, if they are known and needed.
    """

    code_forms: tuple[str, ...] = cuda.SOURCE
    metadata: str | None = None
    parameters: Array | None = None

    def __init__(self, library: Any, target: Target, copy: Callable[[], Any]) -> None:
        """Create the result from a library of TVM, its target, and a function that makes an equal
        library.
        """
        super().__init__(library)
        self.target = target
        self._copy = copy

    @functools.cached_property
    def gpu_source(self) -> str | None:
        """The CUDA source of the kernels; None if they do not run on a GPU."""
        return cuda.source_of(self.mod)

    @functools.cached_property
    def gpu_code(self) -> bytes | None:
        """The fat binary for CUDA; None if there are no kernels for it, or they stay source.

        Raises NnefError if the ``code_forms`` cannot be compiled.
        """
        if self.gpu_source is None or self.code_forms == cuda.SOURCE:
            return None
        return cuda.fat_binary(self.gpu_source, self.code_forms)

    def unused(self) -> relax.VMExecutable:
        """Return the same library, which no virtual machine has run.

        Kernels and constants are shared.

        A virtual machine of TVM 0.27 adds a memory scope for each constant to the library that it
        runs. If such a library is written, TVM prints a warning for each when it is loaded.
        """
        return relax.VMExecutable(self._copy())


class Instructions:
    """The instructions of the virtual machine for one module: written first, linked later."""

    def __init__(self) -> None:
        self._builder = relax.ExecBuilder()
        self._functions = tvm.IRModule()

    def write(self, mod: Module) -> Module:
        """Return the PrimFuncs of a module, whose Relax functions become instructions."""
        self._functions = _functions_of(mod, relax.Function)
        return _functions_of(relax.vm_build._vmcodegen(self._builder, mod), tirx.PrimFunc)

    def linked(
        self,
        kernels: Module,
        target: Target,
        metadata: str | None = None,
        parameters: Array | None = None,
    ) -> CompiledLibrary:
        """Return the library of the instructions and of lowered kernels."""
        parts = _machine_code_in_parts(kernels, target)

        def copy() -> Any:
            builder = relax.ExecBuilder()
            relax.vm_build._vmcodegen(builder, self._functions)
            return _linked(builder, target, parts)

        library = CompiledLibrary(_linked(self._builder, target, parts), target, copy)
        library.metadata, library.parameters = metadata, parameters
        return library


def _functions_of(mod: Module, kind: type) -> Module:
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, kind)}
    return tvm.IRModule(functions, attrs=mod.attrs)


def _linked(builder: relax.ExecBuilder, target: Target, parts: Sequence[Any]) -> Any:
    # The last ones are constants that a library for other machines finds by name: we make none.
    return relax.vm_build._ffi_api.VMLink(builder, target, parts[0], parts[1:], {})


_KERNELS_OF_PART = 16
"""The most kernels of a CPU that are compiled at a time by one thread."""


def _machine_code_in_parts(kernels: Module, target: Target) -> list[Any]:
    """Return the machine code of kernels; those of a CPU are compiled several at a time.

    How kernels are divided depends on them alone, so that libraries are the same everywhere.
    """
    # Options of LLVM are set for the process while code is generated.
    if not is_cpu(target) or "cl-opt" in target.attrs:
        return [_machine_code(kernels, target)]
    functions = sorted(kernels.functions.items(), key=lambda pair: str(pair[0].name_hint))
    count = max(1, -(-len(functions) // _KERNELS_OF_PART))
    parts = [tvm.IRModule(dict(functions[n::count]), attrs=kernels.attrs) for n in range(count)]
    with ThreadPoolExecutor(min(count, available_cores())) as threads:
        return list(threads.map(lambda part: _generated(part, target), parts))


def _machine_code(kernels: Module, target: Target) -> Any:
    """Return the machine code for the host, which holds that for the device if there is one."""
    if is_cpu(target):
        return _generated(kernels, target)
    host, devices = split_host_device_mods(kernels)
    code = _generated(host, host_of(target))
    for device, functions in devices.items():
        if str(device.kind.name) == "cuda" and cuda.runs_here():
            cuda.check_architectures([str(device.attrs["arch"])])
            cuda.use_for_calls(str(device.attrs["arch"]))
        code.import_module(_generated(functions, device))
    return code


_INVALID_CODE = "LLVM module verification failed"
"""Message of TVM if LLVM's own optimizations have written invalid code."""


def _generated(functions: Module, target: Target) -> Any:
    """Return the machine code of a module for one device."""
    generate = tvm.get_global_func(f"target.build.{target.kind.name}")
    try:
        return generate(functions, target)
    except RuntimeError as problem:
        if not is_cpu(target) or _INVALID_CODE not in str(problem):
            raise
    # LLVM's vectorizer of straight code, which this level leaves out, uses values before they are
    # computed for some negated bytes.
    return generate(functions, tvm.target.Target({**target.export(), "opt-level": 1}))


def machine_code(kernels: Module, target: Target, name: str) -> Callable[..., object]:
    """Return the machine code of one lowered PrimFunc of a module."""
    compiled: Callable[..., object] = _machine_code(kernels, target)[name]
    return compiled


def module_of(function: PrimFunction, name: str) -> Module:
    """Return a module of one PrimFunc, for code generation under a name."""
    return tvm.IRModule({name: function.with_attr("global_symbol", name)})


def module_like(mod: Module, functions: Mapping[str, Any]) -> Module:
    """Return a module of some functions of another one."""
    chosen = {mod.get_global_var(name): function for name, function in functions.items()}
    return tvm.IRModule(chosen, attrs=mod.attrs)


def host_cpu() -> tuple[str, str]:
    """Return LLVM's name of the host CPU, and its target triple."""
    return str(codegen.llvm_get_system_cpu()), str(codegen.llvm_get_system_triple())


def host_feature_differences(description: Mapping[str, Any]) -> list[str]:
    """Return the CPU features in which the host differs from the CPU model that a target names.

    The names are LLVM's: ``+avx2`` if only the host has it, ``-avx512f`` if only the model has
    it.
    """
    host = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    model = {str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(description))}
    states = {str(name): bool(present) for name, present in dict(host).items()}
    missing = [f"-{name}" for name, present in states.items() if not present and name in model]
    extra = [f"+{name}" for name, present in states.items() if present and name not in model]
    return sorted([*missing, *extra])


@functools.lru_cache(maxsize=64)
def llvm_complaint(description: str) -> str:
    """Return LLVM's error message for a target, given as JSON; empty if LLVM accepts the target.

    LLVM ignores unknown options with a message, and an unknown triple crashes it even while TVM
    constructs the target, so a copy of the process asks.
    """
    if not hasattr(os, "fork"):
        return ""
    try:
        return in_copy_of_process(
            lambda: codegen.llvm_get_cpu_features(tvm.target.Target(json.loads(description)))
        )
    except OSError as problem:
        return str(problem)


def llvm_architectures() -> list[str]:
    """Return the names of architectures that LLVM generates code for."""
    return [str(name) for name in codegen.llvm_get_targets()]


def llvm_cpus(description: str) -> list[str]:
    """Return the names of CPUs of the architecture of a target, given as JSON."""
    target = tvm.target.Target(json.loads(description))
    return [str(name) for name in codegen.llvm_get_cpu_archlist(target)]


def host_of(target: Target) -> Target:
    """Return the CPU of a target: itself, or the one that controls the device."""
    if is_cpu(target):
        return target
    return target.host or tvm.target.Target("llvm")


def triple_of(target: Target) -> str:
    """Return the target triple of the CPU of a target, for which a library is linked."""
    return target_features(host_of(target))[0]


def runs_here(target: Target) -> bool:
    """Whether this machine runs code for a target: a CPU of its kind with all features that it has.

    LLVM detects instructions on the host; other properties of a target are hints for schedules.
    """
    if not is_cpu(target):
        return False
    triple, features = target_features(target)
    if triple.split("-")[0] != host_cpu()[1].split("-")[0]:
        return False
    host = dict(tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")())
    return not any(str(name) in features and not present for name, present in host.items())


@functools.lru_cache(maxsize=16)
def target_features(target: Target) -> tuple[str, frozenset[str]]:
    """Return the triple of a CPU target, and LLVM's names of the features that it has."""
    if not is_cpu(target):
        return "", frozenset()
    attributes = target.attrs
    triple = str(attributes["mtriple"]) if "mtriple" in attributes else host_cpu()[1]
    return triple, frozenset(str(name) for name in codegen.llvm_get_cpu_features(target))


def cuda_arch() -> str | None:
    """Return the architecture of the GPU of this machine (``sm_80``).

    It is None if it has none for CUDA.
    """
    device = runtime.present_device("cuda")
    return None if device is None else runtime.architecture_of(device)


def in_copy_of_process(action: Callable[[], object]) -> str:
    """Run an action that may end the process in a copy of it; return what it writes to stderr.

    Raises OSError with the last line of that if the action fails.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The action takes no locks that threads of ours, or of JAX, could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(writing, 2)
            action()
            status = 0
        except BaseException as problem:  # nothing may leave the copy: its caller is the parent's
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
"""The beginning of the message that LLVM prints before it ends the process."""


def kernels_of(library: Any) -> Callable[[str], Callable[..., object] | None]:
    """Return the machine code of the PrimFuncs by name, from a :func:`compile_virtual_machine`
    result.
    """
    parts = list(library.mod.imports)

    def find(name: str) -> Callable[..., object] | None:
        return next((part[name] for part in parts if part.implements_function(name)), None)

    return find
