"""The dialect of a text is found without parsing it, and ambiguous passages are named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tvm_nnef.diagnostics import Source
from tvm_nnef.syntax import detect, parse, print_module

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
STDLIB = sorted((ROOT / "tvm_nnef" / "stdlib").glob("*.sknd"))


def dialect_of(*texts: str) -> str:
    return detect(Source("a.sknd", text) for text in texts)[0]


DECLARED = {
    "# dialect: tools\ngraph g { }": "tools",
    "\n# by hand\n\n  #dialect:tools": "tools",
    "# dialect: draft\noperator f { @using { a = b <? c; } }": "draft",
    "graph g { }\n# dialect: tools": "draft",
    "# dialect: klingon": "draft",
    "# a dialect: tools": "draft",
}


@pytest.mark.parametrize("text", DECLARED)
def test_a_comment_in_front_decides(text: str) -> None:
    assert dialect_of(text) == DECLARED[text]


CERTAIN = {
    "@using { a = b <? c; }": "tools",
    "@lower { y[] >?= x[]; }": "tools",
    "@lower { with a = x[]: y[] = a; }": "tools",
    "@lower { y[i..] = exp(x[i..]); }": "tools",
    "@using { a = floor (b); }": "tools",
    "@lower { index[:,k] = i, i < s | c; }": "tools",
    "@lower { y[i,] = f(x[i, :]); }": "tools",
    "@attrib { a: dynamic int; }": "tools",
    "@attrib { a: dynamic optional int; }": "tools",
    "@input { x: real[b,static c]; }": "tools",
    "@input { x: real..(static n); }": "tools",
    "@using { a = `exp`(b); }": "draft",
    "@using { a = b << c; }": "draft",
    "@using { a = b>>c; }": "draft",
    "@lower { y[i..] >= x[i..,j]; }": "draft",
    "@input { x: real[b, is, c]; }": "draft",
    "@using { is = a / b; }": "draft",
}
"""What only one dialect has, in a block."""


@pytest.mark.parametrize("text", CERTAIN)
def test_what_only_one_dialect_has_makes_it_certain(text: str) -> None:
    source = Source("a.sknd", f"operator f {{ @assert {{ a / b > 1; }} {text} @compose {{ }} }}")
    assert detect([source]) == (CERTAIN[text], ())


def test_one_module_decides_for_the_whole_model() -> None:
    main = "import m;\ngraph g { @compose { y = m.f(x); } }"
    assert dialect_of(main, "operator f { @using { a = b <? c; } }") == "tools"
    assert dialect_of(main, "import a.b;") == "draft"


EITHER = {
    "graph g { @compose { y = exp(x); } }": [],
    "graph g { @compose { y = math.exp(x); } @using { a = b.exp; } }": [],
    "# <? and static c\noperator f { @using { a = 'b <? exp(c)'; } }": [],
    "operator f { @using { static = dynamic ? static : d; } }": [],
    "operator f { @using { a = static is dynamic in b; } }": [],
    "operator f { @assert { a[0] >= b[1:]; } @lower { y[] = a[0] <= b ? 1 : 2; } }": [],
    "operator f { @compose { y = with a = b do g(a); } }": [],
    "operator f { @using { a = (b / c) \\ d; } }": ["/", "\\"],
    "operator f { @using { a = b %c; } @assert { a: 'a / b # % \\ n'; } }": ["%"],
    "operator f { @using { a = 'b\\'c\\n\\{' + d / e; } }": ["'", "{", "/"],
}
"""Texts that could be of either dialect, with the signs that may mean two things."""


@pytest.mark.parametrize("text", EITHER)
def test_what_could_be_either_is_the_draft_with_its_ambiguities(text: str) -> None:
    dialect, ambiguities = detect([Source("a.sknd", text)])
    assert dialect == "draft"
    assert [ambiguity.sign for ambiguity in ambiguities] == EITHER[text]
    for ambiguity in ambiguities:
        assert ambiguity.span.text.removeprefix("\\" if len(ambiguity.span.text) > 1 else "") == (
            ambiguity.sign
        )
        assert ambiguity.span.source.path == "a.sknd"


def test_names_that_only_one_library_has_decide() -> None:
    names = {"layout.tensor"}
    for text, dialect in {
        "y = layout.tensor{a=1}();": "tools",
        "y = layout.tensors();": "draft",
        "y = my.layout.tensor();": "draft",
        "y = f('layout.tensor');": "draft",
    }.items():
        source = Source("a.sknd", f"graph g {{ @compose {{ {text} }} }}")
        assert detect([source], names)[0] == dialect


HOSTILE = ["'", '"\\', "import a,", "@lower{", "static ", "a[", "{a[", "[:", "is "]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("part", HOSTILE)
def test_time_grows_with_the_length_of_a_text(part: str) -> None:
    def seconds(length: int) -> float:
        text = "@lower" + part * (length // len(part))
        start = time.process_time()
        detect(Source("a.sknd", each) for each in (text, text + "\\", "#\n" * length + text))
        return time.process_time() - start

    # Four times the length takes 16 times as long if the time is quadratic. Other load, which
    # disturbs a single measurement, does not disturb all of them.
    assert any(seconds(100_000) < 8 * seconds(25_000) + 0.1 for _ in range(5))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", STDLIB, ids=lambda file: file.stem)
def test_the_library_can_be_said_in_both_dialects(file: Path) -> None:
    module = parse(file.read_text("utf-8"))
    assert parse(print_module(module, "tools"), dialect="tools") == module


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["layout", "math", "nn"])
def test_a_module_with_formulas_is_recognized_in_both_dialects(name: str) -> None:
    (text,) = (file.read_text("utf-8") for file in STDLIB if file.stem == name)
    assert (dialect_of(text), dialect_of(print_module(parse(text), "tools"))) == ("draft", "tools")


def models() -> list[object]:
    if not CORPUS.is_dir():
        reason = "the models (shared/corpus) are not beside this checkout"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [
        pytest.param(file, id=str(file.relative_to(CORPUS).parent))
        for file in sorted(CORPUS.rglob("*.sknd"))
    ]


@pytest.mark.parametrize("file", models())
def test_a_model_written_by_the_tools_reads_back_equal(file: Path) -> None:
    module = parse(file.read_text("utf-8"), str(file), "tools")
    assert module.definitions
    assert parse(print_module(module, "tools"), dialect="tools") == module
    assert parse(print_module(module)) == module


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the models are not beside this checkout")
def test_every_model_of_the_corpus_is_read() -> None:
    assert len(models()) == 99
