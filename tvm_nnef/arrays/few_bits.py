"""Dtypes of eight bits and fewer in which no machine computes: how elements are held, and as what.

An element takes a byte of memory: the number itself of an int, the code of a real. Operators take
and give numbers of the dtype ``Format.computed``, which are rounded when they are stored. The names
are those of ``ml_dtypes``, whose arrays callers give and get.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Format:
    """The coding of the elements of a dtype.

    Of reals, ``mantissa`` are the bits after sign and exponent, without which there is no sign and
    no zero, and ``bias`` is what an exponent of 0 is stored as. The others are codes without the
    sign: of the ``largest`` number, of what is beyond it, and of NaN; without a NaN (0) it becomes
    a zero of the other sign.
    """

    type: Literal["real", "int"]
    bits: int
    held: str = "uint8"
    """The dtype of its bytes in memory."""
    mantissa: int = 0
    bias: int = 0
    largest: int = 0
    overflow: int = 0
    nan: int = 0

    @property
    def computed(self) -> str:
        """The dtype of its elements as operators take them."""
        return "float32" if self.type == "real" else self.held


FORMATS: Mapping[str, Format] = {
    "int2": Format("int", 2, "int8"),
    "int4": Format("int", 4, "int8"),
    "uint2": Format("int", 2),
    "uint4": Format("int", 4),
    "float4_e2m1fn": Format("real", 4, mantissa=1, bias=1, largest=7, overflow=7),
    "float8_e4m3fn": Format("real", 8, mantissa=3, bias=7, largest=0x7E, overflow=0x7F, nan=0x7F),
    "float8_e4m3fnuz": Format("real", 8, mantissa=3, bias=8, largest=0x7F, overflow=0x80, nan=0x80),
    "float8_e5m2": Format("real", 8, mantissa=2, bias=15, largest=0x7B, overflow=0x7C, nan=0x7E),
    "float8_e5m2fnuz": Format(
        "real", 8, mantissa=2, bias=16, largest=0x7F, overflow=0x80, nan=0x80
    ),
    "float8_e8m0fnu": Format("real", 8, bias=127, largest=0xFE, overflow=0xFF, nan=0xFF),
}
"""By the name of the dtype."""


def held(dtype: str) -> str:
    """The dtype of the memory of a tensor."""
    return FORMATS[dtype].held if dtype in FORMATS else dtype


def computed(dtype: str) -> str:
    """The dtype in which operators take and give the elements of a tensor."""
    return FORMATS[dtype].computed if dtype in FORMATS else dtype
