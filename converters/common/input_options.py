"""Validation of the user's specifications of inputs, before anything else reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from tvm_nnef.converters.common.chosen_shapes import ChosenShapes
from tvm_nnef.diagnostics import error


def shapes_given(
    shapes: Mapping[str, Sequence[int | str]] | None,
) -> Mapping[str, Sequence[int | str]]:
    """Return the shapes of ``input_shapes``. Raises NnefError for values that are not shapes."""
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
