"""What cannot be converted is an error that names the operation and where it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")
jnp = jax.numpy


def module(body: str, type_: str = "tensor<2xf32>") -> str:
    return (
        f"module {{\n func.func @main(%a: {type_}) -> {type_} {{\n{body}\n"
        f" return %0 : {type_}\n }}\n}}\n"
    )


REDUCED = (
    '  %0 = "stablehlo.all_reduce"(%a) ({{\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n'
    "   %s = stablehlo.add %x, %y : tensor<f32>\n   stablehlo.return %s : tensor<f32>\n  }})"
    " {{replica_groups = dense<[[{}]]> : tensor<1x{}xi64>}} : (tensor<2xf32>) -> tensor<2xf32>"
)
CALL = "  %0 = stablehlo.custom_call @mine(%a) : (tensor<2xf32>) -> tensor<2xf32>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (module(REDUCED.format("0, 1", 2)), 'all_reduce at "-":3:.*joins 2 replicas'),
        (module(CALL), "custom_call at .*calls 'mine'(.|\n)*converters={'mine': function}"),
        (module("  %0 = call @main(%a) : (tensor<2xf32>) -> tensor<2xf32>"), "nested deeper"),
        ("module {\n}\n", "has no function 'main'"),
        ("module {\n", "not a StableHLO module"),
        (module('  %0 = "stablehlo.foo"(%a) : (tensor<2xf32>) -> tensor<2xf32>'), "stablehlo.foo"),
        (module("  %0 = stablehlo.negate %a : tensor<2xcomplex<f32>>", "tensor<2xcomplex<f32>>"),
         "complex numbers"),
    ],
)  # fmt: skip
def test_modules_that_cannot_be_converted(text: str, expected: str) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=expected):
        tvm_nnef.load_model(text)


def test_all_that_is_wrong_is_listed() -> None:
    def function(x: Any) -> Any:
        return jnp.linalg.cholesky(x), jnp.fft.fft(x)

    with pytest.raises(tvm_nnef.NnefError) as found:
        tvm_nnef.load_model(jax.jit(function).lower(np.eye(2, dtype=np.float32)))
    assert len(found.value.diagnostics) >= 2


def test_one_replica_joins_with_nobody() -> None:
    model = tvm_nnef.load_model(module(REDUCED.format("0", 1)))
    (found,) = tvm_nnef.evaluate(model, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found, [1, 2])


def test_a_custom_call_is_converted_by_a_function_of_the_user() -> None:
    def doubled(operation: Any, builder: Any) -> Any:
        return builder.binary("math.mul", operation.inputs[0], 2.0)

    model = tvm_nnef.load_model(module(CALL), converters={"mine": doubled})
    (found,) = tvm_nnef.evaluate(model, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found, [2, 4])


@pytest.mark.parametrize("data", [b"ML\xefR", b"ML\xefR\rStableHLO_v1.15\0\1\2\3", b"\0ML\xefR"])
def test_damaged_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(tvm_nnef.NnefError):
        tvm_nnef.load_model(data)
