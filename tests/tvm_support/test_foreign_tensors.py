"""Tensors of other libraries as inputs: read in place, or an error that says what to write."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tvm_nnef.diagnostics import InputError
from tvm_nnef.tvm_support.runtime import numpy_view, runtime_tensor


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int64", "uint8", "float16"])
def test_elements_are_shared(dtype: str) -> None:
    ml_dtypes.bfloat16(0)  # NumPy knows the name from now on.
    tensor = runtime_tensor(np.arange(6).reshape(2, 3).astype(dtype))
    first, second = numpy_view(tensor), numpy_view(tensor)
    assert (first.dtype.name, first.tolist()) == (dtype, [[0, 1, 2], [3, 4, 5]])
    assert np.shares_memory(first, second)


class Broken:
    """A tensor whose library refuses to hand it over, as PyTorch does for those with gradients."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise self.problem


@pytest.mark.parametrize("problem", [
    BufferError("Can't export tensors that require gradient, use tensor.detach()"),
    RuntimeError("Sparse tensors have no strides"), ValueError("meta"), TypeError("odd"),
])  # fmt: skip
def test_tensors_that_cannot_be_read(problem: Exception) -> None:
    with pytest.raises(InputError) as caught:
        numpy_view(Broken(problem))
    (found,) = caught.value.diagnostics
    assert "Broken cannot be read" in found.message and "x.detach()" in (found.hint or "")
