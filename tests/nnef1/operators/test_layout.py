"""Operations on shapes (section 4.5) against NumPy and loops over the formulas of the text."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(3)

X = np.arange(120, dtype="f").reshape(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("shape = [6, 20]", (6, 20)), ("shape = [0, -1]", (2, 60)), ("shape = [-1]", (120,)),
        ("shape = [0, 0, 20]", (2, 3, 20)), ("shape = [-1], axis_start = 1", (2, 60)),
        ("shape = [12], axis_start = 1, axis_count = 2", (2, 12, 5)),
        ("shape = [2, -1], axis_start = 2, axis_count = 1", (2, 3, 2, 2, 5)),
        ("shape = [0, 20], axis_start = 1", (2, 3, 20)),
        ("shape = [1, 1], axis_start = 4", (2, 3, 4, 5, 1, 1)),
        ("shape = [1], axis_start = 2, axis_count = 0", (2, 3, 1, 4, 5)),
    ],
)  # fmt: skip
def test_reshape(run: Any, text: str, shape: Any) -> None:
    (y,) = run(f"y = reshape(x, {text})", x=X)
    np.testing.assert_array_equal(y, X.reshape(shape))


def test_squeeze_and_unsqueeze(run: Any) -> None:
    x = X.reshape(1, 6, 1, 20)
    np.testing.assert_array_equal(run("y = squeeze(x, axes = [0, 2])", x=x)[0], x[0, :, 0])
    np.testing.assert_array_equal(run("y = squeeze(x, axes = [2])", x=x)[0], x[:, :, 0])
    np.testing.assert_array_equal(
        run("y = unsqueeze(x, axes = [0, 5])", x=X)[0], X[None, ..., None]
    )
    (y,) = run("y = unsqueeze(x, axes = [3, 1])", x=x[0, :, 0])
    np.testing.assert_array_equal(y, x[0, :, 0][:, None, :, None])


@pytest.mark.parametrize("axes", [(0, 2, 3, 1), (1, 0), (0,), (), (2, 0, 1)], ids=str)
def test_transpose(run: Any, axes: Any) -> None:
    (y,) = run(f"y = transpose(x, axes = {list(axes)})", x=X)
    np.testing.assert_array_equal(y, X.transpose(*axes, *range(len(axes), 4)))


def test_split_and_concat(run: Any) -> None:
    a, b = run("[a, b] = split(x, axis = 2, ratios = [1, 3])", x=X)
    np.testing.assert_array_equal(a, X[:, :, :1])
    np.testing.assert_array_equal(b, X[:, :, 1:])
    (y,) = run("y = concat([x, z, x], axis = 1)", x=X, z=X[:, :1])
    np.testing.assert_array_equal(y, np.concatenate([X, X[:, :1], X], 1))


@pytest.mark.parametrize("axis", [0, 1, 4])
def test_stack(run: Any, axis: int) -> None:
    (y,) = run(f"y = stack([x, z], axis = {axis})", x=X, z=-X)
    np.testing.assert_array_equal(y, np.stack([X, -X], axis))


@pytest.mark.parametrize("axis", [0, 3])
def test_unstack(run: Any, axis: int) -> None:
    names = "abcde"[: X.shape[axis]]
    parts = run(f"[{', '.join(names)}] = unstack(x, axis = {axis})", x=X)
    for number, part in enumerate(parts):
        np.testing.assert_array_equal(part, X.take(number, axis))


SLICES = [
    # begin, end, stride, indices of a dimension of 7
    (1, 5, None, [1, 2, 3, 4]), (2, 0, None, [2, 3, 4, 5, 6]), (-3, 0, None, [4, 5, 6]),
    (1, -1, None, [1, 2, 3, 4, 5]), (0, 99, None, [0, 1, 2, 3, 4, 5, 6]), (-99, 3, None, [0, 1, 2]),
    (1, 0, 1, [1, 2, 3, 4, 5, 6]), (0, 6, 2, [0, 2, 4]), (1, 7, 3, [1, 4]), (6, -99, -7, [6]),
    (-1, 0, -1, [6, 5, 4, 3, 2, 1]), (-1, -99, -1, [6, 5, 4, 3, 2, 1, 0]), (5, 1, -2, [5, 3]),
    (99, 2, -1, [6, 5, 4, 3]),
    # the number of elements is rounded down (section 4.5.4)
    (0, 7, 2, [0, 2, 4]), (0, 5, 3, [0]), (6, 1, -2, [6, 4]),
    # no elements, also before the first and after the last one
    (3, 3, None, []), (-99, -99, -2, []), (7, 7, 1, []), (99, 99, -1, []), (2, 1, -2, []),
]  # fmt: skip


@pytest.mark.parametrize(("begin", "end", "stride", "indices"), SLICES)
def test_slice(run: Any, begin: int, end: int, stride: Any, indices: list[int]) -> None:
    x = np.arange(42, dtype="f").reshape(2, 7, 3)
    more = "" if stride is None else f", stride = [{stride}]"
    (y,) = run(f"y = slice(x, axes = [1], begin = [{begin}], end = [{end}]{more})", x=x)
    np.testing.assert_array_equal(y, x[:, indices])


def test_slice_of_several_dimensions(run: Any) -> None:
    text = "y = slice(x, axes = [3, 1], begin = [1, 2], end = [-1, -99], stride = [2, -1])"
    np.testing.assert_array_equal(run(text, x=X)[0], X[:, 2::-1, :, 1:3:2])
    (y,) = run("y = slice(x, axes = [], begin = [], end = [])", x=X)
    np.testing.assert_array_equal(y, X)


PADDINGS = [
    ((0, 0), (1, 2)),
    ((2, 1), (0, 1)),
    ((-1, 2), (1, -1)),
    ((-1, 0), (0, -2)),
    ((0, 0), (0, 0)),
]


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "reflect-even"])
def test_pad(run: Any, border: str, padding: Any) -> None:
    x = np.random.default_rng(1).random((3, 4)).astype("f")
    pairs = ", ".join(map(str, padding))
    (y,) = run(f"y = pad(x, padding = [{pairs}], border = '{border}', value = 1.5)", x=x)
    shape = [z + p + q for z, (p, q) in zip(x.shape, padding, strict=True)]
    expected = np.zeros(shape, "f")
    for i in itertools.product(*map(range, shape)):
        position = []
        for k, z, (p, _) in zip(i, x.shape, padding, strict=True):
            k -= p
            if border == "replicate":
                k = min(max(k, 0), z - 1)
            elif border == "reflect":
                k = -k if k < 0 else z - 1 - (k - z + 1) if k >= z else k
            elif border == "reflect-even":
                k = -k - 1 if k < 0 else z - 1 - (k - z) if k >= z else k
            position.append(k)
        inside = all(0 <= k < z for k, z in zip(position, x.shape, strict=True))
        expected[i] = x[tuple(position)] if inside else 1.5
    assert y.shape == expected.shape
    np.testing.assert_array_equal(y, expected)


def test_tile_and_gather(run: Any) -> None:
    x = X[:, :, 0]
    np.testing.assert_array_equal(
        run("y = tile(x, repeats = [2, 1, 3])", x=x)[0], np.tile(x, (2, 1, 3))
    )
    np.testing.assert_array_equal(run("y = tile(x, repeats = [1, 1, 1])", x=x)[0], x)
    index = np.int32([[2, 0], [1, 1]])
    np.testing.assert_array_equal(run("y = gather(x, i, axis = 1)", x=x, i=index)[0], x[:, index])
    np.testing.assert_array_equal(
        run("y = gather(x, i)", x=x[:, 0], i=index % 2)[0], x[index % 2, 0]
    )


def test_constants(run: Any) -> None:
    x = np.float32([[1, 2], [3, 4]])
    (y,) = run("c = constant(shape = [2, 2], value = [1.0, 2.0, 3.0, 5.0]); y = add(x, c)", x=x)
    np.testing.assert_array_equal(y, x + np.float32([[1, 2], [3, 5]]))
    (y,) = run("c = constant(shape = [1, 2], value = [0.5]); y = mul(x, c)", x=x)
    np.testing.assert_array_equal(y, x / 2)
    (y,) = run("c = constant<integer>(shape = [2], value = [1, 0]); y = gather(x, c)", x=x)
    np.testing.assert_array_equal(y, x[::-1])
