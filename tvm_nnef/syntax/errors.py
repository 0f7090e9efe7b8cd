"""Messages for syntax errors.

Input: an exception of lark's parser. Output: a :class:`~tvm_nnef.diagnostics.Diagnostic` with the
location, the unexpected text, the expected alternatives, and a hint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import lark

from tvm_nnef.diagnostics import Diagnostic, Note, Span, did_you_mean
from tvm_nnef.syntax.failures import (
    accepted_terminals,
    failure_span,
    open_brackets,
    spelled,
)
from tvm_nnef.syntax.spelling import Spelling

BLOCKS = (
    "@dtype", "@attrib", "@input", "@using", "@constant", "@variable", "@output",
    "@assert", "@lower", "@compose", "@update", "@quantize",
)  # fmt: skip
"""The blocks that a definition can contain."""

EXAMPLES = {
    "@dtype": "T: type;",
    "@attrib": "axis: int = 1;",
    "@input": "x: real[batch, 3];",
    "@using": "n = x.rank - 1;",
    "@constant": "half: real = 0.5;",
    "@variable": "weight: real[3, 4];",
    "@output": "y: real[batch, 3];",
    "@assert": "n > 0: \"'n' must be positive\", n;",
    "@lower": "y[i,] = x[i,] + 1.0, i < n;",
    "@compose": "y = nn.relu(x);",
    "@update": "counter = math.add(counter, step);",
    "@quantize": "x: quant.zero_point_linear_quantize{zero_point=0, scale=0.5, bits=8};",
}
"""An example of the content of each block, valid in both dialects."""

_DEFINITIONS = ("operator", "graph", "public")

_WORDS = {
    "$END": "the end of the text",
    "IDENTIFIER": "a name",
    "INTEGER": "a number",
    "REAL": "a number",
    "STRING": "a string",
    "TOUCHING_BOUND": "a number",
    "TYPE": "a type",
    "_TYPE_ARGUMENTS_OPEN": "'<'",
}
"""The names of terminals that are not words or signs."""

_OPERANDS = {
    "a name", "a number", "a string", "a type", "'true'", "'false'", "'inf'", "'pi'", "'('", "'['",
    "'|'", "'+'", "'-'", "'!'",
}  # fmt: skip
_OPERATORS = {
    "'+'", "'-'", "'*'", "'/'", "'\\'", "'%'", "'**'", "'<'", "'<='", "'>'",
    "'>='", "'=='", "'!='", "'&&'", "'||'", "'^'", "'=>'", "'is'", "'in'", "'?'", "'??'",
}  # fmt: skip
_SOMETIMES_OPERANDS = {"'?'", "'`'"}
_AFTER_OPERANDS = {
    "':='", "'['", "'.'", "'{'", "'('", "'<-'", "'<<'", "'>>'", "'<?'", "'>?'",
}  # fmt: skip

_LISTED = 6
"""Upper limit of the number of alternatives that are listed to the user."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The position at which the parser stopped in a part of the source, and the input expected
    there.
    """

    chunk: Span
    span: Span
    expected: frozenset[str]
    spelling: Spelling
    kind: str

    @property
    def text(self) -> str:
        return self.span.text

    @property
    def at_end(self) -> bool:
        return self.span.start == self.span.end

    def following(self, length: int) -> str:
        """Return some characters from the location of the failure."""
        return self.span.source.text[self.span.start : self.span.start + length]

    @property
    def read(self) -> Span:
        """The text before the failure."""
        return Span(self.chunk.source, self.chunk.start, self.span.start)

    @property
    def before(self) -> str:
        return self.read.text


def explain(
    exception: lark.UnexpectedInput, tables: lark.Lark, spelling: Spelling, chunk: Span, kind: str
) -> Diagnostic:
    """Return the diagnostic of a failure to parse the part of a source that ``chunk`` covers.

    ``kind`` is the expected start symbol of the grammar.
    """
    location = failure_span(exception, chunk)
    before = Span(chunk.source, chunk.start, location.start)
    failure = _Failure(chunk, location, _expected(tables, before, kind), spelling, kind)
    if failure.text[:1] in ('"', "'") and len(failure.text) == 1:
        return Diagnostic(
            "the string that begins here is never closed",
            failure.span,
            f"close it with {failure.text}; a backslash before a quote makes it a character",
        )
    expected = _in_words(failure.expected)
    message = _found(failure) + (f"; expected {expected}" if expected else "")
    return Diagnostic(message, failure.span, _hint(failure), _unclosed(failure))


def _expected(tables: lark.Lark, before: Span, kind: str) -> frozenset[str]:
    """Return the words or signs that may follow a part of the source."""
    accepted = accepted_terminals(tables, before, kind)
    return frozenset(_WORDS.get(name) or spelled(name, tables) for name in accepted)


def _in_words(expected: frozenset[str]) -> str:
    left = set(expected)
    words: list[str] = []
    if left >= _OPERANDS:
        left -= _OPERANDS | _SOMETIMES_OPERANDS
        words.append("an expression")
    elif left >= _OPERATORS:
        left -= _OPERATORS | _AFTER_OPERANDS
        words.append("an operator")
    if left >= {f"'{block}'" for block in BLOCKS}:
        left -= {f"'{block}'" for block in BLOCKS}
        words.append("a block such as '@input'")
    words = sorted(left) + words
    if not 0 < len(words) <= _LISTED:
        return ""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _found(failure: _Failure) -> str:
    text = failure.text
    if failure.at_end:
        whole = failure.chunk.end == len(failure.span.source.text)
        return f"the {'text' if whole else 'expression'} ends too early"
    if text.isidentifier():
        return f"unexpected word '{text}'"
    if not text.isprintable() and text[0] not in "'\"":
        return f"unexpected character {text!a}"
    shown = text if len(text) <= 40 else text[:37] + "..."
    return f"unexpected {shown}" if shown[0] in "'\"" else f"unexpected '{shown}'"


def _hint(failure: _Failure) -> str:
    """Return a hint for a common mistake."""
    text, expected, before = failure.text, failure.expected, failure.before
    if text == "." and re.search(r"\b[0-9]+\.$", before):
        return "a number needs a blank before '..', as in '1 ..(n)'"
    if failure.following(3) == "..." or (text == "." and before.endswith("..")):
        return "a pack has two dots; three dots are a cumulative fold, as in 'x + ...'"
    if text.startswith("@") and text not in BLOCKS:
        return did_you_mean(text, BLOCKS) or f"blocks are {', '.join(BLOCKS)}"
    if text == "import":
        return "imports must be at the beginning of a file"
    if text in BLOCKS + _DEFINITIONS:
        return "is a '}' missing before it?"
    if text.isidentifier() and not text.isascii():
        return "names consist of the letters a to z and A to Z, digits and '_'"
    if text == "if" and "'~'" in expected:
        return "a branch gives results, as in 'y = if c then a else b'"
    if _declares_in_formula(failure):
        return _NO_LOCAL_TENSORS
    if text.isidentifier() and "a name" in expected:
        return f"'{text}' is a reserved word; choose another name"
    other_dialect = (_foreign_to_tools if failure.spelling.is_tools else _foreign_to_draft)(failure)
    if other_dialect:
        return other_dialect
    if text == "<-":
        return (
            "write a substitution with an index and in parentheses, as in '(a[i] <- b)'; "
            "write a comparison with a blank, as in 'a < -b'"
        )
    if text == "=" and before.rstrip()[-1:].isidentifier():
        attribute = _attribute_among_inputs(failure)
        if attribute:
            return attribute
    if text == ":" and "'='" in expected:
        return "attributes are assigned with '=', as in 'op{axis=1}(x)'"
    if text == "<=" and "'<'" in expected and "'>'" not in expected:
        return "the bound of an index is exclusive, as in 'i < n'"
    if "';'" in expected and ("\n" in before[len(before.rstrip()) :] or failure.at_end):
        return "is a ';' missing at the end of the line before?"
    return _example(failure)


_NO_LOCAL_TENSORS = (
    "a formula has no tensors but inputs and outputs, with indices as in 'y[i]' or 'y[]'; write an "
    "operator for each other one: see docs/gallery/several-tensors.md"
)
_LOCAL_TENSOR = re.compile(
    r"\w+\s*:|(real|int|bool|float|double|let|var|auto|const)\s*\w*|\w+\s*(\+|\*|<<|>>)="
)
"""Spellings of a tensor of a formula in other languages, to the token that is not expected."""


def _declares_in_formula(failure: _Failure) -> bool:
    """Whether a statement of a formula declares a tensor, or accumulates one without indices."""
    statement = re.split(r"[;{}]", failure.before)[-1].strip()
    return _block(failure) == "@lower" and bool(
        _LOCAL_TENSOR.fullmatch(f"{statement} {failure.text}".strip())
    )


_OPENED = re.compile(r"(@\w+)\s*\Z")


def _example(failure: _Failure) -> str:
    """Return an example of a statement of the block around the failure, or of an expression."""
    if not failure.text.isascii() or not failure.text.isprintable():
        return "remove the character; only strings and comments hold characters beyond ASCII"
    if failure.kind != "module":
        return "an expression consists of numbers, names and operators, as in '2 * n + 1'"
    if (block := _block(failure)) is not None:
        return f"'{block}' holds statements such as '{EXAMPLES[block]}'"
    if any(span.text == "{" for span in open_brackets(failure.read)):
        return "a definition consists of blocks such as '@input { x: real[batch, 3]; }'"
    return "a text consists of imports and definitions such as 'graph Net { @input { … } … }'"


def _block(failure: _Failure) -> str | None:
    """Return the block around the failure, such as ``@lower``, if there is an example of it."""
    for brace in reversed([span for span in open_brackets(failure.read) if span.text == "{"]):
        before = brace.source.text[max(failure.chunk.start, brace.start - 80) : brace.start]
        block = _OPENED.search(before)
        if block is not None and block[1] in EXAMPLES:
            return block[1]
    return None


_LONGEST_CALL = 400
_CALL = re.compile(r"((?:\w+\s*\.\s*)*\w+)(?:\s*\{([^{}()]*)\})?\s*\(([^(){};]*)\Z")
_ARGUMENTS = re.compile(r"[^(){};]*(?=\))")
_ASSIGNED = re.compile(r"\s*\w+\s*=(?!=)")


def _attribute_among_inputs(failure: _Failure) -> str | None:
    """Return the invocation with its assignments moved from the parentheses into braces."""
    call = _CALL.search(failure.before[-_LONGEST_CALL:])
    rest = _ARGUMENTS.match(failure.following(_LONGEST_CALL))
    if call is None:
        return None
    if rest is None or any(sign in f"{call[0]}{rest[0]}" for sign in "[]\"'"):
        return f"attributes go in braces, as in '{call[1]}{{{call[3].split(',')[-1].strip()}=...}}'"
    arguments = [each.strip() for each in f"{call[3]}{rest[0]}".split(",")]
    braces = [call[2].strip()] if (call[2] or "").strip() else []
    braces += [each for each in arguments if _ASSIGNED.match(each)]
    inputs = [each for each in arguments if not _ASSIGNED.match(each)]
    return f"attributes go in braces: '{call[1]}{{{', '.join(braces)}}}({', '.join(inputs)})'"


def _foreign_to_draft(failure: _Failure) -> str | None:
    """Return the draft's syntax for text that looks like the tools dialect."""
    if failure.following(2) in ("<?", ">?"):
        return "minimum and maximum are written '<<' and '>>'"
    return None


def _foreign_to_tools(failure: _Failure) -> str | None:
    """Return the tools dialect's syntax for text that looks like the draft."""
    if failure.following(2) in ("<<", ">>"):
        return "minimum and maximum are written '<?' and '>?'"
    if failure.text == "`":
        return "a built-in function is called by its plain name, as in 'exp(x)'"
    if failure.text in ("<=", ">=") and "'<?='" in failure.expected:
        return "minimum and maximum are assigned with '<?=' and '>?='"
    if failure.text == "=" and failure.expected == {"'['"}:
        return "local values are written after 'with', as in 'with a = b: y[i,] = a'"
    return None


def _unclosed(failure: _Failure) -> tuple[Note, ...]:
    """Return the bracket that is open where a block or the text ends before it should."""
    if not failure.at_end and failure.text not in BLOCKS + _DEFINITIONS:
        return ()
    opened = open_brackets(failure.read)
    return tuple(Note(f"this '{span.text}' is not closed", span) for span in list(opened)[-1:])
