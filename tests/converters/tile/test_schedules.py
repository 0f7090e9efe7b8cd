"""Contractions that a standard operator computes as well get its strategy."""

from __future__ import annotations

from typing import Any

import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.converters.tile import convert

MATMUL = """
Tensor matmul(const Tensor& A, const Tensor& B) {
  TensorDim I, J, K; TensorIndex i, j, k;
  A.bind_dims(I, K); B.bind_dims(K, J);
  auto C = TensorOutput(I, J);
  C(i, j) += A(i, k) * B(k, j);
  return C;
}
"""
CONVOLUTION = """
Tensor convolution(const Tensor& A, const Tensor& B) {
  TensorDim N, C, H, W, O, P, Q; TensorIndex n, c, h, w, o, p, q;
  A.bind_dims(N, C, H, W); B.bind_dims(O, C, P, Q);
  auto R = TensorOutput(N, O, H, W);
  R(n, o, h, w) += A(n, c, h + p - 1, w + q - 1) * B(o, c, p, q);
  return R;
}
"""
MAXIMUM = """
Tensor maximum(const Tensor& A) {
  TensorDim M, N; TensorIndex m, n;
  A.bind_dims(M, N);
  auto O = TensorOutput(M);
  O(m) >= A(m, n);
  return O;
}
"""
PAIRS = [
    (MATMUL, {"A": (64, 96), "B": (96, 128)}, "linalg.matmul(A, B)"),
    (CONVOLUTION, {"A": (1, 16, 20, 20), "B": (32, 16, 3, 3)}, "nn.conv{padding=1}(A, B)"),
    (MAXIMUM, {"A": (64, 512)}, "math.max_reduce{axes=[1], squeeze=true}(A)"),
]


def scheduled(model: Any) -> list[str]:
    """The strategy of each kernel."""
    module = tvm_nnef.from_nnef(model)
    found = run_phases(module, resolve("x86-64-v3"), "bind", "schedule")
    return sorted(kernel.strategy or "" for kernel in schedules.report(found))


@pytest.mark.parametrize(("text", "shapes", "invocation"), PAIRS)
def test_a_contraction_gets_the_strategies_of_the_standard_operator(
    text: str, shapes: dict[str, tuple[int, ...]], invocation: str
) -> None:
    inputs = " ".join(f"{name}: real{list(shape)};" for name, shape in shapes.items())
    standard = (
        f"import {invocation.partition('.')[0]}; graph G {{ @input {{ {inputs} }} "
        f"@output {{ R: real; }} @compose {{ R = {invocation}; }} }}"
    )
    found = scheduled(convert(text, input_shapes=shapes))
    assert found == scheduled(standard)
    assert found
