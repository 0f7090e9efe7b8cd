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
    "tanh": (relax.op.tanh, np.tanh, 3),
    "erf": (relax.op.erf, scipy.special.erf, 7),
    "sin": (relax.op.sin, np.sin, 2),
    "cos": (relax.op.cos, np.cos, 2),
    "asin": (relax.op.asin, np.arcsin, 2),
    "acos": (relax.op.acos, np.arccos, 2),
    "atan": (relax.op.atan, np.arctan, 2),
    "root": (lambda x: relax.op.power(x, relax.const(0.75)), lambda x: np.power(x, 0.75), 3),
    "square": (lambda x: relax.op.power(x, relax.const(2.0)), np.square, 1),
}
TARGETS = ["native", {"kind": "llvm", "mcpu": "x86-64-v3"}, "llvm"]

SPECIAL = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 88.72, 88.73, -88, -103, -103.9, -104.1, 1.0, -1.0, 1e-30,
    -1e-30, 1e-45, -1e-45, 1.1754942e-38, 65536, 65537, -1e9, 3e38, 1.5707964, 3.1415927, 355,
]  # fmt: skip


def arguments():
    """Numbers of all magnitudes, subnormal ones too, and of those that occur in networks."""
    generator = np.random.default_rng(1)
    everywhere = generator.integers(0, 2**32, 1 << 16, dtype=np.uint64).astype("uint32")
    subnormal = everywhere[: 1 << 12] & np.uint32(0x807FFFFF)
    usual = generator.standard_normal(1 << 16) * 8
    unit = generator.uniform(-1, 1, 1 << 14)
    below = generator.uniform(-105, -86, 1 << 12)
    payload = np.uint32([0x7FC00001, 0xFFC001FF, 0x7FFFFFFF])
    return np.concatenate([
        *(bits.view("float32") for bits in (everywhere, subnormal, payload)),
        *(part.astype("float32") for part in (usual, unit, below)), np.float32(SPECIAL),
    ])  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", TARGETS, ids=["native", "avx2", "unknown"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(kernels, name, target):
    function, reference, units = FUNCTIONS[name]
    x = arguments()
    mod = kernels.scheduled(kernels.module(function, x.shape), target)
    found = kernels.run(mod, [x], target)
    exact = reference(x.astype("float64"))
    expected = exact.astype("float32")
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    errors = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(expected[finite]))
    assert errors.max() <= units


@pytest.mark.parametrize("name", ["sin", "tanh", "erf", "asin", "atan"])
def test_the_sign_of_zero_stays(kernels, name):
    x = np.float32([-0.0, 0.0] * 20)
    found = kernels.run(kernels.scheduled(kernels.module(FUNCTIONS[name][0], x.shape)), [x])
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))


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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", TARGETS, ids=["native", "avx2", "unknown"])
def test_remainders_are_exact(kernels, target):
    generator = np.random.default_rng(2)
    x = np.concatenate([arguments(), np.repeat(np.float32(SPECIAL), len(SPECIAL))])
    y = generator.standard_normal(x.size) * 10 ** generator.uniform(-9, 9, x.size)
    y = np.concatenate([y[: -(len(SPECIAL) ** 2)], np.tile(SPECIAL, len(SPECIAL))]).astype(
        "float32"
    )
    shapes = [x.shape, y.shape]
    made = kernels.scheduled(kernels.module(relax.op.mod, *shapes), target)
    expected = np.fmod(x, y)
    found = kernels.run(made, [x, y], target)
    np.testing.assert_array_equal(found, expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


LIMITS = np.iinfo("int32").min, np.iinfo("int32").max


@pytest.mark.parametrize("size", [1, 7, 16, 1000, 1009])
@pytest.mark.parametrize(
    ("function", "reference"),
    [(relax.op.floor_divide, np.floor_divide), (relax.op.floor_mod, np.remainder)],
    ids=["quotient", "remainder"],
)
def test_int32_divisions_have_vectors(kernels, function, reference, size):
    generator = np.random.default_rng(size)
    x = np.resize([*LIMITS, *generator.integers(*LIMITS, 990), *range(-9, 9)], size)
    y = np.resize([3, *LIMITS, *generator.integers(*LIMITS, 970), *range(1, 40)], size)
    y[y == 0] = 1
    x, y = x.astype("int32"), y.astype("int32")
    made = kernels.scheduled(kernels.module(function, x.shape, y.shape, dtype="int32"))
    assert kernels.strategies(made) == {"cpu.elementwise"}
    np.testing.assert_array_equal(kernels.run(made, [x, y]), reference(x, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", TARGETS, ids=["native", "avx2", "unknown"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_powers_of_two_are_exact(kernels, target, dtype):
    limits = np.iinfo(dtype)
    x = np.array([*range(-160, 140), 300, -300, limits.min, limits.max], dtype)

    def build(x):
        return relax.op.power(relax.const(2.0), relax.op.astype(x, "float32"))

    made = kernels.scheduled(kernels.module(build, x.shape, dtype=dtype), target)
    expected = np.ldexp(np.float32(1), np.clip(x, -400, 400).astype("int32"))
    np.testing.assert_array_equal(kernels.run(made, [x], target), expected)
