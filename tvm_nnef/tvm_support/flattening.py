"""Offsets of multi-dimensional accesses, without a simplification that is wrong in TVM 0.27.

``FlattenBuffer`` takes an offset for a sum of loop variables, split and scaled, and rewrites it.
Of quotients and remainders this gives other numbers: ``(5 - j) % 8`` becomes ``j % -8 * -1``,
``(j % 4 + 3) // 4`` becomes ``(j + 3) % 4 // 4``, and some divide by zero while TVM runs. Of what
are not loop variables, nor indices of threads, this is not done; the rules that follow later, which
are right, suffice.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimExpression,
    PrimFunction,
    dtype_of,
    prim_functions,
    update_functions,
    with_mapped_body,
)


def flattened(mod: Module) -> Module:
    """Return the module with accesses to buffers of one dimension, as ``FlattenBuffer`` gives
    it.
    """
    names: dict[Any, Any] = {}
    renamed = {name: _renamed(function, names) for name, function in prim_functions(mod).items()}
    changed = {n for n, function in prim_functions(mod).items() if not function.same_as(renamed[n])}
    mod = tirx.transform.FlattenBuffer()(update_functions(mod, renamed))
    variables = {new: old for old, new in names.items()}
    back = (tirx.Var, lambda variable: variables.get(variable, variable))
    functions = prim_functions(mod)
    return update_functions(mod, {n: with_mapped_body(functions[n], back) for n in changed})


def _renamed(function: PrimFunction, names: dict[Any, Any]) -> PrimFunction:
    """Return the function with new variables instead of loop variables in quotients and remainders.

    ``names`` is extended by the new variables, also by those for the indices of threads and
    blocks.
    """
    loops: list[Any] = []

    def thread(attribute: tirx.AttrStmt) -> None:
        if isinstance(attribute.node, tirx.IterVar):
            loops.append(attribute.node.var)

    traversal.walk(function.body, (tirx.For, lambda loop: loops.append(loop.loop_var)))
    traversal.walk(function.body, (tirx.AttrStmt, thread))
    names |= {each: tirx.Var(f"{each.name}_index", dtype_of(each)) for each in loops}
    rename = (tirx.Var, lambda variable: names.get(variable, variable))

    def renamed(quotient: PrimExpression) -> PrimExpression:
        return traversal.mapped(quotient, rename)

    return with_mapped_body(function, (tirx.FloorDiv, renamed), (tirx.FloorMod, renamed))
