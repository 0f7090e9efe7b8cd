"""Sums along dynamic dimensions are as exact as along static ones: both against float64 of NumPy.

The numbers are all positive, so that the rounding of long sums does not cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import special

import tvm_nnef

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(3)
ULP = 2.0**-23

Exact = Callable[..., Any]
Group = tuple[Sequence[Sequence[int | str]], dict[str, Exact]]


def norm(x: Any, axes: tuple[int, ...]) -> Any:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


def deconv(x: Any, w: Any) -> Any:
    """Windows of 2 x 2 with stride 2, which do not overlap."""
    batch, _, height, width = x.shape
    y = np.einsum("nchw,cokl->nohkwl", x, w)
    return y.reshape(batch, w.shape[1], 2 * height, 2 * width)


SIZES = {"b": 2, "h": 120, "w": 173, "m": 9001, "k": 40, "n": 2003}
PLANES = (("b", 5, "h", "w"),)
GROUPS: dict[str, Group] = {
    "planes": (
        PLANES,
        {
            "math.sum_reduce{axes=[2,3]}": lambda x: x.sum((2, 3), keepdims=True),
            "math.sum_reduce{axes=[1,2]}": lambda x: x.sum((1, 2), keepdims=True),
            "math.sum_reduce{axes=[0,2,3]}": lambda x: x.sum((0, 2, 3), keepdims=True),
            "math.mean_reduce{axes=[2,3]}": lambda x: x.mean((2, 3), keepdims=True),
            "nn.mean_variance_norm{axes=[2,3]}": lambda x: norm(x, (2, 3)),
            "math.lp_reduce{axes=[2,3],p=2.0}": lambda x: np.sqrt(
                (x * x).sum((2, 3), keepdims=True)
            ),
        },
    ),
    "all of it": (
        (("h", "w"),),
        {
            "math.sum_reduce": np.sum,
            "math.mean_reduce": np.mean,
            "nn.l1_norm{axes=[0,1]}": lambda x: x / x.sum(),
        },
    ),
    "rows": (
        (("k", "m"),),
        {
            "math.sum_reduce{axes=[1]}": lambda x: x.sum(1, keepdims=True),
            "nn.l2_norm{axes=[1]}": lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
            "nn.softmax{axes=[1]}": lambda x: special.softmax(x, 1),
        },
    ),
    "columns": (
        ((3, "m", "k"),),
        {
            "math.sum_reduce{axes=[1]}": lambda x: x.sum(1, keepdims=True),
            "math.mean_reduce{axes=[0,1]}": lambda x: x.mean((0, 1), keepdims=True),
            "nn.mean_variance_norm{axes=[1]}": lambda x: norm(x, (1,)),
            "nn.softmax{axes=[1]}": lambda x: special.softmax(x, 1),
        },
    ),
    "few of many": (
        (("m", 3),),
        {
            "math.sum_reduce": np.sum,
            "math.sum_reduce{axes=[0]}": lambda x: x.sum(0, keepdims=True),
        },
    ),
    "products": (
        (("k", "m"), ("m", 24)),
        {"linalg.matmul": lambda x, w: x @ w},
    ),
    "products of vectors": (
        (("m",), ("m",)),
        {"linalg.dot": lambda x, w: np.dot(x, w)},
    ),
    "transposed convolutions": (
        ((1, 64, "h", "w"), (64, 3, 2, 2)),
        {"nn.deconv{stride=[2,2],padding=[0,0,0,0]}": deconv},
    ),
}


def text(group: Group, *, dynamic: bool) -> str:
    shapes, calls = group
    bounded: set[int | str] = set()

    def size(item: int | str) -> str:
        if isinstance(item, int) or not dynamic:
            return str(SIZES.get(str(item), item))
        first = item not in bounded
        bounded.add(item)
        return f"{item}|{2 * SIZES[item]}" if first else item

    names = [f"x{number}" for number in range(len(shapes))]
    inputs = [
        f"{name}: real[{','.join(map(size, shape))}];"
        for name, shape in zip(names, shapes, strict=True)
    ]
    outputs = [f"y{number}: real;" for number in range(len(calls))]
    steps = [f"y{number} = {call}({', '.join(names)});" for number, call in enumerate(calls)]
    return (
        "import math, nn, linalg; graph G { @input { " + " ".join(inputs) + " } "
        "@output { " + " ".join(outputs) + " } @compose { " + " ".join(steps) + " } }\n"
    )


def errors(model: str, inputs: Sequence[Any], group: Group) -> list[float]:
    """The largest error of each output, relative to its largest element."""
    found = tvm_nnef.build(model, progress=False)(*inputs)
    wanted = [exact(*map(np.float64, inputs)) for exact in group[1].values()]
    return [
        float(np.abs(y.reshape(np.shape(exact)) - exact).max() / np.abs(exact).max())
        for y, exact in zip(found, wanted, strict=True)
    ]


@pytest.mark.parametrize("name", GROUPS)
def test_a_dynamic_build_is_as_exact_as_a_static_one(name: str) -> None:
    group = GROUPS[name]
    shapes = [[SIZES.get(str(item), item) for item in shape] for shape in group[0]]
    inputs = [RANDOM.random(shape).astype(np.float32) for shape in shapes]
    static, dynamic = (errors(text(group, dynamic=each), inputs, group) for each in (False, True))
    for call, first, second in zip(group[1], static, dynamic, strict=True):
        assert second <= 2 * first + ULP, call


def test_a_mean_of_planes_after_a_convolution() -> None:
    """Convolutions relayout the planes: channels are last, and sums run across them."""
    shapes = (("b", 16, "h", "w"), (16, 16, 1, 1))
    calls = {"nn.conv{padding=[0,0,0,0]}": lambda x, w: np.einsum("nchw,oc->nohw", x, w[..., 0, 0])}
    group: Group = (shapes, calls)
    inputs = [
        RANDOM.random([SIZES.get(str(item), item) for item in shape]).astype(np.float32)
        for shape in shapes
    ]
    wanted = calls["nn.conv{padding=[0,0,0,0]}"](*map(np.float64, inputs)).mean((2, 3))
    found = []
    for dynamic in (False, True):
        model = text(group, dynamic=dynamic).replace("y0 = ", "c = ")
        mean = "y0 = math.mean_reduce{axes=[2,3],squeeze=true}(c); } }"
        (y,) = tvm_nnef.build(model.replace("} }\n", mean + "\n"), progress=False)(*inputs)
        found.append(float((np.abs(y - wanted) / wanted).max()))
    assert found[1] <= 2 * found[0] + ULP


@pytest.fixture(scope="module")
def sums() -> tvm_nnef.Executable:
    return tvm_nnef.build(
        "import math; graph G { @input { x: real[h|5000,w|5000]; z: real[h,w,3]; } "
        "@output { y: real; v: real; u: real; } @compose { y = math.sum_reduce(x); "
        "v = math.sum_reduce{axes=[0,1],squeeze=true}(z); u = math.sum_reduce{axes=[0]}(x); } }\n",
        progress=False,
    )


@pytest.mark.parametrize("sizes", [(1, 1), (0, 7), (7, 0), (3, 64), (64, 3), (129, 130), (4099, 2)])
def test_all_sizes_of_both_dimensions(sizes: tuple[int, int], sums: tvm_nnef.Executable) -> None:
    """Blocks that are not full, rows that are shorter than a vector, and none at all."""
    x, z = RANDOM.random(sizes).astype("f4"), RANDOM.random((*sizes, 3)).astype("f4")
    y, v, u = sums(x, z)
    np.testing.assert_allclose(y, np.float64(x).sum(keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(v, np.float64(z).sum((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(u, np.float64(x).sum(0, keepdims=True), rtol=2e-6)
