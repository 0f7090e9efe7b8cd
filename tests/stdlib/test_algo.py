"""Module algo: the largest elements against NumPy, the boxes apart against ONNX Runtime."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tvm_nnef

RANDOM = np.random.default_rng(7)
SHAPES: list[tuple[int, ...]] = [(7,), (1,), (4, 6), (3, 1, 5), (2, 3, 4, 2), (2, 2, 1, 3, 4)]
SPECIAL = np.array([1.5, -2.25, 0.0, -0.0, np.inf, -np.inf, np.nan, 7.0], np.float32)

Case = tuple[str, dict[str, Any], list[Any], Any]


def first(x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """The k largest (or smallest) elements and their indices; of equal ones the first is first."""
    # NumPy puts NaN last as well
    order = np.argsort(-x if largest else x, axis, kind="stable")
    positions = np.take(order, np.arange(min(k, x.shape[axis])), axis)
    return np.take_along_axis(x, positions, axis), positions.astype(np.int32)


def ranks() -> Iterator[Case]:
    """Few values, so that many are equal."""
    for shape in SHAPES:
        x = RANDOM.choice(SPECIAL, shape)
        for number, largest in itertools.product(range(x.ndim), (True, False)):
            if x.ndim > 3 and largest == bool(number % 2):
                continue
            axis = number - x.ndim if largest else number
            for k in sorted({1, x.shape[axis] if largest else 99}):
                attributes = {"k": k, "axis": axis, "largest": largest, "sorted": k > 1}
                yield "algo.top_k", attributes, [x], first(x, k, axis, largest)
    x = RANDOM.choice(SPECIAL, (3, 4))
    yield "algo.top_k", {"k": 2}, [x], first(x, 2, 0, True)


def lengths() -> Iterator[Case]:
    """Few elements are selected in another way than many."""
    for length, k in [(300, 32), (300, 33), (256, 256), (257, 200), (64, 63), (33, 33)]:
        rows = [
            RANDOM.normal(size=length),
            RANDOM.integers(0, 9, length),
            np.arange(length),
            -np.arange(length),
            np.full(length, np.nan),
            RANDOM.choice(SPECIAL, length),
        ]
        x = np.array(rows, np.float32)
        for largest in (True, False):
            attributes = {"k": k, "axis": 1, "largest": largest}
            yield "algo.top_k", attributes, [x], first(x, k, 1, largest)


def empty() -> Iterator[Case]:
    for shape, axis in [((0,), 0), ((2, 0, 3), 1), ((2, 0, 3), 2), ((0, 4), -1)]:
        x = np.zeros(shape, np.float32)
        yield "algo.top_k", {"k": 2, "axis": axis}, [x], first(x, 2, axis, True)


FAMILIES = {"ranks": list(ranks()), "lengths": list(lengths()), "empty": list(empty())}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "family", [pytest.param("ranks", marks=pytest.mark.slow), "lengths", "empty"]
)
def test_top_k_agrees_with_numpy(family: str, agree: Any) -> None:
    agree(FAMILIES[family])


def test_many_elements_are_sorted_in_their_order_of_magnitude(agree: Any) -> None:
    """Comparing each with each would take 40 billion steps."""
    x = RANDOM.integers(0, 50_000, 200_000).astype(np.float32)
    agree([("algo.top_k", {"k": k}, [x], first(x, k, 0, True)) for k in (3, 200_000)])


@pytest.mark.parametrize(("real", "int_"), [("float16", "int64"), ("float64", "int32")])
def test_top_k_in_other_dtypes(real: str, int_: str, agree: Any) -> None:
    x = np.array([1.0, 1.0009765625, -3.0, np.nan, 65504.0, np.inf])
    cases = [
        ("algo.top_k", {"k": k, "largest": largest}, [x], first(x, k, 0, largest))
        for k in (2, 6)
        for largest in (True, False)
    ]
    agree(cases, dtypes={"real": real, "int": int_}, tolerance=(0, 0))


def runtime_boxes(boxes: Any, scores: Any, **attributes: Any) -> Any:
    """Non-maximum suppression by ONNX Runtime."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    limit = attributes.get("max_outputs_per_class", scores.shape[2])
    given = [
        np.array([limit], np.int64),
        np.array([attributes.get("iou_threshold", 0.0)], np.float32),
        np.array([attributes.get("score_threshold", -np.inf)], np.float32),
    ]
    names = ["boxes", "scores", "limit", "overlap", "least"]
    center = int(attributes.get("box_format") == "CENTER")
    node = onnx.helper.make_node("NonMaxSuppression", names, ["rows"], center_point_box=center)
    arrays = dict(zip(names, [boxes, scores, *given], strict=True))
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
    ]
    outputs = [onnx.helper.make_tensor_value_info("rows", onnx.TensorProto.INT64, None)]
    graph = onnx.helper.make_graph([node], "boxes", inputs, outputs)
    opset = [onnx.helper.make_opsetid("", 13)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString())
    return session.run(None, arrays)[0].astype(np.int32)


# batch, classes, boxes; format, overlap, limit, least score
BOXES: list[tuple[tuple[int, int, int], tuple[str, float, int | None, float | None]]] = [
    ((1, 1, 1), ("CORNERS", 0.0, None, None)),
    ((2, 3, 20), ("CORNERS", 0.0, None, None)),
    ((2, 3, 20), ("CORNERS", 0.4, 3, 0.5)),
    ((2, 3, 20), ("CENTER", 0.4, 25, 0.0)),
    ((2, 3, 20), ("CENTER", 1.0, 19, None)),
    ((2, 3, 20), ("CORNERS", 1.0, 2, 2.0)),
    ((1, 2, 70), ("CORNERS", 0.7, 9, 0.9)),
    ((1, 2, 70), ("CENTER", 0.1, None, 0.25)),
]


def boxes_apart() -> Iterator[Case]:
    for (batch, kinds, count), (box_format, overlap, limit, least) in BOXES:
        boxes = RANDOM.random((batch, count, 4)).astype(np.float32)
        # few values, so that many are equal
        scores = (RANDOM.integers(0, 9, (batch, kinds, count)) / 8).astype(np.float32)
        attributes = {
            "box_format": box_format,
            "iou_threshold": overlap,
            "max_outputs_per_class": limit,
            "score_threshold": least,
        }
        given = {name: value for name, value in attributes.items() if value is not None}
        expected = runtime_boxes(boxes, scores, **given)
        yield "algo.nonmax_suppress", given, [boxes, scores], expected


@pytest.mark.slow
def test_boxes_agree_with_onnx_runtime(agree: Any) -> None:
    agree(list(boxes_apart()))


@pytest.mark.slow
def test_boxes_at_the_edge(agree: Any) -> None:
    """Cases of which ONNX Runtime does not take all; all expected by hand."""
    # two equal boxes, one of no area inside of them, one that touches them, corners in any order
    boxes = np.array(
        [[[0, 0, 2, 2], [2, 2, 0, 0], [1, 1, 1, 1], [2, 0, 4, 2], [0, 2, 2, 0]]], np.float32
    )
    scores = np.array([[[0.5, 0.5, 0.5, 0.5, 0.9], [-1, -2, np.nan, -4, -np.inf]]], np.float32)
    none = np.zeros((0, 3), np.int32)
    operator, operands = "algo.nonmax_suppress", [boxes, scores]
    agree(
        [
            (
                operator,
                {},
                operands,
                # the first class takes the best box, then what does not overlap; in the second
                # NaN comes last
                np.array([[0, 0, 4], [0, 0, 2], [0, 0, 3], [0, 1, 0], [0, 1, 3], [0, 1, 2]]),
            ),
            (operator, {"max_outputs_per_class": 0}, operands, none),
            (operator, {"score_threshold": 0.9}, operands, none),
            (
                operator,
                {"score_threshold": 0.5, "iou_threshold": 1.0},
                operands,
                np.array([[0, 0, 4]]),
            ),
            (
                operator,
                {"iou_threshold": 1.0, "max_outputs_per_class": 2},
                operands,
                np.array([[0, 0, 4], [0, 0, 0], [0, 1, 0], [0, 1, 1]]),
            ),
            (operator, {}, [np.zeros((1, 0, 4)), np.zeros((1, 2, 0))], none),
            (operator, {}, [np.zeros((0, 2, 4)), np.zeros((0, 2, 2))], none),
        ]
    )


DYNAMIC = """import algo;
graph G {
    @input {
        boxes: real[b|3, n|40, 4];
        scores: real[b, 2, n];
        table: real[b, 5];
    }
    @output {
        rows: int[~, 3];
        values: real[b, 2];
        positions: int[b, 2];
        all: real;
        order: int;
    }
    @compose {
        rows = algo.nonmax_suppress{iou_threshold=0.3, score_threshold=0.5}(boxes, scores);
        values, positions = algo.top_k{k=2, axis=1}(table);
        all, order = algo.top_k{k=9, axis=2, largest=false}(scores);
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
def test_dimensions_of_the_run(route: Any) -> None:
    run: Any = functools.partial(tvm_nnef.evaluate, DYNAMIC)
    if route != "reference":
        run = tvm_nnef.build(tvm_nnef.from_nnef(DYNAMIC, route=route), progress=False)
    for batch, count in [(1, 1), (2, 9), (3, 40), (1, 0), (1, 12)]:
        boxes = RANDOM.random((batch, count, 4)).astype(np.float32)
        scores = RANDOM.random((batch, 2, count)).astype(np.float32)
        table = RANDOM.random((batch, 5)).astype(np.float32)
        expected = [
            runtime_boxes(boxes, scores, iou_threshold=0.3, score_threshold=0.5),
            *first(table, 2, 1, True),
            *first(scores, 9, 2, False),
        ]
        for actual, wanted in zip(run(boxes, scores, table), expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_every_operator_is_judged(uncovered: Any) -> None:
    families: dict[str, Any] = {**FAMILIES, "boxes": [("algo.nonmax_suppress",)]}
    assert uncovered("algo", families) == set()


REJECTIONS = [
    ("algo.top_k{k=0}(x)", "'k' must be positive", (0.0, 0)),
    ("algo.top_k{k=1, axis=3}(x)", "'axis' is out of range for an input of rank 3", (0.0, 0)),
    (
        "algo.nonmax_suppress{box_format='XY'}(boxes, x)",
        "'box_format' must be one of",
        0,
    ),
    (
        "algo.nonmax_suppress{iou_threshold=1.5}(boxes, x)",
        "'iou_threshold' must be between",
        0,
    ),
    (
        "algo.nonmax_suppress{max_outputs_per_class=-1}(boxes, x)",
        "'max_outputs_per_class' must not be negative",
        0,
    ),
]


@pytest.mark.parametrize(("invocation", "words", "result"), REJECTIONS)
def test_refuses(invocation: str, words: str, result: Any, rejected: Any) -> None:
    inputs = {"x": np.zeros((3, 8, 4), np.float32), "boxes": np.zeros((3, 4, 4), np.float32)}
    rejected(inputs, invocation, words, result)
