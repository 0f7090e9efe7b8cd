"""Lanes that share a bfloat16: TVM cannot make a vector of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

OPERATOR = """
operator f {{
    @input {{ x: real[{extents}]; }}
    @output {{ y: real[{extents}]; }}
    @lower {{ {formula} }}
}}
graph G {{ @input {{ x: real[{shape}]; }} @output {{ y: real[~..]; }} @compose {{ y = f(x); }} }}
"""


@pytest.mark.parametrize(
    ("extents", "shape", "formula", "expected"),
    [
        pytest.param(
            *("s", "31", "y[i,] = 1.0, i < s; y[i,] += 0.5 * 2.0, i < s;"),
            lambda x: np.full_like(x, 2.0),
            id="constant",
        ),
        pytest.param(
            *("s", "~|90", "y[i,] = x[0,] + 1.0, i < s;"),
            lambda x: np.full_like(x, x[0] + 1.0),
            id="first element",
        ),
        pytest.param(
            *("s, t", "~|90, ~|90"),
            "y[i,j] = 0.0, i < s, j < t; y[i,j] >= 0.5 * y[i,|j - 4|], i < s, j < t;",
            np.zeros_like,
            id="recurrence",
        ),
    ],
)
def test_one_bfloat16_in_many_lanes(extents: str, shape: str, formula: str, expected: Any) -> None:
    text = OPERATOR.format(extents=extents, shape=shape, formula=formula)
    half = tvm_nnef.build(text, dtypes={"real": "bfloat16"}, progress=False)
    x = np.arange(31 ** (1 + shape.count(",")), dtype=np.float32) % 7
    x = x.reshape([31] * (1 + shape.count(",")))
    (y,) = half(x)
    np.testing.assert_array_equal(np.asarray(y, np.float32), expected(x))
