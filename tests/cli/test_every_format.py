"""Every command and call takes a model of another format, by its content, whatever its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main

pytestmark = pytest.mark.sampled(3)

onnx = pytest.importorskip("onnx")

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
EXPECTED = np.maximum(X + X, 0)


def proto(rows: int | str = 2) -> Any:
    """y = relu(x + x), of which the number of rows may be open."""
    info = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Add", ["x", "x"], ["twice"]),
        onnx.helper.make_node("Relu", ["twice"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "net", [info("x", 1, [rows, 3])], [info("y", 1, [rows, 3])]
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )


@pytest.fixture(params=[".model", ".sknd", ""])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An ONNX model in a file that is named otherwise."""
    file = tmp_path / f"net{request.param}"
    file.write_bytes(proto().SerializeToString())
    return str(file)


@pytest.fixture
def open_model(tmp_path: Path) -> str:
    """One of which the number of rows is open."""
    file = tmp_path / "open.model"
    file.write_bytes(proto("n").SerializeToString())
    return str(file)


def test_check(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", model]) == 0
    assert capsys.readouterr().out == f"{model}: no errors\n"


def test_run(model: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    files = [str(tmp_path / name) for name in ("x.npy", "y.npy")]
    assert main(["run", model, "-i", files[0], "-o", files[1], "--route", "reference"]) == 0
    np.testing.assert_array_equal(np.load(files[1]), EXPECTED)


def test_show(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", model]) == 0
    assert "nn.relu" in capsys.readouterr().out


def test_build(model: str, tmp_path: Path) -> None:
    library = tmp_path / "net.so"
    assert main(["build", model, "-o", str(library)]) == 0
    np.testing.assert_array_equal(tvm_nnef.load(library)(X)[0], EXPECTED)


def test_compare(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["compare", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["routes"] == ["onnxruntime", "mapped"]


def test_bench(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    options = ["--seconds", "0.01", "--threads", "1", "--json"]
    assert main(["bench", model, *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert {"tvm-nnef", "onnxruntime"} <= row.keys() and row["checked"] == "onnxruntime"


def test_tune(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def tuned(module: Any, *_: Any, **__: Any) -> Any:
        seen.append(module)
        raise KeyboardInterrupt

    monkeypatch.setattr("tvm_nnef.tuning.session.tune_module", tuned)
    assert main(["tune", model, "--trials", "1", "--database", str(tmp_path / "db")]) == 130
    assert "main" in [each.name_hint for each in seen[0].get_global_vars()]


def test_convert(model: str, tmp_path: Path) -> None:
    for target in ("net.nnef2", "copy.onnx"):
        assert main(["convert", model, str(tmp_path / target)]) == 0
        np.testing.assert_array_equal(tvm_nnef.evaluate(tmp_path / target, X)[0], EXPECTED)


COMMANDS = (
    ["check"],
    ["run", "--route", "reference"],
    ["show"],
    ["compare", "--routes", "mapped", "reference"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each[0])
@pytest.mark.parametrize("given", [["--shape", "x=2,3"], ["--bound", "n=4"], ["--bound", "4"]])
def test_shapes_and_bounds_complete_what_the_source_leaves_open(
    command: list[str], given: list[str], open_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = command
    assert main([name, open_model, *options, *given]) == 0
    capsys.readouterr()
    assert main([name, open_model, *options]) == 0
    chosen = "note: the model does not fix all sizes; chosen: --shape x=1,3\n"
    assert (chosen in capsys.readouterr().err) == (name != "check")


def test_the_format_is_named_where_the_content_does_not_say_it(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", model, "--format", "onnx"]) == 0
    assert main(["check", model, "--format", "skriptnd"]) == 1
    assert main(["check", model, "--format", "onx"]) == 1
    assert "did you mean 'onnx'" in capsys.readouterr().err


def test_bounds_of_a_skriptnd_model_are_in_its_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tvm_nnef.convert(proto(), tmp_path / "net.nnef2")
    assert main(["check", str(tmp_path / "net.nnef2"), "--bound", "n=4"]) == 1
    assert "no option 'bounds'" in capsys.readouterr().err


def test_what_no_other_library_executes_is_not_compared_against(tmp_path: Path) -> None:
    tvm_nnef.convert(proto(), tmp_path / "net.nnef2")
    with pytest.raises(tvm_nnef.NnefError, match="no other library executes SkriptND models"):
        tvm_nnef.compare(proto(), X, against=tmp_path / "net.nnef2", progress=False)


SOURCES: tuple[Callable[[Path], Any], ...] = (
    lambda _: proto(),
    lambda _: proto().SerializeToString(),
    lambda folder: _written(folder),
)


def _written(folder: Path) -> Path:
    file = folder / "net.txt"
    file.write_bytes(proto().SerializeToString())
    return file


@pytest.mark.parametrize("make", SOURCES, ids=["proto", "bytes", "path"])
def test_python_calls(make: Callable[[Path], Any], tmp_path: Path) -> None:
    source = make(tmp_path)
    assert tvm_nnef.load_model(source).graphs == ("net",)
    assert tvm_nnef.check(source) == []
    assert [port.name for port in tvm_nnef.compose(source).inputs] == ["x"]
    np.testing.assert_array_equal(tvm_nnef.evaluate(source, X)[0], EXPECTED)
    assert tvm_nnef.from_nnef(source)["main"] is not None
    assert tvm_nnef.compare(source, X, progress=False, routes=("mapped", "reference")).agrees
    executable = tvm_nnef.build(source, progress=False, threads=1)
    np.testing.assert_array_equal(executable(X)[0], EXPECTED)


def test_shapes_go_to_the_conversion_in_python_too() -> None:
    source = proto("n")
    assert tvm_nnef.compose(source, input_shapes={"x": (2, 3)}).inputs[0].operand.shape == (2, 3)
    graph = tvm_nnef.compose(source, bounds={"n": 4})
    assert str(graph.inputs[0].operand.shape[0]) == "n"
    assert tvm_nnef.check(source, input_shapes={"x": (2, 3)}) == []
    assert tvm_nnef.check(source) == []
    np.testing.assert_array_equal(tvm_nnef.evaluate(source, X, bounds=4)[0], EXPECTED)
