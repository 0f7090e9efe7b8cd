"""Search, count and replacement of nodes in expressions and statements of TIR.

Input: an expression or statement. Output: nodes, or another expression.
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
"""Upper limit of the nodes of an expression with its operands inlined, to limit compile time."""


def nodes(expression: Tree, *kinds: type[Node]) -> list[Node]:
    """Return the nodes of some classes in an expression or statement, inner ones before outer ones.

    A shared node occurs once for each use.
    """
    matches: list[Node] = []
    traversal.walk(expression, (kinds, matches.append), order="post")
    return matches


def loads(expression: Tree, buffer: tirx.Var | None = None) -> list[TensorLoad]:
    """Return the loads in an expression: all, or those of one buffer."""
    all_loads = nodes(expression, TensorLoad)
    return (
        all_loads if buffer is None else [load for load in all_loads if load.source.same_as(buffer)]
    )


def variables(expression: Tree) -> list[tirx.Var]:
    """Return the variables in an expression or statement, each as often as it is used."""
    return nodes(expression, tirx.Var)


def size(expression: Tree) -> int:
    """Return the number of nodes of an expression or statement."""
    return len(nodes(expression, Expr))


def mentions(expression: Tree, wanted: Iterable[tirx.Var]) -> bool:
    """Whether an expression contains one of some variables."""
    known = set(wanted)
    return any(var in known for var in variables(expression))


def with_simple_indices(expression: PrimExpression, analyzer: sym.Analyzer) -> PrimExpression:
    """Return the expression with the indices of its loads simplified by an analyzer."""

    def simple(load: TensorLoad) -> TensorLoad:
        return load.source[tuple(analyzer.simplify(index) for index in load.indices)]

    return traversal.mapped(expression, (TensorLoad, simple), order="post")


def with_loads(
    expression: AnyTree, buffer: tirx.Var, value: Callable[[TensorLoad], PrimExpression]
) -> AnyTree:
    """Return the expression or statement with the loads of a buffer replaced."""

    def replaced(load: TensorLoad) -> PrimExpression:
        return value(load) if load.source.same_as(buffer) else load

    return traversal.mapped(expression, (TensorLoad, replaced))


def substituted(expression: AnyTree, values: Mapping[tirx.Var, PrimExpression]) -> AnyTree:
    """Return the expression or statement with variables replaced.

    Each ``Let`` in it gets a new variable.
    """
    own = traversal.mapped(expression, (tirx.Let, traversal.renewed))
    return traversal.mapped(own, (tirx.Var, lambda var: values.get(var, var)))
