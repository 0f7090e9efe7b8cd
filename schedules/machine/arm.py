"""CPUs of the Arm family: AArch64, and 32-bit ones with NEON."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import KIB, CpuModel, Family, Instruction, Special

FAMILY_64 = Family(
    levels=(("", CpuModel(128, 32, l2_bytes=512 * KIB, l1_ways=4)),),
    instructions=(
        Instruction(Special.DOT_INT8, 4, "llvm.aarch64.neon.usdot.v4i32.v16i8", "i8mm"),
        Instruction(Special.DOT_SIGNED_INT8, 4, "llvm.aarch64.neon.sdot.v4i32.v16i8", "dotprod"),
    ),
)

FAMILY_32 = Family(levels=(("neon", CpuModel(128, 16)),))
