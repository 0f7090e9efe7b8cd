"""Weights that stay parameters: what is computed from them alone becomes its own function.

Input: a module whose ``main`` takes ``num_input`` inputs (an attribute) and then weights. Output:
the same with two more functions. ``main_transform_params`` takes the weights as a tuple and returns
what the kernels read (packed weights, folded factors), also as a tuple; ``main_prepared`` takes the
inputs and then these. ``main`` calls both. A caller that runs a model often prepares once.
"""

from __future__ import annotations

from tvm import relax

from tvm_nnef.tvm_support.compat import Module, parameter_count, with_own_symbols
from tvm_nnef.tvm_support.function_attributes import LIFTED, PREPARED


def with_prepared_parameters(mod: Module) -> Module:
    """The module with the work on weights apart; the same module if no weights are passed."""
    names = [variable.name_hint for variable in mod.get_global_vars()]
    if "main" not in names or parameter_count(mod["main"]) <= 0:
        return mod
    lifted = relax.transform.LiftTransformParams(shared_transform=False)(mod)
    public = lifted[LIFTED].with_attr("global_symbol", LIFTED)
    lifted.update_func(lifted.get_global_var(LIFTED), public)
    return _with_main(lifted, mod["main"])


def _with_main(lifted: Module, main: relax.Function) -> Module:
    """The module with a function like the old ``main`` that calls the two others."""
    count = parameter_count(main)
    parameters = [relax.Var(str(each.name), each.ty) for each in main.params]
    builder = relax.BlockBuilder(lifted)
    prepare = lifted.get_global_var(LIFTED)
    prepared = builder.add_func(lifted["main"].with_attr("global_symbol", PREPARED), PREPARED)
    with builder.function("whole", parameters, private=True):
        weights = relax.Tuple(parameters[len(parameters) - count :])
        made = builder.emit(relax.Call(prepare, [weights]))
        items = [
            builder.emit(relax.TupleGetItem(made, number))
            for number in range(len(lifted[LIFTED].ret_ty.fields))
        ]
        inputs = parameters[: len(parameters) - count]
        results = builder.emit(relax.Call(prepared, [*inputs, *items]))
        variable = builder.emit_func_output(results)
    whole = builder.get()
    complete = with_own_symbols(whole[variable]).with_attrs(dict(main.attrs or {}))
    whole.update_func(whole.get_global_var("main"), complete)
    return relax.transform.DeadCodeElimination()(whole)
