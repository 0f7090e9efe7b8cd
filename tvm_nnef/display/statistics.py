"""Statistics of weights: the variables of a model in, texts for people out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

MOST_ELEMENTS = 1 << 28
"""Upper limit of the elements that are read of all variables together."""

_PIECE = 1 << 20
"""Number of elements that are converted at a time."""


class WeightStatistics:
    """Statistics of variables by full name, each read when it is asked for."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._left = MOST_ELEMENTS

    def __call__(self, name: str) -> dict[str, str]:
        """The statistics of a variable; nothing if its values are not known."""
        if name not in self._variables:
            return {}
        if self._left <= 0:
            return {"statistics": "left out: the weights are too large"}
        array = np.asarray(self._variables[name])
        self._left -= array.size
        return statistics_of(array)


def statistics_of(array: np.ndarray[Any, Any]) -> dict[str, str]:
    """The least and the largest element, mean, standard deviation, and the share of zeros.

    >>> statistics_of(np.array([0.0, 1.0, 2.0, 1.0]))["mean"]
    '1'
    """
    if array.size == 0:
        return {}
    flat = array.reshape(-1)
    pieces = [flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE)]
    # NaN and infinities in the weights are shown, and are not errors of the sums.
    with np.errstate(all="ignore"):
        mean = sum(float(_double(piece).sum()) for piece in pieces) / flat.size
        squares = sum(float(np.square(_double(piece) - mean).sum()) for piece in pieces)
        numbers = {
            "min": np.min([_double(piece).min() for piece in pieces]),
            "max": np.max([_double(piece).max() for piece in pieces]),
            "mean": mean,
            "std": np.sqrt(squares / flat.size),
        }
    zeros = sum(int(np.count_nonzero(piece == 0)) for piece in pieces) / flat.size
    return {name: f"{value:.6g}" for name, value in numbers.items()} | {"zeros": f"{zeros:.1%}"}


def _double(piece: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return piece.astype(np.float64)
