"""The tokens and comments of a text with their context: their node, blanks and line breaks.

Input: a text that parses, and its tree. Output: a :class:`Word` for each token and each comment, in
the order of the text, and whether there is a blank between two of them. The text is not changed
here.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_nnef.syntax import grammar, nodes
from tvm_nnef.syntax.walk import walk

LINE_END = re.compile(r"\r\n|\r|\n")
_COMMENTS = re.compile(r"#[^\r\n]*")
_COMMENT = "COMMENT"
_TAB = 4

_STRUCTURE = (nodes.Definition, nodes.Block, nodes.Scope)
"""The nodes whose braces hold statements; other braces hold attributes."""


@dataclass(frozen=True, slots=True)
class Word:
    """A token or a comment.

    ``owner`` is the innermost node around it, ``breaks`` the number of line breaks before it,
    ``column`` its column, from 0, with tabs expanded.
    """

    text: str
    kind: str
    start: int
    owner: nodes.Node
    breaks: int
    column: int

    @property
    def is_comment(self) -> bool:
        """Whether this is a comment."""
        return self.kind == _COMMENT

    @property
    def opens(self) -> bool:
        """Whether this is a brace that opens a list of statements."""
        return self.text == "{" and isinstance(self.owner, _STRUCTURE)

    @property
    def closes(self) -> bool:
        """Whether this is a brace that closes a list of statements."""
        return self.text == "}" and isinstance(self.owner, _STRUCTURE)

    @property
    def is_first(self) -> bool:
        """Whether the innermost node begins with this word."""
        return self.start == self.owner.span.start

    @property
    def is_last(self) -> bool:
        """Whether the innermost node ends with this word."""
        return self.start + len(self.text) == self.owner.span.end


@dataclass(frozen=True, slots=True)
class Token:
    """A token or a comment, with the number of line breaks before it."""

    text: str
    kind: str
    start: int
    breaks: int


def tokens_of(text: str, dialect: str) -> Iterator[Token]:
    """Yield the tokens and comments of a text that parses."""
    end = 0
    for each in grammar.load(dialect).parse_interactive(text, start="module").iter_parse():
        start = int(each.start_pos or 0)
        yield from _gap(text, end, start)
        yield Token(str(each), each.type, start, _breaks(text, end, start))
        end = start + len(each)
    yield from _gap(text, end, len(text))


def _gap(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the comments between two tokens."""
    for match in _COMMENTS.finditer(text, start, end):
        comment = match[0].rstrip()
        yield Token(comment, _COMMENT, match.start(), _breaks(text, start, match.start()))


def _breaks(text: str, start: int, end: int) -> int:
    """Return the line breaks before an offset, after the last token or comment."""
    gap = _COMMENTS.split(text[start:end])[-1]
    return len(LINE_END.findall(gap))


def words_of(module: nodes.Module, dialect: str) -> list[Word]:
    """Return the tokens and comments of the text of a module, with the nodes that they belong
    to.
    """
    text = module.span.source.text
    tokens = list(tokens_of(text, dialect))
    owners = _owners(module, [token.start for token in tokens])
    return [
        Word(token.text, token.kind, token.start, owner, token.breaks, _column(text, token.start))
        for token, owner in zip(tokens, owners, strict=True)
    ]


def _column(text: str, offset: int) -> int:
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    return len(text[start:offset].expandtabs(_TAB))


def _owners(module: nodes.Module, starts: Sequence[int]) -> list[nodes.Node]:
    """Return the innermost node around each token."""
    owners: list[nodes.Node] = [module] * len(starts)
    for node in walk(module):
        first = bisect.bisect_left(starts, node.span.start)
        last = bisect.bisect_left(starts, node.span.end)
        owners[first:last] = [node] * (last - first)
    return owners


def joined(words: Sequence[Word], dialect: str) -> str:
    """Return words on one line."""
    return "".join(_joined(words, dialect))


def _joined(words: Sequence[Word], dialect: str) -> Iterator[str]:
    for index, word in enumerate(words):
        if index:
            yield blank_between(words[index - 1], word, dialect)
        yield word.text


def blank_between(left: Word, right: Word, dialect: str) -> str:
    """Return the blanks between two words on one line."""
    if right.is_comment:
        return "  "
    # A number would take the first dot for its decimal point.
    if left.kind in ("INTEGER", "REAL") and right.text.startswith("."):
        return " "
    if not (_joins_right(left) or _joins_left(left, right)):
        return " "
    return " " if _is_other_sign(left.text + right.text, left.text, dialect) else ""


def _is_other_sign(text: str, left: str, dialect: str) -> bool:
    """Whether two signs without a blank would be read as a longer one."""
    return any(len(sign) > len(left) and text.startswith(sign) for sign in _signs(dialect))


@functools.cache
def _signs(dialect: str) -> tuple[str, ...]:
    patterns = (each.pattern for each in grammar.load(dialect).terminals)
    return tuple(each.value for each in patterns if each.type == "str" and len(each.value) > 1)


def _joins_right(word: Word) -> bool:
    """Whether a word is written without a blank after it."""
    owner = word.owner
    match word.text:
        case "(" | "[" | ".":
            return True
        case "{":
            return not word.opens
        case "+" | "-" | "!" | "?":
            return isinstance(owner, nodes.Unary)
        case ":":
            return isinstance(owner, nodes.Range)
        case "=":
            return isinstance(owner, nodes.AttributeAssignment)
        case "<":
            return isinstance(owner, nodes.Call)
        case "|":
            return _is_bound(owner) or (isinstance(owner, nodes.Guard) and word.is_first)
        case "^":
            return isinstance(owner, nodes.TypeSpec)
        case "`":
            return True
        case "..":
            return isinstance(owner, nodes.Extent)
    return False


def _joins_left(left: Word, word: Word) -> bool:
    """Whether the second of two words is written without a blank before it."""
    owner = word.owner
    match word.text:
        case ";" | "," | ")" | "]" | ".":
            return True
        case "}":
            return not word.closes
        case "{":
            return not word.opens
        case "(":
            return _takes_arguments(left)
        case "[":
            return left.kind in ("IDENTIFIER", "TYPE") or left.text in (")", "]")
        case ":" if isinstance(owner, nodes.Range):
            return not word.is_first
        case ":":
            return not isinstance(owner, nodes.Select | nodes.Scan | nodes.Guard)
        case "=":
            return isinstance(owner, nodes.AttributeAssignment)
        case "<" | ">":
            return isinstance(owner, nodes.Call)
        case "|":
            return _is_bound(owner) or (isinstance(owner, nodes.Guard) and not word.is_first)
        case "^":
            return isinstance(owner, nodes.TypeSpec)
        case "`":
            return not word.is_first
        case "..":
            return not isinstance(owner, nodes.Fold | nodes.Extent)
    return False


def _is_bound(owner: nodes.Node) -> bool:
    """Whether the bar of this node is followed by a bound."""
    return isinstance(owner, nodes.Extent | nodes.Pack)


def _takes_arguments(word: Word) -> bool:
    """Whether a parenthesis after this word belongs to it."""
    match word.text:
        case ">" | "}":
            return isinstance(word.owner, nodes.Call)
        case "^":
            return isinstance(word.owner, nodes.TypeSpec)
        case ".." | "`":
            return True
    return word.kind in ("IDENTIFIER", "TYPE")
