"""Locations and their pictures: lines, columns, carets, notes, hints."""

from __future__ import annotations

import difflib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_nnef.diagnostics import (
    MAX_REPORTED,
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


def test_a_long_line_is_cut_around_the_caret() -> None:
    text = "a" * 5000 + "foo" + "b" * 5000
    start, *rest = Diagnostic("cause", Span(Source("s", text), 5000, 5003)).render().split("\n")
    shown, carets = rest
    assert start == "s:1:5001: error: cause"
    assert len(shown) < 200
    assert shown.startswith("  1 | …a") and shown.endswith("b…")
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "foo"


def test_a_span_beyond_the_window_has_carets_to_its_end() -> None:
    shown, carets = (
        Diagnostic("cause", Span(Source("s", "x" * 9999), 0, 9999)).render().split("\n")[1:]
    )
    assert len(carets) == len(shown) - len("…")


@pytest.mark.parametrize(("text", "shown"), [
    ("a\x1b[31mb", "a\\x1b[31mb"),
    ("a\rb\x00\x7f\x9b", "a\\rb\\x00\\x7f\\x9b"),
    ("a\u202eb\u2066", "a\\u202eb\\u2066"),
    ("a\ud800", "a\\ud800"),
    ("ä 漢 \u200c é 🙂", "ä 漢 \u200c é 🙂"),
])  # fmt: skip
def test_control_characters_are_escaped_everywhere(text: str, shown: str) -> None:
    source = Source(text, f"# {text.replace(chr(13), '')}")
    found = Diagnostic(text, Span(source, 2, 3), text, (Note(text),), file=text)
    rendered = found.render()
    assert rendered.count(shown) >= 4
    assert not set(rendered) & {"\x1b", "\r", "\x00", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800"}


def test_carets_are_under_escaped_text() -> None:
    _, shown, carets = Diagnostic("c", span("\x1b «foo»;")).render().split("\n")
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "foo"


def test_long_messages_and_paths_are_cut() -> None:
    assert len(Diagnostic("m" * 10**6, file="p" * 10**6).render()) < 10_000


def test_an_error_holds_a_limited_number_of_diagnostics() -> None:
    problem = NnefError(Diagnostic(f"cause {number}") for number in range(1234))
    *kept, last = problem.diagnostics
    assert len(kept) == MAX_REPORTED
    assert last.message == f"{1234 - MAX_REPORTED} more errors"
    assert NnefError(problem.diagnostics[:3]).diagnostics == problem.diagnostics[:3]


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


def test_a_diagnostic_is_printed_as_it_is_rendered() -> None:
    found = Diagnostic("cause", span("«x»"), "hint")
    assert str(found) == found.render()


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


def test_did_you_mean_compares_few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    ratio = difflib.SequenceMatcher.ratio
    monkeypatch.setattr(
        difflib.SequenceMatcher, "ratio", lambda self: compared.append(1) or ratio(self)
    )
    names = [f"{'ab' * 20}{number}" for number in range(5000)]
    assert did_you_mean("ba" * 20, names)
    assert len(compared) <= 40
    assert did_you_mean("ab" * 500, ["ab" * 500 + "a"]) is None
