"""Formulas built by hand, evaluated, and judged by what NumPy computes in other ways."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Fill,
    Formula,
    Index,
    Let,
    Load,
    Local,
    Lookup,
    Loop,
    Select,
    Statement,
    Store,
    Subscript,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.reference import formulas
from tvm_nnef.reference.scalars import Block, OutOfBounds

DTYPES = {"real": np.dtype("float32"), "int": np.dtype("int32"), "bool": np.dtype("bool")}
i, j, k, l = (Index(name) for name in "ijkl")  # noqa: E741


def num(value):
    kinds = {bool: "bool", int: "int", float: "real"}
    return Constant(kinds[type(value)], value)


def scalar(value):
    return num(value) if isinstance(value, (bool, int, float)) else value


def op(function, left, right):
    return Binary(function, scalar(left), scalar(right))


def at(*indices):
    return tuple(
        index if isinstance(index, Subscript) else Subscript(scalar(index)) for index in indices
    )


def guard(index, below=None, above=None):
    ends = [None if end is None else scalar(end) for end in (below, above)]
    return Subscript(index, True, *ends)


def load(tensor, *indices):
    return Load(tensor, at(*indices))


def loops(**extents):
    return tuple(Loop(Index(name), scalar(extent)) for name, extent in extents.items())


def tensor(name, shape, type="real", role="input"):
    return Tensor(name, type, shape, role)


def fills(*results, value=None):
    starts = {"real": 0.0, "int": 0, "bool": False}
    return tuple(
        Fill(result, scalar(starts[result.type] if value is None else value)) for result in results
    )


def run(formula, arrays, dtypes=DTYPES):
    found = formulas.run(formula, Block(arrays, dtypes, {}))
    return [found[fill.tensor] for fill in formula.fills]


@pytest.fixture(autouse=True, params=[2**22, 7], ids=["one block", "many blocks"])
def block_size(request, monkeypatch):
    """What the size of a block is must not matter."""
    monkeypatch.setattr(formulas, "BLOCK", request.param)


@pytest.fixture
def random():
    return np.random.default_rng(0)


def test_matmul_that_starts_from_a_bias(random):
    A, B, Z = tensor("A", (3, 4)), tensor("B", (4, 5)), tensor("Z", (5,))
    C = tensor("C", (3, 5), role="result")
    start = Statement(loops(i=3, j=5), (Store(C, at(i, j), "=", load(Z, j)),))
    product = op("mul", load(A, i, k), load(B, k, j))
    add = Statement(loops(i=3, k=4, j=5), (Store(C, at(i, j), "+=", product),))
    a, b, z = (random.standard_normal(t.shape).astype("float32") for t in (A, B, Z))
    (c,) = run(Formula(fills(C), (start, add)), {A: a, B: b, Z: z})
    np.testing.assert_allclose(c, a.astype("float64") @ b + z, rtol=1e-5)
    assert c.dtype == "float32"


def test_smoothing_skips_steps_that_are_out_of_bounds(random):
    x, y = tensor("x", (9,)), tensor("y", (9,), role="result")
    position = op("sub", op("add", i, j), 2)
    value = op("div", load(x, guard(position)), 5.0)
    step = Statement(loops(i=9, j=5), (Store(y, at(i), "+=", value),))
    data = random.standard_normal(9).astype("float32")
    (found,) = run(Formula(fills(y), (step,)), {x: data})
    np.testing.assert_allclose(found, np.convolve(data, np.ones(5) / 5, "same"), rtol=1e-5)


def test_guard_skips_an_assignment_so_that_the_fill_stays():
    x, y = tensor("x", (4,)), tensor("y", (6,), role="result")
    step = Statement(loops(i=6), (Store(y, at(i), "=", load(x, guard(op("sub", i, 1)))),))
    (found,) = run(Formula(fills(y, value=9.0), (step,)), {x: np.arange(4, dtype="float32")})
    np.testing.assert_array_equal(found, [9, 0, 1, 2, 3, 9])


def test_guard_on_the_left_skips_the_step():
    y = tensor("y", (3,), "int", "result")
    step = Statement(loops(i=9), (Store(y, at(guard(op("sub", i, 2))), "=", i),))
    (found,) = run(Formula(fills(y), (step,)), {})
    np.testing.assert_array_equal(found, [2, 3, 4])


@pytest.mark.parametrize(
    ("below", "above", "mode"),
    [
        (0, 4, "edge"),
        (op("sub", 2, i), op("sub", 10, i), "reflect"),
    ],
)
def test_remapped_index_pads(below, above, mode):
    x, y = tensor("x", (5,)), tensor("y", (9,), role="result")
    value = load(x, guard(op("sub", i, 2), below, above))
    step = Statement(loops(i=9), (Store(y, at(i), "=", value),))
    data = np.arange(10, 15, dtype="float32")
    (found,) = run(Formula(fills(y), (step,)), {x: data})
    np.testing.assert_array_equal(found, np.pad(data, 2, mode=mode))


def test_argmax_whose_condition_reads_the_result(random):
    x, y = tensor("x", (4, 6, 5)), tensor("y", (4, 5), "int", "result")
    better = op("gt", load(x, i, k, j), load(x, i, load(y, i, j), j))
    step = Statement(loops(i=4, k=6, j=5), (Store(y, at(i, j), "=", k),), (), better)
    data = random.integers(0, 3, x.shape).astype("float32")
    (found,) = run(Formula(fills(y), (step,)), {x: data})
    np.testing.assert_array_equal(found, data.argmax(axis=1))


def test_packed_step_reads_all_before_it_writes_any(random):
    x = tensor("x", (5, 7))
    rows, columns = (tensor(name, (), "int", "result") for name in "rc")
    better = op("gt", load(x, i, j), load(x, load(rows), load(columns)))
    pair = (Store(rows, (), "=", i), Store(columns, (), "=", j))
    step = Statement(loops(i=5, j=7), pair, (), better)
    data = random.standard_normal(x.shape).astype("float32")
    found = run(Formula(fills(rows, columns), (step,)), {x: data})
    assert tuple(map(int, found)) == np.unravel_index(data.argmax(), data.shape)


def test_swap_in_one_step():
    a, b = (tensor(name, (3,), "int", "result") for name in "ab")
    start = Statement(loops(i=3), (Store(a, at(i), "=", i), Store(b, at(i), "=", num(7))))
    swap = Statement(
        loops(i=3), (Store(a, at(i), "=", load(b, i)), Store(b, at(i), "=", load(a, i)))
    )
    found = run(Formula(fills(a, b), (start, swap)), {})
    np.testing.assert_array_equal(found, [[7, 7, 7], [0, 1, 2]])


def test_two_stores_to_one_tensor_keep_the_order_of_steps():
    # Step i writes i to item i, then -1 to item i + 1, which step i + 1 overwrites.
    y = tensor("y", (4,), "int", "result")
    pair = (Store(y, at(i), "=", i), Store(y, at(op("add", i, 1)), "=", num(-1)))
    (found,) = run(Formula(fills(y), (Statement(loops(i=3), pair),)), {})
    np.testing.assert_array_equal(found, [0, 1, 2, -1])


def test_scatter_last_write_wins(random):
    index, updates = tensor("index", (50,), "int"), tensor("updates", (50, 3))
    y = tensor("y", (6, 3), role="result")
    step = Statement(loops(i=50, j=3), (Store(y, at(load(index, i), j), "=", load(updates, i, j)),))
    where = random.integers(0, 6, 50).astype("int32")
    values = random.standard_normal((50, 3)).astype("float32")
    (found,) = run(Formula(fills(y), (step,)), {index: where, updates: values})
    expected = np.zeros((6, 3), "float32")
    for position, value in zip(where, values, strict=True):
        expected[position] = value
    np.testing.assert_array_equal(found, expected)


def test_assignment_without_the_loop_on_the_left_keeps_the_last_value():
    y = tensor("y", (), "int", "result")
    odd = op("eq", op("floormod", i, 2), 1)
    step = Statement(loops(i=50), (Store(y, (), "=", i),), (), odd)
    assert run(Formula(fills(y), (step,)), {})[0] == 49


def test_strided_scatter_adds_up_as_in_deconvolution(random):
    x, w, y = tensor("x", (5,)), tensor("w", (4,)), tensor("y", (11,), role="result")
    position = op("sub", op("add", op("mul", i, 2), j), 1)
    value = op("mul", load(x, i), load(w, j))
    step = Statement(loops(i=5, j=4), (Store(y, at(guard(position)), "+=", value),))
    a, b = (random.standard_normal(n).astype("float32") for n in (5, 4))
    (found,) = run(Formula(fills(y), (step,)), {x: a, w: b})
    spread = np.zeros(9)
    spread[::2] = a
    np.testing.assert_allclose(found, np.convolve(spread, b)[1:12], rtol=1e-4, atol=1e-6)


def test_cumulative_sum_reads_what_the_step_before_wrote(random):
    x, y = tensor("x", (8, 3)), tensor("y", (8, 3), role="result")
    first = Select(op("gt", i, 0), load(y, op("sub", i, 1), j), num(0.0))
    step = Statement(loops(i=8, j=3), (Store(y, at(i, j), "=", op("add", load(x, i, j), first)),))
    data = random.standard_normal((8, 3)).astype("float32")
    (found,) = run(Formula(fills(y), (step,)), {x: data})
    np.testing.assert_allclose(found, data.cumsum(axis=0), rtol=1e-5)


def test_loop_extent_that_depends_on_an_outer_loop():
    y = tensor("y", (6,), "int", "result")
    step = Statement((Loop(i, num(6)), Loop(j, op("mul", i, 2))), (Store(y, at(i), "+=", num(1)),))
    (found,) = run(Formula(fills(y), (step,)), {})
    np.testing.assert_array_equal(found, [0, 2, 4, 6, 8, 10])


def test_transpose_through_locals():
    x, y = tensor("x", (3, 4)), tensor("y", (4, 3), role="result")
    named = (Let("a", load(x, i, j)), Let("b", op("mul", Local("a", "real"), 2.0)))
    value = op("add", Local("a", "real"), Local("b", "real"))
    step = Statement(loops(i=3, j=4), (Store(y, at(j, i), "=", value),), named)
    data = np.arange(12, dtype="float32").reshape(3, 4)
    (found,) = run(Formula(fills(y), (step,)), {x: data})
    np.testing.assert_array_equal(found, 3 * data.T)


@pytest.mark.parametrize(
    "items", [(num(30), num(10), num(20)), (num(30), op("add", i, j), num(20))]
)
def test_lookup_of_a_pack_at_run_time(items):
    y = tensor("y", (6, 2), "int", "result")
    value = Lookup(items, op("floormod", i, 3))
    (found,) = run(
        Formula(fills(y), (Statement(loops(i=6, j=2), (Store(y, at(i, j), "=", value),)),)), {}
    )
    flat = [[30, 10, 20][n % 3] if items[1] == num(10) else [30, n, 20][n % 3] for n in range(6)]
    np.testing.assert_array_equal(found[:, 0], flat)


@pytest.mark.parametrize("extents", [{"i": 0, "j": 3}, {"i": 2, "j": 0}])
def test_empty_dimensions_leave_the_fill(extents):
    x, y = tensor("x", (0, 3)), tensor("y", (2,), role="result")
    step = Statement(loops(**extents), (Store(y, at(i), "+=", load(x, i, j)),))
    (found,) = run(Formula(fills(y, value=4.0), (step,)), {x: np.zeros((0, 3), "float32")})
    np.testing.assert_array_equal(found, [4, 4])


def test_empty_result():
    y = tensor("y", (0, 3), role="result")
    step = Statement(loops(i=0, j=3), (Store(y, at(i, j), "+=", num(1.0)),))
    assert run(Formula(fills(y), (step,)), {})[0].shape == (0, 3)


def test_rank_0_without_loops():
    x, y = tensor("x", ()), tensor("y", (), role="result")
    step = Statement((), (Store(y, (), "+=", load(x)),))
    (found,) = run(Formula(fills(y, value=2.0), (step,)), {x: np.float32(3)})
    assert found.shape == () and found == 5


@pytest.mark.parametrize(
    ("operator", "start", "expected"),
    [
        ("+=", 0, [6, 22, 38]),
        ("*=", 1, [0, 840, 7920]),
        ("min=", math.inf, [0, 4, 8]),
        ("max=", -math.inf, [3, 7, 11]),
    ],
)
def test_contractions_over_the_inner_and_over_the_outer_loop(operator, start, expected):
    y = tensor("y", (3,), "int", "result")
    value = op("add", op("mul", i, 4), j)
    fill = (Fill(y, Constant("int", start)),)
    for order in ({"i": 3, "j": 4}, {"j": 4, "i": 3}):
        step = Statement(loops(**order), (Store(y, at(i), operator, value),))
        (found,) = run(Formula(fill, (step,)), {})
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("operator", "expected"), [("&=", [0, 1]), ("|=", [0, 1])])
def test_logical_contractions(operator, expected):
    y = tensor("y", (2,), "bool", "result")
    value = op("eq", i, 1)
    step = Statement(loops(i=2, j=9), (Store(y, at(i), operator, value),))
    (found,) = run(Formula(fills(y, value=operator == "&="), (step,)), {})
    np.testing.assert_array_equal(found, expected)


def test_window_without_a_valid_cell_keeps_minus_infinity():
    x, y = tensor("x", (2,)), tensor("y", (4,), role="result")
    value = load(x, guard(op("sub", op("mul", i, 2), 3)))
    step = Statement(loops(i=4), (Store(y, at(i), "max=", value),))
    (found,) = run(Formula(fills(y, value=-math.inf), (step,)), {x: np.ones(2, "float32")})
    np.testing.assert_array_equal(found, [-math.inf, -math.inf, 1, -math.inf])


def test_infinite_int_fill_is_the_extreme_of_the_type():
    y = tensor("y", (2,), "int", "result")
    fill = (Fill(y, Constant("int", -math.inf)),)
    assert run(Formula(fill, ()), {})[0].tolist() == [-(2**31)] * 2
    wide = {**DTYPES, "int": np.dtype("int64")}
    assert run(Formula(fill, ()), {}, wide)[0].tolist() == [-(2**63)] * 2


def test_counting_adds_one_for_each_step_of_a_loop_that_nothing_reads():
    y = tensor("y", (2,), "int", "result")
    step = Statement(loops(i=2, j=5, k=3), (Store(y, at(i), "+=", num(1)),))
    assert run(Formula(fills(y), (step,)), {})[0].tolist() == [15, 15]


def test_only_the_chosen_branch_of_a_select_is_read():
    x, y = tensor("x", (3,)), tensor("y", (5,), role="result")
    value = Select(op("lt", i, 3), load(x, i), num(-1.0))
    step = Statement(loops(i=5), (Store(y, at(i), "=", value),))
    (found,) = run(Formula(fills(y), (step,)), {x: np.ones(3, "float32")})
    np.testing.assert_array_equal(found, [1, 1, 1, -1, -1])


def test_condition_protects_the_accesses_of_a_step():
    x, y = tensor("x", (3,)), tensor("y", (3,), role="result")
    step = Statement(loops(i=5), (Store(y, at(i), "=", load(x, i)),), (), op("lt", i, 3))
    (found,) = run(Formula(fills(y), (step,)), {x: np.ones(3, "float32")})
    np.testing.assert_array_equal(found, [1, 1, 1])


def test_and_protects_its_second_operand():
    x, y = tensor("x", (3,)), tensor("y", (5,), "bool", "result")
    value = op("and", op("lt", i, 3), op("gt", load(x, i), 0.0))
    step = Statement(loops(i=5), (Store(y, at(i), "=", value),))
    (found,) = run(Formula(fills(y), (step,)), {x: np.ones(3, "float32")})
    np.testing.assert_array_equal(found, [1, 1, 1, 0, 0])


@pytest.mark.parametrize(
    ("store", "value"),
    [
        ((i,), lambda x, y: load(x, op("sub", i, 1))),
        ((i,), lambda x, y: load(x, op("add", i, 1))),
        ((op("add", i, 1),), lambda x, y: num(1.0)),
        ((i,), lambda x, y: load(x, guard(op("sub", i, 1), -1, 0))),
        ((i,), lambda x, y: Lookup((num(1.0), num(2.0)), i)),
    ],
)
def test_what_is_out_of_bounds_and_not_guarded_is_an_error(store, value):
    x, y = tensor("x", (3,)), tensor("y", (3,), role="result")
    step = Statement(loops(i=3), (Store(y, at(*store), "=", value(x, y)),))
    with pytest.raises(OutOfBounds, match="out of bounds"):
        run(Formula(fills(y), (step,)), {x: np.ones(3, "float32")})


def test_int_arithmetic_wraps_at_32_bits():
    x, y = tensor("x", (1,), "int"), tensor("y", (1,), "int", "result")
    step = Statement(loops(i=1), (Store(y, at(i), "=", op("mul", load(x, i), load(x, i))),))
    formula = Formula(fills(y), (step,))
    data = np.array([70000], "int32")
    assert run(formula, {x: data})[0].tolist() == [70000**2 - 2**32]
    wide = {**DTYPES, "int": np.dtype("int64")}
    assert run(formula, {x: data}, wide)[0].tolist() == [70000**2]


def test_narrow_operands_are_widened_before_they_are_added():
    x, y = tensor("x", (300,), "int"), tensor("y", (), "int", "result")
    step = Statement(loops(i=300), (Store(y, (), "+=", load(x, i)),))
    assert run(Formula(fills(y), (step,)), {x: np.full(300, 127, "int8")})[0] == 38100


def test_casts_of_a_formula():
    x, y = tensor("x", (4,)), tensor("y", (4,), "int", "result")
    step = Statement(loops(i=4), (Store(y, at(i), "=", Cast("int", load(x, i))),))
    data = np.array([2.7, -2.7, math.inf, math.nan], "float32")
    assert run(Formula(fills(y), (step,)), {x: data})[0].tolist() == [2, -2, 2**31 - 1, 0]
