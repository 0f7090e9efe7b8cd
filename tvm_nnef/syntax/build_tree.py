"""Conversion of lark's parse tree into the nodes of :mod:`tvm_nnef.syntax.nodes`.

Input: a parse tree and its source. Output: a node, with diagnostics for errors that the grammar
admits (a number too large, a loop with two conditions). Names are not resolved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import lark

from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span
from tvm_nnef.syntax import nodes, rules, tools_rules
from tvm_nnef.syntax.spelling import Spelling
from tvm_nnef.syntax.strings import PartParser, build_text

MAXIMUM_DEPTH = 100
"""Upper limit of the depth of a tree, so that recursive walks stay within Python's stack."""

_RULES: Mapping[str, Mapping[str, rules.Rule]] = MappingProxyType(
    {"draft": rules.DRAFT, "tools": tools_rules.TOOLS}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Built:
    """A node (or a tuple of nodes), the depth of its tree, and the diagnostics of errors inside."""

    value: Any
    depth: int
    problems: tuple[Diagnostic, ...] = ()


def build_tree(
    tree: lark.Tree[lark.Token], source: Source, spelling: Spelling, parse_part: PartParser
) -> Built:
    """Build the node of a parse tree, from the leaves upwards and without recursion.

    ``parse_part`` parses the expressions inside of strings. Problems are collected, not raised.
    """
    table = _RULES[spelling.dialect]
    built: dict[int, Built] = {}
    problems: list[Diagnostic] = []
    for subtree in tree.iter_subtrees():
        children: rules.Children = []
        depth = 0
        for child in subtree.children:
            if isinstance(child, lark.Tree):
                below = built[id(child)]
                children.append(below.value)
                depth = max(depth, below.depth)
            else:
                children.append(child)
        span = _span(subtree, source)
        value: object
        try:
            if subtree.data == "text":
                value, part_depth = build_text(children, span, spelling, parse_part)
                depth = max(depth, part_depth)
            else:
                value = table[subtree.data](children, span)
        except NnefError as found:
            problems.extend(found.diagnostics)
            value = nodes.Omitted(span=span)
        level = depth + _levels(subtree)
        if depth <= MAXIMUM_DEPTH < level:
            problems.append(_too_deep(span))
        built[id(subtree)] = Built(value, level)
    problems.sort(key=lambda problem: problem.span.start if problem.span else 0)
    return dataclasses.replace(built[id(tree)], problems=tuple(problems))


def _levels(tree: lark.Tree[lark.Token]) -> int:
    """Return the number of levels that a node adds to the depth of its children.

    Each 'elif' is composed as a branch inside the other, with fewer calls than an expression.
    """
    return max(1, len(tree.children) * 3 // 8) if tree.data == "branch" else 1


def _span(tree: lark.Tree[lark.Token], source: Source) -> Span:
    if tree.meta.empty:
        return Span(source, 0, 0)
    return Span(source, tree.meta.start_pos, tree.meta.end_pos)


def _too_deep(span: Span) -> Diagnostic:
    return Diagnostic(
        f"this is nested more than {MAXIMUM_DEPTH} levels deep",
        Span(span.source, span.start, min(span.end, span.start + 1)),
        "give parts of it their own names in '@using', or make an operator of them",
    )
