"""The form of kernels for Vulkan in libraries of TVM 0.27: packing and unpacking.

A module is ``[format] [name -> description] [name -> shader]``. Numbers of items precede the items,
lengths precede texts, all little-endian in 64 bits. A shader is its length in bytes, 32 bits of
flags, the number of its words, and the words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from tvm_nnef.tvm_support.packed_data import Reader, number, text
from tvm_nnef.vulkan_runtime.shader import HANDLE, Shader

_FORMAT = "vulkan"

_UNIFORM_BUFFER = 1
"""The flag of a shader whose scalars are in a uniform buffer."""

_KINDS = ("int", "uint", "float", HANDLE)
"""Kinds of dtypes by their numbers in DLPack."""


def pack(shaders: Sequence[Shader]) -> bytes:
    """Return the packed form of kernels."""
    parts = [_text(_FORMAT), number(len(shaders))]
    for each in shaders:
        parts += [_text(each.name), _text(each.name)]
        parts += _listed(_packed_dtype(dtype) for dtype in each.arguments)
        parts += _listed(_text(tag) for tag in each.launch_tags)
        parts += _listed(struct.pack("<i", 0) for _ in each.arguments)
    parts.append(number(len(shaders)))
    for each in shaders:
        flags = _UNIFORM_BUFFER if each.uses_uniform_buffer else 0
        count = len(each.words)
        body = struct.pack(f"<IQ{count}I", flags, count, *each.words)
        parts += [_text(each.name), number(len(body)), body]
    return b"".join(parts)


def unpack(packed: bytes) -> list[Shader]:
    """Return the kernels of a packed form; raise ValueError for other data."""
    try:
        return _unpacked(Reader(packed))
    except (struct.error, UnicodeDecodeError, IndexError, KeyError) as problem:
        raise ValueError(f"these are not kernels for Vulkan: {problem}") from None


def _unpacked(reader: Reader) -> list[Shader]:
    if reader.text().decode() != _FORMAT:
        raise ValueError("these are not kernels for Vulkan")
    described = {}
    for _ in range(reader.number()):
        name, _ = reader.text().decode(), reader.text()
        arguments = tuple(_dtype(*reader.read("<BBH")) for _ in range(reader.number()))
        tags = tuple(reader.text().decode() for _ in range(reader.number()))
        for _ in range(reader.number()):
            reader.read("<i")
        described[name] = (arguments, tags)
    found = []
    for _ in range(reader.number()):
        name, _ = reader.text().decode(), reader.number()
        _, count = reader.read("<IQ")
        words = reader.read(f"<{count}I")
        found.append(Shader(name, words, *described[name]))
    return found


def _packed_dtype(dtype: str) -> bytes:
    if dtype == HANDLE:
        return struct.pack("<BBH", _KINDS.index(HANDLE), 64, 1)
    kind = dtype.rstrip("0123456789")
    return struct.pack("<BBH", _KINDS.index(kind), int(dtype.removeprefix(kind)), 1)


def _dtype(kind: int, bits: int, lanes: int) -> str:
    return HANDLE if _KINDS[kind] == HANDLE else f"{_KINDS[kind]}{bits}"


def _text(value: str) -> bytes:
    return text(value.encode())


def _listed(items: Iterable[bytes]) -> list[bytes]:
    found = list(items)
    return [number(len(found)), *found]
