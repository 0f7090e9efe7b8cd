"""Kinds of quantized models; imports nothing, so that a command line can list them."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["int2", "int4", "int8"]
"""The kind of the codes of weights."""

BITS: dict[str, int] = {"int2": 2, "int4": 4, "int8": 8}
"""Their bits."""

Activations: TypeAlias = Literal["uint8", "int8"]
"""The kind of the codes of activations: with a zero point, or around 0."""

ACTIVATIONS: tuple[Activations, ...] = get_args(Activations)

BLOCKS = (16, 32, 64, 128, 256)
"""Numbers of codes that may share a scale."""

Method: TypeAlias = Literal["minmax", "mse", "percentile", "entropy"]
"""Choices of a range: so that all elements fit, for the least squared error, so that all but a
few fit, or so that the distribution changes least. The last two are for activations."""

METHODS: tuple[Method, ...] = get_args(Method)

FOR_WEIGHTS: tuple[Method, ...] = ("minmax", "mse")
"""The methods that choose scales of weights."""
