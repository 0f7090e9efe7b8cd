"""Whole models: the digits, AlexNet's layers, and what Khronos converted from NNEF 1 and ONNX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.arguments.random_inputs import random_inputs
from tvm_nnef.diagnostics import NnefError

pytest.importorskip("onnx")

from tvm_nnef.converters.onnx.export import export

pytestmark = pytest.mark.sampled(3)

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT.parent / "shared" / "corpus"
MODELS = sorted(
    f"{path.parent.parent.name}/{path.parent.name}" for path in CORPUS.glob("*/*/ref_nnef2")
)
REFUSED: dict[str, str] = {}


def test_digits(exported: Callable[..., Any]) -> None:
    image = np.random.default_rng(0).uniform(size=(5, 1, 8, 8)).astype(np.float32)
    proto = exported(ROOT / "docs" / "examples" / "digits", image, attributes={"batch": 5})
    operators = [node.op_type for node in proto.graph.node]
    assert operators == [
        "Conv", "Relu", "MaxPool", "Conv", "Relu", "MaxPool", "Reshape", "Gemm", "Relu", "Gemm",
        "Softmax",
    ]  # fmt: skip


LAYERS = """import layer, nn, layout, quant;
graph G {
    @input { x: real[2,3,7,6]; }
    @output { y: real[2,5]; }
    @compose {
        c = layer.conv{channels=4, size=[3,3], padding=1}(x);
        n = layer.batch_norm{momentum=0.25}(c);
        d = layer.deconv{channels=2, size=[2,2], stride=2}(n);
        r = nn.relu(d);
        f = layout.flatten{axis=1}(r);
        y = layer.linear{channels=5}(f);
    }
    @quantize { c: quant.min_max_linear_quantize{min=-1.0, max=1.0, bits=6}; }
}
"""


def test_layers_with_variables_of_their_own_state_and_quantization(
    exported: Callable[..., Any],
) -> None:
    generator = np.random.default_rng(2)
    graph = tvm_nnef.compose(LAYERS)
    variables = {
        tensor.name: generator.uniform(0.1, 0.5, tensor.shape).astype(np.float32)
        for tensor in graph.variables
    }
    image = generator.normal(size=(2, 3, 7, 6)).astype(np.float32)
    proto = exported(LAYERS, image, variables=variables)
    states = [each.name for each in proto.graph.input][1:]
    assert states == ["main.G.n.running_mean", "main.G.n.running_variance"]


@pytest.mark.skipif(not MODELS, reason="no folder 'shared' beside the checkout")
@pytest.mark.parametrize("name", MODELS)
def test_corpus(name: str, exported: Callable[..., Any]) -> None:
    folder, model = name.split("/")
    loaded = tvm_nnef.load_model(CORPUS / folder / model / "ref_nnef2", dialect="tools")
    if name in REFUSED:
        with pytest.raises(NnefError, match=REFUSED[name]):
            export(tvm_nnef.compose(loaded), loaded.variables)
        return
    exported(loaded, *random_inputs(tvm_nnef.compose(loaded), 0))
