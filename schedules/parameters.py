"""Weights that stay parameters: what is computed from them alone becomes a function of its own.

Enters: a module whose ``main`` takes ``num_input`` inputs (an attribute) and then weights. Leaves:
the same with two more functions. ``main_transform_params`` takes the weights as a tuple and gives
what the kernels read (packed weights, folded factors), also as a tuple; ``main_prepared`` takes the
inputs and then these. ``main`` calls one after the other. Who runs a model often prepares once.
"""

from __future__ import annotations

from typing import Any

from tvm import relax

from tvm_nnef.tvm_compat import Module

PREPARE = "main_transform_params"
"""The name that TVM gives to what it lifts."""

PREPARED = "main_prepared"


def parameter_count(function: Any) -> int:
    """How many parameters of a function are weights: those behind its inputs.

    None are where it has a state as well, which changes from call to call.
    """
    attributes = function.attrs or {}
    if "num_input" not in attributes or int(attributes.get("num_state", 0)):
        return 0
    return len(function.params) - int(attributes["num_input"])


def with_prepared_parameters(mod: Module) -> Module:
    """The module with the work on weights apart; the same module where no weights are passed."""
    names = [variable.name_hint for variable in mod.get_global_vars()]
    if "main" not in names or parameter_count(mod["main"]) <= 0:
        return mod
    lifted = relax.transform.LiftTransformParams(shared_transform=False)(mod)
    for source, name in ((PREPARE, PREPARE), ("main", PREPARED)):
        lifted[name] = lifted[source].with_attr("global_symbol", name)
    lifted.update_func(lifted.get_global_var("main"), _joined(lifted, mod["main"]))
    return lifted


def _joined(lifted: Module, main: Any) -> Any:
    """A function like the old ``main`` that calls the two others."""
    count = parameter_count(main)
    parameters = [relax.Var(str(each.name), each.ty) for each in main.params]
    prepare, prepared = (lifted.get_global_var(name) for name in (PREPARE, PREPARED))
    builder = relax.BlockBuilder(lifted)
    with builder.function("joined", parameters):
        weights = relax.Tuple(parameters[len(parameters) - count :])
        made = builder.emit(relax.Call(prepare, [weights]))
        items = [
            builder.emit(relax.TupleGetItem(made, number))
            for number in range(len(lifted[PREPARE].ret_ty.fields))
        ]
        inputs = parameters[: len(parameters) - count]
        builder.emit_func_output(builder.emit(relax.Call(prepared, [*inputs, *items])))
    return builder.get()["joined"].with_attrs(dict(main.attrs))
