"""Arrays in the dtypes of tensors, those of few bits included, and the bytes that hold them.

The dtypes of NumPy for what it does not know itself are those of ``ml_dtypes``.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.arrays.few_bits import FORMATS, Format
from tvm_nnef.support.requirements import needed_for

Array: TypeAlias = "NDArray[Any]"


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype of NumPy with a name, bfloat16 and those of few bits included."""
    if name == "bfloat16" or name in FORMATS:
        with needed_for(f"the dtype {name}"):
            import ml_dtypes  # noqa: F401  NumPy knows the names from now on.
    return np.dtype(name)


def limits(dtype: str) -> tuple[int, int]:
    """The least and the largest int of a dtype."""
    if dtype not in FORMATS:
        found = np.iinfo(dtype)
        return int(found.min), int(found.max)
    signed, bits = not dtype.startswith("u"), FORMATS[dtype].bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def largest(dtype: str) -> float:
    """The largest finite real of a dtype."""
    if dtype in FORMATS:
        code = np.array(FORMATS[dtype].largest, np.uint8)
        return float(code.view(numpy_dtype(dtype)))
    if dtype != "bfloat16":
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def rounded(array: Array, dtype: str) -> Array:
    """Numbers in a dtype: reals to the nearest, ties to even, ints by their low bits.

    What is too large for a real of few bits becomes infinite, NaN if there is no infinity, and the
    largest number if there is no NaN, which becomes a zero. ``lower.few_bits`` does the same.
    """
    found = format_of(array.dtype)
    if found is not None and array.dtype != numpy_dtype(dtype):
        array = array.astype(found.computed)  # Not each of these dtypes converts to each other.
    return array.astype(numpy_dtype(dtype), copy=False)


def packable(array: Array, dtype: str) -> Array:
    """Ints in a dtype of few bits if it holds them all, as where files of them were read."""
    least, most = limits(dtype)
    if array.dtype.kind not in "iu" or not array.size:
        return array
    return rounded(array, dtype) if least <= array.min() and array.max() <= most else array


def named(array: Array, dtype: str) -> Array:
    """The array of a dtype of which a file of NumPy has the bytes alone; any other as it is.

    Such a file does not name the dtypes of other packages.
    """
    if array.dtype.kind != "V" or array.dtype.names is not None or format_of(array.dtype):
        return array
    wanted = numpy_dtype(dtype)
    fits = wanted.isbuiltin == _FROM_ELSEWHERE and array.dtype == np.dtype(f"V{wanted.itemsize}")
    return array.view(wanted) if fits else array


def storable(array: Array) -> Array:
    """An array that NumPy reads again from a file: :func:`named` is the inverse.

    Of dtypes of other packages it is the bytes.
    """
    if array.dtype.isbuiltin != _FROM_ELSEWHERE:
        return array
    whole = np.ascontiguousarray(array).reshape(array.shape)
    return whole.view(f"V{array.dtype.itemsize}")


def as_held(array: Array) -> Array:
    """An array as its bytes lie in memory; one of a dtype that machines have as it is."""
    found = format_of(array.dtype)
    if found is None:
        return array
    if found.type == "int":
        return array.astype(found.held)
    codes = np.ascontiguousarray(array).reshape(array.shape).view(np.uint8)
    return codes if found.bits == 8 else codes & np.uint8((1 << found.bits) - 1)


def from_held(array: Array, dtype: str) -> Array:
    """The array of a dtype whose bytes lie in memory as :func:`as_held` gives them."""
    if dtype not in FORMATS:
        return array
    wanted = numpy_dtype(dtype)
    return array.view(wanted) if FORMATS[dtype].type == "real" else array.astype(wanted)


def format_of(dtype: np.dtype[Any]) -> Format | None:
    """Return the coding of the elements of a dtype of NumPy; None for one that machines have."""
    return FORMATS.get(dtype.name) if dtype.isbuiltin == _FROM_ELSEWHERE else None


_FROM_ELSEWHERE = 2
"""The value of ``isbuiltin`` of a dtype that another package has defined."""
