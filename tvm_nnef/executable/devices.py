"""Devices of this machine, and virtual machines on them, for what was built or loaded."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.tvm_support import runtime


def load_library(path: str, device: str = "cpu") -> Any:
    """The module of a shared library that TVM exported, whatever the name of its file.

    ``device`` is the kind of device that it has code for, such as ``cuda``.
    """
    load = runtime.runtime_function("ffi.Module.load_from_file.so")
    if device == "vulkan":
        launcher().register()
    for part in ("extra", device):
        # Not every installation has all, and few libraries need them.
        runtime.missing_library(part)
    return load(path, "so")


def launcher() -> Any:
    """The module that runs kernels for Vulkan; most runs do without what it imports."""
    return importlib.import_module("tvm_nnef.vulkan_runtime.launcher")


_POOLED = 2
"""The allocator of a virtual machine that keeps memory for the next run."""


def virtual_machine(library: Any, kind: str = "cpu") -> Any:
    """A Relax virtual machine for what was built or loaded, on a device that this machine has."""
    module = runtime.executable_module(library)
    device = device_of(kind)
    devices = [runtime.cpu()] if device in (None, runtime.cpu()) else [device, runtime.cpu()]
    if kind == "cuda" and device is not None:
        # A library may hold source, which is compiled when it is used.
        cuda = importlib.import_module("tvm_nnef.tvm_support.cuda")
        cuda.use_for_calls(runtime.architecture_of(device))
    machine = module["vm_load_executable"]()
    kinds = ((each.dlpack_device_type(), each.index, _POOLED) for each in devices)
    machine["vm_initialization"](*itertools.chain.from_iterable(kinds))
    return machine


def device_of(kind: str) -> Any:
    """The device of a kind, such as ``cpu`` or ``cuda``; None if this machine has none."""
    if kind == "cpu":
        return runtime.cpu()
    if kind == "vulkan" and missing_vulkan() is not None:
        return None
    return runtime.present_device(kind)


def missing_vulkan() -> NnefError | None:
    """Why kernels for Vulkan do not run on this machine; None if they do."""
    runtime.runtime_function("runtime.GetDeviceAttr")  # Vulkan joins a runtime that is there.
    missing: NnefError | None = launcher().missing_device()
    return missing
