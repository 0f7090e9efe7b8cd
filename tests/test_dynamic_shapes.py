"""One compiled model for every size up to the bound, on both routes, and the evaluator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.arguments.ports import TensorInfo
from tvm_nnef.diagnostics import NnefError

IMPORTS = "import math; import layout; import linalg; import nn;\n"
SIZES = (0, 1, 2, 5, 10)


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


def conv(x: np.ndarray, w: np.ndarray, stride: tuple[int, int]) -> np.ndarray:
    """Cross-correlation of NCHW with OIHW, padded by 1."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    return np.einsum("nchwkl,ockl->nohw", windows[:, :, :: stride[0], :: stride[1]], w)


@dataclass(frozen=True)
class Case:
    """A graph, and what NumPy says about it; ``given`` makes inputs of a size."""

    inputs: str
    output: str
    compose: str
    given: Callable[[int], tuple[Any, ...]]
    expected: Callable[..., Any]
    sizes: tuple[int, ...] = SIZES

    @property
    def text(self) -> str:
        return (
            f"{IMPORTS}graph G {{ @input {{ {self.inputs} }} @output {{ z: {self.output}; }}\n"
            f"@compose {{ {self.compose} }} }}\n"
        )


def on_rows(compose: str, expected: Callable[..., Any], **options: Any) -> Case:
    """A graph over ``x: real[s|10,3]``."""
    return Case(
        "x: real[s|10,3];", "real[~,~]", compose, lambda n: (f32(n, 3),), expected, **options
    )


W = f32(4, 3, 3, 3)
KEYS = np.array([3, 1, 2, 5, 4], "float32")

CASES: dict[str, Case] = {
    "dimensions that differ": Case(
        "x: real[s|10]; q: real[3];", "real[~]",
        "a = layout.slice{axes=[0],begin=[0],end=[s / 2]}(x); z = math.add(q, a);",
        lambda n: (np.arange(n, dtype="float32"), np.ones(3, "float32")),
        lambda x, q: x[: len(x) // 2] + q, sizes=(6, 7)),
    "elements": on_rows("y = math.exp(x); z = math.add(x, y);", lambda x: x + np.exp(x)),
    "matrix product": on_rows("z = linalg.matmul{transB=true}(x, x);", lambda x: x @ x.T),
    "sum over the symbol": on_rows("z = linalg.matmul{transA=true}(x, x);", lambda x: x.T @ x),
    "softmax": on_rows("z = nn.softmax{axes=[1]}(x);", lambda x: softmax(x, 1)),
    "softmax over the symbol": on_rows("z = nn.softmax{axes=[0]}(x);", lambda x: softmax(x, 0)),
    "concatenation": on_rows("z = layout.concat{axis=0}([x, x]);", lambda x: np.tile(x, (2, 1))),
    "reshape": on_rows("z = layout.reshape{axis=0, rank=2, shape=[3,-1]}(x);",
                       lambda x: x.reshape(3, -1), sizes=(1, 2, 5, 10)),
    "transpose": on_rows("z = layout.transpose{perm=[1,0]}(x);", lambda x: x.T),
    "padding": on_rows("z = layout.pad{axes=[0], padding=[1,2]}(x);",
                       lambda x: np.pad(x, ((1, 2), (0, 0)))),
    "tiles": on_rows("z = layout.tile{axes=[0], repeats=[3]}(x);", lambda x: np.tile(x, (3, 1))),
    "cumulative sum": on_rows("z = math.cumsum{axis=0}(x);", lambda x: np.cumsum(x, 0)),
    "reduction": on_rows("z = math.mean_reduce{axes=[1]}(x);", lambda x: x.mean(1, keepdims=True)),
    "reduction over the symbol": on_rows("z = math.sum_reduce{axes=[0]}(x);",
                                         lambda x: x.sum(0, keepdims=True)),
    "largest over the symbol": on_rows(
        "z = math.max_reduce{axes=[0]}(x);",
        lambda x: x.max(0, keepdims=True, initial=-np.inf)),
    "broadcasting of what agrees": on_rows(
        "t = math.sum_reduce{axes=[0]}(x); z = math.sub(x, t);", lambda x: x - x.sum(0)),
    "symbols that a check finds equal": Case(
        "x: real[s|10,3]; y: real[t|10,3];", "real[~,3]", "z = math.add(x, y);",
        lambda n: (f32(n, 3), f32(n, 3)), lambda x, y: x + y),
    "an output that is read": on_rows(
        "i = math.argmax{axis=0}(x); z = layout.cast<real>(i);",
        lambda x: x.argmax(0, keepdims=True), sizes=(1, 2, 5, 10)),
    "an expression of a symbol in the shape of an input": Case(
        "x: real[s|10]; y: real[2 * s + 1];", "real[~]", "z = math.neg(y);",
        lambda n: (f32(n), f32(2 * n + 1)), lambda x, y: -y),
    "dimensions without names": Case(
        "x: real[~|10,~|4];", "real[~,~]", "z = math.neg(x);",
        lambda n: (f32(n, n % 4),), lambda x: -x),
    "convolution of a batch": Case(
        "x: real[s|10,3,6,6]; w: real[4,3,3,3];", "real[~,~,~,~]",
        "z = nn.conv{padding=[1,1,1,1]}(x, w);", lambda n: (f32(n, 3, 6, 6), W),
        lambda x, w: conv(x, w, (1, 1))),
    "convolutions of images of any size": Case(
        "x: real[2,3,s|10,t|11]; w: real[4,3,3,3];", "real[~,~,~,~]",
        "a = nn.conv{stride=[2,2], padding=[1,1,1,1]}(x, w); b = nn.relu(a);"
        "c = layout.slice{axes=[1],begin=[0],end=[3]}(b);"
        "z = nn.conv{stride=[2,2], padding=[1,1,1,1]}(c, w);",
        lambda n: (f32(2, 3, n, n + 1), W),
        lambda x, w: conv(np.maximum(conv(x, w, (2, 2)), 0)[:, :3], w, (2, 2)), (1, 2, 5, 10)),
    "convolution of images of any size": Case(
        "x: real[2,3,h|12,v|12]; w: real[4,3,3,3];", "real[~,~,~,~]",
        "z = nn.conv{stride=[2,1], padding=[1,1,1,1]}(x, w);",
        lambda n: (f32(2, 3, n, n + 1), W), lambda x, w: conv(x, w, (2, 1)), (1, 2, 5, 10)),
    "pooling": Case(
        "x: real[b|4,3,h|12,6];", "real[~,~,~,~]",
        "z = nn.max_pool{size=[2,2], axes=[2,3], stride=[2,2], padding=[0,0,0,0]}(x);",
        lambda n: (f32(n % 4, 3, 2 * n, 6),),
        lambda x: x.reshape(*x.shape[:2], -1, 2, 3, 2).max((3, 5)), (1, 2, 5, 6)),
    "branches": Case(
        "x: real[s|10,3]; c: bool[];", "real[s,3]",
        "z = if c then { e = math.exp(x); y = math.add(e, x); yield y; } else math.neg(x);",
        lambda n: (f32(n, 3), np.array(n % 2 == 0)), lambda x, c: np.exp(x) + x if c else -x),
    "many steps": Case(
        "x: real[s|10,3]; n: int[];", "real[s,3]",
        "z = with y = x do..(i -> n) { m = math.mul(y, 1.5); yield m; };",
        lambda n: (f32(n, 3), np.array(3 * n, "int32")), lambda x, n: x * np.float32(1.5) ** n),
    "as many steps as a dimension": Case(
        "x: real[s|10,3];", "real[s,3]",
        "z = with y = x do..(i -> s) { m = math.add(y, 1.0); yield m; };",
        lambda n: (f32(n, 3),), lambda x: x + len(x)),
    "a pack that is gone through": Case(
        "x: real[s|10,3]; y: real[s,3];", "real[s,3]",
        "p = [x, y, x]; z = with t = y for a : p do { u = math.sub(a, t); yield u; };",
        lambda n: (f32(n, 3), f32(n, 3) + 1), lambda x, y: x - (y - (x - y))),
    "steps that are stacked": Case(
        "x: real[s|10,3]; n: int[];", "real[~,~,~]",
        "p = [x, x, x, x]; k, ys.. = with k = 0.0 for a : p do..(i -> n) "
        "{ w = math.add(a, k); v = math.add(k, 1.0); yield v, w; }; z = layout.stack{axis=0}(ys);",
        lambda n: (f32(n, 3), np.array(min(n, 4), "int32")),
        lambda x, n: np.stack([x + k for k in range(n)]) if n else np.zeros((0, *x.shape))),
    "data-dependent positions": Case(
        "x: real[s|10,3];", "int[~,~]", "z = layout.nonzero(x);",
        lambda n: (np.maximum(f32(n, 3), 0),), lambda x: np.stack(np.nonzero(x))),
    "a sum of data-dependent size": Case(
        "x: real[s|10];", "int[1,1]",
        "i = layout.nonzero(x); j = math.mul(i, i); z = math.sum_reduce{axes=[1]}(j);",
        lambda n: (np.maximum(f32(n), 0),), lambda x: np.array([[(np.nonzero(x)[0] ** 2).sum()]])),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["mapped", pytest.param("formula", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.slow] if "any size" in name else [])
        for name, case in CASES.items()
    ],
)
def test_one_executable_serves_every_size(case: Case, route: str) -> None:
    graph = tvm_nnef.compose(case.text)
    executable = tvm_nnef.build(case.text, route=route, progress=False)
    for size in case.sizes:
        given = case.given(size)
        expected = case.expected(*given)
        for found in (executable(*given), tvm_nnef.evaluate(graph, *given)):
            np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5, err_msg=str(size))
            assert found[0].shape == expected.shape


PLAIN = """import math;
graph G {
  @input { x: real[s|10,3]; y: real[s,3]; n: real[t|5]; m: real[2 * t]; }
  @output { z: real[s,3]; k: real[2 * t]; }
  @compose { z = math.add(x, y); k = math.neg(m); }
}
"""


@pytest.fixture(scope="module")
def plain() -> Any:
    return tvm_nnef.build(PLAIN, progress=False)


def test_inputs_and_outputs_are_described_with_symbols(plain: Any) -> None:
    assert plain.inputs[0] == TensorInfo("x", ("s", 3), "float32")
    assert plain.inputs[3] == TensorInfo("m", ("t * 2",), "float32")
    assert [port.shape for port in plain.outputs] == [("s", 3), ("t * 2",)]
    assert plain.bounds == {"s": 10, "t": 5}
    assert plain.metadata["inputs"][3]["shape"] == [["mul", "t", 2]]


def inputs_of(**changed: tuple[int, ...]) -> list[np.ndarray]:
    shapes = {"x": (4, 3), "y": (4, 3), "n": (2,), "m": (4,), **changed}
    return [np.zeros(shape, "float32") for shape in shapes.values()]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": (12, 3), "y": (12, 3)}, "input 'x': dimension s = 12 is beyond its bound 10"),
        ({"y": (5, 3)}, "input 'y': s is 5, but input 'x' gave 4"),
        ({"m": (5,)}, "input 'm': dimension t * 2 is 4 where t = 2, got 5"),
        ({"x": (4, 2)}, "input 'x': expected shape (s, 3), got (4, 2)"),
        ({"x": (4,)}, "input 'x': expected shape (s, 3), got (4)"),
    ],
)
def test_inputs_that_break_a_bound_or_an_agreement_are_named(plain, changed, message) -> None:
    given = inputs_of(**changed)
    for run in (plain, lambda *values: tvm_nnef.evaluate(PLAIN, *values)):
        with pytest.raises(NnefError) as caught:
            run(*given)
        assert message in str(caught.value)


def test_random_inputs_are_as_large_as_can_be(plain: Any) -> None:
    from tvm_nnef.arguments.random_inputs import random_inputs

    given = random_inputs(tvm_nnef.compose(PLAIN))
    assert [array.shape for array in given] == [(10, 3), (10, 3), (5,), (10,)]
    assert plain.benchmark(repeat=2).runs == 2


BROADCAST = CASES["symbols that a check finds equal"].text

SAME = """import layout;
operator same {
  @input { x: int[d,n]; y: int[d,m]; }
  @output { z: int[d,n]; }
  @assert { n == m: "lengths {n} and {m} differ"; }
  @lower { z[i,j] = x[i,j] + y[i,j], i < d, j < n; }
}
graph G {
  @input { x: real[s|10]; y: real[t|10]; c: bool[]; }
  @output { z: int[1,~]; }
  @compose { a = layout.nonzero(x); b = layout.nonzero(y); z = BODY; }
}
"""

CHECKS = {
    "inputs alone": (
        BROADCAST, (f32(2, 3), f32(5, 3)), (f32(5, 3), f32(5, 3)), "the shapes do not broadcast"),
    "data-dependent dimensions": (
        SAME.replace("BODY", "same(a, b)"), (KEYS, KEYS[:3], np.True_),
        (KEYS, -KEYS, np.True_), "lengths 5 and 3 differ"),
    "a branch": (
        SAME.replace("BODY", "if c then same(a, b) else a"), (KEYS, KEYS[:3], np.True_),
        (KEYS, KEYS[:3], np.False_), "lengths 5 and 3 differ"),
    "a body of a loop": (
        SAME.replace("BODY", "with u = a do..(i -> 20) { v = same(u, b); yield v; }"),
        (KEYS, KEYS[:3], np.True_), (KEYS, KEYS, np.True_), "lengths 5 and 3 differ"),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("route", ["mapped", "formula", "reference"])
@pytest.mark.parametrize(("text", "bad", "good", "message"), CHECKS.values(), ids=CHECKS)
def test_a_check_that_fails_reports_the_values(text, bad, good, message, route) -> None:
    if route == "reference":
        graph = tvm_nnef.compose(text)
        run = lambda *given: tvm_nnef.evaluate(graph, *given)  # noqa: E731
    else:
        run = tvm_nnef.build(text, route=route, progress=False)
    with pytest.raises(NnefError) as caught:
        run(*bad)
    assert message in str(caught.value)
    assert "<text>:" in str(caught.value)
    run(*good)


@pytest.mark.slow
def test_a_library_needs_nothing_of_python(tmp_path) -> None:
    """The runtime of TVM alone loads it, as a C++ program would, and runs and checks it."""
    file = tmp_path / "model.so"
    tvm_nnef.build(SAME.replace("BODY", "same(a, b)"), progress=False).export(file)
    script = """
import ctypes, json, sys
import numpy as np, tvm
from tvm.runtime.vm import VirtualMachine
machine = VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
keys = np.array([3, 0, 2, 5, 4], "float32")
run = lambda *given: machine["main"](*map(tvm.runtime.tensor, given))
found = run(keys, keys, np.array(True))
print(json.dumps([str(machine["metadata"]()), found[0].numpy().tolist()]))
try:
    run(keys, keys[:2], np.array(True))
except (RuntimeError, TypeError, ValueError) as problem:
    print(str(problem))
"""
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    first, complaint = done.stdout.split("\n", 1)
    metadata, found = json.loads(first)
    assert json.loads(metadata)["bounds"]["s"] == 10
    assert found == [[0, 4, 6, 8]]
    assert '["nnef check","<text>:' in complaint
    assert '"lengths ",4," and ",1," differ"' in complaint


def test_a_symbolic_model_is_exported_and_loaded(plain, tmp_path) -> None:
    plain.export(tmp_path / "model.so")
    loaded = tvm_nnef.load(tmp_path / "model.so")
    assert loaded.metadata == plain.metadata
    for size in (0, 7):
        given = [f32(size, 3), f32(size, 3), f32(3), f32(6)]
        np.testing.assert_allclose(loaded(*given)[0], given[0] + given[1])
    with pytest.raises(NnefError, match="beyond its bound"):
        loaded(*inputs_of(n=(6,), m=(12,)))


MASKED = """import math; import linalg; import layout;
operator fill { @input { c: real[1]; x: real[n,k]; } @output { y: real[n,n]; }
    @lower { y[i,j] = c[0], i < n, j < n; } }
operator lower { @input { x: real[n,n]; } @output { y: real[n,n]; }
    @lower { y[i,j] = j <= i ? x[i,j] : 0.0, i < n, j < n; } }
graph G { @input { x: real[s|40,3]; c: real[1]; } @output { z: real[s,s]; }
    @compose { d = fill(c, x); m = lower(d); y = layout.transpose{perm=[1, 0]}(x);
               p = linalg.matmul(x, y); z = math.add(p, m); } }
"""


def test_operations_after_a_product_may_be_several_steps() -> None:
    executable = tvm_nnef.build(MASKED, progress=False)
    for n in (1, 2, 33, 40):
        x, c = f32(n, 3), f32(1)
        expected = x @ x.T + np.tril(np.broadcast_to(c, (n, n)))
        np.testing.assert_allclose(executable(x, c)[0], expected, rtol=1e-5, atol=1e-5)
