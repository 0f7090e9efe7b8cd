"""Modules misc and layer: grids, and operators that hold their variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

A, B, C = (np.arange(n, dtype=np.float32) + 10 * n for n in (2, 3, 4))
FAMILIES: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = {
    "grids": (
        {"a": A, "b": B, "c": C},
        [
            ("misc.mesh_grid([a, b, c])", list(np.meshgrid(A, B, C, indexing="ij"))),
            ("misc.mesh_grid([c, a])", list(np.meshgrid(C, A, indexing="ij"))),
            ("misc.mesh_grid([b])", [B]),
        ],
    ),
}


@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("misc", FAMILIES) == set()


# --- layers ---------------------------------------------------------------------------------

RANDOM = np.random.default_rng(6)


def real(*shape: int) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(0.5, 1.5, shape).astype(np.float32)


LAYERS: list[tuple[str, tuple[int, ...], dict[str, tuple[int, ...]], str]] = [
    (
        "layer.linear{channels=3}(x)",
        (2, 4),
        {"filter": (3, 4), "bias": (3,)},
        "nn.linear(x, filter, bias)",
    ),
    (
        "layer.linear{channels=3, use_bias=false}(x)",
        (2, 4),
        {"filter": (3, 4), "bias": (3,)},
        "nn.linear(x, filter)",
    ),
    (
        "layer.conv{channels=6, size=[3, 2], stride=2, groups=2}(x)",
        (2, 4, 7, 6),
        {"filter": (6, 2, 3, 2), "bias": (6,)},
        "nn.conv{stride=2, groups=2}(x, filter, bias)",
    ),
    (
        "layer.conv{channels=4, size=[3], dilation=2, padding=1, groups=0, use_bias=false}(x)",
        (2, 4, 9),
        {"filter": (4, 1, 3), "bias": (4,)},
        "nn.conv{dilation=2, padding=1, groups=0}(x, filter)",
    ),
    (
        "layer.deconv{channels=3, size=[3, 3], stride=2, groups=2}(x)",
        (1, 4, 3, 4),
        {"filter": (4, 3, 3, 3), "bias": (6,)},
        "nn.deconv{stride=2, groups=2}(x, filter, bias)",
    ),
    (
        "layer.deconv{channels=3, size=[4], stride=2, padding=[1, 1], output_size=[6], "
        "use_bias=false}(x)",
        (1, 4, 3),
        {"filter": (4, 3, 4), "bias": (3,)},
        "nn.deconv{stride=2, padding=[1, 1], output_size=[6]}(x, filter)",
    ),
    *(
        (
            f"layer.batch_norm{{epsilon=0.1, use_bias={bias}, use_scale={scale}}}(x)",
            (2, 3, 4, 5),
            dict.fromkeys(("running_mean", "running_variance", "bias", "scale"), (3,)),
            "nn.batch_norm{epsilon=0.1}(x, running_mean, running_variance, "
            f"{'bias' if bias == 'true' else 'zero'}, {'scale' if scale == 'true' else 'one'})",
        )
        for bias in ("true", "false")
        for scale in ("true", "false")
    ),
]


@pytest.mark.parametrize(("layer", "shape", "variables", "plain"), LAYERS)
@pytest.mark.parametrize("route", ["reference", "formula"])
def test_layer_is_the_operator_with_its_variables(
    layer: str,
    shape: tuple[int, ...],
    variables: dict[str, tuple[int, ...]],
    plain: str,
    route: str,
) -> None:
    """The variables bear the label of the invocation; module nn is judged elsewhere."""

    def text(operator: str, parameters: dict[str, tuple[int, ...]]) -> str:
        inputs = " ".join(f"{n}: real[{', '.join(map(str, s))}];" for n, s in parameters.items())
        return f"""import layer, nn;
graph Net {{
    @input {{ {inputs} }}
    @output {{ y: real; }}
    @compose {{ y = {operator}; }}
}}
"""

    values = {name: real(*extents) for name, extents in variables.items()}
    x = real(*shape)
    model = tvm_nnef.load_model(
        text(layer, {"x": shape}).replace("y = ", "y = step: "),
        variables={f"main.Net.step.{name}": value for name, value in values.items()},
    )
    fixed = {"zero": np.zeros(3, np.float32), "one": np.ones(3, np.float32)}
    extra = {name: value for name, value in fixed.items() if name in plain}
    parameters = {"x": shape, **variables, **dict.fromkeys(extra, (3,))}
    expected = tvm_nnef.evaluate(text(plain, parameters), x, *values.values(), *extra.values())[0]
    if route == "reference":
        actual = tvm_nnef.evaluate(model, x)[0]
    else:
        module = tvm_nnef.from_nnef(model, route=route)
        actual = np.asarray(tvm_nnef.build(module, progress=False)(x)[0])
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_batch_norm_refuses_an_update(rejected: Any) -> None:
    x = np.zeros((1, 2, 3), np.float32)
    rejected({"x": x}, "layer.batch_norm{momentum=0.1}(x)", "'momentum' must be 0")
