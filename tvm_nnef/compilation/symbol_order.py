"""Symbols and sizes in an order that is the same in each process.

TVM keeps them in sets, whose order is that of addresses. Without this a model would give other
kernels in each process, and a search for schedules would not find what an earlier one did.
"""

from __future__ import annotations

import tvm
from tvm import relax, tirx
from tvm.ir import Call

from tvm_nnef.tvm_support.compat import Module, is_scalar, prim_functions, update_functions
from tvm_nnef.tvm_support.lowering import is_host_function
from tvm_nnef.tvm_support.relax_functions import with_mapped_calls


def with_sorted_sizes(mod: Module) -> Module:
    """The module whose functions that compute sizes store them in the order of their places."""
    changed: dict[str, tvm.ir.BaseFunc] = {}
    for name, function in prim_functions(mod).items():
        statements = getattr(function.body, "seq", ())
        if statements and is_host_function(function) and all(map(_stores_a_size, statements)):
            # None reads what another one stores: TVM computes that in another function.
            ordered = sorted(statements, key=lambda store: int(store.indices[0]))
            changed[name] = function.with_body(tirx.SeqStmt(ordered))
    return update_functions(mod, changed) if changed else mod


def _stores_a_size(statement: tirx.Stmt) -> bool:
    """Whether a statement stores to a fixed place of a vector."""
    if not isinstance(statement, tirx.BufferStore):
        return False
    return all(isinstance(each, tirx.IntImm) for each in statement.indices)


def with_sorted_symbols(mod: Module) -> Module:
    """The module with the symbols of each kernel, and those given to it, sorted by name."""
    orders: dict[tvm.ir.GlobalVar, list[int]] = {}
    changed: dict[str, tvm.ir.BaseFunc] = {}
    for name, function in prim_functions(mod).items():
        places = [n for n, each in enumerate(function.params) if is_scalar(each)]
        ordered = sorted(places, key=lambda place: str(function.params[place].name))
        if ordered == places:
            continue
        order = [*range(len(function.params))]
        for place, moved in zip(places, ordered, strict=True):
            order[place] = moved
        orders[mod.get_global_var(name)] = order
        params = [function.params[place] for place in order]
        changed[name] = tirx.PrimFunc(params, function.body, function.ret_type, function.attrs)

    def called(call: Call) -> Call:
        order = orders.get(call.args[0]) if call.args else None
        if order is None:
            return call
        kernel, given = call.args[:2]
        values = relax.Tuple([given.fields[place] for place in order[: len(given.fields)]])
        return relax.Call(call.op, [kernel, values], call.attrs, call.ty_args, call.span, call.ty)

    return with_mapped_calls(update_functions(mod, changed), called) if changed else mod
