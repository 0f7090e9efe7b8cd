"""Branches of an If whose results differ in size or rank; the judge is ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info

Feeds = Sequence[tuple[Any, ...]]
BOTH = (np.array(True), np.array(False))
CONSTANTS = {
    "zero": np.float32(0), "zeros": np.array([0]), "ones": np.array([1]), "one": np.array(1),
    "two": np.array(2), "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3),
    "gates": np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 8, 4),
    "state": np.linspace(1, -1, 16, dtype=np.float32).reshape(1, 8, 2),
}  # fmt: skip
CONDITION, FLAG = info("c", onnx.TensorProto.BOOL, []), info("d", onnx.TensorProto.BOOL, [])
X = info("x", 1, ["b", "t", 4])


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def body(nodes: Sequence[Any], *outputs: str, dtype: int = 1) -> Any:
    return onnx.helper.make_graph(nodes, "b", [], [info(name, dtype, None) for name in outputs])


def branch(condition: str, results: str, then: Any, otherwise: Any) -> Any:
    return node("If", [condition], results.split(), then_branch=then, else_branch=otherwise)


def model(nodes: Sequence[Any], inputs: Sequence[Any], *outputs: Any) -> Any:
    weights = [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in CONSTANTS.items()]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def runs(proto: Any, compiled: bool) -> Iterator[Any]:
    converted = tvm_nnef.convert(proto, bounds=8)
    yield lambda *feeds: tvm_nnef.evaluate(converted, *feeds)
    for route in ("mapped", "formula") if compiled else ():
        yield tvm_nnef.build(converted, route=route, progress=False)


def agree(proto: Any, feeds: Feeds, *, compiled: bool = True, wrong: Sequence[int] = ()) -> None:
    """All routes give what ONNX Runtime gives; those that are ``wrong`` are an error."""
    session = runtime.InferenceSession(proto.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    for run in runs(proto, compiled):
        for number, feed in enumerate(feeds):
            if number in wrong:
                with pytest.raises(NnefError, match="wrong for these input shapes"):
                    run(*feed)
                continue
            expected = session.run(None, dict(zip(names, feed, strict=True)))
            for ours, theirs in zip(map(np.asarray, run(*feed)), expected, strict=True):
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def empty() -> Any:
    nothing = onnx.helper.make_tensor("nothing", 1, [0], [])
    return body([node("Constant", [], ["n"], value=nothing)], "n")


def positions(operator: str) -> Any:
    nodes = [node(operator, ["x", "zero"], [f"{operator}_p"]),
             node("NonZero", [f"{operator}_p"], [operator])]  # fmt: skip
    return body(nodes, operator, dtype=onnx.TensorProto.INT64)


SQUEEZED = body([node("Squeeze", ["x", "ones"], ["squeezed"])], "squeezed")
SAME = body([node("Identity", ["x"], ["same"])], "same")


def squeeze(*consumers: Any, shape: Any = None, other: Any = SAME) -> Any:
    """A dimension taken away if it is 1, as TorchScript's exporter writes it."""
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["size"]),
        node("Equal", ["size", "one"], ["is_one"]), branch("is_one", "q", SQUEEZED, other),
        *consumers,
    ]  # fmt: skip
    return model(nodes, [X], info("y", 1, shape))


def in_a_loop() -> Any:
    part = branch(
        "odd", "part", SAME, body([node("Slice", ["x", "zeros", "ones"], ["sliced"])], "sliced")
    )
    nodes = [
        node("Mod", ["i", "two"], ["rest"]), node("Cast", ["rest"], ["odd"], to=9), part,
        node("ReduceSum", ["part"], ["sum"], keepdims=0), node("Add", ["acc", "sum"], ["more"]),
        node("Identity", ["on"], ["still"]),
    ]  # fmt: skip
    inputs = [info("i", 7, []), info("on", 9, []), info("acc", 1, [])]
    outputs = [info("still", 9, []), info("more", 1, []), info("sum", 1, [])]
    steps = onnx.helper.make_graph(nodes, "steps", inputs, outputs)
    loop = node("Loop", ["n", "", "zero"], ["y", "ys"], body=steps)
    return model([loop], [info("n", 7, []), X], info("y", 1, None), info("ys", 1, None))


def several() -> Any:
    then = body([node("Identity", ["x"], ["a"]), node("Identity", ["x"], ["b"])], "a", "b")
    twice = [node("Concat", ["x", "x"], ["e"], axis=1), node("Identity", ["w"], ["f"]),
             node("Unsqueeze", ["f", "zeros"], ["g"])]  # fmt: skip
    nodes = [branch("c", "p z", then, body(twice, "e", "g")), node("MatMul", ["p", "w"], ["y"])]
    return model(nodes, [CONDITION, X], info("y", 1, None), info("z", 1, None))


SIZES: dict[str, tuple[Any, Feeds]] = {
    "some or none": (
        model([branch("c", "r", body([node("Relu", ["v"], ["a"])], "a"), empty()),
               node("Exp", ["r"], ["y"])],
              [CONDITION, info("v", 1, [5])], info("y", 1, None)),
        [(c, values(5)) for c in BOTH]),
    "data-dependent in both": (
        model([branch("c", "y", positions("Greater"), positions("Less"))],
              [CONDITION, info("x", 1, ["n", 3])], info("y", 7, None)),
        [(c, values(n, 3)) for c in BOTH for n in (0, 1, 2)]),
    "several results, one of them a weight": (
        several(), [(c, values(1, t, 4)) for c in BOTH for t in (1, 3)]),
    "in a loop": (in_a_loop(), [(np.array(n), values(3, 2, 4)) for n in (0, 1, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SIZES)
def test_branches_of_different_sizes(name: str, compiled: bool) -> None:
    agree(*SIZES[name], compiled=compiled)


GEMM, LSTM = node("Gemm", ["q", "w"], ["y"]), node("LSTM", ["q", "gates", "state"], ["y"],
                                                    hidden_size=2)  # fmt: skip
RELU, JOINED = node("Relu", ["q"], ["y"]), node("Concat", ["q", "x"], ["y"], axis=0)
RANKS: dict[str, tuple[Any, int]] = {
    "a product of matrices": (squeeze(GEMM), 1),
    "a layer over time": (squeeze(LSTM), 0),
    "after others": (squeeze(node("Relu", ["q"], ["r"]), node("Transpose", ["r"], ["y"],
                                                              perm=[2, 0, 1])), 0),
    "joined with another": (squeeze(JOINED), 0),
    "the declared output, squeezed": (squeeze(RELU, shape=["b", 4]), 1),
    "the declared output": (squeeze(RELU, shape=["b", "t", 4]), 0),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RANKS)
def test_what_reads_a_result_decides_its_rank(name: str, compiled: bool) -> None:
    """The first input has the dimension 1, the second 3; the branch for the other is an error."""
    proto, wrong = RANKS[name]
    agree(proto, [(values(2, 1, 4),), (values(2, 3, 4),)], compiled=compiled, wrong=[wrong])


def test_a_squeeze_that_does_nothing_here_says_how_to_convert() -> None:
    proto, x = squeeze(RELU), values(2, 3, 4)
    with pytest.raises(NnefError, match=r"converted for 2; .* '--shape' on the command line"):
        tvm_nnef.evaluate(tvm_nnef.convert(proto, bounds=8), x)
    for_these = tvm_nnef.convert(proto, input_shapes={"x": [2, 3, 4]})
    np.testing.assert_array_equal(tvm_nnef.evaluate(for_these, x)[0], np.maximum(x, 0))


def test_what_reads_a_result_decides_about_a_branch_in_a_branch() -> None:
    summed = body([node("ReduceSum", ["x", "ones"], ["r"], keepdims=0)], "r")
    inner = body([branch("d", "i", SQUEEZED, SAME)], "i")
    proto = model([branch("c", "q", summed, inner), GEMM], [CONDITION, FLAG, X], info("y", 1, None))
    feeds = [(c, d, values(2, t, 4)) for c in BOTH for d in BOTH for t in (1, 3)]
    session = runtime.InferenceSession(proto.SerializeToString())
    for run in runs(proto, compiled=False):
        for c, d, x in feeds:
            if not c and (not d or x.shape[1] > 1):
                with pytest.raises(NnefError):
                    run(c, d, x)
            else:
                (expected,) = session.run(None, {"c": c, "d": d, "x": x})
                np.testing.assert_allclose(run(c, d, x)[0], expected, rtol=1e-5)


def test_a_bound_decides_a_comparison_of_sizes() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["size"]),
        node("Less", ["size", "two"], ["few"]), branch("few", "y", SQUEEZED, SAME),
    ]  # fmt: skip
    model_of_one = tvm_nnef.convert(model(nodes, [X], info("y", 1, None)), bounds={"b": 8, "t": 1})
    x = values(2, 1, 4)
    np.testing.assert_array_equal(tvm_nnef.evaluate(model_of_one, x)[0], x[:, 0])


def test_ranks_that_nothing_decides_are_refused() -> None:
    other = body([node("Sin", ["x"], ["sin"])], "sin")
    with pytest.raises(NnefError, match=r"(?s)its branches give float32\[b.*declare the shape"):
        tvm_nnef.convert(squeeze(RELU, other=other), bounds=8)


def test_a_squeeze_whose_result_may_have_any_rank_takes_a_dimension_of_1() -> None:
    """As in Silero VAD. What keeps the dimension is an error in the run, not another rank."""
    proto = squeeze(RELU)
    exe = tvm_nnef.build(proto, progress=False)
    for size in (1, 3):
        x = values(size, 1, 4)
        expected = np.maximum(x[:, 0], 0)
        np.testing.assert_array_equal(tvm_nnef.evaluate(proto, x)[0], expected)
        np.testing.assert_array_equal(exe(x)[0], expected)
    for run in (exe, lambda x: tvm_nnef.evaluate(proto, x)):
        with pytest.raises(NnefError, match="would have 3 dimensions"):
            run(values(2, 5, 4))
