"""Graphs built by hand: order, packs, null, constants, composites, dtypes, errors."""

from __future__ import annotations

import weakref
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError, Source, Span
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
)
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, Operation, Port, Tensor
from tvm_nnef.reference import evaluate
from tvm_nnef.symbolic import dimensions

SPAN = Span(Source("main.sknd", "y = f(x);\n"), 4, 8)


def tensor(name, shape=(3,), type="real", role="result", value=None):
    return Tensor(name, type, shape, role, value)


def operation(operands, results, body, operator="main.f", trace=()):
    kinds = [
        tuple(each.type if isinstance(each, Tensor) else "real" for each in group)
        for group in (operands, results)
    ]
    return Operation(operator, {}, {}, operands, results, *kinds, body, "label", trace)


def elementwise(function, left, right, result, trace=()):
    """``result = function(left, right)``, all of one shape."""
    indices = [Index(f"i{axis}") for axis in range(result.rank)]
    at = tuple(Subscript(index) for index in indices)
    value = Binary(function, Load(left, at), Load(right, at))
    loops = tuple(
        Loop(index, Constant("int", extent))
        for index, extent in zip(indices, result.shape, strict=True)
    )
    zero = Constant(result.type, False if result.type == "bool" else 0)
    statement = Statement(loops, (Store(result, at, "=", value),))
    formula = Formula((Fill(result, zero),), (statement,))
    return operation((left, right), (result,), formula, trace=trace)


def graph(inputs, outputs, operations, **more):
    return Graph(
        "main.G",
        tuple(Port(name, operand) for name, operand in inputs.items()),
        tuple(Port(name, operand) for name, operand in outputs.items()),
        tuple(operations),
        **more,
    )


@pytest.fixture
def sums():
    """x + w, and twice that."""
    x, w = tensor("main.G.x", role="input"), tensor("main.G.w", role="variable")
    y, z = tensor("main.G.y"), tensor("main.G.z")
    steps = [elementwise("add", x, w, y), elementwise("add", y, y, z)]
    return graph({"x": x}, {"z": z, "y": y}, steps, variables=(w,))


X = np.array([1, 2, 3], "float32")
W = {"main.G.w": np.array([10, 20, 30], "float32"), "main.Other.v": np.zeros(9)}


def test_outputs_are_in_the_order_of_the_graph(sums):
    z, y = evaluate(sums, [X], W)
    np.testing.assert_array_equal(y, [11, 22, 33])
    np.testing.assert_array_equal(z, [22, 44, 66])


def test_observer_sees_every_result_in_order(sums):
    seen = []
    evaluate(sums, [X], W, observe=lambda tensor, array: seen.append((tensor.name, array.sum())))
    assert seen == [("main.G.y", 66), ("main.G.z", 132)]


def test_packs_are_lists_and_null_is_none():
    pack = (tensor("main.G.p:1", role="input"), tensor("main.G.p:2", role="input"))
    y = tensor("main.G.y")
    inputs, outputs = {"p": pack, "o": None}, {"y": y, "q": pack, "o": None}
    found = evaluate(graph(inputs, outputs, [elementwise("sub", *pack, y)]), [[X, 2 * X], None], {})
    np.testing.assert_array_equal(found[0], -X)
    np.testing.assert_array_equal(found[1], [X, 2 * X])
    assert isinstance(found[1], list) and found[2] is None


def test_constants_uniform_listed_and_captured():
    one = tensor("main.G.c", role="constant", value=1.5)
    items = tensor("main.G.d", (2, 2), role="constant", value=(1.0, 2.0, 3.0, 4.0))
    captured = tensor("main.G.e", (), role="constant", value=100.0)
    x, y, z = tensor("main.G.x", (2, 2), role="input"), tensor("y", (2, 2)), tensor("z", ())
    total = Statement(
        tuple(Loop(Index(name), Constant("int", 2)) for name in "ij"),
        (Store(z, (), "+=", Load(y, (Subscript(Index("i")), Subscript(Index("j"))))),),
    )
    start = Statement((), (Store(z, (), "=", Load(captured, ())),))
    formula = Formula((Fill(z, Constant("real", 0.0)),), (start, total), (captured,))
    wide = tensor("main.G.c2", (2, 2), role="constant", value=1.5)
    steps = [elementwise("mul", items, wide, y), operation((y,), (z,), formula)]
    (found, same) = evaluate(
        graph({"x": x}, {"z": z, "one": one}, steps, constants=(one, items, wide)),
        [np.zeros((2, 2), "float32")],
        {},
    )
    assert found == 115
    np.testing.assert_array_equal(same, [1.5] * 3)


def test_composite_is_evaluated_by_its_body():
    x, w = tensor("main.G.x", role="input"), tensor("main.G.f.w", role="variable")
    inner, result = tensor("main.G.f.t"), tensor("main.G.y")
    passed = tensor("main.G.passed")
    body = graph({"a": x}, {"b": inner, "a": x}, [elementwise("mul", x, w, inner)], variables=(w,))
    outer = graph(
        {"x": x},
        {"y": result, "passed": passed},
        [operation((x,), (result, passed), body)],
        variables=(w,),
    )
    seen = []
    found = evaluate(
        outer, [X], {"main.G.f.w": 2 * X}, observe=lambda tensor, array: seen.append(tensor.name)
    )
    np.testing.assert_array_equal(found, [2 * X * X, X])
    assert seen == ["main.G.f.t", "main.G.y", "main.G.passed"]


@pytest.mark.parametrize(("dtype", "expected"), [("int32", 300), ("int8", 44), ("uint8", 44)])
def test_results_wrap_once_when_they_are_stored(dtype, expected):
    a, b, y = (tensor(f"main.G.{name}", (1,), "int", "input") for name in "aby")
    y = tensor("main.G.y", (1,), "int")
    one = graph({"a": a, "b": b}, {"y": y}, [elementwise("add", a, b, y)])
    types = assign(one, named={"main.G.y": dtype})
    (found,) = evaluate(one, [np.array([100]), np.array([200])], {}, machine_types=types)
    assert found.dtype == dtype and found[0] == expected


def test_half_precision_accumulates_in_single_precision():
    x, y = tensor("main.G.x", (4096,), role="input"), tensor("main.G.y", ())
    step = Statement(
        (Loop(Index("i"), Constant("int", 4096)),),
        (Store(y, (), "+=", Load(x, (Subscript(Index("i")),))),),
    )
    formula = Formula((Fill(y, Constant("real", 0.0)),), (step,))
    one = graph({"x": x}, {"y": y}, [operation((x,), (y,), formula)])
    types = assign(one, defaults={"real": "float16"})
    (found,) = evaluate(one, [np.ones(4096, "float16")], {}, machine_types=types)
    # A float16 counts by ones up to 2048 only.
    assert found.dtype == "float16" and found == 4096


def test_dtypes_of_the_graph_itself_are_used(sums):
    types = assign(sums, defaults={"real": "float64"})
    assert evaluate(replace(sums, machine_types=types), [X], W)[0].dtype == "float64"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.array([[0, 3], [5, 0]]), [[0, 1], [1, 0]]),
        (np.zeros((2, 2), int), np.zeros((2, 0))),
    ],
)
def test_nonzero_defines_the_data_dependent_dimension(data, expected):
    count = dimensions.symbol("count")
    x = tensor("main.G.x", (2, 2), "int", "input")
    index, double = (tensor(f"main.G.{name}", (2, count), "int") for name in "ij")
    steps = [
        operation((x,), (index,), None, "layout.nonzero"),
        elementwise("add", index, index, double),
    ]
    found = evaluate(graph({"x": x}, {"i": index, "j": double}, steps), [data], {})
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], 2 * np.array(expected))
    assert found[0].dtype == "int32"


def test_an_unknown_intrinsic_is_an_error_with_a_location():
    x, y = tensor("main.G.x", role="input"), tensor("main.G.y")
    step = operation((x,), (y,), None, "rand.normal", (SPAN,))
    with pytest.raises(NnefError, match=r"main.sknd:1:5: .*rand\.normal") as caught:
        evaluate(graph({"x": x}, {"y": y}, [step]), [X], {})
    assert "layout.nonzero" in caught.value.diagnostics[0].hint


def test_reading_out_of_bounds_is_an_error_with_a_location_and_the_way_there():
    x, index, y = (tensor(f"main.G.{name}", (3,), role="input") for name in ("x", "index", "y"))
    index = tensor("main.G.index", (3,), "int", "input")
    y = tensor("main.G.y")
    i = Subscript(Index("i"))
    step = Statement(
        (Loop(Index("i"), Constant("int", 3)),),
        (Store(y, (i,), "=", Load(x, (Subscript(Load(index, (i,))),))),),
    )
    formula = Formula((Fill(y, Constant("real", 0.0)),), (step,))
    steps = [operation((x, index), (y,), formula, trace=(SPAN, SPAN))]
    gather = graph({"x": x, "index": index}, {"y": y}, steps)
    np.testing.assert_array_equal(evaluate(gather, [X, [2, 0, 1]], {})[0], [3, 1, 2])
    with pytest.raises(NnefError) as caught:
        evaluate(gather, [X, [2, -1, 1]], {})
    (problem,) = caught.value.diagnostics
    assert problem.message == (
        "in 'label' (main.f): index -1 is out of bounds for dimension 0 of 'main.G.x', which has 3"
    )
    assert problem.line == 1 and len(problem.notes) == 1


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64", "bool", "float64"])
def test_numbers_that_are_exact_become_reals(sums, dtype):
    given = np.array([0, 1, 1]).astype(dtype)
    expected = evaluate(sums, [given.astype(np.float32)], W)
    for found, each in zip(evaluate(sums, [given], W), expected, strict=True):
        np.testing.assert_array_equal(found, each)


@pytest.mark.parametrize("extra", [[], [X, X]])
def test_number_of_inputs(sums, extra):
    with pytest.raises(NnefError, match=r"takes 1 input \('x'\), got (0|2)"):
        evaluate(sums, extra, W)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (X[:2], r"input 'x': expected shape \(3\), got \(2\)"),
        (X[None], r"input 'x': expected shape \(3\), got \(1, 3\)"),
        (np.array([1, 2, 2**24 + 1]), r"input 'x': float32 does not hold 16777217 of int64"),
        (np.array([1, 2, 2**63 - 1]), r"input 'x': float32 does not hold 9223372036854775807"),
        (np.array(["a"] * 3), r"input 'x': expected real, got texts"),
        (np.ma.masked_array(X, [1, 0, 0]), r"input 'x': elements of the array are masked"),
        ((each for each in X), r"input 'x': expected real, got a generator"),
        ("x.npy", r"input 'x': expected real, got a str"),
        ([[1], [2, 3]], r"input 'x': no array can be made"),
        (None, r"input 'x': expected real, got None"),
    ],
)
def test_inputs_that_do_not_fit(sums, value, message):
    with pytest.raises(NnefError, match=message):
        evaluate(sums, [value], W)


@pytest.mark.parametrize(
    "value", [[1, 2, 3], (1.0, 2.0, 3.0), X.astype("float64"), X.astype("float16")]
)
def test_inputs_that_are_converted(sums, value):
    z, _ = evaluate(sums, [value], W)
    np.testing.assert_array_equal(z, [22, 44, 66])
    assert z.dtype == "float32"


@pytest.mark.parametrize(
    ("value", "dtype", "fits"),
    [
        (np.array([2**31 - 1]), "int32", True),
        (np.array([2**31]), "int32", False),
        (np.array([-1]), "uint8", False),
        (np.array([255], "uint64"), "uint8", True),
    ],
)
def test_ints_must_fit(value, dtype, fits):
    x = tensor("main.G.x", (1,), "int", "input")
    one = graph({"x": x}, {"x": x}, [])
    types = assign(one, named={"x": dtype})
    if fits:
        assert evaluate(one, [value], {}, machine_types=types)[0] == value[0]
    else:
        with pytest.raises(NnefError, match=f"{dtype} cannot hold"):
            evaluate(one, [value], {}, machine_types=types)


@pytest.mark.parametrize(
    ("value", "message"),
    [([X], "expected a list of 2, got 1"), (X, "expected a list of 2, got no list")],
)
def test_packs_that_do_not_fit(value, message):
    pack = (tensor("main.G.p:1", role="input"), tensor("main.G.p:2", role="input"))
    with pytest.raises(NnefError, match=f"input 'p' is a pack: {message}"):
        evaluate(graph({"p": pack}, {"p": pack}, []), [value], {})


def test_all_that_is_wrong_with_the_inputs_is_reported_at_once():
    x, y = (tensor(f"main.G.{name}", role="input") for name in "xy")
    with pytest.raises(NnefError) as caught:
        evaluate(graph({"x": x, "y": y}, {"x": x}, []), [X[:1], X[:2]], {})
    assert len(caught.value.diagnostics) == 2


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"main.G.v": X}, r"variable 'main\.G\.w' has no value(.|\n)*did you mean 'main\.G\.v'"),
        ({"main.G.w": X[:2]}, r"variable 'main\.G\.w': expected shape \(3\), got \(2\)"),
        ({"main.G.w": np.arange(3)}, r"variable 'main\.G\.w': expected real \(float32\)"),
    ],
)
def test_variables_that_do_not_fit(sums, variables, message):
    with pytest.raises(NnefError, match=message):
        evaluate(sums, [X], variables)


def test_outputs_are_the_users_own(sums):
    data = X.copy()
    x = sums.inputs[0].operand
    (found,) = evaluate(graph({"x": x}, {"x": x}, []), [data], {})
    found[:] = 0
    np.testing.assert_array_equal(data, X)


def test_arrays_that_no_operation_needs_any_more_are_dropped():
    chain = [tensor("main.G.x", role="input"), *(tensor(f"main.G.t{n}") for n in range(6))]
    steps = [elementwise("add", a, a, b) for a, b in pairwise(chain)]
    seen, alive = [], []

    def observe(tensor, array):
        seen.append(weakref.ref(array))
        alive.append(sum(reference() is not None for reference in seen))

    evaluate(graph({"x": chain[0]}, {"y": chain[-1]}, steps), [X], {}, observe=observe)
    # The result, its operand, and nothing older.
    assert max(alive) == 2


@pytest.mark.parametrize("use", ["evaluate", "build"])
def test_a_variable_that_becomes_infinite_is_refused(use: str) -> None:
    text = (
        "import math; graph G { @input { x: real[2]; } @variable { w: real[2]; }\n"
        "@output { y: real[2]; } @compose { y = math.mul(x, w); } }\n"
    )
    model = tvm_nnef.load_model(text, variables={"main.G.w": np.array([1e300, 1.0])})
    with pytest.raises(NnefError, match=r"'main.G.w'.*float32 cannot hold, such as 1e\+300"):
        if use == "build":
            tvm_nnef.build(model, progress=False)
        else:
            tvm_nnef.evaluate(model, np.ones(2, "float32"))
