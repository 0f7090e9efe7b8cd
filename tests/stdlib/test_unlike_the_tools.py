"""Where Khronos's tools are known to fail, the specification holds, in both dialects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

RANDOM = np.random.default_rng(15)
X = (RANDOM.normal(size=(3, 5)) * 5).astype(np.float32)
OWN = "operator own { @input { x: real[s..]; } @output { y: real[s..]; } @lower { %s } }\n"
PADDED = {"REFLECT": "reflect", "REPLICATE": "edge", "SYMMETRIC": "symmetric"}
CASES: dict[str, tuple[str, str, Any]] = {
    "a fraction that a cast drops stays dropped": (
        "", "i = layout.cast<int>(x); y = layout.cast<real>(i);", np.trunc(X)),
    "so in a formula": (
        OWN % "y[i..] = real(int(x[i..])), i < s;", "y = own(x);", np.trunc(X)),
    "as many parts as an input says": (
        "", "ys..(n) = layout.split{axis=1, count=n}(x); y = layout.concat{axis=0}(ys);",
        X.T.reshape(15, 1)),
    **{
        f"{method} of a dynamic dimension": (
            "", f"y = layout.pad{{padding=[0, 2, 1, 3], method='{method}'}}(x);",
            np.pad(X, ((0, 1), (2, 3)), mode))
        for method, mode in PADDED.items()
    },
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
@pytest.mark.parametrize("dialect", ["draft", "tools"])
@pytest.mark.parametrize("name", CASES)
def test_the_specification_holds(name: str, dialect: str, route: Any) -> None:
    operators, components, expected = CASES[name]
    text = (
        f"# dialect: {dialect}\nimport layout;\n{operators}graph G {{ @input {{ x: real[3, n|9]; }}"
        f" @output {{ y: real; }} @compose {{ {components} }} }}\n"
    )
    if route == "reference":
        (y,) = tvm_nnef.evaluate(text, X)
    else:
        (y,) = tvm_nnef.build(text, route=route, progress=False)(X)
    np.testing.assert_array_equal(y, np.asarray(expected, np.float32))
