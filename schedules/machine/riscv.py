"""CPUs of the RISC-V family; the vector extension has registers of at least 128 bits."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import CpuModel, Family

FAMILY = Family(levels=(("v", CpuModel(128, 32)),))
