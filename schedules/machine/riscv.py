"""CPUs of the RISC-V family: the vector extension guarantees a minimal size of registers (zvl)."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import CpuModel, Family

FAMILY = Family(
    levels=(
        *((f"zvl{bits}b", CpuModel(bits, 32)) for bits in (1024, 512, 256)),
        ("v", CpuModel(128, 32)),
    )
)
