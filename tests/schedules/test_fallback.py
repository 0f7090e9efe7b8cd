"""The fallback strategy for CPUs: the loops that it emits, and that it takes every function."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, te, tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.executable.devices import virtual_machine
from tvm_nnef.schedules.cpu import fallback
from tvm_nnef.schedules.machine import cpu_model
from tvm_nnef.tvm_support.compat import (
    in_place_store,
    opaque_function,
    prim_functions,
    runtime_tensor,
    update_functions,
)

TARGET = tvm.target.Target("llvm")
RNG = np.random.default_rng(5)


def module(build, *shapes):
    """A module whose main applies ``build`` to inputs of the shapes."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{n}", relax.TensorType(s, "float32")) for n, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(build(*inputs))
        builder.emit_func_output(output)
    return builder.get()


def unscheduled(mod):
    """Fused kernels of TVM's own making."""
    return run_phases(relax.transform.LegalizeOps()(mod), TARGET, "fuse", "fuse")


def with_fallback(mod):
    """The kernels as the fallback schedules them, whether or not another strategy takes them."""
    made = {}
    for name, function in prim_functions(mod).items():
        plan = fallback.match(function, cpu_model(TARGET))
        assert plan.strategy == "cpu.fallback"
        made[name] = plan.emit(function)
    return update_functions(mod, made)


def run(mod, arrays):
    machine = virtual_machine(relax.build(mod, TARGET))
    return machine["main"](*map(runtime_tensor, arrays)).numpy()


def loops(function, kind):
    found = []
    tvm_ffi.structural_walk(function.body, (tirx.For, found.append), order="post")
    return [loop for loop in found if loop.kind == kind]


PARALLEL = tirx.ForKind.PARALLEL

OPERATIONS = {
    "matmul": (relax.op.matmul, lambda n, m: [(n, m), (m, n)]),
    "conv": (lambda x, w: relax.op.nn.relu(relax.op.nn.conv2d(x, w, padding=[1, 1, 1, 1])),
             lambda n, m: [(1, 3, n, m), (7, 3, 3, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_tensors(shape):
    mod = run_phases(module(lambda x: relax.op.add(x, x), shape), TARGET, "graph", "schedule")
    assert run(mod, [np.zeros(shape, "float32")]).shape == shape


@pytest.mark.parametrize(("shape", "expected"), [((512, 512), True), ((8, 8), False)])
def test_large_work_runs_in_parallel_and_small_work_does_not(shape, expected):
    mod = with_fallback(unscheduled(module(lambda x: relax.op.add(x, x), shape)))
    (function,) = prim_functions(mod).values()
    assert bool(loops(function, PARALLEL)) is expected


def test_dynamic_sizes_run_in_parallel():
    symbols = tirx.Var("n", "int64"), tirx.Var("m", "int64"), tirx.Var("k", "int64")
    x, w = (te.placeholder(shape, "float32", name) for name, shape in
            (("x", symbols[:2]), ("w", symbols[1:])))  # fmt: skip
    step = te.reduce_axis((0, symbols[1]), "step")
    product = te.compute(
        (symbols[0], symbols[2]),
        lambda i, j: te.sum(x[i, step.var] * w[step.var, j], axis=step),
    )
    kernel = te.create_prim_func([x, w, product]).without_attr("global_symbol")
    mod = with_fallback(tvm.IRModule({"product": kernel}))
    assert len(loops(mod["product"], PARALLEL)) == 1
    built = tvm.compile(
        tvm.IRModule({"product": mod["product"].with_attr("global_symbol", "product")}), TARGET
    )
    for n, m, k in ((3, 5, 4), (2, 0, 3), (1, 1, 1)):
        left, right = (RNG.standard_normal(s).astype("float32") for s in ((n, m), (m, k)))
        found = runtime_tensor(np.full((n, k), 7, "float32"))
        built["product"](runtime_tensor(left), runtime_tensor(right), found)
        np.testing.assert_allclose(found.numpy(), left @ right, rtol=1e-5, atol=1e-6)


def test_a_reduction_runs_inside_the_loops_of_its_result_and_around_contiguous_elements():
    build, shapes = OPERATIONS["matmul"]
    mod = with_fallback(unscheduled(module(build, *shapes(64, 128))))
    (function,) = prim_functions(mod).values()
    (parallel,) = loops(function, PARALLEL)
    inner = loops(tirx.PrimFunc([], parallel.body), tirx.ForKind.SERIAL)
    first, lanes, steps = (int(loop.extent) for loop in inner)
    assert (first, lanes, steps) == (64, 64, 128)


def test_padding_is_computed_once_and_not_inside_the_convolution():
    build, shapes = OPERATIONS["conv"]
    mod = with_fallback(unscheduled(module(build, *shapes(32, 32))))
    (function,) = prim_functions(mod).values()
    assert "pad_temp" in function.script()


SCATTER = """
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((T.int64(40000),), "float32"), at: T.Buffer((T.int64(40000),), "int64"),
         y: T.Buffer((T.int64(40000),), "float32")):
    with T.sblock("root"):
        for i in range(T.int64(40000)):
            with T.sblock("add"):
                v = T.axis.spatial(T.int64(40000), i)
                T.reads(x[v], at[v], y[T.int64(0):T.int64(40000)])
                T.writes(y[T.int64(0):T.int64(40000)])
                y[at[v]] = y[at[v]] + x[v]
"""


def test_steps_that_may_write_the_same_element_stay_in_order():
    function = tvm.script.from_source(SCATTER, extra_vars={"T": tvm.script.tirx})
    plan = fallback.match(function, cpu_model(TARGET))
    assert plan.strategy == "cpu.fallback"
    assert not loops(plan.emit(function), PARALLEL)


def test_ordered_loops_are_left_alone_and_named():
    source, result = (tirx.decl_buffer((4,), "float32", name) for name in ("x", "y"))
    index = tirx.Var("i", "int64")
    turned = tirx.BufferLoad(result, [tirx.const(3, "int64") - index])
    step = tirx.BufferStore(result, source[(index,)] + turned, [index])
    zero, four = tirx.const(0, "int64"), tirx.const(4, "int64")
    loop = tirx.For(index, zero, four, tirx.ForKind.SERIAL, step)
    function = opaque_function("turned", [source, result], [result], [], loop)
    mod = tvm.IRModule({"turned": function})
    scheduled = run_phases(mod, TARGET, "schedule", "schedule")
    assert schedules.report(scheduled) == [schedules.ScheduledKernel("turned", "ordered")]
    tvm.ir.assert_structural_equal(scheduled["turned"].body, function.body)


def test_kernels_of_private_functions_are_fused_and_scheduled():
    builder = relax.BlockBuilder()
    inner, x = (relax.Var(name, relax.TensorType((64,), "float32")) for name in ("p", "x"))
    with builder.function("inner", [inner], private=True):
        with builder.dataflow():
            made = builder.emit(relax.op.exp(relax.op.add(inner, inner)))
            output = builder.emit_output(made)
        function = builder.emit_func_output(output)
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(relax.Call(function, [x]))
        builder.emit_func_output(output)
    (kernel,) = schedules.report(run_phases(builder.get(), TARGET, "graph", "schedule"))
    assert kernel.name.startswith("fused_add")
    assert kernel.strategy == "cpu.elementwise"


@pytest.mark.parametrize("shape", [(3,), (3, 5), (4, 256, 256)])
def test_an_item_is_stored_in_place_and_nothing_else_is_touched(shape):
    mod = tvm.IRModule({"store": in_place_store(shape, "float32")})
    (function,) = prim_functions(run_phases(mod, TARGET, "schedule", "schedule")).values()
    assert bool(loops(function, PARALLEL)) is (shape == (4, 256, 256))
    assert function.attrs["strategy"] == "cpu.fallback"
    library = tvm.compile(
        tvm.IRModule({"store": function.with_attr("global_symbol", "store")}), TARGET
    )
    before, value = (RNG.standard_normal(s).astype("float32") for s in (shape, shape[1:]))
    stack = runtime_tensor(before)
    library["store"](runtime_tensor(value), runtime_tensor(np.array(2, "int64")), stack)
    before[2] = value
    np.testing.assert_array_equal(stack.numpy(), before)


def test_kernels_without_a_schedule_are_reported():
    data = te.placeholder((4,), "float32", "x")
    copy = te.create_prim_func([data, te.compute((4,), lambda i: data[i])])
    mod = tvm.IRModule({"copy": copy})
    assert schedules.report(mod) == [schedules.ScheduledKernel("copy", None)]
    (scheduled,) = prim_functions(run_phases(mod, TARGET, "schedule", "schedule")).values()
    assert "global_symbol" not in scheduled.attrs


def test_no_strategies_for_a_target_is_said():
    with pytest.raises(NotImplementedError, match="'c'"):
        run_phases(tvm.IRModule(), tvm.target.Target("c"), "schedule", "schedule")


@pytest.mark.parametrize("operator", [relax.op.argsort, relax.op.sort])
def test_functions_that_call_others_to_write_stay_as_they_are(operator):
    """TVM sorts on CPUs by a function of its library, which no loop stores for."""
    x = RNG.standard_normal((4, 50)).astype("float32")
    sorting = module(lambda data: operator(data, axis=1), (4, 50))
    (found,) = tvm_nnef.build(sorting, progress=False)(x)
    of_numpy = np.argsort if operator is relax.op.argsort else np.sort
    np.testing.assert_array_equal(found, of_numpy(x, 1))
