"""Dynamic dimensions that broadcast: equal, or 1, in each call; the judge is ONNX Runtime."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.common.symbolic import (
    Symbolic,
    broadcast_dimension,
    may_stretch,
    minimum,
    symbol,
)
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.tvm_support.function_attributes import EQUAL_SIZES

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info

Shapes = Mapping[str, Sequence[int | str]]
ROWS: Shapes = {"x": ["n", 3], "y": ["m", 3]}
THREE: Shapes = {**ROWS, "z": ["k", 3]}
PAIRS = [dict(zip("nm", sizes, strict=True)) for sizes in itertools.product((0, 1, 2, 5), repeat=2)]
VALID = [size for size in PAIRS if size["n"] == size["m"] or 1 in size.values()]
TRIPLES = [dict(zip("nmk", sizes, strict=True)) for sizes in itertools.product((1, 2), repeat=3)]
QUADS = [dict(zip("nmkl", sizes, strict=True)) for sizes in itertools.product((1, 3), repeat=4)]

CASES: dict[str, tuple[list[Any], Shapes, list[dict[str, int]]]] = {
    "arithmetic": ([node("Add", ["x", "y"], ["r"])], ROWS, PAIRS),
    "a dynamic and a static one": (
        [node("Mul", ["x", "y"], ["r"])], {"x": ["n", 3], "y": [5, 3]}, PAIRS),
    "the last one": (
        [node("Sub", ["x", "y"], ["r"])], {"x": [2, "n"], "y": [2, "m"]}, PAIRS),
    "several, of different ranks": (
        [node("Add", ["x", "y"], ["r"])], {"x": ["n", "m"], "y": [2, "k", "l"]}, QUADS),
    "a chain": (
        [node("Relu", ["x"], ["a"]), node("Add", ["a", "y"], ["b"]), node("Mul", ["b", "x"], ["c"]),
         node("Sub", ["y", "c"], ["r"])], ROWS, PAIRS),
    "many operands": ([node("Sum", ["x", "y", "z"], ["r"])], THREE, TRIPLES),
    "a choice": (
        [node("Less", ["x", "y"], ["c"]), node("Where", ["c", "x", "z"], ["r"])], THREE, TRIPLES),
    "the batches of products": (
        [node("MatMul", ["x", "y"], ["r"])], {"x": ["n", 2, 3], "y": ["m", 3, 4]}, PAIRS),
    "to the shape of another": (
        [node("Shape", ["y"], ["s"]), node("Expand", ["x", "s"], ["r"])], ROWS, PAIRS),
    "the shape of the result": (
        [node("Add", ["x", "y"], ["a"]), node("Shape", ["a"], ["s"]),
         node("ConstantOfShape", ["s"], ["o"]), node("Add", ["o", "y"], ["r"])], ROWS, VALID),
    "a sum before": (
        [node("ReduceMean", ["x"], ["s"], axes=[0]), node("Add", ["s", "y"], ["a"]),
         node("Add", ["a", "x"], ["r"])], ROWS, [size for size in VALID if size["n"]]),
    "one that is made of another": (
        [node("Concat", ["x", "z"], ["c"], axis=0), node("Add", ["c", "y"], ["r"])],
        {"x": ["n", 3], "z": [1, 3], "y": ["m", 3]}, PAIRS),
    "attention with a mask": (
        [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["s"]),
         node("Add", ["s", "y"], ["b"]), node("Softmax", ["b"], ["p"], axis=-1),
         node("MatMul", ["p", "x"], ["r"])], {"x": ["n", 2, 4], "y": ["m", "k", 2]},
        [{"n": n, "m": m, "k": k} for n in (1, 3) for m in (1, 3) for k in (1, 2)]),
    "data-dependent ones": (
        [node("NonZero", ["x"], ["i"]), node("NonZero", ["y"], ["j"]),
         node("Add", ["i", "j"], ["r"])], {"x": ["n"], "y": ["m"]}, PAIRS),
}  # fmt: skip


def model_of(nodes: Sequence[Any], shapes: Shapes) -> Any:
    inputs = [info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    dtype = onnx.TensorProto.INT64 if nodes[0].op_type == "NonZero" else onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(nodes, "g", inputs, [info("r", dtype, None)])
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def agree(proto: Any, shapes: Shapes, sizes: Sequence[Mapping[str, int]], run: Any) -> None:
    """A run gives what ONNX Runtime gives, and an error if it has one."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(proto.SerializeToString(), options)
    random = np.random.default_rng(0)
    for size in sizes:
        feeds = {
            name: random.normal(size=[size.get(str(each), each) for each in shape]).astype("f4")
            for name, shape in shapes.items()
        }
        try:
            (expected,) = session.run(None, feeds)
        except Exception:
            with pytest.raises(NnefError, match="broadcast"):
                run(*feeds.values())
            continue
        found = np.asarray(run(*feeds.values())[0])
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), size
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_on_the_evaluator(name: str) -> None:
    nodes, shapes, sizes = CASES[name]
    proto = model_of(nodes, shapes)
    graph = tvm_nnef.compose(tvm_nnef.convert(proto, bounds=8))
    agree(proto, shapes, sizes, lambda *feeds: tvm_nnef.evaluate(graph, *feeds))


@pytest.mark.slow
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("name", CASES)
def test_compiled(name: str, route: Any) -> None:
    nodes, shapes, sizes = CASES[name]
    proto = model_of(nodes, shapes)
    model = tvm_nnef.convert(proto, bounds=8)
    agree(proto, shapes, sizes, tvm_nnef.build(model, route=route, progress=False))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_on_a_simulated_gpu(name: str, simulated_gpu: Any) -> None:
    nodes, shapes, sizes = CASES[name]
    proto = model_of(nodes, shapes)
    simulated_gpu()
    model = tvm_nnef.convert(proto, bounds=8)
    agree(proto, shapes, sizes, tvm_nnef.build(model, progress=False, cache=False))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("name", ["a chain", "the batches of products", "attention with a mask"])
def test_equal_sizes_have_the_kernels_of_equal_names(name: str, route: Any) -> None:
    nodes, shapes, _ = CASES[name]
    same = {n: [{"m": "n", "k": 2}.get(str(each), each) for each in s] for n, s in shapes.items()}
    found = {}
    for names, function in ((shapes, EQUAL_SIZES), (same, "main")):
        model = tvm_nnef.convert(model_of(nodes, names), bounds=8)
        built = tvm_nnef.build(model, route=route, progress=False, cache=False)
        calls = built.metadata["calls"][function]
        # Parts of names end in numbers and underscores if both versions have such a kernel.
        found[function] = [re.sub(r"[_0-9]+", "", kernel) for kernel, _ in calls]
    assert found[EQUAL_SIZES] == found["main"]


def test_two_versions_share_kernels() -> None:
    nodes = [node("MatMul", ["x", "z"], ["a"]), node("Add", ["y", "w"], ["b"])]
    nodes += [node("Add", ["a", "b"], ["c"]), node("MatMul", ["c", "z"], ["r"])]
    shapes: Shapes = {"x": ["n", 8], "z": [8, 8], "y": ["m", 8], "w": ["m", 8]}
    model = tvm_nnef.convert(model_of(nodes, shapes), bounds=8)
    calls = tvm_nnef.build(model, progress=False, cache=False).metadata["calls"]
    last = [calls[name][-1][0] for name in (EQUAL_SIZES, "main_any")]
    assert last[0] == last[1]


def test_export_broadcasts_again(tmp_path: Path) -> None:
    nodes, shapes, _ = CASES["a chain"]
    proto = model_of(nodes, shapes)
    tvm_nnef.convert(proto, tmp_path / "model.nnef2", bounds=8)
    tvm_nnef.convert(tmp_path / "model.nnef2", tmp_path / "again.onnx")
    again = runtime.InferenceSession(tmp_path / "again.onnx")

    def run(*feeds: Any) -> Any:
        return again.run(None, dict(zip(shapes, feeds, strict=True)))

    agree(proto, shapes, VALID, run)


N, M = symbol("n", 16, 0), symbol("m", 16, 1)
SAME = [
    ("itself", N, N),
    ("what is cut at a number", N, minimum(N, 6)),
    ("what is rounded to even", N, 2 * (N // 2)),
]


@pytest.mark.parametrize(("left", "right"), [pair for _, *pair in SAME], ids=[s[0] for s in SAME])
def test_dimensions_that_must_be_equal_are_not_stretched(left: Symbolic, right: Symbolic) -> None:
    assert broadcast_dimension([left, right]) == N
    assert not may_stretch(left, right)
    assert not may_stretch(right, left)


def test_the_order_of_dimensions_does_not_matter() -> None:
    k = symbol("k", 16, 2)
    results = [
        broadcast_dimension([broadcast_dimension([a, b]), c, a])
        for a, b, c in itertools.permutations((N, M, k))
    ]
    assert all(each == results[0] for each in results)
    assert may_stretch(N, results[0])
    assert broadcast_dimension([N, M + 2]) == M + 2
