"""Functions of JAX converted and run on our routes, against JAX itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")


@pytest.fixture
def against_jax() -> Callable[..., tvm_nnef.Model]:
    """Checks a function's converted form, with the reference or compiled, against JAX."""

    def check(
        function: Callable[..., Any],
        *arrays: Any,
        rtol: float = 1e-5,
        atol: float = 1e-6,
        compiled: bool = False,
    ) -> tvm_nnef.Model:
        jitted = jax.jit(function)
        model = tvm_nnef.load_model(jitted.lower(*arrays))
        expected = jax.tree.leaves(jitted(*arrays))
        run = tvm_nnef.build(model) if compiled else None
        flat = [np.asarray(each) for each in jax.tree.leaves(arrays)]
        found = run(*flat) if run else tvm_nnef.evaluate(model, *flat)
        results = list(found.values()) if isinstance(found, dict) else list(found)
        assert len(results) == len(expected)
        for ours, theirs in zip(results, expected, strict=True):
            theirs = np.asarray(theirs)
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
        return model

    return check
