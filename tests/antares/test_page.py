"""Every example of the syntax page against NumPy: evaluated, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import Model

from .examples import EXAMPLES, HELPERS, Example


def values(model: Model, name: str) -> list[Any]:
    """Values for the inputs of an example; indices are in the bounds of every example."""
    generator = np.random.default_rng(7)
    found: list[Any] = []
    for port in tvm_nnef.compose(model).inputs:
        shape = port.operand.shape
        dtype = model.machine_types[f"main.einstein.{port.name}"]
        if dtype == "float32":
            found.append(generator.uniform(-2, 2, shape).astype(dtype))
        else:
            found.append(generator.integers(0, 2 if dtype == "int8" else 5, shape).astype(dtype))
    if name == "DivNoNan":
        found[1][::3] = 0
    if name == "BatchNorm Inference":
        found[2] = np.abs(found[2])
    if "external" in name and "helper" in name:
        found[2:] = HELPERS
    return found


def check(found: Any, example: Example, given: list[Any]) -> None:
    expected = example.expected(*given)
    for got, want in zip(
        found, expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_an_example_means_what_numpy_computes(example: Example) -> None:
    model = tvm_nnef.load_model(example.text)
    assert tvm_nnef.check(model) == []
    given = values(model, example.name)
    check(tvm_nnef.evaluate(model, *given), example, given)
    check(tuple(tvm_nnef.build(model, progress=False, threads=1)(*given)), example, given)
