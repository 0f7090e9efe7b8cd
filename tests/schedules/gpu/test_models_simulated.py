"""Graphs with the schedules of a GPU, their threads run one after the other, against NumPy.

In one graph are many operators, each with an output, as most of the time of a build is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules import STRATEGY
from tvm_nnef.tvm_support.compat import prim_functions

pytestmark = pytest.mark.sampled(3)

Row = tuple[str, str, Callable[[Mapping[str, Any]], Any]]
"""An operation, the type and the rank of its result, and what NumPy computes of the inputs."""

IMPORTS = "import math; import layout; import linalg; import nn;"


def convolution(
    x: Any, f: Any, stride: tuple[int, int], dilation: tuple[int, int], padding: Any, groups: int
) -> Any:
    """Cross-correlation of NCHW with OIHW; ``padding`` is before and after of each dimension."""
    padded = np.pad(x, ((0, 0), (0, 0), *padding))
    reach = [d * (k - 1) for d, k in zip(dilation, f.shape[2:], strict=True)]
    height, width = ((padded.shape[2 + n] - reach[n] - 1) // stride[n] + 1 for n in range(2))
    total = 0
    for k, m in np.ndindex(*f.shape[2:]):
        rows = slice(k * dilation[0], k * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
        columns = slice(m * dilation[1], m * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
        taken = padded[:, :, rows, columns]
        parts = [
            np.einsum("nchw,oc->nohw", a, b)
            for a, b in zip(
                np.split(taken, groups, 1), np.split(f[:, :, k, m], groups, 0), strict=True
            )
        ]
        total = total + np.concatenate(parts, 1)
    return total


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def normalized(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.5)


def scattered(x: Any, indices: Any, values: Any) -> Any:
    made = x.copy()
    np.put_along_axis(made, indices, values, 1)
    return made


def transposed_convolution(x: Any, f: Any) -> Any:
    """Of stride 2, without padding; ``f`` is IOHW."""
    n, _, height, width = x.shape
    kernel = f.shape[2:]
    shape = (2 * (height - 1) + kernel[0], 2 * (width - 1) + kernel[1])
    made = np.zeros((n, f.shape[1], *shape), x.dtype)
    for i, j in np.ndindex(height, width):
        window = made[:, :, 2 * i : 2 * i + kernel[0], 2 * j : 2 * j + kernel[1]]
        window += np.einsum("nc,cohw->nohw", x[:, :, i, j], f)
    return made


GENERAL = "stride=[2,1], dilation=[1,2], padding=[1,0,2,1], groups=2"
AROUND = ((1, 2), (0, 1))
ANY = "real[~,~]"
IMAGES = "real[~,~,~,~]"

STATIC = {
    "image": (2, 4, 9, 11), "filter": (6, 2, 3, 3), "deep": (4, 3, 3, 3), "a": (37, 19),
    "b": (19, 29), "short": (70, 5), "long": (3, 1000), "longer": (2, 5000), "cube": (3, 40, 7),
    "values": (37, 2),
}  # fmt: skip
DYNAMIC: Mapping[str, tuple[int | str, ...]] = {
    **STATIC,
    "image": ("n", 4, "h", "w"), "a": ("h", 19), "b": (19, "w"), "short": ("h", 5),
    "long": (3, "w"), "longer": ("n", "w"), "cube": (3, "h", 7), "values": ("h", 2),
}  # fmt: skip

ROWS: list[Row] = [
    (f"nn.conv{{{GENERAL}}}(image, filter)", IMAGES,
     lambda v: convolution(v["image"], v["filter"], (2, 1), (1, 2), AROUND, 2)),
    ("nn.deconv{stride=2, padding=0}(image, deep)", IMAGES,
     lambda v: transposed_convolution(v["image"], v["deep"])),
    ("linalg.matmul(a, b)", ANY, lambda v: v["a"] @ v["b"]),
    ("linalg.matmul{transB=true}(a, a)", ANY, lambda v: v["a"] @ v["a"].T),
    ("linalg.matmul{transA=true}(a, a)", ANY, lambda v: v["a"].T @ v["a"]),
    ("linalg.matmul{transA=true, transB=true}(b, a)", ANY, lambda v: (v["a"] @ v["b"]).T),
    *((f"nn.softmax{{axes=[-1]}}({name})", ANY, lambda v, name=name: softmax(v[name]))
      for name in ("short", "long", "longer")),
    ("nn.mean_variance_norm{axes=[-1], epsilon=0.5}(long)", ANY,
     lambda v: normalized(v["long"])),
    ("math.sum_reduce{axes=[0], squeeze=true}(short)", "real[~]", lambda v: v["short"].sum(0)),
    ("math.sum_reduce{axes=[-1], squeeze=true}(longer)", "real[~]", lambda v: v["longer"].sum(1)),
    ("math.max_reduce{axes=[0, 1], squeeze=true}(longer)", "real[]", lambda v: v["longer"].max()),
    ("math.argmax{axis=1, squeeze=true}(cube)", "int[~,~]", lambda v: v["cube"].argmax(1)),
    ("math.argmin{axis=1, squeeze=true}(longer)", "int[~]", lambda v: v["longer"].argmin(1)),
    ("math.cumsum{axis=1}(cube)", "real[~,~,~]", lambda v: v["cube"].cumsum(1)),
    ("math.cumsum{axis=0}(short)", ANY, lambda v: v["short"].cumsum(0)),
    ("layout.gather{axis=1}(a, indices)", "real[~,~,~]",
     lambda v: np.take(v["a"], v["indices"], 1)),
    ("layout.scatter{axis=1}(a, indices, values)", ANY,
     lambda v: scattered(v["a"], v["indices"], v["values"])),
    ("layout.transpose{perm=[2, 0, 1]}(cube)", "real[~,~,~]",
     lambda v: v["cube"].transpose(2, 0, 1)),
]  # fmt: skip


def text(shapes: Mapping[str, tuple[int | str, ...]]) -> str:
    """The graph of all rows for inputs of some shapes."""

    def declared(name: str, shape: tuple[int | str, ...], kind: str) -> str:
        sizes = [f"{each}|100" if isinstance(each, str) else str(each) for each in shape]
        return f"{name}: {kind}[{','.join(sizes)}];"

    inputs = [declared(name, shape, "real") for name, shape in shapes.items()]
    inputs.append(declared("indices", shapes["values"], "int"))
    outputs = [f"y{number}: {kind};" for number, (_, kind, _) in enumerate(ROWS)]
    made = [f"y{number} = {operation};" for number, (operation, _, _) in enumerate(ROWS)]
    blocks = {"input": inputs, "output": outputs, "compose": made}
    parts = [f"@{name} {{ {' '.join(lines)} }}" for name, lines in blocks.items()]
    return f"{IMPORTS} graph G {{ {' '.join(parts)} }}"


def values_of(sizes: Mapping[str, int], shapes: Mapping[str, tuple[int | str, ...]]) -> Any:
    generator = np.random.default_rng(1)
    found = {
        name: generator.standard_normal(
            [each if isinstance(each, int) else sizes[each] for each in shape]
        ).astype("float32")
        for name, shape in shapes.items()
    }
    rows = len(found["values"])
    # The two columns of a row differ, so that the order of stores does not matter.
    indices = np.stack([generator.integers(0, 9, rows), generator.integers(9, 19, rows)], 1)
    return {**found, "indices": indices.astype("int32")}


@pytest.mark.slow
def test_static_operators(simulated_gpu: Any) -> None:
    simulated_gpu(reverse=True)
    executable = tvm_nnef.build(text(STATIC), progress=False)
    check(executable, values_of({}, STATIC))


@pytest.mark.slow
def test_dynamic_operators(simulated_gpu: Any) -> None:
    simulated_gpu()
    executable = tvm_nnef.build(text(DYNAMIC), progress=False)
    for n, h, w in ((1, 8, 8), (2, 37, 70), (3, 64, 32), (2, 5, 100)):
        check(executable, values_of({"n": n, "h": h, "w": w}, DYNAMIC))


ORDERED = {
    "prefix sums": ("x: real[9,1000];", "math.cumsum{axis=0}(x)"),
    "stores at indices": (
        "x: real[1000,9]; i: int[1000,2]; v: real[1000,2];", "layout.scatter{axis=1}(x, i, v)"),
}  # fmt: skip


@pytest.mark.parametrize(("inputs", "operation"), ORDERED.values(), ids=ORDERED)
def test_ordered_loops_run_in_a_thread_for_each_independent_step(
    inputs: str, operation: str, gpu: Any
) -> None:
    graph = f"@input {{ {inputs} }} @output {{ y: {ANY}; }} @compose {{ y = {operation}; }}"
    module = tvm_nnef.from_nnef(f"{IMPORTS} graph G {{ {graph} }}")
    target = resolve({"kind": "cuda", "arch": "sm_80"})
    (function,) = prim_functions(run_phases(module, target, "bind", "schedule")).values()
    assert all(launch.blocks * launch.threads >= 1000 for launch in gpu.launches(function))


@pytest.mark.slow
def test_half_precision(simulated_gpu: Any) -> None:
    simulated_gpu("sm_90a")
    executable = tvm_nnef.build(text(STATIC), progress=False, dtypes={"real": "float16"})
    values = {
        name: value.astype("float16") if value.dtype == "float32" else value
        for name, value in values_of({}, STATIC).items()
    }
    check(executable, values, tolerance=4e-3)


def check(executable: Any, values: Mapping[str, Any], tolerance: float = 2e-5) -> None:
    """Whether all results are what NumPy computes in float64 of the same inputs."""
    wide = {k: v.astype("float64") if v.dtype.kind == "f" else v for k, v in values.items()}
    for (operation, _, expected), found in zip(ROWS, executable(*values.values()), strict=True):
        wanted = expected(wide)
        scale = np.abs(wanted).max(initial=1)
        np.testing.assert_allclose(
            np.asarray(found, "float64"), wanted, tolerance, tolerance * scale, err_msg=operation
        )


NONZERO = """
import layout;
graph G {
    @input { x: int[n|3000, 3]; }
    @output { y: int[2, ~]; }
    @compose { y = layout.nonzero(x); }
}
"""


@pytest.mark.parametrize("reverse", [False, True])
def test_a_block_of_threads_stores_what_is_not_zero(reverse: bool, simulated_gpu: Any) -> None:
    module = tvm_nnef.from_nnef(NONZERO)
    scheduled = run_phases(module, resolve("cuda"), "bind", "schedule")
    taken = {str(f.attrs[STRATEGY]) for f in prim_functions(scheduled).values()}
    assert "gpu.compaction" in taken and "gpu.sequential" not in taken
    run_phases(scheduled, resolve("cuda"), "bytecode", "code")
    simulated_gpu(reverse=reverse)
    executable = tvm_nnef.build(NONZERO, progress=False)
    generator = np.random.default_rng(0)
    for size in (1, 5, 1000, 3000):
        x = (generator.random((size, 3)) < 0.3).astype("int32")
        np.testing.assert_array_equal(executable(x)[0], np.stack(np.nonzero(x)))
    assert executable(np.zeros((7, 3), "int32"))[0].shape == (2, 0)
