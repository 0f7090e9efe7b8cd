"""WebAssembly with fixed-width vectors; engines have at least 16 registers on most hosts."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import CpuModel, Family, Instruction, Special

FAMILY = Family(
    levels=(("simd128", CpuModel(128, 16)),),
    instructions=(Instruction(Special.DOT_INT16, 4, "llvm.wasm.dot", "simd128"),),
)
