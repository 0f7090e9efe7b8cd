"""Control flow, updates and quantization from text to numbers, on the evaluator and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.api.building import compose
from tvm_nnef.graph.verify import verify

F = np.float32
XS = [np.arange(3, dtype=F) + i for i in range(4)]
A = np.array([[1, 1], [1, 0]], F)

OPERATORS = """
operator matpow {
    @input { A: real[n,n]; p: int[]; }
    @output { B: real[n,n]; }
    @constant { I: real[n,n] = i == j ? 1.0 : 0.0, i < n, j < n; }
    @compose { B = with X = I do..(p) linalg.matmul(X, A); }
}
operator collatz {
    @input { n: int[]; }
    @output { steps: int[]; }
    @compose {
        steps, ~ = with s = 0, m = n while math.gt(m, 1) do {
            half = math.div(m, 2);
            twice = math.mul(half, 2);
            even = math.eq(twice, m);
            next = if even then half else { t = math.mul(m, 3); u = math.add(t, 1); yield u; };
            more = math.add(s, 1);
            yield more, next;
        };
    }
}
"""
INPUTS = "A: real[2,2]; p: int[]; c: bool[]; xs: real[3]..(4); x: real[3];"


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def fold(xs: list[Any], start: Any, function: Callable[[Any, Any], Any]) -> list[Any]:
    steps = []
    for x in xs:
        start = function(start, x)
        steps.append(start)
    return steps


# Components that assign y; what y is, from the inputs p (an int) and c (a bool).
CASES: dict[str, tuple[str, str, Callable[[int, bool], Any]]] = {
    "branch": ("y = if c then math.neg(x) else math.exp(x);", "real",
        lambda p, c: -XS[2] if c else np.exp(XS[2])),
    "branch with blocks": ("y = if c then { t = math.neg(x); u = math.abs(t); yield u; } else x;",
        "real", lambda p, c: XS[2]),
    "elif": ("three = math.eq(p, 3); y = if c then x elif three then math.neg(x) else xs[0];",
        "real", lambda p, c: XS[2] if c else -XS[2] if p == 3 else XS[0]),
    "condition in a block": ("y = if { d = math.not(c); yield d; } then x else xs[0];", "real",
        lambda p, c: XS[0] if c else XS[2]),
    "two results": ("a, b = if c then { yield x, xs[0]; } else { yield xs[0], x; };"
        " y = math.sub(a, b);", "real", lambda p, c: XS[2] - XS[0] if c else XS[0] - XS[2]),
    "scanning loop": ("ys..(4) = for z : xs do math.neg(z); y = math.sum_n(ys);", "real",
        lambda p, c: -sum(XS)),
    "folding loop": ("y = with sum: real[3] = 0.0 for z : xs do math.add(sum, z);", "real",
        lambda p, c: sum(XS)),
    "both": ("s, ps..(4) = with a: real[3] = 0.0 for z : xs do { b = math.add(a, z); yield b, b; };"
        " t = math.sum_n(ps); y = math.sub(t, s);", "real",
        lambda p, c: sum(fold(XS, F(0), np.add)[:3])),
    "two packs": ("y = with a = x for u : xs, v : xs[::-1] do { w = math.mul(u, v);"
        " b = math.add(a, w); yield b; };", "real",
        lambda p, c: XS[2] + sum(u * v for u, v in zip(XS, XS[::-1], strict=True))),
    "index": ("y = with s = 0 do..(i -> 10) math.add(s, i);", "int", lambda p, c: 45),
    "dynamic count": ("y = with s = 0 do..(i -> p) math.add(s, i);", "int",
        lambda p, c: sum(range(p))),
    "part of a pack": ("y = with a: real[3] = 0.0 for z : xs do..(p) math.add(a, z);", "real",
        lambda p, c: sum(XS[:p], np.zeros(3, F))),
    "while": ("y = with v = 1.0 while math.lt(v, 1000.0) do math.mul(v, 2.0);", "real",
        lambda p, c: 1024.0),
    "do while": ("y = with v = 5000.0 do math.mul(v, 2.0) while math.lt(v, 1000.0);", "real",
        lambda p, c: 10000.0),
    "while with a count": ("y = with v = 1.0 while math.lt(v, 1000.0) do..(p) math.mul(v, 2.0);",
        "real", lambda p, c: 2.0**p),
    "carried condition": ("y, ~ = with n = 0, go = true while go do { m = math.add(n, 1);"
        " on = math.lt(m, 7); yield m, on; };", "int", lambda p, c: 7),
    "zero steps": ("y = with a = x do..(0) math.neg(a);", "real", lambda p, c: XS[2]),
    "many steps": ("y = with s = 0 do..(3000) math.add(s, 1);", "int", lambda p, c: 3000),
    "matrix power": ("y = matpow(A, p);", "real",
        lambda p, c: np.linalg.matrix_power(A, p).astype(F)),
    "loop with a branch": ("y = collatz(p);", "int", lambda p, c: collatz(p)),
    "branch with a loop": ("y = if c then { s = with a = x do..(p) math.add(a, x); yield s; }"
        " else x;", "real", lambda p, c: XS[2] * (p + 1) if c else XS[2]),
    "branches of different sizes": ("y = if c then x else"
        " layout.slice{axes=[0], begin=[0], end=[1]}(x);", "real",
        lambda p, c: XS[2] if c else XS[2][:1]),
    "an empty branch": ("a = if c then layout.slice{axes=[0], begin=[0], end=[0]}(x) else x;"
        " y = math.add(a, 1.0);", "real", lambda p, c: XS[2][:0] if c else XS[2] + 1),
    "branches of data-dependent sizes": ("t = layout.cast<real>(p); d = math.lt(x, t);"
        " e = math.gt(x, 2.5); y = if c then layout.nonzero(d) else layout.nonzero(e);", "int",
        lambda p, c: np.array(np.nonzero(XS[2] < p if c else XS[2] > 2.5), np.int32)),
    "sizes of a branch in a branch": ("three = math.eq(p, 3); y = if c then x elif three then"
        " layout.slice{axes=[0], begin=[1], end=[2]}(x) else layout.concat{axis=0}(xs);", "real",
        lambda p, c: XS[2] if c else XS[2][1:2] if p == 3 else np.concatenate(XS)),
    "branches of different sizes in a loop": ("y = with a = 0.0 do..(i -> p) { d = math.gt(i, 0);"
        " b = if d then x else layout.slice{axes=[0], begin=[0], end=[1]}(x);"
        " s = math.sum_reduce{axes=[0], squeeze=true}(b); t = math.add(a, s); yield t; };", "real",
        lambda p, c: F(2 + (p - 1) * 9 if p else 0)),
    "nested loops": ("y = with s = 0 do..(i -> p) { t = with u = s do..(j -> 3) math.add(u, j);"
        " yield t; };", "int", lambda p, c: 3 * p),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("route", ["reference", "mapped"])
@pytest.mark.parametrize("name", CASES)
def test_control_flow(name: str, route: str) -> None:
    components, kind, expected = CASES[name]
    text = (
        f"import math, linalg, layout;\n{OPERATORS}\ngraph G {{ @input {{ {INPUTS} }} "
        f"@output {{ y: {kind}; }} @compose {{ {components} }} }}"
    )
    graph = compose(text)
    verify(graph)
    executable = None if route == "reference" else tvm_nnef.build(text, progress=False)
    for p, c in ((3, True), (3, False), (0, False), (4, True)):
        inputs = (A, np.int32(p), np.bool_(c), XS, XS[2])
        if executable is None:
            (y,) = tvm_nnef.evaluate(graph, *inputs)
        else:
            (y,) = executable(*inputs)
        assert np.shape(y) == np.shape(expected(p, c))
        np.testing.assert_allclose(y, expected(p, c), rtol=1e-6, err_msg=f"p={p}, c={c}")


UPDATED = """
import math;
graph Counter {
    @attrib { rate: real = 0.5; }
    @input { x: real[2]; }
    @output { y: real[2]; }
    @variable { total: real[2]; last: real[2]; }
    @compose { y = math.add(x, total); }
    @update {
        part = math.mul(x, rate);
        total = math.add(total, part);
        last = math.iden(y);
    }
}
"""


def test_updates_take_effect_after_the_run() -> None:
    variables = {"main.Counter.total": np.zeros(2, F), "main.Counter.last": np.zeros(2, F)}
    model = tvm_nnef.load_model(UPDATED, variables=variables)
    executable = tvm_nnef.build(model, progress=False)
    x = np.array([2, 4], F)
    np.testing.assert_array_equal(executable(x)[0], [2, 4])
    np.testing.assert_array_equal(executable(x)[0], [3, 6])
    np.testing.assert_array_equal(executable.state["main.Counter.total"], [2, 4])
    np.testing.assert_array_equal(executable.state["main.Counter.last"], [3, 6])
    executable.state["main.Counter.total"] = np.array([10, 10], F)
    np.testing.assert_array_equal(executable(x)[0], [12, 14])


COUNTING = """
import math;
operator counted {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { calls: real[1]; }
    @compose { y = math.add(x, calls); }
    @update { calls = math.add(calls, 1.0); }
}
graph G {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @compose { a = counted(x); y = counted(a); }
}
"""


def test_operators_may_have_state() -> None:
    variables = {"main.G.a.calls": np.zeros(1, F), "main.G.y.calls": np.full(1, 10, F)}
    model = tvm_nnef.load_model(COUNTING, variables=variables)
    executable = tvm_nnef.build(model, progress=False)
    x = np.zeros(2, F)
    assert [float(executable(x)[0][0]) for _ in range(3)] == [10, 12, 14]
    np.testing.assert_array_equal(executable.state["main.G.y.calls"], [13])


QUANTIZED = """
import math, quant;
graph Q {
    @input { x: real[1,2]; }
    @output { y: real[1,2]; }
    @variable { w: real[1,2]; }
    @compose { h = math.mul(x, w); y = math.neg(h); }
    @quantize {
        x: quant.zero_point_linear_quantize{zero_point=0, scale=0.5, bits=8};
        main.Q.w: quant.zero_point_linear_quantize{zero_point=0, scale=1.0, bits=8};
        h: quant.zero_point_linear_quantize{zero_point=0, scale=2.0, bits=8};
    }
}
"""


def test_quantization_is_applied_unless_left_out() -> None:
    x, w = np.array([[0.7, -1.3]], F), np.array([[2.6, 3.4]], F)
    model = tvm_nnef.load_model(QUANTIZED, variables={"main.Q.w": w})
    np.testing.assert_allclose(tvm_nnef.evaluate(model, x, quantize=False)[0], -x * w)
    # 0.7 and -1.3 round to 0.5 and -1.5, 2.6 and 3.4 to 3; 1.5 / 2 rounds to 1, -4.5 / 2 to -2.
    for outputs in (tvm_nnef.evaluate(model, x), tvm_nnef.build(model, progress=False)(x)):
        np.testing.assert_allclose(outputs[0], [[-2.0, 4.0]])


@pytest.mark.parametrize(("old", "new", "words"), [
    ("        h: quant", "        g: quant", "there is no tensor 'g' to quantize"),
    ("main.Q.w:", "x:", "quantized twice"),
    ("scale=2.0", "scale=-2.0", "'scale' must be positive"),
])  # fmt: skip
def test_wrong_quantization_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=words):
        compose(QUANTIZED.replace(old, new))


def test_an_update_keeps_the_shape_of_its_variable() -> None:
    with pytest.raises(tvm_nnef.NnefError, match="its update gives"):
        compose(UPDATED.replace("last: real[2]", "last: real[3]"))
