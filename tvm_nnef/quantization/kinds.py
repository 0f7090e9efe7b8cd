"""What weights may be quantized to; imports nothing, so that a command line can list it."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["int2", "int4", "int8"]
"""The kind of codes."""

BITS: dict[str, int] = {"int2": 2, "int4": 4, "int8": 8}
"""Their bits."""

BLOCKS = (16, 32, 64, 128, 256)
"""How many codes may share a scale."""

Method: TypeAlias = Literal["minmax", "mse"]
"""How a scale is chosen: so that the largest element has a code, or so that the error is least."""

METHODS: tuple[Method, ...] = get_args(Method)
