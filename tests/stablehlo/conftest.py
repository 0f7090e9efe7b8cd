"""Functions of JAX converted and run on our routes, against JAX itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef


def numpy_of(value: Any) -> Any:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


@pytest.fixture
def against_jax() -> Callable[..., tvm_nnef.Model]:
    """Checks a function's converted form, on the reference or compiled, against JAX."""
    import jax

    def check(
        function: Callable[..., Any],
        *arrays: Any,
        rtol: float = 1e-5,
        atol: float = 1e-6,
        compiled: bool = False,
    ) -> tvm_nnef.Model:
        jitted = jax.jit(function, keep_unused=True)
        model = tvm_nnef.load_model(jitted.lower(*arrays))
        expected = [np.asarray(each) for each in jax.tree.leaves(jitted(*arrays))]
        flat = [np.asarray(each) for each in jax.tree.leaves(arrays)]
        found = tvm_nnef.build(model)(*flat) if compiled else tvm_nnef.evaluate(model, *flat)
        results = [numpy_of(each) for each in found]
        assert len(results) == len(expected)
        for ours, theirs in zip(results, expected, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(
                ours.astype(np.float64), theirs.astype(np.float64), rtol=rtol, atol=atol
            )
        return model

    return check
