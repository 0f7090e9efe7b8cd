"""Branches and loops built by hand, judged by the same in plain Python; updates of variables."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from itertools import count as numbers

import numpy as np
import pytest

from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Fill,
    Formula,
    Index,
    Load,
    Statement,
    Store,
    Subscript,
)
from tvm_nnef.graph.formula import Loop as FormulaLoop
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, If, Loop, Operation, Port, Scan, Tensor
from tvm_nnef.graph.verify import verify
from tvm_nnef.reference import evaluate
from tvm_nnef.symbolic import dimensions


def tensor(name, type="real", shape=(), role="result", value=None):
    return Tensor(name, type, shape, role, value)


def given(name, type="real", shape=()):
    return tensor(name, type, shape, "input")


def number(name, value, type="int"):
    return tensor(name, type, (), "constant", value)


def apply(function, left, right, result):
    """``result = function(left, right)``, element by element; operands of rank 0 are repeated."""
    indices = tuple(Index(f"i{axis}") for axis in range(result.rank))

    def load(each):
        return Load(each, tuple(map(Subscript, indices)) if each.rank else ())

    loops = tuple(
        FormulaLoop(index, Constant("int", extent))
        for index, extent in zip(indices, result.shape, strict=True)
    )
    store = Store(
        result, tuple(map(Subscript, indices)), "=", Binary(function, load(left), load(right))
    )
    zero = Constant(result.type, False if result.type == "bool" else 0)
    formula = Formula((Fill(result, zero),), (Statement(loops, (store,)),))
    types = [tuple(each.type for each in group) for group in ((left, right), (result,))]
    return Operation("main.f", {}, {}, (left, right), (result,), *types, formula, "")


def graph(inputs, outputs, *nodes, **more):
    ports = [
        tuple(Port(f"p{position}", each) for position, each in enumerate(group))
        for group in (inputs, outputs)
    ]
    return Graph("main.G", *ports, nodes, **more)


def loop(body, results, *, carried=(), initial=(), scans=(), index=None, count=None, **more):
    condition, post_test = more.pop("condition", None), more.pop("post_test", False)
    return Loop(carried, initial, scans, index, count, condition, post_test, body, results, **more)


def run(model, *inputs, variables=None, **options):
    verify(model)
    return evaluate(model, inputs, variables or {}, **options)


VECTOR = (3,)
X = np.array([1, 2, 3], "float32")


@pytest.fixture
def choice():
    """``if c then x + w else (if d then x * k else x)``, with a variable and a constant."""
    c, d = given("c", "bool"), given("d", "bool", (1, 1))
    x, w = given("x", shape=VECTOR), tensor("w", shape=VECTOR, role="variable")
    k = tensor("k", shape=VECTOR, role="constant", value=(10.0, 100.0, 1000.0))
    summed, scaled, inner, y = (tensor(name, shape=VECTOR) for name in ("s", "m", "e", "y"))
    nested = If(
        d, graph((x,), (scaled,), apply("mul", x, k, scaled), constants=(k,)), graph((x,), (x,)),
        (inner,),
    )  # fmt: skip
    node = If(
        c, graph((x,), (summed,), apply("add", x, w, summed), variables=(w,)),
        graph((d, x), (inner,), nested), (y,),
    )  # fmt: skip
    return graph((c, d, x), (y,), node, variables=(w,))


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("d", [True, False])
def test_a_branch_captures_tensors_variables_and_constants(choice, c, d):
    w, seen = np.array([4, 5, 6], "float32"), []
    (y,) = run(
        choice, c, [[d]], X, variables={"w": w}, observe=lambda one, array: seen.append(one.name)
    )
    np.testing.assert_array_equal(y, X + w if c else X * [10, 100, 1000] if d else X)
    # Only what was chosen has run.
    assert seen == (["s"] if c else ["m", "e"] if d else ["e"]) + ["y"]


@pytest.mark.parametrize("c", [True, False])
def test_a_branch_may_capture_variables_and_constants_as_inputs_and_give_packs(c):
    flag, x, w = given("c", "bool"), given("x"), tensor("w", role="variable")
    k = number("k", 7.0, "real")
    pair = (tensor("y:1"), tensor("y:2"))
    node = If(flag, graph((w, x), ((w, x),)), graph((k, x), ((x, k),)), (pair,))
    model = graph((flag, x), (pair,), node, variables=(w,), constants=(k,))
    assert run(model, c, 3.0, variables={"w": 5.0}) == (([5, 3] if c else [3, 7]),)


@pytest.mark.parametrize(("c", "expected"), [(True, 0.1), (False, 0.2)])
def test_branches_of_different_dtypes_give_that_of_the_result(c, expected):
    flag, x, y, z = given("c", "bool"), given("x"), given("y"), tensor("z")
    model = graph((flag, x, y), (z,), If(flag, graph((x,), (x,)), graph((y,), (y,)), (z,)))
    types = assign(model, named={"x": "float16", "y": "float64"})
    (found,) = run(model, c, np.float16(0.1), np.float64(0.2), machine_types=types)
    assert found.dtype == "float16" and found == np.float16(expected)


def fold(count=None, index=False, condition=None, post_test=False, extra=()):
    """``with s = s0 do..(i -> count) s + (i or x)``, maybe ``while s < limit``; inputs s0, x."""
    start, x, limit = given("s0", "int"), given("x", "int"), given("limit", "int")
    s, i = given("s", "int"), given("i", "int") if index else None
    after, holds, final = tensor("after", "int"), tensor("holds", "bool"), tensor("final", "int")
    step = i or x
    node = loop(
        graph((s, step), (after,), apply("add", s, step, after)), (final,),
        carried=(s,), initial=(start,), index=i, count=count,
        condition=graph((s, limit), (holds,), apply("lt", s, limit, holds)) if condition else None,
        post_test=post_test,
    )  # fmt: skip
    return graph((start, x, limit, *extra), (final,), node)


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("index", [False, True])
def test_a_count_and_an_index(steps, index):
    (found,) = run(fold(steps, index), 100, 7, 0)
    assert found == 100 + (sum(range(steps)) if index else 7 * steps)


@pytest.mark.parametrize("steps", [-3, 0, 1, 4])
@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_a_count_that_is_a_tensor(steps, shape):
    times = given("times", "int", shape)
    (found,) = run(fold(times, extra=(times,)), 0, 7, 0, np.full(shape, steps))
    assert found == 7 * max(steps, 0)


def plain(start, x, limit, count, post_test):
    """What a loop with a condition does, in Python."""
    s = start
    for step in numbers():
        if (count is not None and step >= count) or (not post_test and s >= limit):
            return s
        s += x
        if post_test and s >= limit:
            return s


@pytest.mark.parametrize("post_test", [False, True])
@pytest.mark.parametrize("count", [None, 0, 3])
@pytest.mark.parametrize("start", [0, 8, 10, 50])
def test_a_condition_before_or_after_the_body_with_and_without_a_count(start, count, post_test):
    model = fold(count, condition=True, post_test=post_test)
    (found,) = run(model, start, 2, 10)
    assert found == plain(start, 2, 10, count, post_test)


def test_the_condition_may_be_carried():
    """``z, ~ = with x = x0, go = true while go do { y = x * 2; yield y, y < 100; }``."""
    x0, go0, two, hundred = given("x0"), number("t", True, "bool"), *(
        number(f"c{value}", value, "real") for value in (2, 100)
    )  # fmt: skip
    x, go = given("x"), given("go", "bool")
    y, more, z, rest = tensor("y"), tensor("m", "bool"), tensor("z"), tensor("rest", "bool")
    body = graph(
        (x,), (y, more), apply("mul", x, two, y), apply("lt", y, hundred, more),
        constants=(two, hundred),
    )  # fmt: skip
    node = loop(body, (z, rest), carried=(x, go), initial=(x0, go0), condition=graph((go,), (go,)))
    model = graph((x0,), (z, rest), node, constants=(go0,))
    assert run(model, 3.0) == (192, False)


@pytest.mark.parametrize("post_test", [False, True])
def test_a_condition_reads_index_and_item_of_its_step(post_test):
    """``with s = 0 for x : xs do s + x``, while x < y at the same step, or i < 2."""
    xs = tuple(given(f"xs:{n}", "int") for n in range(4))
    limit, start = given("limit", "int"), number("zero", 0)
    s, x, i = (given(name, "int") for name in ("s", "x", "i"))
    after, final, holds = tensor("after", "int"), tensor("final", "int"), tensor("h", "bool")
    body = graph((s, x), (after,), apply("add", s, x, after))
    for read in (x, i):
        node = loop(
            body, (final,), carried=(s,), initial=(start,), scans=(Scan(x, xs),), index=i,
            condition=graph((read, limit), (holds,), apply("lt", read, limit, holds)),
            post_test=post_test,
        )  # fmt: skip
        (found,) = run(graph((xs, limit), (final,), node, constants=(start,)), [0, 1, 2, 3], 2)
        assert found == (0 + 1 + 2 if post_test else 0 + 1)


def scanned(length, count=None, extra=()):
    """``s, ps, is = with s = 0 for x : xs, z : zs do..(i -> count) { t = s + x * z; t, t, i }``.

    The scan outputs are the partial sums and the index; they are absent if the count is data.
    """
    xs, zs = (tuple(given(f"{name}:{n}", shape=VECTOR) for n in range(length)) for name in "xz")
    start = tensor("start", shape=VECTOR, role="constant", value=0.0)
    s, x, z = (given(name, shape=VECTOR) for name in ("s", "x", "z"))
    i, product, total = given("i", "int"), *(tensor(name, shape=VECTOR) for name in ("m", "t"))
    final = tensor("final", shape=VECTOR)
    steps = length if count is None else count
    packs, scan_outputs = (), ()
    if isinstance(steps, int):
        scan_outputs = (total, i)
        packs = (
            tuple(tensor(f"ps:{n}", shape=VECTOR) for n in range(steps)),
            tuple(tensor(f"is:{n}", "int") for n in range(steps)),
        )
    body = graph(
        (s, x, z, i), (total, *scan_outputs),
        apply("mul", x, z, product), apply("add", s, product, total),
    )  # fmt: skip
    node = loop(
        body, (final, *packs), carried=(s,), initial=(start,),
        scans=(Scan(x, xs), Scan(z, zs)), index=i, count=count,
    )  # fmt: skip
    return graph((xs, zs, *extra), (final, *packs), node, constants=(start,))


@pytest.mark.parametrize(("length", "count"), [(0, None), (1, None), (4, None), (4, 2), (4, 0)])
def test_packs_are_scanned_side_by_side_and_give_packs(length, count):
    random = np.random.default_rng(1)
    xs, zs = random.integers(-9, 9, (2, length, 3)).astype("float32")
    final, partial, index = run(scanned(length, count), list(xs), list(zs))
    steps = length if count is None else count
    np.testing.assert_array_equal(final, (xs * zs)[:steps].sum(0))
    np.testing.assert_array_equal(np.reshape(partial, (-1, 3)), np.cumsum(xs * zs, 0)[:steps])
    assert index == list(range(steps))


@pytest.mark.parametrize("steps", [0, 2, 4, 9])
def test_a_count_from_data_goes_through_a_part_of_a_pack(steps):
    times = given("times", "int")
    xs = np.arange(12, dtype="float32").reshape(4, 3)
    (found,) = run(scanned(4, times, (times,)), list(xs), list(xs), steps)
    np.testing.assert_array_equal(found, (xs**2)[:steps].sum(0))


def test_loops_and_branches_inside_each_other():
    """``with s = 0 do..(i -> n) (with t = s do..(j -> i) { if t < limit then t + j else t - i })``.

    The branch captures what is two levels outside.
    """
    n, limit, zero = given("n", "int"), given("limit", "int"), number("zero", 0)
    s, t, i, j = (given(name, "int") for name in "stij")
    up, down, next_t, next_s, final = (
        tensor(name, "int") for name in ("up", "down", "nt", "ns", "final")
    )
    low = tensor("low", "bool")
    choose = If(
        low, graph((t, j), (up,), apply("add", t, j, up)),
        graph((i, t), (down,), apply("sub", t, i, down)), (next_t,),
    )  # fmt: skip
    inner = loop(
        graph((t, j, i, limit), (next_t,), apply("lt", t, limit, low), choose), (next_s,),
        carried=(t,), initial=(s,), index=j, count=i,
    )  # fmt: skip
    outer = loop(
        graph((s, i, limit), (next_s,), inner), (final,),
        carried=(s,), initial=(zero,), index=i, count=n,
    )  # fmt: skip
    model = graph((n, limit), (final,), outer, constants=(zero,))
    expected = 0
    for a in range(9):
        for b in range(a):
            expected = expected + b if expected < 11 else expected - a
    assert run(model, 9, 11) == (expected,)


def test_carried_tensors_are_swapped_at_once():
    a0, b0, a, b = (given(name) for name in ("a0", "b0", "a", "b"))
    results = (tensor("ya"), tensor("yb"))
    node = loop(graph((a, b), (b, a)), results, carried=(a, b), initial=(a0, b0), count=3)
    assert run(graph((a0, b0), results, node), 1.0, 2.0) == (2, 1)


@pytest.mark.parametrize(("dtype", "expected"), [("int8", 200 - 256), ("int32", 200)])
def test_carried_tensors_keep_their_dtype(dtype, expected):
    """What comes around is converted at each step, what leaves once more."""
    model = fold(2)
    types = assign(model, named={"s0": dtype, "x": "int32", "after": "int32", "final": "int64"})
    (found,) = run(model, 0, 100, 0, machine_types=types)
    assert found.dtype == "int64" and found == expected


def test_what_a_loop_starts_with_is_converted():
    model = fold(0)
    types = assign(model, named={"s": "int8", "final": "int64"})
    assert run(model, 300, 0, 0, machine_types=types) == (300 - 256,)


def test_what_a_loop_scans_is_converted():
    xs, x = tuple(given(f"xs:{n}", "int") for n in range(2)), given("x", "int")
    pack = tuple(tensor(f"ys:{n}", "int") for n in range(2))
    model = graph((xs,), (pack,), loop(graph((x,), (x,)), (pack,), scans=(Scan(x, xs),)))
    types = assign(model, named={"x": "int8", "ys:1": "int32"})
    (found,) = run(model, [300, 400], machine_types=types)
    assert found == [300 - 256, 400 - 512]


@pytest.mark.slow
def test_ten_thousand_steps_in_a_second_or_so():
    (found,) = run(fold(10_000, index=True), 0, 0, 0)
    assert found == 10_000 * 9_999 // 2


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_steps():
    def peak(steps: int) -> int:
        model = fold(steps, condition=True)
        gc.collect()
        tracemalloc.start()
        run(model, 0, 1, 10**6)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    # Python's own caches fill in the first thousand steps, and somewhat later in old versions. A
    # step that kept a single array alive would cost 3000 times 100 bytes or more.
    assert peak(4_000) - peak(1_000) < 150_000


def test_an_endless_loop_can_be_interrupted():
    seen = []

    def observe(tensor, array):
        seen.append(int(array))
        if len(seen) == 50:
            raise KeyboardInterrupt

    model = fold(condition=True)
    with pytest.raises(KeyboardInterrupt):
        run(model, 0, 0, 1, observe=observe)


def test_the_observer_sees_every_step_and_then_the_result():
    seen = []
    run(fold(3), 0, 5, 0, observe=lambda one, array: seen.append((one.name, int(array))))
    assert seen == [("after", 5), ("after", 10), ("after", 15), ("final", 15)]


@pytest.mark.parametrize("post_test", [False, True])
def test_the_condition_is_asked_once_for_each_step(post_test):
    seen = []
    model = fold(condition=True, post_test=post_test)
    run(model, 0, 5, 7, observe=lambda one, array: seen.append(one.name))
    steps = ["after", "holds"] * 2 if post_test else [*["holds", "after"] * 2, "holds"]
    assert seen == [*steps, "final"]


def test_data_dependent_dimensions_may_change_from_step_to_step():
    """``with s = 0 for x : xs do s + sum(nonzero(x) + 1)``: as many coordinates as there are."""
    size = dimensions.symbol("size")
    xs = tuple(given(f"xs:{n}", "int", (4,)) for n in range(3))
    x, s, zero = given("x", "int", (4,)), given("s", "int"), number("zero", 0)
    where, found = (tensor(name, "int", (1, size)) for name in ("where", "found"))
    after, final = tensor("after", "int"), tensor("final", "int")
    nonzero = Operation(
        "layout.nonzero", {}, {}, (x,), (where,), ("int",), ("int",), None, ""
    )  # fmt: skip
    at = (Subscript(Constant("int", 0)), Subscript(Index("i")))
    loops = (FormulaLoop(Index("i"), Constant("int", size)),)
    raised = Binary("add", Load(where, at), Constant("int", 1))
    copied = Formula(
        (Fill(found, Constant("int", 0)),), (Statement(loops, (Store(found, at, "=", raised),)),)
    )
    start = Statement((), (Store(after, (), "=", Load(s, ())),))
    added = Statement(loops, (Store(after, (), "+=", Load(found, at)),))
    total = Formula((Fill(after, Constant("int", 0)),), (start, added))
    steps = [
        nonzero,
        Operation("main.f", {}, {}, (where,), (found,), ("int",), ("int",), copied, ""),
        Operation("main.f", {}, {}, (s, found), (after,), ("int",) * 2, ("int",), total, ""),
    ]
    node = loop(
        graph((s, x), (after,), *steps), (final,),
        carried=(s,), initial=(zero,), scans=(Scan(x, xs),),
    )  # fmt: skip
    model = replace(graph((xs,), (final,), node, constants=(zero,)), bounds={"size": 4})
    data = [[0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert run(model, data) == (2 + (1 + 2 + 3 + 4) + 0,)


def test_updates_see_the_old_values_and_happen_at_once():
    """``v <- w + x; w <- v``, with y = v + w as output."""
    x, v, w = given("x"), tensor("v", role="variable"), tensor("w", role="variable")
    y, new = tensor("y"), tensor("new")
    still = tensor("still", role="variable")
    model = graph(
        (x,), (y,), apply("add", w, x, new), apply("add", v, w, y),
        variables=(v, w, still), updates=((v, new), (w, v)),
    )  # fmt: skip
    values = {"v": np.float32(1), "w": np.float32(10), "still": np.float32(5)}
    state = {}
    assert run(model, 100.0, variables=values, new_state=state) == (11,)
    assert state == {"v": 110, "w": 1}
    assert values == {"v": 1, "w": 10, "still": 5}
    # Without a place for the new state, nothing else changes.
    assert run(model, 100.0, variables=values) == (11,)


def test_updates_have_the_dtype_of_the_variable_and_are_the_callers_own():
    x, w = given("x", shape=VECTOR), tensor("w", shape=VECTOR, role="variable")
    model = graph((x,), (), variables=(w,), updates=((w, x),))
    types = assign(model, named={"w": "float16"})
    data, state = X.copy(), {}
    run(model, data, variables={"w": X}, new_state=state, machine_types=types)
    assert state["w"].dtype == "float16"
    run(model, data, variables={"w": X}, new_state=state)
    state["w"][:] = 0
    np.testing.assert_array_equal(data, X)


def test_updates_inside_operators_and_branches_count_where_they_run():
    """An operator's own variable; where its branch is not taken, nothing is new."""
    c, x, w = given("c", "bool"), given("x"), tensor("op.w", role="variable")
    new, y, z = tensor("new"), tensor("y"), tensor("z")
    body = graph((x,), (x,), apply("add", w, x, new), variables=(w,), updates=((w, new),))
    call = Operation("main.op", {}, {}, (x,), (y,), ("real",), ("real",), body, "op")
    node = If(c, graph((x,), (y,), call, variables=(w,)), graph((x,), (x,)), (z,))
    model = graph((c, x), (z,), node, variables=(w,))
    for chosen in (True, False):
        state = {}
        assert run(model, chosen, 2.0, variables={"op.w": 3.0}, new_state=state) == (2,)
        assert state == ({"op.w": 5} if chosen else {})
