"""Detection of the dialect of a model from its text, without parsing it.

Input: the sources of a whole model. Output: the name of a dialect, and the locations whose meaning
depends on the choice if the text is valid in both. Such a text is taken for the draft. Texts that
are wrong in both dialects, or mix them, are not reported here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.syntax.spelling import BUILTIN_FUNCTIONS, SPELLINGS, STRING

_DECLARATION = re.compile(rf"(?:\s|#[^\r\n]*[\r\n])*?#\s*dialect:\s*({'|'.join(SPELLINGS)})\b")
"""A comment before all else that names the dialect."""

_SKIPPED = re.compile(rf"#[^\r\n]*|{STRING}", re.DOTALL)
"""Comments and strings."""

_ESCAPE = re.compile(r"""\\[\\"'{}]""")

_ONLY_DRAFT = re.compile(
    r"""
    ` | << | >>                             # built-ins, minimum, maximum
    | \bimport\b[\w\s,]{1,200}\.           # nested modules
    | [\[,]\s*is\s*[,\].] | \bis\s*[=:]     # a name that the tools reserve
    """,
    re.VERBOSE,
)
_ONLY_TOOLS = re.compile(
    r"""
    <\? | >\?                               # minimum, maximum
    | \[\s*:\s*, | ,\s*:\s*[,\]]            # all of a dimension of a tensor
    | @lower\s*\{[^@]*\bwith\b              # local values of a formula
    | \b(?:static|dynamic)\s+               # two words in a row, the second no operator
      (?!(?:is|in|then|elif|else|for|while|do|unroll|yield)\b)[A-Za-z0-9_~]
    """,
    re.VERBOSE,
)
_DRAFT_CONTRACTION = re.compile(r"[;{]\s*\w+\s*\[[^;={]*\]\s*[<>]=(?!=)")
"""A minimum or maximum assigned by the draft, at the beginning of a formula."""

_LOWER = re.compile(r"@lower\b[^@]*")
_BLOCK = re.compile(r"@(?!compose\b|update\b|quantize\b)\w+[^@]*")
"""A block in which operators cannot be invoked, up to the next block."""

_PLAIN_BUILTIN = re.compile(rf"(?<![\w.`])(?:{'|'.join(sorted(BUILTIN_FUNCTIONS))})\s*\(")
_DIVISION = re.compile(r"[/\\%]")


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """A location that means one thing in the draft and may mean another in the tools dialect.

    ``sign`` is the operator (``/``, ``\\`` or ``%``: they round integers differently; whether its
    operands are integers is not known here), or the escaped character of a string.
    """

    sign: str
    span: Span


def detect(
    sources: Iterable[Source], tools_names: Collection[str] = ()
) -> tuple[str, tuple[Ambiguity, ...]]:
    """Return the dialect of a model, and its ambiguities (none if the dialect is certain).

    A comment ``# dialect: tools`` at the beginning of a source decides; then syntax that only the
    draft has, then syntax that only the tools dialect has. ``tools_names`` are qualified names of
    operators that only the tools' standard library has, as in ``layout.tensor``.
    """
    sources = tuple(sources)
    for source in sources:
        declared = _DECLARATION.match(source.text)
        if declared:
            return declared[1], ()
    bare = [_without_strings(source.text) for source in sources]
    if any(map(_is_draft, bare)):
        return "draft", ()
    if any(_is_tools(text, tools_names) for text in bare):
        return "tools", ()
    ambiguities = (
        ambiguity
        for source, text in zip(sources, bare, strict=True)
        for ambiguity in _ambiguities(source, text)
    )
    return "draft", tuple(ambiguities)


def _without_strings(text: str) -> str:
    """Return the text with blanks for its comments and strings; every offset stays the same."""
    return _SKIPPED.sub(lambda match: " " * len(match[0]), text)


def _is_draft(text: str) -> bool:
    if _ONLY_DRAFT.search(text):
        return True
    return any(_DRAFT_CONTRACTION.search(block[0]) for block in _LOWER.finditer(text))


def _is_tools(text: str, names: Collection[str]) -> bool:
    if _ONLY_TOOLS.search(text):
        return True
    if any(_PLAIN_BUILTIN.search(block[0]) for block in _BLOCK.finditer(text)):
        return True
    return any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) for name in names)


def _ambiguities(source: Source, bare: str) -> Iterator[Ambiguity]:
    """Yield the divisions of a text, and the backslashes in strings that the tools dialect keeps.

    They are in the order of the text.
    """
    locations = [(match.start(), match.end()) for match in _DIVISION.finditer(bare)]
    for skipped in _SKIPPED.finditer(source.text):
        if not skipped[0].startswith("#"):
            escapes = _ESCAPE.finditer(source.text, skipped.start() + 1, skipped.end() - 1)
            locations += [(match.start(), match.end()) for match in escapes]
    for start, end in sorted(locations):
        yield Ambiguity(source.text[end - 1], Span(source, start, end))
