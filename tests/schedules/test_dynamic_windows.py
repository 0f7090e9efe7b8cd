"""Convolutions and poolings of any height and width: scheduled as static ones are, and right."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tir.expressions import mentions
from tvm_nnef.tvm_support.compat import prim_functions

pytestmark = pytest.mark.slow

CONVOLUTIONS = {
    # channels in and out, window, stride, dilation, padding (top, left, bottom, right), groups
    "plain": (5, 7, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    "strided": (5, 20, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1),
    "strided, aside": (4, 6, (3, 2), (2, 3), (1, 1), (0, 1, 2, 0), 1),
    "dilated": (3, 8, (3, 3), (1, 2), (2, 1), (2, 1, 2, 1), 1),
    "pointwise": (16, 9, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 1),
    "large": (3, 8, (7, 7), (2, 2), (1, 1), (3, 3, 3, 3), 1),
    "depthwise": (18, 18, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 18),
    "depthwise, strided": (18, 18, (5, 5), (2, 2), (1, 1), (2, 2, 2, 2), 18),
    "grouped": (8, 12, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 4),
}  # fmt: skip
SIZES = [(1, 9, 9), (2, 8, 13), (1, 30, 7), (3, 7, 32)]


def windows(x, size, stride, dilation):
    """Views of all windows: batch, channels, rows, columns, window."""
    spans = [(n - 1) * d + 1 for n, d in zip(size, dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    return views[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def convolved(x, w, stride, dilation, padding, groups):
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    parts = [
        np.einsum("nchwkl,ockl->nohw", windows(part, w.shape[2:], stride, dilation), own)
        for part, own in zip(np.split(padded, groups, 1), np.split(w, groups), strict=True)
    ]
    return np.concatenate(parts, 1)


def strategies(loaded):
    mod = run_phases(tvm_nnef.from_nnef(loaded), resolve("native"), "graph", "schedule")
    return {kernel.strategy for kernel in schedules.report(mod)}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_of_any_height_and_width(name):
    inputs, outputs, size, stride, dilation, padding, groups = CONVOLUTIONS[name]
    generator = np.random.default_rng(len(name))
    w = generator.standard_normal((outputs, inputs // groups, *size)).astype("float32")
    attributes = (
        f"padding=[{', '.join(map(str, padding))}], stride=[{stride[0]}, {stride[1]}], "
        f"dilation=[{dilation[0]}, {dilation[1]}], groups={groups}"
    )
    loaded = tvm_nnef.load_model(
        f"""import nn;
        graph G {{ @input {{ x: real[n|8,{inputs},h|64,v|64]; }} @output {{ y: real[~,~,~,~]; }}
          @variable {{ w: real[{outputs},{inputs // groups},{size[0]},{size[1]}]; }}
          @compose {{ c = nn.conv{{{attributes}}}(x, w); y = nn.relu(c); }} }}""",
        variables={"main.G.w": w},
    )
    assert strategies(loaded) <= {"cpu.register_tile", "cpu.elementwise"}
    executable = tvm_nnef.build(loaded)
    for batch, height, width in SIZES:
        x = generator.standard_normal((batch, inputs, height, width)).astype("float32")
        expected = np.maximum(convolved(x, w, stride, dilation, padding, groups), 0)
        np.testing.assert_allclose(executable(x)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size, stride, padding", [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_a_pooling_of_any_height_and_width(size, stride, padding):
    loaded = tvm_nnef.load_model(
        f"""import nn;
        graph G {{ @input {{ x: real[n|8,6,h|64,v|64]; }} @output {{ y: real[~,~,~,~]; }}
          @compose {{ y = nn.max_pool{{axes=[2,3], size=[{size},{size}], stride=[{stride},{stride}],
            padding=[{padding},{padding},{padding},{padding}]}}(x); }} }}"""
    )
    executable, edge = tvm_nnef.build(loaded), (padding, padding)
    for batch, height, width in SIZES:
        x = np.random.default_rng(height).standard_normal((batch, 6, height, width)) - 5
        x = x.astype("float32")
        padded = np.pad(x, ((0, 0), (0, 0), edge, edge), constant_values=-np.inf)
        expected = windows(padded, (size, size), (stride, stride), (1, 1)).max((4, 5))
        np.testing.assert_array_equal(executable(x)[0], expected)


def test_windows_of_a_formula_that_end_before_any_height_does():
    w = np.random.default_rng(1).standard_normal((5, 6, 3)).astype("float32")
    executable = tvm_nnef.build(
        """operator windows { @input { x: real[n,c,h]; f: real[o,c,p]; }
          @output { y: real[n,o,h - 3]; }
          @lower { y[b,z,i] += x[b,d,i + k] * f[z,d,k],
            b < n, z < o, i < h - 3, d < c, k < p; } }
        graph G { @input { x: real[n|8,6,h|64]; } @variable { w: real[5,6,3]; }
          @output { y: real[~,~,~]; } @compose { y = windows(x, w); } }""",
        variables={"main.G.w": w},
        progress=False,
    )
    for batch, height in ((1, 3), (2, 6), (3, 29)):
        x = np.random.default_rng(height).standard_normal((batch, 6, height)).astype("float32")
        padded = np.pad(x, ((0, 0), (0, 0), (0, 3)))
        views = np.lib.stride_tricks.sliding_window_view(padded, 3, 2)[:, :, : height - 3]
        expected = np.einsum("nchk,ock->noh", views, w)
        np.testing.assert_allclose(executable(x)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "call",
    [
        "nn.max_pool{axes=[2,3], size=[3,3], stride=[2,2], padding=[1,1,1,1]}(x)",
        "nn.conv{padding=[1,1,1,1]}(x, w)",
    ],
)
def test_the_position_of_a_task_is_computed_once(call):
    """Written out in every index, it made a network of such kernels build for a minute."""
    loaded = tvm_nnef.load_model(
        f"""import nn;
        graph G {{ @input {{ x: real[n|8,16,h|64,v|64]; }} @output {{ y: real[~,~,~,~]; }}
          @variable {{ w: real[16,16,3,3]; }} @compose {{ y = {call}; }} }}""",
        variables={"main.G.w": np.ones((16, 16, 3, 3), "float32")},
    )
    mod = run_phases(tvm_nnef.from_nnef(loaded), resolve("native"), "graph", "schedule")
    tasks: list[tirx.For] = []
    for name, function in prim_functions(mod).items():
        if name not in ("max_pool2d", "conv"):
            continue  # what packs weights
        tvm_ffi.structural_walk(function.body, (tirx.For, tasks.append))
    divided = [len(quotients_of(loop.loop_var, loop.body)) for loop in tasks if is_parallel(loop)]
    assert 0 < max(divided) <= 8, "a quotient and a remainder for each dimension"


def is_parallel(loop):
    return int(loop.kind) == tirx.ForKind.PARALLEL


def quotients_of(task, body):
    """The divisions of the number of a task."""
    divisions = []
    kinds = (tirx.FloorDiv, tirx.FloorMod)
    tvm_ffi.structural_walk(body, (kinds, divisions.append), order="post")
    return [division for division in divisions if mentions(division, [task])]
