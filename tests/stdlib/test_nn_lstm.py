"""The recurrent operators of module nn against NumPy, and against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import tvm_nnef

RANDOM = np.random.default_rng(6)


def real(*shape: int) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def step(h: Any, c: Any, x: Any, w: Any, r: Any, b: Any) -> tuple[Any, Any]:
    """The next state of one item, of gates in the order input, forget, cell, output."""
    i, f, g, o = np.split(np.float64(w) @ x + np.float64(r) @ h + b, 4)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return expit(o) * np.tanh(c), c


def lstm(x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, steps: Sequence[int]) -> Any:
    """Item after item, each as many steps as it has; as many outputs as the longest one makes."""
    h, c = np.float64(h), np.float64(c)
    y = np.zeros((*x.shape[:2], h.shape[1]))
    for item, count in enumerate(steps):
        for n in range(min(count, len(x))):
            h[item], c[item] = step(h[item], c[item], x[n, item], w, r, b)
            y[n, item] = h[item]
    return y[: max([0, *steps])], h, c


def weights(channels: int, size: int) -> tuple[Any, Any, Any]:
    return real(4 * size, channels), real(4 * size, size), real(4 * size)


def case(s: int, b: int, channels: int, n: int, steps: Any = None, state: bool = True) -> Any:
    """A case of nn.lstm, with a number of steps for each item, or none."""
    x, parts = real(s, b, channels), weights(channels, n)
    h, c = (real(b, n), real(b, n)) if state else (np.zeros((b, n)), np.zeros((b, n)))
    expected = lstm(x, *parts, h, c, [s] * b if steps is None else steps)
    given = [h, c] if state else [None, None]
    counts = None if steps is None else np.array(steps, np.int32)
    return "nn.lstm", {}, [x, *parts, *given, counts], expected


def loop(s: int, b: int, channels: int, n: int, steps: int | None) -> Any:
    """A case of nn.lstm_loop, with one number of steps for all, or none."""
    x, parts, h, c = real(s, b, channels), weights(channels, n), real(b, n), real(b, n)
    expected = lstm(x, *parts, h, c, [s if steps is None else steps] * b)
    count = None if steps is None else np.array(steps, np.int32)
    return "nn.lstm_loop", {}, [x, *parts, h, c, count], expected


@pytest.mark.slow
def test_lstm_agrees_with_numpy(agree: Any) -> None:
    h, c, x, parts = real(3, 2), real(3, 2), real(3, 4), weights(4, 2)
    pairs = [step(np.float64(p), np.float64(q), r, *parts) for p, q, r in zip(h, c, x, strict=True)]
    once = np.stack([p for p, _ in pairs]), np.stack([q for _, q in pairs])
    agree(
        [
            ("nn.lstm_step", {}, [h, c, x, *parts], once),
            case(5, 3, 4, 2),
            case(5, 3, 4, 2, state=False),
            case(1, 1, 1, 1),
            case(4, 1, 2, 3, steps=[2]),
            # fewer, none at all, all, more than there are
            case(5, 4, 3, 2, steps=[2, 0, 5, 9]),
            case(5, 2, 3, 2, steps=[3, 1], state=False),
            # no item makes all steps, or any
            case(6, 3, 2, 2, steps=[2, 4, 0]),
            case(3, 2, 2, 1, steps=[0, 0]),
            case(3, 2, 2, 1, steps=[-1, 1]),
            loop(4, 2, 3, 2, None),
            loop(4, 2, 3, 2, 3),
            loop(4, 2, 3, 2, 0),
            loop(4, 2, 3, 2, 7),
        ]
    )


TEXT = """import nn;
graph G {
    @input { X: real[6, 3, 4]; h: real[3, 5]; c: real[3, 5]; k: int[3]; }
    @output { Y: real; H: real; C: real; }
    @variable { W: real[20, 4]; R: real[20, 5]; B: real[20]; }
    @compose { Y, H, C = nn.lstm(X, W, R, B, h, c, k); }
}
"""


@pytest.mark.parametrize("steps", [[6, 6, 6], [4, 6, 1], [2, 3, 1]])
def test_lstm_agrees_with_onnxruntime(steps: list[int]) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    x, h, c = real(6, 3, 4), real(3, 5), real(3, 5)
    w, r, b = weights(4, 5)
    counts = np.array(steps, np.int32)
    # ONNX has the gates in the order input, output, forget, cell
    order = np.arange(20).reshape(4, 5)[[0, 3, 1, 2]].ravel()
    given = {
        "X": x, "W": w[None, order], "R": r[None, order],
        "B": np.concatenate([b[order], np.zeros(20)])[None].astype(np.float32),
        "k": counts, "h": h[None], "c": c[None],
    }  # fmt: skip
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("LSTM", list(given), ["Y", "H", "C"], hidden_size=5)],
        "judge",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in given.items()
        ],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "YHC"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, given)
    variables = {"main.G.W": w, "main.G.R": r, "main.G.B": b}
    found = tvm_nnef.evaluate(TEXT, x, h, c, counts, variables=variables)
    outputs = wanted[0][: max(steps), 0]
    for actual, expected in zip(found, (outputs, wanted[1][0], wanted[2][0]), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_dynamic_lstm_with_steps() -> None:
    """The number of steps, the batch and the length are all known at run time only."""
    text = (
        "import nn; graph G { @input { X: real[s|6, b|3, 2]; W: real[8, 2]; R: real[8, 2]; "
        "B: real[8]; k: int[b]; } @output { Y: real[~|6, b, 2]; H: real[b, 2]; } "
        "@compose { Y, H, ~ = nn.lstm(X, W, R, B, ~, ~, k); } }\n"
    )
    parts = weights(2, 2)
    exe = tvm_nnef.build(text, progress=False)
    for s, steps in ((4, [1, 3]), (6, [2, 2, 9]), (1, [0])):
        given = real(s, len(steps), 2), *parts, np.array(steps, np.int32)
        y, h, _ = lstm(given[0], *parts, *np.zeros((2, len(steps), 2)), steps)
        for found in (exe(*given), tvm_nnef.evaluate(text, *given)):
            np.testing.assert_allclose(found[0], y, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found[1], h, rtol=1e-5, atol=1e-6)


def test_lstm_refuses_weights_that_do_not_fit(rejected: Any) -> None:
    inputs = {"x": real(3, 2, 4), "w": real(8, 4), "r": real(8, 2), "b": real(8), "v": real(6, 4)}
    words = "which is not '4 * n' for any 'n'"
    rejected(inputs, "nn.lstm(x, v, r, b)", words, (0.0, 0.0, 0.0))
