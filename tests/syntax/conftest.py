"""What the tests of this package share: trees in a form that can be written by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvm_nnef.syntax import nodes

WORDS = ("static", "dynamic")
"""Fields that only the tools dialect sets; a sketch names those that are set, at the end."""


def sketch(node: object) -> str:
    """A tree in one line, with brackets around everything that has parts."""
    match node:
        case None:
            return "-"
        case nodes.Integer(value) | nodes.Real(value):
            return repr(value)
        case nodes.Boolean(value):
            return str(value).lower()
        case nodes.Identifier(name) | nodes.NamedConstant(name) | nodes.TypeName(name):
            return name
        case nodes.Path():
            return str(node)
        case nodes.Omitted():
            return "~"
        case nodes.Text(parts):
            return f"({' '.join(['text', *map(sketch, parts)])})"
        case nodes.Binary(operator, left, right):
            return f"({operator} {sketch(left)} {sketch(right)})"
        case nodes.Unary(operator, operand):
            return f"({operator} {sketch(operand)})"
        case nodes.Fold(operator, operand, cumulative):
            return f"({operator}{'...' if cumulative else '..'} {sketch(operand)})"
        case str():
            return repr(node)
        case bool():
            return str(node)
        case tuple():
            return f"[{' '.join(map(sketch, node))}]"
        case nodes.Node():
            names = [name for name in node.__match_args__ if not left_out(node, name)]
            fields = [sketch(getattr(node, name)) for name in names if name not in WORDS]
            fields += [name for name in names if name in WORDS]
            return f"({' '.join([type(node).__name__.lower(), *fields])})"
    raise TypeError(type(node))


def left_out(node: nodes.Node, name: str) -> bool:
    """Whether a sketch says nothing of a field, since only the tools dialect could set it."""
    if name in WORDS:
        return not getattr(node, name)
    return isinstance(node, nodes.Pack) and name == "bound" and node.bound is None


@pytest.fixture(name="sketch")
def sketch_fixture() -> Callable[[object], str]:
    """The function that sketches a tree."""
    return sketch
