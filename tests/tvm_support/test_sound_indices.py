"""TVM's simplifier keeps the indices in bounds of what both branches of a ``Select`` load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

import tvm_nnef
from tvm_nnef.tvm_support.sound_indices import with_sound_indices

onnx = pytest.importorskip("onnx")


def padded() -> Any:
    """Elements of a buffer with others around, whose indices are clamped."""
    x, y = (tirx.decl_buffer((size,), "float32", name) for name, size in (("x", 13), ("y", 17)))
    i = tirx.Var("i", "int64")
    inside = tirx.all(i >= 1, i < 14)
    value = x[tirx.max(tirx.min(i - 1, tirx.const(12, "int64")), tirx.const(0, "int64"))]
    store = tirx.BufferStore(y, tirx.Select(inside, value, tirx.const(0.0, "float32")), [i])
    loop = tirx.For(i, tirx.const(0, "int64"), tirx.const(17, "int64"), 0, store)
    return tirx.PrimFunc([x, y], loop)


def clamps(function: Any) -> int:
    found: list[Any] = []
    mod = tirx.transform.StmtSimplify()(tvm.IRModule({"main": function}))
    tvm_ffi.structural_walk(mod["main"].body, ((tirx.Min, tirx.Max), found.append))
    return len(found)


def test_the_simplifier_keeps_clamps_under_a_condition() -> None:
    assert clamps(with_sound_indices(padded())) == 2


def run(graph: str, *arrays: Any) -> Any:
    """The result of an ONNX graph, compiled on the formula route."""
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + graph)
    model = tvm_nnef.convert(proto)
    return tvm_nnef.build(model, route="formula", progress=False)(*arrays)[0]


def test_a_padded_difference_in_another_shape() -> None:
    x = np.random.default_rng(0).standard_normal(13).astype(np.float32)
    y = np.random.default_rng(1).standard_normal((3, 14, 13)).astype(np.float32)
    found = run(
        """g (float[13] x, float[3, 14, 13] y) => (float[5, 15, 1, 17] z)
        <int64[6] pads = {0, 1, 1, 2, 0, 3}, int64[4] shape = {5, 15, 1, 17}> {
            d = Sub(x, y)
            p = Pad(d, pads)
            z = Reshape(p, shape)
        }""",
        x, y,
    )  # fmt: skip
    expected = np.pad(x - y, ((0, 2), (1, 0), (1, 3))).reshape(5, 15, 1, 17)
    np.testing.assert_array_equal(found, expected)


def test_a_condition_that_several_functions_share() -> None:
    """TVM computed it once, as its own vector, whose values it then could not analyse."""
    x = np.random.default_rng(0).standard_normal((2, 14)).astype(np.float32)
    y = np.random.default_rng(1).standard_normal((8, 1)).astype(np.float32)
    found = run(
        """g (float[2, 14] x, float[8, 1] y) => (float[8, 108] z)
        <int64[4] pads = {3, 1, 1, 3}, int64[1] shape = {108}> {
            p = Pad(x, pads)
            r = Reshape(p, shape)
            t = Tanh(r)
            e = Exp(t)
            z = Max(e, y)
        }""",
        x, y,
    )  # fmt: skip
    expected = np.maximum(np.exp(np.tanh(np.pad(x, ((3, 1), (1, 3))).reshape(108))), y)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("factor", ["4634100000", "-4634100000", "2147483648", "5"])
def test_constant_of_64_bits_wraps_around_in_32(factor: str) -> None:
    model = f"""
    operator f {{ @input {{ x: int[n]; }} @output {{ y: int[]; z: int[n]; }} @lower {{
      y[] = n; y[] *= {factor}; z[i,] = n * {factor} + 1, i < n; }} }}
    graph G {{ @input {{ x: int[3]; }} @output {{ y: int[]; z: int[3]; }}
      @compose {{ y, z = f(x); }} }}
    """
    y, z = tvm_nnef.build(model, route="formula", progress=False)(np.zeros(3, "int32"))
    exact = 3 * int(factor)
    wrapped = np.array([exact, exact + 1]).astype("int32")
    np.testing.assert_array_equal(y, wrapped[0])
    np.testing.assert_array_equal(z, np.full(3, wrapped[1]))


def test_a_padding_that_is_summed_in_the_kernel_of_what_it_pads() -> None:
    x = np.random.default_rng(0).standard_normal((8, 6, 3)).astype(np.float32)
    y = np.random.default_rng(1).standard_normal(6).astype(np.float32)
    found = run(
        """g (float[8, 6, 3] x, float[6] y) => (float z)
        <int64[2] pads = {3, 0}, float border = {-1.5}> {
            s = ReduceSumSquare <axes = [0, 2], keepdims = 0> (x)
            c = Concat <axis = 0> (s, y)
            e = Softplus (c)
            p = Pad (e, pads, border)
            z = ReduceMean <axes = [0], keepdims = 0> (p)
        }""",
        x, y,
    )  # fmt: skip
    inside = np.log1p(np.exp(np.concatenate([(x.astype("float64") ** 2).sum((0, 2)), y])))
    np.testing.assert_allclose(found, (inside.sum() - 4.5) / 15, rtol=1e-5)


@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_a_cast_of_integers_that_wraps_around(route: str) -> None:
    """TVM took int16 of a uint16 for a number that is not negative."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (uint16[4] x) => (int32[4] y) {
            i = Cast <to = 5> (x)
            w = Cast <to = 6> (i)
            z = Constant <value = int32 {0}> ()
            n = Less (w, z)
            o = Constant <value = int32 {1}> ()
            y = Where (n, o, w)
        }"""
    )
    x = np.array([1, 32767, 32768, 65535], np.uint16)
    found = tvm_nnef.build(tvm_nnef.convert(proto), route=route, progress=False)(x)[0]
    np.testing.assert_array_equal(found, [1, 32767, 1, 1])
