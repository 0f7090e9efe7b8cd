"""Meanings of the names in a document: their declarations and descriptions.

Input: the modules of a model, and an offset in the text of the document. Output: the span of the
declaration, or a description in Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_nnef.diagnostics import Span
from tvm_nnef.language_server.modules import Modules
from tvm_nnef.semantics.blocks import sort_blocks
from tvm_nnef.stdlib.catalogue import entry_of, listing, parameter_text
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import nodes_of, parts, walk

_WORDS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """The meaning of a name.

    ``span`` is where the name is declared, ``used`` where it is used. ``owner`` is the node that
    declares it: an operator, a parameter, a statement; None if it is a module.
    """

    name: str
    span: Span
    used: Span
    owner: nodes.Node | None

    def original(self, modules: Modules) -> Declaration:
        """The same in the texts of the editor."""
        original = modules.files.original
        return replace(self, span=original(self.span), used=original(self.used))


def declaration_at(modules: Modules, offset: int) -> Declaration | None:
    """Return the meaning of the name at an offset of the document."""
    found = NameTable(modules, modules.document).at(offset)
    return None if found is None else found.original(modules)


class NameTable:
    """The meanings of names in a module, for declarations, references and renaming."""

    def __init__(self, modules: Modules, module: nodes.Module) -> None:
        """Names are resolved when they are asked for."""
        self._modules = modules
        self._module = module
        self._declared: dict[int, dict[str, list[tuple[nodes.Identifier, nodes.Node]]]] = {}
        self._first: dict[int, dict[str, nodes.Identifier]] = {}

    def at(self, offset: int) -> Declaration | None:
        """Return the meaning of the name at an offset, also if its statement is not in the tree."""
        around = nodes_around(self._module, offset)
        if isinstance(around[-1], nodes.Module | nodes.Definition | nodes.Block):
            return self._in_broken_statement(around, offset)
        return self._meaning(around, offset)

    def every(self) -> Iterator[Declaration]:
        """All names of the module, but those of modules; ``used`` is the name without an owner."""
        pending: list[tuple[nodes.Node, ...]] = [(self._module,)]
        while pending:
            around = pending.pop()
            node = around[-1]
            pending += [(*around, each) for each in _children(node)][::-1]
            if not isinstance(node, nodes.Identifier | nodes.TypeName | nodes.Path):
                continue
            found = self._meaning(around, node.span.end)
            if found is not None and found.owner is not None:
                name = found.name.rpartition(".")[2]
                start = found.used.end - len(name)
                yield replace(found, used=Span(found.used.source, start, found.used.end))

    def _meaning(self, around: Sequence[nodes.Node], offset: int) -> Declaration | None:
        """Return the meaning of the innermost of nested nodes; ``offset`` is in it."""
        innermost, parent = around[-1], around[-2] if len(around) > 1 else None
        match innermost, parent:
            case nodes.Path(parts=names), _:
                is_import = isinstance(parent, nodes.Import)
                found = self._operator_or_module(innermost, offset, is_import=is_import)
                # Otherwise a cast to a generic type, if it is one name.
                one = len(names) == 1
                return found or (self._local(around, names[0], innermost.span) if one else None)
            case nodes.Identifier(name), nodes.Definition():
                first = self._modules.resolve(self._module, (name,)) or parent
                return Declaration(name, first.name.span, innermost.span, first)
            case nodes.Identifier(), nodes.AttributeAssignment(name=own) if own is innermost:
                return self._attribute(around, innermost)
            case nodes.Identifier(), (
                nodes.Call(label=own) | nodes.Scope(label=own) | nodes.Builtin(function=own)
            ) if own is innermost:
                return None  # Labels and functions are names of other kinds.
            case ((nodes.Identifier(name) | nodes.TypeName(name)), _):
                return self._local(around, name, innermost.span)
        return None

    def _in_broken_statement(self, around: Sequence[nodes.Node], offset: int) -> Declaration | None:
        """Return the meaning of the words at an offset if their statement is not in the tree."""
        source = self._modules.source
        words = _WORDS.finditer(source.text)
        found = next((m for m in words if m.start() <= offset <= m.end()), None)
        if found is None:
            return None
        span = Span(source, found.start(), found.end())
        path = nodes.Path(tuple(found[0].split(".")), span=span)
        return self._operator_or_module(path, offset) or self._local(around, found[0], span)

    def _operator_or_module(
        self, path: nodes.Path, offset: int, *, is_import: bool = False
    ) -> Declaration | None:
        names = path.parts
        if not is_import:
            # The part of the name up to the cursor: 'nn' in 'n|n.conv' is the module.
            before = path.span.text[: offset - path.span.start].count(".")
            if before == len(path.parts) - 1:
                found = self._modules.resolve(self._module, path.parts)
                if found is None:
                    return None
                return Declaration(str(path), found.name.span, path.span, found)
            names = path.parts[:-1]
        imported = self._modules.named(".".join(names))
        if not imported:
            return None
        source = imported[-1].span.source
        return Declaration(".".join(names), Span(source, 0, 0), path.span, None)

    def _attribute(
        self, around: Sequence[nodes.Node], used: nodes.Identifier
    ) -> Declaration | None:
        call = next((each for each in reversed(around) if isinstance(each, nodes.Call)), None)
        callee = None if call is None else self._modules.resolve(self._module, call.callee.parts)
        if callee is None:
            return None
        for attribute in statements_of(callee, "attrib"):
            if isinstance(attribute, nodes.Parameter) and attribute.name.name == used.name:
                return Declaration(used.name, attribute.name.span, used.span, attribute)
        return None

    def _local(self, around: Sequence[nodes.Node], name: str, used: Span) -> Declaration | None:
        """A name of a definition: of the statement around, else of another; else a dimension."""
        definition = next((each for each in around if isinstance(each, nodes.Definition)), None)
        if definition is None:
            return None
        block = next((i for i, each in enumerate(around) if isinstance(each, nodes.Block)), None)
        statement = around[block + 1] if block is not None and len(around) > block + 1 else None
        inside = statement.value if isinstance(statement, nodes.Component) else statement
        own = self._declared_in(inside).get(name, []) if inside else []
        before = [each for each in own if each[0].span.start <= used.start] or own
        if before:
            identifier, owner = before[-1]
            return Declaration(name, identifier.span, used, owner)
        for identifier, owner in self._declared_in(definition).get(name, ()):
            if not isinstance(owner, nodes.LoopBound | nodes.LocalValue):
                return Declaration(name, identifier.span, used, owner)
        first = self._first_in(definition).get(name)
        return None if first is None else Declaration(name, first.span, used, first)

    def _declared_in(
        self, tree: nodes.Node
    ) -> Mapping[str, Sequence[tuple[nodes.Identifier, nodes.Node]]]:
        """The declarations in a part of a definition by name, in the order of the text."""
        if id(tree) not in self._declared:
            found = self._declared.setdefault(id(tree), {})
            for identifier, owner in _declared(tree):
                found.setdefault(identifier.name, []).append((identifier, owner))
        return self._declared[id(tree)]

    def _first_in(self, definition: nodes.Definition) -> Mapping[str, nodes.Identifier]:
        """Where each name is first written in a definition."""
        if id(definition) not in self._first:
            found = self._first.setdefault(id(definition), {})
            for each in nodes_of(nodes.Identifier, definition.blocks):
                found.setdefault(each.name, each)
        return self._first[id(definition)]


def nodes_around(tree: nodes.Node, offset: int) -> list[nodes.Node]:
    """The nodes that an offset is in or at the end of, from the outermost to the innermost."""
    found = [tree]
    while True:
        inner = [
            each
            for each in _children(found[-1])
            if each.span.start <= offset <= each.span.end > each.span.start
        ]
        if not inner:
            return found
        # Between two names, the one that the offset is before.
        found.append(min(inner, key=lambda each: (each.span.end == offset, -each.span.start)))


def _children(node: nodes.Node) -> Iterator[nodes.Node]:
    """The nodes that a node directly consists of."""
    return walk(tuple(parts(node)), lambda _: ())


def statements_of(definition: nodes.Definition, kind: str) -> Iterator[nodes.Statement]:
    """The statements of the blocks of a kind."""
    return (each for block in definition.blocks if block.kind == kind for each in block.statements)


def _declared(tree: nodes.Node) -> Iterator[tuple[nodes.Identifier, nodes.Node]]:
    """The names that a part of a definition declares, each with the node that does."""
    for node in walk(tree):
        match node:
            case (
                nodes.Parameter(name=name)
                | nodes.NameTarget(name=name)
                | nodes.Carried(name=name)
                | nodes.Scan(name=name)
                | nodes.LocalValue(name=name)
                | nodes.LoopBound(index=name)
                | nodes.IterationCount(index=nodes.Identifier() as name)
            ):
                yield name, node
            case nodes.DtypeDefinition(name=name):
                yield nodes.Identifier(name.name, span=name.span), node


def description(found: Declaration, shapes: Mapping[int, str]) -> str | None:
    """A declaration in Markdown; ``shapes`` are types to add, by the offset after a name."""
    match found.owner:
        case nodes.Definition() as definition:
            return operator_description(found.name, definition)
        case nodes.Parameter() as parameter:
            return _code(parameter_text(parameter))
        case nodes.NameTarget() as target:
            return _code(target.span.text + shapes.get(target.name.span.end, ""))
        case None:
            return f"module `{found.name}`"
        case nodes.Identifier():
            return None
        case other:
            return _code(other.span.text)


def operator_description(name: str, definition: nodes.Definition) -> str:
    """The signature of an operator or a graph and the comment above it, in Markdown."""
    module = name.rpartition(".")[0]
    entry = entry_of(sort_blocks(module, definition))
    text = _code(("" if not module else f"{module}.") + listing(entry))
    return f"{text}\n\n{entry.comment}" if entry.comment else text


def _code(text: str) -> str:
    return f"```sknd\n{text}\n```"
