"""What has to stay in registers does: no calls of the runtime for buffers, no single loads."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, te, tirx

from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.measurement.fma_peak import fma_peak
from tvm_nnef.schedules.codegen import stack, strided_loads
from tvm_nnef.schedules.machine import GENERIC, cpu_model
from tvm_nnef.tir.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import opaque_function

pytestmark = pytest.mark.sampled(3)

KERNELS = {
    "softmax": (lambda x: relax.op.nn.softmax(x, -1), (64, 96)),
    "sum": (lambda x: relax.op.sum(x, -1), (64, 96)),
    "pool": (lambda x: relax.op.nn.max_pool2d(x, [3, 3], [2, 2], [1, 1, 1, 1]), (1, 32, 30, 34)),
    "transposition": (relax.op.permute_dims, (64, 80)),
    "product": (lambda x: relax.op.matmul(x, relax.const(np.ones((64, 48), "float32"))), (32, 64)),
}


def assembler(mod, target):
    library = run_phases(mod, target, "bytecode", "code")
    return library.mod.imports[0].inspect_source("asm")


@pytest.mark.parametrize("name", KERNELS)
def test_small_buffers_are_not_calls_of_the_runtime(kernels, name):
    build, shape = KERNELS[name]
    target = resolve("x86-64-v3")
    mod = kernels.scheduled(kernels.module(build, shape), target)
    assert "alloc_local" in mod.script()
    assert "AllocWorkspace" not in assembler(mod, target)


def nodes(body, kind):
    found = []
    tvm_ffi.structural_walk(body, (kind, found.append), order="post")
    return found


def allocation(size, scope):
    return tirx.AllocBuffer(tirx.decl_buffer((size,), "float32", "held", scope=scope))


@pytest.mark.parametrize(
    ("size", "scope", "marked"),
    [
        (16, "local", True),
        (GENERIC.stack_bytes // 4, "local", True),
        (GENERIC.stack_bytes // 4 + 1, "local", False),
        (16, "global", False),
    ],
)
def test_only_small_local_buffers_go_to_the_stack(size, scope, marked):
    body = tirx.SeqStmt([allocation(size, scope), tirx.Evaluate(0)])
    function = stack.on_stack(opaque_function("f", [], [], [], body))
    found = nodes(function.body, tirx.AllocBuffer)
    assert [bool(each.annotations) for each in found] == [marked]


@pytest.mark.parametrize("stride", [-1, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_strided_loads_read_the_same_elements_and_nothing_after(stride, lanes):
    source = tirx.decl_buffer((256,), "float32", "x")
    first = tirx.Var("first", "int64")
    load = source[(tirx.Ramp(first, tirx.const(stride, "int64"), lanes),)]
    function = opaque_function("f", [source], [], [], tirx.Evaluate(load))
    (statement,) = nodes(strided_loads.sorted_in_registers(function).body, tirx.Evaluate)
    made = statement.value
    expected = [stride * lane for lane in range(lanes)]
    if not isinstance(made, tirx.Shuffle):
        assert lanes < 4 or stride in (1, 5)
        return
    positions, base = [], tirx.const(100, "int64")
    for vector in made.vectors:
        moved = tvm_ffi.structural_map(vector.indices[0].base, (tirx.Var, lambda _: base))
        start = tvm.sym.Analyzer().simplify(moved)
        positions += [int(start) - 100 + lane for lane in range(lanes)]
    assert [positions[int(index)] for index in made.indices] == expected
    assert min(positions) >= min(expected) and max(positions) <= max(expected)


def test_loads_that_may_not_run_share_no_vectors():
    source, target = (tirx.decl_buffer((64,), "float32", name) for name in "xy")
    position, named = tirx.Var("place", "int64"), tirx.Var("named", "float32x4")

    def ramp(base, stride):
        return tirx.Ramp(base, tirx.const(stride, "int64"), 4)

    zero = tirx.Broadcast(tirx.const(0.0, "float32"), 4)
    guarded = tirx.if_then_else(position > 0, source[(ramp(position - 1, 2),)], zero)
    value = named + source[(ramp(position, 2),)]
    statements = [tirx.Bind(named, guarded), tirx.BufferStore(target, value, [ramp(position, 1)])]
    function = opaque_function("f", [source, target], [], [], tirx.SeqStmt(statements))
    (store,) = nodes(strided_loads.sorted_in_registers(function).body, tirx.BufferStore)
    first = {position: tirx.const(0, "int64")}
    for load in loads(store.value):
        base = substituted(load.indices[0].base, first)
        assert int(tvm.sym.Analyzer().simplify(base)) >= 0


@pytest.mark.parametrize("stride, offsets, vectors", [
    (2, (0, 1, 2), 4), (2, (3, 0), 4), (3, (0, 1, 2, 3), 6), (2, (0, 32, 33, 1), 4),
])  # fmt: skip
def test_strided_loads_of_neighbours_share_vectors(stride, offsets, vectors):
    source, target = (tirx.decl_buffer((256,), "float32", name) for name in "xy")
    lanes, first = 8, tirx.Var("first", "int64")
    names = [tirx.Var("place", "int64") for _ in offsets]
    statements = []
    for name, offset in zip(names, offsets, strict=True):
        load = source[(tirx.Ramp(name, tirx.const(stride, "int64"), lanes),)]
        position = tirx.Ramp(tirx.const(0, "int64"), tirx.const(1, "int64"), lanes)
        value = first + tirx.const(offset, "int64")
        statements += [tirx.Bind(name, value), tirx.BufferStore(target, load, [position])]
    function = opaque_function("f", [source, target], [], [], tirx.SeqStmt(statements))
    starts, read = set(), []
    for store in nodes(strided_loads.sorted_in_registers(function).body, tirx.BufferStore):
        values = {name: tirx.const(o, "int64") for name, o in zip(names, offsets, strict=True)}
        positions = []
        for vector in store.value.vectors:
            base = tvm_ffi.structural_map(
                vector.indices[0].base, (tirx.Var, lambda var, v=values: v.get(var, var))
            )
            start = int(tvm.sym.Analyzer().simplify(base))
            starts.add(start)
            positions += [start + lane for lane in range(lanes)]
        read.append([positions[int(index)] for index in store.value.indices])
    assert read == [[o + stride * lane for lane in range(lanes)] for o in offsets]
    assert len(starts) == vectors
    assert min(starts) == 0 and max(starts) + lanes - 1 <= max(offsets) + stride * (lanes - 1)


def softmax_formula(x):
    """Softmax as a formula says it, with the exponentials written twice."""
    rows, columns = (int(extent) for extent in x.shape)
    step, again = (te.reduce_axis((0, columns), name) for name in "kl")
    largest = te.compute((rows,), lambda i: te.max(x[i, step], axis=step), name="largest")
    total = te.compute(
        (rows,), lambda i: te.sum(te.exp(x[i, again] - largest[i]), axis=again), name="total"
    )
    return te.compute(
        (rows, columns), lambda i, j: te.exp(x[i, j] - largest[i]) / total[i], name="softmax"
    )


@pytest.mark.parametrize("shape", [(7, 19), (33, 128)])
def test_what_is_written_twice_is_computed_once(kernels, shape):
    builder = relax.BlockBuilder()
    variable = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [variable]):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(softmax_formula, variable))
        builder.emit_func_output(output)
    made = kernels.scheduled(builder.get())
    assert kernels.strategies(made) == {"cpu.row_reduction"}
    (kernel,) = (v for v in made.get_global_vars() if v.name_hint != "main")
    # One loop of whole vectors, and what is left over at the end of a row.
    expected = kernels.scheduled(kernels.module(lambda x: relax.op.nn.softmax(x, -1), shape))
    assert made[kernel].script().count("T.exp(") == expected.script().count("T.exp(")
    (x,) = kernels.values(shape)
    powers = np.exp(x - x.max(1, keepdims=True))
    found = kernels.run(made, [x])
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_the_peak_is_what_the_vectors_of_the_machine_can_do():
    target = resolve("native")
    per_cycle = cpu_model(target).lanes(32) * 2
    peak = 0.0
    for _ in range(20):  # Other programs on this machine only make it less.
        peak = max(peak, fma_peak(target))
        if peak > 0.05e9 * per_cycle:
            break
    assert 0.05e9 * per_cycle < peak < 2 * 8e9 * per_cycle


def test_a_padding_before_a_convolution_is_its_own(kernels):
    weights = np.random.default_rng(3).standard_normal((6, 4, 3, 3)).astype("float32")

    def build(x):
        padded = relax.op.nn.pad(x, [0, 0, 0, 0, 0, 1, 2, 1])
        return relax.op.nn.conv2d(
            padded, relax.const(weights), strides=[2, 2], padding=[1, 0, 0, 1]
        )

    mod = kernels.agrees(build, (1, 4, 9, 10))
    assert not any("pad" in variable.name_hint for variable in mod.get_global_vars())


def test_a_padding_with_ones_stays(kernels):
    weights = np.random.default_rng(3).standard_normal((6, 4, 3, 3)).astype("float32")

    def build(x):
        padded = relax.op.nn.pad(relax.op.nn.relu(x), [0, 0, 0, 0, 0, 1, 2, 1], pad_value=1.0)
        return relax.op.nn.conv2d(padded, relax.const(weights))

    mod = kernels.agrees(build, (1, 4, 9, 10))
    assert any("pad" in variable.name_hint for variable in mod.get_global_vars())


OTHER_TARGETS = {
    # and what its kernels compute with
    "haswell": ({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}, r"%ymm\d"),
    "cortex-a72": (
        {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}, r"\bv\d+\.4s",
    ),
    "armv7": ("armv7", r"\bq\d+"),
    "riscv64 with vectors": ("riscv64:+v", r"\bvs\w*e32\.v"),
    "wasm": ("wasm32", r"\bv128\."),
}  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", OTHER_TARGETS)
def test_kernels_build_for_other_machines(kernels, name):
    description, registers = OTHER_TARGETS[name]
    target = resolve(description)
    for build, shape in KERNELS.values():
        mod = kernels.scheduled(kernels.module(build, shape), target)
        assert "cpu.fallback" not in kernels.strategies(mod)
        assert re.search(registers, assembler(mod, target))


MACHINES = {
    "x86-64": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"},
    "x86-64-v2": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2"},
    "x86-64-v3": "x86-64-v3",
    "x86-64-v4": "x86-64-v4",
    "aarch64": "aarch64",
    "riscv64 with vectors": "riscv64:+v",
}
MULTIPLIES = re.compile(
    r"\b(v?fn?madd\w*ps|v?mulps)\s|\b(fml[as]|fmul)\s+v|\bvf(n?m(acc|add|sac|sub)|mul)\.v"
)
SPILLS = re.compile(
    r"mov[au]ps\s+%[xyz]mm\d+, -?\d*\(%rsp\)|\bst[ru]\w?\s+q\d+.*\[sp|\bvs\d+r\.v\s"
)


def inner_loops(text):
    """The lines of each loop that has no loop inside, in a text of assembler."""
    lines = text.splitlines()
    where = {line.split(":")[0]: n for n, line in enumerate(lines) if line.startswith(".L")}
    jumps = [(n, line.split()[-1]) for n, line in enumerate(lines) if re.match(r"\s+[bj]", line)]
    found = {(where[name], n) for n, name in jumps if where.get(name, n) < n}
    inside = {(a, b) for a, b in found for c, d in found if a <= c and d <= b and (a, b) != (c, d)}
    return [lines[first : last + 1] for first, last in sorted(found - inside)]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", MACHINES)
def test_inner_loops_keep_their_totals_in_registers(kernels, name):
    def weights(*shape):
        return relax.const(np.ones(shape, "float32"))

    def build(x):
        x = relax.op.nn.conv2d(x, weights(16, 1, 3, 3), padding=[1, 1, 1, 1], groups=16)
        x = relax.op.nn.conv2d(x, weights(37, 16, 3, 3))
        x = relax.op.nn.conv2d(x, weights(37, 1, 3, 3), padding=[1, 1, 1, 1], groups=37)
        return relax.op.nn.conv2d(x, weights(48, 37, 1, 1))

    target = resolve(MACHINES[name])
    mod = kernels.scheduled(kernels.module(build, (1, 16, 15, 17)), target)
    counts = []
    for loop in inner_loops(assembler(mod, target)):
        multiplies, spills = (sum(map(bool, map(p.search, loop))) for p in (MULTIPLIES, SPILLS))
        if multiplies >= 8:
            counts.append((multiplies, spills))
    assert len(counts) >= 3
    assert not [each for each in counts if 6 * each[1] > each[0]]
