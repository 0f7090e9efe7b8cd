"""Results of windows that a thread of a GPU computes together: simulated, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules import STRATEGY
from tvm_nnef.schedules.gpu import elementwise, strategies, windows
from tvm_nnef.tvm_support.compat import prim_functions

pytestmark = pytest.mark.sampled(3)

SHAPES = {"static": "2,3,19,13", "dynamic": "n|2,3,h|19,w|13"}

CASES = {
    "depthwise": ("nn.conv{groups=0, padding=1}(x, f)", (3, 3), 1, 1, 1),
    "depthwise with stride": ("nn.conv{groups=0, padding=1, stride=2}(x, f)", (3, 3), 2, 1, 1),
    "dilated depthwise": ("nn.conv{groups=0, padding=0, dilation=2}(x, f)", (3, 2), 1, 2, 0),
    "max": ("nn.max_pool{size=[3,3], stride=2, padding=1}(x)", (3, 3), 2, 1, 1),
    "max without padding": ("nn.max_pool{size=[2,3], padding=0}(x)", (2, 3), 1, 1, 0),
    "sum": ("nn.sum_pool{size=[5,2], stride=3, padding=1}(x)", (5, 2), 3, 1, 1),
}
"""The operation, and size, stride, dilation and padding of the window."""


def graph(name: str, shape: str) -> str:
    body, size, *_ = CASES[name]
    inputs = f"x: real[{shape}];"
    if "conv" in body:
        inputs += f" f: real[3,1,{size[0]},{size[1]}];"
    blocks = f"@input {{ {inputs} }} @output {{ y: real[~,~,~,~]; }} @compose {{ y = {body}; }}"
    return f"import nn; graph G {{ {blocks} }}"


def expected(name: str, x: Any, f: Any) -> Any:
    body, size, stride, dilation, padding = CASES[name]
    outside = -np.inf if "max" in body else 0
    margins = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    padded = np.pad(x.astype("float64"), margins, constant_values=outside)
    reach = [(each - 1) * dilation + 1 for each in size]
    found = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    found = found[:, :, ::stride, ::stride, ::dilation, ::dilation]
    if "conv" in body:
        return (found * f[:, 0][:, None, None].astype("float64")).sum((-2, -1))
    return found.max((-2, -1)) if "max" in body else found.sum((-2, -1))


def scheduled(text: str, dtype: str) -> set[str]:
    """The strategies of the kernels of a graph."""
    cuda = resolve({"kind": "cuda", "arch": "sm_90a"})
    module = tvm_nnef.from_nnef(text, dtypes={"real": dtype})
    functions = prim_functions(run_phases(module, cuda, "bind", "schedule"))
    return {str(each.attrs[STRATEGY]) for each in functions.values()}


def source_of(text: str, dtype: str) -> str:
    """The CUDA source of a graph."""
    module = tvm_nnef.from_nnef(text, dtypes={"real": dtype})
    code = run_phases(module, resolve({"kind": "cuda", "arch": "sm_90a"}), "bind", "code")
    return str(code.mod.imports[0].imports[0].inspect_source())


@pytest.mark.parametrize("name", ["depthwise", "max"])
def test_large_images_are_computed_in_runs(name: str) -> None:
    """A run of 8 results of a window of 3 x 3 loads 10 rows of a depthwise convolution, not 24."""
    text = graph(name, "32,3,112,112")
    assert scheduled(text, "float16") == {"gpu.window"}
    source = source_of(text, "float32")
    run = len(re.findall(r"^ *\w+_ptr\[\(.*blockIdx.*\] = ", source, re.MULTILINE))
    rows = {"depthwise": run + 2, "max": 2 * run + 1}[name]
    assert run > 1
    assert len(re.findall(r"= x_(?:view_)?ptr\[", source)) == 3 * rows


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_windows_of_any_sizes(
    name: str, kind: str, dtype: str, simulated_gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, dtypes = graph(name, SHAPES[kind]), {"real": dtype}
    # Threads would share the few results of these sizes.
    monkeypatch.setattr(strategies, "STRATEGIES", (windows.match, elementwise.match))
    assert scheduled(text, dtype) == {"gpu.window"}
    simulated_gpu("sm_90a", reverse=True)
    executable = tvm_nnef.build(text, progress=False, dtypes=dtypes)
    generator = np.random.default_rng(0)
    for shape in [(2, 3, 19, 13)] if kind == "static" else [(1, 3, 7, 9), (2, 3, 18, 13)]:
        x = generator.standard_normal(shape).astype(dtype)
        f = generator.standard_normal((3, 1, *CASES[name][1])).astype(dtype)
        # A padding that multiplies an infinite weight changes nothing.
        f[1, 0, 0, 0] = np.inf if "padding=1" in CASES[name][0] else 1
        with np.errstate(invalid="ignore"):
            wanted = expected(name, x, np.where(np.isinf(f), 0, f).astype(dtype))
        (found,) = executable(*((x, f) if "conv" in CASES[name][0] else (x,)))
        channels = [0, 2] if "conv" in CASES[name][0] else [0, 1, 2]
        tolerance = 1e-5 if dtype == "float32" else 1e-2
        np.testing.assert_allclose(
            np.asarray(found, "float64")[:, channels], wanted[:, channels], tolerance, tolerance
        )
        if channels == [0, 2]:
            assert not np.isnan(found).any()


def test_products_with_one_row_load_whole_sectors_ahead() -> None:
    """A thread has 8 loads of each operand in flight, and neighbouring ones read 32 bytes."""
    text = (
        "import linalg; graph G { @input { x: real[1,8192]; w: real[8192,1024]; } "
        "@output { y: real[~,~]; } @compose { y = linalg.matmul(x, w); } }"
    )
    source = source_of(text, "float16")
    assert len(re.findall(r"\(float\)w_ptr\[", source)) == 8
    (mask,) = {int(each) for each in re.findall(r"threadIdx\.x\) & (\d+)\)", source)}
    assert (mask + 1) * 2 >= 32
