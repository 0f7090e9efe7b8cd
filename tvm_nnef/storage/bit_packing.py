"""Packing of items of any width from 1 to 64 bits into a continuous stream of bytes.

Input: bytes. Output: an array of unsigned 64-bit integers, and the inverse; signs, types and
headers belong to ``tensor_file``. The specification (NNEF 1.0.4, section 5.2) requires little-
endian data packed continuously in row-major order and does not define the first bit of a byte.
Existing models of 1-bit items begin with the most significant one. So a width of whole bytes is
little endian here, and every other width is a stream in which the most significant bit is first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 15
"""The number of items converted at a time, a multiple of 8, so that chunks consist of whole
bytes.
"""


def packed_size(count: int, bits: int) -> int:
    """Return the number of bytes for ``count`` items of ``bits`` bits, the last byte padded."""
    return (count * bits + 7) // 8


def unpack_bits(data: memoryview, count: int, bits: int) -> NDArray[np.uint64]:
    """Return the first ``count`` items of ``bits`` (1 to 64) bits, as uint64 of shape
    ``(count,)``.
    """
    items = np.empty(count, np.uint64)
    for start in range(0, count, _CHUNK):
        part = min(_CHUNK, count - start)
        begin = start * bits // 8
        raw = np.frombuffer(data[begin : begin + packed_size(part, bits)], np.uint8)
        items[start : start + part] = _unpack_chunk(raw, part, bits)
    return items


def pack_bits(items: NDArray[np.uint64], bits: int) -> bytes:
    """Return the low ``bits`` (1 to 64) bits of each item of a flat array, zero bits at the end."""
    chunks = (items[start : start + _CHUNK] for start in range(0, items.size, _CHUNK))
    return b"".join(_pack_chunk(chunk, bits) for chunk in chunks)


def _unpack_chunk(raw: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint64]:
    if bits % 8 == 0:
        little = np.zeros((count, 8), np.uint8)
        little[:, : bits // 8] = raw.reshape(count, bits // 8)
        return little.view("<u8").reshape(count).astype(np.uint64)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, 64 - bits :] = np.unpackbits(raw, count=count * bits).reshape(count, bits)
    return np.packbits(wide, axis=1).view(">u8").reshape(count).astype(np.uint64)


def _pack_chunk(items: NDArray[np.uint64], bits: int) -> bytes:
    if bits % 8 == 0:
        little = items.astype("<u8").view(np.uint8).reshape(-1, 8)
        return little[:, : bits // 8].tobytes()
    wide = np.unpackbits(items.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)
    return np.packbits(wide[:, 64 - bits :]).tobytes()
