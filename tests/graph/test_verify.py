"""The verifier lets a good graph pass, and names what is wrong with each bad one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tvm_nnef.graph.formula import (
    Binary,
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
from tvm_nnef.graph.nodes import Graph, Operation, Port, Tensor
from tvm_nnef.graph.verify import GraphInvariantError, verify

i, j = Index("i"), Index("j")
one, zero = Constant("int", 1), Constant("real", 0.0)
yes = Constant("bool", True)


def tensor(name, type="real", shape=(3,), role="result", value=None):
    return Tensor(f"main.G.{name}", type, shape, role, value)


x, w = tensor("x", role="input"), tensor("w", role="variable")
n = tensor("n", "int", role="input")
y, z = tensor("y"), tensor("z")
LONG = tensor("long", shape=(4,))
c = tensor("c", role="constant", value=(1.0, 2, 3.0))


def load(t, *indices):
    return Load(t, tuple(Subscript(index) for index in indices))


AT_I = (Subscript(i),)
LOOPS = (Loop(i, Constant("int", 3)),)
FILLS = (Fill(y, zero),)


def store(target=y, at=AT_I, operator="=", value=None):
    return Store(target, at, operator, load(x, i) if value is None else value)


def statement(*stores, loops=LOOPS, **more):
    return Statement(loops, stores or (store(),), **more)


def formula(*statements, fills=FILLS, captures=(w, c)):
    return Formula(fills, statements or (statement(),), captures)


def operation(body=None, operands=(x, n), results=(y,), **more):
    return Operation(
        "main.f", {}, {}, operands, results,
        ("real",) * len(operands), ("real",) * len(results), body, "f", **more,
    )  # fmt: skip


def graph(*operations, outputs=(y,), **more):
    return Graph(
        "main.G", (Port("x", x), Port("n", n)), (Port("out", outputs),), operations,
        **{"variables": (w,), **more},
    )  # fmt: skip


def body(*operations, inputs=(x,), outputs=(z,), **more):
    return Graph("main.G.f", (Port("x", inputs),), (Port("z", outputs),), operations, **more)


def with_value(value):
    return graph(operation(formula(statement(store(value=value)))))


def with_statement(*stores, **more):
    return graph(operation(formula(statement(*stores, **more))))


def with_loops(*loops):
    return with_statement(loops=tuple(Loop(index, extent) for index, extent in loops))


def with_constant(type, value):
    return graph(constants=(tensor("k", type, role="constant", value=value),), outputs=())


def with_subscript(subscript):
    return with_value(Load(x, (subscript,)))


GOOD = {
    "formula": graph(operation(formula())),
    "composite": graph(operation(body(
        operation(formula(statement(store(z)), fills=(Fill(z, zero),)), (x,), (z,)),
        variables=(w,)))),
    "pass through": graph(operation(body(outputs=(x,)))),
    "update": graph(operation(formula()), updates=((w, y),)),
    "infinite int": with_value(Select(
        Binary("eq", Constant("int", math.inf), load(n, i)), zero, load(w, i))),
    "ragged loop": graph(operation(formula(statement(
        loops=(Loop(i, one), Loop(j, Binary("add", i, load(n, i)))))))),
    "self": with_statement(store(value=load(y, i)), condition=yes),
    "local": graph(operation(formula(statement(
        store(value=Local("a", "real")), locals=(Let("a", load(c, i)),))))),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_graphs_pass(name):
    verify(GOOD[name])


BAD = {
    "main.G.z' is used before": graph(
        operation(formula(), operands=(z,)), operation(None, (x,), (z,))
    ),
    "main.G.y' is defined twice": graph(operation(formula()), operation(formula())),
    "result 'main.G.x' is defined twice": graph(operation(None, (x,), (x,)), outputs=(x,)),
    "output 'out' is never computed": graph(),
    "2 tensors have the name 'main.G.y'": graph(
        operation(None, (x,), (tensor("y"),)), operation(formula())
    ),
    "input 'main.G.c' is a constant": Graph("main.G", (Port("c", c),), (), ()),
    "result 'main.G.c' is a constant": graph(operation(None, (x,), (c,)), outputs=()),
    "declared types differ": graph(replace(operation(formula()), operand_types=("T",))),
    "'main.G.y' is not a variable": graph(operation(formula()), updates=((y, y),)),
    "update with 'main.G.z', never": graph(operation(formula()), updates=((w, z),)),
    "update of 'main.G.w' with another type": graph(operation(formula()), updates=((w, n),)),
    "'main.G.w' with another type or shape": graph(
        operation(None, (x,), (LONG,)), outputs=(), updates=((w, LONG),)
    ),
    "body input 'main.G.z' is not an operand": graph(operation(body(inputs=(z,)))),
    "body outputs and results differ in number": graph(operation(body(outputs=(x, x)))),
    "body output 'main.G.n' is another type": graph(operation(body(inputs=(x, n), outputs=(n,)))),
    "does not list its variables": graph(
        operation(body(outputs=(x,), variables=(w,))), variables=()
    ),
    "has 2 values for 3 items": with_constant("real", (1.0, 2.0)),
    "of type int has value True": with_constant("int", True),
    "of type bool has value 1": with_constant("bool", 1),
    "of type real has value True": with_constant("real", True),
    "of type real has value None": with_constant("real", None),
    "captured 'main.G.z' is not a constant": graph(operation(formula(captures=(z,)))),
    "fills are not one for each": graph(operation(formula(fills=()))),
    "fill of 'main.G.y' has type int": graph(operation(formula(fills=(Fill(y, one),)))),
    "'main.G.x', which is not a result": with_statement(store(x)),
    "is &= on real": with_statement(store(operator="&=")),
    "the store into 'main.G.y' has type int": with_value(i),
    "0 subscripts for 'main.G.y' of rank 1": with_statement(store(at=())),
    "2 subscripts for 'main.G.x' of rank 1": with_value(load(x, i, i)),
    "a subscript of 'main.G.x' has type real": with_value(load(x, zero)),
    "remapped at one end only": with_subscript(Subscript(i, True, below=one)),
    "or not guarded": with_subscript(Subscript(i, False, one, one)),
    "'main.G.z' is read, but": with_value(load(z, i)),
    "index 'j' belongs to no loop": with_value(load(x, j)),
    "two loops have the index 'i'": with_loops((i, one), (i, one)),
    "extent of loop 'i' has type real": with_loops((i, zero)),
    "index 'i' belongs to no loop": with_loops((i, Binary("add", i, one))),
    "reads what its statement writes": with_loops((i, load(y, one))),
    "local 'a' of type real is not named": with_value(Local("a", "real")),
    "local 'b' of type real is not named": with_statement(
        locals=(Let("a", Local("b", "real")), Let("b", zero))
    ),
    "name 'i' is given twice": with_statement(locals=(Let("i", zero),)),
    "condition has type int": with_statement(condition=i),
    "right operand of add has type int": with_value(Binary("add", zero, i)),
    "add on bool": with_value(Select(Binary("add", yes, yes), zero, zero)),
    "div on int": with_value(load(x, Binary("div", i, one))),
    "floordiv on real": with_value(Binary("floordiv", zero, zero)),
    "sqrt on int": with_value(load(x, Unary("sqrt", i))),
    "not on real": with_value(Unary("not", zero)),
    "a condition has type int": with_value(Select(i, zero, zero)),
    "an alternative has type int": with_value(Select(yes, zero, i)),
    "an item of a pack has type int": with_value(Lookup((zero, one), i)),
    "index of a pack has type real": with_value(Lookup((zero,), zero)),
    "an item of an empty pack": with_value(load(x, Binary("add", one, Lookup((), i)))),
    "a constant of type int has the value 1.5": with_value(load(x, Constant("int", 1.5))),
    "a constant of type bool has the value 1": with_value(Select(Constant("bool", 1), zero, zero)),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_bad_graphs_are_named(message):
    with pytest.raises(GraphInvariantError) as caught:
        verify(BAD[message])
    assert message in str(caught.value)


def test_the_message_names_the_operation():
    with pytest.raises(GraphInvariantError, match=r"^operation 'f' \(main\.f\): "):
        verify(with_value(i))
