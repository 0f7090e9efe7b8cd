"""CPUs of the x86 family, by the levels of their vector extensions."""

from __future__ import annotations

from tvm_nnef.schedules.machine.model import KIB, CpuModel, Family, Instruction, Special

FAMILY = Family(
    levels=(
        ("avx512f", CpuModel(512, 32, l2_bytes=1024 * KIB)),
        # Rows are often multiples of a cache line apart: Zen loads one such element a cycle.
        ("avx2", CpuModel(256, 16, broadcast_cost=2)),
        ("avx", CpuModel(256, 16, broadcast_cost=2)),
        ("sse2", CpuModel(128, 16, broadcast_cost=2)),
    ),
    instructions=(
        Instruction(Special.SCALE, 16, "llvm.x86.avx512.mask.scalef.ps.512", "avx512f"),
        Instruction(Special.DOT_INT16, 4, "llvm.x86.sse2.pmadd.wd", "sse2"),
        Instruction(Special.DOT_INT16, 8, "llvm.x86.avx2.pmadd.wd", "avx2"),
        Instruction(Special.DOT_INT16, 16, "llvm.x86.avx512.pmaddw.d.512", "avx512bw"),
        Instruction(Special.MULTIPLY_INT8, 4, "llvm.x86.ssse3.pmadd.ub.sw.128", "ssse3"),
        Instruction(Special.MULTIPLY_INT8, 8, "llvm.x86.avx2.pmadd.ub.sw", "avx2"),
        Instruction(Special.MULTIPLY_INT8, 16, "llvm.x86.avx512.pmaddubs.w.512", "avx512bw"),
        *(
            Instruction(Special.DOT_INT8, lanes, f"llvm.x86.avx512.vpdpbusd.{lanes * 32}", feature)
            for feature, counts in (("avx512vnni", (4, 8, 16)), ("avxvnni", (4, 8)))
            for lanes in counts
        ),
    ),
)
