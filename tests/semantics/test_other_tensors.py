"""A formula that writes a tensor which is not an output: one error, which shows the way."""

from __future__ import annotations

import pytest

import tvm_nnef

TEXT = """
operator centred {{
    @input {{ x: real[n, c]; }}
    @output {{ y: real[n, c]; }}
    @lower {{
        {formulas}
        y[i, j] = (x[i, j] - mean[i,]) / `sqrt`(var[i,] + 1.0), i < n, j < c;
    }}
}}
graph G {{ @input {{ x: real[2, 3]; }} @output {{ y: real; }} @compose {{ y = centred(x); }} }}
"""
SUMS = """mean[i,] += x[i, j] / real(c), i < n, j < c;
        var[i,] += (x[i, j] - mean[i,]) * (x[i, j] - mean[i,]), i < n, j < c;"""


def test_one_error_for_all_tensors_that_are_not_outputs() -> None:
    (found,) = tvm_nnef.check(TEXT.format(formulas=SUMS))
    assert found.message == "'mean' is not an output, and a formula has no other tensors"
    assert found.span is not None and found.span.text == "mean"
    assert found.hint is not None
    assert "@output { mean: real[n]; }" in found.hint
    assert "@lower { mean[i,] += x[i, j] / real(c), i < n, j < c; }" in found.hint
    assert "'@compose'" in found.hint


def test_other_mistakes_are_reported_beside_it() -> None:
    found = tvm_nnef.check(TEXT.format(formulas=SUMS.replace("real(c)", "c")))
    assert [each.message.split()[0] for each in found] == ["'mean'", "the"]


def test_a_misspelt_output_is_a_name_that_is_not_defined() -> None:
    text = TEXT.format(formulas="").replace("y[i, j]", "yy[i, j]")
    text = text.replace("(x[i, j] - mean[i,]) / `sqrt`(var[i,] + 1.0)", "x[i, j]")
    assert "'yy' is not defined" in [each.message for each in tvm_nnef.check(text)]


def test_a_division_by_a_tensor_that_is_not_an_output_is_no_warning() -> None:
    found = tvm_nnef.check(TEXT.format(formulas=SUMS).replace("`sqrt`(var[i,] + 1.0)", "var[i,]"))
    assert [each.severity for each in found] == ["error"]


@pytest.mark.parametrize(
    "statement",
    [
        "m: real[n];",
        "real m[n];",
        "let m[i] += x[i], i < n;",
        "m += x[i], i < n;",
        "m: real = 0.0;",
    ],
)
def test_tensors_that_other_languages_declare(statement: str) -> None:
    text = "operator f { @input { x: real[n]; } @output { y: real[n]; } @lower { {} } }"
    (found,) = tvm_nnef.check(text.replace("{}", statement) + "\n")
    assert found.hint is not None and found.hint.startswith("a formula has no tensors but")
