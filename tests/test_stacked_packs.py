"""Packs whose length only a run tells: made, scanned, stacked, returned; evaluator and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

IMPORTS = "import math; import layout;\n"
MAKE = "ys = for v : x do..(n) math.add(v, 1.0);"  # 1, 2, 3 … as far as n says
ITEMS = [np.full(2, step, np.float32) for step in range(5)]


def agreeing(body: str, *data: Any, output: str = "real") -> Any:
    """The output of a graph, which all routes must give."""
    inputs = "x: real[2]..(5); n: int[]; m: int[];"
    text = (
        f"{IMPORTS}graph G {{ @input {{ {inputs} }} @output {{ z: {output}; }} "
        f"@compose {{ {MAKE} {body} }} }}\n"
    )
    given = (ITEMS, *(np.array(value, np.int32) for value in data))
    (found,) = tvm_nnef.evaluate(text, *given)
    (compiled,) = tvm_nnef.build(text, progress=False)(*given)
    np.testing.assert_array_equal(found, compiled)
    return found


SUM = "z = with s: real[2] = 0.0 for y : ys do math.add(s, y);"
TWICE = "zs = for y : ys do math.mul(y, 2.0); z = layout.stack{axis=0}(zs);"
WEIGHTED = (
    "zs = for y : ys do..(k -> m) { j = layout.cast<real>(k); w = math.mul(y, j); yield w; };"
    "z = layout.stack{axis=0}(zs);"
)
PAIRED = (
    "z = with s: real[2] = 0.0 for y : ys, v : x do "
    "{ a = math.mul(y, v); b = math.add(s, a); yield b; };"
)
UNTIL = (
    "z = with s: real[2] = 0.0 for y : ys while "
    "{ q = math.sum_reduce{axes=[0],squeeze=true}(s); c = math.lt(q, 5.0); yield c; } "
    "do math.add(s, y);"
)


@pytest.mark.parametrize(("body", "n", "m", "expected"), [
    (SUM, 3, 0, [6, 6]),
    (SUM, 0, 0, [0, 0]),
    (SUM, 5, 0, [15, 15]),
    (TWICE, 3, 0, [[2, 2], [4, 4], [6, 6]]),
    (TWICE, 0, 0, np.zeros((0, 2))),
    (WEIGHTED, 3, 2, [[0, 0], [2, 2]]),
    (WEIGHTED, 3, 7, [[0, 0], [2, 2], [6, 6]]),
    (PAIRED, 5, 0, [40, 40]),  # 1*0 + 2*1 + 3*2 + 4*3 + 5*4
    (UNTIL, 5, 0, [3, 3]),  # 2 and then 6 are the sums of [1, 1] and [3, 3]
    (UNTIL, 1, 0, [1, 1]),
    ("z = layout.stack{axis=1}(ys);", 3, 0, [[1, 2, 3], [1, 2, 3]]),
    ("z = layout.concat{axis=0}(ys);", 3, 0, [1, 1, 2, 2, 3, 3]),
    ("z = layout.concat{axis=0}(ys);", 0, 0, []),
])  # fmt: skip
def test_values(body: str, n: int, m: int, expected: Any) -> None:
    np.testing.assert_array_equal(agreeing(body, n, m), np.array(expected, np.float32))


def test_returned_as_one_tensor() -> None:
    found = agreeing("z = ys;", 2, 0, output="real[2]..")
    np.testing.assert_array_equal(found, [[1, 1], [2, 2]])


def test_packs_that_are_scanned_together_have_one_length() -> None:
    with pytest.raises(tvm_nnef.NnefError, match=r"different lengths \[5, 3\]"):
        agreeing(PAIRED, 3, 0)
