# ruff: noqa: B015, E741 -- as the tutorial writes contractions and names
"""Every example of the Tile tutorial, in Python and in C++, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.tile import TensorDim, TensorDims, TensorIndexes, TensorOutput

pytestmark = pytest.mark.sampled(3)


def sum_over_axis(I):
    M, N = TensorDims(2)
    m, n = TensorIndexes(2)
    I.bind_dims(M, N)
    O = TensorOutput(N)
    O[n] += I[m, n]
    return O


SUM = """
Tensor sum_over_axis(const Tensor& I) {
  TensorDim M, N;
  TensorIndex m, n;
  I.bind_dims(M, N);
  auto O = TensorOutput(N);
  O(n) += I(m, n); // contraction
  return O;
}
"""


def padded_sum(I):
    M, N = TensorDims(2)
    m, n = TensorIndexes(2)
    I.bind_dims(M, N)
    O = TensorOutput(N + 1)
    O[n] += I[m, n]
    return O


def max_over_axis(I):
    M, N = TensorDims(2)
    m, n = TensorIndexes(2)
    I.bind_dims(M, N)
    O = TensorOutput(N)
    O[n] >= I[m, n]
    return O


def matmul(A, B):
    I, J, K = TensorDims(3)
    i, j, k = TensorIndexes(3)
    A.bind_dims(I, K)
    B.bind_dims(K, J)
    C = TensorOutput(I, J)
    C[i, j] += A[i, k] * B[k, j]
    return C


MATMUL = """
Tensor matmul(const Tensor& A, const Tensor& B) {
  TensorDim I, J, K;
  TensorIndex i, j, k;
  A.bind_dims(I, K);
  B.bind_dims(K, J);
  auto C = TensorOutput(I, J);
  C(i, j) += A(i, k) * B(k, j);
  return C;
}
"""


def global_min(I):
    i, j, k = TensorIndexes(3)
    Neg = -I
    O_Neg = TensorOutput()
    O_Neg[()] >= Neg[i, j, k]
    O = -O_Neg
    return O


GLOBAL_MIN = """
Tensor global_min(const Tensor& I) {
  TensorIndex i, j, k;
  auto Neg = -I;
  auto O_Neg = TensorOutput();
  O_Neg() >= Neg(i, j, k);
  auto O = -O_Neg;
  return O;
}
"""


def avg(I):
    X, Y = TensorDims(2)
    x, y = TensorIndexes(2)
    I.bind_dims(X, Y)
    Sum = TensorOutput(Y)
    Sum[y] += I[x, y]
    return Sum / X


AVG = """
Tensor avg(const Tensor& I) {
  TensorDim X, Y;
  TensorIndex x, y;
  I.bind_dims(X, Y);
  auto Sum = TensorOutput(Y);
  Sum(y) += I(x, y);
  return Sum / X;
}
"""


def avg_stages(I):
    X, Y = TensorDims(2)
    x, y = TensorIndexes(2)
    I.bind_dims(X, Y)
    Sum = TensorOutput()
    Sum[()] += I[x, y]
    PartialMean = Sum / X
    return PartialMean / Y


AVG_STAGES = """
Tensor avg(const Tensor& I) {
  TensorDim X, Y;
  TensorIndex x, y;
  I.bind_dims(X, Y);
  auto Sum = TensorOutput();
  Sum() += I(x, y);
  auto PartialMean = Sum / X;
  return PartialMean / Y;
}
"""


def avg_merge(I):
    X, Y = TensorDims(2)
    x, y = TensorIndexes(2)
    I.bind_dims(X, Y)
    Sum = TensorOutput()
    Sum[()] += I[x, y]
    return Sum / (X * Y)


AVG_MERGE = """
Tensor avg(const Tensor& I) {
  TensorDim X, Y;
  TensorIndex x, y;
  I.bind_dims(X, Y);
  auto Sum = TensorOutput();
  Sum() += I(x, y);
  return Sum / (X * Y);
}
"""


def wrong_max_pool_1d(I):
    N = TensorDim()
    i, j = TensorIndexes(2)
    I.bind_dims(N)
    O = TensorOutput(N // 2)
    O[i] >= I[2 * i + j]
    return O


WRONG_MAX_POOL = """
Tensor wrong_max_pool_1d(const Tensor& I) {
  TensorDim N;
  TensorIndex i, j;
  I.bind_dims(N);
  auto O = TensorOutput(N / 2);
  O(i) >= I(2 * i + j);
  return O;
}
"""


def max_pool_1d(I):
    N = TensorDim()
    i, j = TensorIndexes(2)
    I.bind_dims(N)
    O = TensorOutput((N + 1) // 2)
    O[i] >= I[2 * i + j]
    O.add_constraint(j < 2)
    return O


MAX_POOL = """
Tensor max_pool_1d(const Tensor& I) {
  TensorDim N;
  TensorIndex i, j;
  I.bind_dims(N);
  auto O = TensorOutput((N + 1) / 2);
  O(i) >= I(2 * i + j);
  O.add_constraint(j < 2);
  return O;
}
"""


def skip(I):
    M, N = TensorDims(2)
    i, j = TensorIndexes(2)
    I.bind_dims(M, N)
    O = TensorOutput(N)
    O[2 * i] += I[2 * i, j]
    return O


SKIP = """
Tensor skip(const Tensor& I) {
  TensorDim M, N;
  TensorIndex i, j;
  I.bind_dims(M, N);
  auto O = TensorOutput(N);
  O(2 * i) += I(2 * i, j);
  return O;
}
"""


def csum(I):
    N = TensorDim()
    i, k = TensorIndexes(2)
    I.bind_dims(N)
    O = TensorOutput(N)
    O[i] += I[k]
    O.add_constraint(i - k < N)
    return O


CSUM = """
Tensor csum(const Tensor& I) {
  TensorDim N;
  TensorIndex i, k;
  I.bind_dims(N);
  auto O = TensorOutput(N);
  O(i) += I(k);
  O.add_constraint(i - k < N);
  return O;
}
"""


def conv_1d(I, K):
    N, X, KX, CI, CO = TensorDims(5)
    n, x, k, ci, co = TensorIndexes(5)
    I.bind_dims(N, X, CI)
    K.bind_dims(KX, CI, CO)
    O = TensorOutput(N, X - KX + 1, CO)
    O[n, x, co] += I[n, x + k, ci] * K[k, ci, co]
    return O


CONV_1D = """
Tensor conv_1d(const Tensor& I, const Tensor& K) {
  TensorDim N, X, KX, CI, CO;
  TensorIndex n, x, k, ci, co;
  I.bind_dims(N, X, CI);
  K.bind_dims(KX, CI, CO);
  auto O = TensorOutput(N, X - KX + 1, CO);
  O(n, x, co) += I(n, x + k, ci) * K(k, ci, co);
  return O;
}
"""


def conv_2d_dilated(I, K):
    N, X, Y, KX, KY, CI, CO = TensorDims(7)
    n, x, y, kx, ky, ci, co = TensorIndexes(7)
    I.bind_dims(N, X, Y, CI)
    K.bind_dims(KX, KY, CI, CO)
    O = TensorOutput(N, X - 2 * (KX - 1), Y - 3 * (KY - 1), CO)
    O[n, x, y, co] += I[n, x + 2 * kx, y + 3 * ky, ci] * K[kx, ky, ci, co]
    return O


CONV_2D_DILATED = """
Tensor conv_2d(const Tensor& I, const Tensor& K) {
  TensorDim N, X, Y, KX, KY, CI, CO;
  TensorIndex n, x, y, kx, ky, ci, co;
  I.bind_dims(N, X, Y, CI);
  K.bind_dims(KX, KY, CI, CO);
  auto O = TensorOutput(N, X - 2 * (KX - 1), Y - 3 * (KY - 1), CO);
  O(n, x, y, co) += I(n, x + 2 * kx, y + 3 * ky, ci) * K(kx, ky, ci, co);
  return O;
}
"""


def complex_conv_2d(I, K, s0, s1, d0, d1):
    # "same-lower" autopadding will be applied
    N, G, GCI, GCO = TensorDims(4)
    X0, X1 = TensorDims(2)
    K0, K1 = TensorDims(2)
    n, g, gci, gco = TensorIndexes(4)
    x0, x1 = TensorIndexes(2)
    k0, k1 = TensorIndexes(2)
    I.bind_dims(N, X0, X1, G, GCI)
    K.bind_dims(K0, K1, G, GCI, GCO)
    Y0, Y1 = TensorDims(2)
    Y0 = (X0 + s0 - 1) // s0
    Y1 = (X1 + s1 - 1) // s1
    EK0, EK1 = TensorDims(2)
    EK0 = d0 * (K0 - 1) + 1
    EK1 = d1 * (K1 - 1) + 1
    P0, P1 = TensorDims(2)
    P0 = ((Y0 - 1) * s0 + EK0 - X0) // 2
    P1 = ((Y1 - 1) * s1 + EK1 - X1) // 2
    O = TensorOutput(N, Y0, Y1, G, GCO)
    O[n, x0, x1, g, gco] += (
        I[n, s0 * x0 + d0 * k0 - P0, s1 * x1 + d1 * k1 - P1, g, gci] * K[k0, k1, g, gci, gco]
    )
    return O


COMPLEX_CONV_2D = """
Tensor complex_conv_2d(
  const Tensor& I,
  const Tensor& K,
  const std::vector<size_t>& s,  // stride coeffs
  const std::vector<size_t>& d   // dilation coeffs
) {
    // "same-lower" autopadding will be applied
    TensorDim N, G, GCI, GCO;
    std::vector<TensorDim> X(2);
    std::vector<TensorDim> KX(2);
    TensorIndex n, g, gci, gco;
    std::vector<TensorIndex> x(2);
    std::vector<TensorIndex> k(2);
    I.bind_dims(N, X[0], X[1], G, GCI);
    K.bind_dims(KX[0], KX[1], G, GCI, GCO);
    // Compute output spatial dimensions
    std::vector<TensorDim> Y(2);
    for (size_t i = 0; i < Y.size(); ++i) {
      Y[i] = (X[i] + s[i] - 1) / s[i];
    }
    // Compute the effective kernel size after dilation
    std::vector<TensorDim> EK(2);
    for (size_t i = 0; i < EK.size(); ++i) {
      EK[i] = d[i] * (KX[i] - 1) + 1;
    }
    // Compute the padding offset
    std::vector<TensorDim> P(2);
    for (size_t i = 0; i < P.size(); ++i) {
      P[i] = ((Y[i] - 1) * s[i] + EK[i] - X[i]) / 2;
    }
    // Specify the output size
    auto O = TensorOutput(N, Y[0], Y[1], G, GCO);
    // Compute the convolution
    O(n, x[0], x[1], g, gco) +=
      I(n, s[0]*x[0] + d[0]*k[0] - P[0], s[1]*x[1] + d[1]*k[1] - P[1], g, gci) *
      K(k[0], k[1], g, gci, gco);
    return O;
}
"""


def windows_1d(I, K):
    return sum(I[:, k : k + I.shape[1] - len(K) + 1] @ K[k] for k in range(len(K)))


def dilated(I, K):
    height, width = I.shape[1] - 2 * (K.shape[0] - 1), I.shape[2] - 3 * (K.shape[1] - 1)
    return sum(
        I[:, 2 * a : 2 * a + height, 3 * b : 3 * b + width] @ K[a, b]
        for a in range(K.shape[0])
        for b in range(K.shape[1])
    )


def grouped(I, K, s=(2, 1), d=(1, 2)):
    """A strided, dilated, padded convolution, element by element."""
    sizes = [-(-I.shape[1 + a] // s[a]) for a in (0, 1)]
    pad = [
        ((sizes[a] - 1) * s[a] + d[a] * (K.shape[a] - 1) + 1 - I.shape[1 + a]) // 2 for a in (0, 1)
    ]
    O = np.zeros((I.shape[0], *sizes, K.shape[2], K.shape[4]))
    for x, y in np.ndindex(*sizes):
        for a, b in np.ndindex(*K.shape[:2]):
            u, v = s[0] * x + d[0] * a - pad[0], s[1] * y + d[1] * b - pad[1]
            if 0 <= u < I.shape[1] and 0 <= v < I.shape[2]:
                O[:, x, y] += np.einsum("ngc,gco->ngo", I[:, u, v], K[a, b])
    return O


def skipped(I):
    O = np.zeros(I.shape[1])
    for i in range(0, min(I.shape), 2):
        O[i] = I[i].sum()
    return O


@dataclass(frozen=True)
class Example:
    """An example of the tutorial in both forms, and what it computes."""

    function: Callable[..., Any]
    text: str
    shapes: Mapping[str, tuple[int, ...]]
    expected: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text_arguments: Mapping[str, Any] = field(default_factory=dict)


COMPLEX = {"I": (2, 6, 7, 2, 3), "K": (3, 3, 2, 3, 4)}
STRIDES = {"s0": 2, "s1": 1, "d0": 1, "d1": 2}
VECTORS = {"s": [2, 1], "d": [1, 2]}
POOLED = SUM.replace("O(n) +=", "O(n) >=").replace("sum_", "max_")
PADDED = SUM.replace("Output(N)", "Output(N + 1)")

EXAMPLES = [
    Example(sum_over_axis, SUM, {"I": (3, 4)}, lambda I: I.sum(0)),
    Example(padded_sum, PADDED, {"I": (3, 4)}, lambda I: np.append(I.sum(0), 0)),
    Example(max_over_axis, POOLED, {"I": (3, 4)}, lambda I: I.max(0)),
    Example(matmul, MATMUL, {"A": (3, 4), "B": (4, 5)}, np.matmul),
    Example(global_min, GLOBAL_MIN, {"I": (2, 3, 4)}, np.min),
    Example(avg, AVG, {"I": (3, 4)}, lambda I: I.mean(0)),
    Example(avg_stages, AVG_STAGES, {"I": (3, 4)}, np.mean),
    Example(avg_merge, AVG_MERGE, {"I": (3, 4)}, np.mean),
    Example(wrong_max_pool_1d, WRONG_MAX_POOL, {"I": (7,)}, lambda I: np.full(3, I.max())),
    Example(max_pool_1d, MAX_POOL, {"I": (8,)}, lambda I: I.reshape(4, 2).max(1)),
    Example(
        max_pool_1d,
        MAX_POOL,
        {"I": (7,)},
        lambda I: np.append(I, -np.inf).reshape(4, 2).max(1),
    ),
    Example(skip, SKIP, {"I": (5, 6)}, skipped),
    Example(skip, SKIP, {"I": (7, 4)}, skipped),
    Example(csum, CSUM, {"I": (6,)}, np.cumsum),
    Example(conv_1d, CONV_1D, {"I": (2, 9, 3), "K": (3, 3, 4)}, windows_1d),
    Example(conv_2d_dilated, CONV_2D_DILATED, {"I": (2, 8, 9, 3), "K": (3, 2, 3, 4)}, dilated),
    Example(complex_conv_2d, COMPLEX_CONV_2D, COMPLEX, grouped, STRIDES, VECTORS),
]


def inputs(shapes: Mapping[str, tuple[int, ...]]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes.values()]


@pytest.mark.parametrize("form", ["python", "text"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.function.__name__)
def test_examples_compute_what_numpy_computes(example: Example, form: str) -> None:
    source: Any = example.function if form == "python" else example.text
    arguments = example.arguments if form == "python" else example.text_arguments
    model = tvm_nnef.convert(source, input_shapes=example.shapes, arguments=arguments)
    given = inputs(example.shapes)
    expected = example.expected(*given)
    for run in (tvm_nnef.evaluate, lambda m, *x: tvm_nnef.build(m, progress=False)(*x)):
        (found,) = run(model, *given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert found.shape == np.shape(expected)


def test_both_forms_of_an_example_are_the_same_operators() -> None:
    for example in EXAMPLES:
        texts = []
        for source, arguments in (
            (example.function, example.arguments),
            (example.text, example.text_arguments),
        ):
            model = tvm_nnef.convert(source, input_shapes=example.shapes, arguments=arguments)
            text = model.modules["main"].source.text
            texts.append(text[text.index("@lower") : text.index("graph")].replace("KX0", "K0"))
        assert texts[0] == texts[1].replace("KX1", "K1")


def test_a_matmul_is_an_operator_that_a_person_can_read() -> None:
    model = tvm_nnef.convert(matmul, input_shapes={"A": (3, 4), "B": (4, 5)})
    text = model.modules["main"].source.text
    assert "C[i, j] += A[i, k] * B[k, j], i < I, j < J, k < K;" in text


SYMBOLIC = [
    (sum_over_axis, {"I": (3, 4)}, lambda I: I.sum(0)),
    (matmul, {"A": (3, 4), "B": (4, 5)}, np.matmul),
    (avg_merge, {"I": (3, 4)}, np.mean),
    (max_pool_1d, {"I": (7,)}, lambda I: np.append(I, -np.inf).reshape(4, 2).max(1)),
    (csum, {"I": (6,)}, np.cumsum),
    (skip, {"I": (5, 6)}, skipped),
    (skip, {"I": (7, 4)}, skipped),
    (conv_1d, {"I": (2, 9, 3), "K": (3, 3, 4)}, windows_1d),
]


@pytest.mark.parametrize(("function", "shapes", "expected"), SYMBOLIC)
def test_dimensions_stay_dynamic_up_to_a_bound(function: Any, shapes: Any, expected: Any) -> None:
    model = tvm_nnef.convert(function, bounds=16)
    given = inputs(shapes)
    for run in (tvm_nnef.evaluate, lambda m, *x: tvm_nnef.build(m, progress=False)(*x)):
        (found,) = run(model, *given)
        np.testing.assert_allclose(found, expected(*given), rtol=1e-4, atol=1e-5)
