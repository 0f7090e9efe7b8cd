"""TVM's runtime without its compiler: libraries, virtual machines, tensors and devices.

Input: files, NumPy arrays. Output: objects of TVM. Imports the package ``tvm_ffi`` alone: the
package ``tvm`` imports the compiler, which takes several times as long as loading a model.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import math
import runpy
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes  # noqa: F401  NumPy knows the name "bfloat16" once this is imported.
import numpy as np
import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from tvm_nnef.arrays import foreign_tensors
from tvm_nnef.arrays.coded_arrays import as_held, format_of, from_held
from tvm_nnef.tvm_support import BUNDLED
from tvm_nnef.tvm_support.device_errors import reported

Array: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of any shape and dtype."""

Tensor: Any = tvm_ffi.Tensor
"""The class of TVM's tensors."""

# Otherwise TVM turns an interrupt in a Python function that it calls into a RuntimeError.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)


def version() -> str:
    """Return the version of TVM."""
    if "tvm" in sys.modules:
        return str(sys.modules["tvm"].__version__)
    return str(runpy.run_path(str(_package() / "_version.py"))["version"])


def ffi_version() -> str:
    """Return the version of the library TVM FFI, whose functions compiled code calls."""
    return str(tvm_ffi.__version__)


@functools.lru_cache(maxsize=64)
def runtime_function(name: str) -> Callable[..., Any]:
    """Return a global function of TVM's runtime."""
    _load_runtime("tvm_runtime")
    function: Callable[..., Any] = tvm_ffi.get_global_func(name)
    return function


@functools.cache
def _load_runtime(name: str) -> None:
    """Load a library of TVM's runtime once; the package ``tvm`` gets the same if it follows."""
    if name == "tvm_runtime_cuda":
        _load_cuda()
    paths = runpy.run_path(str(_package() / "libinfo.py"))["package_lib_paths"]()
    load_lib_ctypes("tvm", name, "RTLD_GLOBAL", extra_lib_paths=paths)


_CUDA = "libcudart.so.13"
"""The library of CUDA that TVM's runtime for it is linked with."""


def _load_cuda() -> None:
    """Load CUDA's own runtime if it is in a PyPI package, where no loader looks for it."""
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for path in sorted(Path(folder).glob(f"*/lib/{_CUDA}")):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _package() -> Path:
    """Return the folder of the package ``tvm``, which is not imported.

    If only the runtime is installed, it is the folder of its files.
    """
    package = importlib.util.find_spec("tvm")
    if package is None or not package.submodule_search_locations:
        return BUNDLED
    return Path(next(iter(package.submodule_search_locations)))


def missing_library(part: str) -> str | None:
    """Return the reason why a part of TVM's runtime, such as a kind of device, cannot be loaded.

    It is None if the part is loaded, and for the CPU, which needs no library.
    """
    try:
        if part != "cpu":
            _load_runtime(f"tvm_runtime_{part}")
    except (OSError, RuntimeError) as problem:
        return str(problem).splitlines()[0]
    return None


def release_memory() -> None:
    """Return the memory to the system that virtual machines keep for their next runs."""
    runtime_function("vm.builtin.memory_manager.clear")()


def executable_module(library: Any) -> Any:
    """Return the module of a built or loaded library.

    Machine code is generated for one that was built.
    """
    return library if isinstance(library, tvm_ffi.Module) else library.jit()


def present_device(kind: str) -> Any:
    """Return the device of a kind, such as ``cuda``; None if this machine has none."""
    device = tvm_ffi.device(kind, 0)
    attribute = runtime_function("runtime.GetDeviceAttr")
    exists = attribute(device.dlpack_device_type(), device.index, _EXISTS)
    return device if exists else None


def architecture_of(device: Any) -> str:
    """Return the architecture of a GPU, such as ``sm_80``."""
    attribute = runtime_function("runtime.GetDeviceAttr")
    with reported:
        version = attribute(device.dlpack_device_type(), device.index, _COMPUTE_VERSION)
    return f"sm_{str(version).replace('.', '')}"


_EXISTS = 0
"""The number of the device attribute that says whether this machine has the device."""

_COMPUTE_VERSION = 4
"""The number of the device attribute for the version of its architecture, such as ``8.0``."""


def cpu() -> Any:
    """Return the device of the CPU."""
    return tvm_ffi.device("cpu", 0)


_CPU = cpu().dlpack_device_type()

_NATIVE = {np.dtype(code): np.dtype(code).name for code in "?bhilBHILefdqQ"}
"""The names of NumPy's dtypes; NumPy itself takes several microseconds to compute one."""

_NATIVE_NAMES = frozenset(_NATIVE.values())

_ALIGNMENT = 64
"""The alignment of TVM's tensors in bytes."""


def runtime_tensors(arrays: Iterable[Array], device: Any) -> list[Any]:
    """Return tensors that hold copies of the arrays, on the CPU or another device."""
    tensors: list[Any] = []
    with reported:
        for array in arrays:
            tensors.append(runtime_tensor(array, device))
    return tensors


def runtime_tensor(array: Array, device: Any = None) -> Any:
    """Return a tensor that holds a copy of the array, on the CPU or another device.

    It lies in memory of NumPy, which for a large one has large pages: reading it takes up to a
    third less time. Of a dtype of few bits it has the bytes.
    """
    array = as_held(array)
    # NumPy may give an empty array any address.
    memory = aligned_bytes(array.nbytes or _ALIGNMENT)
    elements = memory[: array.nbytes].view(array.dtype).reshape(array.shape)
    elements[...] = array
    if is_native(array.dtype) and array.size:
        return _on(device, tvm_ffi.from_dlpack(elements, require_alignment=_ALIGNMENT))
    return _on(device, _shared(memory, array.shape, str(array.dtype)))


def is_native(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is NumPy's, in the order of bytes of this machine."""
    return dtype in _NATIVE


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype of NumPy."""
    return _NATIVE.get(dtype) or str(dtype.name)


def items(array: Any) -> list[Any]:
    """Return the items of an array of TVM; iterating over it takes several times as long."""
    item = runtime_function("ffi.ArrayGetItem")
    return [item(array, number) for number in range(len(array))]


def tensors_in(
    content: Sequence[Array], described: Iterable[Mapping[str, Any]], device: Any
) -> Any:
    """Return the array of tensors of TVM that lie in arrays of bytes, each at an ``offset``.

    On the CPU they share the memory of the arrays, each of which begins where a tensor may.
    """
    starts = [*accumulate(map(len, content), initial=0)]
    tensors: list[Any] = []
    with reported:
        for each in described:
            offset = int(each["offset"])
            number = bisect_right(starts, offset) - 1
            data = content[number][offset - starts[number] :]
            tensors.append(_on(device, _shared(data, each["shape"], str(each["dtype"]))))
    return tvm_ffi.Array(tensors)


def bytes_of(tensor: Any) -> Array:
    """Return the bytes of a tensor of the CPU, which share its memory."""
    view = runtime_function("runtime.TVMTensorCreateView")
    size = math.prod(tensor.shape) * tvm_ffi.dtype(tensor.dtype).itemsize
    return np.from_dlpack(view(tensor, tvm_ffi.Shape([size]), tvm_ffi.dtype("uint8"), 0))


def aligned_bytes(size: int) -> Array:
    """Return an array of ``size`` bytes with the alignment of TVM's tensors."""
    memory = np.empty(size + _ALIGNMENT, "uint8")
    first = -memory.__array_interface__["data"][0] % _ALIGNMENT
    return memory[first : first + size]


def _shared(data: Array, shape: Sequence[int], dtype: str) -> Any:
    """Return the tensor of a shape and dtype over the first bytes of an array."""
    whole = tvm_ffi.from_dlpack(data, require_alignment=_ALIGNMENT, require_contiguous=True)
    view = runtime_function("runtime.TVMTensorCreateView")
    return view(whole, tvm_ffi.Shape(shape), tvm_ffi.dtype(dtype), 0)


def from_dlpack(value: Any) -> Any:
    """Return the tensor of another library as one of TVM, in the same memory of a device."""
    for kind in ("cuda", "vulkan"):
        missing_library(kind)
    return tvm_ffi.from_dlpack(value, require_contiguous=True)


def _on(device: Any, tensor: Any) -> Any:
    """Return a tensor of the CPU, or a copy of it in the memory of another device."""
    if device is None or device == cpu():
        return tensor
    allocate = runtime_function("runtime.TVMTensorAllocWithScope")
    copy = allocate(tensor.shape, tensor.dtype, device, None)
    runtime_function("runtime.TVMTensorCopyFromTo")(tensor, copy)
    return copy


def array_of(tensor: Any, dtype: str | None = None) -> Array:
    """Return a copy of a tensor of any device, as a NumPy array.

    Its elements are of ``dtype`` if the tensor has the bytes of one of few bits.
    """
    if dtype in _NATIVE_NAMES and _is_on_cpu(tensor):
        copied: Array = np.from_dlpack(tensor).copy()
        return copied
    array = copy_to(np.empty(tensor.shape, str(tensor.dtype)), tensor)
    return array if dtype is None else from_held(array, dtype)


def _is_on_cpu(tensor: Any) -> bool:
    return bool(tensor.__dlpack_device__()[0] == _CPU)


def copy_to(array: Array, tensor: Any) -> Array:
    """Copy a tensor of the same shape and dtype on any device into the array; return the array."""
    if format_of(array.dtype) or not array.flags.c_contiguous:
        array[...] = array_of(tensor, array.dtype.name)
        return array
    if array.dtype in _NATIVE and _is_on_cpu(tensor):
        array[...] = np.from_dlpack(tensor)
        return array
    address = array.ctypes.data_as(ctypes.c_void_p)
    with reported:
        runtime_function("runtime.TVMTensorCopyToBytes")(tensor, address, array.nbytes)
    return array


def numpy_view(value: Any) -> Any:
    """Return a NumPy view of a tensor of another library; a copy of one in the memory of a
    device.
    """
    return foreign_tensors.numpy_view(value, read_tensor)


def read_tensor(value: Any) -> Array:
    """Return a tensor of another library whose memory, or elements, NumPy does not take from it."""
    if not _is_on_cpu(value):
        return array_of(from_dlpack(value))
    tensor = from_dlpack(value)
    dtype = np.dtype(str(tensor.dtype))
    view = runtime_function("runtime.TVMTensorCreateView")
    whole = tvm_ffi.dtype(f"uint{8 * dtype.itemsize}")
    return np.from_dlpack(view(tensor, tvm_ffi.Shape(tensor.shape), whole, 0)).view(dtype)
