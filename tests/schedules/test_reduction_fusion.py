"""Chains of reductions and what is between them: one kernel where they share rows, and right."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

SOFTMAX = """g = math.max_reduce{axes=[1]}(x); s = math.sub(x, g); e = math.exp(s);
    t = math.sum_reduce{axes=[1]}(e); y = math.div(e, t);"""
LOG_SOFTMAX = SOFTMAX.replace("y = math.div(e, t);", "l = math.log(t); y = math.sub(s, l);")
LAYER_NORM = """m = math.mean_reduce{axes=[1]}(x); d = math.sub(x, m); q = math.mul(d, d);
    v = math.mean_reduce{axes=[1]}(q); a = math.add(v, 0.001); s = math.sqrt(a);
    n = math.div(d, s); p = math.mul(n, w); y = math.add(p, b);"""
RMS_NORM = """q = math.mul(x, x); m = math.mean_reduce{axes=[1]}(q); a = math.add(m, 0.001);
    r = math.rsqrt(a); n = math.mul(x, r); y = math.mul(n, w);"""
VARIANCE = """m = math.mean_reduce{axes=[1]}(x); d = math.sub(x, m); q = math.mul(d, d);
    y = math.mean_reduce{axes=[1], squeeze=true}(q);"""
TWICE = """g = math.max_reduce{axes=[1]}(x); h = math.mul(g, w); t = math.max_reduce{axes=[1]}(h);
    r = math.mul(t, w); u = math.max_reduce{axes=[1]}(r); y = math.sub(u, x);"""
SHARED = SOFTMAX.replace("y =", "z = math.add(g, 0.0); y =")


def softmax(x, w, b):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layer_norm(x, w, b):
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 0.001) * w + b


def rms_norm(x, w, b):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 0.001) * w


def twice(x, w, b):
    first = x.max(1, keepdims=True) * w
    return (first.max(1, keepdims=True) * w).max(1, keepdims=True) - x


CASES = {
    "same kernels twice": (TWICE, twice),
    "softmax": (SOFTMAX, softmax),
    "log softmax": (LOG_SOFTMAX, lambda x, w, b: np.log(softmax(x, w, b))),
    "layer norm": (LAYER_NORM, layer_norm),
    "rms norm": (RMS_NORM, rms_norm),
    "variance": (VARIANCE, lambda x, w, b: x.var(1)),
}


def model(body, rows, columns, more=""):
    y = f"{rows.split('|')[0]}" if "|" not in rows else "~"
    width = "" if body is VARIANCE else f",{columns}"
    return tvm_nnef.load_model(
        f"""import math;
        graph G {{
          @input {{ x: real[{rows},{columns}]; w: real[1,{columns}]; b: real[1,{columns}]; }}
          @output {{ y: real[{y}{width}]; {more} }} @compose {{ {body} }} }}"""
    )


def kernels(loaded):
    report = schedules.report(
        run_phases(tvm_nnef.from_nnef(loaded), resolve("native"), "graph", "schedule")
    )
    return [kernel.strategy for kernel in report]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rows, columns", [("17", 1), ("1", 13), ("64", 100), ("k|40", 37)])
@pytest.mark.parametrize("name", CASES)
def test_a_chain_over_rows_is_one_kernel(name, rows, columns):
    body, expected = CASES[name]
    loaded = model(body, rows, columns)
    assert columns == 1 or kernels(loaded) == ["cpu.row_reduction"]
    executable, generator = tvm_nnef.build(loaded), np.random.default_rng(1)
    for count in (1, 16, 40) if "|" in rows else (int(rows),):
        shapes = [(count, columns), (1, columns), (1, columns)]
        arrays = [generator.standard_normal(shape).astype("float32") for shape in shapes]
        wanted = expected(*(array.astype("float64") for array in arrays))
        np.testing.assert_allclose(executable(*arrays)[0], wanted, rtol=2e-5, atol=2e-6)


def test_what_others_read_stays_a_kernel_of_its_own():
    loaded = model(SHARED, "64", 50, "z: real[64,1];")
    assert len(kernels(loaded)) > 1
    x, w = np.random.default_rng(2).standard_normal((64, 50)).astype("float32"), np.ones((1, 50))
    y, z = tvm_nnef.build(loaded)(x, w.astype("float32"), w.astype("float32"))
    np.testing.assert_allclose(y, softmax(x, None, None), rtol=2e-5)
    np.testing.assert_array_equal(z, x.max(1, keepdims=True))


def test_a_few_long_rows_are_left_to_all_threads():
    assert len(kernels(model(SOFTMAX, "2", 40000))) > 1


def test_rows_of_a_transposed_operand_are_not_the_same_rows():
    body = SOFTMAX.replace(
        "y = math.div(e, t);", "f = layout.transpose{perm=[1,0]}(e); y = math.div(f, t);"
    )
    text = f"""import math, layout;
        graph G {{ @input {{ x: real[32,32]; }} @output {{ y: real[32,32]; }}
          @compose {{ {body} }} }}"""
    x = np.random.default_rng(3).standard_normal((32, 32)).astype("float32")
    e = np.exp(x - x.max(1, keepdims=True))
    found = tvm_nnef.build(tvm_nnef.load_model(text))(x)[0]
    np.testing.assert_allclose(found, e.T / e.sum(1, keepdims=True), rtol=2e-5)
