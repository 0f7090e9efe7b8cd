"""Binding of the weights that came along with a module as parameters of ``main``."""

from __future__ import annotations

from tvm import relax

from tvm_nnef.tvm_support.compat import Module


def with_bound_weights(mod: Module) -> Module:
    """The module with its weights as constants; the same module if it has none as parameters."""
    main = mod["main"]
    if "params" not in (main.attrs or {}):
        return mod
    first = int(main.attrs["num_input"])
    behind = len(main.params) - int(main.attrs.get("num_state", 0))
    names = [str(parameter.name) for parameter in main.params[first:behind]]
    values = dict(zip(names, main.attrs["params"], strict=True))
    bare = mod.clone()
    bare.update_func(mod.get_global_var("main"), main.without_attr("params"))
    return relax.transform.BindParams("main", values)(bare)
