"""Whether any or all of some conditions hold: reductions by ``or`` and ``and`` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te, tirx

from tvm_nnef import schedules
from tvm_nnef.tvm_support.compat import runtime_tensor

ROWS, TILE = "cpu.row_reduction", "cpu.register_tile"
ANY = (tirx.Or, False, np.any)
ALL = (tirx.And, True, np.all)


def joined(data, axes, operator, condition=lambda x: x):
    """The conditions of some dimensions of a tensor, joined."""
    join, null, _ = operator
    reducer = te.comm_reducer(lambda a, b: join(a, b), lambda _: tirx.const(null, "bool"), "join")
    rank = len(data.shape)
    kept = [n for n in range(rank) if n not in axes]

    def element(*indices):
        loops = {axis: te.reduce_axis((0, data.shape[axis]), "k") for axis in axes}
        where = {**dict(zip(kept, indices, strict=True)), **{a: k.var for a, k in loops.items()}}
        value = condition(data(*(where[n] for n in range(rank))))
        return reducer(value, axis=list(loops.values()))

    return te.compute([data.shape[n] for n in kept], element, name="joined")


def call(function):
    return lambda *inputs: relax.BlockBuilder.current().call_te(function, *inputs)


SHAPES = {
    "short": ((5, 7), [1], ROWS),
    "one": ((5, 1), [1], TILE),
    "prime": ((3, 1009), [1], ROWS),
    "vectors": ((3, 256), [1], ROWS),
    "all": ((13, 67), [0, 1], ROWS),
    "apart": ((3, 4, 67), [0, 2], ROWS),
    "columns": ((13, 131), [0], TILE),
    "planes": ((2, 9, 7, 11), [1], TILE),
}


@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize("operator", [ANY, ALL], ids=["any", "all"])
def test_conditions_of_all_sizes(kernels, operator, target):
    def build(axes):
        return call(lambda data: joined(data, axes, operator))

    cases = {name: (build(axes), [(shape, "bool")]) for name, (shape, axes, _) in SHAPES.items()}
    mod = kernels.scheduled(kernels.functions(cases), target)
    assert {
        n: {strategy} for n, (_, _, strategy) in SHAPES.items()
    } == kernels.strategies_by_function(mod)
    machine = kernels.machine(mod, target)
    for name, (shape, axes, _) in SHAPES.items():
        for position in (0, -1):
            single = np.zeros(shape, bool)
            single.flat[position] = True
            for x in (single, ~single):
                (found,) = machine[name](runtime_tensor(x))
                wanted = operator[2](x, axis=tuple(axes))
                np.testing.assert_array_equal(found.numpy(), wanted, err_msg=name)


def test_operations_around_a_condition_are_in_its_kernel(kernels):
    def around(data, bias):
        found = joined(data, [1], ANY, lambda x: x > tirx.const(1.5, "float32"))
        return te.compute((19,), lambda i: tirx.Select(found(i), bias(i), -bias(i)), name="chosen")

    mod = kernels.scheduled(kernels.formula(around, (19, 35), (19,)))
    assert [kernel.strategy for kernel in schedules.report(mod)] == [ROWS]
    x, bias = kernels.values((19, 35), (19,))
    wanted = np.where((x > 1.5).any(1), bias, -bias)
    np.testing.assert_array_equal(kernels.run(mod, [x, bias]), wanted)


def test_conditions_of_a_size_known_only_at_run_time(kernels):
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    cases = {
        "rows": (call(lambda data: joined(data, [1], ANY)), [((n, m), "bool")]),
        "columns": (call(lambda data: joined(data, [0], ALL)), [((n, m), "bool")]),
    }
    mod = kernels.scheduled(kernels.functions(cases))
    assert kernels.strategies(mod) == {ROWS, TILE}
    machine = kernels.machine(mod)
    for shape in ((1, 1), (2, 131), (67, 5), (9, 256)):
        x = np.random.default_rng(1).random(shape) < 0.1
        for name, wanted in (("rows", x.any(1)), ("columns", (~x).all(0))):
            (found,) = machine[name](runtime_tensor(x if name == "rows" else ~x))
            np.testing.assert_array_equal(found.numpy(), wanted, err_msg=f"{name} {shape}")
