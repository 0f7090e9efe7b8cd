"""The networks of the ONNX test suite with random weights, compiled, against ONNX Runtime.

As they are shipped, all their weights are constants, which hides nearly every mistake. What is
compared is the input of the final softmax, which would saturate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MODELS = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
          "squeezenet")  # fmt: skip
"""The others, vgg19 and zfnet512, are large, and have no operator that AlexNet does not have."""


def _weight(name: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Weights that keep activations in range: He's for products, 1 and 0 for normalization."""
    if len(shape) > 1:
        deviation = np.sqrt(2.0 / np.prod(shape[1:]))
        return np.asarray(random.standard_normal(shape) * deviation, np.float32)
    around = 1.0 if any(part in name for part in ("var", "riv", "scale", "_s_", "_w_")) else 0.0
    return np.asarray(around + 0.1 * random.random(shape), np.float32)


def _randomized(name: str) -> Any:
    """The model with random weights instead of the constants that it makes, and its logits."""
    model, random = onnx.load(FOLDER / f"light_{name}.onnx"), np.random.default_rng(0)
    shapes = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    made = [node for node in model.graph.node if node.op_type == "ConstantOfShape"]
    for node in made:
        weight = _weight(node.output[0], tuple(shapes[node.input[0]]), random)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, node.output[0]))
        model.graph.node.remove(node)
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        shape = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
        del model.graph.output[:]
        model.graph.output.append(onnx.helper.make_tensor_value_info(last.input[0], 1, shape))
        model.graph.node.remove(last)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_network_agrees_with_onnxruntime(name: str) -> None:
    model = _randomized(name)
    session = runtime.InferenceSession(model.SerializeToString())
    (value,) = session.get_inputs()
    x = np.random.default_rng(1).standard_normal(value.shape).astype(np.float32)
    (expected,) = session.run(None, {value.name: x})
    (found,) = tvm_nnef.build(tvm_nnef.convert(model), progress=False)(x)
    scale = float(np.abs(expected).max())
    assert np.isfinite(scale)
    assert scale > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * scale)
