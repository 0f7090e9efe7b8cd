"""Completions at an offset of a document.

Input: the modules of a model, and an offset. Output: proposals. The text before the offset decides
what kind of word is expected, for it rarely parses while it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tvm_nnef.language_server.modules import Modules, definition_around
from tvm_nnef.language_server.names import operator_description, statements_of
from tvm_nnef.language_server.positions import is_in_text, without_texts
from tvm_nnef.language_server.signatures import invocation_at, last_item
from tvm_nnef.stdlib.catalogue import parameter_text
from tvm_nnef.stdlib.library import operator_names
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.recovery import braces
from tvm_nnef.syntax.vocabulary import vocabulary_of

Kind = Literal["operator", "attribute", "type", "block", "module", "name", "keyword", "function"]

_WORD = re.compile(r"(?:@|(?:[A-Za-z_]\w*\.)*)\w*\Z")
_NAME = re.compile(r"(?<![\w.@])[A-Za-z_]\w*")
_IMPORT = re.compile(r"(?:^|;)\s*import\s[^;{}]*\Z")
_BLOCK = re.compile(r"@(\w+)")
_TYPED = ("input", "output", "attrib", "variable", "constant", "dtype")
_FORMULAS = ("lower", "using", "assert", "constant")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A word that can be typed. It replaces the text between ``start`` and the offset.

    ``detail`` is a line about it, ``description`` a text in Markdown.
    """

    label: str
    kind: Kind
    start: int
    detail: str = ""
    description: str = ""


def proposals_at(modules: Modules, offset: int) -> list[Proposal]:
    """Return the completions at an offset, each word once."""
    text = modules.source.text
    if is_in_text(text, offset):
        return []
    bare = without_texts(text)
    word = _WORD.search(bare, 0, offset)
    assert word is not None
    found = _proposals(modules, bare, offset, word.start(), word[0])
    return list({each.label: each for each in found}.values())


def _proposals(
    modules: Modules, text: str, offset: int, start: int, word: str
) -> Iterable[Proposal]:
    begin, _ = definition_around(text, start)
    before = text[begin:start]
    open_braces = braces(text, begin, start)
    owner, dot, _ = word.rpartition(".")
    if _IMPORT.search(before):
        return _modules(modules, start)
    if dot:
        return _operators(modules, owner, start + len(owner) + 1)
    if not open_braces:
        return _words(vocabulary_of(modules.dialect).declaring, "keyword", start)
    if word.startswith("@"):
        return _words(_block_words(modules), "block", start)
    if not open_braces[-1].is_block:
        return _in_attributes(modules, text, begin, start)
    if len(open_braces) == 1:
        return _words(_block_words(modules), "block", start)
    return _in_statement(modules, text, (begin, start), open_braces[-1].statement)


def _block_words(modules: Modules) -> list[str]:
    return [f"@{word}" for word in vocabulary_of(modules.dialect).blocks]


def _words(words: Iterable[str], kind: Kind, start: int) -> Iterator[Proposal]:
    return (Proposal(word, kind, start) for word in words)


def _modules(modules: Modules, start: int) -> Iterator[Proposal]:
    """Modules to import: those of the standard library, and the files of the model."""
    standard = {name.partition(".")[0] for name in operator_names(modules.dialect)}
    files = modules.files
    own = {
        name.removesuffix(".sknd").replace("/", ".")
        for name in files.names()
        if name.endswith(".sknd") and name not in (files.main, files.document)
    }
    return _words(sorted(standard | own), "module", start)


def _operators(modules: Modules, owner: str, start: int) -> Iterator[Proposal]:
    """The operators of a module, and the modules in a folder."""
    for operator in modules.operators(owner):
        description = operator_description(f"{owner}.{operator.name.name}", operator)
        yield Proposal(operator.name.name, "operator", start, owner, description)
    for imported in modules.document.imports:
        name = str(imported.path)
        if name.startswith(f"{owner}."):
            yield Proposal(name[len(owner) + 1 :].partition(".")[0], "module", start)


def _in_attributes(modules: Modules, text: str, begin: int, start: int) -> Iterator[Proposal]:
    """Between the braces of an invocation: attributes, or names for their values."""
    found = invocation_at(modules, text, start)
    if found is None or found.opening != "{" or "=" in last_item(found.inside):
        yield from _names(modules, text, begin, start)
        return
    given = set(re.findall(r"(\w+)\s*=(?!=)", found.inside))
    for each in statements_of(found.definition, "attrib"):
        if isinstance(each, nodes.Parameter) and each.name.name not in given:
            yield Proposal(each.name.name, "attribute", start, parameter_text(each))


def _in_statement(
    modules: Modules, text: str, definition: tuple[int, int], statement: int
) -> Iterator[Proposal]:
    begin, start = definition
    words = vocabulary_of(modules.dialect)
    block = _BLOCK.findall(text, begin, start)[-1:]
    kind = block[0] if block else ""
    if kind in _TYPED and re.search(r":[^=\[]*\Z", text[statement:start]):
        yield from _words(words.modifiers, "keyword", start)
        yield from _words(words.types, "type", start)
        yield from _generics(modules, text, begin, start)
        return
    yield from _names(modules, text, begin, start)
    if kind in ("compose", "update"):
        yield from _words(words.control, "keyword", start)
    if kind in _FORMULAS:
        yield from _words(words.functions, "function", start)
        yield from _words(words.types, "type", start)
    if kind in ("compose", "update", "quantize"):
        for imported in modules.document.imports:
            yield Proposal(str(imported.path), "module", start)
        for each in modules.document.definitions:
            description = operator_description(each.name.name, each)
            yield Proposal(each.name.name, "operator", start, each.kind, description)


def _generics(modules: Modules, text: str, begin: int, start: int) -> Iterator[Proposal]:
    """The generic types of the definition, which are declared before they are used."""
    for block in re.finditer(r"@dtype\s*\{([^}]*)", text[begin:start]):
        yield from _words(re.findall(r"(\w+)\s*:", block[1]), "type", start)


def _names(modules: Modules, text: str, begin: int, start: int) -> Iterator[Proposal]:
    """The names in the definition around, except for that which is being typed."""
    _, end = definition_around(text, start)
    words = vocabulary_of(modules.dialect).words
    header = text.find("{", begin)
    for match in _NAME.finditer(text, header, end):
        is_path = text.startswith(".", match.end())
        if match.start() != start and match[0] not in words and not is_path:
            yield Proposal(match[0], "name", start)
