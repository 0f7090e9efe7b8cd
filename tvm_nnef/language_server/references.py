"""Where a name of a document is used in its model, and the edits that rename it.

Input: the modules of a model, and an offset in the text of the document. Output: spans in the texts
of the editor; :class:`NnefError` for a name that cannot be renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tvm_nnef.diagnostics import Span, error
from tvm_nnef.language_server.modules import Modules
from tvm_nnef.language_server.names import Declaration, NameTable, declaration_at, statements_of
from tvm_nnef.storage.names import METADATA_FILE
from tvm_nnef.syntax import nodes, parse
from tvm_nnef.syntax.vocabulary import vocabulary_of

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

_Key = tuple[str, int]
"""The path of a text, and an offset in it."""


def references_at(modules: Modules, offset: int, *, with_declaration: bool = True) -> list[Span]:
    """Where the name at an offset is declared, and where the modules of the model use it."""
    found = declaration_at(modules, offset)
    if found is None or found.owner is None:
        return []
    target = _key(found.span)
    used = [each.used for each in _names(modules) if _key(each.span) == target]
    others = [each for each in used if _key(each) != target]
    return [found.span, *others] if with_declaration else others


def renamable_at(modules: Modules, offset: int) -> Span:
    """The name at an offset; raises :class:`NnefError` if it cannot be renamed."""
    return _renamable(modules, offset)[0]


def renamed(modules: Modules, offset: int, name: str) -> list[Span]:
    """Where a new name replaces the name at an offset; raises :class:`NnefError` if it cannot.

    It cannot if a name would stand for something else then: the new texts are read again.
    """
    here, spans = _renamable(modules, offset)
    if not _NAME.fullmatch(name):
        hint = "letters, digits and underscores, of which a digit is not the first"
        raise error(f"'{name}' is not a name", hint=hint)
    if name in vocabulary_of(modules.dialect).words:
        raise error(f"'{name}' is a word of the language", hint="choose another name")
    edited = _edited(modules, spans, name)
    difference = len(name) - len(here.text)
    expected = {
        tuple(_shifted(span, spans, difference) for span in (each.used, each.span))
        for each in _names(modules)
    }
    actual = {(_key(each.used), _key(each.span)) for each in _names(edited)}
    if expected != actual:
        raise error(f"'{name}' is a name already", hint="choose a name that is not used here")
    return spans


def _renamable(modules: Modules, offset: int) -> tuple[Span, list[Span]]:
    """The name at an offset, and all places where it is written, if it can be renamed."""
    found = declaration_at(modules, offset)
    spans = references_at(modules, offset)
    here = next((each for each in spans if each.start <= offset <= each.end), None)
    # Names in statements with syntax errors are not found, so that these are refused.
    for source in modules.sources().values():
        parse(source.text, source.path, modules.dialect)
    if found is not None and found.owner is None:
        raise error("a module has the name of its file", hint="rename the file")
    if found is None or here is None:
        raise error("there is no name that is declared", hint="rename operators, tensors, indices")
    if found.span.source.path.startswith("<"):
        raise error(f"'{here.text}' is of the standard library", hint="rename your own names")
    if _has_variables(modules, found):
        hint = "rename it in a text editor, and the files of the variables with it"
        raise error("the files of variables are named by it", hint=hint)
    metadata = modules.files.read(METADATA_FILE) if modules.files.exists(METADATA_FILE) else b""
    if re.search(rf"(?<!\w){here.text}(?!\w)".encode(), metadata):
        hint = f"rename it in {METADATA_FILE} as well, in a text editor"
        raise error(f"{METADATA_FILE} names '{here.text}', too", hint=hint)
    return here, spans


def _has_variables(modules: Modules, found: Declaration) -> bool:
    """Whether a declaration is that of a variable, or has variables."""
    if isinstance(found.owner, nodes.Definition):
        return any(statements_of(found.owner, "variable"))
    definitions = (each for module in modules.own() for each in module.definitions)
    variables = (
        each
        for node in definitions
        for each in statements_of(node, "variable")
        if isinstance(each, nodes.Parameter)
    )
    return any(_key(each.name.span) == _key(found.span) for each in variables)


def _names(modules: Modules) -> Iterator[Declaration]:
    """All names in the modules of a model, in the texts of the editor."""
    for module in modules.own():
        for each in NameTable(modules, module).every():
            yield each.original(modules)


def _key(span: Span) -> _Key:
    return span.source.path, span.start


def _shifted(span: Span, edits: Sequence[Span], difference: int) -> _Key:
    """Where a span begins after edits that each change the length of a text by a difference."""
    path, start = _key(span)
    before = sum(each.source.path == path and each.start < start for each in edits)
    return path, start + difference * before


def _edited(modules: Modules, spans: Sequence[Span], name: str) -> Modules:
    """The modules with a name instead of what spans cover."""
    files = modules.files
    texts = dict(files.texts)
    for file, source in modules.sources().items():
        here = [each for each in spans if each.source.path == source.path]
        text = source.text
        for each in sorted(here, key=lambda span: -span.start):
            text = text[: each.start] + name + text[each.end :]
        if here:
            texts[file] = text.encode(errors="replace")
    return Modules(replace(files, texts=texts), modules.dialect)
