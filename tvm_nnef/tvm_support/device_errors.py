"""Conversion of errors that the driver of a GPU reports, and survival of the process after them.

Input: exceptions of TVM. Output: NnefError. After an error inside of a kernel every call of CUDA
fails until the process ends, including those that free memory. TVM 0.27 frees memory in destructors
of C++, from which an exception ends the process. Imports no compiler of TVM.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from types import TracebackType
from typing import Any

import tvm_ffi

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.tvm_support import device_tables

_KIND = "cuda"
_SYNCHRONIZE = "runtime.Device_StreamSync"

OUT_OF_MEMORY = "give smaller inputs"
"""The hint of an error if a model needs more memory than the device has."""

_OF_DRIVER = ("CUDA", "dynamic shared memory size")
"""Parts of TVM's messages by which errors of the driver are recognized; their classes differ."""


class Reported:
    """A context that raises NnefError for each error that the driver reports inside of it.

    Tensors that are made in it have to be in variables: what is freed before it ends, while an
    exception is raised, ends the process.
    """

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise NnefError if the driver reported the exception that ends the block."""
        reported_error = driver_error(problem) if isinstance(problem, RuntimeError) else None
        if reported_error is not None:
            raise reported_error from None


reported = Reported()


def driver_error(problem: RuntimeError) -> NnefError | None:
    """Return the error for an exception of TVM that a driver has reported; None for another one."""
    text = (str(problem).splitlines() or [""])[0]
    if not any(part in text for part in _OF_DRIVER):
        return None
    if "cudaErrorMemoryAllocation" in text:
        return error(
            "not enough memory on the GPU for the tensors of the model", hint=OUT_OF_MEMORY
        )
    hint = "build for a CPU, such as 'native', to see whether the model runs there"
    if is_broken():
        checked = (
            "in a new one, build with checked=True to see whether indices are outside of tensors"
        )
        printed = "the kernel has printed which index is outside of which tensor"
        hint = printed if "cudaErrorAssert" in text else checked
        hint = f"this process cannot use the GPU any more; {hint}"
    reason = text.removeprefix("CUDA Runtime Error: ").removeprefix("CUDALaunch Error: ")
    return error(f"the GPU reports an error: {reason}", hint=hint)


def synchronize(device: Any) -> None:
    """Wait until a device has run all that it was given. Raises RuntimeError for what failed."""
    tvm_ffi.get_global_func(_SYNCHRONIZE)(device, 0)


def is_broken() -> bool:
    """Whether all calls of CUDA fail from now on; if so, stop freeing memory of the GPU."""
    try:
        synchronize(tvm_ffi.device(_KIND, 0))
    except RuntimeError:
        _free_nothing()
        return True
    return False


def keep_if_broken(machine: Any) -> None:
    """Keep a virtual machine until the process ends, if CUDA cannot free what it has captured."""
    if is_broken():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(machine))


@functools.cache
def _free_nothing() -> None:
    """Make TVM free no memory of the GPU, if it uses one, by tables that are the known ones."""
    with contextlib.suppress(OSError, ValueError):
        _replace_free()


def _replace_free() -> None:
    nothing = device_tables.function_of(device_tables.cpu_device(), device_tables.FREE_STREAM)
    device = device_tables.device_object(_KIND)
    replaced = {device_tables.FREE: ctypes.c_void_p(nothing)}
    device_tables.set_table(device, device_tables.changed_table(device, replaced))
