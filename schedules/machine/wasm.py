"""WebAssembly with fixed-width vectors; engines have at least 16 registers on most hosts."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import CpuModel, Family

FAMILY = Family(levels=(("simd128", CpuModel(128, 16)),))
