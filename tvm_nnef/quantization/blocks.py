"""Arrays of reals as codes of few bits with a scale for each block.

Input: an array, and how its blocks lie. Output: codes and scales, for which
``(code - zero) * scale`` is close to the array. Zero is the middle code, or 0 for codes of 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.quantization.kinds import Method

Array: TypeAlias = "np.ndarray[Any, Any]"

_TRIALS = 16
"""The scales that are tried for each block on either side of that of the largest element."""

_STEP = 0.1
"""By how many codes the largest element moves from one trial to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Codes of ``bits`` in the shape of an array, and a scale for each block of some sizes."""

    codes: Array
    scales: Array
    bits: int
    sizes: tuple[int, ...]

    @property
    def are_bytes(self) -> bool:
        """Whether codes are stored in bytes; others are in int32."""
        return self.bits <= 8

    @property
    def zero(self) -> int:
        """The code of 0."""
        return 1 << self.bits - 1 if self.are_bytes else 0

    @property
    def packed(self) -> Array:
        """Return the codes, those of the lowest bits first in each byte, or in int32."""
        if not self.are_bytes:
            return self.codes
        count = 8 // self.bits
        missing = -self.codes.shape[-1] % count
        codes = np.pad(self.codes, [(0, 0)] * (self.codes.ndim - 1) + [(0, missing)])
        packed = np.zeros((*codes.shape[:-1], codes.shape[-1] // count), np.uint8)
        for number in range(count):
            packed |= codes[..., number::count] << np.uint8(self.bits * number)
        return packed

    def reals(self) -> Array:
        """Return the values that the codes stand for."""
        scales = self.scales
        for axis, size in enumerate(self.sizes):
            scales = np.repeat(scales, size, axis)
        return np.asarray((self.codes.astype(np.float32) - np.float32(self.zero)) * scales)


def quantized(array: Array, axis: int, bits: int, size: int, method: Method) -> Blocks:
    """An array, whose blocks of a size divide an axis, rounded to the nearest codes."""
    moved = np.moveaxis(array.astype(np.float32, copy=False), axis, -1)
    blocks = moved.reshape(*moved.shape[:-1], -1, size)
    scales = _scales(blocks, bits)
    if method == "mse":
        scales = _with_least_error(blocks, scales, bits)
    codes = _codes(blocks, scales, bits).reshape(moved.shape)
    return Blocks(
        np.ascontiguousarray(np.moveaxis(codes, -1, axis)),
        np.ascontiguousarray(np.moveaxis(scales, -1, axis)),
        bits, tuple(size if each == axis else 1 for each in range(array.ndim)),
    )  # fmt: skip


def quantized_by_output(array: Array, outputs: int, method: Method) -> Blocks:
    """Return an array in 8 bits, with a positive scale for each index of an axis, without -128."""
    moved = np.moveaxis(array.astype(np.float32, copy=False), outputs, 0)
    rows = moved.reshape(moved.shape[0], -1)
    scales = np.abs(_largest(rows)) / np.float32(127)
    if method == "mse":
        scales = np.abs(_with_least_error(rows, scales, 8))
    codes = np.maximum(_codes(rows, scales, 8), 1).reshape(moved.shape)
    sizes = tuple(1 if each == outputs else n for each, n in enumerate(array.shape))
    shape = [n if each == outputs else 1 for each, n in enumerate(array.shape)]
    whole = np.ascontiguousarray(np.moveaxis(codes, 0, outputs))
    return Blocks(whole, scales.reshape(shape), 8, sizes)


def quantized_bias(array: Array, scales: Array) -> Blocks:
    """Return a bias in int32, of the scales of the sums that it is added to.

    A sum whose scale is too small for its bias has a larger one.
    """
    least = (np.abs(array) / np.float32(1 << 30)).astype(np.float32)
    wide = np.maximum(np.broadcast_to(scales, array.shape).astype(np.float32), least)
    wide = np.where(wide > 0, wide, np.float32(1))
    return Blocks(np.rint(array / wide).astype(np.int32), wide, 32, (1,))


def _largest(blocks: Array) -> Array:
    """The element of each block that is farthest from 0, with its sign."""
    position = np.abs(blocks).argmax(-1)[..., None]
    found: Array = np.take_along_axis(blocks, position, -1)[..., 0]
    return found


def _scales(blocks: Array, bits: int) -> Array:
    """Scales by which the element farthest from 0 has the lowest code, of which there is one more
    than above zero."""
    return np.asarray(_largest(blocks) / np.float32(-(1 << bits - 1)))


def _codes(blocks: Array, scales: Array, bits: int) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(scales[..., None] == 0, 0, blocks / scales[..., None])
    middle = 1 << bits - 1
    limited = np.clip(np.rint(steps), -middle, middle - 1)
    return (limited + middle).astype(np.uint8)


def _with_least_error(blocks: Array, scales: Array, bits: int) -> Array:
    """Scales near given ones that make the sum of squared errors of each block least.

    For the codes of each scale that is tried, the best scale is that of a linear regression. Larger
    codes than there are, are limited: the farthest elements are clipped.
    """
    middle, best = 1 << bits - 1, scales
    least = _errors(blocks, scales, bits)
    for trial in range(-_TRIALS, _TRIALS + 1):
        tried = scales * np.float32(middle / (middle + trial * _STEP * middle / 8))
        steps = _codes(blocks, tried, bits).astype(np.float32) - middle
        squares = (steps * steps).sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            fitted = np.where(squares == 0, 0, (blocks * steps).sum(-1) / squares)
        fitted = fitted.astype(np.float32)
        errors = _errors(blocks, fitted, bits)
        better = errors < least
        best, least = np.where(better, fitted, best), np.where(better, errors, least)
    return best


def _errors(blocks: Array, scales: Array, bits: int) -> Array:
    """The sum of squared errors of each block."""
    steps = _codes(blocks, scales, bits).astype(np.float32) - (1 << bits - 1)
    difference = blocks - steps * scales[..., None]
    found: Array = (difference * difference).sum(-1)
    return found
