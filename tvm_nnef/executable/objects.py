"""Object files of what was compiled, which a linker makes a shared library of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tvm

from tvm_nnef.diagnostics import warn
from tvm_nnef.tvm_support import build, cuda
from tvm_nnef.tvm_support.compat import Target
from tvm_nnef.vulkan_runtime import launcher, tvm_device


def write_objects(library: Any, folder: Path) -> list[Path]:
    """Write the object files of what was compiled into an empty folder.

    LLVM ends the process when it cannot write a file, so a copy of the process writes them. Raises
    OSError if that fails, and NnefError if code for a GPU cannot be compiled.
    """
    unused, gpu_code = library.unused(), library.gpu_code
    if gpu_code is None and library.gpu_source is not None:
        message = "the library contains CUDA source: there is no nvcc here, so there must be one "
        message += "where the library is loaded"
        warn(message, hint=f"to compile now, {cuda.INSTALL}")
    if hasattr(os, "fork"):
        build.in_copy_of_process(lambda: _export(unused, folder, library.target, gpu_code))
    else:
        _export(unused, folder, library.target, gpu_code)
    # A library without kernels has an empty C file.
    return sorted(folder.glob("*.o"))


def _export(library: Any, folder: Path, target: Target, gpu_code: bytes | None) -> None:
    def linked(*_: object, **options: object) -> None:
        """Replaces the linker."""

    triple = build.triple_of(target)

    def packed(module: Any, system: bool, prefix: str, folder: str) -> str:
        """Writes the imported modules and constants as data in an object file for the target."""
        kernels = launcher.kernels_of(module)
        if kernels is not None:
            return str(tvm_device.write_imports(module, *kernels, triple, Path(folder)))
        if gpu_code is not None:
            return str(cuda.write_imports(module, gpu_code, triple, Path(folder)))
        path = str(Path(folder) / "devc.o")
        pack = tvm.get_global_func("runtime.ModulePackImportsToLLVM")
        pack(module, system, str(build.host_of(target)), prefix).write_to_file(path)
        return path

    library.export_library(
        "library.so", workspace_dir=str(folder), fcompile=linked, fpack_imports=packed
    )
