"""Highlighters know every word of the grammar, in both dialects."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String

from tvm_nnef.syntax.highlighting import patterns
from tvm_nnef.syntax.pygments_lexer import SkriptndLexer
from tvm_nnef.syntax.spelling import BUILTIN_FUNCTIONS, SPELLINGS
from tvm_nnef.syntax.statements import BlockKind
from tvm_nnef.syntax.vocabulary import merged_vocabulary, vocabulary_of

ROOT = Path(__file__).resolve().parents[2]
TEXTS = sorted((ROOT / "tvm_nnef" / "stdlib").rglob("*.sknd")) + sorted(ROOT.glob("docs/**/*.sknd"))


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_the_vocabulary_has_every_reserved_word(dialect: str) -> None:
    words = vocabulary_of(dialect)
    reserved = {word for word in SPELLINGS[dialect].reserved if word.isalpha()}
    assert words.words - {"is"} == reserved - {"is"}
    assert set(words.blocks) == set(BlockKind.__args__)
    assert set(words.functions) == BUILTIN_FUNCTIONS


def test_each_word_is_in_one_group() -> None:
    words = merged_vocabulary()
    names = ("declaring", "modifiers", "control", "operators", "types", "constants")
    groups = [getattr(words, name) for name in names]
    assert sum(map(len, groups)) == len(words.words)


@pytest.mark.parametrize("word", sorted(merged_vocabulary().words))
def test_every_word_is_highlighted(word: str) -> None:
    found = {text: kind for kind, text in _lex(f"x {word} y")}
    assert found[word] in Keyword or found[word] in Operator.Word
    inside = {text: kind for kind, text in _lex(f"x{word} {word}_y a.{word}")}
    assert all(kind not in Keyword for kind in inside.values())


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_text_can_be_highlighted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tokens = _lex(text)
    assert "".join(text for _, text in tokens) == text
    assert [text for kind, text in tokens if kind in Error] == []


def test_what_the_words_are() -> None:
    text = (
        "graph G { @compose { y = nn.conv<real>{a=1}(x) # c\n; s = 'v{n+1}\\n' ; "
        "t = `exp`(2.5e-3) + tanh(1 ..); } }"
    )
    found = {text: kind for kind, text in _lex(text)}
    expected = {
        "graph": Keyword.Declaration,
        "G": Name.Function,
        "@compose": Keyword.Declaration,
        "nn": Name.Namespace,
        "conv": Name.Function,
        "real": Keyword.Type,
        "x": Name,
        "# c": Comment.Single,
        "n+1": String.Interpol,
        "\\n": String.Escape,
        "`exp`": Name.Builtin,
        "tanh": Name.Builtin,
        "2.5e-3": Number.Float,
        "1": Number.Integer,
        "..": Operator,
        ";": Punctuation,
    }
    assert {word: found[word] for word in expected} == expected


def test_the_signs_of_both_dialects_are_operators() -> None:
    for sign in ("<<", "<?", ">?=", "**", "??", "=>", "<-", "..."):
        assert (Operator, sign) in _lex(f"a {sign} b")


def test_the_textmate_grammar_is_the_one_that_is_written() -> None:
    script = ROOT / "scripts" / "write_textmate.py"
    assert subprocess.run([sys.executable, script, "--check"]).returncode == 0


def test_the_textmate_grammar_has_all_patterns() -> None:
    path = ROOT / "scripts" / "write_textmate.py"
    spec = importlib.util.spec_from_file_location("write_textmate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rules = [rule for rule in module.grammar()["patterns"] if "match" in rule]
    assert [rule["match"] for rule in rules] == [each.expression for each in patterns()]


def _lex(text: str) -> list[tuple[object, str]]:
    lexer = SkriptndLexer(ensurenl=False, stripnl=False)
    return [(kind, value) for kind, value in lexer.get_tokens(text)]
