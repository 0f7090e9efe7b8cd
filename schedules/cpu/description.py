"""What the rules need to know of a CPU: a TVM target in, sizes of registers and caches out.

Everything comes from the target (its LLVM model and features), nothing from the host, so that a
build for another machine gives that machine's tiles. A CPU that is not known gets small vectors
and small caches: right everywhere, at some cost in speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_nnef.tvm_support.build import target_features
from tvm_nnef.tvm_support.compat import Target

_KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Description:
    """Sizes of a CPU core.

    ``vector_bits`` is the width of a vector register and ``registers`` their number; ``level1``
    and ``level2`` are bytes of data cache for one core; ``ways`` is the associativity of the first
    level, whose lines of equal offset in ``alias`` bytes compete for the same places. ``scaling``
    is LLVM's name of an instruction that multiplies 16 numbers by powers of two, if there is one;
    ``pairs`` are those that add the products of two pairs of int16 in each of so many lanes.
    """

    vector_bits: int
    registers: int
    level1: int = 32 * _KIB
    level2: int = 256 * _KIB
    ways: int = 8
    alias: int = 4 * _KIB
    scaling: str | None = None
    pairs: Mapping[int, str] = field(default_factory=dict)

    def lanes(self, bits: int) -> int:
        """How many elements of so many bits a vector holds; at least one."""
        return max(1, self.vector_bits // max(8, bits))


_PAIRS = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}

UNKNOWN = Description(128, 16)
"""What an unknown CPU certainly has."""

_BY_FEATURE: Mapping[str, Mapping[str, Description]] = {
    "x86": {
        "avx512bw": Description(
            512, 32, level2=1024 * _KIB, scaling="llvm.x86.avx512.mask.scalef.ps.512", pairs=_PAIRS
        ),
        "avx512f": Description(
            512, 32, level2=1024 * _KIB, scaling="llvm.x86.avx512.mask.scalef.ps.512"
        ),
        "avx2": Description(256, 16, pairs={lanes: _PAIRS[lanes] for lanes in (4, 8)}),
        "avx": Description(256, 16),
        "sse2": Description(128, 16, pairs={4: _PAIRS[4]}),
    },
    "aarch64": {"": Description(128, 32, level2=512 * _KIB, ways=4)},
    "arm": {"neon": Description(128, 16)},
    "wasm": {"simd128": Description(128, 16)},
}
"""The best known description by family of CPUs and by the feature that it needs."""

_FAMILIES: Mapping[str, str] = {
    "x86_64": "x86", "i686": "x86", "i386": "x86", "aarch64": "aarch64", "arm64": "aarch64",
    "arm": "arm", "wasm": "wasm",
}  # fmt: skip
"""Families by how the first part of a target triple begins."""


def describe(target: Target) -> Description:
    """The sizes of the CPU that a target names; those of a small one where it is not known."""
    triple, features = target_features(target)
    family = next((f for name, f in _FAMILIES.items() if triple.startswith(name)), None)
    for feature, description in _BY_FEATURE.get(family or "", {}).items():
        if not feature or feature in features:
            return description
    return UNKNOWN


def bits_of(dtype: str) -> int:
    """How many bits an element takes in memory."""
    return int("".join(c for c in dtype.split("x")[0] if c.isdigit()) or 8)
