"""What a name in a document stands for: where it is declared, and how it is described.

Input: the modules of a model, and an offset in the text of the document. Output: the span of the
declaration, or a description in Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tvm_nnef.diagnostics import Span
from tvm_nnef.language_server.modules import Modules
from tvm_nnef.semantics.blocks import sort_blocks
from tvm_nnef.stdlib.catalogue import entry_of, listing, parameter_text
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import parts, walk

_WORDS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a name stands for.

    ``span`` is where the name is declared, ``used`` where it is used. ``owner`` is the node that
    declares it: an operator, a parameter, a statement; None if it is a module.
    """

    name: str
    span: Span
    used: Span
    owner: nodes.Node | None


def declaration_at(modules: Modules, offset: int) -> Declaration | None:
    """What the name at an offset of the document stands for."""
    found = _declaration_at(modules, offset)
    if found is None:
        return None
    original = modules.files.original
    return replace(found, span=original(found.span), used=original(found.used))


def _declaration_at(modules: Modules, offset: int) -> Declaration | None:
    module = modules.document
    around = nodes_around(module, offset)
    innermost, parent = around[-1], around[-2] if len(around) > 1 else None
    match innermost:
        case nodes.Module() | nodes.Definition() | nodes.Block():
            return _in_broken_statement(modules, module, around, offset)
        case nodes.Path(parts=names):
            is_import = isinstance(parent, nodes.Import)
            found = _operator_or_module(modules, module, innermost, offset, is_import=is_import)
            # Otherwise a cast to a generic type, if it is one name.
            return found if found or len(names) > 1 else _local(around, names[0], innermost.span)
        case nodes.Identifier(name) if isinstance(parent, nodes.Definition):
            return Declaration(name, innermost.span, innermost.span, parent)
        case nodes.Identifier() if (
            isinstance(parent, nodes.AttributeAssignment) and parent.name is innermost
        ):
            return _attribute(modules, module, around, innermost)
        case nodes.Identifier(name) | nodes.TypeName(name):
            return _local(around, name, innermost.span)
    return None


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


def _in_broken_statement(
    modules: Modules, module: nodes.Module, around: list[nodes.Node], offset: int
) -> Declaration | None:
    """What the words at an offset stand for if their statement is not in the tree."""
    source = modules.source
    found = next((m for m in _WORDS.finditer(source.text) if m.start() <= offset <= m.end()), None)
    if found is None:
        return None
    span = Span(source, found.start(), found.end())
    path = nodes.Path(tuple(found[0].split(".")), span=span)
    operator = _operator_or_module(modules, module, path, offset)
    return operator or _local(around, found[0], span)


def _operator_or_module(
    modules: Modules,
    module: nodes.Module,
    path: nodes.Path,
    offset: int,
    *,
    is_import: bool = False,
) -> Declaration | None:
    names = path.parts
    if not is_import:
        # The part of the name up to the cursor: 'nn' in 'n|n.conv' is the module.
        before = path.span.text[: offset - path.span.start].count(".")
        if before == len(path.parts) - 1:
            found = modules.resolve(module, path.parts)
            if found is None:
                return None
            return Declaration(str(path), found.name.span, path.span, found)
        names = path.parts[:-1]
    imported = modules.named(".".join(names))
    if not imported:
        return None
    source = imported[-1].span.source
    return Declaration(".".join(names), Span(source, 0, 0), path.span, None)


def _attribute(
    modules: Modules, module: nodes.Module, around: list[nodes.Node], used: nodes.Identifier
) -> Declaration | None:
    call = next((each for each in reversed(around) if isinstance(each, nodes.Call)), None)
    callee = None if call is None else modules.resolve(module, call.callee.parts)
    if callee is None:
        return None
    for attribute in statements_of(callee, "attrib"):
        if isinstance(attribute, nodes.Parameter) and attribute.name.name == used.name:
            return Declaration(used.name, attribute.name.span, used.span, attribute)
    return None


def statements_of(definition: nodes.Definition, kind: str) -> Iterator[nodes.Statement]:
    """The statements of the blocks of a kind."""
    return (each for block in definition.blocks if block.kind == kind for each in block.statements)


def _local(around: list[nodes.Node], name: str, used: Span) -> Declaration | None:
    """A name of a definition: that of the statement around, else of another; else a dimension."""
    definition = next((each for each in around if isinstance(each, nodes.Definition)), None)
    if definition is None:
        return None
    block = next((i for i, each in enumerate(around) if isinstance(each, nodes.Block)), None)
    statement = around[block + 1] if block is not None and len(around) > block + 1 else None
    inside = statement.value if isinstance(statement, nodes.Component) else statement
    own = [each for each in _declared(inside) if each[0].name == name] if inside else []
    before = [each for each in own if each[0].span.start <= used.start] or own
    if before:
        identifier, owner = before[-1]
        return Declaration(name, identifier.span, used, owner)
    for identifier, owner in _declared(definition):
        is_index = isinstance(owner, nodes.LoopBound | nodes.LocalValue)
        if identifier.name == name and not is_index:
            return Declaration(name, identifier.span, used, owner)
    for each in walk(definition.blocks):
        if isinstance(each, nodes.Identifier) and each.name == name:
            return Declaration(name, each.span, used, each)
    return None


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
