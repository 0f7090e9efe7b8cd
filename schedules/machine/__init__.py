"""Machine models: the properties of machines that schedules depend on, one file per family.

A new family of CPUs needs a file with its levels and instructions, and a line here. GPUs have a
separate model (:class:`~cuda.GpuModel`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.schedules.machine import arm, cuda, power, riscv, vulkan, wasm, x86
from tvm_nnef.schedules.machine.cuda import GpuModel
from tvm_nnef.schedules.machine.model import GENERIC, CpuModel, Family
from tvm_nnef.tvm_support.build import target_features
from tvm_nnef.tvm_support.compat import PrimFunction, Target, bits_of, is_cpu

__all__ = [
    "GENERIC", "CpuModel", "GpuModel", "bits_of", "cpu_model", "gpu_model", "machine_model",
    "model_for",
]  # fmt: skip

_FAMILIES: Mapping[str, Family] = {
    "x86_64": x86.FAMILY,
    "i686": x86.FAMILY,
    "i386": x86.FAMILY,
    "aarch64": arm.FAMILY_64,
    "arm64": arm.FAMILY_64,
    "arm": arm.FAMILY_32,
    "powerpc64le": power.FAMILY,
    "riscv64": riscv.FAMILY,
    "wasm": wasm.FAMILY,
}
"""Families by the first part of a target triple; the first prefix that matches is used."""


def cpu_model(target: Target) -> CpuModel:
    """Return the model of the CPU that a target names; :data:`GENERIC` if it is not known.

    Everything is derived from the target (its LLVM model and features), nothing from the host, so
    that a build for another machine gets that machine's tiles.
    """
    triple, features = target_features(target)
    for prefix, family in _FAMILIES.items():
        if triple.startswith(prefix):
            return family.model(features)
    return GENERIC


def machine_model(target: Target) -> CpuModel | GpuModel:
    """Return the model of the CPU or GPU that a target names."""
    return cpu_model(target) if is_cpu(target) else gpu_model(target)


def model_for(function: PrimFunction) -> CpuModel:
    """Return the model of the CPU that a function is compiled for."""
    target = (function.attrs or {}).get("target")
    return GENERIC if target is None else cpu_model(target)


def gpu_model(target: Target) -> GpuModel:
    """Return the model of the GPU that a target names: for CUDA by its option ``arch``."""
    if str(target.kind.name) == "vulkan":
        return vulkan.model_of(target)
    return cuda.model_of(str(target.attrs["arch"]) if "arch" in target.attrs else "")
