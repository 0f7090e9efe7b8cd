"""Attention in one launch: numbers of simulated launches against NumPy, and what is fused."""

from __future__ import annotations

import functools
import importlib
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules import STRATEGY
from tvm_nnef.schedules.machine import gpu_model
from tvm_nnef.tvm_support import cuda
from tvm_nnef.tvm_support.compat import buffers_of, prim_functions

pytestmark = pytest.mark.sampled(3)

HEADS, DEPTH = 3, 24


def text(batch: Any, rows: Any, keys: Any, *, mask: str = "") -> str:
    """The graph of attention; sizes are numbers, or symbols with a bound."""
    inputs = [f"q: real[{batch},{HEADS},{rows},{DEPTH}];"]
    inputs += [f"{name}: real[{batch},{HEADS},{keys},{DEPTH}];" for name in "kv"]
    body = "a = linalg.matmul{transB=true}(q, k); b = math.mul(a, 0.25);"
    if mask == "added":
        inputs.append(f"m: real[1,1,{rows},{keys}];")
        body += "c = math.add(b, m);"
    elif mask == "chosen":
        inputs.append(f"m: bool[1,1,{rows},{keys}];")
        body += "c = math.select(m, b, -1e4);"
    else:
        body = body.replace("b = ", "c = ")
    body += "p = nn.softmax{axes=[-1]}(c); y = linalg.matmul(p, v);"
    declared = " ".join(inputs)
    return f"""
    import math; import layout; import linalg; import nn;
    graph G {{
        @input {{ {declared} }} @output {{ y: real[~,~,~,~]; }} @compose {{ {body} }}
    }}
    """


def values(batch: int, rows: int, keys: int, mask: str = "", kind: str = "float32") -> list[Any]:
    generator = np.random.default_rng(rows + keys)
    shapes = [(batch, HEADS, n, DEPTH) for n in (rows, keys, keys)]
    found = [generator.standard_normal(shape).astype(kind) for shape in shapes]
    visible = np.tri(rows, keys, keys - rows, bool)[None, None]
    if mask == "added":
        found.append(np.where(visible, 0, -np.inf).astype(kind))
    elif mask == "chosen":
        found.append(visible)
    return found


def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Attention in float64."""
    scores = q.astype("float64") @ k.astype("float64").swapaxes(-1, -2) * 0.25
    if mask is not None:
        scores = np.where(mask, scores, -1e4) if mask.dtype == bool else scores + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v.astype("float64")


def strategies_of(model: str, target: Any = None, **options: Any) -> list[str]:
    module = tvm_nnef.from_nnef(model, **options)
    target = resolve(target or {"kind": "cuda", "arch": "sm_80"})
    scheduled = run_phases(module, target, "bind", "schedule")
    return [str(f.attrs[STRATEGY]) for f in prim_functions(scheduled).values()]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mask", ["", "added", "chosen"])
@pytest.mark.parametrize(("rows", "keys"), [(50, 50), (1, 70), (33, 129), (64, 64)])
def test_static_sizes(rows: int, keys: int, mask: str, simulated_gpu: Any) -> None:
    model = text(2, rows, keys, mask=mask)
    assert "gpu.attention" in strategies_of(model)
    simulated_gpu(reverse=mask == "added")
    inputs = values(2, rows, keys, mask)
    (found,) = tvm_nnef.build(model, progress=False)(*inputs)
    np.testing.assert_allclose(found, attention(*inputs), 2e-5, 2e-6)


DYNAMIC = text("batch|3", "rows|200", "keys|200", mask="added")


@pytest.mark.slow
def test_dynamic_sizes(simulated_gpu: Any) -> None:
    assert strategies_of(DYNAMIC) == ["gpu.attention"]
    simulated_gpu(reverse=True)
    executable = tvm_nnef.build(DYNAMIC, progress=False)
    for sizes in ((1, 1, 1), (2, 5, 64), (1, 65, 65), (1, 64, 130), (3, 0, 7)):
        inputs = values(*sizes, "added")
        np.testing.assert_allclose(executable(*inputs)[0], attention(*inputs), 2e-5, 2e-6)
    # Of no keys there is no product to add.
    inputs = values(2, 3, 0, "added")
    np.testing.assert_array_equal(executable(*inputs)[0], np.zeros((2, HEADS, 3, DEPTH)))


def test_scores_that_are_not_finite(simulated_gpu: Any) -> None:
    """Rows behave as without fusion: only -inf, NaN or +inf make NaN of a row, and of no other."""
    rows, keys = 7, 150
    simulated_gpu()
    executable = tvm_nnef.build(text(1, rows, keys, mask="added"), progress=False)
    q, k, v, mask = values(1, rows, keys, "added")
    mask[..., :, :] = 0
    mask[..., 0, :] = -np.inf
    mask[..., 1, 77] = np.nan
    mask[..., 2, 140] = np.inf
    mask[..., 3, :130] = -np.inf
    mask[..., 4, 20:] = -np.inf
    mask[..., 5, 0] = 1e30
    (found,) = executable(q, k, v, mask)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, attention(q, k, v, mask), 2e-5, 2e-6)
    assert np.isnan(found[:, :, :3]).all() and not np.isnan(found[:, :, 3:]).any()
    v[..., 9, 0] = np.inf
    v[..., 140, 1] = np.nan
    (found,) = executable(q, k, v, mask)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, attention(q, k, v, mask), 2e-5, 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("real", "rows", "keys"), [("float16", "rows|90", "keys|90"), ("bfloat16", 40, 70)]
)
def test_half_precision(real: str, rows: Any, keys: Any, simulated_gpu: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    model, kind = text(2, rows, keys, mask="added"), getattr(ml_dtypes, real, real)
    assert strategies_of(model, dtypes={"real": real}) == ["gpu.attention"]
    simulated_gpu()
    inputs = values(2, 40, 70, "added", kind)
    executable = tvm_nnef.build(model, progress=False, dtypes={"real": real})
    (found,) = executable(*inputs)
    wide = [each.astype("float64") for each in inputs]
    tolerance = 4e-3 if real == "float16" else 3e-2
    np.testing.assert_allclose(found.astype("float64"), attention(*wide), tolerance, tolerance)


SCORES = "a = linalg.matmul(q, k); s = math.div(a, 3.0);"
MIXED = "z = linalg.matmul(p, q);"
WRITTEN = {
    "its own softmax": f"""{SCORES}
        largest = math.max_reduce{{axes=[-1]}}(s); d = math.sub(s, largest); e = math.exp(d);
        total = math.sum_reduce{{axes=[-1]}}(e); p = math.div(e, total); {MIXED}""",
    "reciprocal": f"""{SCORES}
        largest = math.max_reduce{{axes=[-1]}}(s); d = math.sub(s, largest); e = math.exp(d);
        total = math.sum_reduce{{axes=[-1]}}(e); r = math.rcp(total); p = math.mul(e, r);
        {MIXED}""",
    "scaled queries": f"""
        c = math.div(q, 3.0); s = linalg.matmul(c, k); p = nn.softmax{{axes=[3]}}(s); {MIXED}""",
    "batches and heads in one dimension": """
        q3 = layout.reshape{shape=[8,33,10]}(q); k3 = layout.reshape{shape=[8,10,33]}(k);
        a = linalg.matmul(q3, k3); a4 = layout.reshape{shape=[2,4,33,33]}(a);
        s = math.div(a4, 3.0); p4 = nn.softmax{axes=[-1]}(s);
        p = layout.reshape{shape=[8,33,33]}(p4); z3 = linalg.matmul(p, q3);
        z = layout.reshape{shape=[2,4,33,10]}(z3);""",
}  # fmt: skip


def written(body: str) -> str:
    return f"""
    import math; import layout; import linalg; import nn;
    graph G {{
        @input {{ x: real[2,33,40]; }} @output {{ y: real[~,~,~]; }}
        @compose {{
            h = layout.reshape{{shape=[2,33,4,10]}}(x);
            q = layout.transpose{{perm=[0,2,1,3]}}(h); k = layout.transpose{{perm=[0,2,3,1]}}(h);
            {body}
            t = layout.transpose{{perm=[0,2,1,3]}}(z); y = layout.reshape{{shape=[2,33,40]}}(t);
        }}
    }}
    """


def heads_of(x: Any) -> Any:
    return x.reshape(2, 33, 4, 10).transpose(0, 2, 1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_any_way_to_write_it(body: str, route: Any, simulated_gpu: Any) -> None:
    model = written(body)
    assert "gpu.attention" in strategies_of(model, route=route)
    assert not any("reduction" in each for each in strategies_of(model, route=route))
    simulated_gpu()
    executable = tvm_nnef.build(tvm_nnef.from_nnef(model, route=route), progress=False)
    x = np.random.default_rng(0).standard_normal((2, 33, 40)).astype("float32")
    q = heads_of(x).astype("float64")
    powers = np.exp(q @ q.swapaxes(-1, -2) / 3)
    expected = (powers / powers.sum(-1, keepdims=True) @ q).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(executable(x)[0], expected.reshape(x.shape), 2e-5, 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rows", ["n", 37])
def test_attention_of_onnx(rows: Any, groups: int, simulated_gpu: Any) -> None:
    """Causal, with a mask that leaves some rows nothing (they are 0), and with shared heads."""
    helper = pytest.importorskip("onnx").helper
    shapes = {"q": [2, 4, rows, 8], "k": [2, groups, rows, 8], "v": [2, groups, rows, 8]}
    inputs = {**shapes, "m": [rows, rows]}
    infos = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    node = helper.make_node("Attention", [*inputs], ["y"], is_causal=1)
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", 1, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    bounds = {"n": 100} if rows == "n" else {}
    model = tvm_nnef.convert(proto.SerializeToString(), bounds=bounds)
    assert "gpu.attention" in strategies_of(model)
    simulated_gpu()
    generator = np.random.default_rng(0)
    given = [
        generator.standard_normal([37 if each == "n" else each for each in shape])
        for shape in shapes.values()
    ]
    q, k, v = (each.astype("float32") for each in given)
    mask = np.where(generator.random((37, 37)) < 0.3, -np.inf, 0).astype("float32")
    mask[5] = -np.inf
    (found,) = tvm_nnef.build(model, progress=False)(q, k, v, mask)
    k, v = (np.repeat(each, 4 // groups, 1).astype("float64") for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(8) + mask + np.where(np.tri(37), 0, -np.inf)
    powers = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
    expected = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-30) @ v
    np.testing.assert_allclose(found, expected, 2e-5, 2e-6)
    assert not found[:, :, 5].any()


@pytest.mark.parametrize("replacement", [0, 0.5])
def test_weights_that_are_nan_replaced(replacement: float, simulated_gpu: Any) -> None:
    """As PyTorch's exporter writes it for masks of booleans."""
    onnx = pytest.importorskip("onnx")
    make = onnx.helper.make_node
    shapes = {"q": [1, 2, 9, 16], "k": [1, 2, 16, 70], "v": [1, 2, 70, 16], "m": [9, 70]}
    infos = [onnx.helper.make_tensor_value_info(name, 1, each) for name, each in shapes.items()]
    nodes = [
        make("MatMul", ["q", "k"], ["a"]), make("Add", ["a", "m"], ["s"]),
        make("Softmax", ["s"], ["p"], axis=-1), make("IsNaN", ["p"], ["c"]),
        make("Where", ["c", "z", "p"], ["w"]), make("MatMul", ["w", "v"], ["y"]),
    ]  # fmt: skip
    zero = onnx.numpy_helper.from_array(np.float32(replacement), "z")
    result = onnx.helper.make_tensor_value_info("y", 1, None)
    graph = onnx.helper.make_graph(nodes, "g", infos, [result], [zero])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    model = tvm_nnef.convert(proto.SerializeToString())
    assert strategies_of(model) == ["gpu.attention"]
    simulated_gpu()
    generator = np.random.default_rng(0)
    q, k, v, _ = (generator.standard_normal(each).astype("float32") for each in shapes.values())
    mask = np.zeros((9, 70), "float32")
    mask[3], mask[4, :68], mask[6, 7] = -np.inf, -np.inf, np.nan
    (found,) = tvm_nnef.build(model, progress=False)(q, k, v, mask)
    scores = (q.astype("float64") @ k + mask).astype("float64")
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
    weights = np.where(np.isnan(weights), replacement, weights)
    np.testing.assert_allclose(found, weights @ v, 2e-5, 1e-5)


def test_what_others_read_is_stored() -> None:
    """Weights that are a result of the model too stay in their own kernel."""
    model = text(2, 50, 50).replace("y: real[~,~,~,~];", "y: real[~,~,~,~]; p: real[~,~,~,~];")
    assert "gpu.attention" not in strategies_of(model)


@pytest.mark.parametrize("target", [{"kind": "cuda", "arch": "sm_75"}, "vulkan"])
@pytest.mark.parametrize("rows", [2, 512, "rows|512"])
def test_launches_are_within_the_limits(rows: Any, target: Any, gpu: Any) -> None:
    resolved = resolve(target)
    module = tvm_nnef.from_nnef(text(2, rows, rows))
    scheduled = prim_functions(run_phases(module, resolved, "bind", "schedule"))
    gpu.check_limits(scheduled, gpu_model(resolved))
    assert [str(f.attrs[STRATEGY]) for f in scheduled.values()] == ["gpu.attention"]


def test_heads_that_do_not_fit_stay_apart() -> None:
    model = text(1, 64, 64).replace(f",{DEPTH}]", ",5000]")
    assert "gpu.attention" not in strategies_of(model)


@pytest.fixture(scope="module")
def layers() -> Any:
    """Makes a layer of a network, small except for its vocabulary."""
    pytest.importorskip("onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
        models = importlib.import_module("bench_models")

    @functools.cache
    def made(name: str) -> Any:
        proto = getattr(models, name)(rows=48, width=64, heads=2, layers=1)
        return tvm_nnef.convert(proto.SerializeToString())

    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", [{"kind": "cuda", "arch": "sm_80"}, "vulkan"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_layers_of_transformers_store_no_scores(name: str, target: Any, layers: Any) -> None:
    module = tvm_nnef.from_nnef(layers(name), keep_params_in_input=True)
    functions = prim_functions(run_phases(module, resolve(target), "bind", "schedule"))
    taken = [str(function.attrs[STRATEGY]) for function in functions.values()]
    assert taken.count("gpu.attention") == 1
    tensors = [list(buffer.shape) for f in functions.values() for buffer in buffers_of(f)]
    assert [1, 48, 64] in tensors and [1, 2, 48, 48] not in tensors


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_layers_of_transformers_give_what_the_cpu_gives(
    name: str, layers: Any, simulated_gpu: Any
) -> None:
    ids = np.arange(48).reshape(1, 48) * 17
    wanted = tvm_nnef.build(layers(name), progress=False)(ids)[0]
    simulated_gpu()
    found = tvm_nnef.build(layers(name), progress=False)(ids)[0]
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


def test_dynamic_sizes_of_half_precision_are_loaded_as_vectors() -> None:
    model = text("batch|3", "rows|200", "keys|200").replace(f",{DEPTH}]", ",64]")
    module = tvm_nnef.from_nnef(model, dtypes={"real": "float16"})
    code = run_phases(module, resolve({"kind": "cuda", "arch": "sm_80"}), "bind", "code")
    source = code.mod.imports[0].imports[0].inspect_source()
    for name in "qkv":
        assert re.search(rf"copy_16_bytes\(.*&\({name}_ptr", source)


SPILLS = [
    ("sm_75", 64, 512, "float32"),
    ("sm_80", 128, "rows|512", "float32"),
    ("sm_90a", 64, "rows|512", "float16"),
]


@pytest.mark.slow
@pytest.mark.skipif(not cuda.has_compiler(), reason="needs nvcc")
@pytest.mark.parametrize(("arch", "depth", "rows", "real"), SPILLS)
def test_registers_suffice(arch: str, depth: int, rows: Any, real: str, tmp_path: Path) -> None:
    model = text(2, rows, rows, mask="added").replace(f",{DEPTH}]", f",{depth}]")
    target = resolve({"kind": "cuda", "arch": arch})
    module = tvm_nnef.from_nnef(model, dtypes={"real": real})
    code = run_phases(module, target, "bind", "code")
    source = tmp_path / "kernels.cu"
    source.write_text(code.mod.imports[0].imports[0].inspect_source())
    command = [cuda.find_compiler(), f"-arch={arch}", "-cubin", "-Xptxas", "-v", source]
    done = subprocess.run(
        [*command, "-o", tmp_path / "out"], check=True, capture_output=True, text=True
    )
    assert {*re.findall(r"(\d+) bytes spill", done.stderr)} == {"0"}


@pytest.mark.slow
def test_the_kernel_is_verified_against_its_definition(simulated_gpu: Any) -> None:
    simulated_gpu()
    reported: list[Any] = []
    model = text(1, 20, 40, mask="added")
    tvm_nnef.build(model, progress=False, verify=True, verbose=reported.append)
    assert "gpu.attention: block tile" in str(reported[0])
