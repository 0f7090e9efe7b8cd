"""The operators that SkriptND lacks: from the module ``onnx.sknd``, what a model needs of it.

Names of operators enter, the text of a module leaves that has those and what they invoke, each
with the comment above it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from tvm_nnef.diagnostics import error
from tvm_nnef.syntax import nodes, parse_cached

MODULE = "onnx"


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    invoked: frozenset[str]


def module_text(operators: Iterable[str]) -> str:
    """A module with the operators named (without their module) and all that they invoke."""
    entries = _library()
    needed: set[str] = set()
    pending = list(operators)
    while pending:
        name = pending.pop()
        if name in entries and name not in needed:
            needed.add(name)
            pending += entries[name].invoked
    kept = [entry for name, entry in entries.items() if name in needed]
    used = {name.partition(".")[0] for entry in kept for name in entry.invoked if "." in name}
    imports = f"import {', '.join(sorted(used))};\n\n" if used else ""
    header = "# ONNX operators that the standard library lacks; written by the converter.\n\n"
    return header + imports + "\n\n".join(entry.text for entry in kept) + "\n"


def has(operator: str) -> bool:
    """Whether the module has an operator of this name."""
    return operator in _library()


@functools.cache
def _library() -> Mapping[str, _Entry]:
    file = resources.files("tvm_nnef.converters.onnx") / f"{MODULE}.sknd"
    text = file.read_text(encoding="utf-8")
    module = parse_cached(text, f"<stdlib>/{MODULE}.sknd")
    found: dict[str, _Entry] = {}
    for definition in module.definitions:
        body = text[definition.span.start : definition.span.end]
        if definition.name.name in found:
            message = f"operator '{definition.name.name}' is defined twice"
            raise error(message, definition.span, hint="rename one of them")
        comment = _comment_above(text, definition.span.start)
        found[definition.name.name] = _Entry(comment + body, frozenset(_invoked(definition)))
    return found


def _comment_above(text: str, start: int) -> str:
    lines: list[str] = []
    for line in reversed(text[:start].splitlines()):
        if not line.startswith("#"):
            break
        lines.insert(0, line + "\n")
    return "".join(lines)


def _invoked(node: object) -> Iterator[str]:
    if isinstance(node, nodes.Call):
        yield str(node.callee)
    if isinstance(node, nodes.Node):
        names: tuple[str, ...] = node.__match_args__
        for name in names:
            yield from _invoked(getattr(node, name))
    elif isinstance(node, tuple):
        for item in node:
            yield from _invoked(item)
