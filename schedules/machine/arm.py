"""CPUs of the Arm family: AArch64, and 32-bit ones with NEON."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import KIB, CpuModel, Family

FAMILY_64 = Family(levels=(("", CpuModel(128, 32, l2_bytes=512 * KIB, l1_ways=4)),))

FAMILY_32 = Family(levels=(("neon", CpuModel(128, 16)),))
