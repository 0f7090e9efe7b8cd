"""A device and modules of TVM whose functions are written in Python: for a TVM without Vulkan.

TVM has no function that makes these, so :func:`register_device` copies the table of functions by
which TVM uses the memory of the CPU, and replaces those that allocate. That table belongs to one
version of TVM, and is compared with the symbols of the runtime. Imports no compiler of TVM.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import tvm_ffi

from tvm_nnef.tvm_support.packed_data import Reader, text, write_data

NAME = "vulkan"
"""TVM's name of the kind of device."""

LOADER = "ffi.Module.load_from_bytes.vulkan"
"""The function of TVM's registry that makes a module from its packed form."""

FAILURE = "KernelFailure"
"""The kind of error, in TVM's words, that is raised if a function of :func:`make_module` fails."""

Kernel: TypeAlias = Callable[[Sequence[int]], None]
"""Gets the arguments of a call: addresses of buffers, and the bits of numbers."""


class Memory(Protocol):
    """The memory of a device. Addresses are those at which the CPU sees it."""

    def allocate(self, size: int) -> int:
        """The address of new memory; 0 if there is none."""

    def free(self, address: int) -> bool:
        """Whether memory was allocated here; it is free now."""


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

_BEFORE = 2
"""Entries before the first function of a table: an offset, and the type."""

_FUNCTIONS = 20
_ALLOCATE_SLOT, _FREE_SLOT, _ALLOCATE_WORKSPACE_SLOT, _FREE_WORKSPACE_SLOT = 6, 8, 16, 17

_KNOWN_SLOTS = {
    7: "_ZN3tvm7runtime9DeviceAPI14AllocDataSpaceE8DLDeviceiPKl10DLDataTypeNS_3ffi8Optional"
    "INS6_6StringEvEE",
    11: "_ZN3tvm7runtime9DeviceAPI10FreeStreamE8DLDevicePv",
    15: "_ZN3tvm7runtime9DeviceAPI16SyncStreamFromToE8DLDevicePvS3_",
}
"""Functions that the CPU has from the base class, by their numbers: the others are around them."""


def register_device(memory: Memory) -> None:
    """Make TVM allocate memory for Vulkan by functions of Python.

    Raises OSError if this version of TVM has another table of functions.
    """
    cpu = _cpu_device()
    table = (ctypes.c_void_p * (_BEFORE + _FUNCTIONS)).from_buffer_copy(
        (ctypes.c_void_p * (_BEFORE + _FUNCTIONS)).from_address(_table_of(cpu) - 8 * _BEFORE)
    )
    # Memory that the device cannot give comes from the CPU: a call that uses it reports the error.
    allocate_host = _ALLOCATE(table[_BEFORE + _ALLOCATE_SLOT] or 0)
    free_host = _FREE(table[_BEFORE + _FREE_SLOT] or 0)

    def allocate(this: int, device: int, size: int, alignment: int, hint: int) -> int:
        return memory.allocate(size) or int(allocate_host(cpu, 0, size, alignment, hint))

    def allocate_workspace(this: int, device: int, size: int, hint: int) -> int:
        return allocate(this, device, size, 64, hint)

    def free(this: int, device: int, address: int) -> None:
        if not memory.free(address):
            free_host(cpu, 0, address)

    replaced = {
        _ALLOCATE_SLOT: _ALLOCATE(allocate),
        _FREE_SLOT: _FREE(free),
        _ALLOCATE_WORKSPACE_SLOT: _ALLOCATE_WORKSPACE(allocate_workspace),
        _FREE_WORKSPACE_SLOT: _FREE(free),
    }
    for slot, function in replaced.items():
        table[_BEFORE + slot] = ctypes.cast(function, ctypes.c_void_p)
    instance = (ctypes.c_void_p * 1)(ctypes.addressof(table) + 8 * _BEFORE)
    kept = (instance, table, tuple(replaced.values()))

    def device_api() -> Any:
        return ctypes.c_void_p(ctypes.addressof(kept[0]))

    tvm_ffi.register_global_func(f"device_api.{NAME}", device_api)


def _cpu_device() -> int:
    """The address of TVM's object for the memory of the CPU, whose table is the known one."""
    address = tvm_ffi.get_global_func("device_api.cpu")().value
    if sys.platform != "win32":
        slots = (ctypes.c_void_p * _FUNCTIONS).from_address(_table_of(address))
        runtime = ctypes.CDLL(_runtime_path())
        try:
            known = {
                slot: ctypes.cast(getattr(runtime, symbol), ctypes.c_void_p).value
                for slot, symbol in _KNOWN_SLOTS.items()
            }
        except AttributeError:
            known = {0: None}
        if all(slots[slot] == function for slot, function in known.items()):
            return int(address)
    raise OSError("this version of TVM does not take a device for Vulkan from outside")


def _table_of(instance: int) -> int:
    return int(ctypes.c_void_p.from_address(instance).value or 0)


def _runtime_path() -> str:
    found = importlib.util.find_spec("tvm")
    folders = (found.submodule_search_locations or ()) if found else ()
    return str(next(path for each in folders for path in Path(each).glob("lib/libtvm_runtime.*")))


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
    """A module of TVM with some functions, under a name that no other one has.

    It is what TVM calls a system library, so it and its functions stay until the process ends.
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
"""What TVM's table of symbols points to: symbols are never removed from it."""


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
    """Write the object file of what a library imports: ``packed`` instead of a module of kernels.

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
    """The module under another one that imports a third one itself."""
    if any(each.same_as(imported) for each in module.imports):
        return module
    return next(filter(None, (_importing(each, imported) for each in module.imports)), None)


def _with_module(tree: bytes, packed: bytes) -> bytes:
    """The modules of a library with one more, which the last of them imports.

    The last one is the code for the host. Before the modules come two lists: for each module where
    its imports begin and end in the second list, and these imports.
    """
    reader = Reader(tree)
    bounds, imports = ([*reader.read(f"<{reader.number()}Q")] for _ in range(2))
    if not tree.endswith(text(b"_lib")):
        raise OSError("this version of TVM writes libraries in another form")
    imports.append(len(bounds) - 1)
    bounds = [*bounds[:-1], len(imports), len(imports)]
    lists = (struct.pack(f"<Q{len(each)}Q", len(each), *each) for each in (bounds, imports))
    return b"".join((*lists, tree[reader.offset :], text(NAME.encode()), text(packed)))
