"""A device and modules of TVM whose functions are written in Python, for a TVM without Vulkan.

TVM has no function that creates these, so :func:`register_device` copies the table of functions by
which TVM uses the memory of the CPU, and replaces those that allocate. Imports no compiler of
TVM.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import tvm_ffi

from tvm_nnef.tvm_support import device_tables
from tvm_nnef.tvm_support.packed_data import Reader, text, write_data

NAME = "vulkan"
"""TVM's name of the kind of device."""

LOADER = "ffi.Module.load_from_bytes.vulkan"
"""The name in TVM's registry of the function that creates a module from its packed form."""

FAILURE = "KernelFailure"
"""The kind of error that TVM raises if a function of :func:`make_module` fails."""

Kernel: TypeAlias = Callable[[Sequence[int]], None]
"""A function of the arguments of a call: addresses of buffers, and the bits of numbers."""


class Memory(Protocol):
    """The memory of a device, with addresses of the CPU."""

    def allocate(self, size: int) -> int:
        """Return the address of new memory; 0 if there is none."""

    def free(self, address: int) -> bool:
        """Free memory; return whether it was allocated here."""


def has_runtime() -> bool:
    """Whether TVM itself runs kernels on Vulkan."""
    return _has("ffi.Module.create.vulkan")


def is_registered() -> bool:
    """Whether TVM knows a device for Vulkan, its own or that of :func:`register_device`."""
    return _has(f"device_api.{NAME}")


def _has(name: str) -> bool:
    return tvm_ffi.get_global_func(name, allow_missing=True) is not None


# The device

_DEVICE = ctypes.c_uint64  # Two numbers of 32 bits, in one register.
_ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, _DEVICE, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint32
)
_ALLOCATE_WORKSPACE = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, _DEVICE, ctypes.c_size_t, ctypes.c_uint32
)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _DEVICE, ctypes.c_void_p)


def register_device(memory: Memory) -> None:
    """Make TVM allocate memory for Vulkan by functions of Python.

    Raises OSError if this version of TVM has another table of functions.
    """
    cpu = device_tables.cpu_device()
    # Memory that the device cannot give comes from the CPU: a call that uses it reports the error.
    allocate_host = _ALLOCATE(device_tables.function_of(cpu, device_tables.ALLOCATE))
    free_host = _FREE(device_tables.function_of(cpu, device_tables.FREE))

    def allocate(this: int, device: int, size: int, alignment: int, hint: int) -> int:
        return memory.allocate(size) or int(allocate_host(cpu, 0, size, alignment, hint))

    def allocate_workspace(this: int, device: int, size: int, hint: int) -> int:
        return allocate(this, device, size, 64, hint)

    def free(this: int, device: int, address: int) -> None:
        if not memory.free(address):
            free_host(cpu, 0, address)

    replaced = {
        device_tables.ALLOCATE: _ALLOCATE(allocate),
        device_tables.FREE: _FREE(free),
        device_tables.ALLOCATE_WORKSPACE: _ALLOCATE_WORKSPACE(allocate_workspace),
        device_tables.FREE_WORKSPACE: _FREE(free),
    }
    made = device_tables.new_object(device_tables.changed_table(cpu, replaced))
    tvm_ffi.register_global_func(f"device_api.{NAME}", lambda: ctypes.c_void_p(made))


# Modules


class _Value(ctypes.Structure):
    """A value as TVM passes it: its type, and its bits."""

    _fields_ = (
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("bits", ctypes.c_int64),
    )


_CALLED = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Value), ctypes.c_int32, ctypes.POINTER(_Value)
)


def make_module(name: str, kernels: Mapping[str, Kernel]) -> Any:
    """Return a module of TVM with some functions, under a unique name.

    It is a system library in TVM's terms, so it and its functions stay until the process ends.
    """
    prefix = f"{name}."
    for kernel, run in kernels.items():
        function = _CALLED(_called(run))
        _KEPT.append(function)
        symbol = f"__tvm_ffi_{prefix}{kernel}".encode()
        tvm_ffi.LIB.TVMFFIEnvModRegisterSystemLibSymbol(
            symbol, ctypes.cast(function, ctypes.c_void_p)
        )
    return tvm_ffi.system_lib(prefix)


_KEPT: list[Any] = []
"""Objects to which TVM's table of symbols points: symbols are never removed from it."""


def _called(run: Kernel) -> Callable[..., int]:
    def called(handle: Any, arguments: Any, count: int, result: Any) -> int:
        try:
            run([arguments[number].bits for number in range(count)])
        except BaseException as problem:
            kind, message = FAILURE.encode(), str(problem).encode()
            tvm_ffi.LIB.TVMFFIErrorSetRaisedFromCStr(kind, message)
            return -1
        return 0

    return called


# Libraries


def write_imports(library: Any, kernels: Any, packed: bytes, triple: str, folder: Path) -> Path:
    """Write the object file of a library's imports: ``packed`` instead of a module of kernels.

    TVM cannot pack a module of :func:`make_module`.
    """
    parent = _importing(library, kernels)
    parent.clear_imports()
    try:
        written = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")(library).numpy()
    finally:
        parent.import_module(kernels)
    whole = _with_module(written.tobytes()[8:], packed)
    return write_data([text(whole)], triple, folder)


def _importing(module: Any, imported: Any) -> Any:
    """Return the module, or one inside it, that imports another one directly."""
    if any(each.same_as(imported) for each in module.imports):
        return module
    return next(filter(None, (_importing(each, imported) for each in module.imports)), None)


def _with_module(tree: bytes, packed: bytes) -> bytes:
    """Return the modules of a library with one more, which the last of them imports.

    The last one is the code for the host. Two lists precede the modules: for each module the begin
    and end of its imports in the second list, and these imports.
    """
    reader = Reader(tree)
    bounds, imports = ([*reader.read(f"<{reader.number()}Q")] for _ in range(2))
    if not tree.endswith(text(b"_lib")):
        raise OSError("this version of TVM writes libraries in another form")
    imports.append(len(bounds) - 1)
    bounds = [*bounds[:-1], len(imports), len(imports)]
    lists = (struct.pack(f"<Q{len(each)}Q", len(each), *each) for each in (bounds, imports))
    return b"".join((*lists, tree[reader.offset :], text(NAME.encode()), text(packed)))
