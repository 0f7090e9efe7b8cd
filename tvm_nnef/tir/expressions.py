"""The nodes of expressions and statements of TIR: found, counted and replaced.

Input: an expression or statement. Output: the nodes found in it, or another expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from tvm import sym, tirx
from tvm.ir import Expr, TensorLoad

from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression

Tree: TypeAlias = "PrimExpression | tirx.Stmt"
"""An expression or statement."""

Node = TypeVar("Node")
AnyTree = TypeVar("AnyTree", PrimExpression, tirx.Stmt)

LONGEST_EXPRESSION = 1 << 12
"""The most nodes of an expression with all that it reads written out: a limit of compile time."""


def nodes(expression: Tree, *kinds: type[Node]) -> list[Node]:
    """The nodes of some classes in an expression or statement, inner ones before outer ones.

    A shared node is found once for each use.
    """
    found: list[Node] = []
    traversal.walk(expression, (kinds, found.append), order="post")
    return found


def loads(expression: Tree, buffer: tirx.Var | None = None) -> list[TensorLoad]:
    """The loads in an expression: all, or those of one buffer."""
    found = nodes(expression, TensorLoad)
    return found if buffer is None else [load for load in found if load.source.same_as(buffer)]


def variables(expression: Tree) -> list[tirx.Var]:
    """The variables in an expression or statement, each as often as it is used."""
    return nodes(expression, tirx.Var)


def size(expression: Tree) -> int:
    """The number of nodes of an expression or statement."""
    return len(nodes(expression, Expr))


def mentions(expression: Tree, wanted: Iterable[tirx.Var]) -> bool:
    """Whether an expression contains one of some variables."""
    known = set(wanted)
    return any(var in known for var in variables(expression))


def with_simple_indices(expression: PrimExpression, analyzer: sym.Analyzer) -> PrimExpression:
    """The expression with the indices of its loads simplified by an analyzer."""

    def simple(load: TensorLoad) -> TensorLoad:
        return load.source[tuple(analyzer.simplify(index) for index in load.indices)]

    return traversal.mapped(expression, (TensorLoad, simple), order="post")


def with_loads(
    expression: AnyTree, buffer: tirx.Var, value: Callable[[TensorLoad], PrimExpression]
) -> AnyTree:
    """The expression or statement with the loads of a buffer replaced."""

    def replaced(load: TensorLoad) -> PrimExpression:
        return value(load) if load.source.same_as(buffer) else load

    return traversal.mapped(expression, (TensorLoad, replaced))


def substituted(expression: AnyTree, values: Mapping[tirx.Var, PrimExpression]) -> AnyTree:
    """The expression or statement with variables replaced.

    Each ``Let`` in it gets its own variable.
    """
    own = traversal.mapped(expression, (tirx.Let, traversal.renewed))
    return traversal.mapped(own, (tirx.Var, lambda var: values.get(var, var)))
