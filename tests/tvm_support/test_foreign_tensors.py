"""Tensors of other libraries as inputs: read in place, or an error that says what to write."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import InputError
from tvm_nnef.tvm_support.runtime import numpy_view, runtime_tensor


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int64", "uint8", "float16"])
def test_elements_are_shared(dtype: str) -> None:
    ml_dtypes.bfloat16(0)  # NumPy knows the name from now on.
    tensor = runtime_tensor(np.arange(6).reshape(2, 3).astype(dtype))
    first, second = numpy_view(tensor), numpy_view(tensor)
    assert (first.dtype.name, first.tolist()) == (dtype, [[0, 1, 2], [3, 4, 5]])
    assert np.shares_memory(first, second)


TEXT = "graph G { @input { x: real[n]; } @output { y: real; } @compose { y = x; } }\n"


class Torch:
    """A tensor with the answers of PyTorch's tensors."""

    def __init__(self, *, is_neg: bool = False, **answers: Any) -> None:
        self.array = np.array([1, 2], np.float32)
        self.is_neg = lambda: is_neg
        vars(self).update(answers)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **given: Any) -> Any:
        return self.array.__dlpack__(**given)

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.array


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a gradient": ({"requires_grad": True}, "x.detach()"),
    "meta": ({"is_meta": True}, "torch.zeros(x.shape)"),
    "a fake of torch.export": ({"fake_mode": None}, "torch.zeros(x.shape)"),
    "sparse": ({"layout": "torch.sparse_coo"}, "x.to_dense()"),
    "rows of a sparse matrix": ({"layout": "torch.sparse_csr"}, "x.to_dense()"),
    "oneDNN": ({"layout": "torch._mkldnn"}, "x.to_dense()"),
    "quantized": ({"is_quantized": True}, "x.dequantize()"),
    "nested": ({"is_nested": True}, "x.to_padded_tensor(0.0)"),
    "the other sign": ({"is_neg": True}, "x.resolve_neg()"),
}
"""What tensors of PyTorch are, and what to write for an input instead."""


@pytest.mark.parametrize("case", REFUSED)
def test_tensors_without_plain_memory(case: str) -> None:
    answers, hint = REFUSED[case]
    for read in (numpy_view, lambda x: tvm_nnef.evaluate(TEXT, x)):
        with pytest.raises(InputError) as caught:
            read(Torch(**answers))
        (found,) = caught.value.diagnostics
        assert "Torch cannot be read: it" in found.message
        assert (found.hint or "").endswith(hint)


def test_plain_tensors_are_read() -> None:
    plain = {"layout": "torch.strided", "requires_grad": False, "is_quantized": False}
    assert tvm_nnef.evaluate(TEXT, Torch(**plain))[0].tolist() == [1, 2]
    assert numpy_view([Torch(**plain)])[0].tolist() == [1, 2]


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
