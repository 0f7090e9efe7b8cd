"""``tvm-nnef env``: versions, the CPU, and what can be built here, as bug reports need them."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.support import host_machine, user_cache
from tvm_nnef.version import __version__

_PACKAGES = ("lark", "numpy", "ml-dtypes", "onnx", "onnxruntime", "torch", "jax", "vulkan")
"""Packages of others whose versions matter, installed or not."""

VARIABLES = (
    *("TVM_NUM_THREADS", "OMP_NUM_THREADS", "TVM_THREAD_POOL_SPIN_COUNT", "TVM_NNEF_CACHE_MIB"),
    *("XDG_CACHE_HOME", "CXX", "CC", "NVCC", "CUDA_HOME", "CUDA_PATH", "NO_COLOR", "FORCE_COLOR"),
)
"""The environment variables that are read; ``docs/environment.md`` describes them."""


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
    versions, machine, targets = _compiler()
    features = sorted(host_machine.present_features() or ())
    packages = {name: _version(name) for name in _PACKAGES}
    return {
        "versions": {
            "tvm-nnef": __version__,
            "Python": platform.python_version(),
            **versions,
            **{name: found for name, found in packages.items() if found},
        },
        "machine": {
            "system": platform.platform(),
            "architecture": host_machine.architecture(),
            "CPU features": " ".join(features) or "unknown",
            **machine,
            "cache": str(user_cache.folder() or "none, for there is no home folder"),
        },
        "targets": targets,
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def _compiler() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Versions of TVM, the machine and targets, as TVM reports them."""
    try:
        from tvm_nnef.cli import env_compiler
    except (NnefError, ModuleNotFoundError):
        return {"TVM": _runtime()}, {}, {}
    return env_compiler.versions(), env_compiler.machine(), env_compiler.targets()


def _runtime() -> str:
    """The version of TVM's runtime if it is installed alone."""
    try:
        from tvm_nnef.tvm_support import runtime
    except NnefError as problem:
        missing = isinstance(problem.__cause__, ModuleNotFoundError)
        return "not installed" if missing else problem.diagnostics[0].message
    return f"{runtime.version()}, the runtime alone"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
