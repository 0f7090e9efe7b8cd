"""Rows between the stages of a kernel: in results, in registers, or in aligned buffers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import tirx

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules import schedule_kernels
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.codegen.stack import on_stack
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import prim_functions


def _graph(outputs: str, body: str, size: int) -> str:
    ports = " ".join(f"{name}: real[6,{size}];" for name in outputs)
    return f"""import math;
        graph G {{ @input {{ x: real[6,{size}]; }} @output {{ {ports} }} @compose {{ {body} }} }}
    """


SHARES = "a = math.exp(x); s = math.sum_reduce{axes=[1]}(a); y = math.div(a, s);"


def _shares(x: np.ndarray) -> np.ndarray:
    a = np.exp(x)
    return a / a.sum(1, keepdims=True)


CASES: dict[str, tuple[str, str, Callable[[np.ndarray], list[np.ndarray]]]] = {
    "overwritten": ("y", SHARES, lambda x: [_shares(x)]),
    "a result": ("ay", SHARES, lambda x: [np.exp(x), _shares(x)]),
    "read after the result": (
        "yw",
        SHARES + "w = math.add(a, y);",
        lambda x: [_shares(x), np.exp(x) + _shares(x)],
    ),
    "two for one result": (
        "y",
        "a = math.exp(x); s = math.sum_reduce{axes=[1]}(a); b = math.cosh(x);"
        "t = math.max_reduce{axes=[1]}(b); c = math.div(a, s); d = math.div(b, t);"
        "y = math.add(c, d);",
        lambda x: [_shares(x) + np.cosh(x) / np.cosh(x).max(1, keepdims=True)],
    ),
    "a result that is reduced": (
        "yw",
        SHARES + "m = math.max_reduce{axes=[1]}(y); w = math.sub(y, m);",
        lambda x: [_shares(x), _shares(x) - _shares(x).max(1, keepdims=True)],
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [5, 200])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_read_before_they_are_overwritten(case: str, size: int) -> None:
    outputs, body, expected = CASES[case]
    x = np.random.default_rng(0).standard_normal((6, size)).astype("float32")
    found = tvm_nnef.build(_graph(outputs, body, size), progress=False)(x)
    for made, exact in zip(found, expected(x.astype("float64")), strict=True):
        np.testing.assert_allclose(made, exact, rtol=1e-5, atol=1e-7)


def _allocated(text: str, target: str = "x86-64-v3") -> list[tirx.Var]:
    mod = run_phases(tvm_nnef.from_nnef(text), resolve(target), "graph", "fuse")
    (kernel,) = prim_functions(schedule_kernels(mod, resolve(target))).values()
    kernel = on_stack(kernel.with_attr("target", resolve(target)))
    return [each.buffer for each in nodes(kernel.body, tirx.AllocBuffer)]


@pytest.mark.parametrize(("size", "rows"), [(200, 0), (64, 1)])
def test_only_rows_that_fit_registers_have_buffers_beside_their_result(
    size: int, rows: int
) -> None:
    buffers = _allocated(_graph("y", SHARES, size))
    assert sum(sizes.elements(each) == size for each in buffers) == rows


def test_long_rows_are_aligned_to_vectors() -> None:
    """TVM would align them to 16 bytes, so that every second vector crosses a cache line."""
    body = SHARES.replace("y =", "b =") + "y = math.max_reduce{axes=[1]}(b);"
    buffers = _allocated(_graph("y", body, 200).replace("y: real[6,200]", "y: real[6,1]"))
    (row,) = [each for each in buffers if str(each.dtype).startswith("int8")]
    assert str(row.dtype) == "int8x32" and sizes.elements(row) == 200 * 4 // 32
