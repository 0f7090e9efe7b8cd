"""LLVM code for x86 CPUs with AVX-512 or VNNI, rewritten for a CPU that has neither.

LLVM splits the vectors, and each intrinsic that the CPU lacks becomes a function that computes
what Intel's manual of the instruction says, in ordinary operations.
"""

from __future__ import annotations

import re

import tvm

CPU = "x86-64-v3"
"""The CPU that the code is compiled for: AVX2."""

_SCALE = """
define internal <16 x float> @emulated.scalef(
    <16 x float> %x, <16 x float> %y, <16 x float> %otherwise, i16 %mask, i32 %rounding) {
  %floor = call <16 x float> @llvm.floor.v16f32(<16 x float> %y)
  %low = call <16 x float> @llvm.maxnum.v16f32(
      <16 x float> %floor, <16 x float> splat(float -1000.0))
  %limited = call <16 x float> @llvm.minnum.v16f32(
      <16 x float> %low, <16 x float> splat(float 1000.0))
  %power = fptosi <16 x float> %limited to <16 x i32>
  %scaled = call <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float> %x, <16 x i32> %power)
  %unordered = fcmp uno <16 x float> %y, %y
  %result = select <16 x i1> %unordered, <16 x float> %y, <16 x float> %scaled
  %chosen = bitcast i16 %mask to <16 x i1>
  %masked = select <16 x i1> %chosen, <16 x float> %result, <16 x float> %otherwise
  ret <16 x float> %masked
}
declare <16 x float> @llvm.floor.v16f32(<16 x float>)
declare <16 x float> @llvm.maxnum.v16f32(<16 x float>, <16 x float>)
declare <16 x float> @llvm.minnum.v16f32(<16 x float>, <16 x float>)
declare <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float>, <16 x i32>)
"""
"""VSCALEFPS: x times 2 to the largest integer of at most y."""


def _every(value: str, dtype: str, count: int, parts: int, start: int) -> str:
    """Every element of a vector that is ``start`` beyond a multiple of ``parts``."""
    positions = ", ".join(f"i32 {parts * each + start}" for each in range(count))
    many = f"<{count * parts} x {dtype}>"
    return f"shufflevector {many} {value}, {many} poison, <{count} x i32> <{positions}>"


def _bytes(lanes: int) -> str:
    """VPDPBUSD: four products of uint8 and int8 are added to an int32."""
    kind, data, wide = f"<{lanes} x i32>", f"<{4 * lanes} x i8>", f"<{4 * lanes} x i32>"
    sums = "".join(
        f"  %part{each} = {_every('%product', 'i32', lanes, 4, each)}\n"
        f"  %sum{each + 1} = add {kind} %sum{each}, %part{each}\n"
        for each in range(4)
    ).replace("%sum0", "%total")
    return (
        f"define internal {kind} @emulated.vpdpbusd.{lanes}"
        f"({kind} %total, {data} %a, {data} %b) {{\n"
        f"  %left = zext {data} %a to {wide}\n  %right = sext {data} %b to {wide}\n"
        f"  %product = mul {wide} %left, %right\n{sums}  ret {kind} %sum4\n}}\n"
    )


def _pairs(name: str, lanes: int, source: str, result: str, extensions: tuple[str, str]) -> str:
    """Sums of two products: VPMADDWD of int16; VPMADDUBSW of uint8 and int8, which saturates."""
    kind, data, wide = f"<{lanes} x {result}>", f"<{2 * lanes} x {source}>", f"<{2 * lanes} x i32>"
    sums = f"<{lanes} x i32>"
    limit = f"call {sums} @llvm.{{}}.v{lanes}i32({sums} %{{}}, {sums} splat(i32 {{}}))"
    if result == "i32":
        end = f"  ret {kind} %sum\n}}\n"
    else:
        end = (
            f"  %low = {limit.format('smax', 'sum', -32768)}\n"
            f"  %limited = {limit.format('smin', 'low', 32767)}\n"
            f"  %result = trunc {sums} %limited to {kind}\n  ret {kind} %result\n}}\n"
            f"declare {sums} @llvm.smax.v{lanes}i32({sums}, {sums})\n"
            f"declare {sums} @llvm.smin.v{lanes}i32({sums}, {sums})\n"
        )
    return (
        f"define internal {kind} @emulated.{name}.{lanes}({data} %a, {data} %b) {{\n"
        f"  %left = {extensions[0]} {data} %a to {wide}\n"
        f"  %right = {extensions[1]} {data} %b to {wide}\n"
        f"  %product = mul {wide} %left, %right\n"
        f"  %even = {_every('%product', 'i32', lanes, 2, 0)}\n"
        f"  %odd = {_every('%product', 'i32', lanes, 2, 1)}\n  %sum = add {sums} %even, %odd\n{end}"
    )


DEFINITIONS = {
    "llvm.x86.avx512.mask.scalef.ps.512": ("emulated.scalef", _SCALE),
    "llvm.x86.avx512.pmaddw.d.512": (
        "emulated.pmaddwd.16",
        _pairs("pmaddwd", 16, "i16", "i32", ("sext", "sext")),
    ),
    "llvm.x86.avx512.pmaddubs.w.512": (
        "emulated.pmaddubsw.32",
        _pairs("pmaddubsw", 32, "i8", "i16", ("zext", "sext")),
    ),
    **{
        f"llvm.x86.avx512.vpdpbusd.{32 * lanes}": (f"emulated.vpdpbusd.{lanes}", _bytes(lanes))
        for lanes in (4, 8, 16)
    },
}
"""By intrinsic: the function that computes the same, and its definition."""


def for_this_cpu(text: str) -> str:
    """LLVM code for a CPU with AVX-512 or VNNI as code for one without."""
    text = re.sub(r'"target-(cpu|features)"="[^"]*"', '"emulated"', text)
    text = re.sub(r'(?<=!"tvm_target", )!"[^\n]*"', lambda _: f'!"{_target()}"', text)
    for name, (function, definition) in DEFINITIONS.items():
        if f"@{name}(" in text:
            text = re.sub(rf"(?m)^declare [^\n]*@{re.escape(name)}\([^\n]*$", "", text)
            text = text.replace(f"@{name}(", f"@{function}(") + definition
    missing = set(re.findall(r"@(llvm\.x86\.(?:avx512|avx10|vpdp)[\w.]*)", text))
    assert not missing, f"write what {sorted(missing)} compute"
    return text


def _target() -> str:
    triple = tvm.get_global_func("tvm.codegen.llvm.GetDefaultTargetTriple")()
    parts = {"kind": "llvm", "mtriple": triple, "mcpu": CPU}
    pairs = ",".join(rf"\22{key}\22:\22{value}\22" for key, value in parts.items())
    return f"{{{pairs}}}"
