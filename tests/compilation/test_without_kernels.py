"""Models that compute nothing: built without a compiler, nvcc, and the headers of TVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm.libinfo

import tvm_nnef

X = np.arange(6, dtype="float32").reshape(2, 3)
EMPTY = "layout.slice{axes=[1], begin=[3], end=[3]}(x)"
CASES: dict[str, tuple[str, str, Any]] = {
    "an input": ("real[2, 3]", "y = x;", X),
    "a constant": ("real[2]", "y = layout.constant{shape=[2], value=[3.0, 4.0]}();", [3, 4]),
    "a variable": ("real[2, 3]", "y = v;", X + 1),
    "a shape": ("int[2]", "y = layout.shape(x);", [2, 3]),
    "no elements": ("real[2, 0]", f"s = {EMPTY}; y = math.exp(s);", np.zeros((2, 0))),
}


@pytest.mark.parametrize("target", ["native", "cuda", "vulkan"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_compiled(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kind, body, wanted = CASES[name]
    ports = f"@input {{ x: real[2, 3]; }} @output {{ y: {kind}; }} @variable {{ v: real[2, 3]; }}"
    text = f"import math; import layout; graph G {{ {ports} @compose {{ {body} }} }}"

    def missing(*_: object) -> None:
        raise AssertionError("the headers of TVM are not installed")

    monkeypatch.setattr(tvm.libinfo, "find_include_path", missing)
    monkeypatch.setenv("NVCC", "/no/such/nvcc")
    monkeypatch.setenv("PATH", str(tmp_path))
    variables = {"main.G.v": X + 1}
    executable = tvm_nnef.build(text, target, variables=variables, progress=False)
    executable.export(tmp_path / "model.tar")
    if target == "native":
        np.testing.assert_array_equal(executable(X)[0], wanted)
