"""Branches and loops: what the verifier lets pass and rejects, dtypes, and dumps."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tvm_nnef.graph import dump
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Operation,
    Port,
    Scan,
    Tensor,
    every_tensor,
    operations,
)
from tvm_nnef.graph.verify import GraphInvariantError, verify


def tensor(name, type="real", shape=(3,), role="result", value=None):
    return Tensor(f"main.G.{name}", type, shape, role, value)


def given(name, type="real", shape=(3,)):
    return tensor(name, type, shape, "input")


def relay(operand, result):
    """Opaque work: the same declared type on both sides."""
    return Operation("main.relay", {}, {}, (operand,), (result,), ("T",), ("T",), None, "relay")


def graph(inputs, outputs, *nodes, name="G", **more):
    ports = [
        tuple(Port(f"p{position}", each) for position, each in enumerate(group))
        for group in (inputs, outputs)
    ]
    return Graph(f"main.{name}", *ports, nodes, **more)


C, X, N = given("c", "bool", ()), given("x"), given("n", "int", ())
W = tensor("w", role="variable")
A, B, Y, Z = (tensor(name) for name in "abyz")
LONG, COUNTS = tensor("long", shape=(4,)), tensor("counts", "int")
GONE, ELSEWHERE = tensor("gone", role="variable"), tensor("elsewhere")

THEN = graph((X,), (A,), relay(X, A), name="then")
ELSE = graph((X,), (B,), relay(W, B), name="else", variables=(W,))
BRANCH = If(C, THEN, ELSE, (Y,), "branch")

P = (given("p:1"), given("p:2"))
S, E, I = given("s"), given("e"), given("i", "int", ())  # noqa: E741
FINAL, T, HOLDS = tensor("final"), tensor("t"), tensor("holds", "bool", (1,))
Q = (tensor("q:1"), tensor("q:2"))
BODY = graph((S, E), (T, E), relay(S, T), name="body")
TEST = graph((I,), (HOLDS,), relay(I, HOLDS), name="test")
LOOP = Loop((S,), (X,), (Scan(E, P),), I, None, None, False, BODY, (FINAL, Q), "loop")
WHILE = replace(
    LOOP, condition=TEST, post_test=True, body=replace(BODY, outputs=(Port("t", T),)),
    results=(FINAL,),
)  # fmt: skip


def model(*nodes, outputs=(), **more):
    return graph((C, X, N, P), outputs, *nodes, **{"variables": (W,), **more})


def with_if(**changes):
    return model(replace(BRANCH, **changes))


def with_loop(**changes):
    return model(replace(LOOP, **changes))


def with_while(**changes):
    return model(replace(WHILE, **changes))


def body(*outputs, inputs=(S, E)):
    return graph(inputs, outputs, relay(S, T), name="body")


NESTED = If(C, graph((C, X), (Y,), BRANCH, variables=(W,)), THEN, (Z,))

GOOD = {
    "if": model(BRANCH, outputs=(Y,)),
    "if of packs": with_if(
        consequent=graph((P,), (P,)), alternative=graph((P, X), ((X, X),)), results=(Q,)
    ),
    "if that captures a variable": with_if(alternative=graph((W,), (W,))),
    "loop over packs": model(LOOP, outputs=(FINAL, Q)),
    "loop over a part of packs": with_loop(count=1, results=(FINAL, Q[:1])),
    "loop over no packs": with_loop(scans=(Scan(E, ()),), results=(FINAL, ())),
    "loop with a count": with_loop(
        scans=(), count=2, index=None, body=body(T, X, inputs=(S, X)), results=(FINAL, Q)
    ),
    "loop without results": with_loop(
        carried=(), initial=(), body=graph((), ()), results=(), index=None
    ),
    "while": model(WHILE),
    "while with data as count": with_while(count=N),
    "endless except for its condition": with_while(scans=(), body=body(T, inputs=(S,))),
    "loop in a branch": model(If(C, graph((X, P), (FINAL, Q), LOOP), graph((X,), (X, (X, X))),
                                 (Y, (A, B)))),
    "updates": model(BRANCH, updates=((W, Y),)),
    "update with a variable": model(variables=(W, GONE), updates=((W, GONE), (GONE, W))),
    "update in a branch": with_if(alternative=replace(ELSE, updates=((W, B),))),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_graphs_pass(name):
    verify(GOOD[name])


BAD = {
    "condition 'main.G.x' is not one bool": with_if(condition=X),
    "condition 'main.G.flags' is not one bool": graph(
        (X, flags := given("flags", "bool")), (), replace(BRANCH, condition=flags),
        variables=(W,),
    ),
    "consequent and results differ in number": with_if(consequent=graph((X,), (X, X))),
    "alternative and results differ in number": with_if(alternative=graph((X,), ((X,),))),
    "'main.G.n' and 'main.G.y' differ in type or shape": with_if(consequent=graph((N,), (N,))),
    "'main.G.a' and 'main.G.long' differ in type or shape": with_if(results=(LONG,)),
    "if 'branch': operand 'main.G.elsewhere' is used before defined": with_if(
        consequent=graph((ELSEWHERE,), (ELSEWHERE,))
    ),
    "operand 'main.G.y' is used before defined": with_if(consequent=graph((Y,), (Y,))),
    "then: output 'p0' is never computed": with_if(consequent=replace(THEN, operations=())),
    "operation 'relay' (main.relay): operand 'main.G.x' is used before": with_if(
        consequent=replace(THEN, inputs=())
    ),
    "operand 'main.G.a' is used before defined": model(BRANCH, relay(A, Z)),
    "output 'p0' is never computed": model(BRANCH, outputs=(A,)),
    "'main.G.a' is defined in 2 places": with_if(results=(A,)),
    "'main.G.b' is defined in 2 places": with_if(
        consequent=graph((X,), (B,), relay(X, B))
    ),
    "'main.G.z' is defined in 2 places": model(
        relay(X, Z), replace(BRANCH, consequent=graph((X,), (Z,), relay(X, Z)))
    ),
    "2 tensors have the name 'main.G.a'": with_if(
        alternative=graph((X,), (a := tensor("a"),), relay(X, a))
    ),
    "around the body does not list its variables": model(
        If(C, graph((X,), (X,), variables=(GONE,)), THEN, (Y,))
    ),
    "'main.G.t' is a result, no input": with_loop(
        carried=(T,), body=graph((T, E), (T, E)),
    ),
    "carried and initial tensors differ in number": with_loop(initial=(X, X)),
    "'main.G.n' and 'main.G.s' differ": with_loop(initial=(N,)),
    "loop 'loop': operand 'main.G.elsewhere' is used before": with_loop(initial=(ELSEWHERE,)),
    "operand 'main.G.gone' is used before defined": with_loop(scans=(Scan(E, (X, GONE)),)),
    "operand 'main.G.counts' is used before defined": with_while(count=COUNTS),
    "loop 'loop': operand 'main.G.z' is used before defined": with_loop(
        body=body(T, E, inputs=(S, E, Z))
    ),
    "loop 'loop': operand 'main.G.y' is used before defined": with_while(
        condition=graph((Y,), (HOLDS,), relay(Y, HOLDS))
    ),
    "'main.G.n' and 'main.G.e' differ": with_loop(scans=(Scan(E, (X, N)),)),
    "scanned packs differ in length": with_loop(
        scans=(Scan(E, P), Scan(given("f"), (X,)))
    ),
    "index 'main.G.j' is not an int of rank 0": with_loop(index=given("j", "int")),
    "index 'main.G.k' is not an int of rank 0": with_loop(index=given("k", "real", ())),
    "'main.G.s' is defined in 2 places": with_loop(
        scans=(Scan(S, P),), body=body(T, S, inputs=(S,))
    ),
    "'main.G.x' is defined in 2 places": with_loop(
        scans=(Scan(X, P),), body=body(T, X, inputs=(S, X))
    ),
    "count 'main.G.c' is not one int": with_while(count=C),
    "count 'main.G.many' is not one int": graph(
        (X, P, many := given("many", "int")), (), replace(WHILE, count=many)
    ),
    "the count is -1": with_while(count=-1),
    "the count is True": with_while(count=True),
    "nothing ends the loop": with_loop(
        scans=(), body=body(T, inputs=(S,)), results=(FINAL,)
    ),
    "the condition does not give one bool": with_while(condition=graph((I,), (I,))),
    "condition does not give one bool": with_while(
        condition=replace(TEST, outputs=TEST.outputs * 2)
    ),
    "body outputs and results differ in number": with_loop(results=(FINAL,)),
    "loop 'loop': body outputs and results differ": with_loop(body=body(), results=()),
    "'main.G.n' and 'main.G.s' differ in type": with_loop(
        body=body(N, E, inputs=(N, S, E))
    ),
    "'main.G.s' is not a single tensor": with_loop(body=body((T,), E)),
    "'main.G.counts' and 'main.G.s' differ": with_loop(results=(COUNTS, Q)),
    "loop 'loop': the result of 'main.G.e' is not a stacked tensor": with_loop(condition=TEST),
    "the result of 'main.G.e' is not a stacked": with_loop(count=N),
    "a scan output of the body is not a tensor": with_loop(body=body(T, (E,))),
    "the results of 'main.G.e' are not a pack of 2": with_loop(results=(FINAL, Z)),
    "results of 'main.G.e' are not a pack of 2": with_loop(results=(FINAL, Q[:1])),
    "results of 'main.G.e' are not a pack of 1": with_loop(count=1),
    "'main.G.long' and 'main.G.e' differ in type": with_loop(results=(FINAL, (Z, LONG))),
    "operand 'main.G.t' is used before defined": model(LOOP, relay(T, Z)),
    "operand 'main.G.e' is used before defined": model(LOOP, relay(E, Z)),
    "relay' (main.relay): operand 'main.G.i' is used": with_while(
        condition=replace(TEST, inputs=())
    ),
    "'main.G.t' is defined in 2 places": with_loop(results=(T, Q)),
    "main.then: 'main.G.gone' is not a variable": with_if(
        consequent=replace(THEN, updates=((GONE, A),))
    ),
    "update with 'main.G.b', never computed": model(BRANCH, updates=((W, B),)),
    "'main.G.w' is updated 2 times": model(BRANCH, updates=((W, X), (W, Y))),
    "main.G: 'main.G.w' is updated 2": model(
        replace(BRANCH, alternative=replace(ELSE, updates=((W, B),))), updates=((W, X),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_bad_graphs_are_named(message):
    with pytest.raises(GraphInvariantError) as caught:
        verify(BAD[message])
    assert message in str(caught.value)


def test_every_tensor_and_node_inside_is_found():
    one = model(LOOP, NESTED)
    names = {each.name.rpartition(".")[2] for each in every_tensor(one)}
    assert names == {*"cxnwsetiyzab", "p:1", "p:2", "q:1", "q:2", "final"}
    kinds = [type(node).__name__ for node in operations(one)]
    assert kinds == ["Loop", "Operation", "If", "If", "Operation", "Operation", "Operation"]


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 2), ({"count": 1}, 1), ({"count": 5}, 2), ({"count": N}, None),
        ({"condition": TEST}, None), ({"scans": (), "count": 5}, 5), ({"scans": ()}, None),
    ],
)  # fmt: skip
def test_the_number_of_steps_where_it_is_known(changes, steps):
    assert replace(LOOP, **changes).steps == steps


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({}, "float32"),
        ({"p1": "float16"}, "float16"),
        ({"p1": "float16", "main.G.a": "float64"}, "float64"),
        ({"main.G.b": "float64"}, "float32"),
        ({"main.G.w": "float64", "main.G.y": "float16"}, "float16"),
    ],
)
def test_results_of_a_branch_have_the_type_of_the_first(named, expected):
    assert assign(model(BRANCH), named=named)[Y] == expected


def test_a_constant_that_a_branch_gives_has_the_type_of_the_other():
    zero = tensor("zero", role="constant", value=0.0)
    for outside in (True, False):
        constants = {"constants": (zero,)}
        inner = graph((zero,), (zero,)) if outside else graph((), (zero,), **constants)
        one = model(replace(BRANCH, consequent=inner), **(constants if outside else {}))
        types = assign(one, named={"main.G.w": "float16"})
        assert types[Y] == types[zero] == "float16"
        types = assign(one, named={"main.G.y": "float64"})
        assert types[Y] == types[zero] == "float64"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"p1": "float16"}, {S: "float16", T: "float16", FINAL: "float16", E: "float32"}),
        ({"main.G.s": "float64"}, {X: "float32", S: "float64", T: "float64", FINAL: "float64"}),
        ({"main.G.t": "float64"}, {S: "float32", T: "float64", FINAL: "float32"}),
        ({"main.G.final": "float64"}, {S: "float32", T: "float32", FINAL: "float64"}),
        ({"p3": "float16"}, {E: "float16", Q[0]: "float16", Q[1]: "float16", S: "float32"}),
        ({"main.G.q:2": "float64"}, {Q[0]: "float32", Q[1]: "float64", I: "int32"}),
        ({"main.G.i": "int64"}, {I: "int64"}),
    ],
)
def test_types_go_around_in_a_loop(named, expected):
    types = assign(model(LOOP), named=named)
    assert {each: types[each] for each in expected} == expected


def test_the_index_has_the_default_of_int():
    assert assign(model(LOOP), defaults={"int": "int64"})[I] == "int64"
    sum_ = tensor("sum", "int", ())
    add = Operation("main.f", {}, {}, (I, N), (sum_,), ("T", "T"), ("T",), None, "f")
    types = assign(with_loop(body=graph((I, N, S, E), (S, E), add)), named={"p2": "int64"})
    assert (types[I], types[sum_]) == ("int32", "int32")


def test_what_starts_as_a_constant_has_the_type_that_it_meets_in_the_body():
    """As it would where the loop is unrolled."""
    zero = tensor("zero", role="constant", value=0.0)
    add = Operation("main.f", {}, {}, (S, E), (T,), ("T", "T"), ("T",), None, "f")
    summing = replace(LOOP, initial=(zero,), body=graph((S, E), (T, E), add))
    replacing = replace(LOOP, initial=(zero,), body=graph((E,), (T, E), relay(E, T)))
    for one in (summing, replacing):
        types = assign(model(one, constants=(zero,)), named={"p3": "float16"})
        assert {types[each] for each in (zero, S, T, FINAL)} == {"float16"}
    scanning = replace(summing, initial=(X,), scans=(Scan(E, (zero,)),), results=(FINAL, Q[:1]))
    types = assign(model(scanning, constants=(zero,)), named={"p1": "float16"})
    assert {types[each] for each in (zero, E, S, T, FINAL, Q[0])} == {"float16"}
    types = assign(model(replace(LOOP, initial=(zero,)), constants=(zero,)))
    assert {types[each] for each in (zero, S, T, FINAL)} == {"float32"}


def test_types_flow_through_a_condition():
    size = tensor("size")
    compare = Operation("main.f", {}, {}, (size,), (HOLDS,), ("T",), ("bool",), None, "f")
    test = graph((S,), (HOLDS,), relay(S, size), compare)
    assert assign(with_while(condition=test), named={"p1": "float64"})[size] == "float64"


BRANCH_TEXT = """\
graph main.G(p0 = main.G.c: bool[], p1 = main.G.x: real[3]) -> ()
  variable main.G.w: real[3]
  main.G.y: real[3] = if main.G.c then {
    graph main.then(p0 = main.G.x: real[3]) -> (p0 = main.G.a: real[3])
      main.G.a: real[3] = main.relay(main.G.x)
  } else {
    graph main.else(p0 = main.G.x: real[3]) -> (p0 = main.G.b: real[3])
      variable main.G.w: real[3]
      main.G.b: real[3] = main.relay(main.G.w)
  }"""


def test_a_branch_as_text():
    one = graph((C, X), (), BRANCH, variables=(W,))
    assert dump.text(one) == BRANCH_TEXT
    short = "  main.G.y: real[3] = if main.G.c then {...} else {...}"
    assert dump.text(one, bodies=False).split("\n")[2:] == [short]


LOOP_TEXT = """\
  main.G.final: real[3] = loop with main.G.s: real[3] = main.G.x \
for main.G.e: real[3] : [main.G.p:1, main.G.p:2] do..(main.G.i -> main.G.n) {
    graph main.body(p0 = main.G.s: real[3], p1 = main.G.e: real[3]) -> (t = main.G.t: real[3])
      main.G.t: real[3] = main.relay(main.G.s)
  } while {
    graph main.test(p0 = main.G.i: int[]) -> (p0 = main.G.holds: bool[1])
      main.G.holds: bool[1] = main.relay(main.G.i)
  }"""


def test_a_loop_as_text():
    assert "\n".join(dump.text(with_while(count=N)).split("\n")[2:]) == LOOP_TEXT


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"post_test": False}, "while {...} do..(main.G.i ->) {...}"),
        ({"index": None}, "do {...} while {...}"),
        ({"index": None, "count": 7}, "do..(7) {...} while {...}"),
    ],
)
def test_clauses_of_a_loop(changes, expected):
    (line,) = dump.text(with_while(**changes), bodies=False).split("\n")[2:]
    assert line.partition("main.G.p:2] ")[2] == expected


def test_json():
    one = model(BRANCH, replace(WHILE, count=N), updates=((W, Y),))
    data = dump.to_json(one)
    assert json.loads(json.dumps(data)) == data
    assert set(data["tensors"]) == {each.name for each in every_tensor(one)}
    branch, loop = data["operations"]
    inner = branch.pop("alternative")
    assert inner["operations"][0]["operator"] == "main.relay" and inner["updates"] == []
    assert branch.pop("consequent")["outputs"] == [{"name": "p0", "tensor": "main.G.a"}]
    assert branch == {
        "operator": "if", "label": "branch", "condition": "main.G.c",
        "operands": ["main.G.c", "main.G.x"], "results": ["main.G.y"],
    }  # fmt: skip
    assert loop.pop("body")["inputs"][1]["tensor"] == "main.G.e"
    assert loop.pop("condition")["operations"][0]["results"] == ["main.G.holds"]
    assert loop == {
        "operator": "loop", "label": "loop", "carried": ["main.G.s"], "initial": ["main.G.x"],
        "scans": [{"item": "main.G.e", "items": ["main.G.p:1", "main.G.p:2"]}],
        "index": "main.G.i", "count": "main.G.n", "post_test": True,
        "operands": ["main.G.x", "main.G.p:1", "main.G.p:2", "main.G.n"],
        "results": ["main.G.final"],
    }  # fmt: skip
    (bare,) = dump.to_json(with_loop(index=None, count=2))["operations"]
    assert (bare["index"], bare["count"], bare["condition"]) == (None, 2, None)


def test_dot():
    lines = dump.dot(model(BRANCH, replace(LOOP, initial=(Y,)), outputs=(FINAL,))).split("\n")
    assert '  "operation 0" [label="if\\nbranch"];' in lines
    assert '  "operation 0" -> "operation 1" [label="3"];' in lines
    assert '  "operation 1" -> "output p0" [label="3"];' in lines
