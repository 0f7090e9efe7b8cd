"""The memory that a call takes, as metadata: each allocation with its size and how long it lives.

Input: a module that allocates and frees its tensors. Output: for ``main`` a list of
``[bytes, first, last]``: the size as a tree of symbols, and the first and the last call of a kernel
while which the memory is used. Branches and loops are left out;
of the versions of ``main``, the one for equal sizes counts.
"""

from __future__ import annotations

from typing import Any

import tvm

from tvm_nnef.symbolic import trees
from tvm_nnef.tvm_support.compat import Module
from tvm_nnef.tvm_support.function_attributes import EQUAL_SIZES
from tvm_nnef.tvm_support.relax_functions import relax_functions

_PREFIX = "relax.memory."


def memory_plan(mod: Module) -> list[list[Any]]:
    """The allocations of ``main``, in order; nothing if the module has no such function."""
    found: dict[Any, list[Any]] = {}
    storage_of: dict[Any, Any] = {}
    calls = 0
    functions = relax_functions(mod)
    main = functions.get(EQUAL_SIZES, functions.get("main"))
    for block in () if main is None else main.body.blocks:
        for binding in block.bindings:
            call: Any = getattr(binding, "value", None)
            operator = getattr(call, "op", None)
            calls += isinstance(operator, tvm.ir.GlobalVar)
            match str(getattr(operator, "name", "")).removeprefix(_PREFIX):
                case "alloc_storage":
                    found[binding.var] = [call.args[0].values[0], calls, None]
                case "alloc_tensor":
                    storage_of[binding.var] = call.args[0]
                case "kill_storage" | "kill_tensor":
                    storage = storage_of.get(call.args[0], call.args[0])
                    if storage in found:
                        found[storage][2] = calls
    entries = ((_tree(size), first, last or calls) for size, first, last in found.values())
    return [[size, first, last] for size, first, last in entries if size is not None]


def _tree(size: Any) -> trees.Tree | None:
    try:
        return trees.tree(size)
    except NotImplementedError:
        return None
