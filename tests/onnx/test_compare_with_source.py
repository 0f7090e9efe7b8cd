"""A converted model held against ONNX Runtime: the first node of the source that differs is named.

The mistakes are a user's own converters, so that each model is right except for one operator.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.converters.onnx import Builder, Node
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
node = onnx.helper.make_node
ROUTES = ("onnxruntime", "reference")


@pytest.fixture
def network(make_model: Any) -> Any:
    """Five nodes; two of them are of one operator, and one becomes several operations of ours."""
    weight = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    return make_model(
        [
            node("MatMul", ["x", "w"], ["m"], name="product"),
            node("LeakyRelu", ["m"], ["r"], name="first", alpha=0.2),
            node("ThresholdedRelu", ["r"], ["t"], name="second", alpha=0.1),
            node("LeakyRelu", ["t"], ["u"], alpha=0.5),
            node("Neg", ["u"], ["z"], name="last"),
        ],
        [("x", "float32", [2, 3])],
        [("z", "float32", [2, 4])],
        {"w": weight},
    )


def compared(model: Any, against: Any, **options: Any) -> tvm_nnef.Report:
    given = {"routes": ROUTES, "progress": False, **options}
    return tvm_nnef.compare(model, against=against, **given)


@pytest.mark.parametrize("routes", [ROUTES, ROUTES[::-1], ("mapped", "onnxruntime")])
def test_a_right_conversion_agrees_in_every_tensor(network: Any, routes: Sequence[str]) -> None:
    report = compared(tvm_nnef.convert(network), network, routes=routes)
    assert report.agrees
    assert [row.origin.tensor for row in report.rows if row.origin] == list("mrtuz")
    assert report.count == len(report.rows) == 5
    assert "(operands of onnxruntime)" in report.summary()


def test_other_sizes_than_those_of_the_file_are_compared(network: Any) -> None:
    report = compared(tvm_nnef.convert(network, input_shapes={"x": (5, 3)}), network)
    assert report.agrees
    assert report.count == 5


def _threshold(source: Node, builder: Builder) -> Any:
    moved = builder.binary("math.add", source.input(0), 0.25)
    return builder.call("nn.relu", moved)


def _leaky(source: Node, builder: Builder) -> Any:
    return builder.call("nn.relu", source.input(0))


MISTAKES = {
    "ThresholdedRelu": (_threshold, "second", "t", 3),
    "LeakyRelu": (_leaky, "first", "r", 2),
    "Neg": (lambda source, builder: builder.call("math.exp", source.input(0)), "last", "z", 5),
}


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("operator", MISTAKES)
def test_a_wrong_converter_is_found(network: Any, operator: str, chained: bool) -> None:
    function, name, tensor, position = MISTAKES[operator]
    model = tvm_nnef.convert(network, converters={operator: function})
    report = compared(model, network, chained=chained)
    row = report.first_difference
    assert row is not None
    assert row.origin is not None
    assert (row.origin.node, row.origin.operator, row.origin.tensor) == (name, operator, tensor)
    assert [each.agrees for each in report.rows] == [True] * (position - 1) + [False]
    shown = str(report)
    assert f"'{tensor}' of ONNX node '{name}' ({operator})" in shown
    assert f"tensor {position} of 5" in shown
    assert json.loads(json.dumps(report.to_json()))["rows"][-1]["source"]["node"] == name


def test_what_a_node_was_converted_to_is_reported_with_lines(network: Any) -> None:
    model = tvm_nnef.convert(network, converters={"ThresholdedRelu": _threshold})
    report = compared(model, network)
    row = report.first_difference
    assert row is not None
    assert (row.operator, [part.label for part in row.parts]) == ("nn.relu", ["t_add"])
    shown = str(report)
    assert "t_add = math.add(r, 0.25);" in shown
    assert "together with 't_add' (math.add)" in shown


def test_a_node_without_a_name_has_a_number(network: Any) -> None:
    network.graph.node[1].name = ""
    model = tvm_nnef.convert(network, converters={"LeakyRelu": _leaky})
    row = compared(model, network).first_difference
    assert row is not None
    assert row.origin is not None
    assert row.origin.node == "number 1"


def test_branches_and_dynamic_dimensions(make_model: Any) -> None:
    """The results of a branch are compared; dimensions are those of the inputs that are given."""

    def body(operator: str) -> Any:
        value = onnx.helper.make_tensor_value_info("r", 1, None)
        return onnx.helper.make_graph([node(operator, ["x"], ["r"])], operator, [], [value])

    proto = make_model(
        [
            node("ReduceSum", ["x"], ["s"], keepdims=0),
            node("Greater", ["s", "zero"], ["c"]),
            node("If", ["c"], ["y"], then_branch=body("Neg"), else_branch=body("Abs")),
            node("NonZero", ["y"], ["i"]),
        ],
        [("x", "float32", ["n", 3])],
        [("y", "float32", ["n", 3]), ("i", "int64", None)],
        {"zero": np.zeros((), np.float32)},
    )
    model = tvm_nnef.convert(proto, bounds=8)
    x = np.ones((2, 3), np.float32)
    report = compared(model, proto)
    assert report.agrees
    assert [row.origin.tensor for row in report.rows if row.origin] == ["s", "c", "y", "i"]
    given = tvm_nnef.compare(model, x, against=proto, routes=ROUTES, progress=False)
    assert given.agrees
    assert given.rows[2].difference.shapes == ((2, 3), (2, 3))


def test_the_command(network: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "net.onnx", tmp_path / "net.nnef2"
    onnx.save(network, file)
    model = tvm_nnef.convert(network, folder, converters={"Neg": MISTAKES["Neg"][0]})
    assert set(model.metadata.source_names.values()) >= set("mrtuz")
    assert main(["compare", str(file), "--routes", "onnxruntime", "reference"]) == 0
    assert "onnxruntime and reference agree in all 5 tensors" in capsys.readouterr().out
    assert main(["compare", str(folder), "--against", str(file)]) == 1
    shown = capsys.readouterr()
    assert "onnxruntime and mapped give different values of 'z'" in shown.err
    assert "ONNX node 'last' (Neg)" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("command", ["compare", "bench"])
def test_a_model_is_detected_by_its_content(network: Any, tmp_path: Path, command: str) -> None:
    file = tmp_path / "network.bin"
    onnx.save(network, file)
    options = ["--seconds", "0.05", "--threads", "1"] if command == "bench" else []
    assert main([command, str(file), *options]) == 0


def test_weights_in_files_of_their_own(network: Any, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    options = {"save_as_external_data": True, "location": "net.bin", "size_threshold": 0}
    onnx.save(network, file, **options)
    assert compared(tvm_nnef.convert(file), None).agrees


def test_what_cannot_be_compared(
    network: Any, make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_model(
        [node("Neg", ["x"], ["b"])], [("x", "float32", [2])], [("b", "float32", [2])]
    )
    model = tvm_nnef.convert(network)
    text = "import math; graph G { @input { x: real[2]; } @output { y: real; }\n"
    own = tvm_nnef.load_model(text + "@compose { y = math.neg(x); } }")
    absent = tmp_path / "absent.onnx"
    for compared_model, against, words in (
        (model, other, "has a name in this model"),
        (model, None, "--against FILE"),
        (model, absent, "absent.onnx: error: no such file"),
        (own, other, "the model was not converted"),
    ):
        with pytest.raises(NnefError, match=words):
            compared(compared_model, against)
    network.graph.node[4].op_type = "Nego"
    with pytest.raises(NnefError, match=r"ONNX Runtime \S+ cannot run the model"):
        compared(model, network)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(NnefError, match="needs the package 'onnxruntime'") as caught:
        compared(model, network)
    assert "pip install 'onnx>=" in str(caught.value)


CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "onnx"
NAMES = sorted(folder.name for folder in CORPUS.iterdir()) if CORPUS.is_dir() else []


@pytest.mark.slow
@pytest.mark.skipif(not NAMES, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("name", NAMES)
def test_no_false_alarm_in_the_corpus(name: str) -> None:
    model = onnx.load(CORPUS / name / "model.onnx")
    constant = {tensor.name for tensor in model.graph.initializer}
    arrays = np.load(CORPUS / name / "io.npz")
    inputs = [arrays[f"in:{v.name}"] for v in model.graph.input if v.name not in constant]
    converted = tvm_nnef.convert(model, bounds=64)
    report = tvm_nnef.compare(converted, *inputs, against=model, routes=ROUTES, progress=False)
    assert report.rows
    assert report.agrees, str(report)
