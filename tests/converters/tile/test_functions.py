# ruff: noqa: E741 -- as the tutorial writes contractions and names
"""Element-wise operations, dtypes and sources of Tile functions."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters import tile
from tvm_nnef.converters.tile import TensorDims, TensorIndexes, TensorOutput, convert
from tvm_nnef.formats.registry import open_source

pytestmark = pytest.mark.sampled(3)

X = np.array([[0.5, 1.5, 2.0], [3.0, 0.25, 1.0]], np.float32)
Y = np.array([1.5, 1.5, 0.5], np.float32)

FUNCTIONS: list[tuple[str, Any, Any]] = [
    ("A + B", lambda a, b: a + b, np.add),
    ("A - B", lambda a, b: a - b, np.subtract),
    ("A * B", lambda a, b: a * b, np.multiply),
    ("A / B", lambda a, b: a / b, np.divide),
    ("A == B", lambda a, b: a == b, np.equal),
    ("A != B", lambda a, b: a != b, np.not_equal),
    ("A < B", lambda a, b: a < b, np.less),
    ("A <= B", lambda a, b: a <= b, np.less_equal),
    ("A > B", lambda a, b: a > b, np.greater),
    ("A >= B", lambda a, b: a >= b, np.greater_equal),
    ("-A + B", lambda a, b: -a + b, lambda a, b: b - a),
    ("2.0 - A / 2 + B", lambda a, b: 2.0 - a / 2 + b, lambda a, b: 2 - a / 2 + b),
    ("sqrt(A) + B", lambda a, b: tile.sqrt(a) + b, lambda a, b: np.sqrt(a) + b),
    ("exp(A) + B", lambda a, b: tile.exp(a) + b, lambda a, b: np.exp(a) + b),
    ("pow(A, B)", tile.pow, np.power),
    ("sin(A) + B", lambda a, b: tile.sin(a) + b, lambda a, b: np.sin(a) + b),
    ("tanh(A) + B", lambda a, b: tile.tanh(a) + b, lambda a, b: np.tanh(a) + b),
    ("log(A) + B", lambda a, b: tile.log(a) + b, lambda a, b: np.log(a) + b),
    ("sigmoid(A) + B", lambda a, b: tile.sigmoid(a) + b, lambda a, b: 1 / (1 + np.exp(-a)) + b),
    (
        "select(B < 1.0, A, 2.0 * A)",
        lambda a, b: tile.select(b < 1.0, a, 2.0 * a),
        lambda a, b: np.where(b < 1, a, 2 * a),
    ),
    (
        "select(A - B, 0, A)",
        lambda a, b: tile.select(a - b, 0, a),
        lambda a, b: np.where(a - b, 0, a),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "function", "expected"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_element_wise_operations_broadcast(text: str, function: Any, expected: Any) -> None:
    shapes = {"A": X.shape, "B": Y.shape}
    source = f"Tensor f(const Tensor& A, const Tensor& B) {{\n  return {text};\n}}"
    for each in (lambda A, B: function(A, B), source):
        (found,) = tvm_nnef.evaluate(convert(each, input_shapes=shapes), X, Y)
        np.testing.assert_allclose(found, expected(X, Y), rtol=1e-5)
        assert found.dtype == expected(X, Y).dtype


CONDITIONS = [(0, False), (2, True), (0.0, False), (0.5, True), (float("nan"), True)]


@pytest.mark.parametrize(("condition", "holds"), CONDITIONS)
def test_the_condition_of_select_may_be_a_single_value(condition: float, holds: bool) -> None:
    model = convert(lambda A: tile.select(condition, 0, A), input_shapes={"A": (3,)})
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, Y)[0], np.where(holds, 0, Y))


def test_the_condition_of_select_may_be_a_size() -> None:
    def negated_unless_of_3(A):
        N = tile.TensorDim()
        A.bind_dims(N)
        return tile.select(N - 3, -A, A)

    for options in ({"input_shapes": {"A": (3,)}}, {"bounds": 8}):
        (found,) = tvm_nnef.evaluate(convert(negated_unless_of_3, **options), Y)
        np.testing.assert_array_equal(found, Y)
    (found,) = tvm_nnef.evaluate(convert(negated_unless_of_3, bounds=8), Y[:2])
    np.testing.assert_array_equal(found, -Y[:2])


DTYPES = [
    ("float16", "float16", "float16"),
    ("float64", "float64", "float64"),
    ("int32", "int32", "int32"),
    ("int64", "int32", "int64"),
    ("int32", "float32", "float32"),
    ("bool", "bool", "int32"),
]


def matmul(A, B):
    I, J, K = TensorDims(3)
    i, j, k = TensorIndexes(3)
    A.bind_dims(I, K)
    B.bind_dims(K, J)
    C = TensorOutput(I, J)
    C[i, j] += A[i, k] * B[k, j]
    return C


@pytest.mark.parametrize(("left", "right", "result"), DTYPES)
def test_contractions_have_the_dtypes_that_are_given(left: str, right: str, result: str) -> None:
    a, b = np.arange(6).reshape(2, 3).astype(left), np.arange(12).reshape(3, 4).astype(right)
    options: Any = {"input_shapes": {"A": (2, 3), "B": (3, 4)}, "dtypes": {"A": left, "B": right}}
    model = convert(matmul, **options)
    for run in (tvm_nnef.evaluate, lambda m, *x: tvm_nnef.build(m, progress=False)(*x)):
        (found,) = run(model, a, b)
        np.testing.assert_allclose(found, a.astype(result) @ b.astype(result))
        assert found.dtype == result


def test_integers_are_divided_as_reals() -> None:
    model = convert(lambda A: A / 4, input_shapes={"A": (3,)}, dtypes={"A": "int32"})
    (found,) = tvm_nnef.evaluate(model, np.array([1, 2, -3], np.int32))
    np.testing.assert_array_equal(found, np.array([0.25, 0.5, -0.75], np.float32))


def test_two_elements_may_be_added() -> None:
    def outer(A, B):
        M, N = TensorDims(2)
        i, j = TensorIndexes(2)
        A.bind_dims(M)
        B.bind_dims(N)
        O = TensorOutput(M, N)
        O[i, j] = A[i] + B[j]
        return O

    a, b = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    for options in ({"input_shapes": {"A": (3,), "B": (4,)}}, {"bounds": 9}):
        model = convert(outer, **options)
        (found,) = tvm_nnef.build(model, progress=False)(a, b)
        np.testing.assert_array_equal(found, a[:, None] + b)


def test_arguments_may_be_bound_by_partial() -> None:
    def scaled(A, factor):
        return A * factor

    source = functools.partial(scaled, factor=3)
    (found,) = tvm_nnef.evaluate(convert(source, input_shapes={"A": (2,)}), Y[:2])
    np.testing.assert_array_equal(found, 3 * Y[:2])


def test_sizes_of_an_intermediate_tensor_can_be_bound() -> None:
    def total(A):
        M, N = TensorDims(2)
        m, n = TensorIndexes(2)
        B = 2.0 * A
        B.bind_dims(M, N)
        O = TensorOutput(N)
        O[n] += B[m, n]
        return O

    (found,) = tvm_nnef.evaluate(convert(total, input_shapes={"A": X.shape}), X)
    np.testing.assert_allclose(found, 2 * X.sum(0))


def test_functions_of_a_text_call_each_other() -> None:
    source = """
    Tensor total(const Tensor& I) {
      TensorIndex i; auto S = TensorOutput(); S() += I(i); return S;
    }
    Tensor normalized(const Tensor& I) { return I / total(I); }
    """
    model = convert(source, input_shapes={"I": (3,)})
    (found,) = tvm_nnef.evaluate(model, Y)
    np.testing.assert_allclose(found, Y / Y.sum(), rtol=1e-6)
    (found,) = tvm_nnef.evaluate(convert(source, function="total", input_shapes={"I": (3,)}), Y)
    np.testing.assert_allclose(found, Y.sum())


class Layer:
    """A method is a function, too."""

    def sigmoid(self, A):
        return tile.sigmoid(A)


def by_import(A):
    from tvm_nnef.converters.tile import absolute as magnitude

    return magnitude(A)


def by_call(A):
    return by_import(A)


def by_closure():
    root = tile.sqrt
    return lambda A: root(A)


def by_attribute(A):
    N = "no size"
    return A.bind_dims(N)


@pytest.mark.parametrize(
    "source", [matmul, Layer().sigmoid, by_import, by_call, by_closure(), by_attribute]
)
def test_a_function_that_uses_tile_is_detected(source: Any) -> None:
    assert open_source(source).format.name == "tile"


def plain(x):
    return 2 * x + len("Tensor")


def recursive(x):
    return recursive(x) + plain(x)


@pytest.mark.parametrize(
    "source", [plain, recursive, lambda x: x, np.mean, print, Layer, functools.partial(plain, 3)]
)
def test_another_function_is_not_a_tile_function(source: Any) -> None:
    with pytest.raises(tvm_nnef.NnefError, match="is not a model") as caught:
        tvm_nnef.convert(source, input_shapes={"x": (2,)})
    assert "format='tile'" in str(caught.value)


def test_a_function_without_names_of_tile_is_converted_by_the_name_of_the_format() -> None:
    model = tvm_nnef.convert(lambda x: 2 * x, format="tile", input_shapes={"x": (3,)})
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, Y)[0], 2 * Y)


def test_numbers_may_be_those_of_numpy() -> None:
    two, half = np.int64(2), np.float32(0.5)

    def every_second(A):
        N = tile.TensorDim()
        i = tile.TensorIndex()
        A.bind_dims(N)
        O = TensorOutput((N + np.int32(1)) // two)
        O[i] += A[two * i]
        return half * O + O * half + abs(-O)

    model = convert(every_second, input_shapes={"A": (5,)})
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, x)[0], 2 * x[::2])
    with pytest.raises(tvm_nnef.NnefError, match="takes tensors, not a ndarray"):
        convert(lambda A: np.ones(3) * A, input_shapes={"A": (3,)})


def test_calls_take_a_function_itself() -> None:
    shapes = {"input_shapes": {"A": (2, 3), "B": (3, 4)}}
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    (found,) = tvm_nnef.build(matmul, progress=False, **shapes)(a, b)
    np.testing.assert_array_equal(found, a @ b)
    assert not [each for each in tvm_nnef.check(matmul, **shapes) if each.severity == "error"]


def test_the_page_says_what_is_true() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tile.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    for i, block in enumerate(blocks):
        # Functions need the text of their lines for messages only.
        exec(compile(block, f"<block {i}>", "exec"), {"np": np})
    (cpp,) = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    (found,) = tvm_nnef.evaluate(
        convert(cpp, input_shapes={"I": (7,)}), X.ravel()[[0, 1, 2, 3, 4, 5, 0]]
    )
    np.testing.assert_array_equal(found, [1.5, 3.0, 1.0, 0.5])
