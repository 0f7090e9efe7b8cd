"""What users say about inputs, checked before anything else reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

from tvm_nnef.converters.common.chosen_shapes import ChosenShapes
from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.graph.machine_types import DTYPES


def shapes_given(
    shapes: Mapping[str, Sequence[int | str]] | None,
) -> Mapping[str, Sequence[int | str]]:
    """The shapes of ``input_shapes``. Raises NnefError for what is not a shape."""
    if isinstance(shapes, ChosenShapes):
        return shapes
    return {name: _shape(name, each) for name, each in (shapes or {}).items()}


def _shape(name: str, shape: Any) -> tuple[int | str, ...]:
    hint = f"give numbers, and names for dynamic dimensions: input_shapes={{'{name}': ('N', 3)}}"
    if isinstance(shape, str) or not hasattr(shape, "__iter__"):
        raise error(f"input '{name}' cannot have the shape {shape!r}", hint=hint)
    return tuple(_dimension(name, each, hint) for each in shape)


def _dimension(name: str, given: Any, hint: str) -> int | str:
    if isinstance(given, str) and given:
        return given
    if hasattr(given, "__index__") and index(given) >= 0:
        return index(given)
    raise error(f"input '{name}' cannot have a dimension of {given!r}", hint=hint)


def dtypes_given(dtypes: Mapping[str, Any] | None) -> dict[str, str]:
    """The names of ``dtypes``. Raises NnefError for what a tensor cannot have."""
    return {name: _dtype(name, each) for name, each in (dtypes or {}).items()}


def _dtype(name: str, given: Any) -> str:
    try:
        if given is None:  # NumPy means float64.
            raise TypeError
        found = given if isinstance(given, str) and given in DTYPES else str(np.dtype(given))
    except TypeError:
        found = str(given)
    if found in DTYPES:
        return found
    hint = did_you_mean(found, DTYPES) or f"dtypes are {', '.join(DTYPES)}"
    raise error(f"'{name}' cannot have the dtype '{found}'", hint=hint)
