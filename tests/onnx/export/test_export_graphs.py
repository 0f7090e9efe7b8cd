"""Branches, loops, state, symbols, packs, names and files of exported models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")

from tvm_nnef.converters.onnx.export import export, write  # noqa: E402
from tvm_nnef.converters.onnx.export import exported as whole  # noqa: E402

pytestmark = pytest.mark.sampled(3)

F = np.float32
XS = [np.arange(3, dtype=F) + i for i in range(4)]
INPUTS = "p: int[]; c: bool[]; xs: real[3]..(4); x: real[3];"

# Components that assign y, and the type of y.
CASES = {
    "branch": ("y = if c then math.neg(x) else math.exp(x);", "real"),
    "branch that gives what is outside": ("y = if c then x else xs[0];", "real"),
    "branch with blocks": (
        "y = if c then { t = math.neg(x); u = math.abs(t); yield u; } else x;", "real"),
    "elif": ("three = math.eq(p, 3); y = if c then x elif three then math.neg(x) else xs[0];",
        "real"),
    "two results": ("a, b = if c then { yield x, xs[0]; } else { yield xs[0], x; };"
        " y = math.sub(a, b);", "real"),
    "one value twice": ("a, b = if c then { yield x, x; } else { yield xs[0], x; };"
        " y = math.sub(a, b);", "real"),
    "scanning loop": ("ys..(4) = for z : xs do math.neg(z); y = math.sum_n(ys);", "real"),
    "folding loop": ("y = with sum: real[3] = 0.0 for z : xs do math.add(sum, z);", "real"),
    "both": ("s, ps..(4) = with a: real[3] = 0.0 for z : xs do { b = math.add(a, z); yield b, b; };"
        " t = math.sum_n(ps); y = math.sub(t, s);", "real"),
    "two packs": ("y = with a = x for u : xs, v : xs[::-1] do { w = math.mul(u, v);"
        " b = math.add(a, w); yield b; };", "real"),
    "index": ("y = with s = 0 do..(i -> 10) math.add(s, i);", "int"),
    "dynamic count": ("y = with s = 0 do..(i -> p) math.add(s, i);", "int"),
    "part of a pack": ("y = with a: real[3] = 0.0 for z : xs do..(p) math.add(a, z);", "real"),
    "while": ("y = with v = 1.0 while math.lt(v, 1000.0) do math.mul(v, 2.0);", "real"),
    "do while": ("y = with v = 5000.0 do math.mul(v, 2.0) while math.lt(v, 1000.0);", "real"),
    "while with a count": ("y = with v = 1.0 while math.lt(v, 1000.0) do..(p) math.mul(v, 2.0);",
        "real"),
    "while over items": ("y = with a = x for z : xs while { s = math.sum_reduce{squeeze=true}(z);"
        " t = math.lt(s, 9.0); yield t; } do math.add(a, z);", "real"),
    "do while over items": ("y = with a = x for z : xs do math.add(a, z) while"
        " { s = math.sum_reduce{squeeze=true}(z); t = math.lt(s, 6.0); yield t; };", "real"),
    "carried condition": ("y, ~ = with n = 0, go = true while go do { m = math.add(n, 1);"
        " on = math.lt(m, 7); yield m, on; };", "int"),
    "zero steps": ("y = with a = x do..(0) math.neg(a);", "real"),
    "many steps": ("y = with s = 0 do..(3000) math.add(s, 1);", "int"),
    "branch with a loop": ("y = if c then { s = with a = x do..(p) math.add(a, x); yield s; }"
        " else x;", "real"),
    "nested loops": ("y = with s = 0 do..(i -> p) { t = with u = s do..(j -> 3) math.add(u, j);"
        " yield t; };", "int"),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_control_flow(name: str, exported: Callable[..., Any]) -> None:
    components, kind = CASES[name]
    text = (
        f"import math;\ngraph G {{ @input {{ {INPUTS} }} @output {{ y: {kind}; }}"
        f" @compose {{ {components} }} }}"
    )
    for p, c in ((3, True), (0, False), (4, True)):
        exported(text, np.int32(p), np.bool_(c), XS, XS[2])


STACKED = {
    "given as it is": ("ys..", "ys.. = for v : xs do..(p) math.exp(v);"),
    "stacked": ("ys", "t = for v : xs do..(p) math.exp(v); ys = layout.stack{axis=0}(t);"),
    "stacked after": ("ys", "t = for v : xs do..(p) math.exp(v); ys = layout.stack{axis=1}(t);"),
    "joined": ("ys", "t = for v : xs do..(p) math.exp(v); ys = layout.concat{axis=0}(t);"),
    "beside a carried tensor": (
        "ys..",
        "~, ys.. = with c = p for v : xs while math.lt(c, 7) do"
        " { d = math.add(c, 1); w = math.exp(v); yield d, w; };",
    ),
}


@pytest.mark.parametrize("name", STACKED)
def test_data_dependent_number_of_scan_outputs(name: str, exported: Callable[..., Any]) -> None:
    result, components = STACKED[name]
    text = (
        f"import math, layout;\ngraph G {{ @input {{ {INPUTS} }} @output {{"
        f" {result.replace('ys', 'ys: real')}; }} @compose {{ {components} }} }}"
    )
    for p in (3, 0, 5):
        exported(text, np.int32(p), np.bool_(True), XS, XS[1])


SYMBOLS: dict[str, tuple[str, str, list[tuple[int, ...]]]] = {
    "batch": ("x: real[b|8,4];", "y = nn.softmax(x);", [(3, 4)]),
    "sum of dimensions": (
        "x: real[b|8,4]; z: real[c|8,4];", "y = layout.concat{axis=0}([x, z]);", [(3, 4), (2, 4)]),
    "part": ("x: real[b|8,4];", "y = layout.slice{axes=[0], begin=[1], end=[-1]}(x);", [(5, 4)]),
    "backward": (
        "x: real[b|8,4];",
        "y = layout.slice{axes=[0], begin=[-1], end=[-7], stride=[-2]}(x);", [(5, 4)]),
    "merged": ("x: real[b|8,4,c|8];", "y = layout.flatten{axis=1}(x);", [(2, 4, 3)]),
    "both merged": ("x: real[b|8,c|8,4];", "y = layout.flatten{rank=2}(x);", [(2, 3, 4)]),
    "convolution": (
        "x: real[b|8,3,h|32,w|32]; k: real[5,3,3,3];",
        "y = nn.conv{stride=2, padding=1}(x, k);", [(2, 3, 9, 8), (5, 3, 3, 3)]),
    "convolution as wide as its input": (
        "x: real[1,3,h|32,6]; k: real[5,3,3,3];", "y = nn.conv(x, k);",
        [(1, 3, 9, 6), (5, 3, 3, 3)]),
    "pooling over channels": (
        "x: real[b|8,c|8,5,6];",
        "y = nn.max_pool{axes=[1], size=[2], padding=0, ceil_mode=true}(x);",
        [(2, 5, 5, 6)]),
    "broadcast": (
        "x: real[b|8,4]; z: real[4];", "t = layout.tile{axes=[0], repeats=[2]}(x);"
        " y = math.add(t, z);", [(3, 4), (4,)]),
    "dimensions that a check makes equal": (
        "x: real[b|64,4096]; z: real[c|64,4096];", "y = math.add(x, z);", [(3, 4096), (3, 4096)]),
    "upsampled": (
        "x: real[1,2,h|9,4];",
        "y = image.linear_upsample{axes=[2], factor=[2], replicate_border=false}(x);",
        [(1, 2, 5, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLS)
def test_symbolic_dimensions(name: str, exported: Callable[..., Any]) -> None:
    inputs, components, shapes = SYMBOLS[name]
    text = (
        f"import nn, math, layout, image;\ngraph G {{ @input {{ {inputs} }}"
        f" @output {{ y: real; }} @compose {{ {components} }} }}"
    )
    generator = np.random.default_rng(0)
    proto = exported(text, *(generator.normal(size=shape).astype(F) for shape in shapes))
    dimensions = proto.graph.input[0].type.tensor_type.shape.dim
    assert any(each.dim_param for each in dimensions)


PACKS = """import math;
graph G {
    @input { xs: real[3]..(2); }
    @output { ys: real[3]..(2); same: real[3]; }
    @variable { w: real[3]; }
    @compose { a = math.mul(xs[0], w); ys = [a, xs[1]]; same = math.iden(a); }
}
"""


def test_names_are_kept(exported: Callable[..., Any]) -> None:
    proto = exported(PACKS, XS[:2], variables={"main.G.w": XS[3]})
    assert [each.name for each in proto.graph.input] == ["xs:1", "xs:2"]
    assert [each.name for each in proto.graph.output] == ["ys:1", "ys:2", "same"]
    assert [each.name for each in proto.graph.initializer] == ["main.G.w"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(proto.graph.initializer[0]), XS[3])


def test_composites_are_opened_and_name_what_they_give() -> None:
    text = """import math;
operator twice { @input { x: real[s..]; } @output { y: real[s..]; }
    @compose { t = math.exp(x); y = math.add(t, t); } }
graph G { @input { x: real[3]; } @output { z: real[3]; }
    @compose { mine = twice(x); z = math.neg(mine); } }
"""
    proto = export(tvm_nnef.compose(text), {})
    assert [node.op_type for node in proto.graph.node] == ["Exp", "Add", "Neg"]
    assert [node.output[0] for node in proto.graph.node][1:] == ["main.G.mine", "z"]


# Results and formula of an operator with the inputs x: real[a,b], w: real[b] and k: int[a].
FORMULAS = {
    "transposed and accumulated": (
        "y: real[b,a]; z: real[a];",
        "t = `exp`(x[i,j]), y[j,i] = i < j ? t * w[j,] : real(i) + w[j,], i < a, j < b;"
        " z[i,] += x[i,j] * w[j,], i < a, j < b | x[i,j] > 0.0;"),
    "neighbours, if there are some": (
        "y: real[a,b]; z: real[a,b];",
        "y[i,j] = x[i,j], i < a, j < b; y[i,j] += x[|i - 1|,|j + 1|], i < a, j < b;"
        " z[i,j] = x[|i - 1|,j], i < a, j < b;"),
    "positions of the border": (
        "y: real[a,b]; z: real[b];",
        "y[i,j] = x[|i - 1 <> 0 : a - 1|,|j + 2 <> 0 : b - 1|], i < a, j < b;"
        " z[j,] = w[b - 1 - j,], j < b;"),
    "data-dependent positions": (
        "y: real[a,b]; z: real[a];",
        "y[i,j] = x[k[i,],j], i < a, j < b; z[i,] = x[k[i,],k[i,]], i < a;"),
    "one loop for two dimensions": (
        "y: real[a]; z: real[b];",
        "y[i,] = x[i,i], i < a; z[j,] >= x[i,(i + j) % b], i < a, j < b;"),
    "truth values": (
        "y: bool[a]; z: bool[b];",
        "y[i,] |= x[i,j] > 0.5, i < a, j < b; z[j,] &= x[i,j] > -0.5, i < a, j < b;"),
    "written in two steps": (
        "y: real[a,b]; z: real[a];",
        "y[i,j] = x[i,j] * 2.0, i < a, j < b; z[i,] += y[i,j], i < a, j < b;"),
    "products and lists": (
        "y: real[a]; z: real[a];",
        "y[i,] *= x[i,j], i < a, j < b; z[i,] = [1.0, 2.0, 4.0][i] + real(a * i % 2), i < a;"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_of_ones_own_is_written_out(name: str, exported: Callable[..., Any]) -> None:
    results, formula = FORMULAS[name]
    types = results.replace("[b,a]", "").replace("[a,b]", "").replace("[a]", "").replace("[b]", "")
    text = f"""import math;
operator mine {{
    @input {{ x: real[a,b]; w: real[b]; k: int[a]; }}
    @output {{ {results} }}
    @lower {{ {formula} }}
}}
graph G {{ @input {{ x: real[3,4]; w: real[4]; k: int[3]; }} @output {{ {types} }}
    @compose {{ y, z = mine(x, w, k); }} }}
"""
    generator = np.random.default_rng(1)
    x, w = (generator.normal(size=shape).astype(F) for shape in ((3, 4), (4,)))
    exported(text, x, w, np.array([2, 0, 1], np.int32))


STATE = """import math;
graph Counter {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @variable { n: real[2]; }
    @compose { y = math.add(x, n); }
    @update { n = math.add(n, 1.0); }
}
"""


def test_state_is_an_input_with_a_default_and_an_output(onnx_run: Callable[..., Any]) -> None:
    proto = export(tvm_nnef.compose(STATE), {"main.Counter.n": np.array([1, 2], F)})
    assert [each.name for each in proto.graph.input] == ["x", "main.Counter.n"]
    assert [each.name for each in proto.graph.output] == ["y", "main.Counter.n.updated"]
    (entry,) = proto.metadata_props
    assert json.loads(entry.value) == {"main.Counter.n": "main.Counter.n.updated"}
    first, state = onnx_run(proto, [np.zeros(2, F)])
    np.testing.assert_array_equal(first, [1, 2])
    second, _ = onnx_run(proto, [np.zeros(2, F), state])
    np.testing.assert_array_equal(second, [2, 3])


CHANGING = {
    "in an operator": ("y = counted(x);", [1, 1]),
    "in a branch": ("y = if c then { t = counted(x); yield t; } else x;", [1, 0]),
    "in a loop": ("y = with a = x do..(p) { t = counted(a); yield t; };", [1, 1]),
}
COUNTED = """import math;
operator counted {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { calls: real[1]; }
    @compose { y = math.add(x, calls); }
    @update { calls = math.add(calls, 1.0); }
}
"""


@pytest.mark.parametrize("name", CHANGING)
def test_state_changes_where_operators_are_invoked(name: str, onnx_run: Callable[..., Any]) -> None:
    components, steps = CHANGING[name]
    text = (
        f"{COUNTED}graph G {{ @input {{ x: real[2]; c: bool[]; p: int[]; }}"
        f" @output {{ y: real[2]; }} @compose {{ {components} }} }}"
    )
    graph = tvm_nnef.compose(text)
    (variable,) = (each.name for each in graph.variables)
    variables = {variable: np.array([5], F)}
    proto = export(graph, variables)
    for c, change in zip((True, False), steps, strict=True):
        inputs = (np.zeros(2, F), np.bool_(c), np.int32(3))
        result, state = onnx_run(proto, inputs)
        (expected,) = tvm_nnef.evaluate(graph, *inputs, variables=variables)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(state, [5 + change])


REFUSED = """import math;
operator running {
    @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,], i < n; y[i,] += y[|i - 1|,], i < n; }
}
operator outer {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = running(x); }
}
graph G {
    @input { x: real[3]; k: int[3]; }
    @output { y: real[3]; z: real[3]; p: int[3]; }
    @compose { first = running(x); y = math.neg(first); z = outer(x); p = math.pow(k, k); }
}
"""


def test_all_that_is_refused_is_reported_with_operator_and_location() -> None:
    with pytest.raises(NnefError) as caught:
        export(tvm_nnef.compose(REFUSED), {})
    found = caught.value.diagnostics
    assert [each.line for each in found] == [13, 8, 13]
    messages = [each.message for each in found]
    assert "'first': operator 'main.running'" in messages[0]
    assert "operator 'main.running'" in messages[1]
    assert "operator 'math.pow'" in messages[2]
    assert all(each.hint for each in found)
    assert [note.span is not None for note in found[1].notes] == [True]


def test_what_is_refused_in_the_condition_of_a_loop_is_reported_once() -> None:
    text = """import math;
graph G {
    @input { n: int[]; k: int[]; }
    @output { y: int[]; }
    @compose {
        y = with a = n while { p = math.pow(a, k); t = math.lt(p, 9); yield t; } do math.add(a, 1);
    }
}
"""
    with pytest.raises(NnefError) as caught:
        export(tvm_nnef.compose(text), {})
    assert len(caught.value.diagnostics) == 1


def test_variables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(NnefError, match="no value"):
        export(tvm_nnef.compose(PACKS), {})


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    made = whole(tvm_nnef.compose(PACKS), {"main.G.w": XS[0]})
    write(made, tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx") == made.filled()
    with pytest.raises(NnefError, match="cannot be written"):
        write(made, tmp_path / "missing" / "model.onnx")
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


WEIGHTS = """import math;
graph G {
    @input { x: real[2,3]; b: bool[2,3]; }
    @output { y: real; }
    @variable { w: real[2,3]; c: bool[2,3]; e: real[0]; }
    @compose { s = math.add(x, w); d = math.and(b, c); y = math.select(d, s, w); }
}
"""


@pytest.mark.parametrize("limit", [2**31, 100])
@pytest.mark.parametrize("real", ["float32", "float64", "float16"])
def test_what_is_too_large_for_one_file_goes_into_two(
    tmp_path: Path, onnx_run: Callable[..., Any], limit: int, real: str
) -> None:
    """Protobuf holds 2 GiB; with a limit of 100 bytes, a small model is too large as well."""
    random = np.random.default_rng(0)
    x, w = random.standard_normal((2, 2, 3)).astype(real)
    b, c = random.integers(0, 2, (2, 2, 3)).astype(bool)
    graph = tvm_nnef.compose(WEIGHTS, dtypes={"real": real})
    given = {"main.G.w": w, "main.G.c": c, "main.G.e": np.zeros(0, real)}
    write(whole(graph, given), tmp_path / "model.onnx", limit=limit)
    files = sorted(each.name for each in tmp_path.iterdir())
    assert files == (["model.onnx", "model.onnx.data"] if limit == 100 else ["model.onnx"])
    proto = onnx.load(tmp_path / "model.onnx")
    (found,) = onnx_run(proto, (x, b))
    np.testing.assert_array_equal(found, np.where(b & c, x + w, w))
    back = tvm_nnef.convert(tmp_path / "model.onnx")
    np.testing.assert_array_equal(tvm_nnef.evaluate(back, x, b)[0], found)
