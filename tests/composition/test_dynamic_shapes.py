"""Dynamic dimensions: symbols, bounds, and what is left to a run to check (2.6, 3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_nnef.api.building import compose
from tvm_nnef.composition.symbols import plain
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.nodes import Graph, If, Loop, Operation, Tensor, tensors
from tvm_nnef.symbolic import trees

IMPORTS = "import math; import layout; import nn; import linalg;\n"
OPERATORS = """
operator some { @attrib { k: int; } @input { x: real[n]; } @output { y: real[s|k]; i: int[s|k]; } }
operator other { @input { x: real[n]; } @output { y: real[~|n]; } }
operator same { @input { x: real[s..]; y: real[s..]; } @output { z: real[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }
operator cut { @input { x: real[s]; } @output { y: real[s - 3]; } }
operator is_one { @input { x: real[s]; } @output { y: bool[]; }
    @using { one = s == 1; } @lower { y[] = one; } }
"""


def graph(inputs: str, body: str, outputs: str = "z: real;", extra: str = "") -> Graph:
    blocks = f"@input {{ {inputs} }} @output {{ {outputs} }} @compose {{ {body} }}"
    return compose(f"{IMPORTS}{OPERATORS}graph G {{ {blocks} {extra} }}\n")


def shapes(found: Graph) -> list[str]:
    ports = [*found.inputs, *found.outputs]
    return [
        ",".join(map(trees.text, tensor.shape))
        for port in ports
        for tensor in tensors(port.operand)
    ]


@pytest.mark.parametrize(("inputs", "body", "expected", "bounds"), [
    ("x: real[s|10,3];", "z = math.exp(x);", ["s,3", "s,3"], {"s": 10}),
    ("x: real[s|10]; y: real[s];", "z = math.add(x, y);", ["s", "s", "s"], {"s": 10}),
    ("x: real[~|10,~|20];", "z = math.exp(x);", ["x_0,x_1"] * 2, {"x_0": 10, "x_1": 20}),
    ("x: real[~|10 ..(2),4];", "z = math.exp(x);", ["x_0,x_1,4"] * 2, {"x_0": 10, "x_1": 10}),
    ("x: real[s|7 ..(2)];", "z = layout.transpose{perm=[1,0]}(x);", ["s_0,s_1", "s_1,s_0"],
     {"s_0": 7, "s_1": 7}),
    ("x: real[s|10,s];", "z = math.exp(x);", ["s,s", "s,s"], {"s": 10}),
    ("x: real[s|4]..(2);", "z = layout.concat{axis=0}(x);", ["s", "s", "s * 2"], {"s": 4}),
    ("x: real[..s|4]..(2);", "z = layout.concat{axis=0}(x);", ["s_0", "s_1", "s_0 + s_1"],
     {"s_0": 4, "s_1": 4}),
    ("x: real[~|4]..(2);", "z = layout.concat{axis=0}(x);", ["x_1_0", "x_2_0", "x_1_0 + x_2_0"],
     {"x_1_0": 4, "x_2_0": 4}),
    ("x: real[s|9,4];", "z = layout.flatten(x);", ["s,4", "s * 4"], {"s": 9}),
    ("x: real[s|9,t|8]; y: real[t,2];", "z = linalg.matmul(x, y);", ["s,t", "t,2", "s,2"],
     {"s": 9, "t": 8}),
    ("x: real[1,1,s|9]; w: real[1,1,3];", "z = nn.conv{padding=[0,0],stride=[2]}(x, w);",
     ["1,1,s", "1,1,3", "1,1,(s - 3) / 2 + 1"], {"s": 9}),
    ("x: real[s|9];", "z = math.mul(x, real(x.shape[0]));", ["s", "s"], {"s": 9}),
    ("x: real[8];", "y, i = some{k=4}(x); z = math.mul(y, y);", ["8", "s"], {"s": 4}),
    ("x: real[8];", "y, i = some{k=4}(x); u, j = some{k=3}(x); z = same(y, y);", ["8", "s"],
     {"s": 4, "s_2": 3}),
    ("x: real[s|5];", "y = other(x); z = layout.concat{axis=0}([x,y]);", ["s", "s + y_0"],
     {"s": 5, "y_0": 5}),
])  # fmt: skip
def test_shapes(inputs: str, body: str, expected: list[str], bounds: dict[str, int]) -> None:
    found = graph(inputs, body)
    assert shapes(found) == expected
    assert found.bounds == bounds


@pytest.mark.parametrize(("inputs", "body", "values", "fails"), [
    # agreement of two inputs, in an operator
    ("x: real[s|9]; y: real[t|9];", "z = same(x, y);", {"s": 3, "t": 3}, {"s": 3, "t": 4}),
    # broadcasting: only what is known as 1 while composing is repeated
    ("x: real[s|9]; y: real[t|9];", "z = math.add(x, y);", {"s": 4, "t": 4}, {"s": 1, "t": 4}),
    # an extent that must be even
    ("x: real[2*s|9]; y: real[s];", "z = layout.concat{axis=0}([x,y]);", {"x_0": 4}, {"x_0": 5}),
    # a window in the input
    ("x: real[1,1,s|9]; w: real[1,1,3];", "z = nn.conv{padding=[0,0]}(x, w);", {"s": 3}, {"s": 2}),
    # an extent that must not be negative
    ("x: real[s|9];", "z = cut(x);", {"s": 4}, {"s": 2}),
    # what a result is declared as
    ("x: real[s|9];", "y: real[4] = math.exp(x); z = y;", {"s": 4}, {"s": 5}),
])  # fmt: skip
def test_checks(inputs: str, body: str, values: dict[str, int], fails: dict[str, int]) -> None:
    checks = graph(inputs, body).checks
    assert checks and all(trees.evaluate(check.condition, values) is True for check in checks)
    assert not all(trees.evaluate(check.condition, fails) for check in checks)


def test_what_is_certain_is_not_checked() -> None:
    assert not graph("x: real[s|9]; y: real[s];", "z = same(x, y);").checks
    assert not graph(
        "x: real[s|9];", "z = math.exp(x);", extra="@assert { s <= 9; s >= 0; }"
    ).checks


def test_a_check_says_the_values() -> None:
    extra = '@assert { s * 2 > 3: "only {s} of {s + 4}", s; }'
    (check,) = graph("x: real[s|9];", "z = math.exp(x);", extra=extra).checks
    assert plain(check.message) == "only s of s + 4; s = s"
    assert [trees.evaluate(part, {"s": 1}) for part in check.message[1::2]] == [1, 5, 1]
    assert check.notes and check.span is not None


@pytest.mark.parametrize(("expression", "expected"), [
    ("s is s", True), ("s is t", False), ("x.shape[0] is s", True), ("s * 2 is s + s", True),
    ("s + 1 is s", False), ("s == s", True), ("s == s + 1", False), ("s >= 0", True),
    ("[s, t] is [s, s] && ..", False), ("s in [t, s]", True), ("s in [t, t]", False),
    ("(([s, s] := ..) ?? 0) is s", True), ("(([s, t] := ..) ?? 0) is 0", True),
    ("s / 2 * 2 <= s", True),
])  # fmt: skip
def test_decided_while_composing(expression: str, expected: bool) -> None:
    found = graph("x: real[s|9]; y: real[t|9];", f"z = {expression};", "z: bool;")
    tensor = found.outputs[0].operand
    assert isinstance(tensor, Tensor)
    assert (tensor.role, tensor.value) == ("constant", expected)


@pytest.mark.parametrize("expression", ["s == t", "s < t", "!(s == t) && s > 1", "bool(s)"])
def test_decided_by_a_run(expression: str) -> None:
    found = graph("x: real[s|9]; y: real[t|9];", f"z = {expression};", "z: bool;")
    (node,) = found.operations
    assert isinstance(node, Operation) and node.operator == "value"


def test_select_of_dimensions() -> None:
    found = graph("x: real[s|9]; y: real[t|9];", "z = math.exp(y);", extra="@assert { t == 1; }")
    assert shapes(found)[-1] == "t"
    body = "z = layout.uniform<real>{shape=[s == 1 ? t : s]}(1.0);"
    found = graph("x: real[s|9]; y: real[t|9];", body)
    assert shapes(found)[-1] == "s == 1 ? t : s"


def test_branch_on_a_dimension_is_made_by_the_run() -> None:
    body = "z = if s > 3 then math.exp(x) else math.neg(x);"
    nodes = graph("x: real[s|9];", body).operations
    assert [type(node) for node in nodes] == [Operation, If]
    body = "z = if s > 10 then math.exp(x) else math.neg(x);"
    found = graph("x: real[s|9];", body)
    assert not found.checks


def test_checks_of_a_branch_stay_inside() -> None:
    body = "z = if c then same(x, y) else x;"
    found = graph("x: real[s|9]; y: real[t|9]; c: bool[];", body)
    (branch,) = found.operations
    assert isinstance(branch, If) and not found.checks and len(branch.consequent.checks) == 1


def test_loop_count_from_a_dimension() -> None:
    body = "z = with a = x do..(s) math.exp(a);"
    loop = graph("x: real[s|9];", body).operations[-1]
    assert isinstance(loop, Loop) and isinstance(loop.count, Tensor)


@pytest.mark.parametrize(("body", "expected", "bound"), [
    ("z = for v : x do..(n) math.exp(v);", "steps,4", 5),
    ("ys = for v : x do..(n) math.exp(v); z = layout.stack{axis=0}(ys);", "steps,4", 5),
    ("ys = for v : x do..(n) math.exp(v); z = layout.stack{axis=1}(ys);", "4,steps", 5),
    ("ys = for v : x do..(n) math.exp(v); z = layout.concat{axis=0}(ys);", "steps * 4", 5),
    ("~, z = with c = n for v : x while math.lt(c, 7) do "
     "{ d = math.add(c, 1); w = math.exp(v); yield d, w; };", "steps,4", 5),
])  # fmt: skip
def test_packs_of_unknown_length_are_stacked(body: str, expected: str, bound: int) -> None:
    packed = "" if "layout" in body else ".."
    found = graph("x: real[4]..(5); n: int[];", body, f"z: real{packed};")
    assert shapes(found)[-1] == expected
    assert found.bounds == {"steps": bound}


CONSTANT = "@constant { c: real[s] = 1.0; }"


@pytest.mark.parametrize(("inputs", "body", "extra", "message"), [
    ("x: real[~];", "z = x;", "", "a dynamic dimension of 'x' has no upper bound"),
    ("x: real;", "z = x;", "", "input 'x' of the main graph has no shape"),
    ("x: real[s|9999999999];", "z = x;", "", "a bound must be between 0"),
    ("x: real[s|9];", "z = math.add(x, c);", CONSTANT, "the shape of a constant must be known"),
    ("x: real[s|9];", "z = math.add(x, v);", "@variable { v: real[s]; }",
     "the shape of a variable must be known"),
    ("x: real[s|9];", "y: real[10] = math.exp(x); z = y;", "", "declared as [10]"),
    ("x: real[s|9];", "z = math.exp(x);", "@assert { s > 9; }", "'s > 9' does not hold"),
    ("x: real[s|9];", "ys..(s) = layout.split{axis=0,count=s}(x); z = ys[0];", "",
     "a pack whose length is known only at run time"),
    ("x: real[s|9]; y: real[t|9];", "z = math.exp(x);", "@using { q = s == t ? 1; }",
     "whether this is null is known only at run time, from 's == t'"),
    ("x: real[4]..(5); n: int[];", "ys = for v : x do..(n) math.exp(v); z = math.sum_n(ys);", "",
     "a pack whose length is known only at run time"),
    ("x: real[4]; n: int[];", "ys = do..(n) math.exp(x); z = layout.stack{axis=0}(ys);", "",
     "nothing bounds the number of items"),
])  # fmt: skip
def test_refused(inputs: str, body: str, extra: str, message: str) -> None:
    with pytest.raises(NnefError) as problem:
        graph(inputs, body, extra=extra)
    assert message in str(problem.value)


@pytest.mark.parametrize(("given", "expected"), [
    ({"x": (4, 3)}, ["4,3", "4,3"]),
    ({}, ["s,3", "s,3"]),
])  # fmt: skip
def test_a_caller_may_give_dimensions(given: Any, expected: list[str]) -> None:
    text = IMPORTS + (
        "graph G { @input { x: real[s|10,3]; } @output { z: real; } @compose { z = math.exp(x); } }"
    )
    assert shapes(compose(text, input_shapes=given)) == expected


def test_a_caller_may_not_break_a_bound() -> None:
    text = "graph G { @input { x: real[s|10]; } @output { z: real; } @compose { z = x; } }\n"
    with pytest.raises(NnefError, match="beyond the bound"):
        compose(text, input_shapes={"x": (11,)})
