"""Routes held against each other: the first wrong operator is found, and rounding is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tvm_nnef
from tvm_nnef.comparison import ROUTES
from tvm_nnef.comparison.differences import TOLERANCES, difference
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.nodes import flatten

DIGITS = Path(__file__).resolve().parents[1] / "docs" / "examples" / "digits"

STEPS = """
import math;

graph Steps {
    @input { x: real[2,3]; }
    @output { y: real[2,3]; }
    @compose {
        a = math.add(x, 1.0);
        b = math.exp(a);
        c = math.sqrt(b);
        y = math.mul(c, x);
    }
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
STEPS_OF_X = np.sqrt(np.exp(X + 1)) * X


def compared(model: Any, *inputs: Any, **options: Any) -> tvm_nnef.Report:
    return tvm_nnef.compare(model, *inputs, progress=False, **options)


def scaled(name: str, factor: float) -> Callable[..., Any]:
    """A lowering that gives a multiple of what it should."""

    def lowering(builder: Any, operation: Any, operands: Any) -> Any:
        from tvm import relax

        right = builder.emit(getattr(relax.op, name)(operands[0]))
        return relax.op.multiply(right, relax.const(factor, "float32"))

    return lowering


@pytest.mark.parametrize(
    "routes",
    [
        ("mapped", "reference"),
        pytest.param(("formula", "reference"), marks=pytest.mark.slow),
        pytest.param(("mapped", "formula"), marks=pytest.mark.slow),
    ],
)
def test_a_model_agrees_with_itself(routes: tuple[str, str]) -> None:
    report = compared(DIGITS, routes=routes)
    assert report.agrees
    assert report.first_difference is None
    assert report.diagnostic() is None
    graph = tvm_nnef.compose(DIGITS)
    named = [row.tensor.short_name for row in report.rows if row.node]
    results = flatten(tuple(result for node in graph.operations for result in node.results))
    assert named == [tensor.short_name for tensor in results]
    assert report.count == len(named)


@pytest.mark.parametrize("chained", [False, True])
def test_the_first_wrong_operator_is_named_with_its_location(chained: bool) -> None:
    def unreachable(*_: Any) -> Any:
        raise AssertionError("what follows the first difference is not executed")

    lowerings = {"math.exp": scaled("exp", 1.25), "math.sqrt": unreachable}
    report = compared(STEPS, X, lowerings=lowerings, chained=chained)
    assert not report.agrees
    assert [row.agrees for row in report.rows] == [True, False]
    row = report.first_difference
    assert row is not None
    assert (row.operator, row.label, row.line) == ("math.exp", "b", 9)
    found = row.difference
    assert found.beyond == 6
    # The relative difference is the same everywhere; measured against what is allowed, which
    # never falls below a share of the typical element, it is worst at the largest one.
    assert found.position == (1, 2)
    assert found.values == pytest.approx((1.25 * np.exp(6), np.exp(6)), rel=1e-5)
    assert found.largest == pytest.approx(0.25 * np.exp(6), rel=1e-5)
    assert found.relative == pytest.approx(0.2, rel=1e-5)
    shown = str(report)
    for words in (
        ":9:13: error: in 'b' (math.exp): mapped and reference give different values of 'b'",
        "  9 |         b = math.exp(a);",
        "    |             ^^^^^^^^^^^",
        "float32 [2, 3]: 6 of 6 elements differ",
        "worst at [1, 2]: 504.28",
        "compare each with 'formula'",
        "tensor 2 of 4",
    ):
        assert words in shown


@pytest.mark.slow
def test_rounding_that_adds_up_is_no_fault() -> None:
    """Each step errs by half of what is allowed; only where they are chained do they differ."""
    steps = "\n".join(f"t{n} = math.abs(t{n - 1});" for n in range(1, 9))
    text = (
        "import math;\ngraph G { @input { t0: real[4]; } @output { t8: real[4]; }\n"
        f"@compose {{ {steps} }} }}\n"
    )
    inexact = {"math.abs": scaled("abs", 1 + TOLERANCES["float32"] / 2)}
    assert compared(text, lowerings=inexact).agrees
    report = compared(text, lowerings=inexact, chained=True)
    assert not report.agrees
    assert len(report.rows) > 1


def test_a_threshold_after_rounding_is_no_fault() -> None:
    text = (
        "import math;\ngraph G { @input { x: real[2]; } @output { y: real[2]; }\n"
        "@compose { a = math.abs(x); y = math.floor(a); } }\n"
    )
    inexact = {"math.abs": scaled("abs", 1 - 1e-6)}
    x = np.array([3, 4.5], np.float32)
    assert compared(text, x, lowerings=inexact).agrees
    report = compared(text, x, lowerings=inexact, chained=True)
    assert report.first_difference is not None
    assert report.first_difference.operator == "math.floor"
    assert report.first_difference.difference.values == (2.0, 3.0)


NESTED = """
import math;

operator inner {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @compose {
        e = math.exp(x);
        y = math.sqrt(e);
    }
}

operator outer {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @compose {
        a = math.abs(x);
        y = inner(a);
    }
}

graph G {
    @input { x: real[3]; }
    @output { y: real[3]; }
    @compose {
        y = outer(x);
    }
}
"""


def test_a_composition_that_differs_is_opened() -> None:
    report = compared(NESTED, lowerings={"math.exp": scaled("exp", 2.0)})
    row = report.first_difference
    assert row is not None
    assert (row.operator, row.line, row.depth) == ("math.exp", 8, 2)
    assert [each.operator for each in report.rows if not each.agrees] == [
        "main.outer",
        "main.inner",
        "math.exp",
    ]
    shown = str(report)
    for position in (":8:13: error", ":18:13: note: invoked from here", ":26:13: note: invoked"):
        assert position in shown


def test_where_a_body_agrees_its_mapping_is_blamed() -> None:
    report = compared(NESTED, lowerings={"main.inner": scaled("abs", 1.0)})
    row = report.first_difference
    assert row is not None
    assert (row.operator, row.line) == ("main.inner", 18)
    assert "all operations in its body agree: look at how 'main.inner' is mapped" in str(report)


BRANCHES = """
import math;

graph G {
    @input { c: bool[]; n: int[]; x: real[3]; }
    @output { y: real[3]; z: real[3]; }
    @compose {
        y = if c then math.exp(x) else math.abs(x);
        z = with t = y do..(n) math.sqrt(t);
    }
}
"""


@pytest.mark.slow
def test_results_of_branches_and_loops_are_compared() -> None:
    inputs = (np.bool_(True), np.int32(3), np.ones(3, np.float32))
    report = compared(BRANCHES, *inputs)
    assert report.agrees
    assert [row.operator for row in report.rows if row.node] == ["if", "loop"]
    wrong = compared(BRANCHES, *inputs, lowerings={"math.sqrt": scaled("sqrt", 2.0)})
    assert wrong.first_difference is not None
    assert (wrong.first_difference.operator, wrong.first_difference.line) == ("loop", 9)


def test_new_values_of_variables_inside_of_operators_are_compared() -> None:
    text = (
        "import math;\n"
        "operator count { @input { x: real[]; } @output { y: real[]; }\n"
        "@variable { v: real[]; } @compose { y = math.exp(v); }\n"
        "@update { v = math.add(v, x); } }\n"
        "graph G { @input { x: real[]; } @output { y: real[]; } @compose { y = count(x); } }\n"
    )
    name = next(v.name for v in tvm_nnef.compose(text).variables)
    variables = {name: np.zeros((), np.float32)}
    report = compared(text, np.float32(2), variables=variables)
    assert report.agrees
    assert [row.tensor.role for row in report.rows] == ["result", "variable"]

    def doubled(builder: Any, operation: Any, operands: Any) -> Any:
        from tvm import relax

        return relax.op.multiply(operands[1], relax.const(3.0, "float32"))

    wrong = compared(text, np.float32(2), variables=variables, lowerings={"math.add": doubled})
    assert wrong.first_difference is not None
    assert [row.agrees for row in wrong.rows[:2]] == [True, False]


def test_nan_on_both_sides_agrees_and_is_reported() -> None:
    report = compared(STEPS, np.full((2, 3), -np.inf, np.float32))
    assert report.agrees
    assert "equal, 6 NaN" in str(report)


def test_packs_and_outputs_that_nothing_computes() -> None:
    text = (
        "import layout;\ngraph G { @input { xs: real[2,3]..(2); p: real[1]; }\n"
        "@output { y: real[4,3]; zs: real[1,3]..(4); q: real[1]; }\n"
        "@compose { y = layout.concat{axis=0}(xs); zs..(4) = layout.split{axis=0,count=4}(y);"
        " q = p; } }\n"
    )
    report = compared(text)
    assert report.agrees
    assert report.count == 5


def test_float16_has_its_own_tolerance() -> None:
    report = compared(STEPS, X, dtypes={"real": "float16"})
    assert report.agrees
    assert {row.difference.rtol for row in report.rows} == {TOLERANCES["float16"]}
    assert {row.difference.dtypes for row in report.rows} == {("float16", "float16")}


def test_given_tolerances_are_taken_as_they_are() -> None:
    inexact = {"math.exp": scaled("exp", 1.01)}
    assert compared(STEPS, X, lowerings=inexact, rtol=0.02, atol=0.0).agrees
    assert not compared(STEPS, X, lowerings=inexact, rtol=0.002, atol=0.0).agrees
    assert compared(STEPS, X, lowerings=inexact, rtol=0.0, atol=5.0).agrees


def test_what_only_goes_wrong_as_a_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a fusion would that breaks a kernel: nodes are right, the graph of all of them is not."""
    make = ROUTES["mapped"]

    def broken(setting: Any) -> Any:
        run = make(setting)

        def runner(graph: Any, inputs: Any) -> Any:
            found = run(graph, inputs)
            return {t: a * (1 if len(graph.operations) == 1 else 2) for t, a in found.items()}

        return runner

    monkeypatch.setitem(ROUTES, "mapped", broken)
    report = compared(STEPS, X)
    assert not report.agrees
    assert [row.agrees for row in report.rows] == [True] * 4
    assert [row.agrees for row in report.program] == [False]
    assert "mapped operation by operation and mapped as a whole give different" in str(report)
    assert "agree in all 4 tensors, but not mapped as a whole" in report.summary()


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("wrong_fusion")
@pytest.mark.parametrize(
    "routes",
    [("mapped", "reference"), ("reference", "mapped"), ("reference", "formula"),
     ("mapped", "formula")],
)  # fmt: skip
@pytest.mark.parametrize("chained", [False, True])
def test_a_kernel_that_is_only_wrong_in_the_built_program(
    routes: tuple[str, str], chained: bool
) -> None:
    assert np.abs(tvm_nnef.build(STEPS, progress=False)(X)[0] - STEPS_OF_X).max() > 0.5
    report = compared(STEPS, X, routes=routes, chained=chained)
    assert all(row.agrees for row in report.rows)
    assert not report.agrees
    assert not any(row.agrees for row in report.program)
    row = report.first_difference
    assert row is not None
    assert row.tensor.short_name == "y"
    assert "in all 4 tensors, but not" in report.summary()
    assert "but not" in repr(report)
    assert "outputs of the built program: " in str(report)
    data = report.to_json()
    assert (data["agrees"], [each["agrees"] for each in data["rows"]]) == (False, [True] * 4)
    assert {each["tensor"] for each in data["program"]} == {"main.Steps.y"}


def test_the_program_is_run_with_packs_and_new_values_of_variables() -> None:
    text = (
        "import math; import layout;\n"
        "graph G { @input { xs: real[2]..(2); } @output { ys: real[1]..(4); }\n"
        "@variable { v: real[4]; }\n"
        "@compose { c = layout.concat{axis=0}(xs); s = math.add(c, v);"
        " ys..(4) = layout.split{axis=0,count=4}(s); }\n"
        "@update { v = math.mul(s, 2.0); } }\n"
    )
    name = next(v.name for v in tvm_nnef.compose(text).variables)
    xs = [np.ones(2, np.float32), np.zeros(2, np.float32)]
    report = compared(text, xs, variables={name: np.arange(4, dtype=np.float32)})
    assert report.agrees
    assert [row.tensor.role for row in report.program] == ["result"] * 4 + ["variable"]


def test_the_report_as_json() -> None:
    nan = {"math.exp": scaled("exp", float("nan"))}
    data = json.loads(json.dumps(compared(STEPS, X, lowerings=nan).to_json(), allow_nan=False))
    assert (data["agrees"], data["routes"], data["tensors"]) == (False, ["mapped", "reference"], 4)
    first, second = data["rows"]
    assert (first["tensor"], first["agrees"], first["position"]) == ("main.Steps.a", True, None)
    assert (second["operator"], second["line"], second["column"]) == ("math.exp", 9, 13)
    assert second["nans"] == [6, 0]
    assert second["largest_difference"] == "inf"
    assert second["values"][0] == "nan"


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        (("maped", "reference"), "did you mean 'mapped'?"),
        (("mapped", "numpy!"), "one of mapped, formula, reference"),
        (("mapped",), "two routes are compared, but 1"),
    ],
)
def test_unknown_routes_are_refused(routes: tuple[str, ...], words: str) -> None:
    with pytest.raises(NnefError) as caught:
        compared(STEPS, X, routes=routes)
    assert words in str(caught.value)


def test_what_a_route_cannot_execute_names_the_route() -> None:
    text = (
        "operator f { @input { x: real[2]; } @output { y: real[2]; } }\n"
        "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = f(x); } }\n"
    )
    with pytest.raises(NnefError) as caught:
        compared(text)
    assert "'main.f' has no body" in str(caught.value)
    assert "on route 'mapped'" in str(caught.value)


FLOATS = st.sampled_from([0.0, 1.0, 1.00001, 1.001, -1.0, 1e-7, 1e30, np.inf, -np.inf, np.nan])


@given(
    arrays.arrays(np.float32, (2, 3), elements=FLOATS.map(np.float32)),
    arrays.arrays(np.float32, (2, 3), elements=FLOATS.map(np.float32)),
    st.sampled_from([0.0, 1e-4]),
    st.sampled_from([0.0, 1e-6]),
)
def test_elements_agree_where_numpy_calls_them_close(
    first: Any, second: Any, rtol: float, atol: float
) -> None:
    found = difference(first, second, rtol, atol)
    with np.errstate(all="ignore"):
        left, right = first.astype(np.float64), second.astype(np.float64)
        close = np.isclose(right, left, rtol=rtol, atol=atol, equal_nan=True)
    assert found.beyond == np.count_nonzero(~close)
    assert found.agrees == bool(close.all())
    assert found.nans == (np.isnan(first).sum(), np.isnan(second).sum())
    if found.beyond:
        assert found.position is not None
        assert not close[found.position]


@given(arrays.arrays(arrays.scalar_dtypes().filter(lambda d: d.kind in "fiub"), (3,)))
def test_an_array_agrees_with_itself(array: Any) -> None:
    found = difference(array, array.copy())
    assert found.agrees
    assert (found.largest, found.share, found.position) == (0.0, 0.0, None)


BIG = 2**62
CASES: dict[str, tuple[Any, Any, bool, float]] = {
    "large integers that differ by one": (([BIG], "int64"), ([BIG + 1], "int64"), False, 1.0),
    "integers over the whole range": (([-128], "int8"), ([127], "int8"), False, 255.0),
    "unsigned": (([0], "uint8"), ([255], "uint8"), False, 255.0),
    "truth values": (([True, False], "bool"), ([True, True], "bool"), False, 1.0),
    "what cancellation leaves": (([1, 1e-9], "float32"), ([1, 5e-9], "float32"), True, 4e-9),
    "a small wrong number alone": (([1e-9], "float32"), ([5e-9], "float32"), False, 4e-9),
    "rounding": (([100], "float32"), ([100.001], "float32"), True, 0.001),
    "float64 is held to more": (([100], "float64"), ([100.001], "float64"), False, 0.001),
    "no dimensions": ((1, "float32"), (2, "float32"), False, 1.0),
    "no elements": (([[], []], "float32"), ([[], []], "float32"), True, 0.0),
    "huge numbers": (([3e38], "float32"), ([-3e38], "float32"), False, 6e38),
}


@pytest.mark.parametrize("name", CASES)
def test_default_tolerances(name: str) -> None:
    first, second, agrees, largest = CASES[name]
    found = difference(np.array(*first), np.array(*second))
    assert found.agrees == agrees
    assert found.largest == pytest.approx(largest, rel=0.02)


@pytest.mark.parametrize(
    "second", [np.zeros((3, 2), np.float32), np.zeros(6, np.float32), np.zeros((2, 3), np.float16)]
)
def test_another_shape_or_dtype_never_agrees(second: Any) -> None:
    found = difference(np.zeros((2, 3), np.float32), second, rtol=1.0, atol=1.0)
    assert not found.agrees
    assert not found.is_alike


DYNAMIC = """
import math, layout;

operator times {
    @attrib { k: int; }
    @input { v: real[2]; }
    @output { y: real[2]; }
    @lower { y[i] = v[i] * real(k), i < 2; }
}

graph G {
    @input { x: real[s|8,3]; z: real[t|8,3]; v: real[2]; }
    @output { y: real[s,3]; u: real[2]; }
    @compose {
        y = math.add(x, z);
        u = times{k=x.shape[0]}(v);
    }
}
"""


def test_dimensions_known_only_at_run_time() -> None:
    """The last operation has a dimension that none of its operands has."""
    x, v = np.ones((4, 3), np.float32), np.ones(2, np.float32)
    for routes in (("mapped", "reference"), ("reference", "formula")):
        report = compared(DYNAMIC, x, x, v, routes=routes)
        assert report.agrees
        assert report.rows[0].difference.shapes == ((4, 3), (4, 3))
    assert compared(DYNAMIC).rows[0].difference.shapes[0] == (8, 3)


@pytest.mark.parametrize("first", ["mapped", "reference"])
def test_checks_of_the_model_are_made(first: str) -> None:
    x, z, v = np.ones((4, 3), np.float32), np.ones((5, 3), np.float32), np.ones(2, np.float32)
    with pytest.raises(NnefError) as caught:
        compared(DYNAMIC, x, z, v, routes=(first, "formula"))
    assert "[4, 3] against [5, 3]" in str(caught.value)
    assert caught.value.diagnostics[0].line == 15
