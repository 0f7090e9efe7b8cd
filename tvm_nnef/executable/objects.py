"""Object files of what was compiled, which a linker makes a shared library of."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tvm

from tvm_nnef.diagnostics import warn
from tvm_nnef.tvm_support import build, cuda
from tvm_nnef.tvm_support.compat import Target
from tvm_nnef.tvm_support.threads import available_cores
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
    return sorted(folder.glob("*.o"))


def _export(library: Any, folder: Path, target: Target, gpu_code: bytes | None) -> None:
    triple = build.triple_of(target)

    def write(number: int, part: Any) -> None:
        part.write_to_file(str(folder / f"lib{number}.o"))

    parts = [each for each in library.mod.imports if str(each.kind) == "llvm"]
    with ThreadPoolExecutor(available_cores()) as threads:
        list(threads.map(write, range(len(parts)), parts))
    # The imported modules and constants as data in an object file for the target.
    kernels = launcher.kernels_of(library.mod)
    if kernels is not None:
        tvm_device.write_imports(library.mod, *kernels, triple, folder)
    elif gpu_code is not None:
        cuda.write_imports(library.mod, gpu_code, triple, folder)
    else:
        pack = tvm.get_global_func("runtime.ModulePackImportsToLLVM")
        data = pack(library.mod, False, str(build.host_of(target)), "")
        data.write_to_file(str(folder / "devc.o"))
