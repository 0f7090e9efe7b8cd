"""What the tests of Vulkan share: kernels of one formula, run on the device of this machine.

A machine without GPU has one if ``mesa-vulkan-drivers`` is installed. Each kernel that runs has
been checked by ``spirv-val``, if that is installed.
"""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir import PointerType, PrimType

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.spirv.kernel import compile_kernel
from tvm_nnef.vulkan_runtime import launcher
from tvm_nnef.vulkan_runtime.device import Device
from tvm_nnef.vulkan_runtime.shader import Shader

THREADS = 64


@pytest.fixture
def vulkan(tmp_path: Path) -> SimpleNamespace:
    """The helpers of this file; skips if this machine has no device."""
    device = found_device()
    return SimpleNamespace(
        device=device,
        run=lambda function, *arrays, **how: run(device, function, arrays, tmp_path, **how),
        kernel=kernel,
        formula=formula,
    )


@pytest.fixture(name="validate")
def validated(tmp_path: Path) -> Callable[[Shader], None]:
    """Checks the module of a shader."""
    return lambda shader: validate(shader, tmp_path)


@pytest.fixture
def runs() -> None:
    """Skips if this machine cannot run executables for Vulkan."""
    found_device()
    assert launcher.missing_device() is None


def found_device() -> Device:
    try:
        return launcher.device()
    except NnefError as problem:
        pytest.skip(f"needs a Vulkan device: {problem.diagnostics[0].message}")


def validate(shader: Shader, folder: Path) -> None:
    """Check a module by the validator of SPIR-V; nothing if that is not installed."""
    if shutil.which("spirv-val") is None:
        return
    file = folder / "kernel.spv"
    file.write_bytes(struct.pack(f"<{len(shader.words)}I", *shader.words))
    command = ["spirv-val", "--target-env", "vulkan1.1", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shader.name}: {done.stdout}{done.stderr}"


def run(
    device: Device,
    function: Any,
    arrays: Sequence[Any],
    folder: Path,
    *,
    scalars: bytes = b"",
    blocks: int = 1,
) -> None:
    """Run a device function on arrays, which it may write to."""
    shader = compile_kernel(function)
    validate(shader, folder)
    addresses = [device.allocate(array.nbytes) for array in arrays]
    for address, array in zip(addresses, arrays, strict=True):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
    device.launch(shader, addresses, scalars, [blocks, 1, 1])
    for address, array in zip(addresses, arrays, strict=True):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
        assert device.free(address)


def kernel(
    types: Sequence[str],
    body: Callable[..., tirx.Stmt],
    scalars: Sequence[str] = (),
    threads: int = THREADS,
) -> Any:
    """A device function: ``body`` gets buffers of some dtypes, the thread, the block, scalars."""
    pointers, declared, buffers = [], [], []
    for number, dtype in enumerate(types):
        pointers.append(tirx.Var(f"p{number}", PointerType(PrimType(dtype), "global")))
        buffers.append(tirx.decl_buffer((1 << 20,), dtype, f"b{number}"))
        declared.append(tirx.DeclBuffer(buffers[-1], data=pointers[-1]))
    numbers = [tirx.Var(f"s{number}", dtype) for number, dtype in enumerate(scalars)]
    block, thread = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    inner = tirx.SeqStmt([*declared, body(*buffers, thread, block, *numbers)])
    for var, extent, tag in ((thread, threads, "threadIdx.x"), (block, 1, "blockIdx.x")):
        axis = tirx.IterVar(None, var, tirx.IterVar.ThreadIndex, tag)
        inner = tirx.AttrStmt(axis, "thread_extent", tirx.const(extent, "int32"), inner)
    made = tirx.PrimFunc([*pointers, *numbers], inner)
    tags = ["blockIdx.x", "threadIdx.x"]
    return made.with_attr({"global_symbol": "kernel", "tirx.kernel_launch_params": tags})


def formula(
    vulkan: Any, result: str, make: Callable[..., Sequence[Any]], *inputs: Any
) -> list[Any]:
    """The arrays of some expressions of the elements of arrays, each as long as a workgroup."""
    count = len(make(*(tirx.Var("x", str(each.dtype)) for each in inputs)))

    def body(*arguments: Any) -> tirx.Stmt:
        *buffers, target, thread, _ = arguments
        values = make(*(buffer[(thread,)] for buffer in buffers))
        return tirx.SeqStmt(
            [
                tirx.BufferStore(target, value, [thread + number * THREADS])
                for number, value in enumerate(values)
            ]
            + [tirx.Evaluate(tirx.const(0, "int32"))]
        )

    target = np.zeros((count, THREADS), result)
    function = kernel([*(str(each.dtype) for each in inputs), result], body)
    vulkan.run(function, *inputs, target)
    return list(target)
