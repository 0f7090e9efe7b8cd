"""Reading and writing of the data that TVM serializes into libraries, and of their object file.

Input: bytes or parts of data. Output: their items, or an object file. Numbers have 64 bits, little-
endian; bytes follow their length. TVM itself would need a C compiler to write the object file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tvm_ffi


class Reader:
    """A reader of serialized data, item by item; ``offset`` is the position of the next item."""

    def __init__(self, data: bytes) -> None:
        self._data, self.offset = data, 0

    def read(self, layout: str) -> tuple[Any, ...]:
        """Return the numbers of a layout of ``struct``."""
        values = struct.unpack_from(layout, self._data, self.offset)
        self.offset += struct.calcsize(layout)
        return values

    def number(self) -> int:
        """Return the next number."""
        return int(self.read("<Q")[0])

    def text(self) -> bytes:
        """Return the next bytes."""
        length = self.number()
        self.offset += length
        return self._data[self.offset - length : self.offset]


def number(value: int) -> bytes:
    """Return a number as :meth:`Reader.number` reads it."""
    return struct.pack("<Q", value)


def text(value: bytes) -> bytes:
    """Return bytes as :meth:`Reader.text` reads them."""
    return number(len(value)) + value


def write_data(parts: Iterable[bytes], triple: str, folder: Path) -> Path:
    """Write the concatenated parts of data into an object file, under TVM's symbol for imports."""
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
