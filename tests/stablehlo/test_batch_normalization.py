"""Batch normalization, which JAX does not lower to, against XLA on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")


@pytest.mark.parametrize(("axis", "count"), [(1, 3), (2, 5)])
@pytest.mark.parametrize("name", ["inference", "training", "grad"])
def test_batch_normalization(name: str, axis: int, count: int) -> None:
    full, row = "tensor<4x3x5xf32>", f"tensor<{count}xf32>"
    operands = {
        "inference": [full, row, row, row, row], "training": [full, row, row],
        "grad": [full, row, row, row, full],
    }[name]  # fmt: skip
    results = [full] if name == "inference" else [full, row, row]
    names = [f"%a{k}" for k in range(len(operands))]
    typed = ", ".join(f"{one}: {type_}" for one, type_ in zip(names, operands, strict=True))
    out = ", ".join(results)
    values = ", ".join(f"%0#{k}" for k in range(len(results)))
    text = (
        f"module {{\n func.func @main({typed}) -> ({out}) {{\n"
        f'  %0:{len(results)} = "stablehlo.batch_norm_{name}"({", ".join(names)}) '
        f"{{epsilon = 0.01 : f32, feature_index = {axis} : i64}} : "
        f"({', '.join(operands)}) -> ({out})\n  return {values} : {out}\n }}\n}}\n"
    )
    random = np.random.default_rng(0)
    arrays: list[Any] = [
        random.uniform(0.1, 2, (4, 3, 5) if each == full else (count,)).astype(np.float32)
        for each in operands
    ]
    routes = ("reference", "jax")
    report = tvm_nnef.compare(text, *arrays, routes=routes, rtol=1e-4, atol=1e-4, progress=False)
    assert report.agrees
