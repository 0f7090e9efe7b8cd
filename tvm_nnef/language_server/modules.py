"""The parts of modules that parse, and the operators that names stand for in them.

Input: the files of a model. Output: syntax trees, also of texts that are being typed: a statement
with a syntax error is left out, all others keep their offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from tvm_nnef.diagnostics import NnefError, Source
from tvm_nnef.language_server.files import EditedFiles
from tvm_nnef.semantics.program import MAIN, OVERLAY_PREFIX
from tvm_nnef.stdlib.library import standard_module
from tvm_nnef.syntax import nodes, parse, parse_cached
from tvm_nnef.syntax.recovery import without_error

_DEFINITION = re.compile(r"^[ \t]*(?:public\s+)?(?:operator|graph)\b", re.MULTILINE)
_MAX_REPAIRS = 20
_NOT_LINE_END = re.compile(r"[^\r\n]")


@dataclass(frozen=True)
class Modules:
    """The modules of the model of a document."""

    files: EditedFiles
    dialect: str

    @property
    def source(self) -> Source:
        """The text of the document."""
        return self.files.read_source(self.files.document)

    @property
    def document(self) -> nodes.Module:
        """The module of the document."""
        return parse_partly(self.source.text, self.source.path, self.dialect)

    def sources(self) -> dict[str, Source]:
        """The texts of all modules that the model has, by the names of their files."""
        names = (name for name in self.files.names() if name.endswith(".sknd"))
        return {name: self.files.read_source(name) for name in names}

    def own(self) -> list[nodes.Module]:
        """The trees of all modules that the model has."""
        return [
            parse_partly(each.text, each.path, self.dialect) for each in self.sources().values()
        ]

    def named(self, name: str) -> tuple[nodes.Module, ...]:
        """The trees of an imported module; the first one that defines a name counts."""
        source = None
        with suppress(NnefError):
            source = self.files.source(name.replace(".", "/") + ".sknd")
        if source is not None and name != MAIN:
            return (parse_partly(source.text, source.path, self.dialect),)
        return tuple(map(_standard, standard_module(name, self.dialect)))

    def operators(self, name: str) -> Iterator[nodes.Definition]:
        """The operators of an imported module that other modules can use."""
        seen = set[str]()
        for module in self.named(name):
            for each in module.definitions:
                if not (each.name.name.startswith("_") or each.name.name in seen):
                    seen.add(each.name.name)
                    yield each

    def resolve(self, module: nodes.Module, parts: tuple[str, ...]) -> nodes.Definition | None:
        """The definition that a name stands for in a module."""
        *owner, name = parts
        if not owner:
            return next((each for each in module.definitions if each.name.name == name), None)
        found = self.operators(".".join(owner))
        return next((each for each in found if each.name.name == name), None)


def modules_of(files: EditedFiles) -> Modules:
    """The modules of a model."""
    return Modules(files, files.dialect)


@lru_cache(maxsize=32)
def _standard(source: Source) -> nodes.Module:
    is_overlay = source.path.startswith(OVERLAY_PREFIX)
    return parse_cached(source.text, source.path, "tools" if is_overlay else "draft")


@lru_cache(maxsize=32)
def parse_partly(text: str, path: str, dialect: str) -> nodes.Module:
    """The tree of a text without the statements, or the definitions, that have syntax errors."""
    kept = text
    for _ in range(_MAX_REPAIRS):
        try:
            return parse(kept, path, dialect)
        except NnefError as problem:
            span = problem.diagnostics[0].span
        if span is None:
            break
        start, end = definition_around(kept, span.start)
        rest = without_error(kept, start, span.start, end)
        if rest is None or rest == kept:
            rest = kept[:start] + _NOT_LINE_END.sub(" ", kept[start:end]) + kept[end:]
        if rest == kept:
            break
        kept = rest
    return parse("", path, dialect)


def definition_around(text: str, offset: int) -> tuple[int, int]:
    """Where the definition around an offset starts and ends, also if it does not parse.

    The text before the first definition is one part, too.
    """
    starts = [match.start() for match in _DEFINITION.finditer(text)]
    start = max((each for each in starts if each <= offset), default=0)
    return start, min((each for each in starts if each > offset), default=len(text))
