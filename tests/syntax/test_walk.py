"""The one walk over a syntax tree."""

from __future__ import annotations

import pytest

from tvm_nnef.syntax import nodes, parse_expression
from tvm_nnef.syntax.walk import nodes_of, parts, walk


def test_nodes_come_in_the_order_of_the_text_each_before_its_parts() -> None:
    tree = parse_expression("a[i + 1] * (x ?? [b, 2])")
    assert [node.span.text for node in walk(tree)] == [
        "a[i + 1] * (x ?? [b, 2])",
        *("a[i + 1]", "a", "i + 1", "i", "1"),
        *("x ?? [b, 2]", "x", "[b, 2]", "b", "2"),
    ]


def test_one_class_of_nodes_of_several_trees() -> None:
    trees = (parse_expression("a + b"), parse_expression("c"), None)
    assert [node.name for node in nodes_of(nodes.Identifier, trees)] == ["a", "b", "c"]


def test_a_caller_says_what_it_goes_into() -> None:
    tree = parse_expression("a[i] + b")
    found = walk(tree, lambda node: () if isinstance(node, nodes.Subscript) else parts(node))
    assert [node.span.text for node in found] == ["a[i] + b", "a[i]", "b"]


@pytest.mark.slow
def test_a_deep_tree_needs_no_deep_stack() -> None:
    tree: nodes.Expression = parse_expression("a")
    for _ in range(20000):
        tree = nodes.Unary("-", tree, span=tree.span)
    assert sum(1 for _ in walk(tree)) == 20001
    while isinstance(tree, nodes.Unary):  # Python would free it by recursion
        tree = tree.operand
