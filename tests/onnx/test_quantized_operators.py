"""Quantized operators of ONNX Runtime's own domain, against ONNX Runtime.

A result may differ by one code: a real in the middle of two codes is rounded either way, as the
reals before it are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

A, B, C = (0.02, 131), (0.03, 117), (0.05, 120)
"""Scales and zero points."""

POOL = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 0, 1]}
CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "QLinearAdd": (["a", *A, "b", *B, *C], {}),
    "QLinearMul": (["a", *A, "b", *B, *C], {}),
    "QLinearSigmoid": (["a", *A, 1 / 256, 0], {}),
    "QLinearLeakyRelu": (["a", *A, *C], {"alpha": 0.2}),
    "QLinearSoftmax": (["a", *A, 1 / 256, 0], {"opset": 13}),
    "QLinearSoftmax before opset 13": (["a", *A, 1 / 256, 0], {"opset": 12, "axis": 2}),
    "QLinearWhere": (["c", "a", *A, "b", *B, *C], {}),
    "QLinearConcat": ([*C, "a", *A, "d", *B], {"axis": 1}),
    "QLinearAveragePool": (["a", *A, *A], POOL),
    "QLinearGlobalAveragePool": (["a", *A, *A], {}),
    "QGemm": (["m", *A, "n", *B, "bias", *C], {"transB": 1}),
    "QGemm to reals": (["m", *A, "n", *B, "bias"], {"transB": 1, "alpha": 0.5}),
    "MatMulIntegerToFloat to reals": (["m", "o", 0.02, [0.1, 0.2], 131, 117, [3.0, -7.0]], {}),
    "MatMulIntegerToFloat without zero points, to reals": (["m", "o", [0.02], 0.03], {}),
    "DynamicQuantizeMatMul of reals": (["r", "o", [0.1, 0.2], 117, [3.0, -7.0]], {}),
    "DynamicQuantizeMatMul without a zero point, of reals": (["r", "o", 0.1], {}),
}
SHAPES = {
    "a": (2, 3, 4, 5),
    "b": (3, 1, 5),
    "c": (4, 5),
    "d": (2, 2, 4, 5),
    "m": (3, 8),
    "n": (4, 8),
    "o": (8, 2),
    "r": (2, 3, 8),
}
KINDS = {"c": onnx.TensorProto.BOOL, "r": onnx.TensorProto.FLOAT}


def exact_session(proto: Any, options: Any = None) -> Any:
    """A session of ONNX Runtime whose sums of bytes do not saturate on any CPU."""
    options = options or runtime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return runtime.InferenceSession(proto.SerializeToString(), options)


def model(name: str) -> Any:
    """A model of one operator; numbers become initializers."""
    given, attributes = CASES[name]
    initializers, inputs, names = [], [], []
    for position, item in enumerate(given):
        label = item if isinstance(item, str) else f"c{position}"
        if isinstance(item, str) and item != "bias":
            kind = KINDS.get(item, onnx.TensorProto.UINT8)
            inputs.append(onnx.helper.make_tensor_value_info(item, kind, SHAPES[item]))
        else:
            bias = np.array([300, -20, 7, 0], np.int32)
            number = np.array(item, np.uint8 if isinstance(item, int) else np.float32) if (
                item != "bias") else bias  # fmt: skip
            initializers.append(onnx.numpy_helper.from_array(number, label))
        names.append(label)
    made = onnx.helper.make_node(
        name.split()[0], names, ["y"], domain="com.microsoft", **attributes
    )
    reals = name.endswith("reals")
    output = onnx.helper.make_tensor_value_info("y", 1 if reals else 2, None)
    graph = onnx.helper.make_graph([made], "one", inputs, [output], initializers)
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_a_quantized_operator_agrees(name: str) -> None:
    proto = model(name)
    session = exact_session(proto)
    random = np.random.default_rng(2)
    feeds = {v.name: random.integers(0, 256, v.shape).astype(np.uint8)
             for v in session.get_inputs()}  # fmt: skip
    feeds |= {name: codes > 100 for name, codes in feeds.items() if name == "c"}
    feeds |= {name: codes / np.float32(99) - 1 for name, codes in feeds.items() if name == "r"}
    (expected,) = session.run(None, feeds)
    converted = tvm_nnef.convert(proto)
    compiled = tvm_nnef.build(converted, progress=False)
    for found in (compiled(*feeds.values())[0], tvm_nnef.evaluate(converted, *feeds.values())[0]):
        assert (np.asarray(found).dtype, found.shape) == (expected.dtype, expected.shape)
        allowed = 1e-5 if expected.dtype == np.float32 else 1
        wide = np.asarray(found, np.float64)
        np.testing.assert_allclose(wide, expected.astype(np.float64), rtol=1e-6, atol=allowed)


ROWS = ([0.1, 0.2, 0.3], [1, 2, 3])
COLUMNS = ([0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4])
CODES: dict[str, tuple[str, str, Any, Any, dict[str, int]]] = {
    "uint16": ("uint16", "float32", 0.01, 300, {}),
    "int16 that saturates": ("int16", "float32", 1e-4, -30, {}),
    "uint8 without a zero point": ("uint8", "float32", 0.01, None, {}),
    # A quotient by a power of two is the same, however many bits the division has.
    "int8 of float16": ("int8", "float16", 1 / 32, 3, {}),
    "uint4": ("uint4", "float32", 0.3, 3, {}),
    "int4 for each row": ("int4", "float32", *ROWS, {}),
    "int16 for each column": ("int16", "float32", *COLUMNS, {"axis": -1}),
    "uint16 of one scale in a list": ("uint16", "float32", [0.01], [7], {}),
    "uint16 of a dynamic dimension": ("uint16", "float32", *ROWS, {"axis": 1}),
}


def coded(name: str) -> Any:
    """A model of QuantizeLinear and DequantizeLinear of ONNX Runtime's domain."""
    dtype, real, scale, zero, attributes = CODES[name]
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(real))
    code = getattr(onnx.TensorProto, dtype.upper())
    values = {"s": np.array(scale, real)}
    if zero is not None:
        values["z"] = np.array(zero).astype(onnx.helper.tensor_dtype_to_np_dtype(code))
    nodes = [
        onnx.helper.make_node(operator, [x, *values], [y], domain="com.microsoft", **attributes)
        for operator, x, y in (("QuantizeLinear", "x", "q"), ("DequantizeLinear", "q", "y"))
    ]
    items = "n" if "dynamic" in name else 2
    x = onnx.helper.make_tensor_value_info("x", number, [items, 3, 4])
    # ONNX Runtime returns no codes of 4 bits to Python.
    kinds = {"y": number} if dtype.endswith("int4") else {"y": number, "q": code}
    outputs = [onnx.helper.make_tensor_value_info(*each, None) for each in kinds.items()]
    weights = [onnx.numpy_helper.from_array(value, key) for key, value in values.items()]
    graph = onnx.helper.make_graph(nodes, "codes", [x], outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CODES)
def test_codes_agree(name: str) -> None:
    proto = coded(name)
    x = np.random.default_rng(3).uniform(-4, 4, (2, 3, 4)).astype(CODES[name][1])
    expected = runtime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    converted = tvm_nnef.convert(proto, bounds=8)
    found = [tvm_nnef.evaluate(converted, x)]
    for route in ("mapped", "formula"):
        found.append(tvm_nnef.build(converted, route=route, progress=False)(x))
    for results in found:
        for ours, theirs in zip(map(np.asarray, results), expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


def quantized_lstm(directions: int, per_column: bool, **more: Any) -> Any:
    """A DynamicQuantizeLSTM as ``quantize_dynamic`` makes it of an LSTM."""
    random = np.random.default_rng(4)
    given = {"x": None, "w": (directions, 6, 20), "r": (directions, 5, 20)}
    scales = (directions, 20) if per_column else (directions,)
    values = {name: random.integers(-127, 128, shape).astype(np.int8)
              for name, shape in given.items() if shape}  # fmt: skip
    values["b"] = random.standard_normal((directions, 40)).astype(np.float32)
    for name in ("ws", "rs"):
        values[name] = (random.uniform(0.5, 1.5, scales) / 127).astype(np.float32)
    values |= {name: np.zeros(scales, np.int8) for name in ("wz", "rz")}
    names = ["x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"]
    node = onnx.helper.make_node(
        "DynamicQuantizeLSTM", names, ["y", "last_h", "last_c"], domain="com.microsoft",
        hidden_size=5, direction="bidirectional" if directions == 2 else "forward", **more,
    )  # fmt: skip
    state = [directions, "n", 5]
    inputs = [onnx.helper.make_tensor_value_info(name, 1, shape)
              for name, shape in (("x", ["time", "n", 6]), ("h", state), ("c", state))]  # fmt: skip
    outputs = [onnx.helper.make_tensor_value_info(name, 1, None) for name in node.output]
    weights = [onnx.numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = onnx.helper.make_graph([node], "lstm", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("directions", "per_column", "more"), [(1, False, {}), (2, True, {}), (1, True, {"clip": 0.2})]
)
def test_a_quantized_lstm_agrees(
    directions: int, per_column: bool, more: Mapping[str, float]
) -> None:
    proto = quantized_lstm(directions, per_column, **more)
    options = runtime.SessionOptions()
    # Each thread of ONNX Runtime quantizes its own part of a batch.
    options.intra_op_num_threads = 1
    session = exact_session(proto, options)
    converted = tvm_nnef.convert(proto, bounds=8)
    compiled = tvm_nnef.build(converted, progress=False)
    for time, batch in ((1, 1), (4, 3)):
        random = np.random.default_rng(time)
        shapes = ((time, batch, 6), (directions, batch, 5), (directions, batch, 5))
        feeds = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        expected = session.run(None, dict(zip("xhc", feeds, strict=True)))
        for found in (compiled(*feeds), tvm_nnef.evaluate(converted, *feeds)):
            for ours, theirs in zip(map(np.asarray, found), expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_one_element_is_dequantized_by_a_scale_of_one_element() -> None:
    inputs = [onnx.helper.make_tensor_value_info("x", 3, [1])]
    outputs = [onnx.helper.make_tensor_value_info("y", 1, [1])]
    weights = [onnx.numpy_helper.from_array(np.array([0.25], np.float32), "scale"),
               onnx.numpy_helper.from_array(np.array([3], np.int8), "zero")]  # fmt: skip
    made = onnx.helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["y"])
    graph = onnx.helper.make_graph([made], "one", inputs, outputs, weights)
    opset = onnx.helper.make_opsetid("", 18)
    model = tvm_nnef.convert(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8))
    assert tvm_nnef.evaluate(model, np.array([-5], np.int8))[0].tolist() == [-2.0]


@pytest.mark.slow
@pytest.mark.parametrize("group", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_quantized_convolution_in_groups_and_what_follows_agree(group: int) -> None:
    """Each sum after the convolution reads the one before it twice."""
    random = np.random.default_rng(5)
    weight = random.integers(-127, 128, (9, 6 // group, 3, 3)).astype(np.int8)
    values = {"w": weight, "ws": random.uniform(0.01, 0.02, 9).astype(np.float32),
              "wz": np.zeros(9, np.int8), "s": np.float32(0.02), "z": np.uint8(128),
              "bias": random.integers(-500, 500, 9).astype(np.int32)}  # fmt: skip
    names = ["x", "s", "z", "w", "ws", "wz", "s", "z", "bias"]
    nodes = [onnx.helper.make_node("QLinearConv", names, ["y0"], group=group, pads=[1] * 4)]
    for step in range(4):
        names = [f"y{step}", "s", "z", f"y{step}", "s", "z", "s", "z"]
        nodes.append(onnx.helper.make_node("QLinearAdd", names, [f"y{step + 1}"],
                                           domain="com.microsoft"))  # fmt: skip
    inputs = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 6, 5, 7])]
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, [1, 9, 5, 7])
               for name in ("y0", "y4")]  # fmt: skip
    weights = [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in values.items()]
    graph = onnx.helper.make_graph(nodes, "groups", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    x = random.integers(0, 256, (1, 6, 5, 7)).astype(np.uint8)
    expected = exact_session(proto).run(None, {"x": x})
    found = tvm_nnef.build(tvm_nnef.convert(proto), verify=True, progress=False)(x)
    for ours, theirs, allowed in zip(found, expected, (1, 16), strict=True):
        assert np.ptp(theirs) > 100
        np.testing.assert_allclose(np.asarray(ours, int), theirs.astype(int), atol=allowed, rtol=0)
