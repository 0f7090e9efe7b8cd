"""The data of what a library imports, as an object file: TVM itself would need a C compiler."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import tvm_ffi


def write_data(parts: Iterable[bytes], triple: str, folder: Path) -> Path:
    """Write parts of data, one after the other, under the name where a library has its imports."""
    content, assembly, target = folder / "imports.bin", folder / "imports.ll", folder / "devc.o"
    with content.open("wb") as file:
        file.writelines(parts)
    symbol = tvm_ffi.get_global_func("runtime.ModuleImportsBlobName")()
    assembly.write_text(_ASSEMBLY.format(triple=triple, symbol=symbol, file=content.as_posix()))
    tvm_ffi.load_module(str(assembly)).write_to_file(str(target))
    content.unlink()
    assembly.unlink()
    return target


_ASSEMBLY = """
target triple = "{triple}"
module asm ".section .rodata"
module asm ".globl {symbol}"
module asm ".balign 64"
module asm "{symbol}:"
module asm ".incbin \\22{file}\\22"
!llvm.module.flags = !{{!0}}
!0 = !{{i32 4, !"tvm_target", !"{{\\22kind\\22: \\22llvm\\22, \\22mtriple\\22: \\22{triple}\\22}}"}}
"""
"""A module of LLVM that has the content of a file under a name."""
