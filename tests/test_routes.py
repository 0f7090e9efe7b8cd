"""Whole models: the compiled routes agree with the evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"


@pytest.fixture(scope="module")
def alexnet() -> tuple[Any, Any, Any]:
    """AlexNet with generated weights, an image, and the evaluator's probabilities for it."""
    graph = tvm_nnef.compose(EXAMPLES / "alexnet")
    random = np.random.default_rng(7)
    variables = {}
    for tensor in graph.variables:
        volume = max(1, int(np.prod(tensor.shape[1:])))
        # He's deviation keeps the activations of a deep ReLU network in range.
        values = random.standard_normal(tensor.shape, dtype=np.float32) * np.sqrt(2 / volume)
        variables[tensor.name] = values.astype(np.float32)
    model = tvm_nnef.load_model(EXAMPLES / "alexnet", variables=variables)
    image = random.standard_normal((1, 3, 224, 224), dtype=np.float32)
    return model, image, tvm_nnef.evaluate(model, image)[0]


@pytest.mark.slow
@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_alexnet_agrees_with_the_evaluator(alexnet: tuple[Any, Any, Any], route: str) -> None:
    model, image, expected = alexnet
    (probabilities,) = tvm_nnef.build(model, route=route, progress=False)(image)
    assert probabilities.shape == (1, 1000)
    assert abs(float(probabilities.sum()) - 1) < 1e-4
    np.testing.assert_allclose(probabilities, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_digits_agree_with_the_evaluator(route: str) -> None:
    images = np.random.default_rng(3).uniform(0, 1, (4, 1, 8, 8)).astype(np.float32)
    options: dict[str, Any] = {"attributes": {"batch": 4}}
    (expected,) = tvm_nnef.evaluate(EXAMPLES / "digits", images, **options)
    executable = tvm_nnef.build(EXAMPLES / "digits", route=route, progress=False, **options)
    np.testing.assert_allclose(executable(images)[0], expected, rtol=1e-4, atol=1e-6)


def test_weights_may_stay_parameters() -> None:
    from tvm.relax.frontend import detach_params

    image = np.random.default_rng(4).uniform(0, 1, (1, 1, 8, 8)).astype(np.float32)
    module = tvm_nnef.from_nnef(EXAMPLES / "digits", keep_params_in_input=True)
    _, parameters = detach_params(module)
    assert len(parameters["main"]) == 8
    (expected,) = tvm_nnef.evaluate(EXAMPLES / "digits", image)
    np.testing.assert_allclose(
        tvm_nnef.build(module, progress=False)(image)[0], expected, rtol=1e-4, atol=1e-6
    )
