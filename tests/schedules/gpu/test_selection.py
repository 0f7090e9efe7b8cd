"""ONNX models that sort, count and choose, for CUDA: simulated threads against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_support.compat import prim_functions

pytestmark = pytest.mark.sampled(3)

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

INDEX, REAL, BOOL = (onnx.TensorProto.DataType.Value(name) for name in ("INT64", "FLOAT", "BOOL"))


def scores(*shape: int) -> Any:
    """Numbers with ties, infinities, and both zeros."""
    x = (np.random.default_rng(len(shape)).integers(-40, 41, shape) / 8).astype("float32")
    if x.size > 9:
        x.flat[:9] = [0.0, -0.0, np.inf, -np.inf, np.inf, 5e-39, -5e-39, 3e38, -3e38]
    return x


def boxes(*shape: int) -> Any:
    x = np.random.default_rng(2).random((*shape, 4)).astype("float32")
    x[..., 2:] = x[..., :2] + 0.3 * x[..., 2:]
    return x


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], int]] = {
    "top-k": ("TopK", {"x": scores(3, 700)}, {"k": [10]}, {"axis": 1}, 2),
    "all, ascending": ("TopK", {"x": scores(2, 2500)}, {"k": [2500]}, {"largest": 0}, 2),
    "along an outer axis": ("TopK", {"x": scores(300, 3)}, {"k": [7]}, {"axis": 0}, 2),
    "prefix sums": ("CumSum", {"x": scores(2, 700).round()[:, 9:]}, {"axis": 1}, {}, 1),
    "prefix sums from the end": (
        "CumSum", {"x": np.arange(3000, dtype="int64")}, {"axis": 0},
        {"exclusive": 1, "reverse": 1}, 1,
    ),
    "nonzero": ("NonZero", {"x": scores(40, 61)}, {}, {}, 1),
    "nothing that is nonzero": ("NonZero", {"x": np.zeros((70, 9), "float32")}, {}, {}, 1),
    "unique": ("Unique", {"x": scores(1500)}, {}, {}, 4),
    "unique in order of occurrence": ("Unique", {"x": scores(700)}, {}, {"sorted": 0}, 4),
    "compressed": ("Compress", {"x": scores(900, 2), "c": scores(900) > 0}, {}, {"axis": 0}, 1),
    "suppressed": (
        "NonMaxSuppression", {"b": boxes(2, 600), "s": scores(2, 3, 600)},
        {"n": [20], "i": [0.25], "t": [0.5]}, {}, 1,
    ),
    "suppressed by center": (
        "NonMaxSuppression", {"b": boxes(1, 300), "s": scores(1, 2, 300)},
        {"n": [2**40], "i": [0.5]}, {"center_point_box": 1}, 1,
    ),
    "suppressed by dynamic thresholds": (
        "NonMaxSuppression",
        {
            "b": boxes(2, 30), "s": scores(2, 3, 30), "n": np.array([5]),
            "i": np.array([0.25], "float32"), "t": np.array([0.0], "float32"),
        },
        {}, {}, 1,
    ),
}  # fmt: skip


def model(
    kind: str,
    inputs: dict[str, Any],
    constants: dict[str, Any],
    attributes: dict[str, Any],
    results: int,
    *,
    count: int | None = None,
) -> Any:
    """A model of one node; its results have no declared shape, or columns of which there are some.

    ``results`` is how many there are.
    """
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    types = {"float32": REAL, "int64": INDEX, "bool": BOOL}
    given = [
        helper.make_tensor_value_info(key, types[str(x.dtype)], x.shape)
        for key, x in inputs.items()
    ]
    fixed = [
        numpy_helper.from_array(np.array(value, "float32" if "." in str(value) else "int64"), key)
        for key, value in constants.items()
    ]
    names = [f"y{n}" for n in range(results)]
    found = [
        helper.make_empty_tensor_value_info(each)
        if count is None
        else helper.make_tensor_value_info(each, INDEX, [1, count])
        for each in names
    ]
    node = helper.make_node(kind, [*inputs, *constants], names, **attributes)
    graph = helper.make_graph([node], "g", given, found, fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_converted_models(name: str, simulated_gpu: Any, tmp_path: Path) -> None:
    made, inputs = model(*CASES[name]), CASES[name][1]
    onnx.save(made, tmp_path / "model.onnx")
    wanted = runtime.InferenceSession(made.SerializeToString()).run(None, inputs)
    simulated_gpu(reverse=len(name) % 2 == 1)
    found = tvm_nnef.build(tvm_nnef.convert(tmp_path / "model.onnx"), progress=False)(
        *inputs.values()
    )
    for actual, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(actual, expected)


LONG = {"x": np.zeros(4096, "float32")}


@pytest.mark.parametrize(
    ("case", "count"),
    [
        (("NonZero", LONG, {}, {}, 1), None),
        (("NonZero", LONG, {}, {}, 1), 5),
        (("CumSum", LONG, {"axis": 0}, {}, 1), None),
        (("TopK", LONG, {"k": [4000]}, {}, 2), None),
        (("Unique", LONG, {}, {}, 4), None),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_the_work_on_long_inputs_is_not_quadratic(
    case: Any, count: int | None, gpu: Any, tmp_path: Path
) -> None:
    onnx.save(model(*case, count=count), tmp_path / "model.onnx")
    module = tvm_nnef.from_nnef(tvm_nnef.convert(tmp_path / "model.onnx"))
    target = resolve({"kind": "cuda", "arch": "sm_80"})
    scheduled = run_phases(module, target, "bind", "schedule")
    for name, function in prim_functions(scheduled).items():
        assert gpu.steps(function, 4096) < 4096 * 12 * 13 * 8, name
