"""Models on disk and in memory: read, checked, written, and read again."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_nnef.api.building import compose, evaluate, from_nnef
from tvm_nnef.api.checking import check
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.formats.reading import load_model
from tvm_nnef.model.model import save_model
from tvm_nnef.storage.container import Container
from tvm_nnef.storage.tensor_file import write_tensor

MAIN = """import math, parts;

graph G {
    @input { x: real[2,3]; }
    @output { y: real[2,3]; }
    @variable { w: real[2,3]; }
    @compose { a = math.mul(x, w); y = parts.shift(a); }
}
"""
PARTS = """operator shift {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @variable { b: real[s..]; }
    @lower { y[i..] = x[i..] + b[i..], i < s; }
}
"""
W = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.full((2, 3), 0.5, np.float32)
VARIABLES = {"main.G.w": W, "main.G.y.b": B}
X = np.ones((2, 3), np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with its own module, two variables and metadata."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "main.sknd").write_text(MAIN, encoding="utf-8")
    (path / "parts.sknd").write_text(PARTS, encoding="utf-8")
    for name, array in VARIABLES.items():
        (path / f"{name}.dat").write_bytes(write_tensor(array, name))
    (path / "model.json").write_text(json.dumps({"labels": ["a", "b", "c"]}), encoding="utf-8")
    return path


def texts(model: Any) -> dict[str, str]:
    return {
        name: module.source.text for name, module in model.modules.items() if not module.is_standard
    }


@pytest.mark.parametrize("name", ["copy", "copy.tar", "copy.tgz", "copy.tar.gz"])
def test_what_is_written_is_read_again(folder: Path, tmp_path: Path, name: str) -> None:
    model = load_model(folder)
    save_model(model, tmp_path / name)
    again = load_model(tmp_path / name)
    assert texts(again) == texts(model) == {"main": MAIN, "parts": PARTS}
    assert again.graphs == ("G",)
    assert again.metadata == model.metadata
    assert again.metadata.labels == ("a", "b", "c")
    assert set(again.variables) == set(VARIABLES)
    for key, array in VARIABLES.items():
        np.testing.assert_array_equal(again.variables[key], array)
        assert again.variables[key].dtype == array.dtype
    np.testing.assert_array_equal(evaluate(again, X)[0], W + B)


def test_saving_over_what_was_read(folder: Path) -> None:
    model = load_model(folder)
    (folder / "notes.txt").write_text("mine")
    save_model(model, folder)
    assert (folder / "notes.txt").read_text() == "mine"
    np.testing.assert_array_equal(load_model(folder).variables["main.G.w"], W)


def test_check_finds_nothing_wrong(folder: Path) -> None:
    assert check(folder) == []
    assert check(load_model(folder)) == []


def break_truncated(folder: Path) -> None:
    file = folder / "main.G.w.dat"
    file.write_bytes(file.read_bytes()[:-1])


def break_header(folder: Path) -> None:
    (folder / "main.G.w.dat").write_bytes(b"\x4e\xef\x01")


def break_magic(folder: Path) -> None:
    (folder / "main.G.w.dat").write_bytes(b"?" * 200)


def break_metadata(folder: Path) -> None:
    (folder / "model.json").write_text('{"lables": []}', encoding="utf-8")


def break_module(folder: Path) -> None:
    (folder / "parts.sknd").write_text("operator shift {", encoding="utf-8")


def remove_module(folder: Path) -> None:
    (folder / "parts.sknd").unlink()


def not_utf8(folder: Path) -> None:
    (folder / "main.sknd").write_bytes(b"graph \xff {}\n")


LOADING = [
    (break_truncated, "main.G.w.dat"),
    (break_header, "main.G.w.dat"),
    (break_magic, "main.G.w.dat"),
    (break_metadata, "model.json"),
    (break_module, "parts.sknd"),
    (remove_module, "parts"),
    (not_utf8, "main.sknd"),
]


@pytest.mark.parametrize(("damage", "words"), LOADING)
def test_damage_is_found_when_loading(
    folder: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(folder)
    with pytest.raises(NnefError, match=words):
        load_model(folder)
    found = check(folder)
    assert any(each.severity == "error" for each in found)
    assert all(each.path for each in found)


def test_independent_problems_are_reported_together(folder: Path) -> None:
    break_truncated(folder)
    break_metadata(folder)
    break_module(folder)
    with pytest.raises(NnefError) as caught:
        load_model(folder)
    paths = {Path(str(each.path)).name for each in caught.value.diagnostics}
    assert paths == {"parts.sknd", "model.json", "main.G.w.dat"}


def missing(folder: Path) -> None:
    (folder / "main.G.y.b.dat").unlink()


def renamed(folder: Path) -> None:
    shutil.move(folder / "main.G.y.b.dat", folder / "main.G.z.b.dat")


def other_shape(folder: Path) -> None:
    (folder / "main.G.y.b.dat").write_bytes(write_tensor(B.reshape(3, 2), "b"))


@pytest.mark.parametrize(("damage", "words"), [
    (missing, "variable 'main.G.y.b' has no value"),
    (missing, "hint: it is read from that file"),
    (renamed, "did you mean 'main.G.z.b'?"),
    (other_shape, "declared with shape [2, 3], but 'main.G.y.b.dat' holds shape [3, 2]"),
])  # fmt: skip
def test_variables_are_compared_with_their_files(
    folder: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(folder)
    (found,) = check(folder)
    assert words in found.render()
    assert (found.severity, found.line) == ("error", 4)
    with pytest.raises(NnefError) as caught:
        evaluate(folder, X)
    assert words in str(caught.value)


def test_variables_replace_files(folder: Path) -> None:
    break_truncated(folder)
    given = {"main.G.w": W + 1.0, "main.G.y.b": B}
    assert check(folder, variables=given) == []
    np.testing.assert_array_equal(evaluate(folder, X, variables=given)[0], W + 1.0 + B)
    wrong = {**given, "main.G.w": [1.0]}
    (found,) = check(folder, variables=wrong)
    assert "the array given for it has shape [1]" in found.message
    del given["main.G.y.b"]
    (found,) = check(folder, variables=given)
    assert "'variables' does not have it" in found.message
    assert found.hint == "give it by its full name: variables={'main.G.y.b': …}"


def test_model_without_variable_files_is_noted(folder: Path) -> None:
    for file in folder.glob("*.dat"):
        file.unlink()
    (found,) = check(folder)
    assert (found.severity, "has no variable files" in found.message) == ("note", True)
    with pytest.raises(NnefError) as caught:
        evaluate(folder, X)
    (found,) = caught.value.diagnostics
    assert (found.severity, "graph 'main.G' needs 2" in found.message) == ("error", True)


def test_modules_are_looked_for_in_order(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "library"
    elsewhere.mkdir()
    shutil.move(folder / "parts.sknd", elsewhere / "parts.sknd")
    assert any("parts" in each.message for each in check(folder))
    assert check(folder, search_path=[elsewhere]) == []
    with pytest.raises(NnefError, match="there is no such folder"):
        evaluate(folder, X, search_path=[tmp_path / "libary"])
    # what the model itself has goes first
    (folder / "parts.sknd").write_text(PARTS.replace("+", "-"), encoding="utf-8")
    np.testing.assert_array_equal(evaluate(folder, X, search_path=[elsewhere])[0], W - B)


@pytest.mark.parametrize(("dialect", "words"), [
    ("drafd", "did you mean 'draft'?"),
    ("x", "one of"),
])  # fmt: skip
def test_unknown_dialect(folder: Path, dialect: str, words: str) -> None:
    with pytest.raises(NnefError) as caught:
        load_model(folder, dialect=dialect)
    assert "unknown dialect" in str(caught.value)
    assert words in str(caught.value)
    assert len(check(folder, dialect=dialect)) == 1


def test_source_text_is_a_model() -> None:
    text = "graph G { @input { x: real[n]; } @output { y: real[n]; } @compose { y = x; } }\n"
    (note,) = check(text)
    assert (note.severity, "dimension 'n' of 'x' is not known" in note.message) == ("note", True)
    assert check(text, input_shapes={"x": (3,)}) == []
    assert compose(text, input_shapes={"x": (3,)}).outputs[0].operand.shape == (3,)


def test_missing_model_is_an_error(tmp_path: Path) -> None:
    assert [each.severity for each in check(tmp_path / "nothing")] == ["error"]


def test_check_composes_only_the_graph_named() -> None:
    text = """
        graph A { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }
        graph B { @input { x: real[2]; } @output { y: real[3]; } @compose { y = x; } }
    """
    assert check(text, graph="A") == []
    (found,) = check(text)
    assert "output 'y' has shape [2], declared as [3]" in found.message


def test_archive_member_that_points_outside(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(folder / "main.sknd", "main.sknd")
        tar.add(folder / "parts.sknd", "../parts.sknd")
    found = check(archive)
    assert any(each.severity == "error" for each in found)
    assert not (tmp_path.parent / "parts.sknd").exists()


def test_the_inputs_give_the_evaluator_what_a_model_leaves_open() -> None:
    text = (
        "# dialect: tools\nimport layout;\n"
        "graph G { @input { x: real[n]; ps: real[2]..(k|4); } @output { y: real; z: real; }\n"
        "@compose { y = x; z = layout.concat{axis=0}(ps); } }\n"
    )
    x, ps = np.arange(3.0, dtype=np.float32), [np.full(2, i, np.float32) for i in range(3)]
    y, z = evaluate(text, x, ps)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, [0, 0, 1, 1, 2, 2])
    assert str(compose(text).inputs[0].operand.shape[0]) == "n"


NET = """graph G {
    @input { x: real[2, 3]; }
    @output { y: real[2, 3]; }
    @variable { w: real[3]; }
    @compose { y = x; }
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "main.sknd").write_text(NET)
    (tmp_path / "main.G.w.dat").write_bytes(write_tensor(np.zeros(3, np.float32)))
    return tmp_path


def test_model_json_is_compared_with_the_graph(net: Path) -> None:
    (net / "model.json").write_text(
        """{"labels": ["a", "b"],
            "inputs": {"image": {"layout": "HW"}, "x": {"layout": "HW"}},
            "machine_types": {
              "main.G.x": "int8",
              "main.G.z": "float16",
              "main.G.w": "float64"}}"""
    )
    found = check(net)
    assert [(each.path, each.line) for each in found] == [
        (str(net / "model.json"), line) for line in (1, 2, 4, 5)
    ]
    labels, image, kind, name = (each.message for each in found)
    assert "2 labels" in labels and "3 classes" in labels
    assert "has no input 'image'" in image
    assert "'int8' is not a dtype" in kind
    assert "'main.G.z'" in name


def test_a_model_json_that_fits_is_accepted(net: Path) -> None:
    (net / "model.json").write_text(
        """{"labels": ["a", "b", "c"], "inputs": {"x": {"layout": "HW"}},
            "machine_types": {"main.G.x": "float16"}}"""
    )
    assert check(net) == []


@pytest.mark.parametrize(("dtype", "fits"), [
    ("float16", True), ("float32", True), ("float64", True),
    ("int32", False), ("uint8", False), ("bool", False),
])  # fmt: skip
def test_items_of_a_file_are_of_the_declared_type(net: Path, dtype: str, fits: bool) -> None:
    (net / "main.G.w.dat").write_bytes(write_tensor(np.zeros(3, dtype)))
    messages = [each.message for each in check(net)]
    assert messages == [] if fits else [dtype in each for each in messages] == [True]


def test_check_reads_no_weights(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Container.read
    counts: list[int] = []

    def counted(self: Container, name: str, count: int | None = None) -> bytes:
        data = read(self, name, count)
        counts.extend([len(data)] if name.endswith(".dat") else [])
        return data

    monkeypatch.setattr(Container, "read", counted)
    (net / "main.G.w.dat").write_bytes(write_tensor(np.zeros(10**6, np.float32)))
    (found,) = check(net)
    assert "holds shape [1000000]" in found.message
    assert set(counts) == {128}
    assert "main.G.w" in load_model(net).variables and set(counts) == {128}


def test_unknown_names_of_variables_are_errors(net: Path) -> None:
    given = {"main.G.w": np.zeros(3, np.float32), "main.G.v": np.zeros(3, np.float32)}
    (found,) = check(net, variables=given)
    assert "has no variable 'main.G.v'" in found.message
    assert found.hint == "did you mean 'main.G.w'?"
    for model in (net, load_model(net)):
        for call in (load_model, from_nnef, evaluate):
            with pytest.raises(NnefError, match=r"the model has no variable 'main\.G\.v'"):
                call(model, variables=given)
    del given["main.G.v"]
    assert check(net, variables=given) == []


@pytest.mark.parametrize("name", ["main.G.w:2", "main.y.b", "G.y.b", "main.G.y.c", "b", ""])
def test_names_are_unknown_before_a_graph_is_composed(folder: Path, name: str) -> None:
    text = MAIN.replace("x: real[2,3]; }", "x: real[n,3]; }").replace("w: real[2,3]", "w: real[3]")
    (folder / "main.sknd").write_text(text, encoding="utf-8")
    with pytest.raises(NnefError, match=f"the model has no variable '{name}'"):
        load_model(folder, variables={**VARIABLES, name: W})
    found = check(folder, variables={**VARIABLES, name: W})
    assert f"the model has no variable '{name}'" in [each.message for each in found]
    assert set(load_model(folder, variables=VARIABLES).variables) == set(VARIABLES)


def test_variables_replace_those_of_a_model_in_memory(folder: Path) -> None:
    model = load_model(folder)
    given = {"main.G.w": W + 1.0, "main.G.y.b": B}
    np.testing.assert_array_equal(evaluate(model, X, variables=given)[0], W + 1.0 + B)
    np.testing.assert_array_equal(evaluate(model, X)[0], W + B)
    assert "'variables' does not have it" in check(model, variables={"main.G.w": W})[0].message
    with pytest.raises(NnefError, match="a Model in memory has no option 'dialect'"):
        load_model(model, dialect="tools")
    for source in (folder, model, MAIN):
        (found,) = check(source, variables=[W, B])  # type: ignore[arg-type]
        assert found.message.startswith("'variables' cannot be ")
    graph = compose(folder)
    with pytest.raises(NnefError, match=r"the model has no variable 'main\.G\.v'"):
        evaluate(graph, X, variables={**VARIABLES, "main.G.v": W})
    evaluate(graph, X, variables={**VARIABLES, "main.Other.v": W})
    with pytest.raises(NnefError, match="a Graph cannot be evaluated with 'attributes'"):
        evaluate(graph, X, variables=VARIABLES, attributes={"n": 2})


def test_modules_with_names_too_long_for_a_file_are_missing(net: Path) -> None:
    name = "a" * 300
    (net / "main.sknd").write_text(f"import {name};\nimport {'.'.join('a' * 3000)};\n{NET}")
    found = check(net, search_path=[net])
    assert ["there is no module" in each.message for each in found] == [True, True]
    (found, *_) = check(net, search_path=[net / name])
    assert "no such folder" in found.message
