"""The Relax functions of a module, and their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax
from tvm.ir import Call

from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import Module, update_functions


def relax_functions(mod: Module) -> dict[str, Any]:
    """The Relax functions of a module by name."""
    named = {str(variable.name_hint): each for variable, each in mod.functions.items()}
    return {name: each for name, each in named.items() if isinstance(each, relax.Function)}


def with_mapped_calls(mod: Module, change: Callable[[Any], Any]) -> Module:
    """The module with calls in its Relax functions changed."""
    return with_mapped(mod, (Call, change))


def with_mapped(mod: Module, change: tuple[Any, Callable[[Any], Any]]) -> Module:
    """The module with nodes of one kind in its Relax functions changed."""
    functions = relax_functions(mod)
    made = {name: traversal.mapped(each, change) for name, each in functions.items()}
    changed = {name: each for name, each in made.items() if not each.same_as(functions[name])}
    return relax.transform.Normalize()(update_functions(mod, changed)) if changed else mod
