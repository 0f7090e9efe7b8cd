"""``tvm-nnef format``: what is written, printed and returned."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tvm_nnef.cli import main

MESSY = "# why\ngraph G{@input{x:real[2];}@output{y:real[2];}@compose{y=x; }} # end\n"
NEAT = """\
# why
graph G {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @compose { y = x; }
}  # end
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "main.sknd"
    path.write_text(MESSY)
    return path


def test_a_file_is_rewritten_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", str(file)]) == 0
    assert file.read_text() == NEAT
    assert "1 file, 1 formatted" in capsys.readouterr().err
    before = file.stat().st_mtime_ns
    assert main(["format", str(file)]) == 0
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_a_check_writes_nothing(
    option: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["format", option, str(file)]) == 1
    assert file.read_text() == MESSY
    assert ("+    @input { x: real[2]; }" in capsys.readouterr().out) == (option == "--diff")
    file.write_text(NEAT)
    assert main(["format", option, str(file)]) == 0
    assert capsys.readouterr().out == ""


def test_a_folder_stands_for_the_texts_in_it(tmp_path: Path, file: Path) -> None:
    (tmp_path / "ops").mkdir()
    module = tmp_path / "ops" / "own.sknd"
    module.write_text("operator f{}")
    assert main(["format", str(tmp_path)]) == 0
    assert (file.read_text(), module.read_text()) == (NEAT, "operator f {\n}\n")


def test_an_error_in_one_file_leaves_it_and_formats_the_others(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.sknd"
    bad.write_text("graph {")
    assert main(["format", str(bad), str(file)]) == 1
    assert "bad.sknd:1:7: error" in capsys.readouterr().err
    assert (bad.read_text(), file.read_text()) == ("graph {", NEAT)


def test_standard_input_goes_to_standard_output(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (MESSY, NEAT):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert main(["format", "-"]) == 0
        assert capsysbinary.readouterr() == (NEAT.encode(), b"")


def test_the_dialect_is_detected_or_given(file: Path) -> None:
    file.write_text("operator f{@input{x:real[n];}@output{y:real[n];}@lower{y[i]<?=x[i],i<n;}}")
    assert main(["format", str(file)]) == 0
    assert "y[i] <?= x[i], i < n;" in file.read_text()
    assert main(["format", "--dialect", "draft", str(file)]) == 1


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf" + MESSY.encode(), MESSY.encode()])
def test_a_byte_order_mark_stays(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    assert main(["format", str(file)]) == 0
    assert file.read_bytes() == content[: content.index(b"#")] + NEAT.encode()


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_what_cannot_be_read_is_reported(
    content: bytes | None, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(content) if content else file.unlink()
    assert main(["format", str(file)]) == 1
    assert "hint:" in capsys.readouterr().err
