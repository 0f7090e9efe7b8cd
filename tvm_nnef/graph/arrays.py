"""Conversion of arrays to the dtypes of tensors: reals are rounded, and other numbers are exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.arrays.coded_arrays import format_of, largest, limits, rounded
from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.graph.nodes import Tensor


def converted(array: NDArray[Any], tensor: Tensor, dtype: str, title: str) -> NDArray[Any]:
    """Return an array of the kind of a tensor in a dtype; ``title`` is its name in messages.

    Raises NnefError for a number that the dtype cannot hold, or only as infinity.
    """
    if array.dtype == dtype or not array.size:
        return rounded(array, dtype)
    if (found := format_of(array.dtype)) is not None:
        array = array.astype(found.computed)
    if tensor.type == "int" and array.dtype.kind in "iu":
        least, most = limits(dtype)
        for value in (array.min(), array.max()):
            if not least <= int(value) <= most:
                raise _too_large(f"{int(value)}", tensor, dtype, title)
        return rounded(array, dtype)
    with np.errstate(over="ignore"):
        result = rounded(array, dtype)
    if tensor.type == "real":
        lost = np.isfinite(array) & ~np.isfinite(result)
        if dtype in FORMATS and not FORMATS[dtype].nan:
            lost = ~(np.abs(array) <= largest(dtype))
        if lost.any():
            raise _too_large(f"{float(array[lost].flat[0]):g}", tensor, dtype, title)
    return result


def _too_large(value: str, tensor: Tensor, dtype: str, title: str) -> NnefError:
    wide = "int64" if tensor.type == "int" else "float64"
    most = f"{limits(dtype)[1]}" if tensor.type == "int" else f"{largest(dtype):.6g}"
    hint = f"{dtype} holds numbers up to {most}"
    if dtype != wide:
        hint += f"; dtypes={{'{tensor.name}': '{wide}'}} gives it a wider dtype"
    message = f"{title}: there are values that {dtype} cannot hold, such as {value}"
    return error(message, tensor.span, hint=hint)


def shape_hint(
    found: tuple[int, ...], tensor: Tensor, attributes: Sequence[str | None] = ()
) -> str:
    """Return a hint how to make an array fit the shape of a tensor.

    ``attributes`` has for each dimension the graph attribute that is its size, or None.
    """
    wanted = tensor.shape
    if changed := _attributes_to_change(found, wanted, attributes):
        names = " and ".join(f"'{name}'" for name in changed)
        are = "are graph attributes" if len(changed) > 1 else "is a graph attribute"
        options = " ".join(f"--attr {name}={size}" for name, size in changed.items())
        return f"{names} {are}: build the model with attributes={changed} ({options})"
    if found[:1] == (1,) and tensor.fits(found[1:]):
        return "remove its first dimension: x[0]"
    if tensor.fits((1, *found)):
        return "add a first dimension: x[None]"
    if len(found) == len(wanted) <= _MOST_ORDERED:
        for order in itertools.permutations(range(len(found))):
            if tensor.fits(tuple(found[axis] for axis in order)):
                return f"order its dimensions otherwise: x.transpose{order}"
    sizes = [size for size in wanted if isinstance(size, int)]
    if len(sizes) == len(wanted) and math.prod(sizes) == math.prod(found):
        return f"it has as many elements: x.reshape{tuple(sizes)}"
    if tensor.role == "variable":
        return "give it the array of this variable, or correct its declaration"
    if len(found) != len(wanted):
        return f"bring it to {len(wanted)} dimensions, as by x.reshape"
    name = tensor.short_name.partition(":")[0]
    return (
        f"build for this shape, with input_shapes (--shape {name}={','.join(map(str, found))}) or "
        "with the attribute that it follows from (--attr)"
    )


def _attributes_to_change(
    found: tuple[int, ...], wanted: tuple[Any, ...], attributes: Sequence[str | None]
) -> dict[str, int]:
    """Return the values of graph attributes for which a shape would fit; empty if there are
    none.
    """
    if not len(found) == len(wanted) == len(attributes):
        return {}
    changed: dict[str, int] = {}
    for size, expected, name in zip(found, wanted, attributes, strict=True):
        fits = not isinstance(expected, int) or size == expected
        if not fits and (name is None or changed.setdefault(name, size) != size):
            return {}
    return changed


_MOST_ORDERED = 5
"""Upper limit of the dimensions of which all orders are tried."""
