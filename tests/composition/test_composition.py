"""Components to operations: labels, scopes, packs, branches, loops, constants (2.7, 2.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tvm_nnef.api.building import compose
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.dump import text as dump
from tvm_nnef.graph.nodes import Graph, Loop, Operation, Tensor, operations, tensors

Composed = Callable[..., Graph]
Refused = Callable[..., Any]

OPERATORS = """
operator weigh {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @variable { w: real[s..]; }
    @lower { y[i..] = x[i..] * w[i..], i < s; }
}
operator twice {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @compose { a = weigh(x); y = weigh(a); }
}
operator wrap {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @compose { y = weigh(x); }
}
operator both {
    @input { x: real[s..]; }
    @output { y: real[s..]; z: real[s..]; }
    @variable { w: real[s..]; }
    @lower { y[i..] = x[i..] * w[i..], i < s; z[i..] = -x[i..], i < s; }
}
operator wrapped {
    @input { x: real[s..]; }
    @output { y: real[s..]; z: real[s..]; }
    @compose { y, z = both(x); }
}
operator parts {
    @attrib { k: int; }
    @input { x: real[s..]; }
    @output { ys: real[s..]..(k); }
    @lower { ys[i..] = x[i..], i < s; }
}
operator total {
    @input { xs: real[n]..(k); }
    @output { y: real[n]; }
    @lower { y[i,] += xs[j][i,], j < k, i < n; }
}
operator plus {
    @input { x: real[s..]; y: real[s..]; }
    @output { z: real[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; }
}
operator plain {
    @input { x: real[]; y: optional real[]; }
    @output { z: real[]; }
    @lower { z[] = x[] + (y[] ?? 1.0); }
}
"""


def graph_text(compose: str, outputs: str = "y: real[2];", extra: str = "") -> str:
    return OPERATORS + (
        f"graph G {{ {extra} @input {{ x: real[2]; }} @output {{ {outputs} }}"
        f" @compose {{ {compose} }} }}"
    )


# Labelling (2.10): what composes, and the names of the variables of the graph.
@pytest.mark.parametrize(("compose", "names"), [
    ("y = weigh(x);", ["y.w"]),
    ("y = l: weigh(x);", ["l.w"]),
    ("y = twice(x);", ["y.a.w", "y.y.w"]),
    ("y = l: twice(x);", ["l.a.w", "l.y.w"]),
    ("y = wrap(x);", ["y.w"]),
    ("y, ~ = l: both(x);", ["l.w"]),
    ("a, b = l: wrapped(x); y = relay(a);", ["l.w"]),
    ("y = if true then weigh(x) else relay(x);", ["y.w"]),
    ("y = if false then relay(x) elif true then weigh(x) else relay(x);", ["y.w"]),
    ("y = l: { a = weigh(x); yield a; };", ["l.a.w"]),
    ("y = { a = weigh(x); yield a; };", ["y.a.w"]),
    ("a = weigh(x); y = weigh(a);", ["a.w", "y.w"]),
    ("y = with a = x unroll..(2) l: weigh(a);", ["y:1.l.w", "y:2.l.w"]),
])  # fmt: skip
def test_variables_are_named_by_labels(composed: Composed, compose: str, names: list[str]) -> None:
    graph = composed(graph_text(compose))
    assert [tensor.name for tensor in graph.variables] == [f"main.G.{name}" for name in names]


def test_one_component_with_own_tensors_has_a_scope(composed: Composed) -> None:
    inner = (
        OPERATORS
        + """
        operator own { @input { x: real[n]; } @output { y: real[n]; }
            @constant { c: real[n] = 1.0; } @compose { y = weigh(x); } }
        graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = own(x); } }
    """
    )
    assert [tensor.name for tensor in composed(inner).variables] == ["main.G.y.y.w"]


@pytest.mark.parametrize(("compose", "words"), [
    ("y, ~ = both(x);", "needs a label for its variables"),
    ("y, ~ = wrapped(x);", "needs a label for its variables"),
    ("a = l: weigh(x); y = l: weigh(a);", "label"),

])  # fmt: skip
def test_variables_need_a_name_of_their_own(refused: Refused, compose: str, words: str) -> None:
    refused(graph_text(compose), words)


def test_duplicate_scopes_of_variables_are_refused(refused: Refused) -> None:
    compose = "p = { a = weigh(x); yield a; }; q = p: { a = weigh(p); yield a; }; y = q;"
    refused(graph_text(compose), "two tensors are named 'main.G.p.a.w'", "different labels")


# The left side: the names of the tensors of the results.
@pytest.mark.parametrize(("compose", "names"), [
    ("ys..(3) = parts{k=3}(x); y = total(ys);", ["ys:1", "ys:2", "ys:3", "y"]),
    ("[a, b..(2)] = parts{k=3}(x); y = total([a, b..]);", ["a", "b:1", "b:2", "y"]),
    ("[a, ~, c] = parts{k=3}(x); y = total([a, c]);", ["a", ".T2", "c", "y"]),
    ("[(a, b)..(2)] = parts{k=4}(x); y = total(a);", ["a:1", "b:1", "a:2", "b:2", "y"]),
    ("a, ~ = l: both(x); y = relay(a);", ["a", ".T1", "y"]),
    ("y: real[2] = relay(x);", ["y"]),
])  # fmt: skip
def test_results_are_named_by_the_left_side(
    composed: Composed, compose: str, names: list[str]
) -> None:
    graph = composed(graph_text(compose))
    results = [t.name for op in graph.operations for r in op.results for t in tensors(r)]
    assert results == [f"main.G.{name}" for name in names]


@pytest.mark.parametrize(("compose", "words"), [
    ("y: real[3] = relay(x);", "'y' has shape [2], declared as [3]"),
    ("y: int[2] = relay(x);", "declared int"),
    ("[a, b] = parts{k=3}(x); y = a;", "does not fit the list"),
    ("a..(2) = parts{k=3}(x); y = total(a);", "declared to be 2 long"),
    ("y = total(parts{k=3}(x));", "inside an expression"),
    ("a, b = relay(x); y = a;", "result"),
    ("y = relay(x, x);", "input"),
    ("y = total([]);", "input 'xs' of 'main.total' is an empty pack"),
])  # fmt: skip
def test_left_and_right_must_agree(refused: Refused, compose: str, words: str) -> None:
    refused(graph_text(compose), words)


def test_scalar_arguments_are_constants_of_rank_0(composed: Composed) -> None:
    graph = composed(
        OPERATORS
        + """
        graph G { @attrib { a: real = 2.0; } @output { y: real[]; z: real[]; }
            @compose { y = plain(a * 3.0, ~); z = plain(1.0, 2.0); } }
    """
    )
    first, second = graph.operations
    assert [(t.value, t.shape, t.role) for t in tensors(first.operands[0])] == [
        (6.0, (), "constant")
    ]
    assert first.operands[1] is None
    assert [t.value for operand in second.operands for t in tensors(operand)] == [1.0, 2.0]


def test_assignment_passes_tensors_on(composed: Composed) -> None:
    graph = composed(graph_text("a = x; y = true ? a : x;"))
    assert graph.operations == ()
    assert graph.outputs[0].operand is graph.inputs[0].operand


STATIC = """
    operator choose {{
        @attrib {{ c: optional int; }}
        @input {{ x: real[2]; z: optional real[2]; }}
        @output {{ y: real[2]; }}
        @compose {{ y = {compose}; }}
    }}
    graph G {{ @input {{ x: real[2]; }} @output {{ y: real[2]; }}
        @compose {{ y = choose{call}; }} }}
"""


@pytest.mark.parametrize(("compose", "call", "operators"), [
    ("if ?z then plus(x, z) else relay(x)", "(x)", ["relay"]),
    ("if ?z then plus(x, z) else relay(x)", "(x, x)", ["plus"]),
    ("if ?c && c > 1 then plus(x, x) else relay(x)", "{c=2}(x)", ["plus"]),
    ("if ?c && c > 1 then plus(x, x) else relay(x)", "{c=1}(x)", ["relay"]),
    ("if ?c && c > 1 then plus(x, x) else relay(x)", "(x)", ["relay"]),
    ("z ?? x", "(x)", []),
    ("{ x = relay(x); yield x; }", "(x)", ["relay"]),
])  # fmt: skip
def test_static_branches(composed: Composed, compose: str, call: str, operators: list[str]) -> None:
    graph = composed(OPERATORS + STATIC.format(compose=compose, call=call))
    inner = [operation.operator for operation in operations(graph)][1:]
    assert inner == [f"main.{name}" for name in operators]


def test_branch_that_is_not_taken_asserts_nothing(composed: Composed, refused: Refused) -> None:
    text = """
        operator picky { @input { x: real[n]; } @output { y: real[n]; } @assert { n > 9: "small"; }
            @lower { y[i,] = x[i,], i < n; } }
        graph G { @input { x: real[2]; } @output { y: real[2]; }
            @compose { y = if %s then picky(x) else relay(x); } }
    """
    assert composed(text % "false").operations[0].operator == "main.relay"
    refused(text % "true", "small", "asserted by 'main.picky'")


# Loops (2.10.1) over a pack of three tensors of shape [2].
@pytest.mark.parametrize(("loop", "count"), [
    ("y = with sum: real[2] = 0.0 for a : xs unroll plus(sum, a);", 3),
    ("y = with a = xs[0] unroll..(i -> 3) plus(a, xs[i]);", 3),
    ("y = with a = xs[0] do..(0) relay(a);", 0),
    ("y, zs..(0) = with a = xs[0] for b : [] do { c = plus(a, b); yield c, b; };", 0),
])  # fmt: skip
def test_unrolled_loops_are_their_steps(composed: Composed, loop: str, count: int) -> None:
    graph = composed(
        OPERATORS
        + f"""
        graph G {{ @input {{ xs: real[2]..(3); }} @output {{ y: real[2]; }} @compose {{ {loop} }} }}
    """
    )
    assert len(graph.operations) == count
    final = graph.outputs[0].operand
    last = graph.operations[-1].results[0] if count else graph.inputs[0].operand[0]
    assert final is last


@pytest.mark.parametrize(("loop", "count", "scans", "packs"), [
    ("ys..(3) = for a : xs do relay(a); y = total(ys);", 3, 1, [3]),
    ("y = with sum: real[2] = 0.0 for a : xs do plus(sum, a);", 3, 1, []),
    ("y = with sum = xs[0] for a : xs[1:] do plus(sum, a);", 2, 1, []),
    ("y = with a = xs[0] do..(5) relay(a);", 5, 0, []),
    ("y = with a = xs[0] for b : xs do..(2) plus(a, b);", 2, 1, []),
    ("y, zs..(3) = with a = xs[0] for b : xs do { c = plus(a, b); yield c, b; };", 3, 1, [3]),
    ("y = with a = xs[0] for b : xs do..(i ->) plus(a, b);", 3, 1, []),
    ("y = with a = xs[0] do..(1000000) relay(a);", 1000000, 0, []),
])  # fmt: skip
def test_other_loops_are_one_node(
    composed: Composed, loop: str, count: int, scans: int, packs: list[int]
) -> None:
    graph = composed(
        OPERATORS
        + f"""
        graph G {{ @input {{ xs: real[2]..(3); }} @output {{ y: real[2]; }} @compose {{ {loop} }} }}
    """
    )
    node = graph.operations[0]
    assert isinstance(node, Loop)
    assert node.count == count
    assert len(node.scans) == scans
    assert [len(each) for each in node.results if isinstance(each, tuple)] == packs


@pytest.mark.parametrize(("loop", "words"), [
    ("y = with a = x while d do relay(a);", "a loop condition must be one bool tensor"),
    ("y = with a = x do..(c) relay(a);", "bool"),
    ("y = if c then relay(x) else wide(x);", "one gives real[2], the other real[2, 1]"),
    ("y, zs..(2) = with a = x do..(k) { yield a, a; };", "nothing bounds the number of items"),
    ("y = with a = x do..(-1) relay(a);", "must not be negative"),
    ("y = with a = x for b : [x] do..(2) plus(a, b);", "2 iterations over packs of length 1"),
    ("y = with a = x for b : [x], d : [x, x] do plus(a, b);", "different lengths"),
    ("y = with a: real[3] = x do..(1) relay(a);", "has shape [2], declared as [3]"),
    ("z = with a = x do..(2) grow(a); y = x;", "'a' is carried as real[2], but"),
])  # fmt: skip
def test_loops_refused(refused: Refused, loop: str, words: str) -> None:
    refused(
        OPERATORS
        + f"""
        operator grow {{ @input {{ x: real[n]; }} @output {{ y: real[n + 1]; }}
            @lower {{ y[i,] = x[|i|,], i < n + 1; }} }}
        operator wide {{ @input {{ x: real[n]; }} @output {{ y: real[n,1]; }}
            @lower {{ y[i,0] = x[i,], i < n; }} }}
        graph G {{ @input {{ x: real[2]; c: bool[]; d: bool[2]; k: int[]; }}
            @output {{ y: real[2]; }}
            @compose {{ {loop} }} }}
    """,
        words,
    )


def test_branches_of_different_sizes_have_a_bounded_result(composed: Composed) -> None:
    graph = composed("""
        graph G { @input { x: real[3,2]; z: real[n|8,2]; c: bool[]; } @output { y: real[~,2]; }
            @compose { y = if c then x else z; } }
    """)
    (rows, columns) = graph.outputs[0].operand.shape
    assert (graph.bounds[str(rows)], columns) == (8, 2)


def test_a_condition_on_sizes_makes_them_equal_in_its_branch(composed: Composed) -> None:
    graph = composed("""
        graph G { @input { x: real[n|8]; z: real[m|8]; } @output { y: real[m]; }
            @compose { y = if n == m then x else z; } }
    """)
    assert str(graph.outputs[0].operand.shape[0]) == "m"
    assert list(graph.bounds) == ["n", "m"]


def test_unrolled_loop_may_change_what_it_carries(composed: Composed) -> None:
    graph = composed("""
        operator grow { @input { x: real[n]; } @output { y: real[n + 1]; }
            @lower { y[i,] = x[|i|,], i < n + 1; } }
        graph G { @input { x: real[2]; } @output { y: real[4]; }
            @compose { y = with a = x unroll..(2) grow(a); } }
    """)
    assert graph.outputs[0].operand.shape == (4,)


# Constants (2.7): type, shape, and the value, row-major if it is not uniform.
@pytest.mark.parametrize(("declaration", "expected"), [
    ("c: real[b] = 0.5;", [((2,), 0.5)]),
    ("c: real[b,n] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];",
     [((2, 3), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))]),
    ("c: real[b,b] = i == j ? 1.0 : 0.0, i < b, j < b;", [((2, 2), (1.0, 0.0, 0.0, 1.0))]),
    ("c: int[b,n] = 10 * i + j, i < b, j < n;", [((2, 3), (0, 1, 2, 10, 11, 12))]),
    ("c: int[s..] = 10 * i[0] + i[1], i < s;", [((2, 3), (0, 1, 2, 10, 11, 12))]),
    ("c: bool[] = true;", [((), True)]),
    ("c: int[n]..(2) = [7, 8];", [((3,), 7), ((3,), 8)]),
    ("c: int[0,n] = i, i < 0, j < n;", [((0, 3), ())]),
])  # fmt: skip
def test_constants(composed: Composed, declaration: str, expected: list[Any]) -> None:
    graph = composed(f"""
        graph G {{ @attrib {{ b: int = 2; n: int = 3; s: int.. = [2, 3]; }}
            @input {{ x: real[1]; }} @output {{ y: real[1]; }}
            @constant {{ {declaration} }} @compose {{ y = x; }} }}
    """)
    found = [(tensor.shape, tensor.value) for tensor in graph.constants]
    assert found == expected
    assert [type(v) for _, v in found] == [type(v) for _, v in expected]


@pytest.mark.parametrize(("declaration", "words"), [
    ("c: real[n] = [1.0];", "1 values for a constant of 2 elements"),
    ("c: int[n] = i, i < 3;", "differ from the shape [2]"),
    ("c: int[2]..(n) = [1];", "a pack of 2 constants takes as many values"),
    ("c: int[1000000, 1000000] = i * j, i < 1000000, j < 1000000;", "more than"),
])  # fmt: skip
def test_constants_refused(refused: Refused, declaration: str, words: str) -> None:
    refused(
        f"""
        graph G {{ @input {{ x: real[1]; }} @output {{ y: real[1]; }} @attrib {{ n: int = 2; }}
            @constant {{ {declaration} }} @compose {{ y = x; }} }}
    """,
        words,
    )


def test_shapes_of_outputs(composed: Composed) -> None:
    graph = composed(
        """
        operator op { @attrib { a: optional int; keep: bool = true; }
            @input { x: real[m, n]; }
            @output { y: real[m + n, a, n * 2, keep ? 1, m..(keep)]; }
            @lower { y[i..] = x[0,0], i < y.shape; } }
        graph G { @input { x: real[2,3]; } @output { p: real; q: real[~, ~]; r: real[5, ~..]; }
            @compose { p = op(x); q = op{keep=false}(x); r = op{a=4}(x); } }
    """.replace("y.shape", "[m + n, (?a ? [a] : []).., n * 2, 1 ..(keep), m..(keep)]")
    )
    shapes = [port.operand.shape for port in graph.outputs]
    assert shapes == [(5, 6, 1, 2), (5, 6), (5, 4, 6, 1, 2)]


def test_chain_of_invocations_is_reported(refused: Refused) -> None:
    error = refused(
        """
        operator inner { @attrib { a: int; } @input { x: real[]; } @output { y: real[]; }
            @assert { a > 0: "a must be positive", a; } @lower { y[] = x[]; } }
        operator middle { @attrib { a: int; } @input { x: real[]; } @output { y: real[]; }
            @compose { y = inner{a=a - 5}(x); } }
        graph G { @input { x: real[]; } @output { y: real[]; } @compose { y = middle{a=2}(x); } }
    """,
        "a must be positive; a = -3",
    )
    (diagnostic,) = error.diagnostics
    assert diagnostic.span.text == "inner{a=a - 5}(x)"
    notes = [note.message for note in diagnostic.notes]
    assert notes == ["asserted by 'main.inner'", "in this invocation of 'main.middle'"]


def test_graph_as_dump(composed: Composed, golden: Callable[[str, str], None]) -> None:
    compose = "[a, b..(2)] = parts{k=3}(x); c = total([a, b..]); y = twice(c);"
    golden("twice", dump(composed(graph_text(compose))))


def test_tensor_names_are_unique(composed: Composed) -> None:
    graph = composed(graph_text("a = relay(x); b = { a = relay(x); yield a; }; y = plus(a, b);"))
    names = [t.name for op in graph.operations for r in op.results for t in tensors(r)]
    assert len(set(names)) == len(names)
    assert all(isinstance(t, Tensor) for op in graph.operations for t in op.results)


# A graph invoked by a branch is its own root scope, and may leave shapes open.
@pytest.mark.parametrize(("call", "scope"), [("Sub(x)", "main.Sub"), ("l: Sub(x)", "main.G.l")])
def test_subgraph(composed: Composed, call: str, scope: str) -> None:
    graph = composed(
        OPERATORS
        + f"""
        graph G {{ @input {{ x: real[2]; }} @output {{ y: real[2]; }}
            @compose {{ y = if true then {call} else x; }} }}
        graph Sub {{ @input {{ x: real[~]; }} @output {{ y: real; }} @compose {{ y = weigh(x); }} }}
    """,
        graph="G",
    )
    assert [tensor.name for tensor in graph.variables] == [f"{scope}.y.w"]
    assert graph.outputs[0].operand.shape == (2,)


def test_independent_mistakes_are_all_reported() -> None:
    text = """import math; import linalg;
graph G { @input { x: real[3,4]; y: real[5]; } @output { z: real; w: real; v: real; }
@compose {
  a = math.add(x, y);
  b = linalg.matmul(x, x);
  z = math.add(a, b);
  w = math.exp(x);
  c = math.sum_reduce{axes=[7]}(w);
  v = c;
} }
"""
    with pytest.raises(NnefError) as problem:
        compose(text)
    assert [each.line for each in problem.value.diagnostics] == [4, 5, 8]


def test_operations_have_the_values_of_their_using_block() -> None:
    text = """import nn;
graph G { @input { x: real[1,2,5,h|9]; f: real[3,2,3,4]; } @output { y: real; }
@compose { y = nn.conv{stride=[2, 1], padding_align='LOWER'}(x, f); } }
"""
    (operation,) = compose(text).operations
    assert isinstance(operation, Operation)
    # (5 / 2 - 1) * 2 + 3 - 5 = 0 and (h - 1) + 4 - h = 3, whose larger half is in front
    assert [operation.using[name] for name in ("paddings", "offset")] == [(0, 3), (0, 2)]
    assert operation.using["data_formats"] == ("NCX", "NXC", "XCN")
