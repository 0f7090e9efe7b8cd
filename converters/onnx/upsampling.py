"""Positions in a dimension that is resized: which elements they are, and whether each is repeated.

Whether a dimension repeats each element is found by computing all positions as Resize does, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.tensors import Tensor

_POSITIONS: Mapping[str, Callable[[Any, float], Any]] = {
    "asymmetric": lambda numbers, scale: numbers / scale,
    "half_pixel": lambda numbers, scale: (numbers + 0.5) / scale - 0.5,
}
_ROUNDINGS: Mapping[str, Callable[[Any], Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda positions: np.ceil(positions - 0.5),
    "round_prefer_ceil": lambda positions: np.floor(positions + 0.5),
}


_MOST = 16
"""The most repetitions of an element of a dynamic dimension."""

_PERIODS = 64
"""The elements for which the positions in a dynamic dimension are computed."""


def repetitions(
    length: Size, size: Size, scale: object, transform: str, rounding: str
) -> int | None:
    """Return the number of copies of each element of a dimension; None if the numbers differ."""
    if not isinstance(length, int):
        # The period is the same for all sizes.
        factor = next((n for n in range(1, _MOST + 1) if size == length * n), 0)
        return repetitions(_PERIODS, _PERIODS * factor, scale, transform, rounding)
    if not isinstance(size, int) or not length or not size or size % length:
        return None
    factor = size // length
    positions, rounded = _POSITIONS.get(transform), _ROUNDINGS.get(rounding)
    if positions is None or rounded is None or (scale is not None and scale != factor):
        return None
    numbers = np.arange(size)
    found = np.clip(rounded(positions(numbers.astype("float64"), float(factor))), 0, length - 1)
    return factor if np.array_equal(found, numbers // factor) else None


def nearest_positions(position: Tensor, rounding: str, builder: Builder) -> Tensor:
    """Positions as the numbers of the nearest elements, once for all that is resized."""
    name, shape = "onnx.nearest_positions", position.shape
    return builder.call(name, position, as_type="int64", as_shape=shape, rounding=rounding)


def first_positions(position: Tensor, reach: Size, builder: Builder) -> Tensor:
    """Positions as the numbers of the first of twice ``reach`` elements around each."""
    name, shape = "onnx.first_positions", position.shape
    return builder.call(name, position, as_type="int64", as_shape=shape, reach=reach)
