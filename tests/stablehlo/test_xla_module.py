"""The module ``xla`` as a SkriptND model imports it: the numbers of XLA's semantics document.

Each example is evaluated and compiled. ``docs/stablehlo.md`` lists what the document misprints.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.stdlib.library import standard_module

V = np.arange(10.0, 50.0, 5.0).reshape(4, 2, 1) + np.arange(3.0)
V_24 = [10, 11, 12, 15, 16, 17, 20, 21, 22, 25, 26, 27,
        30, 31, 32, 35, 36, 37, 40, 41, 42, 45, 46, 47]  # fmt: skip
V_83 = [[10, 11, 12], [15, 16, 17], [20, 21, 22], [25, 26, 27],
        [30, 31, 32], [35, 36, 37], [40, 41, 42], [45, 46, 47]]  # fmt: skip
V_46 = [[10, 11, 12, 15, 16, 17], [20, 21, 22, 25, 26, 27],
        [30, 31, 32, 35, 36, 37], [40, 41, 42, 45, 46, 47]]  # fmt: skip
B = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]], float)
A = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
CUBE = np.broadcast_to(np.array([[1.0, 2, 3], [4, 5, 6]]), (4, 2, 3))
I = np.array  # noqa: E741
F = lambda *values: np.array(values, float)  # noqa: E731

IMPORTS = "import layout, math, xla;\n"
KINDS = {"i": "int", "f": "real", "b": "bool"}
TYPES = {"i": np.int32, "f": np.float32, "b": np.bool_}


def graph(body: str, arrays: list[Any], results: list[Any]) -> str:
    """A graph of x, y and z that computes r, or r1, r2."""
    names = ["r"] if len(results) == 1 else [f"r{k + 1}" for k in range(len(results))]
    inputs = "".join(
        f"{name}: {KINDS[each.dtype.kind]}[{', '.join(map(str, each.shape))}]; "
        for name, each in zip("xyz", arrays, strict=False)
    )
    outputs = "".join(
        f"{name}: {KINDS[each.dtype.kind]}; " for name, each in zip(names, results, strict=True)
    )
    compose = body if "=" in body.split("(")[0].split("{")[0] else f"r = {body};"
    return (
        f"{IMPORTS}"
        f"graph G {{ @input {{ {inputs} }} @output {{ {outputs} }} @compose {{ {compose} }} }}\n"
    )


def check(body: str, arrays: list[Any], *expected: Any, operators: str = "") -> None:
    """Whether a body computes what is expected, evaluated and compiled."""
    given = [np.asarray(each) for each in arrays]
    results = [np.asarray(each) for each in expected]
    model = tvm_nnef.load_model(graph(body, given, results) + operators)
    feeds = [each.astype(TYPES[each.dtype.kind]) for each in given]
    for found in (tvm_nnef.evaluate(model, *feeds), tvm_nnef.build(model, progress=False)(*feeds)):
        for one, wanted in zip(found, results, strict=True):
            assert one.shape == wanted.shape
            np.testing.assert_allclose(one, wanted, rtol=1e-6)


EXAMPLES: dict[str, tuple[str, list[Any], Any]] = {
    "Broadcast": ("xla.broadcast{sizes=[2, 3]}(x)", [2.0], np.full((2, 3), 2.0)),
    "Collapse all": ("xla.collapse{first=0, last=2}(x)", [V], I(V_24, float)),
    "Collapse 0, 1": ("xla.collapse{first=0, last=1}(x)", [V], I(V_83, float)),
    "Collapse 1, 2": ("xla.collapse{first=1, last=2}(x)", [V], I(V_46, float)),
    "Concatenate vectors": (
        "layout.concat{axis=0}([x, y, z])", [I([2, 3]), I([4, 5]), I([6, 7])], [2, 3, 4, 5, 6, 7]),
    "Concatenate matrices": (
        "layout.concat{axis=0}([x, y])", [I([[1, 2], [3, 4], [5, 6]]), I([[7, 8]])],
        [[1, 2], [3, 4], [5, 6], [7, 8]]),
    "ConvertElementType": ("layout.cast<real>(x)", [I([0, 1, 2])], F(0, 1, 2)),
    "CrossReplicaSum": ("xla.cross_replica_sum(x)", [F(1.0, 2.5)], F(1.0, 2.5)),
    "GetTupleElement": ("t = [x, y]; r = math.iden(t[1]);", [np.arange(10.0), 5.0], F(5.0)[0]),
    "Reduce 0": ("xla.reduce_add{dimensions=[0]}(x, 0.0)", [CUBE], F([4, 8, 12], [16, 20, 24])),
    "Reduce 2": ("xla.reduce_add{dimensions=[2]}(x, 0.0)", [CUBE], F(*[[6, 15]] * 4)),
    "Reduce 0, 1": ("xla.reduce_add{dimensions=[1, 0]}(x, 0.0)", [CUBE], F(20, 28, 36)),
    "Reduce all": ("xla.reduce_add(x, 0.0)", [CUBE], F(84)[0]),
    "Reduce a vector": ("xla.reduce_add(x, 0.0)", [F(10, 11, 12, 13)], F(46)[0]),
    "ReduceWindow": (
        "xla.reduce_window_max{window_dimensions=[2, 3], window_strides=[2, 3]}(x, -inf)",
        [np.arange(24.0).reshape(4, 6)], F([8, 11], [20, 23])),
    "Reshape 24": ("xla.reshape{dimensions=[0, 1, 2], sizes=[24]}(x)", [V], I(V_24, float)),
    "Reshape 8, 3": ("xla.reshape{sizes=[8, 3]}(x)", [V], I(V_83, float)),
    "Reshape 24 out of order": (
        "xla.reshape{dimensions=[1, 2, 0], sizes=[24]}(x)", [V],
        F(10, 20, 30, 40, 11, 21, 31, 41, 12, 22, 32, 42,
          15, 25, 35, 45, 16, 26, 36, 46, 17, 27, 37, 47)),
    "Reshape 8, 3 out of order": (
        "xla.reshape{dimensions=[1, 2, 0], sizes=[8, 3]}(x)", [V],
        F([10, 20, 30], [40, 11, 21], [31, 41, 12], [22, 32, 42],
          [15, 25, 35], [45, 16, 26], [36, 46, 17], [27, 37, 47])),
    "Reshape 2, 6, 2 out of order": (
        "xla.reshape{dimensions=[1, 2, 0], sizes=[2, 6, 2]}(x)", [V],
        F([[10, 20], [30, 40], [11, 21], [31, 41], [12, 22], [32, 42]],
          [[15, 25], [35, 45], [16, 26], [36, 46], [17, 27], [37, 47]])),
    "Reshape to a scalar": ("xla.reshape{dimensions=[0, 1], sizes=[]}(x)", [F([5])], F(5)[0]),
    "Reshape of a scalar": ("xla.reshape{dimensions=[], sizes=[1, 1]}(x)", [5.0], F([5])),
    "Select": (
        "math.select(x, y, z)",
        [I([True, False, False, True]), I([1, 2, 3, 4]), I([100, 200, 300, 400])],
        [1, 200, 300, 4]),
    "Select by a scalar": (
        "math.select(x, y, z)",
        [I(True), I([1, 2, 3, 4]), I([100, 200, 300, 400])], [1, 2, 3, 4]),
    "Slice a vector": ("layout.slice{begin=[2], end=[4]}(x)", [A], F(2.0, 3.0)),
    "Slice a matrix": ("layout.slice{begin=[2, 1], end=[4, 3]}(x)", [B], F([7, 8], [10, 11])),
    "DynamicSlice of a vector": ("xla.dynamic_slice{sizes=[2]}(x, y)", [A, I([2])], F(2, 3)),
    "DynamicSlice of a matrix": (
        "xla.dynamic_slice{sizes=[2, 2]}(x, y)", [B, I([2, 1])], F([7, 8], [10, 11])),
    "DynamicUpdateSlice of a vector": (
        "xla.dynamic_update_slice(x, y, z)", [A, F(5.0, 6.0), I([2])], F(0, 1, 5, 6, 4)),
    "DynamicUpdateSlice of a matrix": (
        "xla.dynamic_update_slice(x, y, z)", [B, F([12, 13], [14, 15], [16, 17]), I([1, 1])],
        F([0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17])),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_the_document(name: str) -> None:
    call, arrays, expected = EXAMPLES[name]
    given = [np.asarray(each) for each in arrays]
    text = graph(call, given, [np.asarray(expected)])
    feeds = (each.astype(TYPES[each.dtype.kind]) for each in given)
    (found,) = tvm_nnef.evaluate(text, *feeds)
    np.testing.assert_array_equal(found, expected)


def test_the_compiled_examples_of_the_document() -> None:
    """All in one graph, with their own names: one compilation instead of many."""
    inputs, outputs, bodies, feeds = [], [], [], []
    for number, (call, arrays, expected) in enumerate(EXAMPLES.values()):
        given = [np.asarray(each) for each in arrays]
        text = graph(call, given, [np.asarray(expected)])
        renamed = re.sub(r"\b([rtxyz])\b", rf"\g<1>_{number}", text)
        blocks = re.findall(r"@\w+ \{ (.*?;) +\}(?= @| \}$)", renamed, re.MULTILINE)
        for block, into in zip(blocks, (inputs, outputs, bodies), strict=True):
            into.append(block)
        feeds += [each.astype(TYPES[each.dtype.kind]) for each in given]
    joined = (f"@{name} {{ {' '.join(items)} }}" for name, items in (
        ("input", inputs), ("output", outputs), ("compose", bodies)))  # fmt: skip
    executable = tvm_nnef.build(f"{IMPORTS}graph G {{ {' '.join(joined)} }}\n", progress=False)
    results = executable(*feeds)
    for found, (_, _, expected) in zip(results, EXAMPLES.values(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_custom_call_is_an_operator_of_the_model() -> None:
    own = """operator myfunc {
        @input { x: real[n]; y: real[p, q]; }
        @output { z: real[q, q]; }
        @lower { z[i, j] = i == 0 && j == 0 ? x[1,] + y[1, 0] : 0.0, i < q, j < q; }
    }
    """
    expected = np.zeros((3, 3))
    expected[0, 0] = 42
    arrays = [F(1, 2), F([10, 20, 30], [40, 50, 60])]
    check("myfunc(x, y)", arrays, expected, operators=own)


def test_a_call_is_an_invocation_and_a_tuple_several_results() -> None:
    own = """operator pair {
        @input { v: real[n]; s: int[]; }
        @output { a: real[n]; b: int[]; }
        @compose { a = math.iden(v); b = math.iden(s); }
    }
    """
    ten = np.arange(10.0)
    check("r1, r2 = t: pair(x, y);", [ten, I(5)], ten, I(5), operators=own)


@pytest.mark.slow
def test_a_while_loop_adds_a_constant_vector_a_thousand_times() -> None:
    body = """r1, r2 = with iteration = 0, vector = x while math.lt(iteration, 1000) do {
        next = math.add(iteration, 1);
        new_vector = math.add(vector, y);
        yield next, new_vector;
    };"""
    check(body, [np.zeros(10), np.full(10, 0.5)], I(1000), np.full(10, 500.0))


def test_a_map_is_an_element_wise_expression() -> None:
    body = "product = math.mul(x, y); r = math.add(product, z);"
    check(body, [F(1, 2, 3), F(4, 5, 6), 0.5], F(4.5, 10.5, 18.5))


def convolved(
    x: Any, w: Any, strides: Any, low: Any, high: Any, lhs: Any, rhs: Any, groups: int = 1
) -> Any:
    """The pseudo-code of the document in two dimensions, with both dilations and groups."""
    sizes = [(s - 1) * d + 1 for s, d in zip(x.shape[2:], lhs, strict=True)]
    spread = np.zeros((*x.shape[:2], *sizes))
    spread[:, :, :: lhs[0], :: lhs[1]] = x
    edges = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True))]
    padded = np.pad(spread, edges)
    cuts = [slice(max(-a, 0), b if b < 0 else None) for a, b in zip(low, high, strict=True)]
    padded = padded[:, :, cuts[0], cuts[1]]
    (n, m, *window), channels = w.shape, x.shape[1]
    extent = [
        (s - (k - 1) * d - 1) // t + 1
        for s, k, d, t in zip(padded.shape[2:], window, rhs, strides, strict=True)
    ]
    y = np.zeros((x.shape[0], n, *extent))
    for oz, oy, ox, iz, ky, kx in np.ndindex(n, *extent, m, *window):
        channel = oz // (n // groups) * (channels // groups) + iz
        row, column = oy * strides[0] + ky * rhs[0], ox * strides[1] + kx * rhs[1]
        y[:, oz, oy, ox] += padded[:, channel, row, column] * w[oz, iz, ky, kx]
    return y


GENERAL = [
    ((1, 1), (0, 0), (0, 0), (1, 1), (1, 1), 1),
    ((2, 1), (1, 0), (2, 3), (1, 1), (1, 2), 1),
    ((1, 2), (1, -1), (-1, 2), (2, 3), (2, 1), 1),
    ((1, 1), (1, 1), (1, 1), (1, 2), (1, 1), 2),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("general", GENERAL, ids=str)
def test_convolution_with_general_padding(general: Any) -> None:
    strides, low, high, lhs, rhs, groups = general
    generator = np.random.default_rng(1)
    x = generator.integers(-3, 4, (2, 4, 5, 6)).astype(float)
    w = generator.integers(-3, 4, (6, 4 // groups, 3, 2)).astype(float)
    call = (
        f"xla.conv_with_general_padding{{window_strides={[*strides]}, low={[*low]}, "
        f"high={[*high]}, lhs_dilation={[*lhs]}, rhs_dilation={[*rhs]}, "
        f"feature_group_count={groups}}}(x, y)"
    )
    check(call, [x, w], convolved(x, w, strides, low, high, lhs, rhs, groups))


@pytest.mark.parametrize(
    ("padding", "low", "high"), [("VALID", (0, 0), (0, 0)), ("SAME", (0, 0), (1, 1))]
)
def test_convolution_with_named_padding(padding: str, low: Any, high: Any) -> None:
    generator = np.random.default_rng(2)
    x = generator.integers(-3, 4, (1, 2, 6, 7)).astype(float)
    w = generator.integers(-3, 4, (3, 2, 3, 2)).astype(float)
    strides = (2, 1)
    expected = convolved(x, w, strides, low, high, (1, 1), (1, 1))
    if padding == "SAME":
        assert expected.shape[2:] == (3, 7)
    check(f"xla.conv{{window_strides=[2, 1], padding='{padding}'}}(x, y)", [x, w], expected)


M, N = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("left", "right"), [(N[:, 1], N[:, 2]), (M, M[1]), (M, N), (M[0], N)], ids=str
)
def test_dot_of_vectors_and_matrices(left: Any, right: Any) -> None:
    check("xla.dot(x, y)", [left, right], left @ right)


def test_dot_general_keeps_batch_dimensions_first() -> None:
    x, y = np.arange(120.0).reshape(5, 2, 3, 4), np.arange(48.0).reshape(4, 2, 6)
    call = "xla.dot_general{lhs_contracting=[3], rhs_contracting=[0], lhs_batch=[1], rhs_batch=[1]}"
    check(f"{call}(x, y)", [x, y], np.einsum("abcd,dbe->bace", x, y))
    check(
        "xla.dot_general{lhs_contracting=[0, 1], rhs_contracting=[2, 1]}(x, y)",
        [x[:, :, 0, 0], np.arange(30.0).reshape(3, 2, 5)],
        np.einsum("ab,cba->c", x[:, :, 0, 0], np.arange(30.0).reshape(3, 2, 5)),
    )


@pytest.mark.slow
def test_integers_are_divided_towards_zero() -> None:
    x, y = I([7, -7, 7, -7, 0]), I([2, 2, -2, -2, 3])
    check("xla.div(x, y)", [x, y], I([3, -3, -3, 3, 0]))
    check("xla.rem(x, y)", [x, y], I([1, -1, 1, -1, 0]))
    check("xla.div(x, y)", [x / 2, y / 1], x / 2 / y)
    check("xla.rem(x, y)", [x / 2, y / 1], np.fmod(x / 2, y))
    check("xla.rem(x, y)", [I([[7], [-8]]), I([2, 5])], I([[1, 2], [0, -3]]))


def test_a_lower_rank_operand_is_expanded_by_dimension_numbers() -> None:
    body = "e = xla.expand{rank=2, dimensions=[%d]}(y); r = math.add(x, e);"
    check(body % 1, [M, F(10, 20, 30)], M + F(10, 20, 30))
    check(body % 0, [M, F(10, 20)], M + F([10], [20]))
    cube, plane = np.zeros((2, 3, 4)), np.arange(8.0).reshape(2, 4)
    wide = "e = xla.expand{rank=3, dimensions=[0, 2]}(y); r = math.add(x, e);"
    check(wide, [cube, plane], cube + plane[:, None, :])


@pytest.mark.parametrize(
    ("name", "init", "expected"),
    [("add", 1.0, V.sum(1) + 1), ("mul", 2.0, V.prod(1) * 2),
     ("max", 22.0, np.maximum(V.max(1), 22)), ("min", 22.0, np.minimum(V.min(1), 22))],
)  # fmt: skip
def test_reductions_take_in_the_start_value(name: str, init: float, expected: Any) -> None:
    check(f"xla.reduce_{name}{{dimensions=[1]}}(x, {init})", [V], expected)


def test_reductions_of_truth_values() -> None:
    x = I([[True, False], [True, True]])
    check("xla.reduce_and{dimensions=[1]}(x, y)", [x, I(True)], x.all(1))
    check("xla.reduce_or{dimensions=[0]}(x, y)", [x, I(False)], x.any(0))
    window = "{window_dimensions=[2, 1]}(x, y)"
    check(f"xla.reduce_window_and{window}", [x, I(True)], I([[True, False]]))
    check(f"xla.reduce_window_or{window}", [x, I(False)], I([[True, True]]))


@pytest.mark.parametrize(
    ("name", "init", "expected"),
    [("add", 1.0, [4, 8, 7]), ("mul", 2.0, [4, 24, 20]), ("max", 0.0, [2, 4, 5]),
     ("min", 9.0, [1, 3, 5])],
)  # fmt: skip
def test_windows_of_same_padding_are_padded_with_the_start_value(
    name: str, init: float, expected: Any
) -> None:
    call = f"xla.reduce_window_{name}{{window_dimensions=[2], window_strides=[2], padding='SAME'}}"
    check(f"{call}(x, {init})", [F(1, 2, 3, 4, 5)], np.array(expected, float))


SELECTED = F([7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2])


def test_select_and_scatter_adds_where_windows_overlap() -> None:
    """The figure of the document: 9 is selected by both windows at the top, 2 + 6 becomes 8."""
    expected = F([0, 0, 0, 0, 0], [0, 0, 8, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0])
    windows = "{window_dimensions=[2, 3], window_strides=[2, 2]}"
    check(
        f"xla.select_and_scatter_ge_add{windows}(x, y, 0.0)",
        [SELECTED, F([2, 6], [3, 1])],
        expected,
    )
    check(
        f"xla.select_and_scatter_le_add{windows}(x, y, 0.0)",
        [-SELECTED, F([2, 6], [3, 1])],
        expected,
    )


def test_select_and_scatter_takes_the_first_of_equal_elements() -> None:
    call = (
        "xla.select_and_scatter_ge_add{window_dimensions=[2], window_strides=[2], padding='SAME'}"
    )
    check(f"{call}(x, y, 0.5)", [F(3, 3, 1, 2, 4), F(10, 20, 30)], F(10.5, 0.5, 0.5, 20.5, 30.5))


def test_sorting() -> None:
    x = I([[3, 1, 2], [9, 7, 8]])
    check("xla.sort(x)", [x], np.sort(x))
    check("xla.sort{dimension=0, descending=true}(x)", [x], np.sort(x, 0)[::-1])
    body = "r1, r2 = s: xla.sort_by_key(x, y);"
    check(body, [F(2, 1, 2, 0), I([10, 11, 12, 13])], F(0, 1, 2, 2), I([13, 11, 10, 12]))


def test_random_numbers_follow_from_their_seed() -> None:
    text = graph(
        "r1 = xla.rng_uniform{shape=[5000]}(x, y); r2 = xla.rng_normal{shape=[5000]}(x, y);",
        [F(2)[0], F(4)[0]], [np.zeros(5000), np.zeros(5000)],
    )  # fmt: skip
    uniform, normal = tvm_nnef.evaluate(text, np.float32(2), np.float32(4))
    assert uniform.min() >= 2 and uniform.max() < 4 and abs(uniform.mean() - 3) < 0.05
    assert abs(normal.mean() - 2) < 0.2 and abs(normal.std() - 4) < 0.2
    ints = graph("xla.rng_uniform{shape=[5000]}(x, y)", [I(-2), I(3)], [np.zeros(5000, int)])
    (drawn,) = tvm_nnef.evaluate(ints, np.int32(-2), np.int32(3))
    assert sorted(set(drawn.tolist())) == [-2, -1, 0, 1, 2]
    coin = graph("xla.rng_bernoulli{shape=[5000]}(x)", [F(0.25)[0]], [np.zeros(5000, int)])
    (flips,) = tvm_nnef.evaluate(coin, np.float32(0.25))
    assert set(flips.tolist()) == {0, 1} and abs(flips.mean() - 0.25) < 0.03
    check("xla.rng_uniform{shape=[5000]}(x, y)", [F(2)[0], F(4)[0]], uniform)


def test_rev_and_transpose_move_elements() -> None:
    check("xla.rev{dimensions=[0, 2]}(x)", [V], V[::-1, :, ::-1])
    check("layout.transpose{perm=[1, 2, 0]}(x)", [V], V.transpose(1, 2, 0))


def test_padding_between_elements_and_negative_padding() -> None:
    wide = np.full((10, 3), 7.0)
    wide[::3] = B
    expected = np.pad(wide[:-1, 1:], ((1, 0), (0, 2)), constant_values=7)
    check("xla.pad{low=[1, -1], high=[-1, 2], interior=[2, 0]}(x, 7.0)", [B], expected)


ROWS = "map=[0], kept=[1]"


def test_gather_and_scatter_of_rows() -> None:
    call = f"xla.gather{{shape=[2, 3], sizes=[1, 3], {ROWS}, offset_dims=[1], batch_dims=[0]}}"
    check(f"{call}(x, y)", [B, I([[2], [9]])], B[[2, 3]])
    call = f"xla.scatter_add{{sizes=[1, 3], {ROWS}, windows=[1], positions=[0]}}"
    added = B.copy()
    added[2] += [1, 2, 3]
    check(f"{call}(x, y, z)", [B, I([[2], [9]]), F([1, 2, 3], [4, 5, 6])], added)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("xla.cross_replica_sum{replicas=2}(x)", "runs on one device.*2 replicas"),
        ("xla.reduce_add{dimensions=[-1]}(x, 0.0)", "out of range"),
        ("xla.reduce_max{dimensions=[1, 1]}(x, 0.0)", "must be distinct"),
        ("xla.rev{dimensions=[3]}(x)", "out of range"),
        ("xla.sort{dimension=3}(x)", "out of range"),
        ("xla.dot_general{lhs_contracting=[3], rhs_contracting=[0]}(x, y)", "out of range"),
        ("xla.conv{padding='FULL'}(x, y)", "must be one of"),
        ("xla.dot(x, y)", "must be vectors or matrices"),
        ("xla.reduce_window_add{window_dimensions=[2, 2, 2], padding='FULL'}(x, 0.0)", "'padding'"),
        ("xla.expand{rank=4, dimensions=[2, 1, 3]}(x)", "must increase"),
        ("xla.select_and_scatter_ge_add{window_dimensions=[2, 2, 2]}(x, y, 0.0)", "each window"),
    ],
)
def test_mistakes_are_reported(call: str, message: str) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=message):
        tvm_nnef.compose(graph(call, [np.ones((3, 3, 3))] * 2, [CUBE]))


PAGE = (Path(__file__).parents[2] / "docs" / "stablehlo.md").read_text(encoding="utf-8")


def test_the_example_of_the_page() -> None:
    listing = re.findall(r"```\w*\n(import math, xla;.*?)```", PAGE, re.DOTALL)[0]
    generator = np.random.default_rng(3)
    x, w, bias = (
        generator.integers(-3, 4, shape).astype(np.float32)
        for shape in ((1, 1, 8, 8), (4, 1, 3, 3), (4,))
    )
    ones = (1, 1)
    full = convolved(x, w, ones, ones, ones, ones, ones) + bias[:, None, None]
    expected = full.reshape(1, 4, 4, 2, 4, 2).max((3, 5))
    np.testing.assert_array_equal(tvm_nnef.evaluate(listing, x, w, bias)[0], expected)


def test_the_page_names_operators_that_exist() -> None:
    (source,) = standard_module("xla")
    known = set(re.findall(r"^operator ([a-z]\w*)", source.text, re.MULTILINE))
    table = PAGE.partition("## The module `xla`")[2]
    assert set(re.findall(r"\bxla\.(\w+)", table)) <= known
    assert {f"{kind}_{name}" for kind in ("reduce", "reduce_window")
            for name in ("add", "mul", "max", "min", "and", "or")} <= known  # fmt: skip


def test_a_conditional_runs_the_branch_of_its_predicate() -> None:
    body = "r = if x then math.add(y, z) else math.sub(y, z);"
    check(body, [I(True), F(1, 2), F(3, 5)], F(4, 7))
    check(body, [I(False), F(1, 2), F(3, 5)], F(-2, -3))
