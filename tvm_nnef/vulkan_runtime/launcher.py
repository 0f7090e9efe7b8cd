"""Execution of kernels for Vulkan under a TVM without it, by a device and modules made here.

TVM calls a kernel with the addresses of its buffers, in memory that the device and the CPU share.
:func:`register` has to run before TVM uses Vulkan or loads kernels for it.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi

from tvm_nnef.diagnostics import Diagnostic, NnefError, error
from tvm_nnef.vulkan_runtime import tvm_device
from tvm_nnef.vulkan_runtime.device import Device, features_of
from tvm_nnef.vulkan_runtime.library import pack, unpack
from tvm_nnef.vulkan_runtime.shader import Shader


class LaunchFailure(NnefError):
    """The error of a kernel that could not run.

    TVM creates it from a message and a hint in a second line.
    """

    def __init__(self, text: str) -> None:
        message, _, hint = text.partition("\n")
        super().__init__(Diagnostic(message, hint=hint))


tvm_ffi.register_error(tvm_device.FAILURE, LaunchFailure)

_MODULES: dict[Any, Any] = {}
"""Modules of packed kernels, by the checksum of these: TVM keeps these modules for good."""


@functools.cache
def device() -> Device:
    """Return the device that runs kernels; raise NnefError if there is none."""
    return Device()


def kernels_of(module: Any) -> tuple[Any, bytes] | None:
    """Return the module of :func:`make_module` that another one is or imports, and its packed
    form.
    """
    for made, packed in _MODULES.values():
        if module.same_as(made):
            return made, packed
    return next(filter(None, map(kernels_of, module.imports)), None)


def needed_features(module: Any) -> list[str]:
    """Return Vulkan's names of the features that a device must have for the kernels of a module."""
    _, packed = kernels_of(module) or (None, pack(()))
    return sorted({name for shader in unpack(packed) for name in features_of(shader)})


@functools.cache
def register() -> None:
    """Let TVM load kernels for Vulkan, and run them if this machine has a device.

    Does nothing if TVM itself can.
    """
    if not tvm_device.has_runtime():
        tvm_ffi.register_global_func(tvm_device.LOADER, _loaded)


def _loaded(packed: Any) -> Any:
    return make_module(unpack(bytes(packed)))


def make_module(shaders: Sequence[Shader]) -> Any:
    """Return a module of TVM whose functions run kernels."""
    packed = pack(shaders)
    key = hashlib.sha256(packed).hexdigest()
    if key not in _MODULES:
        kernels = {each.name: _launching(each) for each in shaders}
        _MODULES[key] = (tvm_device.make_module(f"tvm_nnef.vulkan_runtime.{key}", kernels), packed)
    return _MODULES[key][0]


def _launching(shader: Shader) -> Callable[[Sequence[int]], None]:
    """Return a function that runs a kernel for the arguments of a call."""
    count = len(shader.arguments)
    positions = {tag: number for number, tag in enumerate(shader.launch_tags)}
    grid = [positions.get(f"blockIdx.{axis}") for axis in "xyz"]

    def launch(arguments: Sequence[int]) -> None:
        buffers = arguments[: shader.buffers]
        numbers = arguments[shader.buffers : count]
        sizes = arguments[count:]
        scalars = b"".join(map(_encoded, shader.scalars, numbers))
        blocks = [1 if position is None else sizes[position] for position in grid]
        try:
            device().launch(shader, buffers, scalars, blocks)
        except NnefError as problem:
            (found,) = problem.diagnostics
            raise RuntimeError(f"{found.message}\n{found.hint or ''}") from None

    return launch


def _encoded(dtype: str, bits: int) -> bytes:
    """Return a number in 8 bytes; TVM passes reals as float64."""
    if dtype == "float32":
        (value,) = struct.unpack("<d", struct.pack("<q", bits))
        return struct.pack("<f4x", value)
    return struct.pack("<q", bits)


def missing_device() -> NnefError | None:
    """Return the reason why kernels for Vulkan do not run on this machine; None if they do.

    From then on TVM uses the device.
    """
    try:
        if not tvm_device.is_registered():
            tvm_device.register_device(device())
    except NnefError as problem:
        return problem
    except OSError as problem:
        return error(str(problem), hint="install the version of TVM that tvm-nnef names")
    return None
