"""Archives for WebAssembly, whose kernels run in ``wasmtime``; TVM's virtual machine runs here.

The linker is LLVM's ``wasm-ld``. The functions of TVM's runtime and of the C library that kernels
call are in Python; tasks run one after the other.
"""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TASKS = 3
INTEGER, TENSOR = 1, 7
ALIGNMENT = 64
CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "b": 6}


def linker() -> list[str]:
    """The command of wasm-ld; the test is skipped without it."""
    if find_spec("wasmtime") is None:
        pytest.skip("wasmtime is not installed")
    if found := shutil.which("wasm-ld"):
        return [found]
    if find_spec("ziglang") is None:
        pytest.skip("neither lld nor ziglang is installed")
    return [sys.executable, "-m", "ziglang", "wasm-ld"]


def linked(archive: Path, folder: Path) -> Path:
    """A module of WebAssembly of the object files in an archive."""
    with tarfile.open(archive) as files:
        names = [name for name in files.getnames() if name.endswith(".o")]
        for name in names:
            (folder / name).write_bytes(files.extractfile(name).read())  # type: ignore[union-attr]
    module = folder / "model.wasm"
    command = [*linker(), "--no-entry", "--export-all", "--export-table", "--growable-table"]
    objects = [str(folder / name) for name in names]
    subprocess.run([*command, "--allow-undefined", *objects, "-o", str(module)], check=True)
    return module


class Instance:
    """An instance of a module of kernels, and memory for their arguments."""

    def __init__(self, module: Path) -> None:
        """Instantiate a module, with functions for all of its imports."""
        import wasmtime

        self._store = wasmtime.Store()
        found = wasmtime.Module.from_file(self._store.engine, str(module))
        functions = {
            "TVMBackendParallelLaunch": self._launch,
            "TVMBackendAllocWorkspace": lambda device, number, size, code, bits: self._take(size),
            "TVMBackendFreeWorkspace": lambda device, number, pointer: 0,
            "TVMFFIEnvCheckSignals": lambda: 0,
            "TVMFFIErrorSetRaisedFromCStr": self._fail,
            "TVMFFIErrorSetRaisedFromCStrParts": self._fail,
            "memset": self._memset,
            "memcpy": self._memcpy,
        }
        imports = [
            wasmtime.Func(self._store, each.type, functions.get(each.name) or _library(each.name))
            for each in found.imports
        ]
        self._exports = wasmtime.Instance(self._store, found, imports).exports(self._store)
        self._memory = self._exports["memory"]
        self._end = self._exports["__heap_base"].value(self._store)
        for name, function in functions.items():
            if f"__{name}" in self._exports:
                kinds = _types(wasmtime, name)
                made = wasmtime.Func(self._store, wasmtime.FuncType(*kinds), function)
                index = self._exports["__indirect_function_table"].grow(self._store, 1, made)
                address = self._exports[f"__{name}"].value(self._store)
                self._write(address, struct.pack("<I", index))

    def call(self, name: str, arguments: Sequence[Any]) -> int | None:
        """Call a kernel, which stores results in its arguments; its own result is returned."""
        start, placed, values = self._end, list[tuple[int, Any]](), b""
        for argument in arguments:
            if isinstance(argument, int):
                values += struct.pack("<iiq", INTEGER, 0, argument)
                continue
            array = argument.numpy()
            data = self._store_bytes(array.tobytes())
            shape = self._store_bytes(struct.pack(f"<{array.ndim}q", *array.shape))
            steps = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
            strides = self._store_bytes(struct.pack(f"<{array.ndim}q", *steps))
            kind = (CODES[array.dtype.kind], 8 * array.itemsize, 1)
            tensor = struct.pack(
                "<IiiiBBHIIIQ", data, 1, 0, array.ndim, *kind, shape, strides, 0, 0
            )
            values += struct.pack("<iiII", TENSOR, 0, self._store_bytes(tensor), 0)
            placed.append((data, argument))
        given, result = self._store_bytes(values), self._store_bytes(bytes(16))
        if self._exports[f"__tvm_ffi_{name}"](self._store, 0, given, len(arguments), result):
            raise RuntimeError(f"{name} failed")
        for data, argument in placed:
            array = argument.numpy()
            read = bytes(self._memory.read(self._store, data, data + array.nbytes))
            argument.copyfrom(np.frombuffer(read, array.dtype).reshape(array.shape))
        kind, _, value = struct.unpack("<iiq", self._memory.read(self._store, result, result + 16))
        self._end = start
        return int(value) if kind else None

    def _take(self, size: int) -> int:
        """The address of so many new bytes."""
        address = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = address + size
        missing = self._end - self._memory.data_len(self._store)
        if missing > 0:
            self._memory.grow(self._store, -(-missing // (1 << 16)))
        return address

    def _store_bytes(self, data: bytes) -> int:
        address = self._take(len(data))
        self._write(address, data)
        return address

    def _write(self, address: int, data: bytes) -> None:
        self._memory.write(self._store, data, address)

    def _launch(self, task: int, data: int, count: int) -> int:
        group = self._store_bytes(struct.pack("<II", 0, count or TASKS))
        function = self._exports["__indirect_function_table"].get(self._store, task)
        return max(
            int(function(self._store, number, group, data)) for number in range(count or TASKS)
        )

    def _memset(self, address: int, byte: int, size: int) -> int:
        self._write(address, bytes([byte & 255]) * size)
        return address

    def _memcpy(self, to: int, start: int, size: int) -> int:
        self._write(to, bytes(self._memory.read(self._store, start, start + size)))
        return to

    def _fail(self, *_: int) -> None:
        raise RuntimeError("a check of the kernel failed")


def _library(name: str) -> Callable[..., float]:
    """A function of the C library, such as ``sinf``."""
    numpy = {"fabs": "abs", "pow": "power", "fmod": "fmod"}
    stem = name.removesuffix("f") if name not in ("erf",) else name
    stem = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(stem, stem)
    stem = {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}.get(stem, stem)
    kind = np.float32 if name.endswith("f") and name != "erf" else np.float64
    function = getattr(np, numpy.get(stem, stem), None)

    def call(*values: float) -> float:
        if function is None:
            raise RuntimeError(f"there is no function '{name}' here")
        with np.errstate(all="ignore"):
            return float(function(*map(kind, values)))

    return call


def _types(wasmtime: Any, name: str) -> tuple[list[Any], list[Any]]:
    """The types of a function of TVM's runtime, whose pointers are 32 bits wide."""
    i32, i64 = wasmtime.ValType.i32(), wasmtime.ValType.i64()
    return {
        "TVMBackendParallelLaunch": ([i32] * 3, [i32]),
        "TVMBackendAllocWorkspace": ([i32, i32, i64, i32, i32], [i32]),
        "TVMBackendFreeWorkspace": ([i32] * 3, [i32]),
        "TVMFFIErrorSetRaisedFromCStr": ([i32] * 2, []),
        "TVMFFIErrorSetRaisedFromCStrParts": ([i32] * 3, []),
        "TVMFFIEnvCheckSignals": ([], [i32]),
    }[name]
