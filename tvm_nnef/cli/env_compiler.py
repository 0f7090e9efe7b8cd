"""The report of ``tvm-nnef env`` about TVM: its versions, its CPU for ``native``, and targets."""

from __future__ import annotations

from typing import Any

from tvm_nnef.compilation.target import NATIVE, SHORT_NAMES, native, resolve
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.linking import find_linker
from tvm_nnef.tvm_support import runtime
from tvm_nnef.tvm_support.build import cuda_arch, triple_of
from tvm_nnef.tvm_support.threads import available_cores, default_threads


def versions() -> dict[str, str]:
    """The versions of TVM's packages."""
    return {"TVM": runtime.version(), "TVM FFI": runtime.ffi_version()}


def machine() -> dict[str, str]:
    """The CPU as LLVM knows it, what kernels use of it, and the GPU."""
    cpu: Any = native().attrs
    return {
        "CPU": str(cpu.get("mcpu", "unknown")),
        "cores": str(available_cores()),
        "threads": str(default_threads()),
        "GPU for CUDA": cuda_arch() or "none",
    }


def targets() -> dict[str, str]:
    """Return the outputs that can be built for each target here, or why there are none."""
    return {name: _buildable(name) for name in (NATIVE, *SHORT_NAMES)}


def _buildable(name: str) -> str:
    try:
        linker = find_linker(triple_of(resolve(name)))
    except NnefError as problem:
        return f"archives of object files only: {problem.diagnostics[0].message}"
    return f"libraries, linked by {linker[0]}"
