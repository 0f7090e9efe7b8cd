"""Patterns of SkriptND for highlighters, made from the words of the grammar.

Output: regular expressions with the names that Pygments and TextMate give to the matched text. One
table highlights both dialects.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tvm_nnef.syntax.vocabulary import merged_vocabulary

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_END = "(?![A-Za-z0-9_])"
_START = "(?<![A-Za-z0-9_@])"
_BRACKETS = frozenset("()[]{};,.:`")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, and for each of its groups a scope of TextMate and a token of Pygments.

    An expression without groups has one name of either for all of its text.
    """

    expression: str
    scopes: tuple[str, ...]
    tokens: tuple[str, ...]


@functools.cache
def patterns() -> tuple[Pattern, ...]:
    """Return the patterns outside of strings; the first one that matches counts."""
    words = merged_vocabulary()
    definitions = _any(word for word in words.declaring if word in ("graph", "operator"))
    others = _any(word for word in words.declaring if word not in ("graph", "operator"))
    functions = _any(words.functions)
    return (
        _one("#[^\\r\\n]*", "comment.line.number-sign", "Comment.Single"),
        _one(f"@{_any(words.blocks)}{_END}", "keyword.other.block", "Keyword.Declaration"),
        Pattern(
            rf"{_START}({definitions})(\s+)({_NAME})",
            ("storage.type", "", "entity.name.function"),
            ("Keyword.Declaration", "Text.Whitespace", "Name.Function"),
        ),
        _one(_word(definitions), "storage.type", "Keyword.Declaration"),
        _one(_word(others), "keyword.other", "Keyword.Namespace"),
        _one(_word(_any(words.types)), "storage.type", "Keyword.Type"),
        _one(_word(_any(words.constants)), "constant.language", "Keyword.Constant"),
        _one(_word(_any(words.operators)), "keyword.operator.word", "Operator.Word"),
        # In the draft, those of the tools dialect are names, but no name comes before another one.
        _one(
            _word(_any(words.modifiers)) + r"(?=\s+[A-Za-z0-9_~])",
            "storage.modifier",
            "Keyword",
        ),
        _one(_word(_any(words.control)), "keyword.control", "Keyword"),
        _one(f"`{functions}`", "support.function", "Name.Builtin"),
        _one(rf"(?<![A-Za-z0-9_.]){functions}(?=\s*\()", "support.function", "Name.Builtin"),
        Pattern(
            rf"({_NAME})(\.)(?={_NAME})",
            ("entity.name.namespace", "punctuation.separator"),
            ("Name.Namespace", "Punctuation"),
        ),
        _one(rf"{_NAME}(?=(?:<[A-Za-z0-9_,\s]*>)?[({{])", "entity.name.function", "Name.Function"),
        _one(_NAME, "variable", "Name"),
        _one(
            r"[0-9]+(?:\.(?!\.)[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)",
            "constant.numeric.float",
            "Number.Float",
        ),
        _one("[0-9]+", "constant.numeric.integer", "Number.Integer"),
        _one(
            "|".join(re.escape(sign) for sign in words.signs if sign not in _BRACKETS),
            "keyword.operator",
            "Operator",
        ),
        _one(f"[{re.escape(''.join(sorted(_BRACKETS)))}]", "punctuation", "Punctuation"),
    )


def _one(expression: str, scope: str, token: str) -> Pattern:
    return Pattern(expression, (scope,), (token,))


def _any(words: Iterable[str]) -> str:
    """Return an expression for one of several words, the longest first."""
    ordered = sorted(words, key=lambda word: (-len(word), word))
    return f"(?:{'|'.join(map(re.escape, ordered))})"


def _word(expression: str) -> str:
    """Return an expression for a whole word that is not part of a qualified name."""
    return rf"{_START}(?<!\.){expression}{_END}"
