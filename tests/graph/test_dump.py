"""Dumps of a small graph with a formula, a composite, an intrinsic, a pack and a constant."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from tvm_nnef.graph import dump
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
from tvm_nnef.graph.formula_text import scalar
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, Operation, Port, Tensor

i, j = Index("i"), Index("j")


def num(value):
    return Constant("int", value)


@pytest.fixture
def model():
    x = Tensor("main.G.x", "real", (3,), "input")
    w = Tensor("main.G.w", "real", (3,), "variable")
    pack = (Tensor("main.G.p:1", "real", (), "result"), Tensor("main.G.p:2", "real", (), "result"))
    y, inner = (Tensor(f"main.G.{name}", "real", (3,), "result") for name in ("y", "y.t"))
    c = Tensor("main.G.c", "real", (3,), "constant", (1.0, 2.0, math.inf))
    guarded = Subscript(Binary("sub", i, num(1)), guarded=True)
    statement = Statement(
        (Loop(i, num(3)), Loop(j, num(2))),
        (Store(inner, (Subscript(i),), "+=", Local("a", "real")),),
        (Let("a", Binary("mul", Load(x, (guarded,)), Load(w, (Subscript(j),)))),),
        Binary("lt", i, j),
    )
    formula = Formula((Fill(inner, Constant("real", 0.0)),), (statement,), (w, c))
    inside = Operation(
        "nn.smooth", {"size": (2, 3), "mode": "SAME", "flag": True, "bias": None}, {"T": "real"},
        (x,), (inner,), ("T",), ("T",), formula, "t",
    )  # fmt: skip
    body = Graph("main.G.y", (Port("x", x),), (Port("t", inner),), (inside,), variables=(w,))
    outer = Operation(
        "nn.block", {}, {}, (x, None), (y,), ("real",) * 2, ("real",), body, "y", public=True
    )
    split = Operation("rand.two", {}, {}, (y,), (pack,), ("real",), ("real",), None, "")
    return Graph(
        "main.G", (Port("x", x),), (Port("ys", pack),), (outer, split),
        variables=(w,), updates=((w, y),), attributes={"alpha": 0.5},
    )  # fmt: skip


TEXT = """\
graph main.G{alpha=0.5}(x = main.G.x: real[3]) -> (ys = [main.G.p:1: real[], main.G.p:2: real[]])
  variable main.G.w: real[3]
  main.G.y: real[3] = nn.block(main.G.x, null)
    graph main.G.y(x = main.G.x: real[3]) -> (t = main.G.y.t: real[3])
      variable main.G.w: real[3]
      main.G.y.t: real[3] = nn.smooth<T=real>{size=[2, 3], mode='SAME', flag=true, bias=null}(main.G.x)
        variable main.G.w: real[3]
        constant main.G.c: real[3] = [1.0, 2.0, inf]
        main.G.y.t[..] = 0.0
        for i < 3, j < 2:
          a := main.G.x[|i - 1|] * main.G.w[j]
          if i < j:
            main.G.y.t[i] += a
  [main.G.p:1: real[], main.G.p:2: real[]] = rand.two(main.G.y)
  update main.G.w <- main.G.y"""  # noqa: E501


def test_text(model):
    assert dump.text(model) == TEXT


def test_text_without_bodies(model):
    lines = TEXT.split("\n")
    assert dump.text(model, bodies=False).split("\n") == [*lines[:3], *lines[-2:]]


def test_text_with_dtypes(model):
    typed = replace(model, machine_types=assign(model, defaults={"real": "float16"}))
    assert dump.text(typed) == TEXT.replace("real[", "float16[")


def test_json(model):
    data = dump.to_json(replace(model, machine_types=assign(model)))
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert list(data["tensors"])[:3] == ["main.G.x", "main.G.w", "main.G.y"]
    assert data["tensors"]["main.G.c"] == {
        "type": "real",
        "shape": [3],
        "role": "constant",
        "dtype": "float32",
        "value": [1.0, 2.0, "inf"],
    }
    block, split = data["operations"]
    assert block["operands"] == ["main.G.x", None] and split["body"] is None
    assert split["results"] == [["main.G.p:1", "main.G.p:2"]]
    (inner,) = block["body"]["operations"]
    assert inner["attributes"] == {"size": [2, 3], "mode": "SAME", "flag": True, "bias": None}
    assert inner["body"][-1] == "    main.G.y.t[i] += a"
    assert data["updates"] == [["main.G.w", "main.G.y"]]


def test_dot(model):
    lines = dump.dot(model).split("\n")
    assert '  "input x" -> "operation 0" [label="3"];' in lines
    assert '  "operation 0" [label="nn.block\\ny"];' in lines
    assert '  "operation 0" -> "operation 1" [label="3"];' in lines
    assert lines.count('  "operation 1" -> "output ys" [label=""];') == 2


x1 = Load(Tensor("x", "int", (4,), "input"), (Subscript(i),))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Binary("mul", Binary("add", i, num(1)), j), "(i + 1) * j"),
        (Binary("add", i, Binary("mul", num(2), j)), "i + 2 * j"),
        (Binary("sub", i, Binary("sub", j, num(1))), "i - (j - 1)"),
        (Binary("sub", Binary("sub", i, j), num(1)), "i - j - 1"),
        (Binary("ceildiv", i, Binary("add", j, num(1))), "ceildiv(i, j + 1)"),
        (Unary("neg", Binary("add", i, j)), "-(i + j)"),
        (Unary("sqrt", Cast("real", i)), "sqrt(real(i))"),
        (Binary("add", Select(Constant("bool", True), i, j), num(1)), "(true ? i : j) + 1"),
        (
            Select(Binary("lt", i, j), i, Select(Binary("eq", i, j), j, i)),
            "i < j ? i : (i == j ? j : i)",
        ),
        (Lookup((num(3), num(4)), x1), "[3, 4][x[i]]"),
        (
            Load(x1.tensor, (Subscript(i, True, num(0), Binary("sub", num(4), i)),)),
            "x[|i <> 0 : 4 - i|]",
        ),
        (Constant("real", -math.inf), "-inf"),
    ],
)  # fmt: skip
def test_scalars(value, expected):
    assert scalar(value) == expected
