"""Which texts, folders and archives are NNEF 1 models."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.formats.registry import open_source

GRAPH = "graph g(x) -> (y) { x = external(shape = [2]); y = neg(x); }"
NNEF1 = f"version 1.0; {GRAPH}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NNEF1, "nnef1"),
        (f"# graph G {{\n\n version 1.0 ;\n{GRAPH}", "nnef1"),
        (f"\n{GRAPH}", "nnef1"),
        ("# a line\n" * 1000 + NNEF1, "nnef1"),
        (NNEF1.replace("y", "operator").replace("; operator =", ";\n operator ="), "nnef1"),
        ("fragment f(x: tensor<>) -> (y: tensor<scalar>);\n", "nnef1"),
        ("graph G { @input { x: real[2]; } @output { y: real[2]; } }", "skriptnd"),
        ("graph G {\n    @input { x: real[2]; }\n}", "skriptnd"),
        ("import math;\ngraph version {\n}", "skriptnd"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert open_source(text).format.name == expected


def test_a_text_is_evaluated() -> None:
    (y,) = tvm_nnef.evaluate(NNEF1, np.array([1.0, -2.0], np.float32))
    np.testing.assert_array_equal(y, [-1, 2])


def test_a_text_in_bytes_or_with_a_byte_order_mark() -> None:
    for text in (NNEF1.encode(), f"\ufeff{NNEF1}\n"):
        assert tvm_nnef.load_model(text).outputs == {"y": "real[2]"}
    with pytest.raises(NnefError, match="UTF-8"):
        tvm_nnef.load_model(NNEF1.encode() + b"\xff")


def test_files_whatever_their_names(tmp_path: Path) -> None:
    archive, text = tmp_path / "archive.nnef", tmp_path / "text.txt"
    text.write_text(NNEF1)
    with tarfile.open(archive, "w:gz") as file:
        file.add(text, "graph.nnef")
    for path in (archive, text):
        assert tvm_nnef.load_model(path).outputs == {"y": "real[2]"}


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(NNEF1)
    assert open_source(tmp_path).format.name == "nnef1"
    assert open_source(tmp_path / "graph.nnef").format.name == "nnef1"
    (tmp_path / "main.sknd").write_text("graph G { @input { x: real; } @output { y: real; } }")
    with pytest.raises(NnefError, match="two kinds"):
        open_source(tmp_path)
