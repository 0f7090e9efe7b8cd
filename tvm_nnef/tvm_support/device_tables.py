"""TVM's tables of functions for the memory of devices: reading them and replacing entries.

Input: kinds of devices and functions by number. Output: addresses of tables and objects. The tables
belong to one version of TVM; :func:`cpu_device` compares one with the symbols of the runtime.
Imports no compiler of TVM.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm_ffi

_BEFORE = 2
"""Entries before the first function of a table: an offset, and the type."""

_FUNCTIONS = 20
ALLOCATE, FREE, FREE_STREAM, ALLOCATE_WORKSPACE, FREE_WORKSPACE = 6, 8, 11, 16, 17
"""Indices of functions in a table. The one that frees a stream does nothing on the CPU."""

_KNOWN_SLOTS = {
    7: "_ZN3tvm7runtime9DeviceAPI14AllocDataSpaceE8DLDeviceiPKl10DLDataTypeNS_3ffi8Optional"
    "INS6_6StringEvEE",
    FREE_STREAM: "_ZN3tvm7runtime9DeviceAPI10FreeStreamE8DLDevicePv",
    15: "_ZN3tvm7runtime9DeviceAPI16SyncStreamFromToE8DLDevicePvS3_",
}
"""Functions that the CPU inherits from the base class, by index; used to identify the table."""

_KEPT: list[Any] = []
"""Objects whose addresses TVM holds, kept alive until the process ends."""


def cpu_device() -> int:
    """Return the address of TVM's object for the memory of the CPU.

    Raises OSError if this version of TVM has another table of functions than the known one.
    """
    address = device_object("cpu")
    if sys.platform != "win32":
        runtime = ctypes.CDLL(_runtime_path())
        try:
            expected = {
                slot: ctypes.cast(getattr(runtime, symbol), ctypes.c_void_p).value
                for slot, symbol in _KNOWN_SLOTS.items()
            }
        except AttributeError:
            expected = {0: None}
        if all(function_of(address, slot) == function for slot, function in expected.items()):
            return address
    raise OSError("this version of TVM uses devices by other functions")


def device_object(kind: str) -> int:
    """Return the address of TVM's object for the memory of a kind of device."""
    return int(tvm_ffi.get_global_func(f"device_api.{kind}")().value)


def function_of(device: int, slot: int) -> int:
    """Return the address of a function in the table of a device's object."""
    return int((ctypes.c_void_p * _FUNCTIONS).from_address(_table_of(device))[slot] or 0)


def changed_table(device: int, replaced: Mapping[int, Any]) -> int:
    """Return the address of a copy of the table of a device's object, with other functions by
    number.
    """
    table = (ctypes.c_void_p * (_BEFORE + _FUNCTIONS)).from_buffer_copy(
        (ctypes.c_void_p * (_BEFORE + _FUNCTIONS)).from_address(_table_of(device) - 8 * _BEFORE)
    )
    for slot, function in replaced.items():
        table[_BEFORE + slot] = ctypes.cast(function, ctypes.c_void_p)
    _KEPT.append((table, replaced))
    return ctypes.addressof(table) + 8 * _BEFORE


def new_object(table: int) -> int:
    """Return the address of a new object for the memory of a device, which has only a table."""
    instance = (ctypes.c_void_p * 1)(table)
    _KEPT.append(instance)
    return ctypes.addressof(instance)


def set_table(device: int, table: int) -> None:
    """Give a device's object another table."""
    ctypes.c_void_p.from_address(device).value = table


def _table_of(device: int) -> int:
    return int(ctypes.c_void_p.from_address(device).value or 0)


def _runtime_path() -> str:
    found = importlib.util.find_spec("tvm")
    folders = (found.submodule_search_locations or ()) if found else ()
    return str(next(path for each in folders for path in Path(each).glob("lib/libtvm_runtime.*")))
