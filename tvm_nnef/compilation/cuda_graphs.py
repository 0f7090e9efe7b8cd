"""CUDA graphs: the launches of many kernels as one, which the GPU is given at once.

Input: a module whose memory is planned. Output: the same with regions that TVM's virtual machine
captures in the first run, and replays with the same addresses in later ones. Captured are calls of
kernels of static shapes that neither read an input nor write an output.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, s_tir

from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import Module, prim_functions, update_functions
from tvm_nnef.tvm_support.function_attributes import INPUTS, ON_HOST, PREPARED
from tvm_nnef.tvm_support.relax_functions import relax_functions, with_mapped_calls

"""The attribute of a function that says how many of its parameters may have another address in each
call. TVM takes the others for weights, which stay where they are."""

_LEFT_OUT = "vm.builtin.left_out."
"""Prefix of functions that are not captured: TVM captures no builtin function of its machine.
"""


def with_cuda_graphs(mod: Module) -> Module:
    """The module whose static regions are captured as CUDA graphs."""
    apart = {name for name, function in prim_functions(mod).items() if _runs_apart(function)}

    def left_out(call: Any) -> Any:
        name = str(getattr(call.op, "name_hint", ""))
        function = relax.ExternFunc(_LEFT_OUT + name)
        return relax.Call(function, call.args, ty_args=[call.ty]) if name in apart else call

    def called(call: Any) -> Any:
        name = str(getattr(call.op, "global_symbol", ""))
        if not name.startswith(_LEFT_OUT):
            return call
        return relax.Call(made.get_global_var(name.removeprefix(_LEFT_OUT)), call.args)

    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        prepared = with_mapped_calls(_with_moving_parameters(mod), left_out)
        made = relax.transform.RewriteCUDAGraph()(prepared)
    return _with_plain_main(with_mapped_calls(made, called), mod)


def _with_moving_parameters(mod: Module) -> Module:
    """The module in which the weights of ``main_prepared`` alone stay at their addresses.

    ``main`` takes them from any address, and the state of a model has another one in each call.
    """
    moving = {n: f for n, f in relax_functions(mod).items() if n != PREPARED}
    changed = {name: each.with_attr(INPUTS, len(each.params)) for name, each in moving.items()}
    return update_functions(mod, changed)


def _with_plain_main(mod: Module, before: Module) -> Module:
    """The module whose ``main`` calls ``main_prepared`` as it was before, with new weights."""
    functions = relax_functions(before)
    if PREPARED not in functions:
        return mod
    plain = relax.utils.copy_with_new_vars(functions[PREPARED]).without_attr("global_symbol")
    builder = relax.BlockBuilder(mod)
    variable = builder.add_func(plain, "main_without_graphs")
    name = str(variable.name_hint)

    def other(call: Any) -> Any:
        is_prepared = str(getattr(call.op, "name_hint", "")) == PREPARED
        return relax.Call(made.get_global_var(name), call.args) if is_prepared else call

    made = builder.get()
    return with_mapped_calls(made, other)


def _runs_apart(function: Any) -> bool:
    """Whether a kernel runs on the CPU, or takes memory of the device while it runs.

    That memory belongs to the thread that runs it, and is gone with it; a graph keeps its address.
    """
    if ON_HOST in (function.attrs or {}):
        return True
    scopes: list[str] = []

    def note(block: Any) -> None:
        scopes.extend(str(buffer.scope()) for buffer in block.alloc_buffers)

    traversal.walk(function.body, (s_tir.SBlock, note))
    return "global" in scopes
