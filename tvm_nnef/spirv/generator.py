"""The function that TVM calls for device code of the target ``vulkan``, if TVM has none itself."""

from __future__ import annotations

import functools
from typing import Any

import tvm_ffi

from tvm_nnef.spirv.arithmetic import Unsupported
from tvm_nnef.spirv.kernel import compile_kernel
from tvm_nnef.tvm_support.compat import Module, Target, prim_functions
from tvm_nnef.vulkan_runtime import launcher

_NAME = "target.build.vulkan"


@functools.cache
def register() -> bool:
    """Register the generator; return whether kernels for Vulkan are generated here, not by TVM."""
    if tvm_ffi.get_global_func(_NAME, allow_missing=True) is not None:
        return False
    tvm_ffi.register_global_func(_NAME, generate)
    # Else it comes out of TVM as a RuntimeError.
    tvm_ffi.register_error(Unsupported.__name__, Unsupported)
    launcher.register()
    return True


def generate(mod: Module, target: Target) -> Any:
    """Return the TVM module of device functions; raise Unsupported for code that SPIR-V lacks."""
    return launcher.make_module([compile_kernel(each) for each in prim_functions(mod).values()])
