"""The outline of a document: its definitions, and what each declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tvm_nnef.diagnostics import Span
from tvm_nnef.syntax import nodes

SymbolKind = Literal["graph", "operator", "type", "attribute", "tensor", "constant"]

_KINDS: dict[str, SymbolKind] = {
    "dtype": "type",
    "attrib": "attribute",
    "input": "tensor",
    "output": "tensor",
    "variable": "tensor",
    "constant": "constant",
}


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declaration: ``span`` is all of it, ``name_span`` its name."""

    name: str
    kind: SymbolKind
    detail: str
    span: Span
    name_span: Span
    children: tuple[Symbol, ...] = ()


def symbols_of(module: nodes.Module) -> list[Symbol]:
    """The definitions of a module, each with its parameters."""
    return [
        Symbol(
            each.name.name, each.kind, each.kind, each.span, each.name.span, tuple(_declared(each))
        )
        for each in module.definitions
    ]


def _declared(definition: nodes.Definition) -> Iterator[Symbol]:
    for block in definition.blocks:
        for each in block.statements:
            if isinstance(each, nodes.Parameter):
                detail = " ".join(each.type.span.text.split())
            elif isinstance(each, nodes.DtypeDefinition):
                detail = each.base.name
            else:
                continue
            yield Symbol(each.name.name, _KINDS[block.kind], detail, each.span, each.name.span)
