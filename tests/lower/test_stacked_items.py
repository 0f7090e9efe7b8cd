"""Items that a tensor was split into are stacked by looking at that tensor, others by copying."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_nnef.executable.devices import virtual_machine
from tvm_nnef.lower.run_time_packs import stacked
from tvm_nnef.tvm_support.compat import runtime_tensor

SHAPES = {"rows": ((3, 4), 0), "blocks": ((6, 4), 0), "columns": ((2, 3), 1), "single": ((1, 3), 1)}


def module(shape, axis, order):
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            parts = builder.emit(relax.op.split(data, 3, axis))
            items = [builder.emit(relax.TupleGetItem(parts, number)) for number in order]
            size = int(np.prod(shape)) // 3
            flat = [builder.emit(relax.op.reshape(item, (size,))) for item in items]
            output = builder.emit_output(stacked(builder, flat))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (0, 1, 1)])
@pytest.mark.parametrize("name", SHAPES)
def test_stacks_of_parts(name, order):
    shape, axis = SHAPES[name]
    mod = module(shape, axis, order)
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    names = {variable.name_hint for variable in mod.get_global_vars()}
    whole = len(set(order)) == 3 and name != "columns"
    assert ("stack_items" in names) is not whole
    machine = virtual_machine(relax.build(mod, tvm.target.Target("llvm")))
    found = machine["main"](runtime_tensor(x)).numpy()
    parts = np.split(x, 3, axis)
    np.testing.assert_array_equal(found, np.stack([parts[n].ravel() for n in order]))
