"""Quantized convolutions and products, and Fourier transforms: against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper = onnx.helper
Array = np.ndarray
RANDOM = np.random.default_rng(5)
KINDS = {"float32": 1, "float64": 11, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}


def bytes_of(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scales(*shape: int) -> Array:
    return (RANDOM.random(shape) / 100 + 0.01).astype("float32")


def model(
    operator: str, inputs: dict[str, Array], constants: dict[str, Array], result: str,
    order: str = "", opset: int = 20, **attributes: Any,
) -> Any:  # fmt: skip
    """A model of one node, whose operands are in an ``order``, or inputs first."""
    names = order.split() or [*inputs, *constants]
    node = helper.make_node(operator, ["" if n == "_" else n for n in names], ["y"], **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, KINDS[str(a.dtype)], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", KINDS[result], None)],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


ZERO, LEAST = np.uint8(117), np.int8(-3)
PAD: dict[str, Any] = {"pads": [1, 1, 2, 0]}
LINEAR = {"xs": np.float32(0.02), "xz": ZERO, "ws": np.float32(0.01), "wz": LEAST,
          "ys": np.float32(0.9), "yz": np.uint8(128)}  # fmt: skip
QUANTIZED = "x xs xz w ws wz ys yz"
INTEGERS: dict[str, tuple[Any, ...]] = {
    "product": ("MatMulInteger", (3, 7, 37), (37, 19), "x w xz wz", {}),
    "product of an odd depth": ("MatMulInteger", (1, 13), (13, 33), "x w xz wz", {}),
    "conv": ("ConvInteger", (2, 5, 9, 8), (11, 5, 3, 3), "x w xz wz", PAD),
    "conv, strided": ("ConvInteger", (1, 6, 9, 8), (4, 6, 2, 3), "x w xz wz", {"strides": [2, 3]}),
    "conv of groups": ("ConvInteger", (1, 6, 7, 8), (10, 3, 3, 3), "x w xz wz", PAD | {"group": 2}),
    "depthwise conv": ("ConvInteger", (1, 9, 7, 8), (9, 1, 3, 3), "x w xz wz", PAD | {"group": 9}),
    "pointwise conv": ("ConvInteger", (1, 17, 5, 7), (9, 17, 1, 1), "x w xz wz", {}),
    "linear product": ("QLinearMatMul", (5, 37), (37, 19), QUANTIZED, {}),
    "linear conv": ("QLinearConv", (1, 5, 9, 8), (11, 5, 3, 3), QUANTIZED, PAD),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INTEGERS)
def test_products_of_quantized_tensors_are_exact(name: str) -> None:
    operator, left, right, order, attributes = INTEGERS[name]
    x, w = bytes_of("uint8", *left), bytes_of("int8", *right)
    zero = {"wz": LEAST} if operator == "MatMulInteger" else {"wz": np.int8(0)}
    known = {key: {**LINEAR, **zero}[key] for key in order.split() if key not in "xw"}
    result = "int32" if "Integer" in operator else "uint8"
    made = model(operator, {"x": x}, {"w": w, **known}, result, order, **attributes)
    options = onnxruntime.SessionOptions()
    # Without it, sums of two products saturate on CPUs without dot products of bytes.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    (expected,) = session.run(None, {"x": x})
    converted = tvm_nnef.convert(made)
    np.testing.assert_array_equal(tvm_nnef.build(converted)(x)[0], expected)
    scheduled = run_phases(tvm_nnef.from_nnef(converted), resolve("native"), "graph", "schedule")
    strategies = {kernel.strategy for kernel in schedules.report(scheduled)}
    assert strategies <= {"cpu.register_tile", "cpu.elementwise", "cpu.parts"}


@pytest.mark.parametrize(
    ("dtype", "zero"), [("uint8", 0), ("uint8", 255), ("int8", -128), ("int8", 127)]
)
def test_products_of_the_max_and_min_are_exact(dtype: str, zero: int) -> None:
    limits = np.iinfo(dtype)
    x, w = (RANDOM.choice(np.array([limits.min, limits.max], dtype), s) for s in ((3, 65), (65, 9)))
    zeros = {"xz": np.array(zero, dtype), "wz": np.array(zero, dtype)}
    made = model("MatMulInteger", {"x": x}, {"w": w, **zeros}, "int32", "x w xz wz")
    expected = (x.astype("int64") - zero) @ (w.astype("int64") - zero)
    np.testing.assert_array_equal(tvm_nnef.build(tvm_nnef.convert(made))(x)[0], expected)


TRANSFORMS: dict[str, dict[str, Any]] = {
    "plain": {}, "one-sided": {"onesided": 1}, "inverse": {"inverse": 1},
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("size", "length"), [(1, 1), (13, 13), (16, 11), (9, 32)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_products(name: str, size: int, length: int, dtype: str) -> None:
    attributes = TRANSFORMS[name]
    x = RANDOM.standard_normal((3, size, 2, 1 if "onesided" in attributes else 2)).astype(dtype)
    made = model("DFT", {"x": x}, {"n": np.int64(length), "a": np.int64(1)}, dtype, **attributes)
    signal = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    function = np.fft.ifft if "inverse" in attributes else np.fft.fft
    expected = function(signal, length, 1)
    if "onesided" in attributes:
        expected = expected[:, : length // 2 + 1]
    (found,) = tvm_nnef.build(tvm_nnef.convert(made))(x)
    assert found.dtype == dtype
    accuracy = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, accuracy, accuracy)


def test_transforms_of_frames_are_one_sided_where_nothing_is_said() -> None:
    x = RANDOM.standard_normal((2, 61, 1)).astype("float32")
    window = np.hanning(16).astype("float32")
    made = model("STFT", {"x": x}, {"step": np.int64(7), "window": window}, "float32")
    (expected,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    converted = tvm_nnef.convert(made)
    (found,) = tvm_nnef.build(converted)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
