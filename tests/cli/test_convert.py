"""``convert`` in both directions takes the options of each, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_nnef.cli import main
from tvm_nnef.version import __version__

MODEL = """
import library;

graph Other {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @compose { y = library.same(x); }
}

graph G {
    @dtype { T: num; }
    @attrib { batch: int = 1; }
    @input { x: T[batch, n]; }
    @output { y: T[batch, n]; }
    @compose { y = library.same(x); }
}
"""
LIBRARY = """
operator same {
    @dtype { T: num; }
    @input { x: T[s..]; }
    @output { y: T[s..]; }
    @lower { y[i..] = x[i..] + x[i..], i < s; }
}
"""
NNEF1 = """version 1.0;
graph g(x) -> (y)
{
    x = external(shape = [4]);
    y = mul(x, 2.0);
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model in each direction."""
    monkeypatch.chdir(tmp_path)
    Path("m.sknd").write_text(MODEL)
    Path("modules").mkdir()
    Path("modules/library.sknd").write_text(LIBRARY)
    Path("m.nnef").write_text(NNEF1)
    return tmp_path


def test_an_export_takes_the_options_of_composing() -> None:
    onnx = pytest.importorskip("onnx")
    options = ["--graph", "G", "--attr", "batch=3", "--type", "T=real", "--shape", "x=3,2"]
    options += ["--search-path", "modules", "--dialect", "draft", "--dtype", "real=float16"]
    assert main(["convert", "m.sknd", "m.onnx", *options]) == 0
    model = onnx.load("m.onnx")
    tensor = model.graph.input[0].type.tensor_type
    assert [each.dim_value for each in tensor.shape.dim] == [3, 2]
    assert tensor.elem_type == onnx.TensorProto.FLOAT16
    assert model.producer_version == __version__


def test_the_message_names_the_graph_that_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    options = ["--graph", "Other", "--search-path", "modules"]
    assert main(["convert", "m.sknd", "m.onnx", *options]) == 0
    assert "graph 'Other'" in capsys.readouterr().out


WRONG = {
    "blocks of SkriptND": (["m.sknd", "m.nnef1", "--flat"], "--flat has no meaning"),
    "bounds of SkriptND": (
        ["m.sknd", "m.nnef1", "--bound", "n=2", "--search-path", "modules"],
        "no option 'bounds'",
    ),
    "a graph": (["m.nnef", "out", "--graph", "G"], "--graph has no meaning"),
    "attributes": (["m.nnef", "out", "--attr", "batch=2"], "--attr has no meaning"),
    "types": (["m.nnef", "out", "--type", "T=int"], "--type has no meaning"),
    "a dialect": (["m.nnef", "out", "--dialect", "tools"], "--dialect has no meaning"),
    "modules": (["m.nnef", "out", "--search-path", "."], "--search-path has no meaning"),
    "a dialect of NNEF 1": (["m.nnef", "o.nnef1", "--dialect", "draft"], "no option 'dialect'"),
    "modules of NNEF 1": (["m.nnef", "o.nnef1", "--search-path", "."], "no option 'search_path'"),
    "dtypes of types": (["m.nnef", "out", "--dtype", "real=float16"], "no dtype of 'real'"),
    "an unknown graph": (
        ["m.sknd", "o.nnef1", "--search-path", "modules", "--graph", "Othr"],
        "'Other'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_option_of_the_other_direction_is_an_error(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, words = WRONG[case]
    before = sorted(folder.rglob("*"))
    assert main(["convert", *arguments]) == 1
    assert words in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def test_flat_is_for_a_model_of_another_format() -> None:
    assert main(["convert", "m.nnef", "out", "--flat"]) == 0
    assert main(["convert", "m.nnef", "out.nnef1", "--flat"]) == 0
