"""Formulas compiled against NumPy and against a naive interpreter that takes one step at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    Scalar,
    Select,
    Statement,
    Store,
    Subscript,
    Unary,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.formula import is_plain

pytestmark = pytest.mark.sampled(3)

RNG = np.random.default_rng(7)


def real(value: float) -> Constant:
    return Constant("real", value)


def integer(value: float) -> Constant:
    return Constant("int", value)


def at(*indices: Scalar, guarded: bool = False) -> tuple[Subscript, ...]:
    return tuple(Subscript(index, guarded) for index in indices)


def loops(**extents: int) -> tuple[Loop, ...]:
    return tuple(Loop(Index(name), integer(extent)) for name, extent in extents.items())


def result(shape: tuple[int, ...], kind: str = "real", name: str = "y") -> Tensor:
    return Tensor(f"main.G.{name}", kind, shape, "result")


def operand(shape: tuple[int, ...], kind: str = "real", name: str = "x") -> Tensor:
    return Tensor(f"main.G.{name}", kind, shape, "input")


N, M = Index("i"), Index("j")


def conv1d(stride: int, dilation: int, offset: int, extent: int, size: int, out: int) -> Formula:
    x, w, y = operand((extent,)), operand((size,), name="w"), result((out,))
    position = Binary("sub", Binary("add", Binary("mul", integer(stride), N),
                                 Binary("mul", integer(dilation), M)), integer(offset))  # fmt: skip
    value = Binary("mul", Load(x, at(position, guarded=True)), Load(w, at(M)))
    step = Statement(loops(i=out, j=size), (Store(y, at(N), "+=", value),))
    return Formula((Fill(y, real(0.5)),), (step,))


def operands_of(formula: Formula, ints: int = 5) -> dict[Tensor, np.ndarray]:
    from tvm_nnef.graph.formula import loads

    made = {fill.tensor for fill in formula.fills}
    found = {}
    for statement in formula.statements:
        for load in loads(statement):
            if load.tensor not in made and load.tensor not in found:
                shape = load.tensor.shape
                found[load.tensor] = {
                    "real": lambda s=shape: RNG.standard_normal(s).astype("float32"),
                    "int": lambda s=shape: RNG.integers(-ints, ints + 1, s).astype("int32"),
                    "bool": lambda s=shape: RNG.integers(0, 2, s).astype(bool),
                }[load.tensor.type]()
    return found


def check(make, formula: Formula, operands=None, **options) -> None:
    operands = operands_of(formula) if operands is None else operands
    expected = make.naive(formula, operands)
    for scheduled in (True, False):
        found = make.run_formula(formula, operands, scheduled=scheduled, **options)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other.astype(one.dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("stride", "dilation", "offset", "extent", "size", "out"),
    [(1, 1, 1, 7, 3, 7), (2, 1, 0, 9, 3, 5), (3, 2, 4, 11, 3, 7), (1, 1, 20, 3, 2, 25),
     (1, 1, -2, 3, 2, 3), (1, 1, 0, 1, 1, 1)],
)  # fmt: skip
def test_guarded_convolution_skips_what_lies_outside(
    make, stride, dilation, offset, extent, size, out
):
    formula = conv1d(stride, dilation, offset, extent, size, out)
    assert is_plain(formula)
    check(make, formula)


def test_padding_does_not_change_a_maximum_of_negative_numbers(make):
    x, y = operand((5,)), result((7,))
    position = Binary("add", N, Binary("sub", M, integer(2)))
    step = Statement(
        loops(i=7, j=3), (Store(y, at(N), "max=", Load(x, at(position, guarded=True))),)
    )
    formula = Formula((Fill(y, real(-np.inf)),), (step,))
    data = {x: -1.0 - RNG.random(5).astype("float32")}
    (found,) = make.run_formula(formula, data)
    np.testing.assert_array_equal(found, make.naive(formula, data)[0].astype("float32"))


def test_guarded_assignment_keeps_the_old_value(make):
    x, y = operand((3,)), result((6,))
    shifted = Load(x, at(Binary("sub", N, integer(2)), guarded=True))
    formula = Formula(
        (Fill(y, real(9.0)),), (Statement(loops(i=6), (Store(y, at(N), "=", shifted),)),)
    )
    (found,) = make.run_formula(formula, {x: np.array([1, 2, 3], "float32")})
    np.testing.assert_array_equal(found, [9, 9, 1, 2, 3, 9])


def test_remapped_index_replicates_the_border(make):
    x, y = operand((3,)), result((7,))
    index = Subscript(Binary("sub", N, integer(2)), True, integer(0), integer(2))
    step = Statement(loops(i=7), (Store(y, at(N), "=", Load(x, (index,))),))
    (found,) = make.run_formula(
        Formula((Fill(y, real(0.0)),), (step,)), {x: np.array([1, 2, 3], "float32")}
    )
    np.testing.assert_array_equal(found, [1, 1, 1, 2, 3, 3, 3])


def test_computed_left_sides_that_can_be_turned_around_are_plain(make):
    x, y = operand((2, 3)), result((3, 12))
    grouped = Binary("add", Binary("mul", N, integer(4)), M)
    value = Load(x, at(N, M))
    steps = (
        Statement(
            loops(i=2, j=3),
            (Store(y, at(integer(1), Binary("add", grouped, integer(2))), "=", value),),
        ),
        Statement(loops(i=2, j=3, k=5), (Store(y, at(integer(2), grouped), "+=", value),)),
    )
    formula = Formula((Fill(y, real(-1.0)),), steps)
    assert is_plain(formula)
    check(make, formula)


def test_scatter_runs_in_order_so_that_the_last_write_counts(make):
    x, index, y = operand((6,)), operand((6,), "int", "index"), result((4,))
    position = Load(index, at(N))
    formula = Formula(
        (Fill(y, real(0.0)),),
        (Statement(loops(i=6), (Store(y, at(position), "=", Load(x, at(N))),)),),
    )
    assert not is_plain(formula)
    positions = np.array([3, 0, 3, 2, 0, 3], "int32")
    check(make, formula, {x: RNG.standard_normal(6).astype("float32"), index: positions})


def test_condition_that_reads_the_output_gives_the_first_maximum(make):
    x, y = operand((4, 9)), result((4,), "int")
    best = Load(x, at(N, Load(y, at(N))))
    step = Statement(
        loops(i=4, j=9),
        (Store(y, at(N), "=", M),),
        condition=Binary("gt", Load(x, at(N, M)), best),
    )
    formula = Formula((Fill(y, integer(0)),), (step,))
    data = RNG.integers(0, 4, (4, 9)).astype("float32")
    (found,) = make.run_formula(formula, {x: data})
    np.testing.assert_array_equal(found, data.argmax(1))


def test_packed_step_reads_everything_before_it_writes(make):
    a, b, x = result((3,)), result((3,), name="b"), operand((3,))
    first = Statement(loops(i=3), (Store(a, at(N), "=", Load(x, at(N))),))
    swap = Statement(
        loops(i=3),
        (
            Store(a, at(N), "=", Binary("add", Load(b, at(N)), real(1.0))),
            Store(b, at(N), "=", Load(a, at(N))),
        ),
    )
    formula = Formula((Fill(a, real(0.0)), Fill(b, real(5.0))), (first, swap))
    check(make, formula)


def test_packed_steps_that_read_what_the_steps_before_wrote(make):
    a, b, x = result((3, 9)), result((3, 9), name="b"), operand((3, 9))
    first = Statement(
        loops(i=3, j=9), tuple(Store(each, at(N, M), "=", Load(x, at(N, M))) for each in (a, b))
    )
    after = at(N, Binary("add", M, integer(1)))
    step = Statement(
        loops(i=3, j=8),
        (
            Store(a, after, "+=", Load(b, at(N, M))),
            Store(b, after, "+=", Binary("mul", real(0.5), Load(a, at(N, M)))),
        ),
    )
    check(make, Formula((Fill(a, real(0.0)), Fill(b, real(0.0))), (first, step)))


def test_loop_extents_may_depend_on_outer_indices(make):
    x, y = operand((5,)), result((5,))
    triangle = (Loop(N, integer(5)), Loop(M, Binary("add", N, integer(1))))
    step = Statement(triangle, (Store(y, at(N), "+=", Load(x, at(M))),))
    formula = Formula((Fill(y, real(0.0)),), (step,))
    data = RNG.standard_normal(5).astype("float32")
    (found,) = make.run_formula(formula, {x: data})
    np.testing.assert_allclose(found, data.cumsum(), rtol=1e-5)


def test_locals_lookups_and_selects(make):
    x, y = operand((20,)), result((20,))
    table = Lookup(tuple(real(n * n) for n in range(20)), N)
    short = Lookup((real(0.5), Load(x, at(N)), real(2.0)), Binary("floormod", N, integer(3)))
    value = Select(Binary("gt", Local("t", "real"), real(50.0)), Local("t", "real"), short)
    step = Statement(loops(i=20), (Store(y, at(N), "=", value),), (Let("t", table),))
    check(make, Formula((Fill(y, real(0.0)),), (step,)))


def test_data_dependent_index_never_reads_outside(make):
    x, index, y = operand((3,)), operand((4,), "int", "index"), result((4,))
    step = Statement(loops(i=4), (Store(y, at(N), "=", Load(x, at(Load(index, at(N))))),))
    wild = np.array([-(2**30), 1, 2, 2**30], "int32")
    (found,) = make.run_formula(
        Formula((Fill(y, real(0.0)),), (step,)), {x: np.array([1, 2, 3], "float32"), index: wild}
    )
    np.testing.assert_array_equal(found, [1, 2, 3, 3])


@pytest.mark.parametrize("operator", ["&=", "|="])
def test_logical_reductions(make, operator):
    x, y = operand((6, 3), "bool"), result((6,), "bool")
    step = Statement(loops(i=6, j=3), (Store(y, at(N), operator, Load(x, at(N, M))),))
    check(make, Formula((Fill(y, Constant("bool", operator == "&=")),), (step,)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), ()])
def test_empty_and_scalar_results(make, shape):
    x, y = operand(shape), result(shape)
    names = "ijk"[: len(shape)]
    indices = [Index(name) for name in names]
    value = Binary("mul", Load(x, at(*indices)), real(2.0))
    step = Statement(
        loops(**dict(zip(names, shape, strict=True))), (Store(y, at(*indices), "=", value),)
    )
    check(make, Formula((Fill(y, real(1.0)),), (step,)))


def test_reduction_over_nothing_leaves_the_fill(make):
    x, y = operand((3, 0)), result((3,))
    step = Statement(loops(i=3, j=0), (Store(y, at(N), "+=", Load(x, at(N, M))),))
    (found,) = make.run_formula(
        Formula((Fill(y, real(4.0)),), (step,)), {x: np.zeros((3, 0), "float32")}
    )
    np.testing.assert_array_equal(found, [4, 4, 4])


INTS = np.array([-(2**31), -7, -6, -1, 0, 1, 6, 7, 2**31 - 1], "int32")


@pytest.mark.parametrize(
    "function", ["floordiv", "ceildiv", "truncdiv", "awaydiv", "floormod", "truncmod"]
)
@pytest.mark.parametrize("divisor", [None, 3, -3, -1, 0])
def test_integer_division_rounds_as_named_and_never_traps(make, function, divisor):
    x, d, y = operand((81,), "int"), operand((81,), "int", "d"), result((81,), "int")
    left, right = (grid.reshape(-1) for grid in np.meshgrid(INTS, INTS))
    by = Load(d, at(N)) if divisor is None else integer(divisor)
    value = Binary(function, Load(x, at(N)), by)
    step = Statement(loops(i=81), (Store(y, at(N), "=", value),))
    formula = Formula((Fill(y, integer(0)),), (step,))
    operands = {x: left} if divisor is not None else {x: left, d: right}
    expected = make.naive(formula, {t: a.astype(object) for t, a in operands.items()})[0]
    (found,) = make.run_formula(formula, operands)
    np.testing.assert_array_equal(found, expected.astype("int64").astype("int32"))


def test_divisions_nested_in_divisors_build_and_never_trap(make):
    """Written out again at each level, these would not build."""
    x, d, y = operand((81,), "int"), operand((81,), "int", "d"), result((81,), "int")
    left, right = (grid.reshape(-1) for grid in np.meshgrid(INTS, INTS))
    value = Load(d, at(N))
    for function in ("floormod", "truncdiv", "floordiv", "truncmod", "floordiv"):
        value = Binary(function, Load(x, at(N)), value)
    formula = Formula(
        (Fill(y, integer(0)),), (Statement(loops(i=81), (Store(y, at(N), "=", value),)),)
    )
    operands = {x: left, d: right}
    expected = make.naive(formula, {t: a.astype(object) for t, a in operands.items()})[0]
    (found,) = make.run_formula(formula, operands)
    np.testing.assert_array_equal(found, expected.astype("int64").astype("int32"))


REALS = np.array([-2.5, -1.5, -0.5, -0.49999997, 0.0, 0.25, 0.49999997, 0.5, 1.5, 2.5, 1e9])


@pytest.mark.parametrize(
    ("function", "data"),
    [(name, REALS) for name in ("neg", "abs", "sign", "round", "frac", "floor", "ceil", "erf",
                                "sin", "cos", "tan", "atan", "tanh", "asinh")]
    + [(name, np.linspace(-0.9, 0.9, 8)) for name in ("asin", "acos", "atanh", "sinh", "cosh",
                                                      "exp")]
    + [(name, np.linspace(1.0, 9.0, 8)) for name in ("sqrt", "log", "acosh")],
)  # fmt: skip
def test_real_functions(make, function, data):
    x, y = operand(data.shape), result(data.shape)
    step = Statement(loops(i=len(data)), (Store(y, at(N), "=", Unary(function, Load(x, at(N)))),))
    formula = Formula((Fill(y, real(0.0)),), (step,))
    narrow = data.astype("float32")
    expected = make.naive(formula, {x: narrow.astype("float64")})[0].astype("float32")
    (found,) = make.run_formula(formula, {x: narrow})
    tolerance = 1e-3 if function in ("tan", "sin", "cos") else 2e-6
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize(
    "function", ["add", "sub", "mul", "min", "max", "div", "realceildiv", "fmod", "pow"]
)
def test_functions_of_two_reals(make, function):
    x, z, y = operand((50,)), operand((50,), name="z"), result((50,))
    step = Statement(
        loops(i=50),
        (Store(y, at(N), "=", Binary(function, Load(x, at(N)), Load(z, at(N)))),),
    )
    data = {t: (RNG.random(50) * 3 + 0.5).astype("float32") for t in (x, z)}
    check(make, Formula((Fill(y, real(0.0)),), (step,)), data)


@pytest.mark.parametrize(
    ("kind", "function"),
    [(kind, function) for kind in ("real", "int") for function in ("eq", "ne", "lt", "ge")]
    + [("bool", function) for function in ("eq", "ne", "and", "or", "xor")],
)
def test_truth_values(make, kind, function):
    x, z, y = operand((40,), kind), operand((40,), kind, "z"), result((40,), "bool")
    step = Statement(
        loops(i=40),
        (Store(y, at(N), "=", Binary(function, Load(x, at(N)), Load(z, at(N)))),),
    )
    data = {t: RNG.integers(0, 2, 40).astype({"real": "float32", "int": "int32"}.get(kind, kind))
            for t in (x, z)}  # fmt: skip
    check(make, Formula((Fill(y, Constant("bool", False)),), (step,)), data)


@pytest.mark.parametrize("exponent", [None, 0, 1, 3, 9, -1, -2])
def test_integer_powers_truncate_toward_zero(make, exponent):
    bases = np.array([-3, -2, -1, 0, 1, 2, 3, 10], "int32")
    x, e, y = operand((64,), "int"), operand((64,), "int", "e"), result((64,), "int")
    left = np.repeat(bases, 8)
    right = np.tile(np.array([-2, -1, 0, 1, 2, 5, 8, 9], "int32"), 8)
    power = Load(e, at(N)) if exponent is None else integer(exponent)
    step = Statement(loops(i=64), (Store(y, at(N), "=", Binary("pow", Load(x, at(N)), power)),))
    operands = {x: left} | ({e: right} if exponent is None else {})
    powers = right if exponent is None else np.full(64, exponent)
    expected = [
        int(a) ** int(b) if b >= 0 else (int(a) ** -int(b) if abs(a) == 1 else 0)
        for a, b in zip(left, powers, strict=True)
    ]
    (found,) = make.run_formula(Formula((Fill(y, integer(0)),), (step,)), operands)
    np.testing.assert_array_equal(found, expected)


def test_conversions_truncate_and_saturate(make):
    x, y = operand((8,)), result((8,), "int")
    data = np.array([-1.9, 1.9, np.nan, np.inf, -np.inf, 3e9, -3e9, 2147483520.0], "float32")
    step = Statement(loops(i=8), (Store(y, at(N), "=", Cast("int", Load(x, at(N)))),))
    (found,) = make.run_formula(Formula((Fill(y, integer(0)),), (step,)), {x: data})
    largest, least = 2**31 - 1, -(2**31)
    np.testing.assert_array_equal(found, [-1, 1, 0, largest, least, largest, least, 2147483520])


def test_float16_is_computed_in_float32_and_narrowed_once(make):
    x, y = operand((2048,)), result(())
    step = Statement(loops(i=2048), (Store(y, (), "+=", Load(x, at(N))),))
    data = np.ones(2048, "float16") * np.float16(1.001)
    (found,) = make.run_formula(
        Formula((Fill(y, real(0.0)),), (step,)), {x: data}, named={y.name: "float16"}
    )
    # Summed in float16, the total would stick at 2048.
    assert found.dtype == np.float16
    assert found == np.float16(data.astype("float32").sum())


@pytest.mark.parametrize("scheduled", [True, False])
def test_int8_wraps_once_on_store(make, scheduled):
    x, y = operand((4,), "int"), result((4,), "int")
    value = Binary("floordiv", Binary("mul", Load(x, at(N)), integer(4)), integer(2))
    step = Statement(loops(i=4), (Store(y, at(N), "=", value),))
    data = np.array([-100, -1, 50, 100], "int8")
    (found,) = make.run_formula(
        Formula((Fill(y, integer(0)),), (step,)),
        {x: data},
        named={y.name: "int8"},
        scheduled=scheduled,
    )
    np.testing.assert_array_equal(found, (data.astype(int) * 2).astype("int8"))


def test_narrow_maximum_of_nothing_is_the_least_int8(make):
    x, y = operand((2, 3), "int"), result((2,), "int")
    position = Binary("sub", M, integer(9))
    step = Statement(
        loops(i=2, j=3),
        (Store(y, at(N), "max=", Load(x, (Subscript(N), Subscript(position, True)))),),
    )
    (found,) = make.run_formula(
        Formula((Fill(y, integer(-np.inf)),), (step,)),
        {x: np.zeros((2, 3), "int8")},
        named={y.name: "int8"},
    )
    np.testing.assert_array_equal(found, [-128, -128])


@st.composite
def index_scalars(draw, names: tuple[str, ...]) -> Scalar:
    scalar: Scalar = Index(draw(st.sampled_from(names)))
    for _ in range(draw(st.integers(0, 2))):
        function = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "floormod", "min"]))
        other: Scalar = integer(draw(st.integers(1, 3)))
        if draw(st.booleans()) and function in ("add", "sub"):
            other = Index(draw(st.sampled_from(names)))
        scalar = Binary(function, scalar, other)
    return scalar


@st.composite
def formulas(draw) -> Formula:
    extents = {name: draw(st.integers(1, 4)) for name in "ijk"}
    x = operand((draw(st.integers(1, 5)), draw(st.integers(1, 5))), "int")
    y = result((draw(st.integers(1, 6)), draw(st.integers(1, 6))), "int")
    scalar = index_scalars(("i", "j", "k"))

    def subscript() -> Subscript:
        if draw(st.booleans()):
            return Subscript(draw(scalar), True)
        return Subscript(draw(scalar), True, integer(0), integer(0))

    statements = []
    for operator in draw(st.lists(st.sampled_from(["=", "+=", "max=", "min="]), min_size=1,
                                  max_size=2)):  # fmt: skip
        value: Scalar = Load(x, (subscript(), subscript()))
        if draw(st.booleans()):
            value = Select(Binary("lt", draw(scalar), integer(2)), value, draw(scalar))
        condition = Binary("ne", draw(scalar), integer(1)) if draw(st.booleans()) else None
        positions = tuple(Subscript(draw(scalar), True) for _ in range(2))
        store = Store(y, positions, operator, value)
        statements.append(Statement(loops(**extents), (store,), (), condition))
    return Formula((Fill(y, integer(draw(st.integers(-3, 3)))),), tuple(statements))


@pytest.mark.slow
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(formula=formulas())
def test_random_formulas_give_what_one_step_after_the_other_gives(make, formula):
    operands = operands_of(formula)
    expected = make.naive(formula, operands)[0]
    (found,) = make.run_formula(formula, operands)
    np.testing.assert_array_equal(found, expected.astype("int32"))
