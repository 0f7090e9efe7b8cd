"""Kernels for Vulkan as TVM 0.27 writes them into a library, and reads them from it.

A module is ``[format] [name -> description] [name -> shader]``. Numbers of items come before the
items, lengths before texts, all little-endian in 64 bits. A shader is its length in bytes, 32 bits
of flags, the number of its words, and the words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from tvm_nnef.vulkan.shader import HANDLE, Shader

_FORMAT = "vulkan"

_UNIFORM_BUFFER = 1
"""The flag of a shader whose scalars lie in a uniform buffer."""

_KINDS = ("int", "uint", "float", HANDLE)
"""Kinds of dtypes by their numbers in DLPack."""


def pack(shaders: Sequence[Shader]) -> bytes:
    """The packed form of kernels."""
    parts = [_text(_FORMAT), _number(len(shaders))]
    for each in shaders:
        parts += [_text(each.name), _text(each.name)]
        parts += _listed(_packed_dtype(dtype) for dtype in each.arguments)
        parts += _listed(_text(tag) for tag in each.launch_tags)
        parts += _listed(struct.pack("<i", 0) for _ in each.arguments)
    parts.append(_number(len(shaders)))
    for each in shaders:
        flags = _UNIFORM_BUFFER if each.uses_uniform_buffer else 0
        count = len(each.words)
        body = struct.pack(f"<IQ{count}I", flags, count, *each.words)
        parts += [_text(each.name), _number(len(body)), body]
    return b"".join(parts)


def unpack(packed: bytes) -> list[Shader]:
    """The kernels of a packed form; raises ValueError for what is none."""
    try:
        return _unpacked(_Reader(packed))
    except (struct.error, UnicodeDecodeError, IndexError, KeyError) as problem:
        raise ValueError(f"these are no kernels for Vulkan: {problem}") from None


def _unpacked(reader: _Reader) -> list[Shader]:
    if reader.text() != _FORMAT:
        raise ValueError("these are no kernels for Vulkan")
    described = {}
    for _ in range(reader.number()):
        name, _ = reader.text(), reader.text()
        arguments = tuple(_dtype(*reader.read("<BBH")) for _ in range(reader.number()))
        tags = tuple(reader.text() for _ in range(reader.number()))
        for _ in range(reader.number()):
            reader.read("<i")
        described[name] = (arguments, tags)
    found = []
    for _ in range(reader.number()):
        name, _ = reader.text(), reader.number()
        _, count = reader.read("<IQ")
        words = reader.read(f"<{count}I")
        found.append(Shader(name, words, *described[name]))
    return found


class _Reader:
    """Reads what was packed, item by item."""

    def __init__(self, data: bytes) -> None:
        self._data, self._offset = data, 0

    def read(self, layout: str) -> tuple[int, ...]:
        """The numbers of a layout of ``struct``."""
        values = struct.unpack_from(layout, self._data, self._offset)
        self._offset += struct.calcsize(layout)
        return values

    def number(self) -> int:
        """The next number of 64 bits."""
        return self.read("<Q")[0]

    def text(self) -> str:
        """The next text."""
        length = self.number()
        self._offset += length
        return self._data[self._offset - length : self._offset].decode()


def _packed_dtype(dtype: str) -> bytes:
    if dtype == HANDLE:
        return struct.pack("<BBH", _KINDS.index(HANDLE), 64, 1)
    kind = dtype.rstrip("0123456789")
    return struct.pack("<BBH", _KINDS.index(kind), int(dtype.removeprefix(kind)), 1)


def _dtype(kind: int, bits: int, lanes: int) -> str:
    return HANDLE if _KINDS[kind] == HANDLE else f"{_KINDS[kind]}{bits}"


def _number(value: int) -> bytes:
    return struct.pack("<Q", value)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _number(len(encoded)) + encoded


def _listed(items: Iterable[bytes]) -> list[bytes]:
    found = list(items)
    return [_number(len(found)), *found]
