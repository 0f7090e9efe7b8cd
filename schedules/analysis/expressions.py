"""What stands in expressions and statements of TIR: loads and variables, found and replaced.

Nothing is changed in place: an expression enters, and what was found in it, or another expression,
leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr

from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimExpression, Statement, dtype_of

_Node = TypeVar("_Node", PrimExpression, Statement)

LONGEST_EXPRESSION = 1 << 12
"""So many nodes an expression of a kernel may have when all that it reads is written out."""


def loads(expression: PrimExpression | Statement, buffer: Any = None) -> list[Any]:
    """The loads in an expression, of one buffer where it is given."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (BUFFER_LOAD, found.append), order="post")
    if buffer is None:
        return found
    return [load for load in found if load.source.same_as(buffer)]


def nodes(expression: PrimExpression, *kinds: type[PrimExpression]) -> list[Any]:
    """The nodes of some classes in an expression, inner ones first."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (kinds, found.append), order="post")
    return found


def variables(expression: Any) -> list[Any]:
    """The variables in an expression or statement, one for each place where it stands."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tirx.Var, found.append), order="post")
    return found


def size(expression: Any) -> int:
    """The number of nodes of an expression or statement, shared ones counted at each use."""
    count = 0

    def visit(_: Any) -> None:
        nonlocal count
        count += 1

    tvm_ffi.structural_walk(expression, (Expr, visit), order="post")
    return count


def mentions(expression: Any, wanted: Iterable[Any]) -> bool:
    """Whether one of some variables stands in an expression."""
    known = list(wanted)
    return any(var in known for var in variables(expression))


def with_simple_indices(expression: _Node, analyzer: Any) -> _Node:
    """The expression with the indices of its loads simplified by an analyzer."""

    def simple(load: Any) -> Any:
        return load.source[tuple(analyzer.simplify(index) for index in load.indices)]

    return tvm_ffi.structural_map(expression, (BUFFER_LOAD, simple), order="post")


def substituted(expression: _Node, values: Mapping[Any, Any]) -> _Node:
    """The expression or statement with variables replaced.

    What a ``Let`` in it binds is bound to variables of its own.
    """
    own = tvm_ffi.structural_map(expression, (tirx.Let, _renewed))
    return tvm_ffi.structural_map(own, (tirx.Var, lambda var: values.get(var, var)))


def _renewed(let: Any) -> Any:
    """The same binding with another variable: TVM takes two of one variable for a mistake."""
    fresh = tirx.Var(let.var.name, dtype_of(let.var))
    replaced = {let.var: fresh}
    body = tvm_ffi.structural_map(let.body, (tirx.Var, lambda var: replaced.get(var, var)))
    return tirx.Let(fresh, let.value, body)
