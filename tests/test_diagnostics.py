"""Places and their pictures: lines, columns, carets, notes, hints."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_nnef.diagnostics import (
    Diagnostic,
    NnefError,
    Note,
    Source,
    Span,
    did_you_mean,
    error,
)


def span(marked: str, path: str = "main.sknd") -> Span:
    """The span between « and » of a text that has these marks."""
    start, end = marked.index("«"), marked.index("»") - 1
    return Span(Source(path, marked.replace("«", "").replace("»", "")), start, end)


@pytest.mark.parametrize(("marked", "lines"), [
    ("y = «foo»(x);", ["  1 | y = foo(x);", "    |     ^^^"]),
    ("a;\ny = «foo»;\n", ["  2 | y = foo;", "    |     ^^^"]),
    ("a;\r\ny = «foo»;\r\n", ["  2 | y = foo;", "    |     ^^^"]),
    ("a;\ry = «foo»;\r", ["  2 | y = foo;", "    |     ^^^"]),
    ("\ty =\t«foo»;", ["  1 | \ty =\tfoo;", "    | \t   \t^^^"]),
    ("y = «foo{\n  a=1\n}»(x);", ["  1 | y = foo{", "    |     ^^^^"]),
    ("y = foo«»", ["  1 | y = foo", "    |        ^"]),
    ("y = foo;\n«»", ["  2 | ", "    | ^"]),
    ("«»", ["  1 | ", "    | ^"]),
    ("\n" * 99 + "«x»", ["  100 | x", "      | ^"]),
])  # fmt: skip
def test_excerpt(marked: str, lines: list[str]) -> None:
    rendered = Diagnostic("cause", span(marked)).render().split("\n")
    assert rendered[1:] == lines


def test_everything_in_its_order() -> None:
    first, second = span("a = «b»;"), span("op «name» {", "<stdlib>/nn.sknd")
    rendered = Diagnostic("cause", first, "do this", (Note("see", second), Note("and"))).render()
    assert rendered.split("\n") == [
        "main.sknd:1:5: error: cause",
        "  1 | a = b;",
        "    |     ^",
        "  <stdlib>/nn.sknd:1:4: note: see",
        "    1 | op name {",
        "      |    ^^^^",
        "  note: and",
        "  hint: do this",
    ]


def test_file_without_text() -> None:
    found = Diagnostic("truncated", file="w.dat", severity="warning")
    assert found.render() == "w.dat: warning: truncated"
    assert (found.path, found.line, found.column, found.end_line) == ("w.dat", None, None, None)
    assert Diagnostic("cause").render() == "error: cause"


def test_positions_count_from_one_and_end_exclusively() -> None:
    found = Diagnostic("cause", span("a;\nb = «c\nd»;"))
    assert (found.line, found.column, found.end_line, found.end_column) == (2, 5, 3, 2)
    assert found.path == "main.sknd"


@given(st.text("ab\r\n\t", max_size=30), st.data())
def test_position_and_line_agree(text: str, data: st.DataObject) -> None:
    source = Source("s", text)
    offset = data.draw(st.integers(0, len(text)))
    line, column = source.position(offset)
    assert line >= 1
    assert 1 <= column <= len(source.line(line)) + 1
    if offset < len(text) and text[offset] not in "\r\n":
        assert source.line(line)[column - 1] == text[offset]


def test_spans_join() -> None:
    source = Source("s", "abcdef")
    assert Span(source, 1, 2).to(Span(source, 3, 5)).text == "bcde"
    assert Span(source, 1, 6).to(Span(source, 2, 3)).text == "bcdef"


def test_error_carries_all_diagnostics() -> None:
    problem = NnefError([Diagnostic("one"), Diagnostic("two")])
    assert str(problem) == "error: one\nerror: two"
    noted = problem.with_note(Note("here"))
    assert [each.notes for each in noted.diagnostics] == [(Note("here"),)] * 2
    assert all(not each.notes for each in problem.diagnostics)


def test_error_survives_pickling() -> None:
    problem = error("cause", span("«x»"), hint="hint", notes=[Note("note")])
    again = pickle.loads(pickle.dumps(problem))
    assert again.diagnostics == problem.diagnostics
    assert str(again) == str(problem)


@pytest.mark.parametrize(("name", "hint"), [
    ("max_pol", "did you mean 'max_pool'?"),
    ("zzz", None),
])  # fmt: skip
def test_did_you_mean(name: str, hint: str | None) -> None:
    assert did_you_mean(name, ["conv", "max_pool", "avg_pool"]) == hint
