"""Mapped operators against NumPy, and against their own bodies on the formula route (law 1)."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from tvm_nnef.api import building
from tvm_nnef.compilation.pipeline import build_module
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.lower import lower

RNG = np.random.default_rng(3)


def real(*shape):
    return RNG.standard_normal(shape).astype("float32")


def whole(*shape):
    return RNG.integers(-9, 10, shape).astype("int32")


def truth(*shape):
    return RNG.integers(0, 2, shape).astype(bool)


def relu(x):
    return np.maximum(x, 0)


def conv(x, w, b, stride, pads, dilation=(1, 1), groups=1):
    """Direct convolution in NumPy, NCHW; ``pads`` as ((top, bottom), (left, right))."""
    x = np.pad(x, ((0, 0), (0, 0), *pads))
    n, _, h, wd = x.shape
    o, fc, kh, kw = w.shape
    oh = (h - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (wd - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    y = np.zeros((n, o, oh, ow), "float64")
    for g in range(groups):
        mine = slice(g * o // groups, (g + 1) * o // groups)
        part = x[:, g * fc : (g + 1) * fc]
        for i in range(kh):
            for j in range(kw):
                rows = slice(i * dilation[0], i * dilation[0] + (oh - 1) * stride[0] + 1, stride[0])
                cols = slice(j * dilation[1], j * dilation[1] + (ow - 1) * stride[1] + 1, stride[1])
                y[:, mine] += np.einsum("nchw,oc->nohw", part[:, :, rows, cols], w[mine, :, i, j])
    return y.astype("float32") + (0 if b is None else b.reshape(1, -1, 1, 1))


def pooled(x, size, stride, pads, reduce, fill):
    x = np.pad(x, ((0, 0), (0, 0), *pads), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(x, size, (2, 3))
    return reduce(windows[:, :, :: stride[0], :: stride[1]], (-2, -1))


X4, W3, B5 = real(2, 4, 9, 7), real(5, 4, 3, 3), real(5)
NONE = ((0, 0), (0, 0))
A, B = real(3, 1, 5), real(4, 1)
P, Q = whole(4, 3), whole(3)

CASES = {
    "conv": ("nn.conv{padding=1}(x0, x1, x2)", [X4, W3, B5],
             conv(X4, W3, B5, (1, 1), ((1, 1), (1, 1)))),
    "conv_strided": ("nn.conv{stride=[2,3], padding=[0,1,1,0]}(x0, x1)", [X4, W3],
                     conv(X4, W3, None, (2, 3), ((0, 1), (1, 0)))),
    "conv_dilated": ("nn.conv{dilation=2, padding=0}(x0, x1, x2)", [X4, W3, B5],
                     conv(X4, W3, B5, (1, 1), NONE, (2, 2))),
    "conv_automatic": ("nn.conv(x0, x1, x2)", [X4, W3, B5],
                       conv(X4, W3, B5, (1, 1), ((1, 1), (1, 1)))),
    # total = (floor(9 / 2) - 1) * 2 + 4 - 9 = 1 and (3 - 1) * 2 + 4 - 7 = 1: after, or in front
    "conv_upper": ("nn.conv{stride=2}(x0, x1)", [X4, W := real(5, 4, 4, 4)],
                   conv(X4, W, None, (2, 2), ((0, 1), (0, 1)))),
    "conv_lower": ("nn.conv{stride=2, padding_align='LOWER'}(x0, x1)", [X4, W],
                   conv(X4, W, None, (2, 2), ((1, 0), (1, 0)))),
    "conv_ceil": ("nn.conv{stride=2, padding=0, ceil_mode=true}(x0, x1)", [X4, W],
                  conv(X4, W, None, (2, 2), ((0, 1), (0, 1)))),
    "conv_grouped": ("nn.conv{groups=2, padding=1}(x0, x1)", [X4, G := real(6, 2, 3, 3)],
                     conv(X4, G, None, (1, 1), ((1, 1), (1, 1)), groups=2)),
    "conv_depthwise": ("nn.conv{groups=0, padding=1}(x0, x1)", [X4, D := real(8, 1, 3, 3)],
                       conv(X4, D, None, (1, 1), ((1, 1), (1, 1)), groups=4)),
    "conv_nxc": ("nn.conv{padding=1, data_format='NXC', filter_format='XCN'}(x0, x1, x2)",
                 [X4.transpose(0, 2, 3, 1).copy(), W3.transpose(2, 3, 1, 0).copy(), B5],
                 conv(X4, W3, B5, (1, 1), ((1, 1), (1, 1))).transpose(0, 2, 3, 1)),
    "conv_xcn": ("nn.conv{padding=1, data_format='XCN', filter_format='CXN'}(x0, x1)",
                 [X4.transpose(2, 3, 1, 0).copy(), W3.transpose(1, 2, 3, 0).copy()],
                 conv(X4, W3, None, (1, 1), ((1, 1), (1, 1))).transpose(2, 3, 1, 0)),
    "conv_1d": ("nn.conv{padding=1}(x0, x1)", [X4[:, :, :, 0].copy(), W3[:, :, :, 1].copy()],
                conv(X4[:, :, :, :1], W3[:, :, :, 1:2], None, (1, 1), ((1, 1), (0, 0)))[..., 0]),
    "max_pool": ("nn.max_pool{size=3, stride=2, padding=0}(x0)", [X4],
                 pooled(X4, (3, 3), (2, 2), NONE, np.max, 0)),
    "max_pool_padded": ("nn.max_pool{size=3, stride=2, padding=1}(x0)", [X4],
                        pooled(X4, (3, 3), (2, 2), ((1, 1), (1, 1)), np.max, -np.inf)),
    "max_pool_ceil": ("nn.max_pool{size=2, stride=2, padding=0, ceil_mode=true}(x0)", [X4],
                      pooled(X4, (2, 2), (2, 2), ((0, 1), (0, 1)), np.max, -np.inf)),
    "max_pool_nxc": ("nn.max_pool{axes=[1,2], size=3, stride=2, padding=0}(x0)",
                     [X4.transpose(0, 2, 3, 1).copy()],
                     pooled(X4, (3, 3), (2, 2), NONE, np.max, 0).transpose(0, 2, 3, 1)),
    "max_pool_channels": ("nn.max_pool{axes=[1], size=2, stride=2, padding=0}(x0)", [X4],
                          X4.reshape(2, 2, 2, 9, 7).max(2)),
    "max_pool_empty_window": ("nn.max_pool{size=1, stride=1, padding=[1,0,0,0]}(x0)", [X4],
                              np.pad(X4, ((0, 0), (0, 0), (1, 0), (0, 0)),
                                     constant_values=-np.inf)),
    "sum_pool": ("nn.sum_pool{size=3, stride=2, padding=1}(x0)", [X4],
                 pooled(X4, (3, 3), (2, 2), ((1, 1), (1, 1)), np.sum, 0)),
    "avg_pool": ("nn.avg_pool{size=3, stride=2, padding=1}(x0)", [X4],
                 pooled(X4, (3, 3), (2, 2), ((1, 1), (1, 1)), np.nanmean, np.nan)),
    "avg_pool_border": ("nn.avg_pool{size=3, stride=2, padding=1, ignore_border=false}(x0)", [X4],
                        pooled(X4, (3, 3), (2, 2), ((1, 1), (1, 1)), np.mean, 0)),
    "relu": ("nn.relu(x0)", [A], relu(A)),
    "relu6_leaky": ("nn.relu{alpha=0.1, max=0.5}(x0)", [A],
                    np.maximum(np.minimum(A, 0.5), 0.1 * A)),
    "prelu": ("nn.prelu(x0, x1)", [X4, real(4)], None),
    "gelu": ("nn.gelu(x0)", [A], None),
    "gelu_tanh": ("nn.gelu{approximate='TANH'}(x0)", [A], None),
    "sigmoid": ("nn.sigmoid(x0)", [A], 1 / (1 + np.exp(-A))),
    "silu": ("nn.silu(x0)", [A], A / (1 + np.exp(-A))),
    "softmax": ("nn.softmax{axes=[-1]}(x0)", [A], np.exp(A) / np.exp(A).sum(-1, keepdims=True)),
    "batch_norm": ("nn.batch_norm(x0, x1, x2, x3, x4)",
                   [X4, M := real(4), V := RNG.random(4, "float32") + 0.5, Bi := real(4),
                    Sc := real(4)],
                   (X4 - M[:, None, None]) / np.sqrt(V + 1e-5)[:, None, None] * Sc[:, None, None]
                   + Bi[:, None, None]),
    "batch_norm_bare": ("nn.batch_norm{channel_axis=-1}(x0, x1, x2)", [real(3, 4), M, V], None),
    "linear": ("nn.linear(x0, x1, x2)", [L := real(3, 7), K := real(5, 7), B5], L @ K.T + B5),
    "linear_bare": ("nn.linear(x0, x1)", [L, K], L @ K.T),
    "matmul": ("linalg.matmul(x0, x1)", [T := real(2, 1, 3, 4), U := real(5, 4, 6)], T @ U),
    "matmul_transposed": ("linalg.matmul{transA=true, transB=true}(x0, x1, x2)",
                          [real(4, 3), real(6, 4), real(3, 6)], None),
    "add": ("math.add(x0, x1)", [A, B], A + B),
    "add_left_aligned": ("math.add{rhs_align=0}(x0, x1)", [A, S := real(3)], A + S[:, None, None]),
    "sub_shifted": ("math.sub{rhs_align=1}(x0, x1)", [X4, C := real(4)], X4 - C[:, None, None]),
    "mul_int": ("math.mul(x0, x1)", [P, Q], P * Q),
    "div": ("math.div(x0, x1)", [A, np.abs(B) + 1], A / (np.abs(B) + 1)),
    "div_int": ("math.div(x0, x1)", [P, np.array([2, -3, 0], "int32")],
                np.where([True, True, False], P // np.array([2, -3, 1]), 0).astype("int32")),
    "min": ("math.min(x0, x1)", [A, B], np.minimum(A, B)),
    "lt_int": ("math.lt(x0, x1)", [P, Q], P < Q),
    "eq_bool": ("math.eq(x0, x1)", [E := truth(9), F := truth(9)], E == F),
    "and": ("math.and(x0, x1)", [E, F], E & F),
    "not": ("math.not(x0)", [E], ~E),
    "select": ("math.select(x0, x1, x2)", [truth(3, 1, 5), A, B], None),
    "clamp": ("math.clamp(x0, -0.5, 0.5)", [A], np.clip(A, -0.5, 0.5)),
    "clamp_out_of_order": ("math.clamp(x0, 0.5, -0.5)", [A],
                           np.where(A < 0.5, 0.5, -0.5).astype("float32")),
    "rcp": ("math.rcp(x0)", [A], 1 / A),
    "rsqrt": ("math.rsqrt(x0)", [np.abs(A) + 1], 1 / np.sqrt(np.abs(A) + 1)),
    "sum_n": ("math.sum_n(x0)", [[A, A * 2, A - 1]], A * 4 - 1),
    "sum_reduce": ("math.sum_reduce{axes=[0,-1]}(x0)", [X4], X4.sum((0, 3), keepdims=True)),
    "sum_reduce_int": ("math.sum_reduce{axes=[0], squeeze=true}(x0)", [P], P.sum(0, dtype="int32")),
    "mean_reduce": ("math.mean_reduce{axes=[2,3], squeeze=true}(x0)", [X4], X4.mean((2, 3))),
    "max_reduce": ("math.max_reduce(x0)", [np.full((2, 3), -np.inf, "float32")],
                   np.full((1, 1), -np.inf, "float32")),
    "argmax": ("math.argmax{axis=1, squeeze=true}(x0)",
               [R := RNG.integers(0, 3, (5, 40)).astype("float32")],
               R.argmax(1).astype("int32")),
    "argmin": ("math.argmin{axis=-1}(x0)", [R], R.argmin(1).astype("int32")[:, None]),
    "argmax_of_infinities": ("math.argmax{axis=0}(x0)", [np.full((3, 2), -np.inf, "float32")],
                             np.zeros((1, 2), "int32")),
    "concat": ("layout.concat{axis=-1}([x0, x1])", [A, A2 := real(3, 1, 2)],
               np.concatenate([A, A2], -1)),
    "split": ("layout.split{axis=1, sizes=[1,3]}(x0)", [X4], [X4[:, :1], X4[:, 1:]]),
    "stack": ("layout.stack{axis=-1}(x0)", [[A, A + 1]], np.stack([A, A + 1], 2)),
    "unstack": ("layout.unstack{axis=0}(x0)", [A], [A[0], A[1], A[2]]),
    "squeeze": ("layout.squeeze{axes=[1]}(x0)", [A], A[:, 0]),
    "unsqueeze": ("layout.unsqueeze{axes=[0,-1]}(x0)", [A], A[None, ..., None]),
    "reshape": ("layout.reshape{shape=[5,-1]}(x0)", [A], A.reshape(5, 3)),
    "flatten": ("layout.flatten{axis=1}(x0)", [X4], X4.reshape(2, -1)),
    "transpose": ("layout.transpose{perm=[0,2,3,1]}(x0)", [X4], X4.transpose(0, 2, 3, 1)),
    "transpose_from": ("layout.transpose{axis=2}(x0)", [X4], X4.transpose(0, 1, 3, 2)),
    "slice": ("layout.slice{axes=[2,3], begin=[1,-5], end=[9,7], stride=[3,2]}(x0)", [X4],
              X4[:, :, 1:9:3, -5:7:2]),
    "slice_backwards": ("layout.slice{axes=[2], begin=[8], end=[-10], stride=[-2]}(x0)", [X4],
                        X4[:, :, ::-2]),
    "pad": ("layout.pad{axes=[2,3], padding=[1,0,2,3]}(x0, 1.5)", [X4],
            np.pad(X4, ((0, 0), (0, 0), (1, 2), (0, 3)), constant_values=1.5)),
    "pad_int": ("layout.pad{padding=[1,0,0,2]}(x0)", [P], np.pad(P, ((1, 0), (0, 2)))),
    "tile": ("layout.tile{axes=[0], repeats=[2]}(x0)", [A], np.tile(A, (2, 1, 1))),
    "broadcast": ("layout.broadcast{axes=[1], shape=[4]}(x0)", [A], np.broadcast_to(A, (3, 4, 5))),
    "cast": ("layout.cast<real>(x0)", [P], P.astype("float32")),
    "cast_bool": ("layout.cast<bool>(x0)", [P], P != 0),
    "gather": ("layout.gather{axis=1}(x0, x1)", [X4, np.array([[0, 3], [1, 1]], "int32")],
               X4[:, [[0, 3], [1, 1]]]),
    "iden": ("math.iden(x0)", [A], A),
}  # fmt: skip
"""Invocation, inputs, and what NumPy says; None: only the two routes are compared."""


KINDS = {"f": "real", "i": "int", "b": "bool"}


def declared(name: str, value, *, shaped: bool) -> str:
    item, pack = (value[0], f"..({len(value)})") if isinstance(value, list) else (value, "")
    extents = f"[{', '.join(map(str, item.shape))}]" if shaped else ""
    return f"{name}: {KINDS[item.dtype.kind]}{extents}{pack};"


def model(cases) -> str:
    """One graph that makes several invocations, so that they are compiled at once."""
    ports: dict[str, list[str]] = {"input": [], "output": [], "compose": []}
    for case in cases:
        invocation, inputs, expected = CASES[case]
        result = real() if expected is None else expected
        pack = f"..({len(result)})" if isinstance(result, list) else ""
        for number, value in enumerate(inputs):
            ports["input"].append(declared(f"{case}_x{number}", value, shaped=True))
        ports["output"].append(declared(f"{case}_y", result, shaped=False))
        renamed = re.sub(r"\bx(\d)\b", rf"{case}_x\1", invocation)
        ports["compose"].append(f"{case}_y{pack} = {renamed};")
    blocks = (f"@{kind} {{ {' '.join(lines)} }}" for kind, lines in ports.items())
    return f"import nn, math, layout, linalg;\ngraph G {{ {' '.join(blocks)} }}"


def modules_of(cases):
    """The modules of cases on both routes."""
    return {route: building.from_nnef(model(cases), route=route) for route in ("mapped", "formula")}


@pytest.fixture(scope="module")
def modules():
    return modules_of(CASES)


SAMPLED = 12


@functools.cache
def computed(turn):
    """The results of the cases that are sampled at a turn, on both routes."""
    cases = [*CASES][turn::SAMPLED]
    inputs = [value for case in cases for value in CASES[case][1]]
    return {
        route: dict(zip(cases, build_module(mod)(*inputs), strict=True))
        for route, mod in modules_of(cases).items()
    }


@pytest.mark.sampled(SAMPLED)
@pytest.mark.parametrize("case", CASES)
def test_mapping_agrees_with_the_operators_own_body_and_with_numpy(case):
    found, expected = computed([*CASES].index(case) % SAMPLED), CASES[case][2]
    mapped, formula = found["mapped"][case], found["formula"][case]
    for results in (formula,) if expected is None else (formula, expected):
        ours, theirs = (r if isinstance(r, list) else [r] for r in (mapped, results))
        for one, other in zip(ours, theirs, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "operator",
    ["nn.conv2d", "nn.conv1d", "nn.max_pool2d", "nn.avg_pool2d", "nn.relu", "nn.softmax", "matmul",
     "add", "where", "mean", "concat", "split", "permute_dims", "reshape", "strided_slice"],
)  # fmt: skip
def test_mapped_route_says_it_in_relax(operator, modules):
    text = modules["mapped"].script()
    assert f"R.{operator}(" in text
    assert f"R.{operator}(" not in modules["formula"].script()


@pytest.mark.parametrize(
    "kernel",
    ["math_div", "math_eq", "math_clamp", "math_max_reduce", "layout_gather", "nn_sum_pool",
     "nn_max_pool", "layout_cast", "layout_slice"],
)  # fmt: skip
def test_what_relax_cannot_say_is_lowered_from_its_formula(kernel, modules):
    assert kernel in {v.name_hint for v in modules["mapped"].get_global_vars()}


def test_no_formula_of_these_is_ordered_loops(modules):
    names = {v.name_hint for v in modules["formula"].get_global_vars()}
    assert not [name for name in names if "_ordered" in name]


def test_constants_are_permuted_and_folded_without_a_kernel(make):
    x, y = make.tensor("x", (3, 4)), make.tensor("y", (3, 5))
    w = make.tensor("w", (5, 4), role="variable")
    linear = make.operation("nn.linear", (x, w, None), (y,))
    weights = {"main.G.w": np.arange(20, dtype="float32").reshape(5, 4)}
    graph = make.graph([linear], [x], [y], [w])
    text = lower(graph, machine_types=assign(graph), variables=weights).script()
    assert "R.matmul" in text
    assert "permute_dims" not in text
    kept = lower(
        graph, machine_types=assign(graph), variables=weights, keep_params_in_input=True
    ).script()
    assert "permute_dims" in kept


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_types_in_which_nothing_is_computed_are_left_to_the_formula(make, dtype):
    kind = "real" if dtype == "float16" else "int"
    x, y = make.tensor("x", (3,), kind), make.tensor("y", (3,), kind)
    graph = make.graph([make.operation("math.sqr", [x], [y])], [x], [y])
    types = assign(graph, named={"main.G.x": dtype})
    with pytest.raises(NnefError, match="no body"):
        lower(graph, machine_types=types, variables={})
