"""SkriptND for Pygments, so that documents highlight it: ``sknd`` and ``skriptnd``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import (  # type: ignore[import-untyped, unused-ignore]
    RegexLexer,
    bygroups,
    default,
)
from pygments.token import (  # type: ignore[import-untyped, unused-ignore]
    String,
    Whitespace,
    string_to_tokentype,
)

from tvm_nnef.syntax.highlighting import patterns


def _rules() -> Iterator[tuple[Any, ...]]:
    for each in patterns():
        tokens = [string_to_tokentype(name) for name in each.tokens]
        yield each.expression, tokens[0] if len(tokens) == 1 else bygroups(*tokens)


def _string(quote: str) -> list[tuple[Any, ...]]:
    """Return a string, in whose braces there are expressions."""
    return [
        (quote, String, "#pop"),
        (r"\\.", String.Escape),
        (r"\{", String.Interpol, "braces"),
        (rf"[^\\{{{quote}]+", String),
    ]


class SkriptndLexer(RegexLexer):  # type: ignore[misc, unused-ignore]
    """The lexer of SkriptND, the language of NNEF 2, in both dialects."""

    name = "SkriptND"
    aliases: ClassVar[list[str]] = ["sknd", "skriptnd"]
    filenames: ClassVar[list[str]] = ["*.sknd"]
    url = "https://www.khronos.org/nnef"

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            ('"', String, "double"),
            ("'", String, "single"),
            *_rules(),
        ],
        "double": _string('"'),
        "single": _string("'"),
        "braces": [
            (r"\}", String.Interpol, "#pop"),
            (r"[^{}\"']+", String.Interpol),
            default("#pop"),
        ],
    }
