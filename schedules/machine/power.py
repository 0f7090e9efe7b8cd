"""CPUs of the Power family: all 64 registers of VSX hold reals, 32 of them integers."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import KIB, CpuModel, Family

FAMILY = Family(levels=(("vsx", CpuModel(128, 32, l2_bytes=512 * KIB, line_bytes=128)),))
