"""Symbols in what is lowered: intervals, positions, kernels, functions, and operators of users."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax

import tvm_nnef
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.check_failure import CheckFailure
from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Fill,
    Formula,
    Index,
    Load,
    Loop,
    Statement,
    Store,
    Subscript,
    Unary,
)
from tvm_nnef.graph.intervals import interval, ranges_of, within
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.index_maps import position_of
from tvm_nnef.lower.symbols import untold
from tvm_nnef.reference import evaluate
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.tvm_support.function_attributes import SIZE_ESTIMATES

S, T = dimensions.symbol("s"), dimensions.symbol("t")


def number(value) -> Constant:
    return Constant("int", value)


def statement(**loops) -> Statement:
    return Statement(tuple(Loop(Index(n), number(e)) for n, e in loops.items()), ())


LOOPS = {"i": S, "j": dimensions.add(dimensions.mul(S, 2), T), "k": 3}
leaves = st.one_of(
    st.integers(-3, 3).map(number),
    st.sampled_from([number(S), number(T), *map(Index, LOOPS)]),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner),
        st.builds(Unary, st.just("neg"), inner),
        st.builds(lambda x, d: Binary("floordiv", x, number(d)), inner, st.integers(1, 4)),
        st.builds(lambda x, d: Binary("floormod", x, number(d)), inner, st.integers(1, 4)),
    ),
    max_leaves=4,
)
FUNCTIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "min": min, "max": max, "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b,
}  # fmt: skip


def value(scalar, indices, symbols) -> int:
    match scalar:
        case Constant(_, found):
            return trees.evaluate(found, symbols)
        case Index(name):
            return indices[name]
        case Unary(_, operand):
            return -value(operand, indices, symbols)
        case Binary(function, left, right):
            return FUNCTIONS[function](*(value(e, indices, symbols) for e in (left, right)))


@settings(max_examples=40, deadline=None)
@given(expressions, st.integers(0, 3), st.integers(0, 3))
def test_an_interval_holds_every_value_at_every_size(scalar, s, t) -> None:
    symbols = {"s": s, "t": t}
    known = interval(scalar, ranges_of(statement(**LOOPS)))
    if known is None:
        return
    low, high = (trees.evaluate(end, symbols) for end in known)
    steps = [range(trees.evaluate(extent, symbols)) for extent in LOOPS.values()]
    for indices in itertools.product(*steps):
        found = value(scalar, dict(zip(LOOPS, indices, strict=True)), symbols)
        assert low <= found <= high


@pytest.mark.parametrize(
    ("scalar", "extent", "expected"),
    [
        (Index("i"), S, True),
        (Binary("add", Index("i"), number(1)), S, False),
        (Binary("add", Index("i"), number(1)), dimensions.add(S, 1), True),
        (Binary("sub", Index("i"), number(1)), S, False),
        (Binary("mul", Index("i"), number(2)), dimensions.mul(S, 2), True),
    ],
)
def test_what_is_certainly_in_bounds(scalar, extent, expected) -> None:
    assert within(interval(scalar, ranges_of(statement(i=S))), extent) is expected


def test_the_digits_of_a_position_may_be_symbols() -> None:
    row = Binary("add", Binary("mul", Index("i"), number(S)), Index("j"))
    found = position_of(row, statement(i=3, j=S))
    assert found is not None
    assert [(term.index, trees.text(term.coefficient)) for term in found.terms] == [
        ("i", "s"),
        ("j", "1"),
    ]
    assert position_of(row, statement(i=3, j=T)) is None
    assert position_of(Binary("add", Index("i"), Index("j")), statement(i=S, j=S)) is None


def test_a_kernel_takes_the_symbols_that_no_shape_has() -> None:
    twice = dimensions.mul(S, 2)
    assert untold([(twice, 3)]) == [S]
    assert untold([(twice, S), (3,)], [T, 1.5, True]) == [T]


TEXT = """import math;
operator pick { @input { x: real[s]; } @output { y: real[~|4]; } }
graph G {
  @input { x: real[n|10]; }
  @output { z: real[~]; }
  @compose { y = pick(x); z = math.neg(y); }
}
"""


def first(count):
    """A user's function that gives the first items, of a shape that Relax does not know."""

    def lowering(builder, operation, operands):
        begin, end, step = (relax.const(np.array([n], "int64"), "int64") for n in (0, count, 1))
        return relax.op.dynamic_strided_slice(operands[0], begin, end, step)

    return lowering


def test_a_users_function_may_decide_a_dimension() -> None:
    executable = tvm_nnef.build(TEXT, lowerings={"main.pick": first(3)}, progress=False)
    for size in (2, 10):
        x = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(executable(x)[0], -x[:3])


def test_what_a_users_function_decides_is_within_its_bound() -> None:
    executable = tvm_nnef.build(TEXT, lowerings={"main.pick": first(6)}, progress=False)
    assert len(executable(np.ones(4, "float32"))[0]) == 4
    with pytest.raises(NnefError, match=r"dimension y_0 = 6 is beyond its bound 4"):
        executable(np.ones(7, "float32"))


PAIR = """import math;
operator pick { @input { x: real[s]; } @output { y: real[k|8]; z: real[k|8, 2 * k]; } }
graph G {
  @input { x: real[n|10]; }
  @output { a: real[~]; b: real[~,~]; }
  @compose { y, z = pick(x); a = math.neg(y); b = math.neg(z); }
}
"""


def of_sizes(*sizes):
    """A user's function that gives ones in two tensors, of shapes that Relax does not know."""

    def lowering(builder, operation, operands):
        def ones(size):
            whole = relax.const(np.ones([20] * len(size), "float32"), "float32")
            ends = [[0] * len(size), size, [1] * len(size)]
            begin, end, step = (relax.const(np.array(each, "int64"), "int64") for each in ends)
            return relax.op.dynamic_strided_slice(whole, begin, end, step)

        return tuple(map(ones, sizes))

    return lowering


@pytest.mark.slow
def test_all_that_a_users_function_decides_agrees() -> None:
    def built(*sizes):
        return tvm_nnef.build(PAIR, lowerings={"main.pick": of_sizes(*sizes)}, progress=False)

    x = np.ones(10, "float32")
    assert [array.shape for array in built([3], [3, 6])(x)] == [(3,), (3, 6)]
    with pytest.raises(NnefError, match=r"'main\.G\.z': dimension k is 3, not 4"):
        built([3], [4, 6])(x)
    with pytest.raises(NnefError, match=r"'main\.G\.z': dimension k \* 2 is 6, not 5"):
        built([3], [3, 5])(x)


def test_every_function_has_symbols_of_its_own_and_knows_their_bounds() -> None:
    text = """import math;
    graph G {
      @input { x: real[s|10]; c: bool[]; }
      @output { z: real[s]; }
      @compose { z = if c then math.neg(x) else math.exp(x); }
    }
    """
    module = tvm_nnef.from_nnef(text)
    functions = [f for f in module.functions.values() if isinstance(f, relax.Function)]
    assert len(functions) == 4
    symbols = [
        symbol
        for function in functions
        for symbol in dict.fromkeys(
            extent
            for parameter in function.params
            if isinstance(parameter.ty, relax.TensorType)
            for extent in parameter.ty.shape
        )
    ]
    assert len(set(symbols)) == len(functions)
    assert all(dict(function.attrs[SIZE_ESTIMATES]) == {"s": 10} for function in functions)
    relax.analysis.well_formed(module)


def test_only_errors_of_checks_are_read_as_such() -> None:
    problem = TypeError('false: ["nnef check","a.sknd:1:2","n is ",5] expect a [Shape]')
    assert CheckFailure.of(problem) == CheckFailure("n is 5", "a.sknd:1:2")
    assert CheckFailure.of(TypeError("something else")) is None
    kept = CheckFailure("'x' has \"quotes\" and ]")
    assert CheckFailure.of(ValueError(kept.to_json())) == kept


A, B = (dimensions.symbol(name) for name in "ab")
EXTENTS = [A, B, dimensions.add(A, 1), dimensions.mul(A, B), dimensions.mul(B, 2), 3]


@st.composite
def index_scalars(draw):
    scalar = Index(draw(st.sampled_from("ijk")))
    for _ in range(draw(st.integers(0, 2))):
        function = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "floormod", "min"]))
        other = Constant("int", draw(st.sampled_from([1, 2, 3, A, B, dimensions.add(A, 1)])))
        if function in ("add", "sub") and draw(st.booleans()):
            other = Index(draw(st.sampled_from("ijk")))
        scalar = Binary(function, scalar, other)
    return scalar


@st.composite
def formulas(draw):
    """A formula over ``x``, all of whose dimensions, and some of whose numbers, are symbols."""
    shapes = [tuple(draw(st.sampled_from(EXTENTS)) for _ in range(2)) for _ in range(2)]
    x = Tensor("main.G.x", "int", shapes[0], "input")
    y = Tensor("main.G.y", "int", shapes[1], "result")

    def subscript() -> Subscript:
        if draw(st.booleans()):
            return Subscript(draw(index_scalars()), True)
        return Subscript(draw(index_scalars()), True, number(0), number(0))

    statements = []
    for operator in draw(
        st.lists(st.sampled_from(["=", "+=", "max=", "min="]), min_size=1, max_size=2)
    ):
        loops = tuple(Loop(Index(name), number(draw(st.sampled_from(EXTENTS)))) for name in "ijk")
        taken = Load(x, (subscript(), subscript()))
        condition = Binary("ne", draw(index_scalars()), number(1)) if draw(st.booleans()) else None
        positions = tuple(Subscript(draw(index_scalars()), True) for _ in range(2))
        statements.append(Statement(loops, (Store(y, positions, operator, taken),), (), condition))
    first = number(draw(st.sampled_from([0, 2, A])))
    return x, y, Formula((Fill(y, first),), tuple(statements))


@pytest.mark.slow
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(formulas())
def test_random_formulas_give_at_every_size_what_the_evaluator_gives(make, made) -> None:
    x, y, formula = made
    tell = [Tensor(f"main.G.{s.name}", "int", (s,), "input") for s in (A, B)]
    node = make.operation("test.formula", [x], [y], formula)
    graph = replace(make.graph([node], [*tell, x], [y]), bounds={"a": 4, "b": 4})
    executable = make.compiled(graph)
    for a, b in ((0, 0), (1, 1), (3, 2), (2, 4), (0, 3), (4, 0)):
        shape = [trees.evaluate(extent, {"a": a, "b": b}) for extent in x.shape]
        data = np.arange(np.prod(shape), dtype="int32").reshape(shape) - 2
        inputs = [np.zeros(a, "int32"), np.zeros(b, "int32"), data]
        try:
            (expected,) = evaluate(graph, inputs, {})
        except NnefError:
            continue  # it reads below or above an empty tensor
        np.testing.assert_array_equal(executable(*inputs)[0], expected, err_msg=f"{a}, {b}")


def test_a_division_by_a_symbol_traps_nowhere(make) -> None:
    extent = dimensions.mul(A, B)
    x = Tensor("main.G.x", "int", (A, extent), "input")
    y = Tensor("main.G.y", "int", (extent, B), "result")
    i, j, k = map(Index, "ijk")
    loops = (Loop(i, number(A)), Loop(j, number(dimensions.add(A, 1))), Loop(k, number(extent)))
    taken = Load(x, (Subscript(j, True), Subscript(i, True, number(0), number(0))))
    store = Store(y, (Subscript(i, True), Subscript(k, True)), "=", taken)
    quotient = Binary("floordiv", i, number(B))
    stated = Statement(loops, (store,), (), Binary("ne", quotient, number(1)))
    tell = [Tensor(f"main.G.{s.name}", "int", (s,), "input") for s in (A, B)]
    node = make.operation("test.formula", [x], [y], Formula((Fill(y, number(2)),), (stated,)))
    graph = replace(make.graph([node], [*tell, x], [y]), bounds={"a": 4, "b": 4})
    inputs = [np.zeros(extent, "int32") for extent in (4, 0, (4, 0))]
    assert make.compiled(graph)(*inputs)[0].shape == (0, 0)
