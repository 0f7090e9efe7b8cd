"""The user's view: names, types, unsupported models, custom converters, files, commands."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.converters.common import operator_modules
from tvm_nnef.converters.onnx import Builder, Node, operator
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def text(model: Any) -> str:
    return str(model.modules["main"].source.text)


def test_names_become_identifiers_of_their_own(make_model: Any) -> None:
    proto = make_model(
        [
            node("Neg", ["in/put:0"], ["a b"]),
            node("Neg", ["a b"], ["a_b"]),
            node("Add", ["a_b", "0"], ["graph"]),
        ],
        [("in/put:0", "float32", [2, 3])],
        [("graph", "float32", [2, 3])],
        {"0": np.ones(3, np.float32)},
    )
    model = tvm_nnef.convert(proto)
    (found,) = tvm_nnef.evaluate(model, X)
    np.testing.assert_array_equal(found, X + 1)
    assert set(model.metadata.source_names.values()) == {"in/put:0", "a b", "a_b", "graph", "0"}
    assert set(model.variables) == {"main.net.x0"}


def test_outputs_may_be_inputs_constants_or_one_tensor_twice(make_model: Any) -> None:
    proto = make_model(
        [node("Identity", ["x"], ["y"]), node("Neg", ["x"], ["z"]), node("Identity", ["z"], ["t"])],
        [("x", "float32", [2, 3])],
        [(name, "float32", [2, 3]) for name in ("y", "z", "t", "w")],
        {"w": X + 1},
    )
    found = tvm_nnef.evaluate(tvm_nnef.convert(proto), X)
    for ours, theirs in zip(found, (X, -X, -X, X + 1), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_model_without_inputs(make_model: Any) -> None:
    value = onnx.numpy_helper.from_array(X)
    proto = make_model([node("Constant", [], ["y"], value=value)], [], [("y", "float32", [2, 3])])
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(proto))
    np.testing.assert_array_equal(found, X)


def test_initializers_may_be_inputs_too(make_model: Any) -> None:
    proto = make_model(
        [node("Add", ["x", "w"], ["y"])],
        [("x", "float32", [2, 3]), ("w", "float32", [3])],
        [("y", "float32", [2, 3])],
        {"w": np.ones(3, np.float32)},
        opset=8,
    )
    model = tvm_nnef.convert(proto)
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, X)[0], X + 1)


def test_functions_of_the_model_are_inlined(make_model: Any) -> None:
    body = [node("Add", ["a", "a"], ["t"]), node("Neg", ["t"], ["b"])]
    imports = [onnx.helper.make_opsetid("", 17)]
    function = onnx.helper.make_function("own", "Twice", ["a"], ["b"], body, imports)
    proto = make_model(
        [node("Twice", ["x"], ["y"], domain="own")],
        [("x", "float32", [2, 3])],
        [("y", "float32", [2, 3])],
        functions=[function],
    )
    np.testing.assert_array_equal(tvm_nnef.evaluate(tvm_nnef.convert(proto), X)[0], -2 * X)


def test_external_data_is_read_beside_the_model(make_model: Any, tmp_path: Path) -> None:
    weight = np.arange(1200, dtype=np.float32).reshape(3, 400)
    proto = make_model(
        [node("MatMul", ["x", "w"], ["y"])], [("x", "float32", [2, 3])],
        [("y", "float32", [2, 400])], {"w": weight},
    )  # fmt: skip
    file = tmp_path / "model.onnx"
    onnx.save(proto, file, save_as_external_data=True, location="weights.bin")
    model = tvm_nnef.convert(file)
    np.testing.assert_allclose(tvm_nnef.evaluate(model, X)[0], X @ weight)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(NnefError, match="tensor 'w' cannot be read"):
        tvm_nnef.convert(file)


def test_dtypes_are_those_of_the_source(make_model: Any, tmp_path: Path) -> None:
    proto = make_model(
        [
            node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
            node("Add", ["u", "u"], ["v"]),
            node("ArgMax", ["h"], ["i"], axis=1),
        ],
        [("x", "float64", [2, 3]), ("u", "uint8", [2])],
        [("h", "float16", [2, 3]), ("v", "uint8", [2]), ("i", "int64", [2, 1])],
    )
    folder = tmp_path / "typed.nnef2"
    tvm_nnef.convert(proto, folder)
    model = tvm_nnef.load_model(folder)
    inputs = X.astype(np.float64), np.array([200, 3], np.uint8)
    for run in (partial(tvm_nnef.evaluate, model), tvm_nnef.build(model, progress=False)):
        found = [np.asarray(each) for each in run(*inputs)]
        assert [each.dtype for each in found] == [np.float16, np.uint8, np.int64]
        np.testing.assert_array_equal(found[1], [144, 6])
        np.testing.assert_array_equal(found[2], [[2], [2]])


def test_everything_that_cannot_be_converted_is_reported_at_once(make_model: Any) -> None:
    proto = make_model(
        [
            node("Frobnicate", ["x"], ["a"], name="first", domain="own"),
            node("Neg", ["a"], ["b"]),
            node("ImageDecoder", ["u"], ["c"], name="second"),
        ],
        [("x", "float32", [2, 3]), ("u", "uint8", [9])],
        [("b", "float32", [2, 3]), ("c", "uint8", None)],
        opset=20,
    )
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(proto)
    first, second = caught.value.diagnostics
    assert "node 'first' (own::Frobnicate, opset 1): there is no converter" in first.message
    assert "converters=" in (first.hint or "")
    assert "node 'second' (ImageDecoder, opset 20)" in second.message


@pytest.mark.parametrize("way", ["mapping", "decorator"])
def test_a_user_may_bring_a_converter(make_model: Any, way: str) -> None:
    def scaled(node: Node, builder: Builder) -> Any:
        return builder.binary("math.mul", node.input(0), node.real("factor", 2.0))

    proto = make_model(
        [node("Scale", ["x"], ["y"], domain="own", factor=3.0), node("Neg", ["y"], ["z"])],
        [("x", "float32", [2, 3])],
        [("z", "float32", [2, 3])],
    )
    converters: Any = {"own::Scale": scaled}
    if way == "decorator":
        converters = [operator("Scale", domain="own")(scaled)]
    onnx_model = tvm_nnef.convert(proto, converters=converters)
    np.testing.assert_array_equal(tvm_nnef.evaluate(onnx_model, X)[0], -3 * X)


def test_dimensions_without_a_number_are_dynamic(make_model: Any) -> None:
    proto = make_model(
        [node("Relu", ["x"], ["y"])], [("x", "float32", ["n", 3])], [("y", "float32", ["n", 3])]
    )
    unlimited = text(tvm_nnef.convert(proto))
    assert "x: real[n|2147483647, 3]" in unlimited
    assert unlimited.count("2147483647") == 2  # In a comment, too.
    graph = tvm_nnef.compose(proto)
    assert (str(graph.inputs[0].operand.shape[0]), dict(graph.limits)) == ("n", {})
    assert "x: real[2, 3]" in text(tvm_nnef.convert(proto, input_shapes={"x": (2, 3)}))
    assert "x: real[n|8, 3]" in text(tvm_nnef.convert(proto, bounds={"n": 8}))
    with pytest.raises(NnefError, match="no input 'y'"):
        tvm_nnef.convert(proto, input_shapes={"x": (2, 3), "y": (1,)})


def test_dimensions_flow_through_shape_arithmetic(make_model: Any) -> None:
    """As torch exports a reshape: [batch, time, 8] to [batch, time * 2, 4] and back by -1."""
    int64 = np.int64
    proto = make_model(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["b"]),
            node("Gather", ["s", "one"], ["t"]),
            node("Mul", ["t", "two"], ["t2"]),
            node("Unsqueeze", ["b", "axes"], ["b1"]),
            node("Unsqueeze", ["t2", "axes"], ["t21"]),
            node("Concat", ["b1", "t21", "four"], ["wanted"], axis=0),
            node("Reshape", ["x", "wanted"], ["y"]),
            node("Unsqueeze", ["t", "axes"], ["t1"]),
            node("Concat", ["b1", "t1", "rest"], ["back"], axis=0),
            node("Reshape", ["y", "back"], ["z"]),
        ],
        [("x", "float32", ["batch", "time", 8])],
        [("y", "float32", None), ("z", "float32", None)],
        {
            "zero": np.array(0, int64), "one": np.array(1, int64), "two": np.array(2, int64),
            "axes": np.array([0], int64), "four": np.array([4], int64),
            "rest": np.array([-1], int64),
        },
    )  # fmt: skip
    model = tvm_nnef.convert(proto, bounds={"batch": 4, "time": 8})
    assert "layout.reshape{shape=[batch, time * 2, 4]}(x)" in text(model)
    assert "layout.reshape{shape=[batch, time, 8]}(y)" in text(model)
    x = np.random.default_rng(0).random((2, 5, 8), np.float32)
    for found in (tvm_nnef.evaluate(model, x), tvm_nnef.build(model, progress=False)(x)):
        np.testing.assert_array_equal(found[0], x.reshape(2, 10, 4))
        np.testing.assert_array_equal(found[1], x)


def test_data_may_decide_on_dimensions(make_model: Any) -> None:
    proto = make_model(
        [node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["t"]),
         node("GatherND", ["x", "t"], ["v"])],
        [("x", "float32", [2, 3])],
        [("t", "int64", None), ("v", "float32", None)],
    )  # fmt: skip
    model = tvm_nnef.convert(proto)
    for found in (tvm_nnef.evaluate(model, X), tvm_nnef.build(model, progress=False)(X)):
        np.testing.assert_array_equal(found[0], np.argwhere(X))
        np.testing.assert_array_equal(found[1], X[X != 0])


def test_a_branch_that_is_known_leaves_no_trace(make_model: Any) -> None:
    def body(operator: str) -> Any:
        value = onnx.helper.make_tensor_value_info("r", 1, [2, 3])
        return onnx.helper.make_graph([node(operator, ["x"], ["r"])], operator, [], [value])

    proto = make_model(
        [node("If", ["c"], ["y"], then_branch=body("Neg"), else_branch=body("Abs"))],
        [("x", "float32", [2, 3])],
        [("y", "float32", [2, 3])],
        {"c": np.array(False)},
    )
    assert "y = math.abs(x);" in text(tvm_nnef.convert(proto))


def test_the_command_writes_a_model(
    make_model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = make_model(
        [node("Add", ["x", "w"], ["y"])], [("x", "float32", ["n", 3])],
        [("y", "float32", ["n", 3])], {"w": np.ones(3, np.float32)},
        producer_name="someone",
    )  # fmt: skip
    source, target = tmp_path / "m.onnx", tmp_path / "m.nnef2"
    onnx.save(proto, source)
    assert main(["convert", str(source), str(target), "--shape", "x=2,3"]) == 0
    assert "graph 'net', 1 variable\n" in capsys.readouterr().out
    written = (target / "main.sknd").read_text().splitlines()
    assert written[0] == f"# Converted from 'm.onnx' by tvm-nnef {version('tvm-nnef')}."
    assert written[1] == "# ONNX opset ai.onnx 17, own 1, made by someone."
    assert (target / "main.net.w.dat").is_file()
    assert main(["convert", str(source), str(target)]) == 0
    assert "x: real[n|2147483647, 3];" in (target / "main.sknd").read_text()
    for bound in ("n=5", "5"):
        assert main(["convert", str(source), str(target), "--bound", bound]) == 0
        assert "x: real[n|5, 3];" in (target / "main.sknd").read_text()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.onnx", "no such file"),
        (b"not a model", "not a model of a known kind"),
        ("model.pt", "no such file"),
        (np.zeros(3), "ndarray is not a model"),
        (".", "no 'main.sknd'"),
    ],
)
def test_what_is_not_a_model(
    source: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NnefError, match=message):
        tvm_nnef.convert(source)


def test_what_is_brought_along_is_what_is_used(make_model: Any) -> None:
    proto = make_model(
        [node("Round", ["x"], ["y"])], [("x", "float32", [2, 3])], [("y", "float32", [2, 3])]
    )
    model = tvm_nnef.convert(proto)
    assert list(model.modules["extra"].definitions) == ["round_even"]
    assert "# The whole number nearest to x, of two the even one." in (
        model.modules["extra"].source.text
    )


def test_dimensions_are_tensors_where_a_run_needs_them(make_model: Any) -> None:
    """Joined with a tensor of the run, and carried by a loop, a dimension becomes a tensor."""
    info = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [node("Add", ["state", "state"], ["doubled"])],
        "body",
        [info("i", 7, []), info("go", 9, []), info("state", 7, [1])],
        [info("go", 9, []), info("doubled", 7, [1])],
    )
    proto = make_model(
        [
            node("Shape", ["x"], ["s"], start=0, end=1),
            node("Concat", ["s", "k"], ["y"], axis=0),
            node("Loop", ["three", "", "s"], ["z"], body=body),
        ],
        [("x", "float32", ["n", 3]), ("k", "int64", [1])],
        [("y", "int64", [2]), ("z", "int64", [1])],
        {"three": np.array(3, np.int64)},
    )
    model = tvm_nnef.convert(proto, bounds=8)
    found = tvm_nnef.evaluate(model, X, np.array([7]))
    np.testing.assert_array_equal(found[0], [2, 7])
    np.testing.assert_array_equal(found[1], [16])


def test_more_than_the_bound_is_an_error(make_model: Any) -> None:
    proto = make_model(
        [node("Range", ["zero", "n", "one"], ["y"])],
        [("n", "int64", [])],
        [("y", "int64", ["k"])],
        {"zero": np.array(0, np.int64), "one": np.array(1, np.int64)},
    )
    model = tvm_nnef.convert(proto, bounds=5)
    for count in (0, 3, 5):
        (found,) = tvm_nnef.evaluate(model, np.array(count))
        np.testing.assert_array_equal(found, np.arange(count))
    with pytest.raises(NnefError, match="beyond"):
        tvm_nnef.evaluate(model, np.array(6))


@pytest.mark.parametrize(("bounds", "hint"), [
    ({"y": 2}, "'bounds' in Python, '--bound' on the command line"),
    ({}, "the shape of the input allows no more"),
])  # fmt: skip
def test_what_is_beyond_a_bound_has_a_hint(bounds: Any, hint: str, make_model: Any) -> None:
    nodes = [node("TopK", ["x", "k"], ["y", "i"])]
    inputs = [("x", "float32", [3]), ("k", "int64", [1])]
    proto = make_model(nodes, inputs, [("y", "float32", [None]), ("i", "int64", [None])])
    model = tvm_nnef.convert(proto, bounds=bounds)
    with pytest.raises(NnefError, match=hint):
        tvm_nnef.evaluate(model, np.zeros(3, np.float32), np.array([4]))


@pytest.fixture
def reshaped(make_model: Any) -> Any:
    """x in a shape that arrives in a run."""
    return make_model(
        [node("Reshape", ["x", "s"], ["y"])],
        [("x", "float32", ["n", 3]), ("s", "int64", [2])],
        [("y", "float32", [None, None])],
    )


BOUNDS: dict[str, tuple[Any, tuple[int, int]]] = {
    "one for all": (9, (9, 9)),
    "by the result": ({"n": 4, "y": 5}, (5, 5)),
    "by dimension": ({"n": 4, "y": (2, 12)}, (2, 12)),
    "of one dimension": ({"n": 4, "y": (None, 12)}, (1024, 12)),
    "of the input's dimension": ({"x": (4, None), "y": (3,)}, (3, 1024)),
    "the others": ({"": 7, "y": (None, 2)}, (1024, 2)),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_each_dimension(reshaped: Any, name: str) -> None:
    """A shape at its bounds is computed, one beyond in either dimension is an error."""
    bounds, (rows, columns) = BOUNDS[name]
    model = tvm_nnef.convert(reshaped, bounds=bounds)
    graph = tvm_nnef.compose(model)
    assert f"count={rows + 1}" in text(model)
    assert f"count={columns + 1}" in text(model)
    x = np.ones((1, 3), np.float32)
    for shape in ((1, 3), (3, 1)):
        if shape[0] <= rows and shape[1] <= columns:
            assert tvm_nnef.evaluate(graph, x, np.array(shape))[0].shape == shape
        else:
            with pytest.raises(NnefError, match="beyond"):
                tvm_nnef.evaluate(graph, x, np.array(shape))


@pytest.mark.parametrize(("bounds", "words", "hint"), [
    ({"n": 4, "z": 5}, "no dimension or result is named 'z'", "dimensions of inputs are"),
    ({"n": 4, "batsch": 5}, "no dimension or result is named 'batsch'", ""),
    ({"n": 0}, "the bound of 'n' cannot be 0", "1 or more"),
    ({"n": 4, "y": (None, -1)}, r"the bound of 'y' cannot be \(None, -1\)", "(None, 16)"),
    ({"n": 4, "y": "5"}, "the bound of 'y' cannot be '5'", "1 or more"),
    ({"n": 4, "y": ()}, r"the bound of 'y' cannot be \(\)", "1 or more"),
    (-3, "bounds cannot be -3", "1 or more"),
])  # fmt: skip
def test_what_is_not_a_bound(reshaped: Any, bounds: Any, words: str, hint: str) -> None:
    with pytest.raises(NnefError, match=words) as caught:
        tvm_nnef.convert(reshaped, bounds=bounds)
    assert hint in (caught.value.diagnostics[0].hint or "")


def test_bounds_of_each_dimension_on_the_command_line(reshaped: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "m.nnef2"
    onnx.save(reshaped, source)
    bounds = ["--bound", "n=4", "--bound", "y=_,12"]
    assert main(["convert", str(source), str(target), *bounds]) == 0
    assert "count=13}" in (target / "main.sknd").read_text()


def test_no_two_operators_that_are_brought_along_have_one_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twice = "operator a { @input { x: real[]; } @output { y: real[]; } @lower { y[] = x[]; } }\n"
    monkeypatch.setattr(operator_modules.resources, "files", lambda _: Path("/"))
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: twice * 2)
    operator_modules._entries.cache_clear()
    try:
        with pytest.raises(NnefError, match="'a' is defined twice"):
            assert "a" not in operator_modules.EXTRA
    finally:
        operator_modules._entries.cache_clear()


@pytest.mark.slow
def test_a_loop_gathers_a_data_dependent_number_of_items(make_model: Any) -> None:
    """Doubles until the sum is 100; gives each state on the way."""
    info = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [
            node("Add", ["state", "state"], ["next"]),
            node("ReduceSum", ["next"], ["sum"], keepdims=0),
            node("Less", ["sum", "limit"], ["on"]),
            node("Identity", ["state"], ["item"]),
        ],
        "body",
        [info("i", 7, []), info("go", 9, []), info("state", 1, [3])],
        [info("on", 9, []), info("next", 1, [3]), info("item", 1, [3])],
    )
    proto = make_model(
        [node("Loop", ["", "go_on", "x"], ["y", "items"], body=body)],
        [("x", "float32", [3]), ("go_on", "bool", [])],
        [("y", "float32", [3]), ("items", "float32", ["steps", 3])],
        {"limit": np.array(100, np.float32)},
    )
    model = tvm_nnef.convert(proto, bounds=16)
    states = [X[0]]
    while (states[-1] * 2).sum() < 100:
        states.append(states[-1] * 2)
    executable = tvm_nnef.build(model, progress=False)
    for run in (partial(tvm_nnef.evaluate, model), executable):
        final, items = run(X[0], np.array(True))
        np.testing.assert_array_equal(final, states[-1] * 2)
        np.testing.assert_array_equal(items, states)
        final, items = run(X[0], np.array(False))
        np.testing.assert_array_equal(final, X[0])
        assert np.shape(items) == (0, 3)


def test_and_back(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    text = (
        "import math; import linalg;\n"
        "graph G { @input { x: real[s|6,4]; } @output { z: real; } @variable { w: real[4,2]; }\n"
        "@compose { h = linalg.matmul(x, w); z = math.max(h, 0.0); } }\n"
    )
    w = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    model = tvm_nnef.load_model(text, variables={"main.G.w": w})
    tvm_nnef.convert(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    for size in (1, 5):
        x = np.random.default_rng(size).standard_normal((size, 4)).astype(np.float32)
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, np.maximum(x @ w, 0), rtol=1e-6)
