"""``tvm-nnef env``: versions, the CPU, and what can be built here, as reports of bugs need them."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
from typing import Any

from tvm_nnef import host_machine
from tvm_nnef.compilation.target import NATIVE, SHORT_NAMES, native, resolve
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.linking import find_linker
from tvm_nnef.syntax import store
from tvm_nnef.tvm_support import runtime
from tvm_nnef.tvm_support.build import cuda_arch, triple_of
from tvm_nnef.tvm_support.threads import available_cores, default_threads
from tvm_nnef.version import __version__

_PACKAGES = ("lark", "numpy", "ml-dtypes", "onnx", "onnxruntime", "torch", "jax", "vulkan")
"""Packages of others whose versions matter, installed or not."""

_VARIABLES = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "TVM_THREAD_POOL_SPIN_COUNT", "CXX", "CC")
"""Environment variables that change what is built, and how it runs."""


def run(options: argparse.Namespace) -> int:
    """Print the description of this installation and machine."""
    found = described()
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    width = max(len(name) for part in found.values() for name in part)
    for title, part in found.items():
        print(f"{title}:")
        for name, value in part.items():
            print(f"  {name:<{width}}  {value}".rstrip())
    return 0


def described() -> dict[str, dict[str, str]]:
    """The versions, the machine, and by target what can be built, as texts."""
    return {
        "versions": _versions(),
        "machine": _machine(),
        "targets": {name: _buildable(name) for name in (NATIVE, *SHORT_NAMES)},
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _versions() -> dict[str, str]:
    packages = {name: _version(name) for name in _PACKAGES}
    return {
        "tvm-nnef": __version__,
        "Python": platform.python_version(),
        "TVM": runtime.version(),
        "TVM FFI": runtime.ffi_version(),
        **{name: found for name, found in packages.items() if found},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _machine() -> dict[str, str]:
    cpu: Any = native().attrs
    features = sorted(host_machine.present_features() or ())
    return {
        "system": platform.platform(),
        "architecture": host_machine.architecture(),
        "CPU": str(cpu.get("mcpu", "unknown")),
        "CPU features": " ".join(features) or "unknown",
        "cores": str(available_cores()),
        "threads": str(default_threads()),
        "GPU for CUDA": cuda_arch() or "none",
        "cache": str(store.folder()),
    }


def _buildable(name: str) -> str:
    """What can be built for a target on this machine, or why nothing can."""
    try:
        linker = find_linker(triple_of(resolve(name)))
    except NnefError as problem:
        return f"archives of object files only: {problem.diagnostics[0].message}"
    return f"libraries, linked by {linker[0]}"
