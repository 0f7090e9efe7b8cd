"""Diagnostics and shapes of unsaved texts, and the outline of a document."""

from __future__ import annotations

from pathlib import Path

import pytest

import tvm_nnef
from tvm_nnef.language_server.checking import diagnostics_of, shapes_of
from tvm_nnef.language_server.files import files_of
from tvm_nnef.language_server.modules import modules_of
from tvm_nnef.language_server.symbols import symbols_of
from tvm_nnef.stdlib import library
from tvm_nnef.stdlib.library import standard_file

DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits" / "main.sknd"
MODULE = "import nn; operator f {{ @input {{ x: real[n]; }} @output {{ y: real[n]; }} {} }}"


def _messages(path: Path | str, texts: dict[str, str]) -> list[str]:
    return [each.message for each in diagnostics_of(str(path), texts)[str(path)]]


def test_the_text_of_the_editor_is_checked_not_the_file() -> None:
    text = DIGITS.read_text("utf-8")
    assert _messages(DIGITS, {str(DIGITS): text}) == []
    wrong = text.replace("nn.relu(conv1)", "nn.rleu(conv1)")
    assert _messages(DIGITS, {str(DIGITS): wrong}) == ["module 'nn' has no operator 'rleu'"]


def test_the_diagnostics_are_those_of_check(tmp_path: Path) -> None:
    text = "import nn;\ngraph G { @input { x: real[2]; } @output { y: real; } @compose { y = x } }"
    main = tmp_path / "main.sknd"
    main.write_text(text)
    assert diagnostics_of(str(main), {str(main): text})[str(main)] == tvm_nnef.check(main)


def test_shapes_and_variable_files_are_checked() -> None:
    text = DIGITS.read_text("utf-8")
    wrong = text.replace("bias1: real[16]", "bias1: real[17]")
    (message,) = _messages(DIGITS, {str(DIGITS): wrong})
    assert "bias.size = 17" in message
    more = text.replace("bias1: real[16];", "bias1: real[16]; extra: real[3];")
    assert any("extra" in each for each in _messages(DIGITS, {str(DIGITS): more}))


def test_a_module_is_checked_without_a_graph(tmp_path: Path) -> None:
    path = str(tmp_path / "own-ops.sknd")
    fine, wrong = (
        MODULE.format("@compose { y = nn.relu(x); }"),
        MODULE.format("@compose { y = z; }"),
    )
    assert _messages(path, {path: fine}) == []
    assert len(_messages(path, {path: wrong})) == 1


def test_an_unsaved_module_is_seen_by_the_main_module(tmp_path: Path) -> None:
    main, own = str(tmp_path / "main.sknd"), str(tmp_path / "own.sknd")
    text = (
        "import own; graph G { @input { x: real[2]; } @output { y: real[2]; }"
        " @compose { y = own.f(x); } }"
    )
    module = MODULE.format("@compose { y = nn.relu(x); }")
    assert _messages(main, {main: text, own: module}) == []
    assert _messages(main, {main: text}) == ["there is no module 'own'"]
    broken = diagnostics_of(main, {main: text, own: "operator"})
    assert [each.line for each in broken[own]] == [1]


def test_a_text_without_a_file_is_checked() -> None:
    assert len(_messages("Untitled-1", {"Untitled-1": "graph G {"})) == 1
    assert _messages("Untitled-1", {"Untitled-1": MODULE.format("@compose { y = x; }")}) == []


def test_nothing_is_reported_in_the_standard_library() -> None:
    path = standard_file("<stdlib>/nn.sknd")
    assert diagnostics_of(str(path), {str(path): path.read_text()}) == {str(path): []}


def test_the_standard_library_may_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = standard_file("<stdlib>/nn.sknd")
    (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(library, "_folder", lambda: tmp_path)
    assert library.is_standard_file(tmp_path / path.name)
    assert library.is_standard_file(path)
    assert not library.is_standard_file(tmp_path / "own.sknd")


def test_shapes_are_after_the_names_of_results() -> None:
    text = DIGITS.read_text("utf-8").replace("batch: int = 1", "batch: int = 5")
    found = shapes_of(str(DIGITS), {str(DIGITS): text})
    shown = {text[: each.offset].split()[-1]: each.text for each in found}
    assert shown["conv1"] == ": real[5, 16, 8, 8]"
    assert shown["flat"] == ": real[5, 128]"
    assert len(shown) == 11


def test_no_shapes_are_shown_that_are_written_or_unknown(tmp_path: Path) -> None:
    path = str(tmp_path / "main.sknd")
    text = (
        "import nn; graph G {{ @attrib {{ n: int{}; }} @input {{ x: real[n]; }} "
        "@output {{ y: real[n]; }} @compose {{ z: real[n] = nn.relu(x); y = nn.relu(z); }} }}"
    )
    known = shapes_of(path, {path: text.format(" = 4")})
    assert [each.text for each in known] == [": real[4]"]
    assert shapes_of(path, {path: text.format("")}) == []
    assert shapes_of(path, {path: "graph {"}) == []


def test_the_outline_has_definitions_and_their_parameters() -> None:
    path = str(DIGITS)
    module = modules_of(files_of(path, {path: DIGITS.read_text("utf-8")})).document
    (graph,) = symbols_of(module)
    assert (graph.name, graph.kind) == ("Digits", "graph")
    names = [(each.name, each.kind, each.detail) for each in graph.children]
    assert names[:2] == [
        ("batch", "attribute", "int"),
        ("image", "tensor", "real[batch, 1, 8, 8]"),
    ]
    assert len(names) == 11


def test_the_outline_stays_while_a_statement_is_typed(tmp_path: Path) -> None:
    path = str(tmp_path / "main.sknd")
    text = "operator f { @input { x: real[n]; } @lower { y[ = ; } }\ngraph G { @input { a: ; } }"
    module = modules_of(files_of(path, {path: text})).document
    assert [each.name for each in symbols_of(module)] == ["f", "G"]


def test_modules_are_found_in_further_folders(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    library = tmp_path / "shared" / "library.sknd"
    library.write_text(
        "operator same {\n"
        "    @input { x: real[n]; }\n"
        "    @output { y: real[n]; }\n"
        "    @lower { y[i,] = x[i,], i < n; }\n"
        "}\n"
    )
    main = str(tmp_path / "model" / "main.sknd")
    text = (
        "import library;\n"
        "graph G { @input { x: real[2]; } @output { y: real[2]; } "
        "@compose { y = library.same(x); } }\n"
    )
    (found,) = diagnostics_of(main, {main: text})[main]
    assert "no module 'library'" in found.message
    folders = [str(library.parent)]
    assert diagnostics_of(main, {main: text}, folders) == {main: []}
    assert [each.text for each in shapes_of(main, {main: text}, folders)] == [": real[2]"]
    modules = modules_of(files_of(main, {main: text}, folders))
    (definition,) = modules.operators("library")
    assert definition.span.source.path == str(library)
    (absent,) = diagnostics_of(main, {main: text}, [str(tmp_path / "absent")])[main]
    assert "there is no such folder" in absent.message
