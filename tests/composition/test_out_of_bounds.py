"""Indices that are certainly out of bounds are errors of the model, and no others are."""

from __future__ import annotations

import pytest

import tvm_nnef
from tvm_nnef.diagnostics import Diagnostic


def errors(lower: str, x: str = "4", y: str = "4", inputs: str = "") -> list[Diagnostic]:
    """The errors of an operator from ``x: real[n]`` to ``y: real[m]`` and its invocation."""
    extra = ", k" if inputs else ""
    text = (
        f"operator f {{ @attrib {{ m: int = 4; }} @input {{ x: real[n]; {inputs} }}\n"
        f"@output {{ y: real[{'n' if y == x else 'm'}]; }} @lower {{ {lower} }} }}\n"
        f"graph G {{ @input {{ x: real[{x}]; {inputs.replace('p', '3')} }} @output {{ y: real; }}\n"
        f"@compose {{ y = f(x{extra}); }} }}\n"
    )
    found = tvm_nnef.check(text, dialect="draft")
    return [each for each in found if each.severity == "error"]


@pytest.mark.parametrize(("lower", "index", "reaches"), [
    ("y[i,] = x[i + 1,], i < n;", "i + 1", "4, and dimension 0 of 'x' has 4 elements"),
    ("y[i,] = x[i + 1000000000,], i < n;", "i + 1000000000", "1000000"),
    ("y[i,] = x[i - 1,], i < n;", "i - 1", "-1, and"),
    ("y[i,] = x[-i,], i < n;", "-i", "-1, and"),
    ("y[i,] = x[5,], i < n;", "5", "5, and"),
    ("y[i,] = x[n,], i < n;", "n", "4, and"),
    ("y[i,] = x[2 * i,], i < n;", "2 * i", "4, and"),
    ("y[i,] = x[(i * 1000000007) % 7,], i < n;", "(i * 1000000007) % 7", "6, and"),
    ("y[i,] = x[i / 2 + 3,], i < n;", "i / 2 + 3", "4, and"),
    ("y[i,] = x[(i << 2) + 2,], i < n;", "(i << 2) + 2", "4, and"),
    ("y[i,] += x[i + j,], i < n, j < n - i + 1;", "i + j", "4, and"),
    ("y[i,] += x[i + j - 1,], i < 3, j < 2;", "i + j - 1", "-1, and"),
    ("a = i + 1, y[i,] = x[a,], i < n;", "a", "4, and"),
    ("y[i,] = 0.0, i < n; y[i + 2,] := x[i,], i < n;", "i + 2", "4, and"),
    ("y[n - i,] = x[i,], i < n;", "n - i", "4, and"),
    # what is done about it does not suffice
    ("y[i,] = x[|i + 1 <> 0 : n|,], i < n;", "|i + 1 <> 0 : n|", "4, and"),
    ("y[i,] = x[|i - 1 <> i - 1 : 0|,], i < n;", "|i - 1 <> i - 1 : 0|", "-1, and"),
    ("y[i,] = x[i + 2,], i < n | i < n - 1;", "i + 2", "4, and"),
    ("y[i,] = x[i + 2,], i < n | i != 3;", "i + 2", "4, and"),
    ("y[i,] = i <= n - 1 ? x[i + 1,] : 0.0, i < n;", "i + 1", "4, and"),
    ("y[i,] = i == 3 ? x[i + 1,] : 0.0, i < n;", "i + 1", "4, and"),
    # conditions and other indices are evaluated as well
    ("y[i,] = 1.0, i < n | x[i + 1,] > 0.0;", "i + 1", "4, and"),
    ("y[i,] = 1.0, i < n | i > 9 || x[i + 1,] > 0.0;", "i + 1", "4, and"),
    ("y[i,] = x[int(x[i + 1,]),], i < n;", "i + 1", "4, and"),
])  # fmt: skip
def test_certainly_out_of_bounds(lower: str, index: str, reaches: str) -> None:
    (found,) = errors(lower)
    assert found.span is not None and found.span.text == index
    assert f"index '{index}' reaches {reaches}" in found.message
    assert found.hint is not None and found.notes[0].span is not None


@pytest.mark.parametrize("lower", [
    "y[i,] = x[|i + 1|,], i < n;",
    "y[|i + 1|,] = x[i,], i < n;",
    "y[i,] = x[|i + 1 <> 0 : n - 1|,], i < n;",
    "y[i,] = x[i + 1,], i < n | i < n - 1;",
    "y[i,] = x[i + 1,], i < n | i != 3;",
    "y[i,] = x[i + 1,], i < n | 2 * i + 1 < 7;",
    "y[i,] = i < n - 1 ? x[i + 1,] : 0.0, i < n;",
    "y[i,] = 0.0, i < n | i < n - 1 && x[i + 1,] > 0.0;",
    "y[i,] = 0.0, i < n | i >= n - 1 || x[i + 1,] > 0.0;",
    "y[i,] += x[i + j,], i < n, j < n - i;",
    "y[i,] = x[i / 2 + 2,], i < n;",
    "y[i,] = x[9,], i < n - 4;",
    # a step that another guard skips
    "y[i,] = x[|i + 1|,] * x[i + 1,], i < n;",
    # data-dependent
    "y[i,] = x[i + 1,], i < n | x[i,] > 0.0;",
    "y[i,] = x[i,] > 0.0 ? x[i + 1,] : 0.0, i < n;",
    "y[i,] = x[int(x[i,]),], i < n;",
])  # fmt: skip
def test_not_certainly_out_of_bounds(lower: str) -> None:
    assert errors(lower) == []


@pytest.mark.parametrize(("lower", "wrong"), [
    ("y[i,] = x[i + 1,], i < n;", True),
    ("y[i,] = x[i + 10,], i < n - 9;", True),
    ("y[i,] = x[i - n,], i < n;", True),
    ("y[i,] = x[n - i,], i < n;", True),
    ("y[i,] = x[n - 1 - i,], i < n;", False),
    # in bounds for some sizes
    ("y[i,] = x[3,], i < n;", False),
    ("y[i,] = x[2 * i,], i < n;", False),
    ("y[i,] = x[i + 4,], i < (n - 4 >> 0);", False),
])  # fmt: skip
def test_dynamic_dimensions_are_wrong_for_every_size(lower: str, wrong: bool) -> None:
    found = errors(lower, "~|20", "~|20")
    assert bool(found) == wrong
    assert all("x_0" in each.message for each in found)


@pytest.mark.parametrize(("lower", "wrong"), [
    ("y[i,] = x[i + 1,], i < n;", True),
    ("y[i,] = x[i + 11,], i < n | i < n - 10;", True),
    ("y[i,] = x[i + 10,], i < n | i < n - 10;", False),
    ("y[i,] = i >= 77 ? x[i - 78,] : 0.0, i < n;", True),
    ("y[i,] = i >= 77 ? x[i - 77,] : 0.0, i < n;", False),
    ("y[i,] += x[i * 1000 + j * 10 + k,], i < 1000, j < 100, k < 10;", False),
    ("y[i,] += x[i * 1000 + j * 10 + k,], i < 1000, j < 100, k < 11;", True),
])  # fmt: skip
def test_long_loops(lower: str, wrong: bool) -> None:
    assert bool(errors(lower, "1000000", "1000000")) == wrong


def test_all_indices_are_reported_each_once() -> None:
    found = errors("y[i,] = x[i + 1,] + x[i + 2,], i < n; y[i,] := x[i - 1,], i < n;")
    assert [each.span.text for each in found if each.span] == ["i + 1", "i + 2", "i - 1"]


def test_every_use_of_the_model_refuses() -> None:
    text = (
        "operator f { @input { x: real[n]; } @output { y: real[n]; }\n"
        "@lower { y[i,] = x[i + 1,], i < n; } }\n"
        "graph G { @input { x: real[4]; } @output { y: real[4]; } @compose { y = f(x); } }\n"
    )
    for use in (tvm_nnef.compose, tvm_nnef.from_nnef, tvm_nnef.build):
        with pytest.raises(tvm_nnef.NnefError, match="reaches 4"):
            use(text)


@pytest.mark.parametrize(
    "size", ["4611686018427387904", "3037000500,3037000500,2", "1099511627776,17"]
)
def test_tensors_that_are_too_large(size: str) -> None:
    text = (
        f"import math; graph G {{ @input {{ x: real[{size}]; }} @output {{ y: real[~..]; }}\n"
        "@compose { y = math.neg(x); } }\n"
    )
    (found,) = tvm_nnef.check(text)
    assert "too large" in found.message and found.span is not None
    with pytest.raises(tvm_nnef.NnefError, match="too large"):
        tvm_nnef.build(text)


def test_dynamic_tensors_that_are_too_large() -> None:
    text = (
        "import layout; graph G { @input { x: real[~|9]; } @output { y: real[~..]; }\n"
        "@compose { y = layout.tile{repeats=[4611686018427387904]}(x); } }\n"
    )
    (found,) = tvm_nnef.check(text)
    assert "too large" in found.message and found.path == "<text>" and found.line == 2
