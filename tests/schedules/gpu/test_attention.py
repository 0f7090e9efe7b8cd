"""Attention in one launch: numbers of simulated launches against NumPy, and what is fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules import STRATEGY
from tvm_nnef.tvm_support.compat import prim_functions

HEADS, DEPTH = 3, 20


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


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mask", ["", "added", "chosen"])
@pytest.mark.parametrize(("rows", "keys"), [(50, 50), (1, 70), (33, 129), (64, 64)])
def test_static_sizes(rows: int, keys: int, mask: str, reverse: bool, simulated_gpu: Any) -> None:
    model = text(2, rows, keys, mask=mask)
    assert "gpu.attention" in strategies_of(model)
    simulated_gpu(reverse=reverse)
    inputs = values(2, rows, keys, mask)
    (found,) = tvm_nnef.build(model, progress=False)(*inputs)
    np.testing.assert_allclose(found, attention(*inputs), 2e-5, 2e-6)


DYNAMIC = text("batch|3", "rows|200", "keys|200", mask="added")


@pytest.mark.parametrize("reverse", [False, True])
def test_dynamic_sizes(reverse: bool, simulated_gpu: Any) -> None:
    assert strategies_of(DYNAMIC) == ["gpu.attention"]
    simulated_gpu(reverse=reverse)
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


@pytest.mark.parametrize("real", ["float16", "bfloat16"])
def test_half_precision(real: str, simulated_gpu: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    model, kind = text(2, 40, 70, mask="added"), getattr(ml_dtypes, real, real)
    assert strategies_of(model, machine_types={"real": real}) == ["gpu.attention"]
    simulated_gpu()
    inputs = values(2, 40, 70, "added", kind)
    executable = tvm_nnef.build(model, progress=False, machine_types={"real": real})
    (found,) = executable(*inputs)
    wide = [each.astype("float64") for each in inputs]
    tolerance = 4e-3 if real == "float16" else 3e-2
    np.testing.assert_allclose(found.astype("float64"), attention(*wide), tolerance, tolerance)


WRITTEN = {
    "softmax of its own": """
        greatest = math.max_reduce{axes=[-1]}(s); e = math.exp(math.sub(s, greatest));
        total = math.sum_reduce{axes=[-1]}(e); p = math.div(e, total);""",
    "reciprocal": """
        greatest = math.max_reduce{axes=[-1]}(s); d = math.sub(s, greatest); e = math.exp(d);
        total = math.sum_reduce{axes=[-1]}(e); r = math.rcp(total); p = math.mul(e, r);""",
}  # fmt: skip


def written(softmax: str) -> str:
    return f"""
    import math; import layout; import linalg; import nn;
    graph G {{
        @input {{ x: real[2,33,40]; }} @output {{ y: real[~,~,~]; }}
        @compose {{
            h = layout.reshape{{shape=[2,33,4,10]}}(x);
            q = layout.transpose{{perm=[0,2,1,3]}}(h); k = layout.transpose{{perm=[0,2,3,1]}}(h);
            a = linalg.matmul(q, k); s = math.div(a, 3.0); {softmax}
            z = linalg.matmul(p, q); t = layout.transpose{{perm=[0,2,1,3]}}(z);
            y = layout.reshape{{shape=[2,33,40]}}(t);
        }}
    }}
    """
