"""Weights of few bits in blocks, as exporters of language models write them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

ROWS, GATHERED = 48, 20


def model(operator: str, feeds: Mapping[str, Any], values: Mapping[str, Any], **more: Any) -> Any:
    """A model of one operator of com.microsoft, some of whose inputs may be left out."""
    names = [
        name if name in feeds or values[name] is not None else "" for name in (*feeds, *values)
    ]
    if operator == "GatherBlockQuantized":
        names[:2] = names[1::-1]
    node = onnx.helper.make_node(operator, names, ["y"], domain="com.microsoft", **more)
    given = {name: each for name, each in values.items() if each is not None}
    weights = [
        each if isinstance(each, onnx.TensorProto) else onnx.numpy_helper.from_array(each, name)
        for name, each in given.items()
    ]
    types = {n: onnx.helper.np_dtype_to_tensor_dtype(each.dtype) for n, each in feeds.items()}
    inputs = [
        onnx.helper.make_tensor_value_info(name, types[name], each.shape)
        for name, each in feeds.items()
    ]
    result = types.get("x", onnx.TensorProto.FLOAT)
    outputs = [onnx.helper.make_tensor_value_info("y", result, None)]
    graph = onnx.helper.make_graph([node], "weights", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def expected_of(proto: Any, feeds: Mapping[str, Any]) -> Any:
    return runtime.InferenceSession(proto.SerializeToString()).run(None, dict(feeds))[0]


def check(proto: Any, feeds: Mapping[str, Any], expected: Any, tolerance: float = 2e-6) -> None:
    """Compares all routes; the tolerance counts from the largest element."""
    converted = tvm_nnef.convert(proto)
    found = [tvm_nnef.evaluate(converted, *feeds.values())[0]]
    for route in ("mapped", "formula"):
        built = tvm_nnef.build(converted, route=route, verify=True, progress=False)
        found.append(np.asarray(built(*feeds.values())[0]))
    limit = tolerance * np.abs(expected).max()
    for each in found:
        assert each.dtype == expected.dtype
        np.testing.assert_allclose(each, expected, rtol=0, atol=limit)


def product(bits: int, block: int, depth: int = 96, **more: Any) -> tuple[Any, dict[str, Any]]:
    """A model with MatMulNBits, and what it is called with."""
    random, count = np.random.default_rng(bits + block), -(-depth // block)
    dtype = more.get("dtype", np.float32)
    zeros = {
        "packed": random.integers(0, 256, (ROWS, -(-count * bits // 8))).astype(np.uint8),
        "real": random.uniform(0, 2**bits, (ROWS, count)).astype(dtype),
    }
    values = {
        "b": random.integers(0, 256, (ROWS, count, block * bits // 8)).astype(np.uint8),
        "s": random.uniform(0.01, 0.02, (ROWS, count)).astype(dtype),
        "z": zeros.get(more.get("zeros", "")),
        "g": more.get("groups"),
        "bias": random.standard_normal(ROWS).astype(dtype) if more.get("bias") else None,
    }
    feeds = {"x": random.standard_normal((2, 3, depth)).astype(dtype)}
    attributes = {"N": ROWS, "K": depth, "bits": bits, "block_size": block}
    return model("MatMulNBits", feeds, values, **attributes), feeds


PRODUCTS: dict[str, dict[str, Any]] = {
    "2 bits": {"bits": 2, "block": 32},
    "4 bits": {"bits": 4, "block": 32, "bias": True},
    "8 bits": {"bits": 8, "block": 16},
    "2 bits, packed zeros": {"bits": 2, "block": 16, "zeros": "packed"},
    "4 bits, packed zeros": {"bits": 4, "block": 16, "zeros": "packed", "bias": True},
    "8 bits, packed zeros": {"bits": 8, "block": 32, "zeros": "packed"},
    "real zeros": {"bits": 4, "block": 32, "zeros": "real"},
    "a long block": {"bits": 4, "block": 256, "depth": 512, "zeros": "packed"},
    "half a block": {"bits": 4, "block": 32, "depth": 100},
    "groups that are blocks": {
        "bits": 4, "block": 32, "groups": np.arange(96, dtype=np.int32) * 5 % 96 // 32,
    },
    "any groups": {"bits": 4, "block": 32, "groups": np.arange(96, dtype=np.int32) % 7 % 3},
}  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [each if each == "4 bits" else pytest.param(each, marks=pytest.mark.slow) for each in PRODUCTS],
)
def test_a_product_with_codes_agrees(case: str) -> None:
    proto, feeds = product(**PRODUCTS[case])
    check(proto, feeds, expected_of(proto, feeds))


@pytest.mark.slow
def test_a_product_with_codes_agrees_in_float16() -> None:
    proto, feeds = product(4, 32, dtype=np.float16)
    check(proto, feeds, expected_of(proto, feeds), tolerance=1e-3)


@pytest.mark.slow
def test_zeros_follow_groups() -> None:
    """ONNX Runtime 1.32 reads packed zeros of other groups, so NumPy is the judge."""
    groups = np.arange(96, dtype=np.int32) * 5 % 96 // 32
    proto, feeds = product(4, 32, zeros="packed", groups=groups)
    values = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    codes, zeros = (
        np.stack([each % 16, each // 16], -1).reshape(ROWS, -1).astype(float)
        for each in (values["b"].reshape(ROWS, -1), values["z"])
    )
    weight = (codes - zeros[:, groups]) * values["s"][:, groups]
    check(proto, feeds, (feeds["x"] @ weight.T).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [0, 1])
def test_a_product_with_numbers_of_a_table_agrees(kind: int) -> None:
    random = np.random.default_rng(kind)
    values = {
        "b": random.integers(0, 256, ROWS * 90 // 2).astype(np.uint8),
        "s": random.uniform(0.01, 0.02, ROWS * 90 // 32).astype(np.float32),
    }
    feeds = {"x": random.standard_normal((3, 90)).astype(np.float32)}
    attributes = {"N": ROWS, "K": 90, "block_size": 32, "quant_type": kind}
    proto = model("MatMulBnb4", feeds, values, **attributes)
    check(proto, feeds, expected_of(proto, feeds))


@pytest.mark.parametrize(
    ("dtype", "shape", "along", "bits", "zeros"),
    [
        ("uint8", (GATHERED, 128), 1, 4, True),
        pytest.param("uint8", (GATHERED, 128), 1, 4, False, marks=pytest.mark.slow),
        pytest.param("uint8", (GATHERED, 128), 1, 8, True, marks=pytest.mark.slow),
        pytest.param("int4", (GATHERED, 64, 8), 1, 4, True, marks=pytest.mark.slow),
        pytest.param("uint4", (GATHERED, 8, 64), 2, 4, False, marks=pytest.mark.slow),
    ],
)
def test_rows_of_codes_agree(
    dtype: str, shape: tuple[int, ...], along: int, bits: int, zeros: bool
) -> None:
    random = np.random.default_rng(bits)
    counts = tuple(-(-size // 16) if axis == along else size for axis, size in enumerate(shape))

    def codes(name: str, shape: tuple[int, ...]) -> Any:
        if dtype == "uint8":
            packed = (*shape[:-1], -(-shape[-1] * bits // 8))
            return random.integers(0, 256, packed).astype(np.uint8)
        found = random.integers(0, 16, shape) - 8 * (dtype == "int4")
        number = getattr(onnx.TensorProto, dtype.upper())
        return onnx.helper.make_tensor(name, number, shape, found.reshape(-1))

    values = {
        "d": codes("d", shape),
        "s": random.uniform(0.01, 0.02, counts).astype(np.float32),
        "z": codes("z", counts) if zeros else None,
    }
    feeds = {"i": random.integers(-GATHERED, GATHERED, (2, 3))}
    attributes = {"block_size": 16, "gather_axis": 0, "quantize_axis": along}
    attributes |= {"bits": bits} if dtype == "uint8" else {}
    proto = model("GatherBlockQuantized", feeds, values, **attributes)
    check(proto, feeds, expected_of(proto, feeds))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 3}, "weights of 3 bits cannot be converted.*2, 4 or 8 bits"),
        ({"block_size": 24}, "'block_size' is 24.*16, 32, 64, 128 or 256"),
        ({"block_size": 64}, r"input 1 has the shape \[48, 3, 16\] instead of \[48, 64\]"),
        ({"N": 40}, r"input 1 has the shape \[48, 3, 16\] instead of \[40, 48\].*quantize again"),
        ({"K": 64}, "'K' is 64, and the rows of input 0 have 96"),
    ],
)
def test_attributes_that_do_not_fit_are_errors(change: Mapping[str, int], message: str) -> None:
    proto, _ = product(4, 32)
    for attribute in proto.graph.node[0].attribute:
        attribute.i = change.get(attribute.name, attribute.i)
    with pytest.raises(tvm_nnef.NnefError, match=f"(?s){message}"):
        tvm_nnef.convert(proto)


def dequantized_product(dtype: str, axis: int, zeros: bool) -> tuple[Any, np.ndarray]:
    """A product with a weight that DequantizeLinear makes, and the weight."""
    random = np.random.default_rng(axis)
    depth, columns, block = 96, 64, 32
    counts = (depth // block, columns) if axis == 0 else (depth, columns // block)
    low = -8 if dtype == "int4" else 0
    codes, zero = (random.integers(low, low + 16, shape) for shape in ((depth, columns), counts))
    scale = random.uniform(0.01, 0.02, counts).astype(np.float32)
    number = getattr(onnx.TensorProto, dtype.upper())
    weights = [
        onnx.helper.make_tensor("c", number, codes.shape, codes.reshape(-1)),
        onnx.numpy_helper.from_array(scale, "s"),
        *([onnx.helper.make_tensor("z", number, counts, zero.reshape(-1))] if zeros else []),
    ]
    names = [each.name for each in weights]
    nodes = [
        onnx.helper.make_node("DequantizeLinear", names, ["w"], axis=axis, block_size=block),
        onnx.helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    inputs = [onnx.helper.make_tensor_value_info("x", 1, ["n", depth])]
    outputs = [onnx.helper.make_tensor_value_info("y", 1, ["n", columns])]
    graph = onnx.helper.make_graph(nodes, "product", inputs, outputs, weights)
    opset = onnx.helper.make_opsetid("", 21)
    proto = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
    spread_zero, spread_scale = (np.repeat(each, block, axis) for each in (zero, scale))
    return proto, (codes - (spread_zero if zeros else 0)) * spread_scale.astype(float)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "axis", "zeros"),
    [("int4", 0, False), ("uint4", 0, True), ("int4", 1, True), ("uint4", 1, False)],
)
def test_a_product_of_a_dynamic_number_of_rows_agrees(dtype: str, axis: int, zeros: bool) -> None:
    """NumPy is the judge: ONNX Runtime is wrong for blocks along axis 0."""
    proto, weight = dequantized_product(dtype, axis, zeros)
    converted = tvm_nnef.convert(proto, bounds=64)
    built = tvm_nnef.build(converted, progress=False)
    for rows in (1, 3, 0, 20, 64):
        x = np.random.default_rng(rows).standard_normal((rows, 96)).astype(np.float32)
        np.testing.assert_allclose(np.asarray(built(x)[0]), x @ weight, rtol=1e-5, atol=1e-5)
        found = tvm_nnef.evaluate(converted, x)[0]
        np.testing.assert_allclose(found, x @ weight, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "axis", "zeros"), [("int4", 0, False), ("uint4", 0, True)])
def test_a_dequantized_weight_stays_codes(dtype: str, axis: int, zeros: bool) -> None:
    """In a product that sums over the blocks."""
    proto, _ = dequantized_product(dtype, axis, zeros)
    lowered = tvm_nnef.from_nnef(tvm_nnef.convert(proto, bounds=64))
    mod = run_phases(lowered, resolve("x86-64-v3"), "bind", "schedule")
    assert [kernel.strategy for kernel in schedules.report(mod)] == ["cpu.code_product"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="ONNX Runtime rounds otherwise there")
def test_activations_are_rounded_only_on_request() -> None:
    """Even if the model allows it; then the results are those of ONNX Runtime."""
    random, depth, columns = np.random.default_rng(3), 128, 80
    x = random.standard_normal((24, depth)).astype(np.float32)
    values = {
        "codes": random.integers(0, 256, (columns, depth // 32, 16), np.uint8),
        "scales": random.uniform(0.01, 0.02, (columns, depth // 32)).astype(np.float32),
    }
    more = {"K": depth, "N": columns, "bits": 4, "block_size": 32}
    protos = [
        model("MatMulNBits", {"x": x}, values, accuracy_level=level, **more) for level in (1, 4)
    ]
    exact, rounded = (expected_of(proto, {"x": x}) for proto in protos)
    assert not np.allclose(exact, rounded, atol=1e-3)
    for wanted, asked in ((exact, False), (rounded, True)):
        built = tvm_nnef.build(protos[1], int8_activations=asked, progress=False)
        np.testing.assert_allclose(built(x)[0], wanted, rtol=1e-5, atol=1e-5)
