"""Values of an interpreted text, and access to its syntax tree."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import lark

from tvm_nnef.converters.tile import tracing
from tvm_nnef.converters.tile.dimensions import Dim
from tvm_nnef.converters.tile.indices import Constraint, IndexExpression
from tvm_nnef.converters.tile.locations import Mistake
from tvm_nnef.converters.tile.tracing import Access, Combination, Tensor
from tvm_nnef.diagnostics import Source, Span

Tree: TypeAlias = "lark.Tree[lark.Token]"

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sqrt": tracing.sqrt, "exp": tracing.exp, "log": tracing.log, "sin": tracing.sin,
    "cos": tracing.cos, "tan": tracing.tan, "tanh": tracing.tanh, "sigmoid": tracing.sigmoid,
    "abs": tracing.absolute, "floor": tracing.floor, "ceil": tracing.ceil, "pow": tracing.pow,
    "select": tracing.select, "TensorOutput": tracing.TensorOutput,
}  # fmt: skip
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "%": lambda left, right: _remainder(left, right),
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
VALUES = (bool, int, float, Dim, IndexExpression, Tensor, Access, Combination)


def divided(left: Any, right: Any) -> Any:
    """Return a quotient as in C++: of integers rounded towards zero, of sizes rounded down."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return left / right
    if isinstance(left, (Dim, IndexExpression)) or isinstance(right, (Dim, IndexExpression)):
        return left // right
    if right == 0:
        raise Mistake("division by zero", "correct the divisor")
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) // abs(right)
        return size if (left < 0) == (right < 0) else -size
    return left / right


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        raise Mistake("'%' takes numbers and sizes", "write it for tensors: I - floor(I / n) * n")
    return left - divided(left, right) * right


def kind_of(value: object) -> str:
    """Return the name of a value in messages."""
    match value:
        case None:
            return "nothing"
        case bool() | int() | float():
            return f"the number {value}"
        case list():
            return "a vector"
        case Tensor():
            return f"tensor '{value.name}'" if value.name else "a tensor"
        case Access() | Combination():
            return "an element of a tensor"
        case Dim():
            return "a size"
        case IndexExpression():
            return "an index"
        case Constraint():
            return "a constraint"
    return f"a {type(value).__name__}"


def type_of(tree: Tree) -> str:
    """Return the text of a type: ``Tensor``, ``size_t``, ``vector<TensorDim>``."""
    (child,) = tree.children
    return str(child) if isinstance(child, lark.Token) else f"vector<{type_of(trees(child)[0])}>"


def trees(tree: Tree) -> list[Tree]:
    """Return the inner nodes of a node."""
    return [each for each in tree.children if isinstance(each, lark.Tree)]


def is_token(value: object, kind: str) -> bool:
    """Whether an item of a node is a token of a kind."""
    return isinstance(value, lark.Token) and value.type == kind


def span_of(source: Source, tree: object) -> Span:
    """Return the position of a node or a token."""
    if isinstance(tree, lark.Token):
        return Span(source, tree.start_pos or 0, tree.end_pos or 0)
    assert isinstance(tree, lark.Tree)
    return Span(source, getattr(tree.meta, "start_pos", 0), getattr(tree.meta, "end_pos", 0))


def parameters_of(function: Tree) -> list[Tree]:
    """Return the parameters of a function."""
    return [each for each in trees(function) if each.data == "parameter"]


def defined_in(statement: Tree) -> tuple[set[str], set[str]]:
    """Return the variables that a statement assigns, and the outputs and dimensions that it
    defines.
    """
    assigned: set[str] = set()
    changed: set[str] = set()
    for node in statement.iter_subtrees():
        if node.data in ("initialized", "constructed", "listed"):
            assigned.add(str(node.children[0]))
        elif node.data in ("assignment", "evaluation"):
            name, trailers = _target(trees(node)[0])
            members = [str(each.children[0]) for each in trailers if each.data == "member"]
            if "bind_dims" in members:
                names = (each.find_data("name") for each in trailers)
                changed.update(str(found.children[0]) for each in names for found in each)
            elif name:
                (changed if trailers else assigned).add(name)
    return assigned, changed


def _target(tree: Tree) -> tuple[str, list[Tree]]:
    """Return the name of ``X[0] = …``, ``O(i) >= …`` or ``I.bind_dims(…)``, and the rest of it."""
    while tree.data != "postfix":
        tree = trees(tree)[0]
    base, *trailers = trees(tree)
    return str(base.children[0]) if base.data == "name" else "", trailers
