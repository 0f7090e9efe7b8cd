"""Symbols and checks in a graph: the verifier's rules, and what people and programs get to see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.display import picture
from tvm_nnef.graph import dump
from tvm_nnef.graph.checks import complaint, symbols, to_json
from tvm_nnef.graph.formula import (
    Constant,
    Fill,
    Formula,
    Index,
    Load,
    Loop,
    Statement,
    Store,
    Subscript,
)
from tvm_nnef.graph.nodes import Check, Graph, If, Operation, Port, Tensor
from tvm_nnef.graph.verify import GraphInvariantError, verify
from tvm_nnef.symbolic import dimensions

S, N, M = map(dimensions.symbol, ("s", "n", "m"))


def tensor(name, shape, role="result", type="real") -> Tensor:
    return Tensor(f"main.G.{name}", type, tuple(shape), role)


def operation(operands, results, body=None, **attributes) -> Operation:
    types = [tuple(tensor.type for tensor in each) for each in (operands, results)]
    return Operation("my.op", attributes, {}, operands, results, *types, body, "label")


def copy(source: Tensor, target: Tensor, extent) -> Formula:
    at = (Subscript(Index("i")),)
    statement = Statement(
        (Loop(Index("i"), Constant("int", extent)),), (Store(target, at, "=", Load(source, at)),)
    )
    return Formula((Fill(target, Constant("real", 0.0)),), (statement,))


X, C = tensor("x", (S,), "input"), tensor("c", (), "input", "bool")
Y, Z = tensor("y", (N,)), tensor("z", (N,))
MORE = Check(dimensions.compare("gt", N, 2), ("n is ", N, ", which is too small"))
GOOD = Graph(
    "main.G",
    (Port("x", X), Port("c", C)),
    (Port("z", Z),),
    (operation((X,), (Y,)), operation((Y,), (Z,), copy(Y, Z, N))),
    bounds={"s": 10, "n": 5},
    checks=(MORE,),
)


def branching(symbol) -> Graph:
    """A graph whose branch computes a tensor of a size, which is not a size of the graph around."""
    inner, result = tensor("inner", (symbol,)), tensor("result", (S,))
    branch = Graph("then", (Port("x", X),), (Port("x", X),), (operation((X,), (inner,)),))
    node = If(C, branch, Graph("else", (Port("x", X),), (Port("x", X),), ()), (result,))
    late = tensor("late", (S,))
    return replace(
        GOOD,
        operations=(node, operation((result,), (late,), copy(result, late, symbol))),
        outputs=(Port("late", late),),
        checks=(),
    )


def test_a_good_graph_passes() -> None:
    verify(GOOD)
    verify(branching(S))


@pytest.mark.parametrize(
    ("message", "graph"),
    [
        ("symbol 'n' of 'main.G.y' has no bound", replace(GOOD, bounds={"s": 10})),
        ("symbol 'n' is used before it is defined",
         replace(GOOD, operations=(operation((X,), (Y,), k=N), *GOOD.operations[1:]))),
        ("symbol 'n' is used before it is defined", branching(N)),
        ("symbol 'm' is used before it is defined",
         replace(GOOD, bounds={"s": 1, "n": 1, "m": 1}, operations=(
             *GOOD.operations, operation((Z,), (tensor("v", (dimensions.mul(M, 2),)),))))),
        ("symbol 'm' is used before it is defined",
         replace(GOOD, bounds={"s": 1, "n": 1, "m": 1},
                 inputs=(*GOOD.inputs, Port("v", tensor("v", (dimensions.mul(M, 2),), "input"))))),
        ("a check speaks of 'm'",
         replace(GOOD, checks=(Check(dimensions.compare("gt", M, 2), ("too small",)),))),
        ("the shape of variable 'main.G.v' is not static",
         replace(GOOD, variables=(tensor("v", (S,), "variable"),))),
    ],
)  # fmt: skip
def test_bad_graphs_are_named(message, graph) -> None:
    with pytest.raises(GraphInvariantError) as caught:
        verify(graph)
    assert message in str(caught.value)


def test_text_shows_bounds_and_checks() -> None:
    lines = dump.text(GOOD).splitlines()
    assert lines[0] == (
        "graph main.G(x = main.G.x: real[s], c = main.G.c: bool[]) -> (z = main.G.z: real[n])"
    )
    assert lines[1:3] == ["  symbol s <= 10", "  symbol n <= 5"]
    assert lines[-1] == "  check 2 < n: n is {n}, which is too small"


def test_data_have_bounds_and_checks() -> None:
    data = dump.to_json(GOOD)
    assert data["bounds"] == {"s": 10, "n": 5}
    assert data["checks"] == [{"condition": "2 < n", "message": "n is {n}, which is too small"}]
    assert data["tensors"]["main.G.y"]["shape"] == ["n"]


def test_a_picture_shows_bounds_at_the_inputs() -> None:
    drawn = picture.svg(GOOD)
    assert ">s &lt;= 10<" in drawn
    assert "T.int64" not in drawn + dump.dot(GOOD)


def test_a_check_is_data_that_need_no_tvm() -> None:
    source = Source("models/main.sknd", "graph G {\n  x;\n}")
    data = to_json(replace(MORE, span=Span(source, 12, 13)))
    assert data == {
        "condition": ["lt", 2, "n"],
        "message": ["n is ", {"extent": "n"}, ", which is too small"],
        "place": "main.sknd:2:3",
        "hint": "",
    }
    assert symbols(MORE) == {"n"}
    assert complaint(data, {"n": 3}) is None
    assert complaint(data, {"n": 1}) == "n is 1, which is too small"
