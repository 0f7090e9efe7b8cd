"""Kernels that are equal up to the names of their variables, as one.

Input: a module with kernels and their calls. Output: the same with one kernel of each group of
equal ones, so that it is scheduled and compiled once. TVM adds an equal static kernel only once to
a module; one with dynamic dimensions gets new symbols, and is added again.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Call

from tvm_nnef.tvm_support.compat import Module, prim_functions
from tvm_nnef.tvm_support.relax_functions import with_mapped_calls


def with_merged_kernels(mod: Module) -> Module:
    """Return the module in which calls of equal kernels call the first one by name."""
    first: dict[tvm_ffi.StructuralKey, tvm.ir.GlobalVar] = {}
    kept: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {}
    for name, function in prim_functions(mod).items():
        variable = mod.get_global_var(name)
        found = first.setdefault(tvm_ffi.StructuralKey(function), variable)
        if not found.same_as(variable):
            kept[variable] = found

    def called(call: Call) -> Call:
        kernel = kept.get(call.args[0]) if call.args else None
        if kernel is None:
            return call
        arguments = [kernel, *call.args[1:]]
        return relax.Call(call.op, arguments, call.attrs, call.ty_args, call.span, call.ty)

    if not kept:
        return mod
    made = with_mapped_calls(mod, called)
    functions = {v: each for v, each in made.functions.items() if v not in kept}
    return tvm.IRModule(functions, attrs=made.attrs)
