"""Models for other CPUs, whose kernels are executed here; TVM's virtual machine calls them.

Exported libraries run in an emulator (qemu-user), each call of a kernel in a separate process.
Kernels for x86 CPUs are compiled once more, from their LLVM code, for a CPU with AVX2 alone: that
tests plans, vectors, packed weights and operands of instructions, but not LLVM's encoding of them.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

import tvm_nnef
from tvm_nnef.executable.linking import link
from tvm_nnef.executable.objects import write_objects
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.tvm_support.build import host_cpu, triple_of

SOURCE = Path(__file__).with_name("call_kernel.c")
CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "b": 6}
"""The codes of kinds of dtypes in DLPack, by NumPy's; V is that of bfloat16."""


@dataclass(frozen=True)
class Machine:
    """A CPU that is emulated: its target, the compiler for it, and the emulator with options."""

    target: str
    triple: str
    emulator: str
    options: tuple[str, ...] = ()


MACHINES = {
    "aarch64": Machine("aarch64", "aarch64-linux-gnu", "aarch64"),
    "aarch64-dotprod-fp16": Machine(
        "aarch64:+dotprod,+fullfp16", "aarch64-linux-gnu", "aarch64", ("-cpu", "max")
    ),
    "aarch64-i8mm": Machine(
        "aarch64:+dotprod,+i8mm", "aarch64-linux-gnu", "aarch64", ("-cpu", "max")
    ),
    "armv7": Machine("armv7", "arm-linux-gnueabihf", "arm", ("-cpu", "cortex-a8")),
    "powerpc64le": Machine("powerpc64le", "powerpc64le-linux-gnu", "ppc64le"),
    "riscv64": Machine("riscv64", "riscv64-linux-gnu", "riscv64", ("-cpu", "rv64,v=false")),
    "riscv64-v": Machine(
        "riscv64:+v", "riscv64-linux-gnu", "riscv64", ("-cpu", "rv64,v=true,vlen=128")
    ),
    "riscv64-v256": Machine(
        "riscv64:+v,+zvl256b", "riscv64-linux-gnu", "riscv64", ("-cpu", "rv64,v=true,vlen=256")
    ),
}

X86 = {
    "x86-64-v4": "x86-64-v4",
    "x86-64-v4-vnni": "x86-64-v4:+avx512vnni",
    "x86-64-v3-vnni": "x86-64-v3:+avxvnni",
}
"""Targets of the x86 family, by name."""


class Emulator:
    """Runs the kernels of exported libraries on an emulated CPU."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        """Compile the program that calls kernels; skip the test if that or qemu is missing."""
        emulator = shutil.which(f"qemu-{machine.emulator}")
        compiler = shutil.which(f"{machine.triple}-gcc")
        if emulator is None or compiler is None:
            pytest.skip(f"qemu-user or gcc-{machine.triple} is not installed")
        self.target = machine.target
        self._folder = folder
        program = folder / "call_kernel"
        options = ["-O1", "-w", "-rdynamic", str(SOURCE), "-Wl,--no-as-needed", "-lm", "-ldl"]
        subprocess.run([compiler, *options, "-o", str(program)], check=True)
        root = ("-L", f"/usr/{machine.triple}")
        self._command = [emulator, *root, *machine.options, str(program)]

    def kernels(self, code: Any, names: Sequence[str]) -> Callable[[str], Any]:
        """The kernels of what was compiled, as ``verify_kernels`` takes them."""
        library = self._folder / "kernels.so"
        with tempfile.TemporaryDirectory() as folder:
            link(write_objects(code, Path(folder)), library, triple_of(code.target))
        return lambda name: self._kernel(library, name) if name in names else None

    @contextmanager
    def executable(self, model: Any, **options: Any) -> Iterator[Executable]:
        """A model as an executable whose kernels run in the emulator, in a block."""
        built = tvm_nnef.build(model, self.target, progress=False, **options)
        library = self._folder / "model.so"
        built.export(library)
        with calling(built, lambda name: self._kernel(library, name)) as executable:
            yield executable

    def _kernel(self, library: Path, name: str) -> Callable[..., Any]:
        return lambda *arguments: self._call(library, name, arguments)

    def _call(self, library: Path, name: str, arguments: Sequence[Any]) -> Any:
        given = struct.pack("<q", len(arguments)) + b"".join(map(_encoded, arguments))
        command = [*self._command, str(library), name]
        done = subprocess.run(command, input=given, capture_output=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{name}: status {done.returncode}: {done.stderr.decode()[-200:]}")
        kind, value = struct.unpack_from("<qq", done.stdout)
        rest = done.stdout[16:]
        for argument in arguments:
            if not isinstance(argument, int):
                array = argument.numpy()
                found = np.frombuffer(rest, array.dtype, array.size)
                argument.copyfrom(found.reshape(array.shape))
                rest = rest[array.nbytes :]
        assert not rest
        return value if kind & 0xFFFFFFFF else None


class Translator:
    """Runs the kernels of models for an x86 CPU from LLVM code that ``rewrite`` changes."""

    def __init__(self, target: str, folder: Path, rewrite: Callable[[str], str]) -> None:
        self.target = target
        self._folder = folder
        self._rewrite = rewrite

    @contextmanager
    def executable(self, model: Any, **options: Any) -> Iterator[Executable]:
        """A model as an executable whose kernels are translated, in a block."""
        built = tvm_nnef.build(model, self.target, progress=False, **options)
        parts = []
        # A model of many kernels has several modules.
        for number, code in enumerate(built._program.files.library.unused().mod.imports):
            file = self._folder / f"kernels{number}.ll"
            file.write_text(self._rewrite(code.inspect_source("ll")), encoding="utf-8")
            parts.append((code, tvm.runtime.load_module(str(file))))

        def kernel(name: str) -> Any:
            return next(made[name] for code, made in parts if code.implements_function(name))

        with calling(built, kernel) as executable:
            yield executable


@contextmanager
def calling(built: Executable, kernel_of: Callable[[str], Any]) -> Iterator[Executable]:
    """An executable of a model that was built for another CPU, with kernels from elsewhere.

    TVM's virtual machine finds them as global functions, as long as the block runs.
    """
    here = relax.VMExecutable(built._program.files.library.unused().mod)
    words = set(re.findall(r"[\w.]+", here.as_text()))
    kernels = [
        name for part in here.mod.imports for name in words if part.implements_function(name)
    ]
    here.mod.clear_imports()
    for name in kernels:
        tvm_ffi.register_global_func(name, kernel_of(name), override=True)
    try:
        # The virtual machine runs here, so this is the machine that it needs.
        target = {"device": "cpu", "triple": host_cpu()[1], "cpu": "generic", "features": []}
        yield Executable(here, metadata=json.dumps({**built.metadata, "target": target}))
    finally:
        for name in kernels:
            tvm_ffi.registry.remove_global_func(name)


def _encoded(argument: Any) -> bytes:
    """An argument of a kernel as ``call_kernel.c`` reads it."""
    if isinstance(argument, int):
        return struct.pack("<qq", 0, argument)
    array = argument.numpy()
    numbers = [1, CODES[array.dtype.kind], 8 * array.itemsize, array.ndim, *array.shape]
    return struct.pack(f"<{len(numbers) + 1}q", *numbers, array.nbytes) + array.tobytes()
