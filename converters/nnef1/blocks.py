"""Tensor files of tract whose items are blocks of 4-bit numbers with a scale (``Q4_0``).

A block is a float16 and 32 numbers of 4 bits; it stands for these, less 8, times the scale. The
products are exact in float32.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.diagnostics import error
from tvm_nnef.storage.tensor_file import HEADER_SIZE

Array: TypeAlias = "NDArray[Any]"

_HEADER = struct.Struct("<8xI8I4xI")
_VENDOR = int.from_bytes(b"RT", "little") << 16
_HALVES, _PAIRS = _VENDOR | 0x3040, _VENDOR | 0x2040
_ORDERS: Mapping[int, tuple[int, ...]] = MappingProxyType({_HALVES: (0, 2, 1), _PAIRS: (0, 1, 2)})
"""The axes of blocks, bytes, and numbers in a byte, in the order of the tensor, by item type.

The two numbers of a byte are 16 elements apart, or adjacent before tract 0.21.12.
"""
_BLOCK = np.dtype([("scale", "<f2"), ("numbers", "u1", 16)])
_ITEMS = 32


@dataclass(frozen=True)
class Blocks:
    """The header of a file with blocks."""

    shape: tuple[int, ...]
    item_type: int

    def read(self, data: bytes | memoryview, place: str) -> Array:
        """Return the numbers as float32.

        Raises NnefError for a file that does not fit its header.
        """
        count = math.prod(self.shape)
        size = HEADER_SIZE + count // _ITEMS * _BLOCK.itemsize
        if count % _ITEMS or len(data) != size:
            message = f"{count} numbers in blocks of {_ITEMS} need {size} bytes, got {len(data)}"
            raise error(message, hint="the file is damaged: write or copy it again", file=place)
        blocks = np.frombuffer(data, _BLOCK, offset=HEADER_SIZE)
        numbers = np.stack([blocks["numbers"] & 15, blocks["numbers"] >> 4], axis=-1)
        numbers = numbers.transpose(_ORDERS[self.item_type]).reshape(-1, _ITEMS)
        scales = blocks["scale"].astype(np.float32)[:, None]
        return np.asarray((numbers.astype(np.float32) - 8) * scales).reshape(self.shape)


def blocks_of(head: bytes | memoryview) -> Blocks | None:
    """Return the description of blocks in a header; None if the items are not blocks."""
    if len(head) < HEADER_SIZE:
        return None
    rank, *sizes, item_type = _HEADER.unpack_from(head)
    if item_type not in _ORDERS or rank > len(sizes):
        return None
    return Blocks(tuple(sizes[:rank]), item_type)
