"""Factorizations, random bits and bits of other types, against JAX on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")
jnp, lax = jax.numpy, jax.lax
algorithms = lax.RandomAlgorithm


def reals(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def positive_definite(*shape: int) -> Any:
    x = reals(*shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1], dtype=np.float32)


FACTORIZATIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "cholesky": (jnp.linalg.cholesky, positive_definite(2, 4, 4)),
    "upper": (lambda x: jnp.linalg.cholesky(x, upper=True), positive_definite(4, 4)),
    "not positive definite": (jnp.linalg.cholesky, np.diag(np.float32([1, 2, -1, 4]))),
    "gradient": (jax.grad(lambda x: jnp.linalg.cholesky(x).sum()), positive_definite(3, 3)),
    "solve": (lambda x: jnp.linalg.solve(x, x[:, :2] + 1), reals(4, 4)),
    "inverse": (jnp.linalg.inv, reals(4, 4)),
    "determinant": (jnp.linalg.det, reals(4, 4)),
    "wide": (lax.linalg.lu, reals(2, 3, 5)),
    "high": (lax.linalg.lu, reals(5, 3)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_factorizations(name: str, against_jax: Any) -> None:
    against_jax(*FACTORIZATIONS[name], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_factorization_compiled(against_jax: Any) -> None:
    against_jax(jnp.linalg.cholesky, positive_definite(2, 4, 4), rtol=1e-4, compiled=True)


SYSTEMS = list(itertools.product((True, False), repeat=4))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("left_side", "lower", "transpose_a", "unit_diagonal"), SYSTEMS)
def test_triangular_systems(
    left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool, against_jax: Any
) -> None:
    """The triangle that is not read holds NaN."""
    a = positive_definite(2, 3, 3)
    unused = np.triu(np.ones((3, 3)), 1) if lower else np.tril(np.ones((3, 3)), -1)
    a[:, unused > 0] = np.nan
    b = reals(2, 3, 4) if left_side else reals(2, 4, 3)

    def function(a: Any, b: Any) -> Any:
        return lax.linalg.triangular_solve(
            a, b, left_side=left_side, lower=lower, transpose_a=transpose_a,
            unit_diagonal=unit_diagonal,
        )  # fmt: skip

    against_jax(function, a, b, rtol=1e-4, atol=1e-5)


def test_operations_of_stablehlo_without_lapack() -> None:
    """JAX lowers to these operations for other devices."""

    def function(a: Any, b: Any) -> Any:
        factor = jnp.linalg.cholesky(a)
        return factor, lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)

    a, b = positive_definite(4, 4), reals(4, 2)
    exported = jax.export.export(jax.jit(function), platforms=["tpu"])(a, b)
    text = exported.mlir_module()
    assert "stablehlo.cholesky" in text and "stablehlo.triangular_solve" in text
    factor, solution = tvm_nnef.evaluate(tvm_nnef.load_model(exported), a, b)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(solution, np.linalg.solve(factor, b), rtol=1e-3, atol=1e-4)


SMALL, CARRY = [5, 6, 7, 8], [5, 6, 0xFFFFFFFE, 0xFFFFFFFF]
PHILOX, THREE_FRY = algorithms.RNG_DEFAULT, algorithms.RNG_THREE_FRY
BITS: list[tuple[Any, Any, tuple[int, ...], list[int]]] = [
    (PHILOX, np.uint8, (7,), SMALL), (PHILOX, np.uint32, (3, 5), CARRY),
    (THREE_FRY, np.uint32, (), SMALL), (THREE_FRY, np.uint32, (4, 3), CARRY),
    (THREE_FRY, np.uint8, (3, 5), SMALL),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("algorithm", "dtype", "shape", "state"), BITS)
def test_random_bits(
    algorithm: Any, dtype: Any, shape: tuple[int, ...], state: list[int], against_jax: Any
) -> None:
    def function(key: Any) -> Any:
        return lax.rng_bit_generator(key, shape, dtype=dtype, algorithm=algorithm)

    against_jax(function, np.array(state, np.uint32), rtol=0, atol=0)


@pytest.mark.slow
def test_random_numbers_of_other_generators(against_jax: Any) -> None:
    def draw(data: Any) -> Any:
        key = jax.random.fold_in(jax.random.wrap_key_data(data, impl="rbg"), 3)
        return jax.random.normal(key, (3,)), jax.random.key_data(jax.random.split(key))

    against_jax(draw, np.array([1, 2, 3, 4], np.uint32))


def test_seeds_that_are_constants(against_jax: Any) -> None:
    """Bits of constants are computed in their own type, which a literal does not have."""

    def draw(data: Any) -> Any:
        key = jax.random.fold_in(jax.random.wrap_key_data(data), np.uint32(4000000000))
        return jax.random.key_data(key), jax.random.bits(jax.random.key(7), (2,))

    against_jax(draw, np.array([1, 2], np.uint32))


VALUES = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1.0625, 1.1875, -3.3, 65519, 65520, 2**-14, 248, 247,
     2**-14 * (1 - 2**-12), 2**-14 * (1 - 1.5 * 2**-12), 2**-15, 2.0**-7 * 1.99, 3.4e38, 1e-39],
    np.float32,
)  # fmt: skip


@pytest.mark.parametrize("bits", [(5, 10), (4, 3), (8, 7), (8, 10), (5, 23), (8, 23), (2, 0)])
def test_reduced_precision(bits: tuple[int, int], against_jax: Any) -> None:
    values = VALUES[:-1] if bits[0] == 8 else VALUES  # XLA on CPUs may flush subnormal numbers
    against_jax(lambda x: lax.reduce_precision(x, *bits), values, rtol=0, atol=0)


@pytest.mark.slow
def test_precision_reduced_to_bfloat16_compiled(against_jax: Any) -> None:
    against_jax(lambda x: lax.reduce_precision(x, 8, 7), VALUES[:-1], rtol=0, atol=0, compiled=True)


CASTS = {
    "real to bytes": (np.float32([1.5, -2.25e-3, 3e30]), jnp.uint8),
    "bytes to real": (np.arange(12, dtype=np.uint8).reshape(3, 4), jnp.float32),
    "to bfloat16": (np.array([16256, 49152, 3], np.uint16), jnp.bfloat16),
    "short to long": (np.array([[1, -5], [7, 9]], np.int16), jnp.int32),
    "long to short": (np.array([-5, 1 << 30], np.int32), jnp.int16),
}


@pytest.mark.parametrize("name", CASTS)
def test_bits_as_another_type(name: str, against_jax: Any) -> None:
    x, dtype = CASTS[name]
    against_jax(lambda x: lax.bitcast_convert_type(x, dtype), x, rtol=0, atol=0)


def test_bits_of_bfloat16(against_jax: Any) -> None:
    x = np.float32([1.5, -2.25e-3, 3e30])
    against_jax(lambda x: lax.bitcast_convert_type(x.astype(jnp.bfloat16), jnp.uint16), x)
