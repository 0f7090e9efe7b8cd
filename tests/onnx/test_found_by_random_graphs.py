"""The smallest graphs that random graphs have found to go wrong, judged by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
node = onnx.helper.make_node


def agree(proto: Any, *runs: Sequence[np.ndarray], bounds: Any = 16) -> None:
    """Both compiled routes give what ONNX Runtime gives."""
    proto.ir_version = 10
    session = runtime.InferenceSession(proto.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    model = tvm_nnef.convert(proto, bounds=bounds)
    for route in ("mapped", "formula"):
        compiled = tvm_nnef.build(model, route=route, progress=False)
        for arrays in runs:
            wanted = session.run(None, dict(zip(names, arrays, strict=True)))
            for ours, theirs in zip(compiled(*arrays), wanted, strict=True):
                assert (np.asarray(ours).dtype, ours.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-5)


def test_joined_booleans_that_are_joined_again(make_model: Any) -> None:
    """TVM gave a buffer of booleans that only vectors access another type than its views."""
    proto = make_model(
        [node("Concat", ["x", "x"], ["a"], axis=-2), node("Concat", ["a", "a"], ["y"], axis=-1)],
        [("x", "bool", [2, 2, 1, 4])],
        [("y", "bool", [2, 2, 2, 8])],
    )
    agree(proto, [np.random.default_rng(0).random((2, 2, 1, 4)) < 0.5])


def test_a_tiled_tensor_that_is_reversed(make_model: Any) -> None:
    """TVM simplified the offset of ``x[i, (31 - j) % 16]`` to one that is wrong by 1."""
    proto = make_model(
        [
            node("Tile", ["x", "repeats"], ["t"]),
            node("Slice", ["t", "start", "end", "axis", "step"], ["y"]),
        ],
        [("x", "float32", [16, 16, 1, 1])],
        [("y", "float32", [16, 32, 2, 2])],
        {
            "repeats": np.array([1, 2, 2, 2]),
            **{name: np.array([value]) for name, value in
               (("start", -1), ("end", -(2**62)), ("axis", 1), ("step", -1))},
        },
    )  # fmt: skip
    agree(proto, [np.arange(256, dtype=np.float32).reshape(16, 16, 1, 1)])


@pytest.mark.parametrize("bounds", [(-2, -2), (-2, -3), (-9, -9), (0, -9), (-1, -2)])
def test_a_backward_slice_that_starts_before_the_first_element(
    make_model: Any, bounds: tuple[int, int]
) -> None:
    names = ("start", "end", "axis", "step")
    values = (*bounds, 1, -1)
    proto = make_model(
        [node("Slice", ["x", *names], ["y"])],
        [("x", "float32", [4, 1, 2])],
        [("y", "float32", [4, None, 2])],
        {name: np.array([value]) for name, value in zip(names, values, strict=True)},
    )
    agree(proto, [np.arange(8, dtype=np.float32).reshape(4, 1, 2)])


@pytest.mark.slow
def test_a_grouped_convolution_of_dynamic_length(make_model: Any) -> None:
    weight = np.random.default_rng(0).standard_normal((32, 1, 2)).astype(np.float32)
    proto = make_model(
        [node("Conv", ["x", "w"], ["y"], group=16, pads=[1, 1])],
        [("x", "float32", ["n", 16, "d"])],
        [("y", "float32", ["n", 32, None])],
        {"w": weight},
    )
    generator = np.random.default_rng(1)
    agree(proto, *([generator.standard_normal((n, 16, d)).astype(np.float32)]
                   for n, d in ((1, 1), (2, 7), (3, 16))))  # fmt: skip


@pytest.mark.slow
def test_one_of_a_dynamic_dimension_broadcasts(make_model: Any) -> None:
    """TopK of one element, and a slice that has at most one, are stretched by what follows."""
    proto = make_model(
        [
            node("TopK", ["x", "k"], ["t", "i"], axis=0),
            node("Add", ["t", "y"], ["a"]),
            node("Slice", ["x", "start", "end", "axis", "step"], ["s"]),
            node("MatMul", ["s", "w"], ["b"]),
        ],
        [("x", "float32", ["n", 3, 1]), ("y", "float32", ["m", 1, 1])],
        [("a", "float32", [None, 3, 1]), ("b", "float32", [2, 3, 4])],
        {
            "w": np.arange(8, dtype=np.float32).reshape(2, 1, 4),
            **{name: np.array([value]) for name, value in
               (("k", 1), ("start", 0), ("end", 99), ("axis", 0), ("step", 16))},
        },
    )  # fmt: skip
    generator, runs = np.random.default_rng(0), []
    for n, m in ((5, 10), (2, 1), (1, 3)):
        shapes = (n, 3, 1), (m, 1, 1)
        runs.append([generator.standard_normal(shape).astype(np.float32) for shape in shapes])
    agree(proto, *runs)


def test_joined_functions_of_what_only_one_part_has(make_model: Any) -> None:
    """The steps of a function of guarded elements were before the guard, out of bounds."""
    proto = make_model(
        [
            node("Exp", ["x"], ["a"]),
            node("Min", ["y", "a"], ["b"]),
            node("Tanh", ["b"], ["c"]),
            node("Exp", ["c"], ["d"]),
            node("Concat", ["d", "b"], ["e"], axis=0),
            node("Reshape", ["e", "shape"], ["z"]),
        ],
        [("x", "float32", [110, 2]), ("y", "float32", [110, 2])],
        [("z", "float32", [220, 1, 2])],
        {"shape": np.array([220, 1, 2])},
    )
    generator = np.random.default_rng(0)
    agree(proto, [generator.standard_normal((110, 2)).astype(np.float32) for _ in range(2)])


def test_joined_booleans_without_a_result_of_elements(make_model: Any) -> None:
    """TVM gave a buffer of booleans that only vectors access another type, without views too."""
    proto = make_model(
        [
            node("Concat", ["x", "x", "x"], ["a"], axis=3),
            node("Split", ["a", "sizes"], ["y", "z", "none"], axis=0),
        ],
        [("x", "bool", [17, 1, 2, 4, 4, 1])],
        [("none", "bool", [0, 1, 2, 12, 4, 1])],
        {"sizes": np.array([15, 2, 0])},
    )
    agree(proto, [np.random.default_rng(0).random((17, 1, 2, 4, 4, 1)) < 0.5])


@pytest.mark.slow
def test_indices_along_dimensions_that_are_expressions(make_model: Any) -> None:
    """The kernels of ArgMin and TopK have the symbols of such dimensions as parameters."""
    proto = make_model(
        [
            node("Concat", ["x", "x", "y"], ["a"], axis=0),
            node("ArgMin", ["a"], ["i"], axis=0, keepdims=0),
            node("TopK", ["a", "two"], ["v", "j"], axis=0),
        ],
        [("x", "float32", ["n", 5]), ("y", "float32", ["m", 5])],
        [("i", "int64", [5]), ("v", "float32", [2, 5]), ("j", "int64", [2, 5])],
        {"two": np.array([2])},
    )
    generator, runs = np.random.default_rng(0), []
    for n, m in ((3, 4), (1, 9)):
        shapes = (n, 5), (m, 5)
        runs.append([generator.standard_normal(shape).astype(np.float32) for shape in shapes])
    agree(proto, *runs)


@pytest.mark.slow
def test_exponentials_of_dynamic_rows_in_memory_of_their_own(make_model: Any) -> None:
    """The last vectors were computed again from values that were overwritten by the first ones."""
    proto = make_model(
        [node("ReduceLogSumExp", ["x"], ["y"], axes=[1, 2])],
        [("x", "float32", ["n", 1, "m", 39])],
        [("y", "float32", ["n", 1, 1, 39])],
    )
    generator = np.random.default_rng(0)
    agree(proto, *([generator.random((n, 1, m, 39), np.float32)] for n, m in ((5, 4), (1, 7))))


@pytest.mark.slow
@pytest.mark.parametrize(
    "operator",
    ["BitwiseAnd", *(pytest.param(n, marks=pytest.mark.slow) for n in ("BitwiseOr", "BitwiseXor"))],
)
def test_bits_of_int32(make_model: Any, operator: str) -> None:
    """TVM narrows the divisions in the formula, but not their operands."""
    proto = make_model(
        [node(operator, ["x", "y"], ["z"])],
        [("x", "int32", [3, 5]), ("y", "int32", [3, 5])],
        [("z", "int32", [3, 5])],
    )
    proto.opset_import[0].version = 18
    generator = np.random.default_rng(0)
    agree(proto, [generator.integers(-(2**31), 2**31, (3, 5)).astype(np.int32) for _ in range(2)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("height", [1, "h"])
@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
def test_windows_in_the_padding(make_model: Any, operator: str, height: int | str) -> None:
    """A dilated window has no element of the input where all of its elements are padding."""
    pool = node(operator, ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 1], pads=[1, 1, 1, 0])
    proto = make_model(
        [pool], [("x", "float32", ["n", 3, height, 4])], [("y", "float32", None)], opset=19
    )
    generator = np.random.default_rng(0)
    heights = (1, 3) if height == "h" else (1,)
    agree(proto, *([generator.random((2, 3, h, 4), np.float32)] for h in heights))


def test_channels_of_a_group_and_rows_that_a_convolution_sums_up(make_model: Any) -> None:
    """Groups were counted along the rows, where a window has all rows of the data."""
    weights = np.random.default_rng(1).standard_normal((8, 1, 3, 3)).astype("float32")
    proto = make_model(
        [node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], group=4)],
        [("x", "float32", ["n", 4, 3, 8])],
        [("y", "float32", None)],
        {"w": weights},
    )
    agree(proto, [np.random.default_rng(0).standard_normal((2, 4, 3, 8)).astype("float32")])


def test_a_constant_of_three_dimensions_is_pooled(make_model: Any) -> None:
    """The evaluator of ``onnx`` squeezes the result."""
    constant = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
    proto = make_model(
        [node("GlobalMaxPool", ["c"], ["p"]), node("Add", ["p", "x"], ["y"])],
        [("x", "float32", [2, 3, 4])],
        [("y", "float32", None)],
        {"c": constant},
    )
    agree(proto, [np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")])


def test_a_broadcast_without_elements_beside_a_convolution(make_model: Any) -> None:
    """A reshape of Relax takes a dimension of 0 for that of its operand."""
    weights = np.random.default_rng(1).standard_normal((6, 1, 3)).astype("float32")
    proto = make_model(
        [
            node("ConvTranspose", ["x", "w"], ["c"], kernel_shape=[3], pads=[1, 1], strides=[2]),
            node("Div", ["c", "v"], ["y"]),
        ],
        [("x", "float32", [4, 6, 1]), ("v", "float32", [0, 3])],
        [("y", "float32", None)],
        {"w": weights},
    )
    agree(proto, [np.ones((4, 6, 1), "float32"), np.ones((0, 3), "float32")])


def test_quotients_of_the_lowest_integer(make_model: Any) -> None:
    """The absolute value of the lowest integer is not one that int32 can hold."""
    proto = make_model(
        [node("Div", ["x", "y"], ["q"]), node("Mod", ["x", "y"], ["r"], fmod=1)],
        [("x", "int32", [5]), ("y", "int32", [5])],
        [("q", "int32", [5]), ("r", "int32", [5])],
    )
    low, high = -(2**31), 2**31 - 1
    x, y = np.array([low, low, low, high, 7]), np.array([high, 2, low, low, low])
    agree(proto, [x.astype(np.int32), y.astype(np.int32)])


def test_quotients_of_differences_of_dimensions(make_model: Any) -> None:
    """What is computed of shapes was rounded down, also if it is negative."""
    proto = make_model(
        [
            node("Shape", ["x"], ["s"]),
            node("Sub", ["one", "s"], ["d"]),
            node("Div", ["d", "c"], ["q"]),
            node("Mod", ["d", "c"], ["r"], fmod=1),
            node("Mod", ["d", "c"], ["m"]),
        ],
        [("x", "float32", ["n", 6, 1])],
        [("q", "int64", [3]), ("r", "int64", [3]), ("m", "int64", [3])],
        {"one": np.array([2]), "c": np.array([13])},
    )
    agree(proto, *([np.zeros((n, 6, 1), np.float32)] for n in (1, 2, 4, 16)))


def test_a_batch_normalization_of_constants(make_model: Any) -> None:
    """The evaluator of ``onnx`` takes statistics of the batch before opset 14."""
    generator = np.random.default_rng(0)
    values = {name: generator.random(4, np.float32) for name in ("scale", "bias", "mean", "var")}
    constant = {"c": generator.random((5, 4), np.float32)}
    proto = make_model(
        [node("BatchNormalization", ["c", *values], ["b"]), node("Add", ["b", "x"], ["y"])],
        [("x", "float32", [5, 4])],
        [("y", "float32", [5, 4])],
        {**constant, **values},
        opset=13,
    )
    agree(proto, [generator.random((5, 4), np.float32)])


def test_positions_of_aligned_corners_along_a_dynamic_dimension(make_model: Any) -> None:
    """TVM looked for the bounds of a vector of reals, to which it had bound a variable."""
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    proto = make_model(
        [node("Resize", ["x", "", "scales"], ["y"], **attributes)],
        [("x", "float32", ["n", 4, "m"])],
        [("y", "float32", None)],
        {"scales": np.array([1, 1, 3], np.float32)},
    )
    generator = np.random.default_rng(0)
    agree(proto, *([generator.random((2, 4, m), np.float32)] for m in (1, 2, 12)), bounds={})


def test_a_row_of_pairs_has_all_of_its_memory(make_model: Any) -> None:
    """TVM makes vectors of its elements; a row that long was allocated for a half of them."""
    proto = make_model(
        [
            node("ConvTranspose", ["x", "w"], ["c"], kernel_shape=[2, 1], strides=[3, 2]),
            node("ReduceL2", ["c"], ["y"], axes=[0, 1, 2, 3], keepdims=0),
        ],
        [("x", "float32", [6, 4, 17, 3])],
        [("y", "float32", [])],
        {"w": np.random.default_rng(1).random((4, 2, 2, 1), np.float32)},
        opset=13,
    )
    agree(proto, [np.random.default_rng(0).random((6, 4, 17, 3), np.float32)])
