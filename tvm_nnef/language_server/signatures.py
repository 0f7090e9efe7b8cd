"""The invocation that is typed at an offset: its operator, and which parameter comes next.

Input: the modules of a model, and an offset in the text of the document, which rarely parses there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_nnef.language_server.modules import Modules, definition_around
from tvm_nnef.language_server.positions import is_in_text, without_texts
from tvm_nnef.semantics.blocks import sort_blocks
from tvm_nnef.stdlib.catalogue import entry_of, parameter_text
from tvm_nnef.syntax import nodes

_CALLEE = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\s*(?:<[\w\s,]*>\s*)?\Z")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Invocation:
    """An invocation around an offset: the name and the definition of the operator.

    ``opening`` is the bracket that is open there: ``{`` of attributes, or ``(`` of operands;
    ``inside`` is the text from it to the offset.
    """

    callee: str
    definition: nodes.Definition
    opening: str
    inside: str


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of an operator in a line, its comment, and the parameters in the line.

    ``parameters`` are parts of ``label``; ``active`` is the index of that which comes next, or None
    if there is none.
    """

    label: str
    comment: str
    parameters: tuple[str, ...]
    active: int | None


def invocation_at(modules: Modules, bare: str, offset: int) -> Invocation | None:
    """The innermost invocation whose attributes or operands an offset is in.

    ``bare`` is the text of the document, :func:`without_texts`.
    """
    begin, _ = definition_around(bare, offset)
    body = bare.find("{", begin)
    opening = _open_bracket(bare, begin, offset)
    while opening is not None and opening != body:
        callee = _CALLEE.search(bare, begin, _end_of_callee(bare, begin, opening))
        definition = callee and modules.resolve(modules.document, tuple(callee[1].split(".")))
        if callee and definition:
            return Invocation(callee[1], definition, bare[opening], bare[opening + 1 : offset])
        if bare[opening] == "{":
            return None
        opening = _open_bracket(bare, begin, opening)
    return None


def _end_of_callee(text: str, begin: int, opening: int) -> int:
    """Where the name before a bracket ends: attributes may be between both."""
    before = text[begin:opening].rstrip()
    if text[opening] == "(" and before.endswith("}"):
        attributes = _open_bracket(text, begin, begin + len(before) - 1)
        return opening if attributes is None else attributes
    return opening


def signature_at(modules: Modules, offset: int) -> Signature | None:
    """The signature of the operator that is invoked at an offset."""
    text = modules.source.text
    if is_in_text(text, offset):
        return None
    found = invocation_at(modules, without_texts(text), offset)
    if found is None:
        return None
    checked = sort_blocks(found.callee.rpartition(".")[0], found.definition)
    attributes = [each.name.name for each in checked.attributes]
    if found.opening == "(":
        number = len(attributes) + len(list(_commas(found.inside)))
    else:
        number = _attribute(found.inside, attributes)
    every = (*checked.attributes, *checked.inputs)
    end = len(every) if found.opening == "(" else len(attributes)
    entry = entry_of(checked)
    return Signature(
        f"{found.callee}{entry.signature}",
        entry.comment,
        tuple(map(parameter_text, every)),
        number if number < end else None,
    )


def _attribute(inside: str, names: Sequence[str]) -> int:
    """The index of the attribute that is typed at the end of a text, else of one not given yet."""
    name, equals, _ = last_item(inside).partition("=")
    if not equals:
        given = set(re.findall(r"(\w+)\s*=(?!=)", inside))
        name = next((each for each in names if each not in given), "")
    return names.index(name.strip()) if name.strip() in names else len(names)


def last_item(text: str) -> str:
    """The text after the last comma outside of brackets."""
    return text[max(_commas(text), default=-1) + 1 :]


def _commas(text: str) -> Iterator[int]:
    """The offsets of the commas outside of brackets."""
    depth = 0
    for index, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            yield index


def _open_bracket(text: str, begin: int, offset: int) -> int | None:
    """The offset of the innermost ``(`` or ``{`` that is open before an offset in a statement."""
    closed: list[str] = []
    for index in range(offset - 1, begin - 1, -1):
        sign = text[index]
        if sign in _PAIRS:
            closed.append(_PAIRS[sign])
        elif closed and sign == closed[-1]:
            closed.pop()
        elif not closed and sign in "({":
            return index
        elif sign == ";" and not closed:
            return None
    return None
