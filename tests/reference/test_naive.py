"""Random formulas: the evaluator's blocks give what one step after the other gives in Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
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
    Select,
    Statement,
    Store,
    Subscript,
    Unary,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.reference import formulas
from tvm_nnef.reference.scalars import Block

DTYPES = {"real": np.dtype("float32"), "int": np.dtype("int32"), "bool": np.dtype("bool")}

INT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b if b else 0,
    "ceildiv": lambda a, b: -(-a // b) if b else 0,
    "truncdiv": lambda a, b: math.trunc(a / b) if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
}
TEST = {
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
}
STORE = {
    "=": lambda a, b: b,
    "+=": INT["add"],
    "*=": INT["mul"],
    "min=": min,
    "max=": max,
}


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


class SkipStep(Exception):
    """A guarded index is out of bounds."""


class Naive:
    """A step of a statement at a time, scalars in plain Python."""

    def __init__(self, formula, arrays):
        self.arrays = {tensor: array.astype(object) for tensor, array in arrays.items()}
        for fill in formula.fills:
            self.arrays[fill.tensor] = np.full(fill.tensor.shape, fill.value.value, object)
        for statement in formula.statements:
            self.loop(statement, statement.loops, {})

    def loop(self, statement, loops, names):
        if not loops:
            try:
                self.step(statement, dict(names))
            except SkipStep:
                return
            return
        for value in range(self.value(loops[0].extent, names)):
            self.loop(statement, loops[1:], {**names, loops[0].index.name: value})

    def step(self, statement, names):
        for local in statement.locals:
            names[local.name] = self.value(local.value, names)
        go = statement.condition is None or self.value(statement.condition, names)
        writes = [
            (store, self.position(store, names), self.value(store.value, names))
            for store in statement.stores
        ]
        for store, position, value in writes if go else []:
            array = self.arrays[store.tensor]
            array[position] = wrapped(STORE[store.operator](array[position], value))

    def position(self, access, names):
        return tuple(
            self.subscript(subscript, extent, names)
            for subscript, extent in zip(access.subscripts, access.tensor.shape, strict=True)
        )

    def subscript(self, subscript, extent, names):
        index = self.value(subscript.index, names)
        if subscript.below is not None:
            # Both, so that the guards of either count.
            below, above = (self.value(end, names) for end in (subscript.below, subscript.above))
            return below if index < 0 else above if index >= extent else index
        if not 0 <= index < extent:
            assert subscript.guarded
            raise SkipStep
        return index

    def value(self, scalar, names):
        match scalar:
            case Constant(_, value):
                return value
            case Index(name) | Local(name, _):
                return names[name]
            case Unary("neg", operand):
                return wrapped(-self.value(operand, names))
            case Binary(function, left, right):
                a, b = self.value(left, names), self.value(right, names)
                return wrapped(INT[function](a, b)) if function in INT else TEST[function](a, b)
            case Select(condition, consequent, alternative):
                # Both, so that the guards of either count.
                both = self.value(alternative, names), self.value(consequent, names)
                return both[bool(self.value(condition, names))]
            case Cast("int", operand):
                return int(self.value(operand, names))
            case Lookup(items, index):
                return [self.value(item, names) for item in items][self.value(index, names)]
            case Load():
                return self.arrays[scalar.tensor][self.position(scalar, names)]
        raise AssertionError(scalar)


@st.composite
def scalars(draw, leaves, readable, depth):
    """An int scalar over some leaf scalars, with loads of some tensors in it."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(
            st.sampled_from(leaves) | st.builds(Constant, st.just("int"), st.integers(-3, 3))
        )
    inner = scalars(leaves, readable, depth - 1)
    kind = draw(st.integers(0, 6))
    if kind <= 2:
        return Binary(draw(st.sampled_from(sorted(INT))), draw(inner), draw(inner))
    if kind == 3:
        return Select(draw(conditions(inner)), draw(inner), draw(inner))
    if kind == 4:
        items = tuple(draw(inner) for _ in range(draw(st.integers(1, 3))))
        return Lookup(items, modulo(draw(inner), len(items)))
    if kind == 5:
        return (
            Cast("int", draw(conditions(inner)))
            if draw(st.booleans())
            else Unary("neg", draw(inner))
        )
    tensor = draw(st.sampled_from(readable))
    return Load(tensor, tuple(draw(subscripts(inner, extent)) for extent in tensor.shape))


def modulo(scalar, extent):
    return Binary("floormod", scalar, Constant("int", extent))


@st.composite
def conditions(draw, inner):
    return Binary(draw(st.sampled_from(sorted(TEST))), draw(inner), draw(inner))


@st.composite
def subscripts(draw, inner, extent):
    index = draw(inner)
    match draw(st.integers(0, 2)):
        case 0:
            return Subscript(modulo(index, extent))
        case 1:
            return Subscript(index, guarded=True)
        case _:
            ends = modulo(draw(inner), extent), modulo(draw(inner), extent)
            return Subscript(index, True, *ends)


@st.composite
def statements(draw, results, readable):
    names = [Index(name) for name in "ijk"[: draw(st.integers(0, 3))]]
    loops = []
    for position, name in enumerate(names):
        ragged = position > 0 and draw(st.integers(0, 3)) == 0
        outer = names[position - 1] if ragged else Constant("int", draw(st.integers(0, 3)))
        loops.append(Loop(name, Binary("add", outer, Constant("int", 1)) if ragged else outer))
    leaves = [*names, Constant("int", 1)]
    # Half of the statements do not read what they write: these run in blocks.
    if draw(st.booleans()):
        readable = readable[:1]
    value = scalars(leaves, readable, 2)
    lets = ()
    if draw(st.booleans()):
        lets = (Let("a", draw(value)),)
        value = scalars([*leaves, Local("a", "int")], readable, 2)
    written = draw(st.lists(st.sampled_from(results), min_size=1, max_size=2))
    stores = tuple(
        Store(
            result,
            tuple(
                draw(st.sampled_from([Subscript(name, guarded=True) for name in names]))
                if names and draw(st.booleans())
                else draw(subscripts(value, extent))
                for extent in result.shape
            ),
            draw(st.sampled_from(sorted(STORE))),
            draw(value),
        )
        for result in written
    )
    condition = draw(st.none() | conditions(value))
    return Statement(tuple(loops), stores, lets, condition)


@st.composite
def cases(draw):
    x = Tensor("x", "int", (3, 2), "input")
    results = [Tensor("y", "int", (3,), "result"), Tensor("z", "int", (2, 3), "result")]
    steps = draw(st.lists(statements(results, [x, *results]), min_size=1, max_size=2))
    fills = tuple(Fill(result, Constant("int", draw(st.integers(-2, 2)))) for result in results)
    values = draw(st.lists(st.integers(-4, 4), min_size=6, max_size=6))
    return Formula(fills, tuple(steps)), {x: np.array(values, "int32").reshape(3, 2)}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_blocks_give_what_single_steps_give(case):
    formula, arrays = case
    expected = Naive(formula, arrays).arrays
    for block in (2**22, 5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(formulas, "BLOCK", block)
            found = formulas.run(formula, Block(arrays, DTYPES, {}))
        for fill in formula.fills:
            np.testing.assert_array_equal(found[fill.tensor], expected[fill.tensor].astype("int32"))


def test_the_order_of_repeated_targets_is_that_of_the_loops():
    i, j = Index("i"), Index("j")
    y = Tensor("y", "int", (3,), "result")
    for loops in itertools.permutations([Loop(i, Constant("int", 4)), Loop(j, Constant("int", 5))]):
        position = modulo(Binary("add", i, j), 3)
        value = Binary("add", Binary("mul", i, Constant("int", 10)), j)
        step = Statement(tuple(loops), (Store(y, (Subscript(position),), "=", value),))
        formula = Formula((Fill(y, Constant("int", 0)),), (step,))
        found = formulas.run(formula, Block({}, DTYPES, {}))[y]
        np.testing.assert_array_equal(found, Naive(formula, {}).arrays[y].astype("int32"))
