"""Arrays in the dtypes of tensors: reals are rounded, and no other number is changed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.graph.nodes import Tensor


def converted(array: NDArray[Any], tensor: Tensor, dtype: str, title: str) -> NDArray[Any]:
    """An array of the kind of a tensor in a dtype; ``title`` is what messages call it.

    Raises NnefError for a number that the dtype cannot hold, or only as infinity.
    """
    if array.dtype == dtype or not array.size:
        return array.astype(dtype, copy=False)
    if tensor.type == "int" and array.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        for value in (array.min(), array.max()):
            if not limits.min <= int(value) <= limits.max:
                raise _too_large(f"{int(value)}", tensor, dtype, title)
        return array.astype(dtype)
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    if tensor.type == "real":
        lost = np.isinf(result) & np.isfinite(array)
        if lost.any():
            raise _too_large(f"{float(array[lost].flat[0]):g}", tensor, dtype, title)
    return result


def _too_large(value: str, tensor: Tensor, dtype: str, title: str) -> NnefError:
    wide = "int64" if tensor.type == "int" else "float64"
    if tensor.type == "int":
        most = f"{np.iinfo(dtype).max}"
    else:
        most = f"{float(ml_dtypes.finfo(dtype).max):.6g}"  # type: ignore[no-untyped-call]
    hint = f"{dtype} holds numbers up to {most}"
    if dtype != wide:
        hint += f"; machine_types={{'{tensor.name}': '{wide}'}} gives it a wider dtype"
    message = f"{title}: there are values that {dtype} cannot hold, such as {value}"
    return error(message, tensor.span, hint=hint)
