"""Parsing of C++ text into a tree.

Text that is too deep or not in the grammar is an error at its position.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import lark

from tvm_nnef.converters.common.collected_errors import Problems
from tvm_nnef.diagnostics import NnefError, Source, Span, error

MAX_DEPTH = 32
"""Upper limit of the nesting of brackets."""

_HINTS = [
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r".* \?", "use 'if' for numbers, and select(condition, then, otherwise) for tensors"),
        (r"return \{", "return one tensor; a function in Python may return several"),
        (r".*[(,] \{", "give values one by one, as in O.add_constraint(i < 2); and another"),
        (r".* [&|]", "use one 'if' inside another for numbers, and products of tensors"),
        (r"[\s}]*\S+", "a function begins as in: Tensor name(const Tensor& I) {"),
    )
]
"""Hints for unsupported words, by the end of the text before the error."""

MAX_ERRORS = 20
"""Upper limit of the syntax errors that are reported at once."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SIGN = re.compile(r"//[^\n]*|/\*(?:.|\n)*?\*/|[(){};]")
_BRANCHING = re.compile(r"\s*(for|if|else|[(){}])")
_NOT_BLANK = re.compile(r"\S")
_BRACKET = re.compile(r"[()\[\]{}]")
_WORDS = {
    "NAME": "a name", "INTEGER": "a number", "REAL": "a number", "SEMICOLON": "';'",
    "RPAR": "')'", "LPAR": "'('", "RSQB": "']'", "LBRACE": "'{'", "RBRACE": "'}'",
    "COMMA": "','", "TENSOR": "'Tensor'",
}  # fmt: skip


def parse(source: Source) -> lark.Tree[lark.Token]:
    """Return the functions of a text. Raises NnefError for the syntax errors of its statements."""
    _check_depth(source)
    problems, text = Problems(), source.text
    while True:
        try:
            tree = _parser().parse(text)
            break
        except lark.UnexpectedInput as failure:
            problem = _explained(failure, source)
            line = problem.diagnostics[0].line
            if line in [each.line for each in problems.found]:
                break  # it may come from the one before
            problems.add(problem)
            found = problem.diagnostics[0].span
            rest = None if found is None else _without_statement(text, found.start)
            if rest is None or len(problems.found) == MAX_ERRORS:
                break
            text = rest
    problems.check()
    return tree


def _explained(failure: lark.UnexpectedInput, source: Source) -> NnefError:
    start = min(failure.pos_in_stream or 0, len(source.text))
    token = getattr(failure, "token", None)
    if token is not None and token.type == "$END":
        start = len(source.text.rstrip())
    text = str(token) if token is not None and token.type != "$END" else source.text[start:][:1]
    message = f"unexpected '{text}'" if text else "unexpected end of the text"
    before = source.text[:start].rstrip()
    hint = next((tip for pattern, tip in _HINTS if pattern.fullmatch(f"{before[-6:]} {text}")), "")
    return error(message, Span(source, start, start + len(text)), hint=hint or _hint(failure))


def _without_statement(text: str, position: int) -> str | None:
    """Return the text with blanks instead of the statement at a position.

    It is None if that is not clear.
    """
    start = end = 0
    depth = nested = 0
    for match in _SIGN.finditer(text):
        sign, end = match[0], match.start()
        if end >= position and sign in ";}":
            break
        if sign in "{}":
            depth, nested = depth + (1 if sign == "{" else -1), 0
        elif sign in "()":
            nested += 1 if sign == "(" else -1
        if end < position and (sign in "{}" or (sign == ";" and nested <= 0)):
            start = match.end()
    statement = text[start:end]
    if depth < 1 or "{" in statement or not statement.strip() or _BRANCHING.match(statement):
        return None
    return text[:start] + _NOT_BLANK.sub(" ", statement) + text[end:]


@functools.cache
def _parser() -> lark.Lark:
    grammar = Path(__file__).with_name("tile.lark").read_text(encoding="utf-8")
    return lark.Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _hint(failure: lark.UnexpectedInput) -> str:
    expected = getattr(failure, "accepts", None) or getattr(failure, "expected", None) or ()
    words = sorted({_WORDS[each] for each in expected if each in _WORDS})
    if words:
        return f"expected {' or '.join(words)}, among others"
    return "statements are those of Tile's tutorial: declarations, contractions, loops, return"


def _check_depth(source: Source) -> None:
    """Raise NnefError for brackets that are nested too deeply."""
    text = _COMMENT.sub(lambda match: " " * len(match[0]), source.text)
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += 1 if match[0] in "([{" else -1
        if depth > MAX_DEPTH:
            position = Span(source, match.start(), match.end())
            message = f"more than {MAX_DEPTH} brackets inside each other"
            raise error(message, position, hint="compute parts in their own statements")
