"""CUDA source in, code for GPUs out: by nvcc, which need not see a GPU.

Input: what TVM compiled, and the names of architectures (``sm_80``). Output: a fat binary, which
has machine code for each architecture, and PTX that the driver of a newer GPU compiles; and the
object file that carries it in a library. Knows where compilers are installed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm_ffi

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.tvm_support.packed_data import Reader, number, text, write_data

OLDEST = 75
"""The oldest version of GPUs that schedules are made for: CUDA 13 knows no older one."""

INSTALL = (
    "pip install nvidia-cuda-nvcc nvidia-cuda-cccl, or install the CUDA toolkit; "
    "a compiler elsewhere is named by $NVCC"
)
"""The hint of an error if there is no compiler."""

_ARCHITECTURE = re.compile(r"sm_(\d{2,3})[af]?")


def find_compiler() -> Path:
    """Return the nvcc of ``$NVCC``, this Python environment, the ``PATH``, or ``$CUDA_HOME``.

    Raises NnefError if there is none.
    """
    named = os.environ.get("NVCC", "")
    if named:
        path = shutil.which(named)
        if path is None:
            hint = "name an installed nvcc, or unset NVCC"
            raise error(f"the compiler '{named}' that $NVCC names is missing", hint=hint)
        return Path(path)
    for each in _installed():
        if each is not None and (path := shutil.which(each)) is not None:
            return Path(path)
    raise error("CUDA code cannot be compiled: there is no nvcc", hint=INSTALL)


def has_compiler() -> bool:
    """Whether there is a compiler."""
    try:
        find_compiler()
    except NnefError:
        return False
    return True


def check_architectures(names: Sequence[str]) -> None:
    """Raise NnefError if an architecture cannot be compiled for, before the work of a build.

    Reasons: the name is not one of an architecture, the architecture is older than :data:`OLDEST`,
    the installed nvcc does not know it, or no compiler works.
    """
    for name in names:
        match = _ARCHITECTURE.fullmatch(name)
        if match is None:
            hint = "architectures of GPUs are written sm_80 or sm_90a"
            raise error(f"unknown architecture '{name}'", hint=hint)
        if int(match[1]) < OLDEST:
            message = f"GPUs of architecture '{name}' are not supported"
            raise error(message, hint=f"the oldest supported one is sm_{OLDEST}")
    compiler = find_compiler()
    for name in dict.fromkeys(names):
        _check_architecture(compiler, name)


def code_forms(names: Sequence[str]) -> tuple[str, ...]:
    """Return the contents of a fat binary for some architectures: ``sm_80``, ..., ``compute_80``.

    The last one is PTX for the oldest architecture, which every newer GPU can run: a GPU between
    two of the architectures has no other code.
    """
    versions = {name: int("".join(filter(str.isdigit, name))) for name in names}
    ordered = sorted(versions, key=lambda name: (versions[name], name))
    return (*ordered, f"compute_{min(versions.values())}")


SOURCE = ("source",)
"""The code form of a library with CUDA source, which is compiled where the library is loaded."""


def chosen_forms(names: Sequence[str], arch: str) -> tuple[str, ...]:
    """Return the code forms of a library: those of the architectures that the user named.

    If the user named none, they are those of the target's architecture, or CUDA source if there is
    no compiler.
    """
    if not names and not has_compiler():
        return SOURCE
    return code_forms(names or [arch])


def compiled(source: str, names: Sequence[str]) -> bytes:
    """Return the fat binary for some architectures; without fast-math.

    Raises NnefError if there is no compiler or it fails.
    """
    check_architectures(names)
    return fat_binary(source, code_forms(names))


def fat_binary(source: str, forms: Sequence[str]) -> bytes:
    """Return the fat binary of some code forms.

    Raises NnefError if there is no compiler or it fails.
    """
    return _fat_binary(find_compiler(), source, tuple(forms))


@functools.lru_cache(maxsize=2)
def _fat_binary(compiler: Path, source: str, forms: tuple[str, ...]) -> bytes:
    """Return the fat binary.

    A model that is built with and without CUDA graphs has the same kernels.
    """
    options = [_generated(form) for form in forms]
    with tempfile.TemporaryDirectory() as folder:
        # The fat binary contains the name of the source file.
        (Path(folder) / "kernels.cu").write_text(source)
        command = ["-fatbin", *options, *_OPTIONS, "-o", "kernels.fatbin", "kernels.cu"]
        run = _run(compiler, command, folder)
        if run.returncode:
            raise _failed(run)
        return (Path(folder) / "kernels.fatbin").read_bytes()


_OPTIONS = (
    *("-O3", "-std=c++17", "-w", "--threads=0", "--expt-relaxed-constexpr"),
    *(f"-U__CUDA_NO_{kind}_OPERATORS__" for kind in ("HALF", "BFLOAT16", "BFLOAT162")),
    *(f"-U__CUDA_NO_{kind}_CONVERSIONS__" for kind in ("HALF", "BFLOAT16")),
)


def source_of(library: Any) -> str | None:
    """Return the CUDA source in a library of TVM; None if it has no code for a GPU."""
    sources = [each.inspect_source() for each in _modules(library) if str(each.kind) == "cuda"]
    return str(sources[0]) if sources else None


def write_imports(library: Any, binary: bytes, triple: str, folder: Path) -> Path:
    """Write the object file of what a library imports, with a fat binary as its code for GPUs.

    Without a GPU TVM has no function that makes such a library, so what it writes is changed.
    """
    packed = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")(library).numpy()
    return write_data(_with_binary(packed.tobytes(), binary), triple, folder)


def _with_binary(packed: bytes, binary: bytes) -> Iterator[bytes]:
    """Yield the serialized imports of a library with its module for CUDA replaced by a fat binary.

    The format is: the length of the whole, the tree of modules, and the kind and content of each
    module.
    """
    reader = Reader(packed)
    whole = reader.number()
    tree = [reader.read(f"<{reader.number()}Q") for _ in range(2)]
    for _ in tree[0][1:]:
        kind = reader.text()
        start = reader.offset
        if kind == b"_lib":  # The kernels for the host, which are machine code already.
            continue
        module = reader.text()
        if kind == b"cuda":
            changed = text(_module_of(module, binary))
            yield number(whole + len(changed) - (reader.offset - start))
            yield packed[8:start]
            yield changed
            yield packed[reader.offset :]
            return
    raise RuntimeError("the library has no module for CUDA")


def _module_of(module: bytes, binary: bytes) -> bytes:
    """Return a serialized module for CUDA with other code: its format, a table of functions, the
    code.
    """
    reader = Reader(module)
    reader.text()
    start = reader.offset
    for _ in range(reader.number()):
        reader.text(), reader.text()
        reader.read(f"<{reader.number()}I")  # dtypes of arguments
        for _ in range(reader.number()):
            reader.text()  # what arguments of the launch are, such as "threadIdx.x"
        reader.read(f"<{reader.number()}I")
    table = module[start : reader.offset]
    reader.text()
    if reader.offset != len(module):
        raise RuntimeError("this version of TVM writes modules for CUDA in another form")
    return text(b"cubin") + table + text(binary)


def runs_here() -> bool:
    """Whether this process has TVM's runtime for CUDA, which compiles each module that is made."""
    return tvm_ffi.get_global_func("ffi.Module.create.cuda", allow_missing=True) is not None


def use_for_calls(architecture: str) -> None:
    """Let TVM compile what this process runs without fast-math, which it would use by itself."""

    def compile_source(code: str) -> bytes:
        return compiled(code, [architecture])

    tvm_ffi.register_global_func("tvm_callback_cuda_compile", compile_source, override=True)


def _modules(library: Any) -> Iterator[Any]:
    yield library
    for each in library.imports:
        yield from _modules(each)


def _installed() -> Iterator[str | None]:
    """Yield the paths at which nvcc may be installed, best first; None for a path that is unset."""
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or ()) if package else ():
        yield from sorted(map(str, Path(folder).glob("cu*/bin/nvcc")), reverse=True)
    yield shutil.which("nvcc")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield str(Path(home, "bin", "nvcc"))
    yield "/usr/local/cuda/bin/nvcc"


@functools.cache
def _check_architecture(compiler: Path, name: str) -> None:
    """Raise NnefError if a compiler does not know an architecture, or does not work at all."""
    run = _run(compiler, ["--dryrun", "-fatbin", _generated(name), "-x", "cu", os.devnull])
    if run.returncode and b"gpu architecture" in run.stderr:
        message = f"the compiler '{compiler}' does not know the architecture '{name}'"
        listed = _run(compiler, ["--list-gpu-code"]).stdout.decode(errors="replace").split()
        hint = f"it knows {', '.join(listed)}; for others install another version: {INSTALL}"
        raise error(message, hint=hint)
    if run.returncode:
        raise _failed(run)


def _generated(form: str) -> str:
    """Return the option for code of a form."""
    return f"-gencode=arch={form.replace('sm_', 'compute_')},code={form}"


def _run(
    compiler: Path, arguments: Sequence[str], folder: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [str(compiler), *arguments]
    # The temporary files of a compiler that is ended are removed with the folder.
    environment = {**os.environ, "TMPDIR": folder} if folder else None
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, check=False
        )
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise error(f"cannot run '{compiler}': {reason}", hint=INSTALL) from None


def _failed(run: subprocess.CompletedProcess[bytes]) -> NnefError:
    printed = (run.stderr or run.stdout).decode(errors="replace").strip().splitlines()
    lines = [line for line in printed if not line.startswith("#$")]
    missing = any("No such file" in line and "gcc" in line for line in lines)
    reason = lines[0] if lines else f"exit status {run.returncode}"
    hint = (
        "nvcc needs a C++ compiler: 'apt install g++'"
        if missing
        else "check the compiler and the free disk space"
    )
    return error(f"'{run.args[0]}' fails: {reason}", hint=hint)
