"""Elementwise operations and activations (sections 4.2 and 4.9.1) against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

pytestmark = pytest.mark.sampled(3)

Array = np.ndarray
X = np.array([[-2.5, -1.5, -0.75, -0.5], [0.0, 0.25, 0.5, 0.49999997], [1.0, 1.5, 2.5, 3.25]], "f")
UNIT = np.linspace(-0.95, 0.95, 12, dtype="f").reshape(3, 4)
POSITIVE = np.linspace(0.1, 30, 12, dtype="f").reshape(3, 4)

UNARY: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "copy": (np.array, X), "neg": (np.negative, X), "rcp": (np.reciprocal, POSITIVE),
    "exp": (np.exp, X), "log": (np.log, POSITIVE), "sin": (np.sin, X), "cos": (np.cos, X),
    "tan": (np.tan, X), "sinh": (np.sinh, X), "cosh": (np.cosh, X), "tanh": (np.tanh, X),
    "asin": (np.arcsin, UNIT), "acos": (np.arccos, UNIT), "atan": (np.arctan, X),
    "asinh": (np.arcsinh, X), "acosh": (np.arccosh, POSITIVE + 1), "atanh": (np.arctanh, UNIT),
    "abs": (np.abs, X), "sign": (np.sign, X), "floor": (np.floor, X), "ceil": (np.ceil, X),
    "round": (lambda x: np.floor(x.astype(np.float64) + 0.5), X),
    "sqr": (np.square, X), "sqrt": (np.sqrt, POSITIVE), "rsqr": (lambda x: x**-2.0, POSITIVE),
    "rsqrt": (lambda x: x**-0.5, POSITIVE), "log2": (np.log2, POSITIVE),
    "sigmoid": (special.expit, X), "relu": (lambda x: np.maximum(x, 0), X),
    "silu": (lambda x: x * special.expit(x), X), "softplus": (lambda x: np.log(np.exp(x) + 1), X),
    "gelu": (lambda x: x * special.expit(1.702 * x), X),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(run: Any, name: str) -> None:
    function, x = UNARY[name]
    (y,) = run(f"y = {name}(x)", x=x)
    np.testing.assert_allclose(y, function(x), rtol=2e-6, atol=1e-6)


PARAMETERS = {
    "elu(x)": lambda x: np.where(x < 0, np.exp(x) - 1, x),
    "elu(x, alpha = 0.3)": lambda x: np.where(x < 0, 0.3 * (np.exp(x) - 1), x),
    "selu(x)": lambda x: 1.05070102 * np.where(x < 0, 1.67326319 * (np.exp(x) - 1), x),
    "selu(x, alpha = 2.0, lambda = 0.5)": lambda x: 0.5 * np.where(x < 0, 2 * (np.exp(x) - 1), x),
    "leaky_relu(x, alpha = 0.1)": lambda x: np.where(x < 0, 0.1 * x, x),
    "leaky_relu(x, alpha = 1.5)": lambda x: np.where(x < 0, 1.5 * x, x),
    "leaky_relu(x, alpha = -0.5)": lambda x: np.where(x < 0, -0.5 * x, x),
    "prelu(x, 0.25)": lambda x: np.where(x < 0, 0.25 * x, x),
    "clamp(x, -1.0, 2.0)": lambda x: np.clip(x, -1, 2),
    "clamp(x, 2.0, -1.0)": lambda x: np.maximum(np.minimum(x, -1), 2),
    "softmax(x)": lambda x: special.softmax(x, 1),
    "softmax(x, axes = [0])": lambda x: special.softmax(x, 0),
    "softmax(x, axes = [0, 1])": lambda x: special.softmax(x, (0, 1)),
}


@pytest.mark.parametrize("text", PARAMETERS)
def test_functions_with_parameters(run: Any, text: str) -> None:
    (y,) = run(f"y = {text}", x=X)
    np.testing.assert_allclose(y, PARAMETERS[text](X), rtol=2e-6, atol=1e-6)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum,
    "max": np.maximum, "lt": np.less, "gt": np.greater, "le": np.less_equal,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "pow": np.power,
}  # fmt: skip
SHAPES = [
    ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (1, 3)), ((2, 3), (2, 1, 4)), ((2, 3, 4), (1,)),
    ((2, 1, 4), (1, 3, 1)), ((2,), (2, 3)), ((), (2, 3)), ((2, 3, 2), (2,)),
]  # fmt: skip


def widened(x: Array, rank: int) -> Array:
    """The array with dimensions of 1 after its own: leading dimensions belong together."""
    return x.reshape((*x.shape, *[1] * (rank - x.ndim)))


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary_aligned_from_the_left(run: Any, name: str, left: Any, right: Any) -> None:
    random = np.random.default_rng(len(name))
    # whole numbers, some of which are equal
    x, y = (random.integers(1, 4, shape).astype(np.float32) for shape in (left, right))
    (z,) = run(f"z = {name}(x, y)", x=x, y=y)
    rank = max(x.ndim, y.ndim)
    expected = BINARY[name](widened(x, rank), widened(y, rank))
    assert z.dtype == expected.dtype
    np.testing.assert_allclose(z, expected, rtol=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", BINARY)
def test_binary_with_a_number(run: Any, name: str, swapped: bool) -> None:
    x = np.array([[1.5, 2.0], [2.5, 3.0]], "f")
    (z,) = run(f"z = {name}(2.5, x)" if swapped else f"z = {name}(x, 2.5)", x=x)
    expected = BINARY[name](np.float32(2.5), x) if swapped else BINARY[name](x, np.float32(2.5))
    np.testing.assert_allclose(z, expected, rtol=1e-6)


def test_logical(run: Any) -> None:
    x, y = np.array([[True, False]]), np.array([[True], [False]])
    np.testing.assert_array_equal(run("z = and(x, y)", x=x, y=y)[0], x & y)
    np.testing.assert_array_equal(run("z = or(x, y)", x=x, y=y)[0], x | y)
    np.testing.assert_array_equal(run("z = not(x)", x=x)[0], ~x)


@pytest.mark.parametrize(
    ("condition", "left", "right"),
    [((2, 3), (2, 3), (2, 3)), ((2,), (2, 3, 4), (1, 3)), ((2, 3, 4), (2,), (1,))],
    ids=str,
)
def test_select(run: Any, condition: Any, left: Any, right: Any) -> None:
    random = np.random.default_rng(3)
    c, x, y = random.random(condition) > 0.5, random.random(left), random.random(right)
    x, y = x.astype("f"), y.astype("f")
    (z,) = run("z = select(c, x, y)", c=c, x=x, y=y)
    rank = max(each.ndim for each in (c, x, y))
    np.testing.assert_array_equal(z, np.where(*(widened(each, rank) for each in (c, x, y))))


def test_select_with_numbers(run: Any) -> None:
    c, x = np.array([True, False]), np.array([1.5, 2.5], "f")
    np.testing.assert_array_equal(run("z = select(c, x, 0.5)", c=c, x=x)[0], [1.5, 0.5])
    np.testing.assert_array_equal(run("z = select(c, 1.0, 0.0)", c=c)[0], [1.0, 0.0])


def test_clamp_aligns_its_limits(run: Any) -> None:
    random = np.random.default_rng(5)
    x, low, high = random.random((2, 3, 4)), random.random((2,)) * 0.5, random.random((1, 3)) * 0.5
    arrays = {"x": x.astype("f"), "a": low.astype("f"), "b": high.astype("f")}
    (y,) = run("y = clamp(x, a, b)", **arrays)
    expected = np.maximum(np.minimum(x, high[..., None]), low[:, None, None])
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "shape", [(1, 3), (1, 3, 1, 1), (2, 3), (2, 3, 4, 5), (1, 1), (2,)], ids=str
)
def test_prelu(run: Any, shape: Any) -> None:
    random = np.random.default_rng(5)
    x, alpha = (random.standard_normal(each).astype("f") for each in ((2, 3, 4, 5), shape))
    (y,) = run("y = prelu(x, a)", x=x, a=alpha)
    np.testing.assert_allclose(y, np.where(x < 0, widened(alpha, 4) * x, x), rtol=1e-6)


def test_prelu_whose_slope_is_larger(run: Any) -> None:
    x, alpha = np.array([[-1.0, 2.0]], "f"), np.array([[1.0], [3.0]], "f")
    (y,) = run("y = prelu(x, a)", x=x, a=alpha)
    np.testing.assert_allclose(y, np.where(x < 0, alpha * x, x))


def test_copies_and_sums(run: Any) -> None:
    x, y = np.float32([[1, 2, 3]]), np.float32([[10], [20]])
    for copy in run("[a, b, c] = copy_n(x, times = 3)", x=x):
        np.testing.assert_array_equal(copy, x)
    np.testing.assert_array_equal(run("z = add_n([x, y])", x=x, y=y)[0], x + y)
    np.testing.assert_array_equal(run("z = add_n([x, y, x])", x=x, y=y)[0], x + y + x)
    np.testing.assert_array_equal(run("z = add_n([x, x, x])", x=x)[0], 3 * x)
    np.testing.assert_array_equal(run("z = add_n([x])", x=x)[0], x)


def test_cast(run: Any) -> None:
    x, flags, whole = np.float32([-2.0, 0.0, 0.75, 3.5]), np.array([True, False]), np.int32([-2, 0])
    (y,) = run("y = cast<integer>(x)", x=x)
    np.testing.assert_array_equal(y, [-2, 0, 0, 3])
    assert y.dtype == np.int32
    np.testing.assert_array_equal(run("y = cast<logical>(x)", x=x)[0], x != 0)
    np.testing.assert_array_equal(run("y = cast<scalar>(x)", x=x)[0], x)
    np.testing.assert_array_equal(run("y = cast<scalar>(x)", x=flags)[0], np.float32([1, 0]))
    np.testing.assert_array_equal(run("y = cast<integer>(x)", x=flags)[0], [1, 0])
    np.testing.assert_array_equal(run("y = cast<scalar>(x)", x=whole)[0], np.float32([-2, 0]))
    np.testing.assert_array_equal(run("y = cast<logical>(x)", x=whole)[0], [True, False])
