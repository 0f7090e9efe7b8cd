"""ONNX models exported to NNEF 1: linear resizing and quantization, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx: Any = pytest.importorskip("onnx")
ort: Any = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

Agrees = Callable[..., str]


def model_of(
    nodes: Sequence[Any],
    constants: Mapping[str, Any],
    shape: Sequence[int],
    out: Sequence[int],
    dtype: int = TensorProto.FLOAT,
) -> Any:
    """A model from ``x`` to ``y``."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", dtype, out)
    stored = [numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture
def agrees(tmp_path: Path) -> Agrees:
    """The text of the exported model, which gives what ONNX Runtime gives for the original."""

    def run(model: Any) -> str:
        shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
        x = (np.random.default_rng(0).standard_normal(shape) * 2).astype(np.float32)
        # Halves of the steps, and what is beyond all codes.
        x.reshape(-1)[:6] = [0.25, 0.75, -0.25, 1.25, -1e3, 1e3]
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        (expected,) = ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
        tvm_nnef.convert(model, tmp_path / "out.nnef1")
        for each in (model, tmp_path / "out.nnef1"):
            (found,) = tvm_nnef.evaluate(each, x)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        return (tmp_path / "out.nnef1" / "graph.nnef").read_text()

    return run


def resize(shape: Sequence[int], out: Sequence[int], by_size: bool, **attributes: Any) -> Any:
    if by_size:
        inputs, constants = ["x", "", "", "sizes"], {"sizes": np.array(out, np.int64)}
    else:
        inputs, constants = ["x", "", "scales"], {"scales": np.array(out, "f4") / np.array(shape)}
        constants["scales"] = constants["scales"].astype("f4")
    node = helper.make_node("Resize", inputs, ["y"], mode="linear", **attributes)
    return model_of([node], constants, shape, out)


SYMMETRIC = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
RESIZED = [
    *(((1, 2, 4, 3), (1, 2, 8, 9), mode, "multilinear_upsample")
      for mode in (*SYMMETRIC, "asymmetric", "align_corners")),
    ((3, 4), (6, 8), "half_pixel", "multilinear_upsample"),
    ((1, 2, 4, 3), (1, 2, 4, 6), "asymmetric", "multilinear_upsample"),
    ((1, 2, 4, 2), (1, 2, 8, 2), "align_corners", "multilinear_upsample"),
    *(((1, 2, 4, 6), (1, 2, 2, 3), mode, "area_downsample") for mode in SYMMETRIC),
    ((1, 2, 8, 6), (1, 2, 2, 3), "asymmetric", "nearest_downsample"),
]  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize(("shape", "out", "mode", "operation"), RESIZED)
def test_linear_resizing_by_whole_factors(
    shape: Sequence[int], out: Sequence[int], mode: str, operation: str, by_size: bool,
    agrees: Agrees,
) -> None:  # fmt: skip
    text = agrees(resize(shape, out, by_size, coordinate_transformation_mode=mode))
    changed = sum(a != b for a, b in zip(shape, out, strict=True))
    assert text.count(f"= {operation}(") == changed


def test_linear_resizing_of_other_factors_is_an_error(tmp_path: Path) -> None:
    cases = {
        "no reduction by 4 with such weights": resize((1, 1, 8, 8), (1, 1, 2, 8), True),
        "no reduction by 2 with such": resize((1, 1, 8, 8), (1, 1, 4, 8), True, antialias=1),
        "by whole factors only": resize((1, 1, 4, 4), (1, 1, 6, 4), True),
    }
    for message, model in cases.items():
        with pytest.raises(tvm_nnef.UnsupportedError, match=message) as caught:
            tvm_nnef.convert(model, tmp_path / "out.nnef1")
        assert len(caught.value.diagnostics) == 1


def test_linear_resizing_has_reasons(tmp_path: Path) -> None:
    text = """import image;
    graph G {{ @input {{ x: real[1, 1, 8, 8]; }} @output {{ y: real; }}
        @compose {{ y = image.linear_resize{{axes=[2, 3], size=[2, 2], {}}}(x); }} }}"""
    cases = {
        "antialias=true": "antialiasing",
        "antialias=false": r"linear reduction by \[4, 4\] with symmetric",
        "antialias=false, coordinate_transform='ALIGNED'": "with aligned coordinates",
    }
    for attributes, reason in cases.items():
        with pytest.raises(tvm_nnef.UnsupportedError, match=reason):
            tvm_nnef.convert(text.format(attributes), tmp_path / "out.nnef1")


def quantize(source: str, result: str, zero: str = "z", **attributes: Any) -> Any:
    inputs = [source, "s", zero] if zero else [source, "s"]
    return helper.make_node("QuantizeLinear", inputs, [result], **attributes)


def dequantize(source: str, result: str, zero: str = "z", **attributes: Any) -> Any:
    inputs = [source, "s", zero] if zero else [source, "s"]
    return helper.make_node("DequantizeLinear", inputs, [result], **attributes)


STEP = np.float32(0.5)
GENERATOR = np.random.default_rng(1)
WEIGHT = GENERATOR.integers(-128, 127, (4, 3, 3, 3)).astype(np.int8)
CONVOLUTION = [
    quantize("x", "q"), dequantize("q", "xf"),
    helper.make_node("DequantizeLinear", ["w", "ws"], ["wf"], axis=0),
    helper.make_node("DequantizeLinear", ["b", "bs"], ["bf"]),
    helper.make_node("Conv", ["xf", "wf", "bf"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
    helper.make_node("QuantizeLinear", ["r", "s2", "z2"], ["q2"]),
    helper.make_node("DequantizeLinear", ["q2", "s2", "z2"], ["y"]),
]  # fmt: skip
QUANTIZED: dict[str, tuple[Any, dict[str, Any], Sequence[int], Sequence[int]]] = {
    "uint8": ([quantize("x", "q"), dequantize("q", "y")],
              {"s": STEP, "z": np.uint8(128)}, (2, 3, 4), (2, 3, 4)),
    "int8": ([quantize("x", "q"), dequantize("q", "y")],
             {"s": STEP, "z": np.int8(-3)}, (2, 3, 4), (2, 3, 4)),
    "int16": ([quantize("x", "q"), dequantize("q", "y")],
              {"s": STEP / 64, "z": np.int16(5)}, (2, 3, 4), (2, 3, 4)),
    "without zero point": ([quantize("x", "q", ""), dequantize("q", "y", "")],
                           {"s": STEP}, (2, 3, 4), (2, 3, 4)),
    "channels": ([quantize("x", "q", axis=1), dequantize("q", "y", axis=1)],
                 {"s": np.array([0.5, 0.25, 1], "f4"), "z": np.array([0, 3, -5], np.int8)},
                 (2, 3, 4), (2, 3, 4)),
    "moved codes": ([quantize("x", "q"),
                     helper.make_node("Transpose", ["q"], ["t"], perm=[2, 1, 0]),
                     dequantize("t", "y")],
                    {"s": STEP, "z": np.uint8(128)}, (2, 3, 4), (4, 3, 2)),
    "weights": ([dequantize("w", "wf"), helper.make_node("MatMul", ["x", "wf"], ["y"])],
                {"w": GENERATOR.integers(0, 255, (4, 3)).astype(np.uint8), "s": np.float32(0.1),
                 "z": np.uint8(100)}, (2, 4), (2, 3)),
    "a convolution": (CONVOLUTION,
                      {"s": np.float32(0.05), "z": np.uint8(128), "w": WEIGHT,
                       "ws": np.array([0.01, 0.02, 0.005, 0.01], "f4"),
                       "b": GENERATOR.integers(-1000, 1000, 4).astype(np.int32),
                       "bs": np.float32(0.0005), "s2": np.float32(0.1), "z2": np.uint8(0)},
                      (1, 3, 6, 6), (1, 4, 4, 4)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", QUANTIZED)
def test_quantized_reals(case: str, agrees: Agrees) -> None:
    text = agrees(model_of(*QUANTIZED[case]))
    assert "<scalar>" in text


UNSUPPORTED: dict[str, tuple[Any, dict[str, Any], Sequence[int], Sequence[int], int]] = {
    "a quantized output": (
        [quantize("x", "y")], {"s": STEP, "z": np.uint8(0)}, (2, 6), (2, 6), TensorProto.UINT8,
    ),
    "products of integers": (
        [quantize("x", "q"), helper.make_node("MatMulInteger", ["q", "w"], ["y"])],
        {"s": STEP, "z": np.uint8(0), "w": np.ones((6, 2), np.uint8)}, (2, 6), (2, 2),
        TensorProto.INT32,
    ),
    "sums that wrap": (
        [quantize("x", "q"), helper.make_node("Add", ["q", "q"], ["t"]), dequantize("t", "y")],
        {"s": STEP, "z": np.uint8(0)}, (2, 6), (2, 6), TensorProto.FLOAT,
    ),
    "codes of fewer bits": (
        [quantize("x", "q"), helper.make_node("Cast", ["q"], ["c"], to=TensorProto.INT8),
         helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT)],
        {"s": STEP, "z": np.uint8(0)}, (2, 6), (2, 6), TensorProto.FLOAT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_integers_of_few_bits_are_an_error(case: str, tmp_path: Path) -> None:
    model = model_of(*UNSUPPORTED[case])
    message = "NNEF 1 has no integers of 8 or 16 bits"
    with pytest.raises(tvm_nnef.UnsupportedError, match=message) as caught:
        tvm_nnef.convert(model, tmp_path / "out.nnef1")
    assert message in caught.value.diagnostics[0].message
    assert not (tmp_path / "out.nnef1").exists()
