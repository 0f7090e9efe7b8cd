"""Walks over the nodes of expressions and statements, as those of ``tvm_ffi`` but faster.

Input: a node, and callbacks by class. Output: the rewritten node, if any. ``tvm_ffi`` examines the
classes of each call again, which takes ten times as long as the walk of an expression of a few
nodes, such as an index.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import tvm
from tvm import tirx

Entry: TypeAlias = "tuple[Any, Callable[[Any], Any]]"
"""A class of nodes, or a tuple of classes, and the callback for its nodes."""

Root = TypeVar("Root")

_WALK = tvm.get_global_func("ffi.StructuralWalk")
_MAP = tvm.get_global_func("ffi.StructuralMap")
_ORDERS = {"pre": 0, "post": 1}


def walk(root: Any, entries: Entry | Sequence[Entry], *, order: str = "post") -> None:
    """Call the first fitting callback for each node, for each of its uses."""
    _WALK(root, _indexed(entries), [], _ORDERS[order])


def mapped(root: Root, entries: Entry | Sequence[Entry], *, order: str = "post") -> Root:
    """Return the root with each node replaced by what the first fitting callback returns."""
    result: Root = _MAP(root, _indexed(entries), [], _ORDERS[order])
    return result


def renewed(let: tirx.Let) -> tirx.Let:
    """Return the same binding with a new variable: TVM reports two bindings of a variable as an
    error.
    """
    fresh = tirx.Var(let.var.name, str(let.var.ty))
    replaced = {let.var: fresh}
    body = mapped(let.body, (tirx.Var, lambda var: replaced.get(var, var)))
    return tirx.Let(fresh, let.value, body)


def _indexed(entries: Entry | Sequence[Entry]) -> list[tuple[int, Callable[[Any], Any]]]:
    pairs: Any = [entries] if isinstance(entries, tuple) and callable(entries[1]) else entries
    return [(index, callback) for kinds, callback in pairs for index in _type_indices(kinds)]


@functools.cache
def _type_indices(kinds: Any) -> list[int]:
    classes = kinds if isinstance(kinds, tuple) else (kinds,)
    return [int(kind.__tvm_ffi_type_info__.type_index) for kind in classes]
