"""Which dtype each tensor of a graph gets, and what is said of dtypes that cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.formula import Constant, Fill, Formula
from tvm_nnef.graph.machine_types import DTYPES, assign, compute_types
from tvm_nnef.graph.nodes import Graph, Operation, Port, Tensor, flatten


def tensor(name, type="real", role="result", value=None):
    return Tensor(name, type, (2,), role, value)


def operation(operands, results, operand_types, result_types, body=None):
    return Operation(
        "main.f", {}, {}, operands, results, tuple(operand_types), tuple(result_types), body, "f"
    )


def graph(inputs, operations, **more):
    ports = tuple(Port(t.name.rpartition(".")[2], t) for t in inputs)
    outputs = tuple(Port("out", t) for each in operations for t in flatten(each.results))
    return Graph("main.G", ports, outputs, tuple(operations), **more)


X = tensor("main.G.x", role="input")
N = tensor("main.G.n", "int", role="input")


def result_type(one, **options):
    types = assign(one, **options)
    return types[flatten(one.operations[-1].results)[0]]


def test_defaults_by_type():
    flag = tensor("main.G.flag", "bool", role="variable")
    types = assign(graph([X, N], [], variables=(flag,)))
    assert types == {X: "float32", N: "int32", flag: "bool"}
    types = assign(graph([X, N], [], variables=(flag,)), defaults={"real": "float16"})
    assert types == {X: "float16", N: "int32", flag: "bool"}


@pytest.mark.parametrize(
    ("operands", "operand_types", "result", "result_types", "expected"),
    [
        ((N,), ["T"], tensor("y", "int"), ["T"], "int64"),
        ((N,), ["int"], tensor("y", "int"), ["int"], "int64"),
        ((X,), ["T"], tensor("y"), ["R"], "float32"),
        ((X, N), ["T", "int"], tensor("y"), ["T"], "float16"),
        ((None, X), ["T", "T"], tensor("y"), ["T"], "float16"),
        (((X, X), N), ["T", "int"], tensor("y"), ["T"], "float16"),
        ((X,), ["T"], tensor("y", "int"), ["int"], "int32"),
        ((X,), ["T"], tensor("y", "bool"), ["bool"], "bool"),
        ((None,), ["T"], tensor("y"), ["T"], "float32"),
    ],
)
def test_results_inherit_from_operands_of_the_same_declared_type(
    operands, operand_types, result, result_types, expected
):
    one = graph([X, N], [operation(operands, (result,), operand_types, result_types)])
    assert result_type(one, named={"x": "float16", "main.G.n": "int64"}) == expected


def test_a_named_result_does_not_inherit():
    y, z = tensor("main.G.y"), tensor("main.G.z")
    steps = [operation((X,), (y,), "T", "T"), operation((y,), (z,), "T", "T")]
    types = assign(graph([X], steps), named={"main.G.y": "float64"})
    assert (types[X], types[y], types[z]) == ("float32", "float64", "float64")


def test_a_constant_follows_the_operand_beside_it_and_leads_none():
    one = tensor("main.G.c", role="constant", value=1.0)
    y = tensor("main.G.y")
    step = operation((one, X), (y,), ["T", "T"], ["T"])
    types = assign(graph([X], [step], constants=(one,)), named={"x": "float16"})
    assert types[one] == types[y] == "float16"


def test_the_name_of_an_input_stands_for_all_of_its_pack():
    pack = (tensor("main.G.p:1", role="input"), tensor("main.G.p:2", role="input"))
    one = Graph("main.G", (Port("p", pack),), (), ())
    assert set(assign(one, named={"p": "float16"}).values()) == {"float16"}


def test_bodies_are_typed_and_the_declaration_outside_wins():
    inner, y = tensor("main.G.y.t"), tensor("main.G.y")
    cast = operation((X,), (inner,), ["T"], ["R"])
    last = operation((inner,), (y,), ["T"], ["T"])
    captured = tensor("main.G.y.c", role="constant", value=0.0)
    formula = Formula((Fill(y, Constant("real", 0.0)),), (), (captured,))
    last = operation((inner,), (y,), ["T"], ["T"], formula)
    body = Graph("main.G.y", (Port("x", X),), (Port("y", y),), (cast, last))
    for declared, expected in [("T", "float16"), ("R", "float32")]:
        outer = graph([X], [operation((X,), (y,), ["T"], [declared], body)])
        types = assign(outer, named={"x": "float16"})
        assert (types[inner], types[y]) == ("float32", expected)
        assert types[captured] == "float32"


def test_result_of_a_body_that_ends_in_another_tensor_has_its_type():
    inner, y = tensor("main.G.y.t", "int"), tensor("main.G.y", "int")
    step = operation((N,), (inner,), ["T"], ["T"])
    body = Graph("main.G.y", (Port("n", N),), (Port("t", inner),), (step,))
    one = graph([N], [operation((N,), (y,), ["A"], ["B"], body)])
    assert result_type(one, named={"n": "int64"}) == "int64"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"defaults": {"real": "float31"}}, "unknown dtype 'float31'", "float32"),
        ({"defaults": {"reel": "float32"}}, "'reel' is not a type of a model", "real"),
        (
            {"defaults": {"int": "float32"}},
            "'float32' is not a dtype for the type int",
            "int64",
        ),
        ({"named": {"main.G.X": "float32"}}, "no tensor has this name", "main.G.x"),
        (
            {"named": {"main.G.x": "int8"}},
            "not a dtype for 'main.G.x', which is real",
            "float16",
        ),
        ({"named": {"x": "flaot16"}}, "unknown dtype 'flaot16'", "float16"),
    ],
)
def test_what_cannot_be(options, message, hint):
    with pytest.raises(NnefError) as caught:
        assign(graph([X, N], []), **options)
    (problem,) = caught.value.diagnostics
    assert message in problem.message and hint in problem.hint


def test_all_wrong_names_are_reported_at_once():
    with pytest.raises(NnefError) as caught:
        assign(graph([X], []), named={"a": "int8", "b": "int8", "x": "int8"})
    assert len(caught.value.diagnostics) == 3


@pytest.mark.parametrize("dtype", [name for name, kind in DTYPES.items() if kind == "int"])
def test_formulas_compute_in_what_holds_all_values(dtype):
    y = tensor("main.G.y", "int")
    step = operation((N, X), (y,), ["int", "real"], ["int"])
    for named in ({"n": dtype}, {"main.G.y": dtype}):
        wide = dtype in {"int64", "uint64", "uint32"}
        found = compute_types(step, assign(graph([N, X], [step]), named=named))
        assert found == {"real": "float32", "int": "int64" if wide else "int32", "bool": "bool"}


def test_captured_tensors_count_for_the_type_of_computation():
    table, y = tensor("main.G.table", role="variable"), tensor("main.G.y")
    formula = Formula((Fill(y, Constant("real", 0.0)),), (), (table,))
    step = operation((X,), (y,), ["real"], ["R"], formula)
    types = assign(graph([X], [step], variables=(table,)), named={"main.G.table": "float64"})
    assert types[y] == "float32"
    assert compute_types(step, types)["real"] == "float64"


def composite(public=False):
    """y = f(x), where f is g(t, 1) and t = h(x)."""
    inner, one = tensor("main.G.y.t"), tensor("main.G.y.one", role="constant", value=1.0)
    y = tensor("main.G.y")
    steps = (
        operation((X,), (inner,), "T", "T"),
        operation((inner, one), (y,), ["T", "T"], ["T"]),
    )
    body = Graph("main.G.y", (Port("x", X),), (Port("y", y),), steps)
    call = replace(operation((X,), (y,), ["real"], ["real"], body), public=public)
    return replace(graph([X], [call]), constants=(one,)), inner, one, y


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_intermediates_of_a_composed_operator_are_at_least_single(half):
    outer, inner, one, y = composite()
    types = assign(outer, defaults={"real": half})
    assert (types[X], types[inner], types[one], types[y]) == (half, "float32", "float32", half)
    assert set(assign(outer, defaults={"real": "float64"}).values()) == {"float64"}


def test_tensors_of_a_public_operator_have_the_type_asked_for():
    outer, inner, one, _ = composite(public=True)
    types = assign(outer, defaults={"real": "float16"})
    assert types[inner] == types[one] == "float16"


def test_an_intermediate_that_is_named_has_that_type():
    outer, inner, *_ = composite()
    types = assign(outer, defaults={"real": "float16"}, named={inner.name: "float16"})
    assert types[inner] == "float16"
