"""Long sums as two formulas: which are split, how, and that the two give what the one did."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.graph.formula import Constant, Formula
from tvm_nnef.graph.nodes import Operation
from tvm_nnef.lower.long_sums import LONGEST, in_parts


def model(lower: str, *, inputs: str = "x: real[s..];", output: str = "y: real[];",
          shapes: str = "x: real[100, 99];") -> str:  # fmt: skip
    """A model of one operator with the given blocks, on inputs of the given shapes."""
    names = ", ".join(part.partition(":")[0].strip() for part in shapes.split(";") if part.strip())
    return (
        f"operator q {{ @input {{ {inputs} }} @output {{ {output} }} @lower {{ {lower} }} }}\n"
        f"graph G {{ @input {{ {shapes} }} @output {{ y: real; }} @compose {{ y = q({names}); }} }}"
    )


def formula(lower: str, **more: str) -> Formula:
    (operation,) = tvm_nnef.compose(model(lower, **more)).operations
    assert isinstance(operation, Operation) and isinstance(operation.body, Formula)
    return operation.body


def lengths(made: Formula) -> list[int]:
    (statement,) = made.statements
    return [int(loop.extent.value) for loop in statement.loops if isinstance(loop.extent, Constant)]


PRODUCTS = {"inputs": "x: real[n, m]; w: real[m];", "output": "y: real[n];",
            "shapes": "x: real[3, 9000]; w: real[9000];"}  # fmt: skip
WHOLE: list[tuple[str, dict[str, str]]] = [
    ("y[] += x[i..], i < s;", {"shapes": f"x: real[{LONGEST}];"}),
    ("y[] >= x[i..], i < s;", {}),
    ("y[] *= x[i..], i < s;", {}),
    # an element of w is read for each row
    ("y[i,] += x[i,j] * w[j,], i < n, j < m;", PRODUCTS),
]


@pytest.mark.parametrize(("lower", "more"), WHOLE)
def test_stays_whole(lower: str, more: dict[str, str]) -> None:
    assert in_parts(formula(lower, **more)) is None


SPLIT: list[tuple[str, list[int], list[int]]] = [
    # the shape, the loops that make the parts, and those that add these up
    ("x: real[100, 99];", [100, 99], [100]),
    ("x: real[8192];", [64, 128], [64]),
    ("x: real[3, 3, 4096];", [3, 3, 16, 256], [3, 3, 16]),
    ("x: real[4099];", [65, 64], [65]),
    ("x: real[9000, 1, 2];", [75, 120, 1, 2], [75]),
]


@pytest.mark.parametrize(("shapes", "first", "second"), SPLIT)
def test_is_split_into_about_as_many_parts_as_a_part_has_elements(
    shapes: str, first: list[int], second: list[int]
) -> None:
    parts = in_parts(formula("y[] += x[i..], i < s;", shapes=shapes))
    assert parts is not None
    made, added = map(lengths, parts)
    assert sorted(made) == sorted(first)
    assert math.prod(added) == math.prod(second)
    assert parts[1].fills[0].value == Constant("real", 0.0)


RUNS: list[tuple[str, dict[str, str], Any]] = [
    ("y[] += x[i..] * x[i..], i < s;", {}, lambda x: (x * x).sum()),
    ("a = x[i..], y[] += a * a, i < s;", {}, lambda x: (x * x).sum()),
    ("y[] += x[i..], i < s | x[i..] > 0.5;", {}, lambda x: x[x > 0.5].sum()),
    ("y[] = 5.0; y[] += x[i..], i < s;", {}, lambda x: 5 + x.sum()),
    ("y[] = x[0,1]; y[] += x[i,j], i < n, j < m;",
     {"inputs": "x: real[n, m];", "shapes": "x: real[4099, 3];"}, lambda x: x[0, 1] + x.sum()),
    ("y[j,] += x[i,j], i < n, j < m;",
     {"inputs": "x: real[n, m];", "output": "y: real[m];", "shapes": "x: real[4099, 3];"},
     lambda x: x.sum(0)),
    ("y[] += x[i,j] * real(i + j), i < n, j < m;",
     {"inputs": "x: real[n, m];", "shapes": "x: real[4099, 3];"},
     lambda x: (x * (np.arange(4099)[:, None] + np.arange(3))).sum()),
]  # fmt: skip


@pytest.mark.parametrize(("lower", "more", "wanted"), RUNS, ids=[row[0] for row in RUNS])
def test_gives_the_same(lower: str, more: dict[str, str], wanted: Any) -> None:
    assert in_parts(formula(lower, **more)) is not None
    shape = (4099, 3) if more else (100, 99)
    x = np.random.default_rng(1).random(shape).astype(np.float32)
    (y,) = tvm_nnef.build(model(lower, **more), route="formula", progress=False)(x)
    np.testing.assert_allclose(y, wanted(np.float64(x)), rtol=3e-6)


def test_two_dimensions_are_summed_in_parts() -> None:
    """As in the mean of 5 x 372 x 3 elements: neither the rows nor the columns are few."""
    lower = "y[] += x[i,j,k], i < n, j < m, k < l;"
    more = {"inputs": "x: real[n, m, l];", "shapes": "x: real[5, 372, 3];"}
    x = np.random.default_rng(2).random((5, 372, 3)).astype(np.float32)
    (y,) = tvm_nnef.build(model(lower, **more), route="formula", progress=False)(x)
    np.testing.assert_allclose(y, np.float64(x).sum(), rtol=3e-6)
