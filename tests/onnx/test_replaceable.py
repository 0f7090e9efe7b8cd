"""Initializers that are inputs too: constants, or inputs with a default if a user asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import InputError, NnefError

onnx = pytest.importorskip("onnx")

X = np.arange(8, dtype=np.float32).reshape(4, 2)
W, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([1, 2, 3])
NEW = np.float32([[5, -1, 2], [0, 1, 7]])


def network(ir_version: int = 8) -> Any:
    """x @ layer.w + b, where the weight is listed before the input; b is listed before IR 4."""
    nodes = [onnx.helper.make_node("MatMul", ["x", "layer.w"], ["p"]),
             onnx.helper.make_node("Add", ["p", "b"], ["y"])]  # fmt: skip
    shapes = {"layer.w": [2, 3], "x": ["n", 2], **({"b": [3]} if ir_version < 4 else {})}
    inputs = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    outputs = [onnx.helper.make_tensor_value_info("y", 1, ["n", 3])]
    weights = [onnx.numpy_helper.from_array(W, "layer.w"), onnx.numpy_helper.from_array(B, "b")]
    graph = onnx.helper.make_graph(nodes, "net", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


OPTIONS: dict[str, Any] = {"replaceable": ["layer.w"], "bounds": 8}


def check(call: Any) -> None:
    """The default, and another weight in each of the ways to give it."""
    for outputs in (call(X), call({"x": X}), call(X, None)):
        np.testing.assert_array_equal(outputs["y"], X @ W + B)
    for outputs in (call(X, NEW), call({"x": X, "layer.w": NEW}), call({"layer_w": NEW, "x": X})):
        np.testing.assert_array_equal(outputs["y"], X @ NEW + B)
    np.testing.assert_array_equal(call(X)["y"], X @ W + B)


@pytest.mark.parametrize("ir_version", [3, 8])
def test_by_default_it_is_a_constant(ir_version: int) -> None:
    proto = network(ir_version)
    model = tvm_nnef.convert(proto, bounds=8)
    assert list(model.inputs) == ["x"]
    executable = tvm_nnef.build(model, progress=False)
    for call in (lambda *x: tvm_nnef.evaluate(model, *x), executable):
        np.testing.assert_array_equal(call(X)["y"], X @ W + B)
        with pytest.raises(InputError, match=r"replaceable=\['layer\.w'\]"):
            call({"x": X, "layer.w": NEW})
    with pytest.raises(InputError, match="the source gives it a value"):
        executable(X, **{"layer.w": NEW})


def test_the_reference_takes_another_value(tmp_path: Path) -> None:
    model = tvm_nnef.convert(network(), tmp_path / "net", **OPTIONS)
    assert list(model.inputs) == ["x", "layer_w"]
    check(lambda *x: tvm_nnef.evaluate(model, *x))
    check(lambda *x: tvm_nnef.evaluate(network(3), *x, **OPTIONS))
    check(lambda *x: tvm_nnef.evaluate(tmp_path / "net", *x))
    graph, variables = tvm_nnef.compose(model), dict(model.variables)
    check(lambda *x: tvm_nnef.evaluate(graph, *x, variables=variables))


@pytest.mark.parametrize("route", ["mapped", pytest.param("formula", marks=pytest.mark.slow)])
def test_a_library_takes_another_value(route: Any, tmp_path: Path) -> None:
    executable = tvm_nnef.build(network(), route=route, progress=False, **OPTIONS)
    check(executable)
    check(executable.clone())
    np.testing.assert_array_equal(executable(X, **{"layer.w": NEW})["y"], X @ NEW + B)
    executable.export(tmp_path / "net.so")
    check(tvm_nnef.load(tmp_path / "net.so"))


@pytest.mark.slow
def test_a_module_of_tvm_takes_another_value() -> None:
    check(tvm_nnef.build(tvm_nnef.from_nnef(network(), **OPTIONS), progress=False))


def test_another_value_is_compared_with_onnx_runtime() -> None:
    pytest.importorskip("onnxruntime")
    for ir_version in (3, 8):
        for inputs in ((X, NEW), (X,), ()):
            routes = ("onnxruntime", "reference")
            report = tvm_nnef.compare(
                network(ir_version), *inputs, routes=routes, progress=False, **OPTIONS
            )
            assert report.agrees


def test_a_value_that_decides_a_shape_is_not_taken_for_known(make_model: Any) -> None:
    """Nothing is inferred from the value of an initializer that a call may replace."""
    inputs = [("shape", "i8", [2]), ("x", "f4", [6])]
    nodes = [onnx.helper.make_node("Reshape", ["x", "shape"], ["y"])]
    proto = make_model(nodes, inputs, [("y", "f4", None)], {"shape": np.array([2, 3])})
    values = np.arange(6, dtype=np.float32)
    for model, shape in ((tvm_nnef.convert(proto, replaceable=["shape"], bounds=8), (3, 2)),
                         (tvm_nnef.convert(proto), (2, 3))):  # fmt: skip
        given = [np.array([3, 2])] if shape == (3, 2) else []
        (found,) = tvm_nnef.evaluate(model, values, *given)
        np.testing.assert_array_equal(found, values.reshape(shape))


def test_files_of_defaults_differ_in_more_than_case(make_model: Any, tmp_path: Path) -> None:
    names = ["W", "w", "x"]
    nodes = [onnx.helper.make_node("Add", ["x", "w"], ["a"]),
             onnx.helper.make_node("Mul", ["a", "W"], ["y"])]  # fmt: skip
    inputs, values = [(name, "f4", [3]) for name in names], {"W": B, "w": 5 * B}
    proto = make_model(nodes, inputs, [("y", "f4", [3])], values)
    tvm_nnef.convert(proto, tmp_path / "net", replaceable=["W", "w"])
    assert len({each.name.lower() for each in (tmp_path / "net").glob("*.dat")}) == 2
    outputs = tvm_nnef.evaluate(tmp_path / "net", {"x": B, "w": B})
    np.testing.assert_array_equal(outputs["y"], 2 * B * B)


def test_an_exported_model_has_its_initializer_again(tmp_path: Path) -> None:
    tvm_nnef.convert(tvm_nnef.convert(network(), **OPTIONS), tmp_path / "again.onnx")
    proto = onnx.load(tmp_path / "again.onnx")
    assert [value.name for value in proto.graph.input] == ["x", "layer_w"]
    assert "layer_w" in {tensor.name for tensor in proto.graph.initializer}
    again = {"replaceable": ["layer_w"], "bounds": 8}
    for given, weight in (([X], W), ([X, NEW], NEW)):
        outputs = tvm_nnef.evaluate(proto, *given, **again)
        np.testing.assert_array_equal(outputs["y"], X @ weight + B)


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    np.save("x.npy", X)
    np.save("w.npy", NEW)
    common = ["--bound", "8", "--route", "reference", "-o", "y.npy", "--quiet", "-i", "x.npy"]
    asked = ["--replaceable", "layer.w"]
    for more, weight in (([], W), (asked, W), ([*asked, "-i", "layer.w=w.npy"], NEW)):
        assert main(["run", "net.onnx", *common, *more]) == 0
        np.testing.assert_array_equal(np.load("y.npy"), X @ weight + B)
    assert main(["run", "net.onnx", *common, "-i", "layer.w=w.npy"]) == 1
    assert main(["convert", "net.onnx", "net", "--bound", "8", *asked, "--quiet"]) == 0
    assert main(["check", "net"]) == 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["b"], "the initializer 'b' is not an input"),
        (["q"], "names 'q', which is not an initializer"),
        (["x"], "names 'x', which is not an initializer"),
        ("layer.w", "names of initializers"),
    ],
)
def test_names_that_cannot_be_replaced(names: Any, message: str) -> None:
    with pytest.raises(NnefError, match=message):
        tvm_nnef.convert(network(), replaceable=names, bounds=8)


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ('["main.net.q"]', "the graph has no input 'q'|has no input 'main.net.q'"),
        ('["main.net.x"]', "come after the other inputs"),
        ('"main.net.x"', "must be a list in brackets"),
    ],
)
def test_defaults_in_a_file_are_checked(defaults: str, message: str, tmp_path: Path) -> None:
    tvm_nnef.convert(network(), tmp_path / "net", **OPTIONS)
    (tmp_path / "net" / "model.json").write_text(f'{{"defaults": {defaults}}}')
    with pytest.raises(NnefError, match=message):
        tvm_nnef.compose(tmp_path / "net")
    (tmp_path / "net" / "model.json").write_text('{"defaults": ["main.net.layer_w"]}')
    (tmp_path / "net" / "main.net.layer_w.dat").unlink()
    with pytest.raises(NnefError, match=r"'main\.net\.layer_w' has no value"):
        tvm_nnef.evaluate(tmp_path / "net", X)
