"""Branches and loops compiled, against plain Python: what they give, and what they cost."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tvm import relax

from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.loading import load
from tvm_nnef.graph import formula as f
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import If, Scan, Tensor
from tvm_nnef.lower import lower

pytestmark = pytest.mark.sampled(3)


def powers(m, count, **options):
    """x, i -> (x * factor + i, x * x), so often; the factor comes from outside."""
    x0, factor, x, i = m.input((3,)), m.input(), m.input((3,)), m.input((), "int")
    following = m.call("add", m.call("mul", x, factor), m.real(i))
    outputs = [following, m.call("mul", x, x)] if "packs" in options else [following]
    body = m.body([x, factor, i], outputs)
    return x0, factor, m.loop(body, [x], [x0], index=i, count=count, **options)


def powers_expected(x, f, count):
    squares = []
    for i in range(count):
        squares.append(x * x)
        x = (x * f + np.float32(i)).astype("float32")
    return x, squares


X = np.array([0.5, -1.0, 2.0], "float32")
F = np.float32(0.75)


@pytest.mark.parametrize("nested", [False, True])
def test_only_the_chosen_branch_is_taken(m, make, nested):
    condition, x, y = m.input((1, 1), "bool"), m.input((2,)), m.input((2,))
    double = m.body([x], [m.call("add", x, x), x])
    other = m.body([x, y], [m.call("mul", x, y), m.call("neg", y)])
    results = (m.tensor((2,)), m.tensor((2,)))
    node = If(condition, double, other, results)
    if nested:
        outer = (m.tensor((2,)), m.tensor((2,)))
        m.made.append(node)
        inside = m.body([condition, x, y], results)
        swapped = m.body([x, y], [y, x])
        node, results = If(condition, inside, swapped, outer), outer
    exe = make.compiled(m.graph([node], [condition, x, y], results))
    a, b = np.array([1, 2], "float32"), np.array([3, 5], "float32")
    for chosen in (True, False, True):
        first, second = exe(np.array([[chosen]]), a, b)
        expected = (a + a, a) if chosen else (b, a) if nested else (a * b, -b)
        np.testing.assert_array_equal(first, expected[0])
        np.testing.assert_array_equal(second, expected[1])


def test_the_branch_that_is_not_chosen_does_not_run(m, make):
    """The alternative never ends."""
    condition, x, c = m.input((), "bool"), m.input(), m.input()
    endless = m.loop(
        m.body([c], [c]), [c], [x], condition=m.body([], [m.constant(True, (), "bool")])
    )
    m.made.append(endless)
    alternative = m.body([x], [endless.results[0]])
    node = If(condition, m.body([x], [x]), alternative, (m.tensor(),))
    assert make.compiled(m.graph([node], [condition, x], node.results))(True, 3.0)[0] == 3


def test_what_a_branch_passes_through_is_not_overwritten(m, make):
    """The memory of ``a`` may not be taken for another tensor while the result still is ``a``."""
    condition, x = m.input((), "bool"), m.input((64,))
    a = m.call("add", x, x)
    before, m.made = m.made, []
    node = If(condition, m.body([a], [a]), m.body([a], [m.call("neg", a)]), (m.tensor((64,)),))
    following = m.call("sin", m.call("exp", m.call("sin", x)))
    after, m.made = m.made, []
    total = m.call("add", node.results[0], following)
    exe = make.compiled(m.graph([*before, node, *after, *m.made], [condition, x], [total]))
    data = np.linspace(-1, 1, 64, dtype="float32")
    found = exe(True, data)[0]
    np.testing.assert_allclose(found, 2 * data + np.sin(np.exp(np.sin(data))), rtol=1e-5)


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 16, 17, 31, 32, 33])
def test_a_number_of_steps_with_index_captures_and_scan_outputs(m, make, steps):
    x0, factor, loop = powers(m, steps, packs=steps)
    exe = make.compiled(m.graph([loop], [x0, factor], loop.results))
    for data in (X, -X):
        found, squares = exe(data, F)
        expected, expected_squares = powers_expected(data, F, steps)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert len(squares) == steps
        for square, wanted in zip(squares, expected_squares, strict=True):
            np.testing.assert_allclose(square, wanted, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_tensor_of_steps(m, make, shape):
    count = m.input(shape, "int")
    x0, factor, loop = powers(m, count)
    exe = make.compiled(m.graph([loop], [x0, factor, count], loop.results))
    for steps in (0, 1, 2, 7, 100, -1, 3):
        found = exe(X, F, np.full(shape, steps, "int32"))[0]
        np.testing.assert_allclose(found, powers_expected(X, F, max(0, steps))[0], rtol=1e-5)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("items", [0, 1, 5, 20, 50])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_a_fold_over_a_pack(m, make, shape, items):
    xs = tuple(m.input(shape) for _ in range(items))
    start, total, item = m.input(shape), m.input(shape), m.input(shape)
    added = m.call("add", total, item)
    body = m.body([total, item], [added, added])
    loop = m.loop(body, [total], [start], [Scan(item, xs)], packs=items)
    exe = make.compiled(m.graph([loop], [xs, start], loop.results))
    data = np.random.default_rng(1).integers(-9, 9, (items, *shape)).astype("float32")
    total, sums = exe(list(data), np.ones(shape))
    np.testing.assert_array_equal(total, 1 + data.sum(0))
    np.testing.assert_array_equal(np.reshape(sums, data.shape), 1 + np.cumsum(data, 0))


def test_two_packs_in_parallel_without_anything_carried(m, make):
    left, right = ([m.input((4,)) for _ in range(20)] for _ in range(2))
    a, b = m.input((4,)), m.input((4,))
    body = m.body([a, b], [m.call("sub", a, b)])
    loop = m.loop(body, scans=[Scan(a, tuple(left)), Scan(b, tuple(right))], packs=20)
    exe = make.compiled(m.graph([loop], [tuple(left), tuple(right)], loop.results))
    data = np.arange(160, dtype="float32").reshape(2, 20, 4) ** 2
    np.testing.assert_array_equal(exe(list(data[0]), list(data[1]))[0], data[0] - data[1])


def test_a_tensor_of_steps_ends_a_scan_early_and_not_late(m, make):
    xs, count = tuple(m.input() for _ in range(6)), m.input((), "int")
    start, total, item = m.input(), m.input(), m.input()
    body = m.body([total, item], [m.call("add", total, item)])
    loop = m.loop(body, [total], [start], [Scan(item, xs)], count=count)
    exe = make.compiled(m.graph([loop], [xs, start, count], loop.results))
    for steps, expected in ((0, 0), (2, 3), (6, 63), (9, 63)):
        assert exe([1, 2, 4, 8, 16, 32], 0.0, steps)[0] == expected


def collatz(value, *, post, count=None):
    """The steps while value < limit, doubling, as Python does it."""
    steps = 0
    while count is None or steps < count:
        if not post and not value[0] < value[1]:
            break
        value = (value[0] * 2, value[1])
        steps += 1
        if post and not value[0] < value[1]:
            break
    return value[0], steps


@pytest.mark.sampled(9)
@pytest.mark.parametrize("post", [False, True])
@pytest.mark.parametrize("counted", [None, 0, 3, 40, "tensor"])
def test_a_condition_with_and_without_a_count(m, make, post, counted):
    start, limit, number = (m.input((), "int") for _ in range(3))
    x, n, i = (m.input((), "int") for _ in range(3))
    condition = m.body([x, limit], [m.call("lt", x, limit, kind="bool")])
    one = m.constant(1, (), "int")
    body = m.body([x, n], [m.call("add", x, x), m.call("add", n, one)])
    zero = m.constant(0, (), "int")
    count = number if counted == "tensor" else counted
    loop = m.loop(body, [x, n], [start, zero], index=i, count=count, condition=condition,
                  post_test=post)  # fmt: skip
    exe = make.compiled(m.graph([loop], [start, limit, number], loop.results))
    for value, bound, given in ((1, 100, 5), (7, 7, 0), (9, 3, 2), (1, 1 << 20, 7)):
        most = given if counted == "tensor" else counted
        expected = collatz((value, bound), post=post, count=most)
        assert tuple(map(int, exe(value, bound, given))) == expected


@pytest.mark.parametrize("post", [False, True])
def test_a_condition_reads_item_and_index_of_its_step(m, make, post):
    """Ends at the first item that is not its own index."""
    xs, item = tuple(m.input((), "int") for _ in range(20)), m.input((), "int")
    i, n, zero = m.input((), "int"), m.input((), "int"), m.input((), "int")
    condition = m.body([item, i], [m.call("eq", item, i, kind="bool")])
    body = m.body([n], [m.call("add", n, m.constant(1, (), "int"))])
    loop = m.loop(body, [n], [zero], [Scan(item, xs)], index=i, condition=condition,
                  post_test=post)  # fmt: skip
    exe = make.compiled(m.graph([loop], [xs, zero], loop.results))
    for first in (0, 4, 19, 20):
        items = [k if k < first else -1 for k in range(20)]
        assert exe(items, 0)[0] == min(20, first + post)


def test_a_condition_that_is_carried(m, make):
    x0, limit, x, go = m.input(), m.input(), m.input(), m.input((), "bool")
    doubled = m.call("add", x, x)
    body = m.body([x, limit], [doubled, m.call("lt", doubled, limit, kind="bool")])
    true = m.constant(True, (), "bool")
    loop = m.loop(body, [x, go], [x0, true], condition=m.body([go], [go]))
    exe = make.compiled(m.graph([loop], [x0, limit], loop.results[:1]))
    assert exe(3.0, 50.0)[0] == 96


@pytest.mark.parametrize("outer", [3, 20])
@pytest.mark.parametrize("inner", [4, 18])
def test_a_loop_in_a_loop_around_a_branch(m, make, outer, inner):
    """Adds i * j where x is not negative, else doubles the negated x; gives each row's end."""
    x0, x, z = m.input(), m.input(), m.input()
    i, j = m.input((), "int"), m.input((), "int")
    negative = m.call("lt", z, m.constant(0.0), kind="bool")
    before, m.made = m.made, []
    doubled = m.body([z], [m.call("neg", m.call("add", z, z))])
    added = m.body([z, i, j], [m.call("sub", z, m.real(m.call("mul", i, j)))])
    node = If(negative, doubled, added, (m.tensor(),))
    m.made = [*before, node]
    inside = m.body([z, i, j], [node.results[0]])
    nested = m.loop(inside, [z], [x], index=j, count=inner)
    m.made.append(nested)
    body = m.body([x, i], [nested.results[0], nested.results[0]])
    loop = m.loop(body, [x], [x0], index=i, count=outer, packs=outer)
    exe = make.compiled(m.graph([loop], [x0], loop.results))
    value, rows = 5.0, []
    for a in range(outer):
        for b in range(inner):
            value = np.float32(-2 * value if value < 0 else value - a * b)
        rows.append(value)
    found, ends = exe(5.0)
    np.testing.assert_allclose(found, value, rtol=1e-5)
    np.testing.assert_allclose(ends, rows, rtol=1e-5)


def test_a_loop_in_a_branch(m, make):
    condition, count = m.input((), "bool"), m.input((), "int")
    x0, factor, loop = powers(m, count)
    m.made.append(loop)
    consequent = m.body([x0, factor, count], loop.results)
    node = If(condition, consequent, m.body([x0], [x0]), (m.tensor((3,)),))
    exe = make.compiled(m.graph([node], [condition, x0, factor, count], node.results))
    np.testing.assert_allclose(exe(True, X, F, 9)[0], powers_expected(X, F, 9)[0], rtol=1e-5)
    np.testing.assert_array_equal(exe(False, X, F, 9)[0], X)


@pytest.mark.parametrize("steps", [3, 30])
def test_dtypes_change_at_the_edges_of_a_loop(m, make, steps):
    """The carried tensor has 8 bits: what comes around is wrapped, whatever the body computes."""
    start, x, step = (m.input((), "int") for _ in range(3))
    wide = m.tensor((), "int")
    copy = f.Statement((), (f.Store(wide, (), "=", f.Load(x, ())),))
    body = f.Formula((f.Fill(wide, f.Constant("int", 0)),), (copy,))
    m.made.append(make.operation("my.copy", [x], [wide], body))
    loop = m.loop(m.body([x, step], [m.call("add", wide, step)]), [x], [start], count=steps)
    named = {start.name: "int32", x.name: "int8", wide.name: "int32",
             loop.results[0].name: "int64"}  # fmt: skip
    exe = make.compiled(m.graph([loop], [start, step], loop.results), named=named)
    (found,) = exe(100, 50)
    assert found.dtype == "int64"
    assert found == ((100 + 50 * steps + 128) % 256) - 128


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("steps", [4, 40])
def test_variables_are_passed_and_not_copied(m, make, keep, steps):
    w = Tensor("main.G.w", "real", (3,), "variable")
    x0, x, condition = m.input((3,)), m.input((3,)), m.input((), "bool")
    body = m.body([x], [m.call("add", x, w)], [w])
    loop = m.loop(body, [x], [x0], count=steps)
    m.made.append(loop)
    node = If(condition, m.body([x0], loop.results, [w]), m.body([x0], [x0]), (m.tensor((3,)),))
    made = m.graph([node], [condition, x0], node.results, [w])
    values = {"main.G.w": np.array([1, 2, 3.5], "float32")}
    options = {"variables": values, "keep_params_in_input": keep}
    mod = lower(made, machine_types=assign(made), **options)
    private = [function for v, function in mod.functions.items()
               if isinstance(function, relax.Function) and v.name_hint != "main"]  # fmt: skip
    assert private
    assert all("metadata" not in function.script() for function in private)
    exe = make.compiled(made, **options)
    np.testing.assert_allclose(exe(True, X)[0], X + steps * values["main.G.w"])
    np.testing.assert_array_equal(exe(False, X)[0], X)


def test_an_exported_library_holds_its_loops(m, make, tmp_path):
    count = m.input((), "int")
    x0, factor, loop = powers(m, count)
    exe = make.compiled(m.graph([loop], [x0, factor, count], loop.results))
    exe.export(tmp_path / "model.so")
    found = load(tmp_path / "model.so")(X, F, 20)[0]
    np.testing.assert_allclose(found, powers_expected(X, F, 20)[0], rtol=1e-5)


def test_modules_are_well_formed_after_each_stage(m):
    count, condition = m.input((), "int"), m.input((), "bool")
    x0, factor, loop = powers(m, count)
    m.made.append(loop)
    consequent = m.body([x0, factor, count], loop.results)
    node = If(condition, consequent, m.body([x0], [x0]), (m.tensor((3,)),))
    made = m.graph([node], [condition, x0, factor, count], node.results)
    mod, target = lower(made, machine_types=assign(made), variables={}), resolve("llvm")
    for phase in ("graph", "fuse", "schedule"):
        assert relax.analysis.check_well_formed(mod), phase
        mod = run_phases(mod, target, phase, phase)
    assert relax.analysis.check_well_formed(mod)


def test_every_kernel_of_every_function_is_scheduled(m, make):
    x0, factor, loop = powers(m, 100, packs=100)
    made = m.graph([loop], [x0, factor], loop.results)
    mod = lower(made, machine_types=assign(made), variables={})
    report = schedules.report(run_phases(mod, resolve("llvm"), "graph", "schedule"))
    assert {kernel.name for kernel in report} >= {"store_item", "loop"}
    assert {kernel.strategy for kernel in report} == {"cpu.elementwise", "cpu.fallback", "cpu.loop"}


def test_the_item_of_a_scan_is_not_copied(m):
    xs, start = tuple(m.input((8,)) for _ in range(20)), m.input((8,))
    total, item = m.input((8,)), m.input((8,))
    body = m.body([total, item], [m.call("add", total, item)])
    loop = m.loop(body, [total], [start], [Scan(item, xs)])
    made = m.graph([loop], [xs, start], loop.results)
    mod = lower(made, machine_types=assign(made), variables={})
    mod = run_phases(mod, resolve("llvm"), "graph", "schedule")
    names = {kernel.name for kernel in schedules.report(mod)}
    assert "fused_stack_item_add" in names
    assert "stack_item" not in names


@pytest.mark.parametrize("label", ["main", "metadata", "initial_state", "a.b"])
def test_a_label_takes_no_other_functions_name(m, make, label):
    x0, factor, loop = powers(m, 20)
    exe = make.compiled(m.graph([replace(loop, label=label)], [x0, factor], loop.results))
    np.testing.assert_allclose(exe(X, F)[0], powers_expected(X, F, 20)[0], rtol=1e-5)


def test_a_large_body_is_not_unrolled(m):
    def functions(size: int) -> int:
        x0, x = m.input(), m.input()
        following = x
        for _ in range(size):
            following = m.call("sin", following)
        loop = m.loop(m.body([x], [following]), [x], [x0], count=16)
        made = m.graph([loop], [x0], loop.results)
        return len(lower(made, machine_types=assign(made), variables={}).functions)

    assert functions(16) == 1
    assert functions(17) > 1


COSTS = """
import resource, sys, threading
import numpy as np
from tvm_nnef.compilation.pipeline import build_module
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, Loop, Operation, Port, Tensor
from tvm_nnef.lower import lower

def tensor(name, shape, kind, role="result"):
    return Tensor(f"main.G.{name}", kind, shape, role)

x0, x = (tensor(name, (256,), "real", "input") for name in ("x0", "x"))
d = tensor("d", (256,), "real", "input")
y, r = (tensor(name, (256,), "real") for name in ("y", "r"))
count = tensor("count", (), "int", "input")
add = Operation("math.add", {"lhs_align": None, "rhs_align": None}, {}, (x, d), (y,),
                ("real", "real"), ("real",), None, "add")
body = Graph("body", (Port("x", x), Port("d", d)), (Port("y", y),), (add,))
loop = Loop((x,), (x0,), (), None, count, None, False, body, (r,))
graph = Graph("main.G", (Port("x", x0), Port("d", d), Port("n", count)), (Port("y", r),), (loop,))
exe = build_module(lower(graph, machine_types=assign(graph), variables={}))

def run(steps):
    found.append(exe(np.zeros(256), np.ones(256), steps)[0])

found = []
threading.stack_size(512 << 10)
for steps in (100, 100_000):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    thread = threading.Thread(target=run, args=(steps,))
    thread.start()
    thread.join()
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(int(found[-1].min()), int(found[-1].max()), grown)
"""


@pytest.mark.slow
def test_100_000_steps_take_little_stack_and_memory(tmp_path):
    # In its own folder, where the installed package is found and not the checkout.
    command = [sys.executable, "-c", COSTS]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    least, most, grown = run.stdout.split()
    assert (least, most) == ("100000", "100000")
    assert int(grown) < 4 << 10, "KiB"


@pytest.mark.slow
def test_a_scan_output_is_written_in_place(m, make):
    """Copying the stack in each step would move 6 GB."""
    steps = 2000
    x0, x = m.input((400,)), m.input((400,))
    one = m.constant(1.0)
    following = m.call("add", x, one)
    loop = m.loop(m.body([x], [following, following]), [x], [x0], count=steps, packs=steps)
    exe = make.compiled(m.graph([loop], [x0], loop.results[1:]))
    (pack,) = exe(np.zeros(400))
    np.testing.assert_array_equal([item[7] for item in pack], np.arange(1, steps + 1))


def test_a_variable_that_a_condition_updates_is_an_error(m):
    w = Tensor("main.G.w", "real", (), "variable")
    x, x0, limit = m.input(), m.input(), m.constant(9.0)
    holds = m.call("lt", x, limit, kind="bool")
    condition = m.body([x], [holds], [w], [(w, x)])
    loop = m.loop(m.body([x], [m.call("add", x, x)]), [x], [x0], condition=condition)
    made = m.graph([loop], [x0], loop.results, [w])
    with pytest.raises(NnefError, match=r"the condition of a loop updates 'main\.G\.w'"):
        lower(made, machine_types=assign(made), variables={"main.G.w": np.zeros(())})
