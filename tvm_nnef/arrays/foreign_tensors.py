"""Tensors of other libraries as NumPy arrays that share their memory.

The libraries are not imported: their tensors are known by what they answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.diagnostics import InputError, error

Array: TypeAlias = NDArray[Any]

_CPU = 1
"""The number of the CPU in DLPack."""

_REFUSED: tuple[tuple[Callable[[Any], object], str, str], ...] = (
    (
        lambda x: getattr(x, "is_meta", False) or hasattr(x, "fake_mode"),
        "it has a shape, but no elements",
        "give a tensor with elements: torch.zeros(x.shape)",
    ),
    (
        lambda x: getattr(x, "is_nested", False),
        "it is nested",
        "give tensors of one shape, as by x.to_padded_tensor(0.0)",
    ),
    (
        lambda x: str(getattr(x, "layout", "")).startswith(("torch.sparse", "torch._mkldnn")),
        "its elements are not stored one after the other",
        "x.to_dense()",
    ),
    (lambda x: getattr(x, "is_quantized", False), "it is quantized", "x.dequantize()"),
    (
        lambda x: getattr(x, "requires_grad", False),
        "it needs a gradient, which no call computes",
        "x.detach()",
    ),
    (
        lambda x: hasattr(x, "is_neg") and x.is_neg(),
        "its elements are stored with the other sign",
        "x.resolve_neg()",
    ),
)
"""Tensors of PyTorch that have no plain memory to read, why, and what to give instead."""


def numpy_view(value: Any, otherwise: Callable[[Any], Array]) -> Any:
    """A NumPy view of a tensor of another library, also in a list or mapping; others as they are.

    ``otherwise`` reads a tensor that is not in the memory of the CPU, or has elements that NumPy
    does not take from other libraries. Raises InputError for a tensor that cannot be read.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if isinstance(value, Mapping):
        return {name: numpy_view(item, otherwise) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [numpy_view(item, otherwise) for item in value]
    if not hasattr(value, "__dlpack__"):
        return value
    kind = type(value).__name__
    for is_refused, reason, hint in _REFUSED:
        if is_refused(value):
            raise error(f"a {kind} cannot be read: {reason}", hint=hint, kind=InputError)
    try:
        if int(value.__dlpack_device__()[0]) != _CPU:
            return otherwise(value)
        try:
            return np.from_dlpack(value)
        except (RuntimeError, BufferError):
            return otherwise(value)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as problem:
        hint = "give a dense tensor that has elements and needs no gradient: x.detach()"
        if "contiguous" in str(problem):
            hint = "x.contiguous()"
        message = f"a {kind} cannot be read: {problem}".splitlines()[0]
        raise error(message, hint=hint, kind=InputError) from None
