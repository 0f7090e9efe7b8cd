"""Options of the Python calls that are wrong or cannot be honoured are errors, not ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
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
@pytest.mark.parametrize("route", ["formulas", ""])
def test_an_unknown_route_is_an_error(call: Callable[..., Any], route: Any) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=f"unknown route '{route}'"):
        call(MODEL, route=route)


def test_one_folder_is_not_a_list_of_folders() -> None:
    with pytest.raises(tvm_nnef.NnefError, match="give a list of folders"):
        tvm_nnef.load_model(MODEL, search_path="models")


@pytest.mark.parametrize("call", [tvm_nnef.from_nnef, tvm_nnef.build])
def test_the_reference_makes_no_module(call: Callable[..., Any]) -> None:
    with pytest.raises(tvm_nnef.UnsupportedError, match="makes no TVM module") as caught:
        call(MODEL, route="reference")
    assert "tvm_nnef.evaluate" in str(caught.value)


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
    with pytest.raises(tvm_nnef.NnefError, match="give two names of routes"):
        tvm_nnef.compare(MODEL, routes="mapped")


def test_dtypes_are_of_types_of_inputs_or_of_tensors() -> None:
    def types(dtypes: Mapping[str, Any]) -> dict[str, str]:
        graph = tvm_nnef.compose(MODEL, dtypes=dtypes)
        return {tensor.name: dtype for tensor, dtype in graph.machine_types.items()}

    assert set(types({"real": np.float16}).values()) == {"float16"}
    assert types({"x": "float64"})["main.G.x"] == "float64"
    assert types({"real": "float16", "main.G.h": "float64"})["main.G.h"] == "float64"


WRONG_DTYPES: Mapping[str, tuple[Any, str]] = {
    "misspelt type": ({"rael": "float16"}, "did you mean 'real'?"),
    "misspelt tensor": ({"main.G.hh": "float16"}, "did you mean 'main.G.h'?"),
    "misspelt dtype": ({"real": "flaot16"}, "did you mean 'float16'?"),
    "another kind": ({"real": "int8"}, "use one of float16, bfloat16, float32, float64"),
    "not a mapping": ("float16", "give a dtype for each name"),
}


@pytest.mark.parametrize("case", WRONG_DTYPES)
@pytest.mark.parametrize("call", [tvm_nnef.compose, tvm_nnef.from_nnef, tvm_nnef.check])
def test_wrong_dtypes_are_errors(call: Callable[..., Any], case: str) -> None:
    dtypes, hint = WRONG_DTYPES[case]
    if call is tvm_nnef.check:
        (found,) = tvm_nnef.check(MODEL, dtypes=dtypes)
    else:
        with pytest.raises(tvm_nnef.NnefError) as caught:
            call(MODEL, dtypes=dtypes)
        (found,) = caught.value.diagnostics
    assert hint in str(found.hint)


TILE = "Tensor f(const Tensor& real_, const Tensor& x) { return real_ * x; }\n"
OPEN = {"real_": (2,), "x": (2,)}


def test_dtypes_of_types_are_for_composing_and_others_for_the_conversion() -> None:
    x = np.array([0.5, 2])
    options: dict[str, Any] = {"input_shapes": OPEN, "dtypes": {"x": "float64", "real": "float16"}}
    graph = tvm_nnef.compose(TILE, **options)
    types = {tensor.name: dtype for tensor, dtype in graph.machine_types.items()}
    assert types["main.F.x"] == "float64"
    assert types["main.F.real_"] == "float16"
    assert tvm_nnef.check(TILE, **options) == []
    options["dtypes"] = {"real": "float16"}
    assert tvm_nnef.evaluate(TILE, x, x, **options)[0].dtype == "float16"
    assert tvm_nnef.build(TILE, progress=False, **options)(x, x)[0].dtype == "float16"


def test_a_conversion_alone_has_no_dtypes_of_types() -> None:
    with pytest.raises(tvm_nnef.ModelError, match="no dtype of 'real'"):
        tvm_nnef.convert(TILE, input_shapes=OPEN, dtypes={"real": "float16"})


@pytest.mark.parametrize("call", [tvm_nnef.compose, tvm_nnef.build, tvm_nnef.evaluate])
def test_an_unknown_option_is_an_error_with_the_nearest(call: Callable[..., Any]) -> None:
    with pytest.raises(tvm_nnef.ModelError, match="no option 'atributes'") as caught:
        call(MODEL, atributes={})
    assert "did you mean 'attributes'?" in str(caught.value)
