"""Loops of the virtual machine as one kernel: which become one, and that they compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from tvm import tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation import passes
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.machine import cpu_model
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import prim_functions

pytestmark = pytest.mark.slow

F = np.float32
T, B, C, N = 20, 3, 5, 24
"""Steps, batch, channels, width of the state: more steps than are written one after the other."""


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F) / 3


W, R = random(N, C), random(N, N)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def scanned(step, xs, *state):
    """The outputs over time of what a step makes of an input and a state, output and state."""
    outputs = []
    for x in xs:
        output, *state = step(x, *state)
        outputs.append(output)
    return np.stack(outputs), *state


def graph(body, batch, results, more=""):
    return f"""import nn, math, layout, linalg;
    graph G {{
      @input {{ x: real[{T},{batch},{C}]; h: real[{batch},{N}]; {more} }}
      @output {{ {results} }}
      @variable {{ W: real[{N},{C}]; R: real[{N},{N}]; }}
      @compose {{ xs..({T}) = layout.unstack{{axis=0}}(x); {body} }}
    }}"""


PLAIN = """
    z, ys..(20) = with s = h for u : xs do {
        a = nn.linear(u, W); b = nn.linear(s, R); c = math.add(a, b); t = math.tanh(c);
        yield t, t;
    };
    y = layout.stack{axis=0}(ys);
"""
SHIFTED = """
    z, ~, ys..(20) = with s = h, r = h for u : xs do {
        a = nn.linear(u, W); b = nn.linear(r, R); c = math.add(a, b); t = math.tanh(c);
        yield t, s, t;
    };
    y = layout.stack{axis=0}(ys);
"""
GATED = """
    z, ys..(20) = with s = h for u : xs do {
        a = nn.linear(u, W); g = nn.sigmoid(a); b = nn.linear(s, R); c = math.mul(b, g);
        e = math.sub(s, c); f = math.mul(g, e); t = math.add(c, f);
        yield t, e;
    };
    y = layout.stack{axis=1}(ys);
"""
COUNTED = """
    z = with s = h do..(p) { b = nn.linear(s, R); t = math.tanh(b); yield t; };
    y = math.add(z, 0.0);
"""
CONDITION_AFTER = """
    z = with s = h do { b = nn.linear(s, R); t = math.mul(b, 0.5); yield t; }
        while { m = math.abs(s); k = math.max_reduce{axes=[0,1], squeeze=true}(m);
                q = math.gt(k, 0.0001); yield q; };
    y = math.add(z, 0.0);
"""


def plain(x, s):
    t = np.tanh(x @ W.T + s @ R.T)
    return t, t


def shifted(x, s, r):
    t = np.tanh(x @ W.T + r @ R.T)
    return t, t, s


def gated(x, s):
    g = sigmoid(x @ W.T)
    c = s @ R.T * g
    e = s - c
    return e, c + g * e


RESULTS = f"y: real[{T},~,{N}]; z: real[~,{N}];"
SCANS = {
    "plain": (PLAIN, RESULTS, lambda x, h: scanned(plain, x, h), True),
    "gated": (
        GATED, f"y: real[~,{T},{N}]; z: real[~,{N}];",
        lambda x, h: (scanned(gated, x, h)[0].transpose(1, 0, 2), scanned(gated, x, h)[1]), True,
    ),
    "shifted": (SHIFTED, RESULTS, lambda x, h: scanned(shifted, x, h, h)[:2], False),
}  # fmt: skip


def model(text):
    return tvm_nnef.load_model(text, variables={"main.G.W": W, "main.G.R": R})


def strategies(loaded):
    mod = run_phases(tvm_nnef.from_nnef(loaded), resolve("native"), "graph", "schedule")
    return {kernel.strategy for kernel in schedules.report(mod)}


@pytest.mark.parametrize("batch", ["3", "b|9"])
@pytest.mark.parametrize("name", SCANS)
def test_a_loop_over_time_is_one_kernel(name, batch):
    body, results, expected, whole = SCANS[name]
    loaded = model(graph(body, batch, results))
    assert ("cpu.loop" in strategies(loaded)) is whole
    executable = tvm_nnef.build(loaded)
    for size in (3,) if batch == "3" else (1, 8, 9):
        x, h = random(T, size, C), random(size, N)
        for found, wanted in zip(executable(x, h), expected(x, h), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64-v2", "aarch64"])
def test_the_state_of_a_loop_is_copied_in_vectors_of_the_machine(name):
    target, loaded = resolve(name), model(graph(PLAIN, 3, RESULTS))
    mod = run_phases(tvm_nnef.from_nnef(loaded), target, "graph", "schedule")
    (loop,) = (f for f in prim_functions(mod).values() if f.attrs[schedules.STRATEGY] == "cpu.loop")
    vectors = [f for f in nodes(loop.body, tirx.For) if f.kind == tirx.ForKind.VECTORIZED]
    # Rows are written two vectors at a time.
    assert max(int(each.extent) for each in vectors) <= 2 * cpu_model(target).lanes(32)


@pytest.mark.parametrize(
    ("batch", "inputs", "state"), [(1, 1, 1), (2, 17, 7), (3, 5, 31), (1, 67, 61)]
)
def test_a_loop_of_awkward_sizes_computes_what_the_virtual_machine_does(
    kernels, batch, inputs, state
):
    results = f"y: real[{T},{batch},{state}]; z: real[{batch},{state}];"
    text = graph(PLAIN, batch, results).replace(f",{C}]", f",{inputs}]").replace(
        f"{N}]", f"{state}]").replace(f"real[{N},", f"real[{state},")  # fmt: skip
    shapes = {"W": (state, inputs), "R": (state, state)}
    weights = {f"main.G.{name}": random(*shape) for name, shape in shapes.items()}
    mod = tvm_nnef.from_nnef(tvm_nnef.load_model(text, variables=weights))
    made = kernels.scheduled(mod)
    assert "cpu.loop" in kernels.strategies(made)
    case = {"main": (None, [(T, batch, inputs), (batch, state)])}
    kernels.compare([mod], kernels.machine(made), case)


@pytest.mark.parametrize("name", ["counted", "condition"])
def test_a_loop_of_as_many_steps_as_data_say_is_one_kernel(name):
    body, more = (COUNTED, "p: int[];") if name == "counted" else (CONDITION_AFTER, "")
    loaded = model(graph(body, 3, f"y: real[3,{N}];", more))
    assert "cpu.loop" in strategies(loaded)
    executable, x, h = tvm_nnef.build(loaded), random(T, 3, C), random(3, N)
    for count in (0, 1, 30) if name == "counted" else (None,):
        state = h
        if count is None:
            state = state @ R.T * F(0.5)
            while np.abs(state).max() > 0.0001:
                state = state @ R.T * F(0.5)
        for _ in range(count or 0):
            state = np.tanh(state @ R.T)
        given = [x, h] if count is None else [x, h, np.int32(count)]
        np.testing.assert_allclose(executable(*given)[0], state, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_loops_that_are_alike_have_stacks_of_their_own(whole, monkeypatch):
    if not whole:
        monkeypatch.setattr(passes, "with_loop_kernels", lambda mod, *_: mod)
    body = PLAIN + PLAIN.replace("z, ys", "v, ws").replace("nn.linear(u, W)", "nn.linear(u, V)")
    second = body.rfind("y = layout")
    body = body[:second] + "w = layout.stack{axis=0}(ws);"
    text = graph(
        body, 2, f"y: real[{T},2,{N}]; w: real[{T},2,{N}]; z: real[2,{N}]; v: real[2,{N}];"
    )
    text = text.replace("@variable {", f"@variable {{ V: real[{N},{C}];")
    V = -2 * W
    loaded = tvm_nnef.load_model(text, variables={"main.G.W": W, "main.G.R": R, "main.G.V": V})
    x, h = random(T, 2, C), random(2, N)
    found = dict(zip("ywzv", tvm_nnef.build(loaded)(x, h), strict=True))
    for stack, last, weights in (("y", "z", W), ("w", "v", V)):

        def step(x, s, weights=weights):
            t = np.tanh(x @ weights.T + s @ R.T)
            return t, t

        for name, expected in zip((stack, last), scanned(step, x, h), strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_weights_in_a_loop_are_packed_before_it_runs():
    mod = run_phases(
        tvm_nnef.from_nnef(model(graph(PLAIN, "3", RESULTS))), resolve("native"), "graph", "graph"
    )
    names = {variable.name_hint for variable in mod.get_global_vars()}
    assert not any(name.startswith("pack") for name in names)
    body = next(f for f in mod.functions.values() if "loop_body" in (f.attrs or {}))
    weights = [list(p.ty.shape.values) for p in body.params]
    assert [N, N] not in weights


@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_state_that_is_selected_by_a_vector_of_truth_values(size, route):
    """TVM cannot select by a local vector of truth values that is stored as int8."""
    text = f"""import math, layout;
    graph G {{
      @input {{ x: real[{size}]..(3); k: int[{size}]; n: int[]; }}
      @output {{ y: real[{size}]; }}
      @compose {{
        y = with s: real[{size}] = 0.0 for v : x do..(i -> n) {{
            a = math.add(s, v); c = math.lt(i, k); t = math.select(c, a, s); yield t;
        }};
      }}
    }}"""
    x = [np.full(size, step + 1, F) for step in range(3)]
    k = np.arange(size, dtype=np.int32)
    (found,) = tvm_nnef.build(text, route=route, progress=False)(x, k, np.array(2, np.int32))
    np.testing.assert_array_equal(found, [[0, 1, 3, 3][:size][each] for each in k])


@pytest.mark.parametrize("batch", [3, "batch"])
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_recurrent_layers_that_end_at_lengths_of_rows_are_one_kernel(kind, batch):
    gates = {"GRU": 3, "LSTM": 4}[kind]
    node = onnx.helper.make_node(
        kind, ["x", "w", "r", "b", "lengths"], ["y", "last"], direction="bidirectional",
        hidden_size=N,
    )  # fmt: skip
    sizes = {"w": (2, gates * N, C), "r": (2, gates * N, N), "b": (2, 2 * gates * N)}
    weights = [onnx.numpy_helper.from_array(random(*s) / 4, name) for name, s in sizes.items()]
    value = onnx.helper.make_tensor_value_info
    real, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32
    graph = onnx.helper.make_graph(
        [node], "g",
        [value("x", real, [T, batch, C]), value("lengths", whole, [batch])],
        [value("y", real, [T, 2, batch, N]), value("last", real, [2, batch, N])], weights,
    )  # fmt: skip
    proto = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9
    )
    converted = tvm_nnef.convert(proto, progress=False)
    assert "cpu.loop" in strategies(converted)
    executable = tvm_nnef.build(converted, progress=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for size in (3,) if batch == 3 else (1, 9, 3):
        x, lengths = random(T, size, C), (np.arange(size) * 2 % (T + 1)).astype(np.int32)
        wanted = session.run(None, {"x": x, "lengths": lengths})
        for found, expected in zip(executable(x, lengths), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
