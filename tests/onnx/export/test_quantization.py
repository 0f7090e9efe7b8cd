"""Quantized models as QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tvm_nnef

TEXT = """
import nbits, nn, quant;
graph G {
    @input { x: real[2, 4, 5, 5]; }
    @variable {
        codes: int[6, 4, 3, 3]; scales: real[6, 1, 1, 1];
        sums: int[6]; steps: real[6];
    }
    @output { y: real; }
    @compose {
        bytes = nbits.unpack{bits=8, length=3}(codes);
        w = nbits.dequantize{blocks=[1, 4, 3, 3], zero=128.0}(bytes, scales);
        bias = nbits.dequantize{blocks=[1]}(sums, steps);
        z = nn.conv{padding=1}(x, w, bias);
        y = nn.relu(z);
    }
    @quantize {
        x: quant.zero_point_linear_quantize{zero_point=ZERO, scale=0.03, bits=8, signed=SIGNED};
        y: quant.zero_point_linear_quantize{zero_point=ZERO, scale=0.05, bits=8, signed=SIGNED};
    }
}
"""


@pytest.mark.parametrize(("zero", "signed"), [("120", "false"), ("-3", "true")])
def test_bytes_are_quantized_by_nodes(zero: str, signed: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {
        "codes": random.integers(1, 256, (6, 4, 3, 3)).astype("uint8"),
        "scales": random.uniform(0.001, 0.01, (6, 1, 1, 1)).astype("float32"),
        "sums": random.integers(-5000, 5000, 6).astype("int32"),
        "steps": random.uniform(1e-5, 1e-4, 6).astype("float32"),
    }
    variables = {f"main.G.{name}": array for name, array in arrays.items()}
    text = TEXT.replace("ZERO", zero).replace("SIGNED", signed)
    model = tvm_nnef.load_model(text, variables=variables)
    dtypes = {"main.G.codes": "uint8"}
    tvm_nnef.convert(model, tmp_path / "model.onnx", dtypes=dtypes)
    exported = onnx.load(tmp_path / "model.onnx")
    kinds = Counter(node.op_type for node in exported.graph.node)
    assert kinds["QuantizeLinear"] == 2
    assert kinds["DequantizeLinear"] == 4
    assert set(kinds) <= {"QuantizeLinear", "DequantizeLinear", "Conv", "Relu", "Reshape"}
    x = random.normal(0, 1, (2, 4, 5, 5)).astype("float32")
    expected = np.asarray(tvm_nnef.evaluate(model, x, dtypes=dtypes)[0])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(exported.SerializeToString(), options)
    steps = np.abs(session.run(None, {"x": x})[0] - expected) / 0.05
    # A real in the middle of two codes may get either.
    assert steps.max() <= 1.01
    assert (steps > 0.01).mean() <= 0.005
