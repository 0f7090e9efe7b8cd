"""Reductions that may be empty: their initial value is stored in loops of its own.

A PrimFunc in, the same out. TVM stores the initial value in the first step of a reduction, which a
dynamic dimension of size 0 does not have.
"""

from __future__ import annotations

from tvm import IRModule, s_tir, tirx

from tvm_nnef.tvm_support.compat import PrimFunction


def with_first_values(function: PrimFunction) -> PrimFunction:
    """The function with first values that do not depend on the reduction to have a step."""
    if not _has_symbols(function):
        return function
    if not _has_root(function):
        return function
    sch = s_tir.Schedule(IRModule({"main": function}))
    for handle in sch.get_child_blocks(sch.get_sblock("root")):
        block = sch.get(handle)
        reduced = {i.var for i in block.iter_vars if i.iter_type == tirx.IterVar.CommReduce}
        loops = sch.get_loops(handle)
        if block.init is None or not reduced or not loops:
            continue
        numbers = [n for n, i in enumerate(block.iter_vars) if i.var in reduced]
        if all(isinstance(block.iter_vars[n].dom.extent, tirx.IntImm) for n in numbers):
            continue
        sch.decompose_reduction(handle, loops[len(block.iter_vars) - len(reduced)])
    scheduled: PrimFunction = sch.mod["main"]
    return scheduled.without_attr("global_symbol")


def _has_root(function: PrimFunction) -> bool:
    body = function.body
    return isinstance(body, s_tir.SBlockRealize) and body.block.name_hint == "root"


def _has_symbols(function: PrimFunction) -> bool:
    shapes = [getattr(parameter.ty, "shape", None) for parameter in function.params]
    return any(
        shape is None or not all(isinstance(extent, tirx.IntImm) for extent in shape)
        for shape in shapes
    )
