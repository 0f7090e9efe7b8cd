"""ONNX to SkriptND and back: what ONNX Runtime makes of both ends is the same."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tvm_nnef.converters.onnx.export import export  # noqa: E402

pytestmark = pytest.mark.sampled(3)

CORPUS = Path(__file__).resolve().parents[3].parent / "shared" / "corpus" / "onnx"
NAMES = sorted(folder.name for folder in CORPUS.iterdir()) if CORPUS.is_dir() else []
REFUSED: dict[str, str] = {}
"""Models of the corpus that cannot go back, and why."""

LONG = {"nms"}
"""Loops of a thousand steps, of which ONNX Runtime takes each node on its own."""


def _back(source: Any, **options: Any) -> Any:
    model = tvm_nnef.convert(source, **options)
    return export(tvm_nnef.compose(model), model.variables)


@pytest.mark.skipif(not NAMES, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in NAMES],
)
def test_the_corpus(name: str, onnx_run: Callable[..., list[Any]]) -> None:
    model = onnx.load(CORPUS / name / "model.onnx")
    constant = {tensor.name for tensor in model.graph.initializer}
    arrays = np.load(CORPUS / name / "io.npz")
    inputs = [arrays[f"in:{v.name}"] for v in model.graph.input if v.name not in constant]
    if name in REFUSED:
        with pytest.raises(NnefError, match=re.escape(REFUSED[name])):
            _back(model, bounds=64)
        return
    for found, value in zip(
        onnx_run(_back(model, bounds=64), inputs), model.graph.output, strict=True
    ):
        expected = arrays[f"out:{value.name}"]
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


CASES = (
    "test_scatter_elements_with_negative_indices", "test_scatter_elements_with_duplicate_indices",
    "test_scatter_elements_with_reduction_max", "test_scatter_elements_with_reduction_min",
    "test_scatternd", "test_scatternd_add", "test_scatternd_multiply", "test_scatternd_max",
    "test_gather_negative_indices", "test_gather_elements_negative_indices",
    "test_gathernd_example_int32_batch_dim1", "test_compress_0", "test_compress_default_axis",
    "test_nonzero_example", "test_isinf_negative", "test_isnan", "test_round",
    "test_expand_dim_changed", "test_reduce_sum_do_not_keepdims_random",
    "test_reduce_sum_negative_axes_keepdims_random", "test_reduce_max_keepdims_random",
    "test_reduce_prod_keepdims_random", "test_reduce_min_empty_set", "test_reduce_prod_empty_set",
    "test_unsqueeze_unsorted_axes", "test_cumprod_2d_axis_1", "test_cumprod_1d_reverse_exclusive",
    "test_cumprod_1d_int32_exclusive",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_onnx_has_an_operator_for(
    name: str, suite: Any, onnx_run: Callable[..., list[Any]]
) -> None:
    """Cases of ONNX's own suite, whose operators come along with a model as formulas."""
    case = suite[name]
    proto = _back(case.model)
    for inputs, outputs in case.feeds():
        case.check(onnx_run(proto, inputs), outputs)


def _light() -> Any:
    """The module that makes random weights for the light models."""
    file = Path(__file__).resolve().parents[1] / "test_light_models.py"
    spec = importlib.util.spec_from_file_location("light_models", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LIGHT = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
         "squeezenet", "zfnet512")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_networks(name: str, onnx_run: Callable[..., list[Any]]) -> None:
    model = _light()._randomized(name)
    model.ir_version = 8  # from 4 on, weights need not be inputs
    weights = {tensor.name for tensor in model.graph.initializer}
    (value,) = (each for each in model.graph.input if each.name not in weights)
    del model.graph.input[:]
    model.graph.input.append(value)
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (expected,) = onnx_run(model, [x])
    (found,) = onnx_run(_back(model), [x])
    assert expected.std() > 0
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * float(abs(expected).max()))


def test_names_come_back(make_model: Any) -> None:
    """The names of an exported model are full names, which are short again when it is converted."""
    proto = make_model(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]),
         onnx.helper.make_node("Relu", ["h"], ["y"])],
        [("x", "float32", [2, 3])],
        [("y", "float32", [2, 4])],
        {"w": np.ones((3, 4), np.float32)},
    )  # fmt: skip
    first = tvm_nnef.convert(proto)
    second = tvm_nnef.convert(_back(proto))
    assert set(second.variables) == {"main.net.w"}

    def body(model: tvm_nnef.Model) -> str:
        return str(model.modules["main"].source.text).partition("graph")[2]

    assert body(second) == body(first)
