"""Accuracy of the functions of real numbers, in units of the last place."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from tvm import relax

FUNCTIONS = {
    "exp": (relax.op.exp, np.exp, 2),
    "log": (relax.op.log, np.log, 2),
    "sigmoid": (relax.op.sigmoid, scipy.special.expit, 3),
    "tanh": (relax.op.tanh, np.tanh, 6),
    "erf": (relax.op.erf, scipy.special.erf, 7),
    "root": (lambda x: relax.op.power(x, relax.const(0.75)), lambda x: np.power(x, 0.75), 3),
    "square": (lambda x: relax.op.power(x, relax.const(2.0)), np.square, 1),
}

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.72, 88.73, -88, -103, 1.0, -1.0, 1e-30, -1e-30]
SMALLEST = 2.0**-125


def arguments():
    """Numbers of all magnitudes, and of those that occur in networks."""
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**32, 1 << 16, dtype=np.uint64).astype("uint32")
    usual = generator.standard_normal(1 << 16) * 8
    everywhere = bits.view("float32")
    normal = everywhere[np.abs(everywhere) >= np.finfo("float32").tiny]
    return np.concatenate([normal, usual.astype("float32"), np.float32(SPECIAL)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(kernels, name, target):
    function, reference, units = FUNCTIONS[name]
    x = arguments()
    mod = kernels.scheduled(kernels.module(function, x.shape), target)
    found = kernels.run(mod, [x], target)
    exact = reference(x.astype("float64"))
    expected = exact.astype("float32")
    finite = np.isfinite(expected) & (np.abs(expected) >= SMALLEST)
    np.testing.assert_array_equal(found[~np.isfinite(expected)], expected[~np.isfinite(expected)])
    assert np.abs(found[~finite & np.isfinite(expected)]).max(initial=0) <= SMALLEST
    errors = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(expected[finite]))
    assert errors.max() <= units


@pytest.mark.parametrize("name", ["cosh", "sinh", "tan", "asin", "acos", "atan", "asinh", "atanh"])
def test_functions_that_llvm_has_no_vectors_of(kernels, name):
    x = np.linspace(-0.9, 0.9, 37).astype("float32")
    mod = kernels.scheduled(kernels.module(getattr(relax.op, name), x.shape))
    reference = getattr(np, name.replace("asin", "arcsin").replace("acos", "arccos").replace(
        "atan", "arctan"))  # fmt: skip
    np.testing.assert_allclose(kernels.run(mod, [x]), reference(x), rtol=1e-6, atol=1e-7)


def test_half_precision_is_computed_in_single(kernels):
    x = np.linspace(-3, 3, 45).astype("float16")
    mod = kernels.scheduled(kernels.module(relax.op.tanh, x.shape, dtype="float16"))
    np.testing.assert_allclose(kernels.run(mod, [x]), np.tanh(x), rtol=2e-3)
