"""``clip`` of RNN, GRU and LSTM: the inputs of the gates are limited, the cell state is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

Array = np.ndarray
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = ["Softsign", "ScaledTanh", "Affine", "Elu", "HardSigmoid", "LeakyRelu"]
TIME, BATCH, WIDTH, HIDDEN = 3, 2, 3, 4
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "RNN": ("RNN", "bidirectional", {}),
    "RNN, other activation": ("RNN", "reverse", {"activations": ["Softplus"]}),
    "GRU": ("GRU", "reverse", {}),
    "GRU, reset after the product": ("GRU", "bidirectional", {"linear_before_reset": 1}),
    "LSTM": ("LSTM", "forward", {}),
    "LSTM, both directions": ("LSTM", "bidirectional", {}),
    "LSTM, coupled gates": ("LSTM", "reverse", {"input_forget": 1}),
    "LSTM, other activations": (
        "LSTM", "bidirectional",
        {"activations": ACTIVATIONS, "activation_alpha": [0.7, 0.4, 0.3, 0.2, 0.1],
         "activation_beta": [0.6, 0.2, 0.3]},
    ),
}  # fmt: skip


def layer(make_model: Any, operator: str, clip: float, direction: str, **more: Any) -> Any:
    """A layer with all optional inputs, whose values are beyond the limits."""
    random = np.random.default_rng(len(direction))
    count, rows = 2 if direction == "bidirectional" else 1, GATES[operator] * HIDDEN
    shapes = {"w": (rows, WIDTH), "r": (rows, HIDDEN), "b": (2 * rows,), "h0": (BATCH, HIDDEN)}
    if operator == "LSTM":
        shapes |= {"c0": (BATCH, HIDDEN), "p": (3 * HIDDEN,)}
    weights = {name: (random.normal(size=(count, *shape)) * 2).astype(np.float32)
               for name, shape in shapes.items()}  # fmt: skip
    shape = [TIME, BATCH, WIDTH]
    if more.get("layout"):
        shape = [BATCH, TIME, WIDTH]
        weights |= {name: weights[name].swapaxes(0, 1) for name in ("h0", "c0")}
    names = ["x", "w", "r", "b", "", "h0", "c0", "p"]
    outputs = ["y", "h", "c"] if operator == "LSTM" else ["y", "h"]
    node = onnx.helper.make_node(
        operator, names if operator == "LSTM" else names[:6], outputs,
        hidden_size=HIDDEN, clip=clip, direction=direction, **more,
    )  # fmt: skip
    return make_model(
        [node], [("x", "f4", shape)], [(name, "f4", None) for name in outputs], weights
    )


def expected(proto: Any, x: Array) -> list[Array]:
    found: list[Array] = runtime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    return found


def sequence() -> Array:
    return (np.random.default_rng(1).normal(size=(TIME, BATCH, WIDTH)) * 2).astype(np.float32)


@pytest.mark.parametrize("name", CASES)
def test_the_gates_are_limited(name: str, make_model: Any) -> None:
    operator, direction, more = CASES[name]
    proto, x = layer(make_model, operator, 0.5, direction, **more), sequence()
    for ours, theirs in zip(tvm_nnef.evaluate(proto, x), expected(proto, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_gates_are_limited_with_the_batch_first(make_model: Any) -> None:
    # ONNX Runtime has the other layout alone.
    x = sequence()
    y, h, c = expected(layer(make_model, "LSTM", 0.5, "bidirectional"), x)
    proto = layer(make_model, "LSTM", 0.5, "bidirectional", layout=1)
    found = tvm_nnef.evaluate(proto, x.swapaxes(0, 1))
    theirs = (y.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1))
    for ours, each in zip(found, theirs, strict=True):
        np.testing.assert_allclose(ours, each, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_the_output_sees_the_whole_cell_state(route: Any, make_model: Any) -> None:
    weights = {"w": np.zeros((1, 4, 1)), "r": np.zeros((1, 4, 1)), "b": [[0, 0, 0, 0.3] + [0] * 4],
               "h0": np.zeros((1, 1, 1)), "c0": np.full((1, 1, 1), 4.0)}  # fmt: skip
    inputs = ["x", "w", "r", "b", "", "h0", "c0"]
    node = onnx.helper.make_node("LSTM", inputs, ["", "h", "c"], hidden_size=1, clip=0.5)
    proto = make_model(
        [node], [("x", "f4", [1, 1, 1])], [("h", "f4", None), ("c", "f4", None)],
        {name: np.asarray(value, np.float32) for name, value in weights.items()},
    )  # fmt: skip
    # All gates are sigmoid(0), and the limit of 0.5 is above the 0.3 of the new value.
    cell = 0.5 * 4 + 0.5 * np.tanh(0.3)
    x = np.zeros((1, 1, 1), np.float32)
    executable = tvm_nnef.build(proto, route=route, progress=False, cache=False)
    for h, c in (tvm_nnef.evaluate(proto, x), executable(x)):
        np.testing.assert_allclose([c.item(), h.item()], [cell, 0.5 * np.tanh(cell)], rtol=1e-6)


def test_a_negative_limit_is_an_error(make_model: Any) -> None:
    with pytest.raises(NnefError, match=r"its 'clip' is -1\.0"):
        tvm_nnef.convert(layer(make_model, "RNN", -1.0, "forward"))
