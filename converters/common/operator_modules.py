"""Modules of operators that SkriptND lacks, written next to a converted model.

Input: qualified names of operators. Output: the text of each module, with these operators and the
ones that they invoke, each with the comment above it. ``EXTRA`` serves every format; a format may
have a module in addition, a file ``NAME.sknd`` in its package, which may invoke ``extra``.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import ModuleType
from typing import Any

from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Graph, Operation, operations
from tvm_nnef.syntax import nodes, parse_cached


@dataclass(frozen=True, slots=True)
class Library:
    """The file ``name.sknd`` in a package.

    ``title`` is a comment above the operators taken from it.
    """

    name: str
    package: str
    title: str

    def __contains__(self, operator: object) -> bool:
        """Whether the module has an operator of this name, without its module."""
        return operator in _entries(self)


EXTRA = Library("extra", "tvm_nnef.converters.common", "Operators that the standard library lacks")
NBITS = Library("nbits", "tvm_nnef.stdlib.extensions", "Tensors of codes of few bits")


@dataclass(frozen=True, slots=True)
class _Entry:
    """An operator of a module: ``text`` is the definition with its comment, ``words`` without
    comments.
    """

    text: str
    words: str
    invoked: frozenset[str]


def module_values(package: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in the modules of a package that hold functions for operators."""
    for each in pkgutil.iter_modules(package.__path__):
        yield from vars(importlib.import_module(f"{package.__name__}.{each.name}")).items()


def known_operator(operation: Operation, libraries: Sequence[Library]) -> str:
    """Return the name of an operator that is standard, or written by a converter; empty for others.

    The name alone does not suffice: the texts of its definition, and of the operators that it
    invokes, must be equal to the originals.
    """
    body = operation.body
    inner = operations(body) if isinstance(body, Graph) else ()
    parts = (each for each in (operation, *inner) if isinstance(each, Operation))
    if operation.standard or all(_is_unchanged(each, libraries) for each in parts):
        return operation.operator
    return ""


def _is_unchanged(operation: Operation, libraries: Sequence[Library]) -> bool:
    """Whether the definition of an operator is the standard one, or that of a library."""
    if operation.standard or operation.definition is None:
        return operation.standard
    module, _, name = operation.operator.rpartition(".")
    library = next((each for each in libraries if each.name == module), None)
    entry = None if library is None else _entries(library).get(name)
    return entry is not None and entry.words == _words(operation.definition.text)


def _words(text: str) -> str:
    """Return the text of a definition without comments and blanks."""
    return re.sub(r"#.*|\s+", "", text)


def module_texts(libraries: Sequence[Library], operators: Iterable[str]) -> dict[str, str]:
    """Return the texts of the modules that have the named operators, by module.

    Operators of the standard library and of the model itself are ignored.
    """
    by_name = {each.name: each for each in libraries}
    needed: dict[str, set[str]] = {}
    pending = list(operators)
    while pending:
        module, _, name = pending.pop().rpartition(".")
        entries = _entries(by_name[module]) if module in by_name else {}
        if name in entries and name not in needed.setdefault(module, set()):
            needed[module].add(name)
            pending += (
                each if "." in each else f"{module}.{each}" for each in entries[name].invoked
            )
    return {name: _text(by_name[name], needed[name]) for name in sorted(needed)}


def _text(library: Library, needed: set[str]) -> str:
    kept = [entry for name, entry in _entries(library).items() if name in needed]
    used = {name.partition(".")[0] for entry in kept for name in entry.invoked if "." in name}
    imports = f"import {', '.join(sorted(used))};\n\n" if used else ""
    header = f"# {library.title}; written by the converter.\n\n"
    return header + imports + "\n\n".join(entry.text for entry in kept) + "\n"


@functools.cache
def _entries(library: Library) -> Mapping[str, _Entry]:
    file = resources.files(library.package) / f"{library.name}.sknd"
    text = file.read_text(encoding="utf-8")
    module = parse_cached(text, f"<stdlib>/{library.name}.sknd")
    found: dict[str, _Entry] = {}
    for definition in module.definitions:
        body = text[definition.span.start : definition.span.end]
        if definition.name.name in found:
            message = f"operator '{definition.name.name}' is defined twice"
            raise error(message, definition.span, hint="rename one of them")
        comment = _comment_above(text, definition.span.start)
        found[definition.name.name] = _Entry(
            comment + body, _words(body), frozenset(invoked(definition))
        )
    return found


def _comment_above(text: str, start: int) -> str:
    lines: list[str] = []
    for line in reversed(text[:start].splitlines()):
        if not line.startswith("#"):
            break
        lines.insert(0, line + "\n")
    return "".join(lines)


def invoked(node: object) -> Iterator[str]:
    """Yield the names of the operators that a part of a syntax tree invokes."""
    if isinstance(node, nodes.Call):
        yield str(node.callee)
    if isinstance(node, nodes.Node):
        names: tuple[str, ...] = node.__match_args__
        for name in names:
            yield from invoked(getattr(node, name))
    elif isinstance(node, tuple):
        for item in node:
            yield from invoked(item)
