"""Whole documents, valid and invalid, checked from their text to their composed graphs.

The documents are in ``documents/``, one file for each part of the language, each under a line
``=== title``. Where an error is expected, the line ends with ``#! words``: the error is at that
line and has these words; there is no other error. A document that begins with a block is the body
of an operator, and one without a graph gets one after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tvm_nnef

DOCUMENTS = Path(__file__).with_name("documents")
GRAPH = "graph Any { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }"


def documents(folder: str) -> Iterator[object]:
    for file in sorted((DOCUMENTS / folder).glob("*.txt")):
        dialect = "tools" if file.stem == "tools" else "draft"
        for part in re.split(r"^=== ", file.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            title, _, text = part.partition("\n")
            yield pytest.param(text, dialect, id=f"{file.stem}: {title}")


def completed(text: str) -> str:
    if text.startswith("@"):
        output = "" if "@output" in text else "@output { o_: real[1]; }"
        text = f"operator op {{ {text} {output} }}"
    has_graph = re.search(r"^graph ", text, re.MULTILINE) or "has no graph" in text
    return text if has_graph else f"{text}\n{GRAPH}\n"


def errors(text: str, dialect: str) -> list[tvm_nnef.Diagnostic]:
    found = tvm_nnef.check(completed(text), dialect=dialect)
    return [each for each in found if each.severity == "error"]


@pytest.mark.parametrize(("text", "dialect"), list(documents("invalid")))
def test_errors_of_an_invalid_document(text: str, dialect: str) -> None:
    expected = [
        (number, words.strip())
        for number, line in enumerate(text.split("\n"), 1)
        for words in line.split("#!")[1:]
    ]
    assert expected
    found = errors(text, dialect)
    for line, words in expected:
        fitting = [d for d in found if d.line == line and words in f"{d.message} {d.hint}"]
        assert fitting, f"line {line}: {words}\n" + "\n".join(each.render() for each in found)
        found.remove(fitting[0])
    assert [each.render() for each in found] == []


@pytest.mark.parametrize(("text", "dialect"), list(documents("valid")))
def test_a_valid_document_has_no_errors(text: str, dialect: str) -> None:
    assert [each.render() for each in errors(text, dialect)] == []
