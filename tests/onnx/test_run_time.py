"""Dynamic dimensions, and arguments that are inputs.

Each case is a model whose shapes are not known, with feeds of different shapes for one conversion;
the judge is ONNX Runtime, or ONNX's reference evaluator where the former does otherwise or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """A node (or several), what is known of its inputs, and feeds to run it with."""

    nodes: Sequence[Any]
    inputs: Sequence[tuple[str, str, Sequence[int | str]]]
    feeds: Sequence[Sequence[Any]]
    outputs: Sequence[tuple[str, str, int]] = (("y", "f4", -1),)
    constants: Mapping[str, Array] = field(default_factory=dict)
    bounds: Any = 16
    opset: int = 22
    rtol: float = 1e-4
    by_reference: bool = False


def node(operator: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    """A node; ``_`` stands for an input that is left out."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return onnx.helper.make_node(operator, names, outputs.split(), **attributes)


def reals(*shape: int) -> Array:
    """Numbers of no order, the same for a shape at every call."""
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def scalar(value: float, dtype: str = "i8") -> Array:
    return np.array(value, dtype)


IMAGE = ("x", "f4", ("n", 2, "h", "w"))
IMAGES = [reals(1, 2, 4, 5), reals(2, 2, 6, 3)]
ROW, ROWS = ("x", "f4", ("n", 3)), [reals(4, 3), reals(7, 3)]
SEQUENCE, SEQUENCES = ("x", "f4", ("t", "b", 3)), [reals(5, 2, 3), reals(2, 4, 3)]
WEIGHTS = {
    kind: {
        "w": reals(2, 4 * gates, 3) * np.float32(0.5),
        "r": reals(2, 4 * gates, 4) * np.float32(0.5),
        "b": reals(2, 8 * gates) * np.float32(0.5),
    }
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
}
FULL = ("y", "f4", 4)


def graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """A body of a loop or a scan, whose values have a type and no shape."""
    number = onnx.TensorProto.FLOAT

    def value(name: str) -> Any:
        return onnx.helper.make_tensor_value_info(name, number, None)

    return onnx.helper.make_graph(
        list(nodes), "body", [value(name) for name in inputs], [value(name) for name in outputs]
    )


TOTAL = graph(
    [node("Add", "state item", "new"), node("Mul", "new new", "square")],
    ["state", "item"], ["new", "square"],
)  # fmt: skip


def resize(**attributes: Any) -> Any:
    return node("Resize", "x _ scales", **attributes)


def recurrent(kind: str, **attributes: Any) -> Case:
    """All outputs of a layer over an open time and batch."""
    count = 2 if kind == "RNN" else 1
    lengths = "l" if "lengths" in attributes else "_"
    attributes.pop("lengths", None)
    direction = "bidirectional" if count == 2 else attributes.pop("direction", "forward")
    weights = {name: array[:count] for name, array in WEIGHTS[kind].items()}
    inputs: list[Any] = [SEQUENCE]
    feeds: list[list[Any]] = [[x] for x in SEQUENCES]
    if lengths == "l":
        inputs.append(("l", "i4", ("b",)))
        feeds = [[x, np.arange(x.shape[1], dtype=np.int32) % x.shape[0] + 1] for x in SEQUENCES]
    return Case(
        [node(kind, f"x w r b {lengths}", "y h", hidden_size=4, direction=direction, **attributes)],
        inputs, feeds, [("y", "f4", 4), ("h", "f4", 3)], weights,
    )  # fmt: skip


EXTENTS: Mapping[str, Case] = {
    "Resize nearest by scales": Case(
        [resize(nearest_mode="floor", coordinate_transformation_mode="asymmetric")],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"scales": np.array([1, 1, 2, 2], "f4")},
    ),
    "Resize linear by scales": Case(
        [resize(mode="linear")],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"scales": np.array([1, 1, 1.5, 0.5], "f4")},
    ),
    "Resize cubic by scales": Case(
        [resize(mode="cubic", coordinate_transformation_mode="align_corners")],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"scales": np.array([1, 1, 2, 3], "f4")},
    ),
    "Resize to sizes": Case(
        [node("Resize", "x _ _ sizes", mode="linear", axes=[2, 3])],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"sizes": ints(7, 9)},
    ),
    "Resize to the sizes of another": Case(
        [node("Shape", "z", "sizes"),
         node("Resize", "x _ _ sizes", mode="linear",
              coordinate_transformation_mode="pytorch_half_pixel")],
        [IMAGE, ("z", "f4", ("n", 2, "p", "q"))],
        [[IMAGES[0], reals(1, 2, 9, 5)], [IMAGES[1], reals(2, 2, 3, 8)]], [FULL],
    ),
    "RNN": recurrent("RNN"),
    "RNN of lengths": recurrent("RNN", lengths=True),
    "GRU": recurrent("GRU", linear_before_reset=1),
    "GRU reverse": recurrent("GRU", direction="reverse"),
    "LSTM": recurrent("LSTM"),
    "LSTM of lengths, reverse": recurrent("LSTM", lengths=True, direction="reverse"),
    "Scan": Case(
        [node("Scan", "s x", "f y", body=TOTAL, num_scan_inputs=1)],
        [("s", "f4", (3,)), ROW], [[reals(3), x] for x in ROWS], [("f", "f4", 1), ("y", "f4", 2)],
    ),
    "Scan backward": Case(
        [node("Scan", "s x", "f y", body=TOTAL, num_scan_inputs=1, scan_input_directions=[1],
              scan_output_directions=[1], scan_output_axes=[1])],
        [("s", "f4", (3,)), ROW], [[reals(3), x] for x in ROWS], [("f", "f4", 1), ("y", "f4", 2)],
    ),
    "DFT": Case(
        [node("DFT", "x _ axis")],
        [("x", "f4", ("b", "t", 1))], [[reals(2, 6, 1)], [reals(1, 9, 1)]], [("y", "f4", 3)],
        {"axis": scalar(1)}, rtol=1e-3,
    ),
    "DFT onesided": Case(
        [node("DFT", "x _ axis", onesided=1)],
        [("x", "f4", ("b", "t", 1))], [[reals(2, 6, 1)], [reals(1, 9, 1)]], [("y", "f4", 3)],
        {"axis": scalar(1)}, rtol=1e-3,
    ),
    "Range": Case(
        [node("Shape", "x", "s", start=0, end=1), node("Squeeze", "s", "end"),
         node("Range", "zero end one")],
        [ROW], [[x] for x in ROWS], [("y", "i8", 1)], {"zero": scalar(0), "one": scalar(1)},
    ),
    "Pad": Case(
        [node("Pad", "x pads", mode="reflect")],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"pads": ints(0, 0, 1, 2, 0, 0, 2, 1)},
    ),
    "Slice": Case(
        [node("Slice", "x starts ends axes steps")],
        [ROW], [[x] for x in ROWS], [("y", "f4", 2)],
        {"starts": ints(-1), "ends": ints(-100), "axes": ints(0), "steps": ints(-2)},
    ),
    "Tile": Case(
        [node("Tile", "x repeats")],
        [ROW], [[x] for x in ROWS], [("y", "f4", 2)], {"repeats": ints(2, 3)}, 32,
    ),
    "TopK": Case(
        [node("TopK", "x k", "y i", axis=0)],
        [ROW], [[x] for x in ROWS], [("y", "f4", 2), ("i", "i8", 2)], {"k": ints(3)},
    ),
    "Split": Case(
        [node("Split", "x", "y z", axis=0, num_outputs=2)],
        [ROW], [[x] for x in ROWS], [("y", "f4", 2), ("z", "f4", 2)],
    ),
    "Gather from the end": Case(
        [node("Gather", "x i", axis=0)],
        [ROW], [[x] for x in ROWS], [("y", "f4", 2)], {"i": ints(0, -1)},
    ),
    "CumSum": Case(
        [node("CumSum", "x axis", reverse=1)],
        [ROW], [[x] for x in ROWS], [("y", "f4", 2)], {"axis": scalar(0)},
    ),
    "NonZero": Case(
        [node("Greater", "x zero", "p"), node("NonZero", "p", "y")],
        [ROW], [[x] for x in ROWS], [("y", "i8", 2)], {"zero": scalar(0, "f4")}, 32,
    ),
    "Softmax": Case([node("Softmax", "x", axis=0)], [ROW], [[x] for x in ROWS], [("y", "f4", 2)]),
    "ReduceMean": Case(
        [node("ReduceMean", "x axes", keepdims=0)],
        [ROW], [[x] for x in ROWS], [("y", "f4", 1)], {"axes": ints(0)},
    ),
    "Resize antialiased by scales": Case(
        [resize(mode="linear", antialias=1)],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"scales": np.array([1, 1, 0.5, 0.7], "f4")},
    ),
    "Resize antialiased to sizes": Case(
        [node("Resize", "x _ _ sizes", mode="cubic", antialias=1, axes=[2, 3])],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"sizes": ints(3, 7)}, by_reference=True,
    ),
    "Conv, same": Case(
        [node("Conv", "x w", strides=[2, 2], auto_pad="SAME_LOWER")],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"w": reals(3, 2, 3, 2)},
    ),
    "ConvTranspose, same": Case(
        [node("ConvTranspose", "x w", strides=[2, 2], auto_pad="SAME_UPPER")],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"w": reals(2, 3, 3, 3)}, 32,
    ),
    **{f"{name}, same": Case(
        [node(name, "x", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER")],
        [IMAGE], [[x] for x in IMAGES], [FULL],
    ) for name in ("AveragePool", "MaxPool", "LpPool")},
    "AveragePool of counted padding": Case(
        [node("AveragePool", "x", kernel_shape=[3, 2], strides=[3, 2], pads=[1, 0, 0, 1],
              ceil_mode=1, count_include_pad=1)],
        [IMAGE], [[x] for x in IMAGES], [FULL],
    ),
    "RoiAlign, largest of as many samples as there are": Case(
        [node("RoiAlign", "x r b", mode="max", output_height=2, output_width=3)],
        [IMAGE, ("r", "f4", ("k", 4)), ("b", "i8", ("k",))],
        [[IMAGES[1], np.array([[0, 0, 3, 5], [1, 1, 1, 2]], "f4"), ints(1, 0)],
         [IMAGES[0], np.array([[0, 2, 5, 3]], "f4"), ints(0)]], [FULL], by_reference=True,
    ),
    "Col2Im": Case(
        [node("Col2Im", "x i k", pads=[0, 1, 0, 1], strides=[1, 2])],
        [("x", "f4", ("n", 10, "l"))], [[reals(1, 10, 15)], [reals(2, 10, 15)]], [FULL],
        {"i": ints(5, 7), "k": ints(1, 5)}, by_reference=True,
    ),
    "Dropout": Case(
        [node("Dropout", "x", "y m")], [ROW], [[x] for x in ROWS], [("y", "f4", 2), ("m", "?", 2)],
    ),
    "MaxPool": Case(
        [node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 1], ceil_mode=1)],
        [IMAGE], [[x] for x in IMAGES], [FULL],
    ),
    "ConvTranspose": Case(
        [node("ConvTranspose", "x w", strides=[2, 2], pads=[1, 0, 1, 0])],
        [IMAGE], [[x] for x in IMAGES], [FULL], {"w": reals(2, 3, 3, 3)}, 32,
    ),
    "GridSample": Case(
        [node("GridSample", "x g")],
        [IMAGE, ("g", "f4", ("n", "p", "q", 2))],
        [[IMAGES[0], np.tanh(reals(1, 2, 3, 2))], [IMAGES[1], np.tanh(reals(2, 4, 1, 2))]], [FULL],
    ),
    "OneHot": Case(
        [node("OneHot", "x depth values")],
        [("x", "i8", ("n",))], [[ints(0, 2, 1)], [ints(1, 3)]], [("y", "f4", 2)],
        {"depth": scalar(4), "values": np.array([0, 1], "f4")},
    ),
    "Trilu": Case(
        [node("Trilu", "x", upper=0)],
        [("x", "f4", ("n", "m"))], [[reals(3, 4)], [reals(5, 2)]], [("y", "f4", 2)],
    ),
    "EyeLike": Case(
        [node("EyeLike", "x", k=1)],
        [("x", "f4", ("n", "m"))], [[reals(3, 4)], [reals(5, 2)]], [("y", "f4", 2)],
    ),
    "Einsum": Case(
        [node("Einsum", "x z", equation="nk,mk->nm")],
        [ROW, ("z", "f4", ("m", 3))], [[ROWS[0], reals(2, 3)], [ROWS[1], reals(5, 3)]],
        [("y", "f4", 2)],
    ),
    "LayerNormalization": Case(
        [node("LayerNormalization", "x s", axis=-1)],
        [SEQUENCE], [[x] for x in SEQUENCES], [("y", "f4", 3)], {"s": reals(3)},
    ),
    "GatherND": Case(
        [node("GatherND", "x i")],
        [ROW, ("i", "i8", ("k", 1))], [[ROWS[0], ints(0, 3)[:, None]], [ROWS[1], ints(6)[:, None]]],
        [("y", "f4", 2)],
    ),
    "ScatterElements": Case(
        [node("ScatterElements", "x i u", reduction="add")],
        [ROW, ("i", "i8", ("k", 3)), ("u", "f4", ("k", 3))],
        [[ROWS[0], np.array([[0, 1, 2], [3, 1, 0]]), reals(2, 3)],
         [ROWS[1], np.array([[6, 5, 4]]), reals(1, 3)]], [("y", "f4", 2)],
    ),
    "DepthToSpace": Case(
        [node("DepthToSpace", "x", blocksize=2)],
        [("x", "f4", ("n", 4, "h", "w"))], [[reals(1, 4, 2, 3)], [reals(2, 4, 3, 1)]], [FULL],
    ),
    "CenterCropPad": Case(
        [node("CenterCropPad", "x size", axes=[0])],
        [ROW], [[x] for x in ROWS], [("y", "f4", 2)], {"size": ints(5)},
    ),
}  # fmt: skip

NUMBERS = ("s", "i8", (2,))
SIGNAL, SIGNALS = ("x", "f4", (5, 6, 1)), reals(5, 6, 1)
TIMES = ("x", "f4", (1, 32, 1))
ARGUMENTS: Mapping[str, Case] = {
    "Reshape": Case(
        [node("Reshape", "x s")],
        [("x", "f4", (4, 3)), NUMBERS], [[ROWS[0], ints(*s)] for s in ((2, 6), (-1, 2), (0, -1))],
        [("y", "f4", 2)],
    ),
    "Expand": Case(
        [node("Expand", "x s")],
        [("x", "f4", (1, 3)), NUMBERS], [[reals(1, 3), ints(*s)] for s in ((4, 3), (1, 1), (2, 3))],
        [("y", "f4", 2)],
    ),
    "Tile": Case(
        [node("Tile", "x s")],
        [("x", "f4", (4, 3)), NUMBERS], [[ROWS[0], ints(*s)] for s in ((2, 1), (1, 3), (0, 1))],
        [("y", "f4", 2)],
    ),
    "ConstantOfShape": Case(
        [node("ConstantOfShape", "s", value=onnx.numpy_helper.from_array(np.array([2.5], "f4")))],
        [NUMBERS], [[ints(2, 3)], [ints(5, 1)]], [("y", "f4", 2)],
    ),
    "Range": Case(
        [node("Range", "a b c")],
        [(name, "f4", ()) for name in "abc"],
        [[scalar(v, "f4") for v in row] for row in ((0, 5, 1), (3, -4, -2), (1, 1, 1))],
        [("y", "f4", 1)],
    ),
    "Pad": Case(
        [node("Pad", "x p")],
        [("x", "f4", (4, 3)), ("p", "i8", (4,))],
        [[ROWS[0], ints(*p)] for p in ((0, 1, 2, 0), (1, 0, -2, 3), (-1, 0, -1, 0))],
        [("y", "f4", 2)],
    ),
    "Pad by reflection": Case(
        [node("Pad", "x p", mode="reflect")],
        [("x", "f4", (4, 3)), ("p", "i8", (4,))],
        [[ROWS[0], ints(*p)] for p in ((0, 1, 2, 0), (1, 0, 3, 2))], [("y", "f4", 2)],
    ),
    "Pad of some axes": Case(
        [node("Pad", "x p v a")],
        [("x", "f4", (4, 3)), ("p", "i8", (2,)), ("v", "f4", ()), ("a", "i8", (1,))],
        [[ROWS[0], ints(1, 2), scalar(7, "f4"), ints(0)],
         [ROWS[0], ints(0, 1), scalar(-1, "f4"), ints(-1)]], [("y", "f4", 2)],
    ),
    "Slice": Case(
        [node("Slice", "x b e a t")],
        [("x", "f4", (7, 3)), *((name, "i8", (2,)) for name in "beat")],
        [[ROWS[1], ints(1, 0), ints(6, 2), ints(0, 1), ints(2, 1)],
         [ROWS[1], ints(-1, 5), ints(0, -9), ints(1, 0), ints(-1, -2)]], [("y", "f4", 2)],
    ),
    "Reshape of many elements": Case(
        [node("Reshape", "x s")], [("x", "f4", (3000,)), NUMBERS],
        [[reals(3000), ints(*s)] for s in ((2, -1), (3000, 1), (1, 3000))], [("y", "f4", 2)],
        bounds={},
    ),
    "TopK of many elements": Case(
        [node("TopK", "x k", "y i")], [("x", "f4", (3000,)), ("k", "i8", (1,))],
        [[reals(3000), ints(k)] for k in (1, 3000)], [("y", "f4", 1), ("i", "i8", 1)], bounds={},
    ),
    "Slice of many elements": Case(
        [node("Slice", "x b e")], [("x", "f4", (2, 3000)), *((n, "i8", (2,)) for n in "be")],
        [[reals(2, 3000), ints(0, b), ints(2, e)] for b, e in ((0, 3000), (-2000, -1))],
        [("y", "f4", 2)], bounds={},
    ),
    "Split of many elements": Case(
        [node("Split", "x s", "y z", axis=0)], [("x", "f4", (3000,)), NUMBERS],
        [[reals(3000), ints(*s)] for s in ((0, 3000), (2999, 1))],
        [("y", "f4", 1), ("z", "f4", 1)], bounds={},
    ),
    "STFT of many frames": Case(
        [node("STFT", "x s _ n")], [("x", "f4", (1, 1300, 1)), ("s", "i8", ()), ("n", "i8", ())],
        [[reals(1, 1300, 1), scalar(s), scalar(4)] for s in (1, 8)], [FULL], bounds={}, rtol=1e-3,
    ),
    "Slice of an open axis": Case(
        [node("Slice", "x b e a")],
        [ROW, *((name, "i8", (1,)) for name in "be")],
        [[ROWS[0], ints(1), ints(3)], [ROWS[1], ints(-3), ints(100)]], [("y", "f4", 2)],
        {"a": ints(0)},
    ),
    "TopK": Case(
        [node("TopK", "x k", "y i", axis=0)],
        [("x", "f4", (7, 3)), ("k", "i8", (1,))], [[ROWS[1], ints(k)] for k in (1, 4, 7)],
        [("y", "f4", 2), ("i", "i8", 2)],
    ),
    "OneHot": Case(
        [node("OneHot", "x d v")],
        [("x", "i8", (3,)), ("d", "i8", ())], [[ints(0, 2, -1), scalar(d)] for d in (3, 5)],
        [("y", "f4", 2)], {"v": np.array([0, 1], "f4")},
    ),
    "Resize by scales": Case(
        [node("Resize", "x _ s", mode="linear")],
        [("x", "f4", (1, 2, 4, 5)), ("s", "f4", (4,))],
        [[IMAGES[0], np.array(s, "f4")] for s in ((1, 1, 2, 1.5), (1, 1, 0.5, 1))], [FULL],
    ),
    "Resize to sizes": Case(
        [node("Resize", "x _ _ s", mode="cubic")],
        [("x", "f4", (1, 2, 4, 5)), ("s", "i8", (4,))],
        [[IMAGES[0], ints(*s)] for s in ((1, 2, 8, 3), (1, 2, 4, 5))], [FULL],
    ),
    "Resize of some axes": Case(
        [node("Resize", "x _ _ s", axes=[2, 3], nearest_mode="ceil")],
        [("x", "f4", (1, 2, 4, 5)), ("s", "i8", (2,))],
        [[IMAGES[0], ints(*s)] for s in ((8, 3), (4, 9))], [FULL],
    ),
    **{f"Resize antialiased by scales, {mode}": Case(
        [node("Resize", "x _ s", mode=mode, antialias=1)],
        [("x", "f4", (1, 2, 4, 5)), ("s", "f4", (4,))],
        [[IMAGES[0], np.array(s, "f4")] for s in ((1, 1, 2, 0.5), (1, 1, 0.3, 1))], [FULL],
        by_reference=True,
    ) for mode in ("linear", "cubic")},
    "Resize antialiased to sizes": Case(
        [node("Resize", "x _ _ s", mode="linear", antialias=1)],
        [("x", "f4", (1, 2, 4, 5)), ("s", "i8", (4,))],
        [[IMAGES[0], ints(*s)] for s in ((1, 2, 2, 3), (1, 2, 7, 2))], [FULL],
    ),
    "Resize of a region by scales": Case(
        [node("Resize", "x r s", mode="linear",
              coordinate_transformation_mode="tf_crop_and_resize")],
        [("x", "f4", (1, 2, 4, 5)), ("r", "f4", (8,)), ("s", "f4", (4,))],
        [[IMAGES[0], np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.3], "f4"), np.array(s, "f4")]
         for s in ((1, 1, 2, 1.5), (1, 1, 0.5, 1))], [FULL], by_reference=True,
    ),
    "AffineGrid": Case(
        [node("AffineGrid", "t s")], [("t", "f4", (1, 2, 3)), ("s", "i8", (4,))],
        [[reals(1, 2, 3), ints(1, 2, *s)] for s in ((3, 4), (5, 2))], [FULL],
    ),
    "Col2Im": Case(
        [node("Col2Im", "x i k")],
        [("x", "f4", (1, 10, 12)), ("i", "i8", (2,)), ("k", "i8", (2,))],
        [[reals(1, 10, 12), ints(4, 7), ints(1, 5)], [reals(1, 10, 12), ints(8, 3), ints(5, 1)],
         [reals(1, 10, 12), ints(5, 3), ints(2, 1)]], [FULL], by_reference=True,
    ),
    "MaxUnpool": Case(
        [node("MaxUnpool", "x i s", kernel_shape=[2, 2], strides=[2, 2])],
        [("x", "f4", (1, 1, 2, 2)), ("i", "i8", (1, 1, 2, 2)), ("s", "i8", (4,))],
        [[reals(1, 1, 2, 2), ints(5, 7, 13, 15).reshape(1, 1, 2, 2), ints(1, 1, 4, 4)]], [FULL],
    ),
    "Expand of a dynamic dimension that may be 1": Case(
        [node("Expand", "x s")], [("x", "f4", ("n", 1)), ("s", "i8", (3,))],
        [[reals(3, 1), ints(2, 1, 4)], [reals(1, 1), ints(1, 5, 1)], [reals(2, 1), ints(1, 2, 1)]],
        [("y", "f4", 3)],
    ),
    "Reshape, its length open": Case(
        [node("Reshape", "x s")], [ROW, ("s", "i8", ("k",))],
        [[ROWS[0], ints(2, -1, 1)], [ROWS[1], ints(0, 3, -1)]], [("y", "f4", 3)],
    ),
    "Expand, its length open": Case(
        [node("Expand", "x s")], [ROW, ("s", "i8", ("k",))], [[ROWS[0], ints(2, 1, 1)]],
        [("y", "f4", 3)],
    ),
    "ConstantOfShape, its length open": Case(
        [node("ConstantOfShape", "s")], [("s", "i8", ("k",))], [[ints(2, 1, 3)]], [("y", "f4", 3)],
    ),
    "Squeeze and Unsqueeze, their length open": Case(
        [node("Unsqueeze", "x a", "u"), node("Squeeze", "u b", "y")],
        [ROW, ("a", "i8", (2,)), ("b", "i8", ("k",))],
        [[ROWS[0], ints(0, 2), ints(2)], [ROWS[0], ints(-1, 1), ints(1)]], [("y", "f4", 3)],
    ),
    "Slice, its length open": Case(
        [node("Slice", "x b e a")], [ROW, *((name, "i8", ("k",)) for name in "bea")],
        [[ROWS[1], ints(1), ints(6), ints(0)], [ROWS[1], ints(1, 0), ints(6, 2), ints(0, 1)]],
        [("y", "f4", 2)],
    ),
    "OneHot of a real depth": Case(
        [node("OneHot", "x d v", axis=0)], [("x", "i8", ("n",)), ("d", "f4", (1,))],
        [[ints(0, 3), np.array([4], "f4")]], [("y", "f4", 2)], {"v": np.array([0, 1], "f4")},
    ),
    **{f"{name} of no axes": Case(
        [node(name, "x a", noop_with_empty_axes=1)], [("x", "f4", (4, 3)), ("a", "i8", (0,))],
        [[abs(ROWS[0]) + 1, ints()]], [("y", "f4", 2)],
    ) for name in ("ReduceSum", "ReduceSumSquare", "ReduceLogSum", "ReduceL2")},
    "DFT of an axis": Case(
        [node("DFT", "x _ a", onesided=1)], [SIGNAL, ("a", "i8", ())],
        [[SIGNALS, scalar(a)] for a in (0, 1, -2)], [("y", "f4", 3)], rtol=1e-3,
    ),
    "DFT of a length along an axis": Case(
        [node("DFT", "x n a")], [SIGNAL, ("n", "i8", ()), ("a", "i8", ())],
        [[SIGNALS, scalar(n), scalar(a)] for n in (4, 8) for a in (0, 1)], [("y", "f4", 3)],
        rtol=1e-3,
    ),
    "STFT": Case(
        [node("STFT", "x s _ n")], [TIMES, ("s", "i8", ()), ("n", "i8", ())],
        [[reals(1, 32, 1), scalar(s), scalar(n)] for s, n in ((4, 8), (8, 16))], [FULL],
        bounds=32, rtol=1e-3,
    ),
    "STFT of a window": Case(
        [node("STFT", "x s w")], [TIMES, ("s", "i8", ()), ("w", "f4", ("m",))],
        [[reals(1, 32, 1), scalar(4), np.hanning(n).astype("f4")] for n in (8, 16)], [FULL],
        bounds=32, rtol=1e-3,
    ),
    "MelWeightMatrix": Case(
        [node("MelWeightMatrix", "a b c d e")],
        [*((name, "i8", ()) for name in "abc"), *((name, "f4", ()) for name in "de")],
        [[scalar(8), scalar(16), scalar(8192), scalar(0, "f4"), scalar(4096, "f4")],
         [scalar(4), scalar(32), scalar(8000), scalar(100, "f4"), scalar(3000, "f4")]],
        [("y", "f4", 2)], bounds={"y": (17, 8)},
    ),
    "an item of a sequence": Case(
        [node("SplitToSequence", "x s", "q", axis=0), node("SequenceAt", "q one", "a"),
         node("SequenceConstruct", "x z", "r"), node("SequenceAt", "r i", "b"),
         node("Concat", "a b", "y", axis=0)],
        [ROW, ("z", "f4", ("n", 3)), ("s", "i8", (2,)), ("i", "i8", ())],
        [[ROWS[1], -ROWS[1], ints(3, 4), scalar(-1)], [ROWS[0], -ROWS[0], ints(4, 0), scalar(0)]],
        [("y", "f4", 2)], {"one": scalar(1)},
    ),
    "Split": Case(
        [node("Split", "x s", "y z", axis=0)],
        [("x", "f4", (7, 3)), NUMBERS], [[ROWS[1], ints(*s)] for s in ((3, 4), (0, 7))],
        [("y", "f4", 2), ("z", "f4", 2)],
    ),
    "Squeeze and Unsqueeze": Case(
        [node("Unsqueeze", "x a", "u"), node("ReduceSum", "u b", "y")],
        [("x", "f4", (4, 3)), ("a", "i8", (1,)), ("b", "i8", (1,))],
        [[ROWS[0], ints(0), ints(2)], [ROWS[0], ints(-1), ints(0)]], [("y", "f4", 3)],
    ),
    "ReduceSum": Case(
        [node("ReduceSum", "x a")],
        [("x", "f4", (4, 3)), ("a", "i8", (1,))], [[ROWS[0], ints(a)] for a in (0, 1, -1)],
        [("y", "f4", 2)],
    ),
    "Trilu": Case(
        [node("Trilu", "x k")],
        [("x", "f4", (4, 3)), ("k", "i8", ())], [[ROWS[0], scalar(k)] for k in (0, -1, 2)],
        [("y", "f4", 2)],
    ),
    "CumSum": Case(
        [node("CumSum", "x k")],
        [("x", "f4", (4, 3)), ("k", "i8", ())], [[ROWS[0], scalar(k)] for k in (0, 1, -1)],
        [("y", "f4", 2)],
    ),
    "CenterCropPad": Case(
        [node("CenterCropPad", "x s")],
        [("x", "f4", (4, 3)), NUMBERS], [[ROWS[0], ints(*s)] for s in ((2, 5), (7, 3))],
        [("y", "f4", 2)],
    ),
    "DFT": Case(
        [node("DFT", "x n a")],
        [("x", "f4", (2, 6, 1)), ("n", "i8", ())], [[reals(2, 6, 1), scalar(n)] for n in (6, 4, 8)],
        [("y", "f4", 3)], {"a": scalar(1)}, rtol=1e-3,
    ),
    "HannWindow": Case(
        [node("HannWindow", "n")], [("n", "i8", ())], [[scalar(n)] for n in (4, 9)],
        [("y", "f4", 1)],
    ),
}  # fmt: skip


def model_of(case: Case) -> Any:
    """The ModelProto of a case; its outputs have ranks and no dimensions."""

    def value(name: str, dtype: str, shape: Sequence[int | str] | None) -> Any:
        number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return onnx.helper.make_tensor_value_info(name, number, shape)

    inputs = [value(*each) for each in case.inputs]
    outputs = [
        value(name, dtype, None if rank < 0 else [None] * rank)
        for name, dtype, rank in case.outputs
    ]
    weights = [onnx.numpy_helper.from_array(a, name) for name, a in case.constants.items()]
    found = onnx.helper.make_graph(list(case.nodes), "net", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", case.opset)]
    return onnx.helper.make_model(found, opset_imports=opsets, ir_version=10)


def check(case: Case, run: Any) -> None:
    """Runs a case with every feed."""
    judge: Any = (
        onnx.reference.ReferenceEvaluator(model_of(case))
        if case.by_reference
        else onnxruntime.InferenceSession(model_of(case).SerializeToString())
    )
    names = [name for name, _, _ in case.inputs]
    for feed in case.feeds:
        expected = judge.run(None, dict(zip(names, feed, strict=True)))
        found = run(*feed)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=case.rtol, atol=1e-5)


CASES = {
    **{f"{name}, open": case for name, case in EXTENTS.items()},
    **{f"{name}, given in a run": case for name, case in ARGUMENTS.items()},
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_on_the_evaluator(name: str) -> None:
    case = CASES[name]
    model = tvm_nnef.convert(model_of(case), bounds=case.bounds)
    graph_ = tvm_nnef.compose(model)
    check(case, lambda *feed: tvm_nnef.evaluate(graph_, *feed, variables=model.variables))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiled(name: str) -> None:
    case = CASES[name]
    model = tvm_nnef.convert(model_of(case), bounds=case.bounds)
    check(case, tvm_nnef.build(model, progress=False))
