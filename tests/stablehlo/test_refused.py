"""What cannot be converted is an error that names the operation and its location."""

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


def test_complex_constants_are_refused_as_such() -> None:
    with pytest.raises(tvm_nnef.UnsupportedError) as found:
        tvm_nnef.load_model(jax.jit(lambda x: (x * 1j).imag).lower(np.float32(2)))
    for each in found.value.diagnostics:
        assert "complex numbers cannot be converted" in each.message
        assert each.hint and "real and imaginary" in each.hint


def test_all_that_is_wrong_is_listed() -> None:
    def function(x: Any) -> Any:
        return jnp.linalg.eigh(x), jnp.fft.fft(x)

    with pytest.raises(tvm_nnef.NnefError) as found:
        tvm_nnef.load_model(jax.jit(function).lower(np.eye(2, dtype=np.float32)))
    assert len(found.value.diagnostics) >= 2


def test_what_is_refused_in_a_function_is_reported_once() -> None:
    type_ = "tensor<2xf32>"
    calls = [f"  %{name} = call @f(%a) : ({type_}) -> {type_}" for name in ("b", 0)]
    function = (
        f" func.func private @f(%a: {type_}) -> {type_} {{\n{CALL}\n return %0 : {type_}\n }}"
    )
    text = module("\n".join(calls)).removesuffix("}\n") + function + "\n}\n"
    with pytest.raises(tvm_nnef.NnefError, match="calls 'mine'") as found:
        tvm_nnef.load_model(text)
    assert len(found.value.diagnostics) == 1


def test_one_replica_joins_with_no_other() -> None:
    model = tvm_nnef.load_model(module(REDUCED.format("0", 1)))
    (found,) = tvm_nnef.evaluate(model, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found, [1, 2])


COLLECTIVES = {
    "all_gather": "all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>",
    "all_to_all": "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, "
    "replica_groups = dense<0> : tensor<1x1xi64>",
    "collective_broadcast": "replica_groups = dense<0> : tensor<1x1xi64>",
    "collective_permute": "source_target_pairs = dense<0> : tensor<1x2xi64>",
}


def collective(name: str, attributes: str) -> str:
    type_ = "(tensor<2xf32>) -> tensor<2xf32>"
    return module(f'  %0 = "stablehlo.{name}"(%a) {{{attributes}}} : {type_}')


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_of_one_replica_keep_their_operand(name: str) -> None:
    model = tvm_nnef.load_model(collective(name, COLLECTIVES[name]))
    (found,) = tvm_nnef.evaluate(model, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found, [1, 2])


def test_a_replica_that_is_sent_nothing_gets_zeros() -> None:
    pairs = "source_target_pairs = dense<> : tensor<0x2xi64>"
    model = tvm_nnef.load_model(collective("collective_permute", pairs))
    (found,) = tvm_nnef.evaluate(model, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found, [0, 0])


def test_replicas_that_send_to_each_other_are_refused() -> None:
    pairs = "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>"
    with pytest.raises(tvm_nnef.NnefError, match="sends between 2 replicas"):
        tvm_nnef.load_model(collective("collective_permute", pairs))


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


def test_complex_numbers_are_refused_operation_by_operation() -> None:
    body = (
        "  %0 = stablehlo.complex %a, %a : tensor<2xcomplex<f32>>\n"
        "  %1 = stablehlo.fft %a, type = RFFT, length = [2] : "
        "(tensor<2xf32>) -> tensor<2xcomplex<f32>>"
    )
    text = module(body).replace("return %0", "return %a")
    with pytest.raises(tvm_nnef.NnefError) as found:
        tvm_nnef.load_model(text)
    messages = [each.message for each in found.value.diagnostics]
    for message, name, line in zip(messages, ("complex", "fft"), (3, 4), strict=True):
        assert f'stablehlo.{name} at "-":{line}' in message


def test_every_operation_is_converted_or_refused() -> None:
    from jaxlib.mlir.dialects import _stablehlo_ops_gen as generated

    from tvm_nnef.converters.stablehlo.registry import standard

    names = {each.OPERATION_NAME for each in vars(generated).values()
             if hasattr(each, "OPERATION_NAME")}  # fmt: skip
    in_conversion = {f"stablehlo.{name}" for name in (
        "composite", "get_tuple_element", "return", "tuple")}  # fmt: skip
    assert names - set(standard()) == in_conversion


def test_arithmetic_on_integers_of_four_bits() -> None:
    x = np.ones((2, 2), np.float32)
    weights = jnp.array([[1, -8], [7, 3]], jnp.int4)
    kept = jax.jit(lambda x: x @ weights.astype(jnp.float32)).lower(x)
    (found,) = tvm_nnef.evaluate(tvm_nnef.load_model(kept), x)
    np.testing.assert_array_equal(found, [[8, -5], [8, -5]])
    wrapped = jax.jit(lambda x: x + (weights * weights).astype(jnp.float32)).lower(x)
    with pytest.raises(tvm_nnef.NnefError, match=r"multiply at .*computes in i4"):
        tvm_nnef.load_model(wrapped)


def test_elements_of_tuples() -> None:
    body = (
        "  %t = stablehlo.tuple %a, %a : tuple<tensor<2xf32>, tensor<2xf32>>\n"
        "  %0 = stablehlo.get_tuple_element %t[1] : "
        "(tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>"
    )
    (found,) = tvm_nnef.evaluate(tvm_nnef.load_model(module(body)), np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found, [1, 2])
