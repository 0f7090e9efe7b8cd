"""Constants without elements, in a form that a library holds.

TVM 0.27 cannot read back what it writes of a tensor without elements whose first dimension is not
0. A module in, the same out with such constants as views of ones of dimensions 0.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tvm_nnef.tvm_support import compat, traversal
from tvm_nnef.tvm_support.compat import Module


def with_readable_constants(mod: Module) -> Module:
    """Return the module without constants that cannot be read back."""
    changed: list[Any] = []

    def view(constant: Any) -> Any:
        array = compat.constant_array(constant)
        if array is None or array.size or array.shape[0] == 0:
            return constant
        changed.append(constant)
        # To TVM a 0 in the new shape is the operand's dimension at that position.
        return relax.op.reshape(compat.constant(array.reshape((0,) * array.ndim)), array.shape)

    functions = {
        str(name.name_hint): traversal.mapped(function, (tvm.ir.GenericConst, view))
        for name, function in mod.functions.items()
        if isinstance(function, relax.Function)
    }
    if not changed:
        return mod
    normalized: Module = relax.transform.Normalize()(compat.update_functions(mod, functions))
    return normalized
