"""GPUs that run Vulkan: the properties that all of them have, if the target has no others."""

from __future__ import annotations

from tvm_nnef.schedules.machine.cuda import GpuModel
from tvm_nnef.schedules.machine.model import KIB
from tvm_nnef.tvm_support.compat import Target

_THREADS = 256
_SHARED_BYTES = 16 * KIB


def model_of(target: Target) -> GpuModel:
    """Return the model of the GPU that a target describes by options that TVM knows."""
    attributes = target.attrs

    def option(name: str, default: int) -> int:
        return int(attributes[name]) if name in attributes else default

    return GpuModel(
        multiprocessors=32,
        threads=1024,
        blocks=16,
        shared_bytes=64 * KIB,
        multiply_adds=64,
        memory_bytes=8,
        has_float64=False,
        has_functions=False,
        has_async_copies=False,
        block_threads=option("max_threads_per_block", _THREADS),
        block_shared_bytes=option("max_shared_memory_per_block", _SHARED_BYTES),
        tile_shared_bytes=option("max_shared_memory_per_block", _SHARED_BYTES),
    )
