"""Indices with remainders by powers of two, on targets for which LLVM makes vectors of the loops.

Expected values are NumPy's.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_nnef
from tvm_nnef.compilation.target import native
from tvm_nnef.schedules.codegen.index_remainders import with_opaque_remainders
from tvm_nnef.tir.expressions import loads, nodes, substituted
from tvm_nnef.tvm_support import build

ROTARY = """
import layout;
import math;
graph G {{
    @input {{ x: real[{batch},{length},{width}];
              c: real[{batch},{length},1,{half}]; s: real[{batch},{length},1,{half}]; }}
    @output {{ y: real[~,{length},{width}]; }}
    @compose {{
        heads = layout.reshape{{shape=[-1,{length},{heads},{size}]}}(x);
        [a, b] = layout.split{{axis=3, sizes=[{half},{half}]}}(heads);
        ca = math.mul(c, a);
        sb = math.mul(s, b);
        sa = math.mul(s, a);
        cb = math.mul(c, b);
        left = math.sub(ca, sb);
        right = math.add(sa, cb);
        turned = layout.concat{{axis=3}}([left, right]);
        y = layout.reshape{{shape=[-1,{length},{width}]}}(turned);
    }}
}}
"""


def _target(cpu: str) -> dict[str, Any]:
    """The model of a CPU without what this machine lacks."""
    description: dict[str, Any] = {"kind": "llvm", "mtriple": build.host_cpu()[1], "mcpu": cpu}
    differences = build.host_feature_differences(description)
    return {**description, "mattr": [each for each in differences if each.startswith("-")]}


@pytest.mark.sampled(4)
@pytest.mark.skipif(
    not str(native().attrs["mtriple"]).startswith("x86_64"), reason="the targets are x86 CPUs"
)
@pytest.mark.parametrize(
    ("batch", "length", "heads", "size"),
    [(2, 3, 4, 8), (2, 2, 3, 4), (1, 5, 2, 16), ("n|4", 3, 4, 8)],
)
def test_rotary_embedding_of_small_sizes(batch: Any, length: int, heads: int, size: int) -> None:
    half, width = size // 2, heads * size
    text = ROTARY.format(batch=batch, length=length, heads=heads, size=size, half=half, width=width)
    generator = np.random.default_rng(0)
    shapes = [(2, length, width), (2, length, 1, half), (2, length, 1, half)]
    if isinstance(batch, int):
        shapes = [(batch, *shape[1:]) for shape in shapes]
    x, c, s = (generator.standard_normal(shape, "float32") for shape in shapes)
    parts = x.reshape(len(x), length, heads, size)
    a, b = parts[..., :half], parts[..., half:]
    expected = np.concatenate([c * a - s * b, s * a + c * b], -1).reshape(x.shape)
    for route in ("mapped", "formula"):
        (found,) = tvm_nnef.build(text, target=_target("znver5"), route=route)(x, c, s)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def evaluated(value: Any) -> int:
    operations = {
        tirx.FloorMod: operator.mod,
        tirx.BitwiseOr: operator.or_,
        tirx.BitwiseXor: operator.xor,
    }
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    return operations[type(value)](evaluated(value.a), evaluated(value.b))


def test_a_remainder_in_an_index_of_an_index_stays_hidden() -> None:
    """What hides it is another number only for this test; it must not cancel out."""
    x, y = (tirx.decl_buffer((64,), dtype, "x") for dtype in ("float32", "int32"))
    i, count = tirx.Var("i", "int32"), tirx.Var("num_args", "int32")
    store = tirx.BufferStore(x, x[y[tirx.floormod(i, 8)]], [i])
    loop = tirx.For(i, 0, 64, tirx.ForKind.SERIAL, store)
    body = with_opaque_remainders(tirx.PrimFunc([x, y, count], loop)).body
    (bind,) = nodes(body, tirx.Bind)
    index = next(load for load in loads(body) if load.source.same_as(y)).indices[0]
    at_three = substituted(index, {i: tirx.const(3, "int32"), bind.var: tirx.const(8, "int32")})
    assert evaluated(at_three) == 3 + 8
