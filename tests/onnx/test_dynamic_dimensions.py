"""Models with dynamic dimensions, as exporters write them: one program for several sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.common.symbolic import quotient, symbol
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
node = onnx.helper.make_node
random = np.random.default_rng(0)
Array = np.ndarray


def weights(*shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)


def agree(
    proto: Any, sizes: Sequence[Mapping[str, int]], bounds: Mapping[str, int] | int = 16
) -> tvm_nnef.Model:
    """The evaluator and one compiled model give what ONNX Runtime gives, for all sizes."""
    proto.ir_version = 10  # which every ONNX Runtime reads
    session = runtime.InferenceSession(proto.SerializeToString())
    model = tvm_nnef.convert(proto, bounds=bounds)
    compiled = tvm_nnef.build(model, progress=False)
    for size in sizes:
        feeds = {each.name: _values(each, size) for each in session.get_inputs()}
        expected = session.run(None, feeds)
        for found in (tvm_nnef.evaluate(model, *feeds.values()), compiled(*feeds.values())):
            for ours, theirs in zip(map(np.asarray, found), expected, strict=True):
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    return model


def _values(value: Any, size: Mapping[str, int]) -> Array:
    shape = [size.get(extent, extent) for extent in value.shape]
    if value.type == "tensor(int32)":
        # Lengths: from all steps downwards.
        return np.maximum(size["t"] - np.arange(shape[0]), 1).astype(np.int32)
    return weights(*shape)


SEQUENCES = ({"b": 2, "t": 5}, {"b": 1, "t": 1}, {"b": 3, "t": 8})
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


QUICK = ("RNN", "forward", True)
"""The other layers are compiled in the slow run."""


@pytest.mark.parametrize(
    ("operator", "direction", "lengths"),
    [
        pytest.param(*layer, marks=() if layer == QUICK else pytest.mark.slow)
        for layer in itertools.product(
            GATES, ("forward", "reverse", "bidirectional"), (False, True)
        )
    ],
)
def test_recurrent_layers_of_any_length(
    operator: str, direction: str, lengths: bool, make_model: Any
) -> None:
    count, gates = 2 if direction == "bidirectional" else 1, GATES[operator]
    outputs = [("y", "float32", ["t", count, "b", 4]), ("h", "float32", [count, "b", 4])]
    if operator == "LSTM":
        outputs.append(("c", "float32", [count, "b", 4]))
    inputs = [("x", "float32", ["t", "b", 3]), ("n", "int32", ["b"])][: 1 + lengths]
    proto = make_model(
        [node(operator, ["x", "w", "r", "bias", "n" if lengths else ""],
              [name for name, *_ in outputs], hidden_size=4, direction=direction)],
        inputs, outputs,
        {"w": weights(count, gates * 4, 3), "r": weights(count, gates * 4, 4),
         "bias": weights(count, gates * 8)},
    )  # fmt: skip
    agree(proto, SEQUENCES)


def test_a_recurrent_layer_of_the_last_element_of_a_dimension(make_model: Any) -> None:
    proto = make_model(
        [
            node("Slice", ["x", "last", "end", "axis"], ["part"]),
            node("LSTM", ["part", "w", "r"], ["", "h"], hidden_size=4),
        ],
        [("x", "float32", [3, "t", 2])],
        [("h", "float32", None)],
        {"last": np.array([-1]), "end": np.array([2**63 - 1]), "axis": np.array([1]),
         "w": weights(1, 16, 2), "r": weights(1, 16, 4)},
    )  # fmt: skip
    model = tvm_nnef.convert(proto, bounds=8)
    x = weights(3, 5, 2)
    expected = runtime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(tvm_nnef.evaluate(model, x)[0], expected[0], rtol=1e-5)


@pytest.mark.parametrize("bound", [6, 40], ids=["of the rows", "beyond the rows"])
def test_rows_of_a_table_up_to_a_dynamic_dimension(bound: int, make_model: Any) -> None:
    proto = make_model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "one"], ["t"]),
            node("Slice", ["table", "zero", "t", "one"], ["rows"]),
            node("Add", ["x", "rows"], ["y"]),
        ],
        [("x", "float32", ["b", "t", 4])],
        [("y", "float32", ["b", "t", 4])],
        {"table": weights(1, 6, 4), "zero": np.array([0]), "one": np.array([1])},
    )
    agree(proto, ({"b": 2, "t": 5}, {"b": 3, "t": 6}), bounds=bound)


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("keep", [0, 1])
def test_products_of_dynamic_dimensions(keep: int, opset: int, make_model: Any) -> None:
    given: dict[str, Any] = {"axes": [0]} if opset < 18 else {}
    proto = make_model(
        [
            node("Shape", ["x"], ["shape"]),
            node("ReduceProd", ["shape", "zero"][: opset - 16], ["p"], keepdims=keep, **given),
            node("Mul", ["p", "two"], ["q"]),
            *([] if keep else [node("Unsqueeze", ["q", "zero"], ["r"])]),
            node("Concat", ["q" if keep else "r", "rest"], ["wanted"], axis=0),
            node("Tile", ["x", "two_and_one"], ["twice"]),
            node("Reshape", ["twice", "wanted"], ["y"]),
        ],
        [("x", "float32", ["b", "t", 4])],
        [("y", "float32", None)],
        {"zero": np.array([0]), "two": np.array(2), "rest": np.array([-1]),
         "two_and_one": np.array([2, 1, 1])},
        opset=opset,
    )  # fmt: skip
    agree(proto, ({"b": 2, "t": 5}, {"b": 3, "t": 6}))


@pytest.mark.parametrize(("start", "end"), [(0, 1), (-1, 2**63 - 1)])
def test_one_element_of_a_dynamic_dimension_broadcasts(
    start: int, end: int, make_model: Any
) -> None:
    proto = make_model(
        [node("Slice", ["x", "start", "end", "axis"], ["one"]), node("Mul", ["x", "one"], ["y"])],
        [("x", "float32", ["b", "t", 4])],
        [("y", "float32", ["b", "t", 4])],
        {"start": np.array([start]), "end": np.array([end]), "axis": np.array([1])},
    )
    agree(proto, (*SEQUENCES, {"b": 2, "t": 0}))


PARTS = [
    (0, 1, 1), (0, 3, 1), (2, 4, 1), (-3, 2**63 - 1, 1), (0, -1, 1), (-1, 2**63 - 1, 1),
    (1, -1, 1), (-3, -1, 1), (2, -2, 1), (5, 2, 1), (0, 5, 2), (-5, -1, 2), (-1, -4, -1),
]  # fmt: skip
"""Start, end and step of parts that are shorter, or empty, along a short dimension."""


@pytest.mark.slow
def test_bounds_of_parts_are_clamped_to_dynamic_dimensions(make_model: Any) -> None:
    names = [f"y{number}" for number in range(len(PARTS))]
    bounds = {
        f"{kind}{number}": np.array([value])
        for number, part in enumerate(PARTS)
        for kind, value in zip(("start", "end", "step"), part, strict=True)
    }
    proto = make_model(
        [node("Slice", ["x", f"start{n}", f"end{n}", "axis", f"step{n}"], [name])
         for n, name in enumerate(names)],
        [("x", "float32", ["b", "t", 2])], [(name, "float32", None) for name in names],
        {"axis": np.array([1]), **bounds},
    )  # fmt: skip
    agree(proto, [{"b": 2, "t": count} for count in (0, 1, 2, 3, 4, 8)])


@pytest.mark.slow
def test_bounds_of_parts_that_are_negative_for_some_sizes(make_model: Any) -> None:
    """``start`` is 5 less than the dimension, ``end`` is 2 less."""
    parts = [
        ("zero", "start", "one"), ("start", "far", "one"), ("start", "end", "one"),
        ("start", "end", "two"), ("start", "low", "minus"), ("far", "start", "minus"),
        ("start", "t", "one"),
    ]  # fmt: skip
    names = [f"y{number}" for number in range(len(parts))]
    numbers = {"zero": 0, "one": 1, "two": 2, "five": 5, "minus": -1, "far": HUGE, "low": -HUGE}
    proto = make_model(
        [
            node("Shape", ["x"], ["t"]),
            node("Sub", ["t", "five"], ["start"]),
            node("Sub", ["t", "two"], ["end"]),
            *(node("Slice", ["x", start, end, "zero", step], [name])
              for name, (start, end, step) in zip(names, parts, strict=True)),
        ],
        [("x", "float32", ["t"])], [(name, "float32", None) for name in names],
        {name: np.array([value]) for name, value in numbers.items()},
    )  # fmt: skip
    agree(proto, [{"t": count} for count in (1, 3, 5, 9)])


HUGE = 2**63 - 1


@pytest.mark.slow
def test_a_batch_that_a_reshape_fixes(make_model: Any) -> None:
    """The model holds for a batch of 1 alone, which its concatenation takes for granted."""
    pool = node("AveragePool", ["x"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    proto = make_model(
        [
            pool,
            node("Conv", ["x", "w"], ["c"]),
            node("Reshape", ["c", "shape"], ["r"]),
            node("Conv", ["r", "w"], ["d"]),
            node("Concat", ["d", "p"], ["y"], axis=1),
        ],
        [("x", "float32", ["b", 4, 6, 6])], [("y", "float32", None)],
        {"w": weights(4, 4, 1, 1), "shape": np.array([1, 4, 6, 6])},
    )  # fmt: skip
    model = agree(proto, [{"b": 1}])
    with pytest.raises(NnefError, match="volume"):
        tvm_nnef.build(model, progress=False)(weights(2, 4, 6, 6))


@pytest.mark.slow
def test_a_batch_that_an_initial_state_fixes(make_model: Any) -> None:
    proto = make_model(
        [node("GRU", ["x", "w", "r", "", "", "h0"], ["y"], hidden_size=4)],
        [("x", "float32", ["t", "b", 3]), ("h0", "float32", [1, 1, 4])], [("y", "float32", None)],
        {"w": weights(1, 12, 3), "r": weights(1, 12, 4)},
    )  # fmt: skip
    model = agree(proto, [{"b": 1, "t": 3}])
    with pytest.raises(NnefError, match="volume"):
        tvm_nnef.evaluate(model, weights(3, 2, 3), weights(1, 1, 4))


def test_a_squeeze_without_axes_keeps_dynamic_dimensions(make_model: Any) -> None:
    proto = make_model(
        [node("Squeeze", ["x"], ["s"]), node("Slice", ["s", "start", "end", "start"], ["y"])],
        [("x", "float32", ["b", 1, 5])], [("y", "float32", None)],
        {"start": np.array([0]), "end": np.array([2])},
    )  # fmt: skip
    model = agree(proto, [{"b": 3}, {"b": 2}])
    for run in (tvm_nnef.build(model, progress=False), partial(tvm_nnef.evaluate, model)):
        with pytest.raises(NnefError, match="is 1, which a Squeeze without axes would remove"):
            run(weights(1, 1, 5))


@pytest.mark.parametrize(
    ("border", "pads"),
    [
        (1, [1, 0, 1, 1]),
        pytest.param(0, [1, 0, 1, 1], marks=pytest.mark.slow),
        # Without padding there is no border to count.
        pytest.param(0, [0, 0, 0, 0], marks=pytest.mark.slow),
        pytest.param(1, [0, 0, 0, 0], marks=pytest.mark.slow),
    ],
)
def test_average_pooling_of_dynamic_images_rounded_up(
    border: int, pads: list[int], make_model: Any
) -> None:
    pool = node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=pads,
                ceil_mode=1, count_include_pad=border)  # fmt: skip
    proto = make_model(
        [pool], [("x", "float32", [1, 2, "h", "w"])], [("y", "float32", [1, 2, "p", "q"])], opset=19
    )
    agree(proto, ({"h": 8, "w": 7}, {"h": 9, "w": 10}, {"h": 6, "w": 16}))


@pytest.mark.parametrize(("dtype", "number"), [
    ("uint64", 2**63), ("uint64", 2**64 - 1), ("int64", -(2**63)), ("int64", 2**63 - 1),
])  # fmt: skip
def test_integers_at_the_ends_of_64_bits(dtype: str, number: int, make_model: Any) -> None:
    proto = make_model(
        [node("Where", ["c", "x", "limit"], ["y"])],
        [("c", "bool", [2]), ("x", dtype, [2])],
        [("y", dtype, [2])],
        {"limit": np.array(number, dtype)},
    )
    model = tvm_nnef.convert(proto)
    inputs = np.array([True, False]), np.array([3, 4], dtype)
    for found in (
        tvm_nnef.evaluate(model, *inputs),
        tvm_nnef.build(model, progress=False)(*inputs),
    ):
        np.testing.assert_array_equal(found[0], np.array([3, number], dtype))


@pytest.mark.slow
def test_spectra_of_dynamic_signals(make_model: Any) -> None:
    proto = make_model(
        [node("STFT", ["x", "step", "window"], ["y"])],
        [("x", "float32", ["b", "t", 1])],
        [("y", "float32", ["b", "frames", 5, 2])],
        {"step": np.array(4), "window": np.hanning(8).astype(np.float32)},
    )
    agree(proto, ({"b": 2, "t": 24}, {"b": 1, "t": 33}, {"b": 3, "t": 8}), bounds=64)


@pytest.mark.parametrize("ordered", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_distinct_numbers(ordered: int, make_model: Any) -> None:
    positions = ("first", "inverse", "counts")
    proto = make_model(
        [node("Floor", ["x"], ["z"]), node("Unique", ["z"], ["y", *positions], sorted=ordered)],
        [("x", "float32", ["n", 3])],
        [("y", "float32", ["m"]), *((name, "int64", ["m"]) for name in positions)],
    )
    proto.graph.output[2].type.tensor_type.shape.dim[0].dim_param = "all"
    agree(proto, [{"n": 1}, {"n": 7}, {"n": 16}])


def test_the_largest_integers_in_order(make_model: Any) -> None:
    proto = make_model(
        [node("TopK", ["x", "k"], ["y", "place"], axis=0)],
        [("x", "int64", [4])],
        [("y", "int64", [3]), ("place", "int64", [3])],
        {"k": np.array([3])},
    )
    x = 2**62 + np.array([0, 1, 3, 2])
    model = tvm_nnef.convert(proto)
    for found in (tvm_nnef.evaluate(model, x), tvm_nnef.build(model, progress=False)(x)):
        np.testing.assert_array_equal(found[0], x[[2, 3, 1]])
        np.testing.assert_array_equal(found[1], [2, 3, 1])


def test_a_dimension_repeated_as_often_as_another_says(make_model: Any) -> None:
    proto = make_model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["b"]),
            node("Gather", ["shape", "one"], ["t"]),
            node("Expand", ["t", "b"], ["y"]),
        ],
        [("x", "float32", ["b", "t"])],
        [("y", "int64", ["b"])],
        {"zero": np.array([0]), "one": np.array([1])},
        opset=13,
    )
    agree(proto, ({"b": 2, "t": 3}, {"b": 3, "t": 5}))


def test_dimensions_with_a_question_mark_for_a_name_are_different(make_model: Any) -> None:
    proto = make_model(
        [node("Relu", ["x"], ["y"])], [("x", "float32", ["?", "?"])], [("y", "float32", ["?", "?"])]
    )
    model = tvm_nnef.convert(proto, bounds={"x_1": 8, "x": (4, None)})
    x = weights(2, 5)
    for found in (tvm_nnef.evaluate(model, x), tvm_nnef.build(model, progress=False)(x)):
        np.testing.assert_array_equal(found[0], np.maximum(x, 0))


def test_numbers_in_a_volume_cancel_out_when_a_dimension_follows_from_the_others() -> None:
    rows, columns = (symbol(name, 512, number) for number, name in enumerate("hw"))
    height, width = ((each - 1) // 32 * 4 + 4 for each in (rows, columns))
    found = quotient((2, 82, height, width), (2, 82))
    assert found == height * width
    assert "82" not in str(found)


def test_branches_of_different_ranks_hint_at_input_shapes(make_model: Any) -> None:
    def body(kind: str, *inputs: str) -> Any:
        made = onnx.helper.make_tensor_value_info(kind, 1, None)
        return onnx.helper.make_graph([node(kind, ["x", *inputs], [kind])], kind, [], [made])

    proto = make_model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "one"], ["t"]),
            node("Equal", ["t", "one"], ["is_one"]),
            node("If", ["is_one"], ["y"], then_branch=body("Squeeze", "axes"),
                 else_branch=body("Sin")),
        ],
        [("x", "float32", [2, "t"])],
        [("y", "float32", None)],
        {"one": np.array(1), "axes": np.array([1])},
    )  # fmt: skip
    with pytest.raises(NnefError, match=r"(?s)float32\[2\] and float32\[2, t.*input_shapes"):
        tvm_nnef.convert(proto, bounds=8)
    model = tvm_nnef.convert(proto, input_shapes={"x": (2, 1)})
    assert tvm_nnef.evaluate(model, np.ones((2, 1), np.float32))[0].shape == (2,)
