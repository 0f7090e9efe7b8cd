"""Module layer: the operators of module nn with their own variables, and their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tvm_nnef

RANDOM = np.random.default_rng(8)
ROUTES = ("reference", "formula", "mapped")


def real(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(low, high, shape).astype(np.float32)


X = real(2, 4, 5, 3)
ROWS = real(3, 5)
SOLID = real(1, 2, 3, 4, 3)
LOST = X.copy()
LOST[0, 0, 1, 1], LOST[1, 2, 3, 0], LOST[1, 3, 4, 2] = np.nan, np.inf, -np.inf

# The name after `layer.`, the same with nn.*, and the shapes of the variables.
CASES: dict[str, tuple[Any, str, str, dict[str, tuple[int, ...]]]] = {
    "linear": (ROWS, "linear{channels=4}", "linear(x, filter, bias)",
        {"filter": (4, 5), "bias": (4,)}),
    "linear without bias": (ROWS, "linear{channels=4, use_bias=false}", "linear(x, filter)",
        {"filter": (4, 5), "bias": (4,)}),
    "conv": (X, "conv{channels=6, size=[3, 2]}", "conv(x, filter, bias)",
        {"filter": (6, 4, 3, 2), "bias": (6,)}),
    "conv with everything": (X,
        "conv{channels=6, size=3, stride=[2, 1], dilation=[1, 2], padding=[1, 2, 0, 2],"
        " ceil_mode=true, use_bias=false, groups=2}",
        "conv{stride=[2, 1], dilation=[1, 2], padding=[1, 2, 0, 2], ceil_mode=true, groups=2}"
        "(x, filter)",
        {"filter": (6, 2, 3, 3), "bias": (6,)}),
    "depthwise conv": (X, "conv{channels=8, size=2, groups=0}",
        "conv{groups=0}(x, filter, bias)", {"filter": (8, 1, 2, 2), "bias": (8,)}),
    "deconv": (X, "deconv{channels=3, size=[3, 2], stride=2}",
        "deconv{stride=2}(x, filter, bias)", {"filter": (4, 3, 3, 2), "bias": (3,)}),
    "deconv with everything": (X,
        "deconv{channels=3, size=2, stride=[2, 3], dilation=[2, 1], padding=[1, 0, 0, 1],"
        " output_size=[10, 8], use_bias=false, groups=2}",
        "deconv{stride=[2, 3], dilation=[2, 1], padding=[1, 0, 0, 1], output_size=[10, 8],"
        " groups=2}(x, filter)",
        {"filter": (4, 3, 2, 2), "bias": (6,)}),
    "depthwise deconv": (X, "deconv{channels=2, size=2, groups=0}",
        "deconv{groups=0}(x, filter, bias)", {"filter": (4, 2, 2, 2), "bias": (8,)}),
    "batch_norm": (X, "batch_norm{epsilon=0.25}",
        "batch_norm{epsilon=0.25}(x, running_mean, running_variance, bias, scale)",
        dict.fromkeys(("running_mean", "running_variance", "bias", "scale"), (4,))),
    "batch_norm without both": (X, "batch_norm{use_bias=false, use_scale=false}",
        "batch_norm(x, running_mean, running_variance)",
        dict.fromkeys(("running_mean", "running_variance", "bias", "scale"), (4,))),
    "linear of no items": (ROWS[:0], "linear{channels=1}", "linear(x, filter, bias)",
        {"filter": (1, 5), "bias": (1,)}),
    "linear of NaN": (LOST[0, 0], "linear{channels=2}", "linear(x, filter, bias)",
        {"filter": (2, 3), "bias": (2,)}),
    "conv of rank 3": (X[:, :, 0], "conv{channels=2, size=[2], padding=[1, 0]}",
        "conv{padding=[1, 0]}(x, filter, bias)", {"filter": (2, 4, 2), "bias": (2,)}),
    "conv of rank 5": (SOLID, "conv{channels=2, size=2, stride=[1, 2, 1]}",
        "conv{stride=[1, 2, 1]}(x, filter, bias)", {"filter": (2, 2, 2, 2, 2), "bias": (2,)}),
    "conv of no items": (X[:0], "conv{channels=2, size=2}", "conv(x, filter, bias)",
        {"filter": (2, 4, 2, 2), "bias": (2,)}),
    "conv of NaN": (LOST, "conv{channels=2, size=[2, 1], padding=0}",
        "conv{padding=0}(x, filter, bias)", {"filter": (2, 4, 2, 1), "bias": (2,)}),
    "deconv of rank 3": (X[:, :, 0], "deconv{channels=2, size=[2], output_size=[3]}",
        "deconv{output_size=[3]}(x, filter, bias)", {"filter": (4, 2, 2), "bias": (2,)}),
    "deconv of rank 5": (SOLID, "deconv{channels=1, size=2, stride=[1, 2, 1], padding=0}",
        "deconv{stride=[1, 2, 1], padding=0}(x, filter, bias)",
        {"filter": (2, 1, 2, 2, 2), "bias": (1,)}),
    "deconv of no items": (X[:0], "deconv{channels=2, size=2}", "deconv(x, filter, bias)",
        {"filter": (4, 2, 2, 2), "bias": (2,)}),
    "deconv of NaN": (LOST, "deconv{channels=2, size=1}",
        "deconv(x, filter, bias)", {"filter": (4, 2, 1, 1), "bias": (2,)}),
    **{
        f"batch_norm of {words}": (x, "batch_norm",
            "batch_norm(x, running_mean, running_variance, bias, scale)",
            dict.fromkeys(("running_mean", "running_variance", "bias", "scale"), (x.shape[1],)))
        for words, x in {
            "rank 2": ROWS, "rank 3": X[:, :, 0], "rank 5": SOLID, "one channel": X[:, :1],
            "no items": X[:0], "NaN": LOST,
        }.items()
    },
}  # fmt: skip

LAYER = """import layer;
graph G {{
    @input {{ x: real[{shape}]; }}
    @output {{ y: real; }}
    @compose {{ y = op: layer.{call}(x); }}
}}
"""
PLAIN = """import nn;
graph G {{
    @input {{ x: real[{shape}]; {inputs} }}
    @output {{ y: real; }}
    @compose {{ y = nn.{call}; }}
}}
"""


def extents(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def run(text: str, x: Any, variables: Mapping[str, Any], route: Any) -> Any:
    if route == "reference":
        return tvm_nnef.evaluate(text, x, variables=variables)[0]
    module = tvm_nnef.from_nnef(text, route=route, variables=variables)
    return np.asarray(tvm_nnef.build(module, progress=False)(x)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_the_operator_with_its_variables(name: str) -> None:
    x, layer, plain, shapes = CASES[name]
    values = {
        key: real(*shape, low=0.1 if "variance" in key else -1.0) for key, shape in shapes.items()
    }
    inputs = " ".join(f"{key}: real[{extents(shape)}];" for key, shape in shapes.items())
    shape = extents(x.shape)
    (expected,) = tvm_nnef.evaluate(
        PLAIN.format(shape=shape, inputs=inputs, call=plain), x, *values.values()
    )
    variables = {f"main.G.op.{key}": value for key, value in values.items()}
    for route in ROUTES:
        actual = run(LAYER.format(shape=shape, call=layer), x, variables, route)
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6, err_msg=route)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["linear", "conv", "deconv", "batch_norm"])
def test_halves_are_rounded_once(name: str) -> None:
    x, layer, plain, shapes = CASES[name]
    half = np.float16
    values = {key: np.abs(real(*shape)).astype(half) for key, shape in shapes.items()}
    inputs = " ".join(f"{key}: real[{extents(shape)}];" for key, shape in shapes.items())
    text = PLAIN.format(shape=extents(x.shape), inputs=inputs, call=plain)
    wide = [array.astype(np.float32) for array in (x.astype(half), *values.values())]
    expected = tvm_nnef.evaluate(text, *wide)[0]
    variables = {f"main.G.op.{key}": value for key, value in values.items()}
    text, types = LAYER.format(shape=extents(x.shape), call=layer), {"real": "float16"}
    given: dict[str, Any] = {"variables": variables, "dtypes": types}
    results = [tvm_nnef.evaluate(text, x.astype(half), **given)[0]]
    for route in ("formula", "mapped"):
        module = tvm_nnef.from_nnef(text, route=route, **given)
        results.append(np.asarray(tvm_nnef.build(module, progress=False)(x.astype(half))[0]))
    for actual in results:
        assert actual.dtype == half
        np.testing.assert_allclose(actual, expected, rtol=2.0**-10, atol=2.0**-12)


def test_every_operator_is_judged(uncovered: Any) -> None:
    invoked = [(f"layer.{layer}", None) for _, layer, _, _ in CASES.values()]
    assert uncovered("layer", {"rows": invoked}) == set()


def norm(momentum: float) -> str:
    return LAYER.format(shape=extents(X.shape), call=f"batch_norm{{momentum={momentum}}}")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("route", ["formula", "mapped"])
@pytest.mark.parametrize("momentum", [0.25, 1.0])
def test_momentum_moves_the_running_statistics(momentum: float, route: Any) -> None:
    mean, variance, bias, scale = real(4), real(4, low=0.5), real(4), real(4)
    names = ("running_mean", "running_variance", "bias", "scale")
    variables = {
        f"main.G.op.{name}": value
        for name, value in zip(names, (mean, variance, bias, scale), strict=True)
    }
    text = norm(momentum)
    executable = tvm_nnef.build(
        tvm_nnef.from_nnef(text, route=route, variables=variables), progress=False
    )
    for _ in range(3):
        column = (slice(None), None, None)
        normalized = (X - mean[column]) / np.sqrt(variance[column] + 1e-5)
        expected = normalized * scale[column] + bias[column]
        np.testing.assert_allclose(np.asarray(executable(X)[0]), expected, rtol=1e-4, atol=1e-5)
        mean = (1 - momentum) * mean + momentum * X.mean((0, 2, 3))
        variance = (1 - momentum) * variance + momentum * X.var((0, 2, 3))
        state = executable.state
        np.testing.assert_allclose(state["main.G.op.running_mean"], mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(state["main.G.op.running_variance"], variance, rtol=1e-4)


def test_without_momentum_there_is_no_state() -> None:
    variables = dict.fromkeys(("running_mean", "running_variance", "bias", "scale"), np.ones(4))
    named = {f"main.G.op.{name}": value for name, value in variables.items()}
    executable = tvm_nnef.build(tvm_nnef.from_nnef(norm(0.0), variables=named), progress=False)
    assert not executable.state


REJECTIONS = [
    ("layer.linear{channels=0}(x)", "'channels' must be positive"),
    ("layer.conv{channels=4, size=0}(y)", "'size' must be positive"),
    ("layer.conv{channels=4, size=3, groups=3}(y)", "divisible by the groups"),
    ("layer.deconv{channels=4, size=3, groups=-1}(y)", "'groups' must not be negative"),
    ("layer.batch_norm{momentum=1.5}(y)", "'momentum' must lie between 0 and 1"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": ROWS, "y": X}, invocation, words)
