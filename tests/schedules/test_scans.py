"""Prefix sums and other recurrences: what NumPy computes at all sizes, in parallel where it pays.

Many formulas are built in one model, as it is the building that takes time.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from tvm import tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.pipeline import compile_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support.compat import prim_functions

SERIAL = "ordered"
"""What a kernel is reported as whose loops all run in order."""


def formula(shape, lower, inputs=1):
    """An operator ``f`` of one formula of ``x0``, ``x1`` and so on, all of one shape."""
    bounds = ", ".join(f"{name} < {extent}" for name, extent in zip("ijkl", shape, strict=False))
    declared = " ".join(f"x{n}: real{list(shape)};" for n in range(inputs))
    statements = "; ".join(f"{each.strip()}, {bounds}" for each in lower.split(";"))
    return (
        f"operator f {{ @input {{ {declared} }} @output {{ y: real{list(shape)}; }}\n"
        f"  @lower {{ {statements}; }} }}\n"
    )


def composed(parts):
    """One model of ``(operator, call, arrays)``, whose ports are named after the arrays; these."""
    text, ports, lines, arrays = "import math;\n", [], [], []
    for number, (operator, call, own) in enumerate(parts):
        text += operator.replace("operator f ", f"operator f{number} ")
        names = [f"a{number}_{n}" for n in range(len(own))]
        kinds = ["int" if array.dtype.kind == "i" else "real" for array in own]
        ports += [f"{name}: {kind}{list(array.shape)};"
                  for name, kind, array in zip(names, kinds, own, strict=True)]  # fmt: skip
        called = call.replace("f(", f"f{number}(") if call.startswith("f(") else call
        lines.append(f"y{number} = {called.replace('...', ', '.join(names))};")
        arrays += own
    kinds = ["int" if own[0].dtype.kind == "i" else "real" for _, _, own in parts]
    outputs = " ".join(f"y{n}: {kind}[~..];" for n, kind in enumerate(kinds))
    text += (
        f"graph G {{ @input {{ {' '.join(ports)} }} @output {{ {outputs} }}\n"
        f"@compose {{ {' '.join(lines)} }} }}"
    )
    return tvm_nnef.load_model(text), arrays


def build(parts, dtypes=None, evaluate=True):
    """The results of parts in one model, by the build and the evaluator; the strategy of each."""
    model, arrays = composed(parts)
    options = {} if dtypes is None else {"dtypes": dtypes}
    expected = tvm_nnef.evaluate(model, *arrays, **options) if evaluate else ()
    found, kernels = compiled(model, **options)
    return found(*arrays), expected, kernels


def compiled(model, target="native", **options):
    """The executable of a model, and the strategy of each kernel by its name."""
    stages = compile_phases(tvm_nnef.from_nnef(model, **options), target)
    strategies = {kernel.name: kernel.strategy for kernel in schedules.report(stages["schedule"])}
    return Executable(stages["code"]), strategies


def whole(*shape, seed=0, dtype="float32"):
    """Small whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def cumulative(x, axis, exclusive, reverse):
    turned = np.flip(x, axis) if reverse else x
    total = np.cumsum(turned, axis, dtype=x.dtype)
    if exclusive:
        total = total - turned
    return np.flip(total, axis) if reverse else total


SHAPES = [(1,), (2,), (67,), (3, 131), (131, 3), (1, 33), (5, 34, 17), (2, 3, 1), (19, 1, 70)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_cumulative_sums_at_awkward_sizes(dtype):
    parts, expected = [], []
    modes = itertools.cycle(itertools.product((False, True), (False, True)))
    for shape in SHAPES:
        for axis, (exclusive, reverse) in zip(range(len(shape)), modes, strict=False):
            x = whole(*shape, dtype=dtype)
            flags = f"exclusive={str(exclusive).lower()}, reverse={str(reverse).lower()}"
            parts.append(("", f"math.cumsum{{axis={axis}, {flags}}}(...)", [x]))
            expected.append(cumulative(x, axis, exclusive, reverse))
    # all four ways along a row that fills some vectors, and beside one; the last in parallel
    ways = [(axis, next(modes)) for axis in (0, 1) for _ in range(5)]
    for number, (axis, (exclusive, reverse)) in enumerate(ways):
        x = whole(*((261, 263) if number % 5 == 4 else (37, 149)), dtype=dtype)
        flags = f"exclusive={str(exclusive).lower()}, reverse={str(reverse).lower()}"
        parts.append(("", f"math.cumsum{{axis={axis}, {flags}}}(...)", [x]))
        expected.append(cumulative(x, axis, exclusive, reverse))
    found, _, kernels = build(parts, evaluate=False)
    for pair in zip(found, expected, strict=True):
        np.testing.assert_array_equal(*pair)
    single = sum(max(shape) == np.prod(shape) for shape in SHAPES)
    assert [*kernels.values()].count(SERIAL) <= single


ROWS, BATCHED = (5, 101), (3, 34, 19)
X, Y = normal(*ROWS), normal(*BATCHED)
SMALL = 0.7 * np.tanh(normal(*BATCHED, seed=1))


def linear(a, b, axis):
    h = np.moveaxis(np.array(b), axis, 0)
    a = np.moveaxis(a, axis, 0)
    for step in range(1, len(h)):
        h[step] += a[step] * h[step - 1]
    return np.moveaxis(h, 0, axis)


def accumulated(x, step):
    """Each row of a matrix, with a function of the element before and the new one."""
    return np.array([list(itertools.accumulate(row, step)) for row in x])


TAKEN = {
    "sum": (ROWS, "y[i,j] = x0[i,j]; y[i,j] += y[i,|j-1|]", [X], np.cumsum(X, 1)),
    "sum of columns": (ROWS, "y[i,j] = x0[i,j]; y[i,j] += y[|i-1|,j]", [X], np.cumsum(X, 0)),
    "one formula": (
        ROWS, "y[i,j] = j > 0 ? y[i,j-1] + x0[i,j] : x0[i,j]", [X], np.cumsum(X, 1)),
    "sum of squares": (
        ROWS, "y[i,j] = x0[i,j] * x0[i,j]; y[i,j] += y[i,|j-1|]", [X], np.cumsum(X * X, 1)),
    "product": (
        ROWS, "y[i,j] = 1.0 + 0.1 * x0[i,j]; y[i,j] *= y[i,|j-1|]",
        [X], np.cumprod(1 + 0.1 * X, 1)),
    "maximum": (
        ROWS, "y[i,j] = x0[i,j]; y[i,j] >= y[i,|j-1|]", [X], np.maximum.accumulate(X, 1)),
    "minimum from the end": (
        ROWS, "y[i,100-j] = x0[i,100-j]; y[i,100-j] <= y[i,|101-j|]",
        [X], np.minimum.accumulate(X[:, ::-1], 1)[:, ::-1]),
    "average": (
        ROWS, "y[i,j] = (j > 0 ? 0.25 : 1.0) * x0[i,j]; y[i,j] += 0.75 * y[i,|j-1|]",
        [X], lfilter([0.25], [1, -0.75], np.c_[4 * X[:, :1], X[:, 1:]])),
    "two values back": (
        ROWS, "y[i,j] = x0[i,j]; y[i,j] += (j > 0 ? 0.5 * y[i,j-1] : 0.0)"
        " - (j > 1 ? 0.25 * y[i,j-2] : 0.0)", [X], lfilter([1], [1, -0.5, 0.25], X)),
    "two rows back": (
        ROWS, "y[i,j] = x0[i,j]; y[i,j] += (i > 0 ? 0.5 * y[i-1,j] : 0.0)"
        " - (i > 1 ? 0.25 * y[i-2,j] : 0.0)", [X], lfilter([1], [1, -0.5, 0.25], X, axis=0)),
    "linear, in channels": (
        BATCHED, "y[i,j,k] = x1[i,j,k]; y[i,j,k] += x0[i,j,k] * y[i,|j-1|,k]",
        [SMALL, Y], linear(SMALL, Y, 1)),
    "where data say so": (
        ROWS, "y[i,j] = x0[i,j]; y[i,j] += (x0[i,j] > 0.0 ? y[i,|j-1|] : 0.0)",
        [X], accumulated(X, lambda old, new: new + (old if new > 0 else 0))),
    "linear, last": (
        BATCHED, "y[i,j,k] = x1[i,j,k]; y[i,j,k] += x0[i,j,k] * y[i,j,|k-1|]",
        [SMALL, Y], linear(SMALL, Y, 2)),
}  # fmt: skip


def test_recurrences_of_users():
    parts = [(formula(shape, lower, len(given)), "f(...)", given)
             for shape, lower, given, _ in TAKEN.values()]  # fmt: skip
    found, _, kernels = build(parts, evaluate=False)
    for (name, case), array in zip(TAKEN.items(), found, strict=True):
        np.testing.assert_allclose(array, case[3], rtol=1e-5, atol=1e-5, err_msg=name)
    assert SERIAL not in kernels.values()


def test_units_that_sum_over_those_of_the_step_before():
    x, u = normal(2, 9, 37), 0.1 * normal(37, 37, seed=1)
    text = (
        "operator f { @input { x: real[2,9,37]; u: real[37,37]; } @output { y: real[2,9,37]; }\n"
        "  @lower { y[n,t,c] = x[n,t,c], n < 2, t < 9, c < 37;\n"
        "    y[n,t,c] += u[d,c] * y[n,%s,d], n < 2, t < 9, c < 37, d < 37; } }\n"
    )
    # the second one reads of the first step what that step itself writes
    reads = {"|t-1|": lambda step: step - 1, "t/2": lambda step: step // 2}
    parts = [(text % step, "f(...)", [x, u]) for step in reads]
    found, _, kernels = build(parts, evaluate=False)
    for array, source in zip(found, reads.values(), strict=True):
        expected = x.astype("float64")
        for step, c, d in itertools.product(range(9), range(37), range(37)):
            if source(step) >= 0:
                expected[:, step, c] += u[d, c] * expected[:, source(step), d]
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-4)
    assert SERIAL not in kernels.values()


def test_an_axis_from_data():
    x = whole(3, 19, 67)
    at = ",".join(f"|a == {n} ? {name}-1 : {name}|" for n, name in enumerate("ijk"))
    text = (
        "operator f { @input { x: real[3,19,67]; axis: int[]; } @output { y: real[3,19,67]; }\n"
        "  @lower { y[i,j,k] = x[i,j,k], i < 3, j < 19, k < 67;\n"
        f"    a = axis[] < 0 ? axis[] + 3 : axis[], y[i,j,k] += y[{at}],\n"
        "    i < 3, j < 19, k < 67; } }\n"
        "graph G { @input { x: real[3,19,67]; axis: int[]; } @output { y: real[~..]; }\n"
        "@compose { y = f(x, axis); } }"
    )
    made, _ = compiled(tvm_nnef.load_model(text))
    for axis in (0, 1, 2, -1, -3):
        found = made(x, np.array(axis, "int32"))[0]
        np.testing.assert_array_equal(found, np.cumsum(x, axis))
    # no axis is meant: each element is added to itself
    np.testing.assert_array_equal(made(x, np.array(7, "int32"))[0], 2 * x)


def test_formulas_that_write_a_part():
    x = whole(7, 41)
    text = (
        "operator f { @input { x: real[7,41]; } @output { y: real[7,41]; } @lower {\n"
        "  y[i,j] = x[i,j], i < 7, j < 41; %s; } }\n"
    )
    updates = (
        "y[i,j+1] += y[i,j], i < 7, j < 40",
        "y[i+1,j+2] += y[i+1,j], i < 5, j < 39",
        "y[i+1,39-j] += y[i+1,40-j], i < 6, j < 30",
        "y[i+1,j] += y[i,j], i < 6, j < 17",
    )
    found, expected, kernels = build([(text % update, "f(...)", [x]) for update in updates])
    for update, first, second in zip(updates, found, expected, strict=True):
        np.testing.assert_array_equal(first, second, err_msg=update)
    assert SERIAL not in kernels.values()


def test_vectors_of_a_small_processor():
    x = whole(3, 71)
    text = (
        "import math;\n"
        "graph G { @input { x: real[3,71]; } @output { a: real[~..]; b: real[~..]; }\n"
        "@compose { a = math.cumsum{axis=1}(x); b = math.cumsum{axis=0, reverse=true}(x); } }"
    )
    made, kernels = compiled(tvm_nnef.load_model(text), "llvm")
    expected = (np.cumsum(x, 1), np.cumsum(x[::-1], 0)[::-1])
    for pair in zip(made(x), expected, strict=True):
        np.testing.assert_array_equal(*pair)
    assert SERIAL not in kernels.values()


def test_gates_of_an_lstm():
    names, shape = "ifgo", (2, 11, 19)
    arrays = [normal(*shape, seed=seed) for seed in range(4)]
    ports = " ".join(f"{name}: real{list(shape)};" for name in names)
    bounds = "n < 2, t < 11, k < 19"
    text = (
        f"operator gates {{ @input {{ {ports} }}\n"
        f"  @output {{ c: real[2,11,19]; h: real[2,11,19]; }}\n"
        f"  @lower {{ old = t > 0 ? c[n,t-1,k] : 0.0, c[n,t,k] = i[n,t,k] * `tanh`(g[n,t,k])\n"
        f"    + 1.0 / (1.0 + `exp`(-f[n,t,k])) * old, {bounds};\n"
        f"    h[n,t,k] = o[n,t,k] * `tanh`(c[n,t,k]), {bounds}; }} }}\n"
        f"graph G {{ @input {{ {ports} }} @output {{ c: real[~..]; h: real[~..]; }}\n"
        f"@compose {{ c, h = gates(i, f, g, o); }} }}"
    )
    made, kernels = compiled(tvm_nnef.load_model(text))
    i, f, g, o = arrays
    c = linear(1 / (1 + np.exp(-f)), i * np.tanh(g), 1)
    for found, expected in zip(made(*arrays), (c, o * np.tanh(c)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert SERIAL not in kernels.values()


def test_sums_into_rows_that_data_name():
    x, rows = whole(40, 51), np.random.default_rng(1).integers(0, 7, 40).astype("int32")
    text = (
        "operator f { @input { x: real[40,51]; n: int[40]; } @output { y: real[7,51]; }\n"
        "  @lower { y[n[i,],j] += x[i,j], i < 40, j < 51; } }\n"
    )
    found, _, kernels = build([(text, "f(...)", [x, rows])], evaluate=False)
    expected = np.zeros((7, 51), "float32")
    np.add.at(expected, rows, x)
    np.testing.assert_array_equal(found[0], expected)
    assert SERIAL not in kernels.values()


SCATTERED = {
    # The indices of rows come from data: the elements of each row are independent.
    "rows": ((60, 900), (40, 900), "y[i,j] = x[i,j], i < 60, j < 900;"
             " y[n[k,],j] := u[k,j], k < 40, j < 900"),
    # Indices inside of each batch come from data: the batches are independent.
    "batches": ((40, 70, 16), (40, 60, 16), "y[i,j,k] = x[i,j,k], i < 40, j < 70, k < 16;"
                " y[i,n[i,]+j,k] := u[i,j,k], i < 40, j < 60, k < 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCATTERED)
def test_scattered_slices_are_written_in_parallel(name):
    shape, update, lower = SCATTERED[name]
    x, u = normal(*shape), normal(*update, seed=1)
    n = np.random.default_rng(1).integers(0, 9, 40).astype("int32")
    ports = f"x: real{list(shape)}; u: real{list(update)}; n: int[40];"
    model = tvm_nnef.load_model(
        f"operator f {{ @input {{ {ports} }} @output {{ y: real{list(shape)}; }}\n"
        f"  @lower {{ {lower}; }} }}\n"
        f"graph G {{ @input {{ {ports} }} @output {{ y: real[~..]; }}\n"
        "@compose { y = f(x, u, n); } }"
    )
    stages = compile_phases(tvm_nnef.from_nnef(model), "native")
    (kernel,) = prim_functions(stages["schedule"]).values()
    loops = [loop for loop in nodes(kernel.body, tirx.For) if loop.kind == tirx.ForKind.PARALLEL]
    assert len(loops) == 2
    expected = x.copy()
    for k in range(40):
        if name == "rows":
            expected[n[k]] = u[k]
        else:
            expected[k, n[k] : n[k] + 60] = u[k]
    (found,) = Executable(stages["code"])(x, u, n)
    np.testing.assert_array_equal(found, expected)


def test_infinities_signs_of_zero_and_nan():
    rows = np.zeros((6, 70), "float32")
    rows[0] = -0.0
    rows[1, 20], rows[1, 40] = np.inf, -np.inf
    rows[2, 33] = np.nan
    rows[3] = -1
    rows[4, :40], rows[4, 40:] = 3e38, -3e38
    rows[5, 17:] = -0.0
    lowers = ("y[i,j] = x0[i,j]; y[i,j] += y[i,|j-1|]", "y[i,j] = x0[i,j]; y[i,j] >= y[i,|j-1|]")
    parts = [(formula(rows.shape, lower), "f(...)", [rows]) for lower in lowers]
    parts.append(("", "math.cumsum{axis=1, exclusive=true}(...)", [rows]))
    (sums, maxima, exclusive), (_, _, plain), _ = build(parts)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.cumsum(rows, 1)
    kept = [0, 1, 2, 3, 5]
    np.testing.assert_array_equal(sums[kept], expected[kept])
    assert np.signbit(sums[0]).all()
    assert np.signbit(sums[5]).tolist() == np.signbit(expected[5]).tolist()
    assert np.isinf(sums[4, 1:40]).all()
    np.testing.assert_array_equal(maxima, np.maximum.accumulate(rows, 1))
    np.testing.assert_array_equal(exclusive[kept], plain[kept])
    assert not np.signbit(exclusive[0]).any()


def test_sums_of_reals_are_as_precise_as_in_order():
    x = np.random.default_rng(3).random((2, 100_003)).astype("float32")
    found, _, _ = build([("", "math.cumsum{axis=1}(...)", [x])], evaluate=False)
    exact = np.cumsum(x, 1, dtype="float64")
    in_order = np.abs(np.cumsum(x, 1) - exact)
    assert np.abs(found[0] - exact).max() <= in_order.max()


def test_products_that_vanish_or_overflow_in_part_do_not_as_a_whole():
    x = np.tile(np.array([1e-30, 1e30, 1e30, 1e-30], "float32"), (3, 20))
    lower = "y[i,j] = x0[i,j]; y[i,j] *= y[i,|j-1|]"
    found, _, _ = build([(formula(x.shape, lower), "f(...)", [x])], evaluate=False)
    np.testing.assert_array_equal(found[0], np.cumprod(x, 1))


def test_half_precision_adds_in_single():
    x = np.abs(normal(3, 300)).astype("float16")
    found, expected, kernels = build(
        [("", "math.cumsum{axis=1}(...)", [x]), ("", "math.cumsum{axis=0}(...)", [x])],
        dtypes={"real": "float16"},
    )
    for array, other, axis in zip(found, expected, (1, 0), strict=True):
        exact = np.cumsum(x, axis, dtype="float64")
        assert np.abs(array - exact).max() <= np.abs(other - exact).max() + 2**-12 * exact.max()
    assert SERIAL not in kernels.values()


@pytest.mark.slow
def test_locals_that_are_read_again_and_again_are_computed_once():
    """Six that each read the last one three times, written out, are thousands of reads."""
    steps = ", ".join(
        f"a{n} = a{n - 1} > 0.25 ? 0.5 * a{n - 1} : a{n - 1} + 0.125" for n in range(1, 7)
    )
    alone = f"a0 = x0[i,j,k], {steps}, y[i,j,k] = a6"
    lowers = [alone, f"{alone}; y[i,j,k] += y[i,j,|k-1|]"] + [
        f"y[i,j,k] = x0[i,j,k]; a0 = x0[i,j,k] + y[{at}], {steps}, y[i,j,k] += a6"
        for at in ("i,|j-1|,k", "i,j,|k-1|", "i,|j-1|,|k+1|")
    ]
    x = normal(3, 5, 151)
    model, _ = composed([(formula(x.shape, lower), "f(...)", [x]) for lower in lowers])
    mod = run_phases(tvm_nnef.from_nnef(model), resolve("native"), "graph", "schedule")
    for function in prim_functions(mod).values():
        assert len(loads(function.body)) < 1000
    made, kernels = compiled(model)
    assert SERIAL not in kernels.values()
    given = [x] * len(lowers)
    for first, second in zip(made(*given), tvm_nnef.evaluate(model, *given), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


DYNAMIC = """import math;
operator f { @input { x: real[s,t,u]; } @output { y: real[s,t,u]; } @lower {
    y[i,j,k] = x[i,j,k], i < s, j < t, k < u;
    y[i,j,k] += (j > 0 ? y[i,j-1,k] : 0.0) + (j > 1 ? y[i,j-2,k] : 0.0), i < s, j < t, k < u; } }
graph G { @input { x: real[~|90,~|90,~|90]; }
@output { a: real[~..]; b: real[~..]; c: real[~..]; d: real[~..]; }
@compose { a = math.cumsum{axis=2}(x); b = math.cumsum{axis=1, reverse=true}(x);
    c = math.cumsum{axis=-1, exclusive=true, reverse=true}(x); d = f(x); } }"""


def test_dynamic_dimensions():
    model = tvm_nnef.load_model(DYNAMIC)
    made, kernels = compiled(model)
    assert SERIAL not in kernels.values()
    for shape in [(1, 1, 1), (2, 3, 2), (3, 1, 90), (0, 2, 3), (2, 0, 3), (2, 3, 0), (2, 67, 70)]:
        x = whole(*shape)
        x[:, 6:] = 0
        for found, expected in zip(made(x), tvm_nnef.evaluate(model, x), strict=True):
            np.testing.assert_array_equal(found, expected)


@st.composite
def recurrences(draw):
    """A formula of two or three dimensions that reads some of what it wrote."""
    extents = st.sampled_from([1, 2, 3, 5, 9, 18, 37])
    shapes = st.lists(extents, min_size=1, max_size=3)
    shape = draw(shapes.filter(lambda shape: np.prod(shape) < 1500))
    names = "ijk"[: len(shape)]
    turned = [draw(st.booleans()) for _ in shape]

    def index(number, offset=0):
        position = f"{shape[number] - 1}-{names[number]}" if turned[number] else names[number]
        return f"{position}+{offset}" if offset else position

    def position(apart):
        found = [f"|{index(n, a)}|" if a else index(n) for n, a in enumerate(apart)]
        return ",".join(found) + "," * (len(shape) == 1)

    own = position([0] * len(shape))
    steps = st.sampled_from([0, 0, 0, -1, -1, 1, -2, 2, -3])
    terms = []
    for _ in range(draw(st.integers(1, 2))):
        factor = draw(st.sampled_from(["", "0.5 * ", f"x0[{own}] * 0.25 * "]))
        terms.append(f"{factor}y[{position([draw(steps) for _ in shape])}]")
    store = draw(st.sampled_from(["+=", "+=", ">=", "<="]))
    first = draw(st.sampled_from([f"x0[{own}]", f"0.5 * x0[{own}]", "1.0"]))
    return shape, f"y[{own}] = {first}; y[{own}] {store} {' + '.join(terms)}"


@pytest.mark.slow
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck),
          phases=[Phase.explicit, Phase.generate])  # fmt: skip
@given(st.lists(recurrences(), min_size=12, max_size=12))
def test_random_recurrences_compute_what_the_evaluator_does(cases):
    parts = [(formula(shape, lower), "f(...)", [0.125 * whole(*shape)])
             for shape, lower in cases]  # fmt: skip
    found, expected, _ = build(parts)
    for (_, lower), first, second in zip(cases, found, expected, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4, err_msg=lower)
