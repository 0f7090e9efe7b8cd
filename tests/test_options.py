"""Options of the Python calls that are wrong or cannot be honoured are errors, not ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import tvm_nnef

MODEL = """
import nn;

operator double {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @lower { y[i,] = 2.0 * x[i,], i < n; }
}

graph G {
    @input { x: real[3]; }
    @output { y: real[3]; }
    @compose { h = double(x); y = nn.relu(h); }
}
"""


@pytest.mark.parametrize("call", [tvm_nnef.from_nnef, tvm_nnef.build])
@pytest.mark.parametrize("route", ["formulas", "reference", "", None])
def test_an_unknown_route_is_an_error(call: Callable[..., Any], route: Any) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=f"unknown route '{route}'"):
        call(MODEL, route=route)


UNKNOWN: Mapping[str, tuple[str, str]] = {
    "misspelt": ("main.doubel", "did you mean 'main.double'?"),
    "standard": ("nn.rellu", "did you mean 'nn.relu'?"),
    "unqualified": ("relu", "nn.relu"),
    "unlike any": ("a.zebra", "names are qualified"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_name_in_lowerings_is_an_error(case: str) -> None:
    name, hint = UNKNOWN[case]
    with pytest.raises(tvm_nnef.NnefError, match=f"unknown operator '{name}'") as caught:
        tvm_nnef.from_nnef(MODEL, lowerings={name: lambda *_: None})
    assert hint in str(caught.value)


def test_all_unknown_names_are_reported_at_once() -> None:
    with pytest.raises(tvm_nnef.NnefError) as caught:
        tvm_nnef.build(MODEL, lowerings={"a.b": lambda *_: None, "c.d": lambda *_: None})
    assert len(caught.value.diagnostics) == 2


@pytest.mark.parametrize("name", ["main.double", "nn.relu", "linalg.matmul"])
def test_lowerings_take_operators_of_the_model_and_standard_ones(name: str) -> None:
    asked: list[object] = []

    def decline(*given: object) -> None:
        asked.append(given)

    tvm_nnef.from_nnef(MODEL, lowerings={name: decline})
    assert bool(asked) == (name != "linalg.matmul"), "the model invokes the two others"


@pytest.mark.parametrize(
    "options", [{"route": "formula"}, {"attributes": {"n": 1}}, {"nonsense": 1, "variables": {}}]
)
def test_a_module_cannot_honour_options_of_a_model(options: Mapping[str, Any]) -> None:
    module = tvm_nnef.from_nnef(MODEL)
    with pytest.raises(tvm_nnef.NnefError, match=r"tvm\.IRModule cannot be built with") as caught:
        tvm_nnef.build(module, **options)
    assert all(f"'{name}'" in str(caught.value) for name in options)


def test_one_route_cannot_be_compared() -> None:
    with pytest.raises(tvm_nnef.NnefError, match="'routes' are two names"):
        tvm_nnef.compare(MODEL, routes="mapped")
