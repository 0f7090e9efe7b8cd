"""Formulas that count what they write, and ranges as indices: text to numbers on all routes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import tvm_nnef

DRAFT = """
operator positive { @input { x: real[n]; } @output { y: real[k|n]; }
    @lower { y[k,] = x[i,], i < n | x[i,] > 0.0; } }
operator where { @input { x: real[s..(d)]; } @output { index: int[d, k|(s * ..)]; }
    @lower { index[[0:d],k] = i, i < s | x[i..] != 0.0; } }
operator rows { @input { x: real[n,m]; } @output { y: real[k|n,m]; }
    @lower { y[k,[0:m]] = x[i,[0:m]], i < n | x[i,0] > 0.0; } }
"""
TOOLS = """
operator positive { @input { x: real[n]; } @output { y: real[k|n]; }
    @lower { y[k,] = x[i,], i < n | x[i,] > 0.0; } }
operator where { @input { x: real[s..(d)]; } @output { index: int[d, k|(s * ..)]; }
    @lower { index[:,k] = i, i < s | x[i..] != 0.0; } }
operator gather_nd { @input { data: real[s..(d)]; index: int[d,n]; } @output { y: real[n]; }
    @lower { y[i,] = data[index[:,i]..], i < n; } }
"""
DATA = np.array([[1, 0, -2], [0, 0, 3], [4, 5, 0], [-1, 2, 2]], np.float32)


def run(
    operators: str, inputs: str, outputs: str, body: str, *data: Any, route: Any = None
) -> tuple[Any, ...]:
    dialect: Literal["tools", "draft"] = "tools" if operators is TOOLS else "draft"
    blocks = f"@input {{ {inputs} }} @output {{ {outputs} }} @compose {{ {body} }}"
    text = f"{operators}graph G {{ {blocks} }}\n"
    if route is None:
        return tvm_nnef.evaluate(text, *data, dialect=dialect)
    return tvm_nnef.build(text, route=route, dialect=dialect, progress=False)(*data)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("route", [None, "mapped"])
@pytest.mark.parametrize("operators", [DRAFT, TOOLS], ids=["draft", "tools"])
def test_what_is_written_is_counted(operators: str, route: Any) -> None:
    for flat in (DATA.ravel(), -np.abs(DATA.ravel()), np.abs(DATA.ravel()) + 1):
        inputs = "x: real[12]; y: real[s|4,t|3];"
        body = "p = positive(x); w = where(y);"
        shaped = flat.reshape(4, 3)[:3]
        found = run(operators, inputs, "p: real; w: int;", body, flat, shaped, route=route)
        np.testing.assert_array_equal(found[0], flat[flat > 0])
        np.testing.assert_array_equal(found[1], np.stack(np.nonzero(shaped)))


@pytest.mark.parametrize("route", [None, "mapped"])
def test_a_statement_may_write_several_elements(route: Any) -> None:
    (found,) = run(DRAFT, "x: real[4,3];", "y: real;", "y = rows(x);", DATA, route=route)
    np.testing.assert_array_equal(found, DATA[DATA[:, 0] > 0])


@pytest.mark.parametrize("route", [None, "mapped"])
def test_counted_dimensions_go_on(route: Any) -> None:
    imports = "import math; import layout;\n" + DRAFT
    body = "p = positive(x); q = math.mul(p, p); y = layout.concat{axis=0}([p, q]);"
    flat = DATA.ravel()
    (found,) = run(imports, "x: real[12];", "y: real;", body, flat, route=route)
    kept = flat[flat > 0]
    np.testing.assert_array_equal(found, np.concatenate([kept, kept * kept]))


@pytest.mark.parametrize("route", [None, "mapped"])
def test_a_range_is_a_pack_of_indices(route: Any) -> None:
    index = np.array([[0, 3, 2], [0, 1, 1]], np.int32)
    inputs = "x: real[4,3]; i: int[2,3];"
    found = run(TOOLS, inputs, "y: real;", "y = gather_nd(x, i);", DATA, index, route=route)
    np.testing.assert_array_equal(found[0], DATA[index[0], index[1]])


def test_the_order_is_that_of_the_loops() -> None:
    operators = """
operator turned { @input { x: real[n,m]; } @output { y: real[k|n * m]; }
    @lower { y[k,] = x[i,j], j < m, i < n | x[i,j] > 0.0; } }
"""
    for route in (None, "mapped"):
        (found,) = run(operators, "x: real[4,3];", "y: real;", "y = turned(x);", DATA, route=route)
        np.testing.assert_array_equal(found, DATA.T[DATA.T > 0])


@pytest.mark.parametrize(("operator", "words"), [
    ("@output { y: real[k|n]; } @lower { y[k,] = x[[0:n],], i < 1; }", "pack of values"),
    ("@output { y: real[k + 1|n]; } @lower { y[k,] = x[i,], i < n; }",
     "does not count"),
    ("@output { y: real[~|n]; } @lower { y[i,] = x[i,], i < n; }", "does not count"),
    ("@output { y: real[k|n]; z: real[m|n]; } @lower { y[k,] = x[i,], i < n; z[m,] = 1.0, i < n; }",
     "not the one that is counted"),
    ("@output { y: real[n]; } @lower { y[[0:n],] = 1.0, i < n; }", "means several elements"),
])  # fmt: skip
def test_refused(operator: str, words: str) -> None:
    text = f"operator op {{ @input {{ x: real[n]; }} {operator} }}\n"
    targets = "y, ~" if "z:" in operator else "y"
    with pytest.raises(tvm_nnef.NnefError) as problem:
        run(text, "x: real[3];", "y: real;", f"{targets} = op(x);", np.ones(3, np.float32))
    assert words in str(problem.value)
