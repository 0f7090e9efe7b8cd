"""This machine: its architecture, its operating system, and the features of its CPU.

Output: names as LLVM has them. LLVM itself is not needed, so that programs without a compiler can
use this.
"""

from __future__ import annotations

import functools
import platform
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_NAMES = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "cache size"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "uarch"),
)
"""The keys there that distinguish models of CPUs."""


_ARCHITECTURES: Mapping[str, tuple[str, ...]] = {
    "x86-64": ("x86_64", "amd64"),
    "x86": ("i386", "i486", "i586", "i686", "x86"),
    "aarch64": ("aarch64", "arm64"),
    "arm": ("arm", "armv6", "armv6l", "armv7", "armv7a", "armv7l", "armv8l", "thumbv7"),
    "powerpc64le": ("powerpc64le", "ppc64le"),
    "riscv64": ("riscv64",),
    "wasm32": ("wasm32",),
}
"""The names of architectures, with those of LLVM and operating systems."""

_SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "Linux": ("linux",),
    "macOS": ("darwin", "macos", "apple"),
    "Windows": ("windows", "win32", "mingw"),
}
"""The names of operating systems, and the words for them in target triples."""

_X86 = {
    **{name: name for name in ("sse", "sse2", "ssse3", "sse4a", "avx", "avx2", "fma", "fma4")},
    **{name: name for name in ("xop", "tbm", "f16c", "bmi2", "popcnt", "movbe", "gfni", "vaes")},
    **{f"avx512{name}": f"avx512{name}" for name in ("f", "cd", "bw", "dq", "vl", "ifma", "vbmi")},
    **{
        f"avx512{name}": f"avx512_{name}"
        for name in ("vbmi2", "vnni", "bitalg", "vpopcntdq", "bf16", "fp16")
    },
    **{"sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "lzcnt": "abm", "bmi": "bmi1"},
    **{"avxvnni": "avx_vnni", "vpclmulqdq": "vpclmulqdq"},
    **{f"amx-{name}": f"amx_{name}" for name in ("tile", "int8", "bf16")},
}
_AARCH64 = {
    **{"neon": "asimd", "fullfp16": "asimdhp", "dotprod": "asimddp", "fp16fml": "asimdfhm"},
    **{"lse": "atomics", "rdm": "asimdrdm", "i8mm": "i8mm", "bf16": "bf16", "sve": "sve"},
    **{"sve2": "sve2", "sme": "sme"},
}
_ARM = {"neon": "neon", "vfp3": "vfpv3", "vfp4": "vfpv4", "hwdiv-arm": "idiva", "hwdiv": "idivt"}

_FEATURES: Mapping[str, Mapping[str, str]] = {
    "x86-64": _X86,
    "x86": _X86,
    "aarch64": _AARCH64,
    "arm": _ARM,
    "wasm32": {"simd128": "simd128"},
    "riscv64": {name: name for name in ("m", "a", "f", "d", "c", "v", "zba", "zbb", "zfh", "zvfh")},
}
"""The CPU features whose instructions LLVM uses in kernels, by their names in LLVM and in Linux."""


def architecture_of(triple: str) -> str:
    """Return the architecture that a target triple names; an unknown name as it is."""
    name = triple.split("-")[0].lower()
    return next((known for known, names in _ARCHITECTURES.items() if name in names), name)


def system_of(triple: str) -> str:
    """Return the operating system that a target triple names; empty if it names none that is
    known.
    """
    text = triple.lower()
    for known, words in _SYSTEMS.items():
        if any(word in text for word in words):
            return known
    return ""


def architecture() -> str:
    """Return the architecture of this process; a 32-bit process has the 32-bit architecture."""
    machine = architecture_of(platform.machine())
    narrow = {"x86-64": "x86", "aarch64": "arm"} if struct.calcsize("P") == 4 else {}
    return narrow.get(machine, machine)


def system() -> str:
    """Return the operating system of this machine."""
    return system_of({"cygwin": "windows"}.get(sys.platform, sys.platform))


def checkable_features(architecture: str, features: Iterable[str]) -> list[str]:
    """Return the CPU features of an architecture that :func:`present_features` detects, in
    order.
    """
    return sorted(_FEATURES.get(architecture, {}).keys() & set(features))


@functools.cache
def present_features() -> frozenset[str] | None:
    """Return the CPU features of this machine; None if the operating system does not list them."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return features_listed(architecture(), text)


@functools.cache
def cpu_names() -> tuple[str, ...]:
    """Return the lines of ``/proc/cpuinfo`` that name the model of the CPU, each once."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    lines = (line for line in text.splitlines() if line.partition(":")[0].strip() in _CPU_NAMES)
    return tuple(sorted({" ".join(line.split()) for line in lines}))


def features_listed(architecture: str, text: str) -> frozenset[str] | None:
    """Return the CPU features in the text of ``/proc/cpuinfo``.

    It is None if it lists none that are known.

    That is the case in an emulator that shows the file of another machine. If cores differ, the
    features of all of them are returned.
    """
    listed: list[set[str]] = []
    for line in text.splitlines():
        key, _, value = line.partition(":")
        match key.strip():
            case "flags" | "Features":
                listed.append(set(value.split()))
            case "isa":  # rv64imafdcv_zba_zbb
                letters, *words = value.strip().removeprefix("rv64").split("_")
                listed.append({*letters, *words, *("mafd" if "g" in letters else "")})
    if not listed:
        return None
    names = set.intersection(*listed)
    known = _FEATURES.get(architecture, {})
    return frozenset(feature for feature, name in known.items() if name in names) or None
