"""Cases of ``bench_gpu.py``: networks and single kernels as ONNX, and arrays made from seeds.

The files that are carried to a GPU are small, because they have no weights: weights and inputs are
random numbers that are the same on every machine. Each is a number of float16, so that the same
model in float32 and in float16 has the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_models
import numpy as np
from bench_models import Network, operator

BATCHES = (1, 32)
DTYPES = ("float32", "float16")
TOLERANCES = {"float32": 1e-3, "float16": 3e-2}
"""The largest difference from the expected outputs, relative to the largest of these."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A model, which ``make`` makes with batch 1; ``flop`` is the work of one item of a batch."""

    make: Callable[[], Any]
    flop: float
    batches: tuple[int, ...] = (1,)

    @property
    def is_network(self) -> bool:
        """Whether it is measured as a whole, not against the roofline."""
        return self.batches == BATCHES


def suite() -> Mapping[str, Case]:
    """All cases by name."""
    return {**networks(), **kernels()}


def networks() -> dict[str, Case]:
    """Whole networks."""
    return {
        "resnet50": Case(bench_models.resnet50, 8.2e9, BATCHES),
        "mobilenetv2": Case(bench_models.mobilenet, 0.6e9, BATCHES),
        "bert": Case(bench_models.bert, 22.3e9, BATCHES),
        "gpt2": Case(bench_models.gpt2, 15.9e9, BATCHES),
    }


def kernels() -> dict[str, Case]:
    """Single operators, of sizes that do not fit the cache of a GPU if they are bound by memory."""
    n, rows, width = 4096, 8192, 4096
    image = (32, 144, 112, 112)
    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1] * 4}

    def conv(*shape: int, weight: tuple[int, ...], **attributes: Any) -> Callable[[], Any]:
        return operator("Conv", shape, weights=[weight], **attributes)

    taps, pixels = 9, 32 * 56 * 56
    return {
        "matmul": Case(operator("MatMul", (n, n), weights=[(n, n)]), 2.0 * n**3),
        "matmul of one row": Case(
            operator("MatMul", (1, 8 * n), weights=[(8 * n, n)]), 16.0 * n * n
        ),
        "batched matmul": Case(
            operator("MatMul", (384, 512, 512), (384, 512, 64)), 2.0 * 384 * 512 * 512 * 64
        ),
        "conv 3x3": Case(
            conv(32, 64, 56, 56, weight=(64, 64, 3, 3), pads=[1] * 4), 2.0 * pixels * 64 * 64 * taps
        ),
        "conv 1x1": Case(conv(32, 256, 56, 56, weight=(256, 256, 1, 1)), 2.0 * pixels * 256 * 256),
        "depthwise 3x3": Case(
            conv(*image, weight=(144, 1, 3, 3), pads=[1] * 4, group=144),
            2.0 * math.prod(image) * taps,
        ),
        "attention": Case(attention, 4.0 * 32 * 12 * 512 * 512 * 64),
        "softmax": Case(operator("Softmax", (rows, width), axis=-1), 5.0 * rows * width),
        "layer norm": Case(
            operator("LayerNormalization", (rows, width), weights=[(width,), (width,)]),
            7.0 * rows * width,
        ),
        "sum of rows": Case(lambda: reduction((rows, width), 1), 1.0 * rows * width),
        "sum of columns": Case(lambda: reduction((rows, width), 0), 1.0 * rows * width),
        "add": Case(operator("Add", (rows, width), (rows, width)), 1.0 * rows * width),
        "gelu": Case(operator("Gelu", (rows, width)), 20.0 * rows * width),
        "transpose": Case(operator("Transpose", (64, 1024, 768), perm=[0, 2, 1]), 0.0),
        "max pool": Case(operator("MaxPool", image, strides=[2, 2], **window), 0.0),
    }


def attention(batch: int = 32, heads: int = 12, rows: int = 512, depth: int = 64) -> Any:
    """The softmax of scaled products with keys, multiplied by values."""
    made = Network(dict.fromkeys(("q", "k", "v"), (batch, heads, rows, depth)))
    turned = made.add("Transpose", "k", perm=[0, 1, 3, 2])
    scores = made.add("Mul", made.add("MatMul", "q", turned), made.constant(depth**-0.5))
    return made.model(made.add("MatMul", made.add("Softmax", scores, axis=-1), "v"))


def reduction(shape: tuple[int, ...], axis: int) -> Any:
    """A sum over an axis."""
    made = Network({"x": shape})
    return made.model(made.add("ReduceSum", "x", made.constant([axis], "int64")))


def key(name: str, batch: int, dtype: str = "") -> str:
    """The name of a case with a batch and a dtype, which is that of a file."""
    return "-".join(filter(None, [name.replace(" ", "_"), str(batch), dtype]))


Spec = Mapping[str, Any]
"""The recipe of an array: its ``shape``, and the mean and standard deviation of random numbers, or
an integer that they are ``below``, or its ``values``."""


def described(array: Array) -> Spec:
    """Return the recipe of numbers like those of an array; the same ones if they are few."""
    spec: dict[str, Any] = {"shape": list(array.shape)}
    if array.size <= 16 or len(np.unique(array)) <= 2 or array.dtype.kind != "f":
        return {**spec, "values": array.ravel().tolist()}
    return {**spec, "mean": float(array.mean()), "deviation": float(array.std())}


def made(spec: Spec, seed: int, dtype: str) -> Array:
    """The array of a description, from a seed."""
    shape = tuple(spec["shape"])
    if "values" in spec:
        return np.array(spec["values"], dtype).reshape(shape)
    count = math.prod(shape)
    # The bits of a generator are the same in all versions of NumPy.
    bits = np.random.PCG64(seed).random_raw(-(-count // 2)).view("uint32")[:count]
    if "below" in spec:
        return (bits % np.uint32(spec["below"])).astype(dtype).reshape(shape)
    values = (bits >> np.uint32(8)).astype("float32")
    values *= np.float32(spec["deviation"] * math.sqrt(12) * 2.0**-24)
    values += np.float32(spec["mean"] - spec["deviation"] * math.sqrt(3))
    return values.astype("float16").astype(dtype).reshape(shape)


def sampled(array: Array) -> Array:
    """Some thousand elements of an output, in float32."""
    flat = array.ravel()
    chosen = np.linspace(0, flat.size - 1, min(flat.size, 4096)).astype("int64")
    return flat[chosen].astype("float32")


def largest_error(found: Iterable[Array], expected: Iterable[Array]) -> float:
    """The largest difference of sampled outputs, relative to the largest; infinite for NaN."""
    errors = []
    for ours, theirs in zip(found, expected, strict=True):
        taken = sampled(ours)
        error = np.abs(taken - theirs).max() / np.abs(theirs).max()
        errors.append(float(error) if np.isfinite(taken).all() else math.inf)
    return max(errors)


def folder_of(path: str | Path) -> Path:
    """The folder with the built libraries of a folder that was prepared."""
    return Path(path) / "cases"
