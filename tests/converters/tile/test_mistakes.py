# ruff: noqa: E741 -- as the tutorial writes contractions and names
"""Mistakes in Tile functions: the position, the cause and a hint; hostile texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.tile import (
    TensorDim,
    TensorDims,
    TensorIndex,
    TensorIndexes,
    TensorOutput,
    convert,
    select,
    sqrt,
)
from tvm_nnef.diagnostics import NnefError

pytestmark = pytest.mark.sampled(3)


def two_writers(I):
    i, j = TensorIndexes(2)
    M, N = TensorDims(2)
    I.bind_dims(M, N)
    O = TensorOutput(M)
    O[i] = I[i, j]  # here
    return O


def repeated(I):
    K = TensorDim()
    i, j = TensorIndexes(2)
    I.bind_dims(K, K)  # here
    O = TensorOutput()
    O[()] += I[i, j]
    return O


def unbounded(I):
    i, j, k = TensorIndexes(3)
    O = TensorOutput(3)
    O[i] += I[i, j + k]  # here
    return O


def wrong_rank(I):
    M, N = TensorDims(2)
    I.bind_dims(M, N)
    i, j = TensorIndexes(2)
    Sum = TensorOutput()
    Sum[j] += I[i, j]  # here
    return Sum


def not_linear(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(3)
    O[i] += I[i * j, j]  # here
    return O


def inclusive(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(3)
    O[i] += I[i, j]
    O.add_constraint(j <= 2)  # here
    return O


def both_sides(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(3)
    O[i] += I[i, j]
    O.add_constraint(j < i)  # here
    return O


def true_division(I):
    M, N = TensorDims(2)
    I.bind_dims(M, N)
    O = TensorOutput(N / 2)  # here
    return O


def not_written(I):
    O = TensorOutput(3)  # here
    return O + I


def written_twice(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(3)
    O[i] += I[i, j]
    O[i] += I[j, i]  # here
    return O


def three_operands(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(3)
    O[i] += I[i, j] * I[i, j] * I[i, j]  # here
    return O


def mixed(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(3)
    O[i] += I[i, j] * 2  # here
    return O


def an_input_written(I):
    i, j = TensorIndexes(2)
    I[i, j] += I[j, i]  # here
    return I


def not_bound(I):
    N = TensorDim()
    i, j = TensorIndexes(2)
    O = TensorOutput(N)
    O[i] += I[i, j]  # here
    return O


def negative_size(I):
    M, N = TensorDims(2)
    I.bind_dims(M, N)
    i, j = TensorIndexes(2)
    O = TensorOutput(M - 5)
    O[i] += I[i, j]  # here
    return O


def no_broadcast(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(2)
    O[i] += I[i, j]
    P = O + I  # here
    return P


def other_branches(I):
    i, j = TensorIndexes(2)
    O = TensorOutput(4)
    O[j] += I[i, j]
    P = select(I < 0, I, O)  # here
    return P


def a_condition(I):
    if I > 0:  # here
        return I
    return -I


def a_python_error(I):
    return undefined + I  # type: ignore[name-defined] # here # noqa: F821


def an_array(I):
    return sqrt(np.ones(3))  # here


MISTAKES = [
    (two_writers, "more than once", "'\\+='"),
    (repeated, "'K' is 3, but dimension 1 of 'I' is 4", "shape"),
    (unbounded, "index 'j' has no", "constraint"),
    (wrong_rank, "'Sum' has 0 dimensions, but 1 indices", "O\\[\\(\\)\\]"),
    (not_linear, "linear", "number"),
    (inclusive, "'index expression < size'", "j < 2"),
    (both_sides, "on its left side only", "i - k < N"),
    (true_division, "sizes are integers", "//"),
    (not_written, "'O' is not written", "\\+="),
    (written_twice, "'O' is written twice", "output"),
    (three_operands, "at most two", "intermediate"),
    (mixed, "combined by", "their own statements"),
    (an_input_written, "'I' is not an output", "TensorOutput"),
    (not_bound, "size 'N' is not known", "bind_dims"),
    (negative_size, "dimension 0 of output 'O' is -2", "size"),
    (no_broadcast, "do not broadcast", "equal or 1"),
    (other_branches, "the branches of 'select'", "same shape"),
    (a_condition, "not known while the function is traced", "select"),
    (a_python_error, "NameError", "traced"),
    (an_array, "takes tensors, not a ndarray", "no indices"),
]


@pytest.mark.parametrize(("function", "message", "hint"), MISTAKES)
def test_a_mistake_in_a_function_is_reported_at_its_line(
    function: Callable[..., Any], message: str, hint: str
) -> None:
    with pytest.raises(NnefError, match=message) as caught:
        convert(function, input_shapes={"I": (3, 4)})
    (found,) = caught.value.diagnostics
    lines, first = inspect.getsourcelines(function)
    expected = first + next(i for i, line in enumerate(lines) if "# here" in line)
    if function is negative_size:
        expected -= 1
    assert (found.path, found.line) == (__file__, expected)
    assert found.hint is not None
    assert np.any([part in found.hint for part in hint.replace("\\", "").split("|")])


def text(body: str) -> str:
    return f"Tensor f(const Tensor& I) {{\n  TensorDim M, N; TensorIndex i, j;\n{body}\n}}\n"


TEXTS = [
    ("  auto O = TensorOutpt(3); return O;", (3, 12), "there is no function or tensor"),
    ("  I.bind_dims(M, N)\n  return I;", (4, 3), "unexpected 'return'"),
    ("  Partial = -I;\n return Partial;", (3, 3), "'Partial' is not declared"),
    ("  I.bind_dims(M, M); return -I;", (3, 3), "'M' is 3, but dimension 1 of 'I' is 4"),
    ("  auto O = TensorOutput(3);\n  O(i) = I(i, j);\n  return O;", (4, 3), "more than once"),
    ("  auto O = TensorOutput(3);\n  O(i) += I(i, i * j);\n  return O;", (4, 16), "linear"),
    ("  return I[0];", (3, 11), "not a vector"),
    ("  return 3;", (1, 8), "returns the number 3"),
    ("  auto O = -I;", (1, 8), "returns nothing"),
    ("  size_t x = 1 / 0; return I;", (3, 14), "division by zero"),
    ("  return select(I, I);", (3, 10), "does not take 2 arguments"),
    ("  return I + i;", (3, 10), "'add' takes tensors"),
    ("  return I % 2;", (3, 10), "'%' takes numbers and sizes"),
    ("  std::vector<TensorDim> X(2); I.bind_dims(X[2], N); return I;", (3, 45), "no item 2"),
    ("  if (I) { return I; } return -I;", (3, 7), "a condition of the text is a number"),
    ("  return {I, I};", (3, 10), "unexpected '{'"),
    ("  auto O = M ? I : -I; return O;", (3, 14), "unexpected '?'"),
    ("  std::vector<TensorDim> X(2); I.bind_dims(X); return I;", (3, 32), "not a list"),
    ('  system("ls"); return I;', (3, 10), "unexpected"),
]


@pytest.mark.parametrize(("body", "position", "message"), TEXTS)
def test_a_mistake_in_a_text_has_line_and_column(
    body: str, position: tuple[int, int], message: str
) -> None:
    with pytest.raises(NnefError) as caught:
        convert(text(body), input_shapes={"I": (3, 4)})
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert (found.line, found.column) == position
    assert found.hint


SEVERAL = """Tensor f(const Tensor& I, const Tensor& J) {
  TensorDim M, N; TensorIndex i, j, k;
  I.bind_dims(M, N);
  J.bind_dims(M, M);  // here
  auto A = TensorOutput(M);
  A(i) += I(i, i * j);  // here
  auto B = TensorOutput(M);
  B(i) = I(i, j);  // here
  auto C = -Q;  // here
  auto D = C + A;
  auto E = TensorOutput(N);
  E(j) <= I(i, j);
  E.add_constraint(j <= 2);  // here
  auto F = TensorOutput(N);
  F(j) <= I(i, j + k);
  F.add_constraint(k < 2);
  for (int n = 0; n < 3; ++n) { B = B + Z; }  // here
  return D + E * F - B + J;
}
"""

SYNTAX = """Tensor f(const Tensor& I) {
  TensorDim M, N P;  // here
  auto A = TensorOutput(M;  // here; }
  A(i) += I(i, j) B(i);  // here
  return {A, A};  // here
}
"""


@pytest.mark.parametrize("source", [SEVERAL, SYNTAX])
def test_independent_statements_are_reported_at_once(source: str) -> None:
    lines = [n for n, line in enumerate(source.splitlines(), 1) if "// here" in line]
    with pytest.raises(NnefError) as caught:
        convert(source, input_shapes={"I": (3, 4), "J": (3, 5)})
    assert [each.line for each in caught.value.diagnostics] == lines
    assert all(each.hint for each in caught.value.diagnostics)


def test_independent_shapes_of_a_function_are_reported_at_once() -> None:
    def several(I):
        i, j = TensorIndexes(2)
        M, N = TensorDims(2)
        I.bind_dims(M, N)
        O, P = TensorOutput(M), TensorOutput(M)
        O[i] = I[i, j]  # '=' of several values
        P[i, j] += I[i, j]  # two indices
        return O + I, P * 2

    with pytest.raises(NnefError) as caught:
        convert(several, input_shapes={"I": (3, 4)})
    first = several.__code__.co_firstlineno
    assert [each.line for each in caught.value.diagnostics] == [first + 5, first + 6]


HOSTILE = {
    "brackets": "Tensor f(Tensor I) { return " + "(" * 100_000,
    "blocks": "Tensor f(Tensor I) " + "{" * 100_000,
    "recursion": "Tensor f(Tensor I) { return f(" * 1 + "f(" * 25 + "I" + ")" * 26 + "; }",
    "loop": text("  for (size_t k = 0; k < 1; k += 0) { }\n  return I;"),
    "numbers": text("  size_t x = 9;\n  for (size_t k = 0; k < 1; x *= x) { }\n  return I;"),
    "sizes": text(
        "  I.bind_dims(M, N);\n  for (int k = 0; k < 99; ++k) { M = M * N; }\n  return I / M;"
    ),
    "terms": text("  return I" + " + I" * 15_000 + ";"),
    "vector": text("  std::vector<TensorDim> X(1000000000);\n  return I;"),
    "length": text("//" + "x" * (1 << 20)),
    "digits": text("  size_t x = " + "9" * 10_000 + ";\n  return I;"),
    "bytes": b"Tensor f(const Tensor& I) { return \xff\xfe; }",
    "tensors": text("  auto A = I; for (size_t k = 0; k < 5000; ++k) { A = -A; }\n  return A;"),
    "modulo": text("  size_t x = 1 % 0;\n  return I;"),
    "no vector": text("  std::vector<size_t> x = 1;\n  return I;"),
    "subtraction": text("  auto O = TensorOutput(3);\n  O(i) -= I(i, j);\n  return O;"),
    "comparison": text("  size_t x = M < N;\n  return I;"),
}  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_with_a_diagnostic(source: Any) -> None:
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(source, format="tile", input_shapes={"I": (3, 4)})
    (found,) = caught.value.diagnostics
    assert found.hint


def test_an_elimination_that_explodes_is_refused() -> None:
    def dense(I):
        indices = TensorIndexes(12)
        O = TensorOutput(3)
        O[sum(k * i for k, i in enumerate(indices, 1))] += I[indices[0], indices[1]]
        for k in range(40):
            O.add_constraint(sum((k * n * 7919 % 13 - 6) * i for n, i in enumerate(indices)) < 9)
        return O

    with pytest.raises(NnefError, match="too expensive"):
        convert(dense, input_shapes={"I": (3, 4)})


def test_an_index_object_may_be_used_in_several_contractions() -> None:
    def twice(I):
        i, j = TensorIndex(), TensorIndex()
        O, P = TensorOutput(3), TensorOutput(4)
        O[i] += I[i, j]
        P[i] += I[j, i]
        return O, P

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    o, p = tvm_nnef.evaluate(convert(twice, input_shapes={"I": (3, 4)}), x)
    np.testing.assert_allclose(o, x.sum(1))
    np.testing.assert_allclose(p, x.sum(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arguments": {"s": 1}}, "no parameter 's'"),
        ({"input_shapes": {"J": (3, 4)}}, "the model has no input 'J'"),
        ({"bounds": {"Q": 3}}, "no dimension or result is named 'Q'"),
        ({"input_shapes": {"I": (3, 4, 5)}}, "has 3 dimensions"),
    ],
)
def test_options_that_do_not_fit_are_reported(options: Any, message: str) -> None:
    for source in (wrong_rank, text("  I.bind_dims(M, N); return -I;")):
        with pytest.raises(NnefError, match=message):
            convert(source, **options)
