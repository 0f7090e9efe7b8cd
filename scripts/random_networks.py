"""Operators of neural networks for random graphs: products, windows, normalizations, gates.

Each function adds a few nodes to a graph, or returns None.
"""

# ruff: noqa: D103 - the name of a function says which operators it adds.

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from random_graphs import Dim, Graph, Value, one, static
from random_layouts import reshaped


def matmul(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=1)
    depth = x.dims[-1]
    if not static(depth):
        return None
    columns = graph.size()
    shape = (depth[0],) if graph.chance(0.1) else (depth[0], columns)
    if x.rank > 2 and static(x.dims[-3]) and graph.chance(0.3):
        shape = (x.dims[-3][0], *((depth[0], columns)))
    weight = graph.weight(shape)
    kept = x.dims[:-1]
    dims = kept if len(shape) == 1 else (*kept, graph.dim(columns))
    if x.rank == 1 and len(shape) == 3:
        return None
    scale = x.scale * weight.scale * max(depth[0], 1)
    return graph.add("MatMul", (x, weight), [graph.value(
        "float32", dims, scale, graph.grain(x, weight, scale))])  # fmt: skip


def gemm(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=2)
    if x.rank != 2:
        return None
    turned, other = graph.chance(0.4), graph.chance(0.4)
    rows, depth = x.dims[::-1] if turned else x.dims
    if not static(depth) or not depth[0]:
        return None
    columns = graph.size()
    weight = graph.weight((columns, depth[0]) if other else (depth[0], columns))
    bias = graph.weight((columns,))
    result = graph.value("float32", (rows, graph.dim(columns)), x.scale * 2 * depth[0] + 2)
    return graph.add("Gemm", (x, weight, bias), [result], alpha=0.5, transA=int(turned),
                     transB=int(other))  # fmt: skip


def attention(graph: Graph) -> Sequence[Value] | None:
    """Softmax of the products of a tensor with itself, times another."""
    x = graph.pick("float32", rank=2)
    if not min(map(min, x.dims)) or not static(x.dims[-1]):
        return None
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = x.like(dims=[x.dims[axis] for axis in order])
    (key,) = graph.add("Transpose", (x,), [turned], perm=order)
    square = (*x.dims[:-1], x.dims[-2])
    scale = x.scale**2 * x.dims[-1][0]
    (scores,) = graph.add("MatMul", (x, key), [graph.value("float32", square, scale)])
    factor = graph.constant(np.float32(1 / max(scale, 1)))
    (scores,) = graph.add("Mul", (scores, factor), [graph.value("float32", square, 1.0)])
    (shares,) = graph.add("Softmax", (scores,), [graph.value("float32", square, 1.0)], axis=-1)
    return graph.add("MatMul", (shares, x), [x.like(grain=None)])


def window(graph: Graph, x: Value, wide: int = 4) -> tuple[dict[str, list[int]], list[Dim]] | None:
    """Attributes of a window, and the spatial dimensions of the result."""
    spatial = x.dims[2:]
    kernel = [graph.integer(1, wide) for _ in spatial]
    strides = [graph.choice((1, 1, 2, 3)) for _ in spatial]
    dilations = [graph.choice((1, 1, 1, 2)) for _ in spatial]
    begins = [graph.integer(0, size) for size in kernel]
    ends = [graph.integer(0, size) for size in kernel]
    out: list[Dim] = []
    for axis, dim in enumerate(spatial):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        around = begins[axis] + ends[axis]
        if min(dim) < 1 or min(dim) + around < reach:
            return None
        out.append(tuple((each + around - reach) // strides[axis] + 1 for each in dim))
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations,
            "pads": [*begins, *ends]}, out  # fmt: skip


def convolution(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=3)
    if x.rank > 5 or not static(x.dims[1]) or not x.dims[1][0] or not min(x.dims[0]):
        return None
    found = window(graph, x)
    if found is None:
        return None
    attributes, spatial = found
    channels = x.dims[1][0]
    groups = graph.choice([each for each in (1, 1, channels) if channels % each == 0])
    outputs = groups * graph.choice((1, 2, 3))
    weight = graph.weight((outputs, channels // groups, *attributes["kernel_shape"]))
    scale = x.scale * weight.scale * math.prod(weight.shape[1:]) + 2
    operands = [x, weight, *([graph.weight((outputs,))] if graph.chance(0.5) else ())]
    result = graph.value("float32", (x.dims[0], graph.dim(outputs), *spatial), scale)
    return graph.add("Conv", operands, [result], group=groups, **attributes)


def quantized(graph: Graph) -> Sequence[Value] | None:
    """Quantized data, and perhaps a contraction with quantized weights, quantized again.

    Scales are powers of two and the data exact, so that every runtime gets the same codes.
    """
    x = graph.pick_exact("float32")
    zero = graph.choice((np.uint8(0), np.uint8(130), np.int8(0), np.int8(-7)))
    x = _through_codes(graph, x, zero)
    contraction = graph.chance(0.7) and _integer_contraction(graph, x)
    return [_through_codes(graph, contraction, zero)] if contraction else [x]


def _through_codes(graph: Graph, x: Value, zero: np.generic) -> Value:
    """A value quantized and dequantized."""
    grain = graph.integer(0, 4)
    operands = [graph.constant(np.float32(2.0**-grain)), graph.constant(zero)]
    (codes,) = graph.add("QuantizeLinear", (x, *operands), [x.like(dtype=str(zero.dtype))])
    graph.forget(codes)
    real = graph.value("float32", x.dims, min(x.scale + 1, 255 * 2.0**-grain), grain)
    return graph.add("DequantizeLinear", (codes, *operands), [real])[0]


def _integer_contraction(graph: Graph, x: Value) -> Value | None:
    """A convolution, perhaps in groups, or product with quantized weights, per channel or not."""
    if x.rank < 2 or not static(x.dims[-1]) or not min(map(min, x.dims)):
        return None
    found = window(graph, x) if 3 <= x.rank <= 5 and static(x.dims[1]) else None
    outputs, groups = graph.choice((1, 3, 8, 17)), 1
    if found is None:
        shape, axis, dims = (x.dims[-1][0], outputs), 1, (*x.dims[:-1], graph.dim(outputs))
    else:
        channels = x.dims[1][0]
        groups = graph.choice([each for each in (1, 1, 2, channels) if channels % each == 0])
        outputs = outputs if groups == 1 else groups * graph.choice((1, 1, 5))
        shape, axis = (outputs, channels // groups, *found[0]["kernel_shape"]), 0
        dims = (x.dims[0], graph.dim(outputs), *found[1])
    scale = x.scale * math.prod(shape) / outputs
    if x.grain is None or 2.0 ** (x.grain + 4) * scale >= 2**20:
        return None
    codes = graph.constant(graph.random.integers(-8, 9, shape).astype(np.int8))
    each = graph.chance(0.5)
    steps = 2.0 ** -graph.random.integers(3, 5, (outputs,) if each else ()).astype(np.float32)
    zeros = np.zeros_like(steps, np.int8)
    weight = graph.value("float32", codes.dims, 1.0, 4)
    operands = (codes, graph.constant(steps.astype(np.float32)), graph.constant(zeros))
    (weight,) = graph.add("DequantizeLinear", operands, [weight], axis=axis)
    graph.forget(weight)
    result = graph.value("float32", dims, scale, x.grain + 4)
    if found is None:
        return graph.add("MatMul", (x, weight), [result])[0]
    return graph.add("Conv", (x, weight), [result], group=groups, **found[0])[0]


def transposed_convolution(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=3)
    if x.rank > 4 or not static(x.dims[1]) or not min(map(min, x.dims)):
        return None
    channels, outputs = x.dims[1][0], graph.choice((1, 2, 5))
    kernel = [graph.integer(1, 4) for _ in x.dims[2:]]
    strides = [graph.integer(1, 4) for _ in kernel]
    pads = [graph.integer(0, (size + 1) // 2) for size in kernel]
    spatial = [
        tuple((each - 1) * stride + size - 2 * pad for each in dim)
        for dim, stride, size, pad in zip(x.dims[2:], strides, kernel, pads, strict=True)
    ]
    if min(map(min, spatial)) < 1:
        return None
    weight = graph.weight((channels, outputs, *kernel))
    scale = x.scale * 2 * channels * math.prod(kernel)
    result = graph.value("float32", (x.dims[0], graph.dim(outputs), *spatial), scale)
    return graph.add("ConvTranspose", (x, weight), [result], kernel_shape=kernel,
                     strides=strides, pads=[*pads, *pads])  # fmt: skip


def pooling(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=3)
    if x.rank > 5 or not min(map(min, x.dims)):
        return None
    if graph.chance(0.3):
        name = graph.choice(("GlobalAveragePool", "GlobalMaxPool"))
        dims = (*x.dims[:2], *(one(graph) for _ in x.dims[2:]))
        return graph.add(name, (x,), [x.like(dims=dims, grain=None)])
    found = window(graph, x)
    if found is None:
        return None
    attributes, spatial = found
    name = graph.choice(("MaxPool", "AveragePool"))
    more = {}
    if name == "AveragePool":
        more["count_include_pad"] = int(graph.chance(0.5))
        if graph.opset < 19 and any(each > 1 for each in attributes.pop("dilations")):
            return None
    result = x.like(dims=(*x.dims[:2], *spatial), grain=None)
    return graph.add(name, (x,), [result], **attributes, **more)


def normalization(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=2)
    if not min(map(min, x.dims)):
        return None
    name = graph.choice(("LayerNormalization", "BatchNormalization", "InstanceNormalization"))
    axis = x.rank - 1 if name == "LayerNormalization" else 1
    if name == "LayerNormalization" and graph.opset < 17:
        return None
    if not static(x.dims[axis]) or (name == "InstanceNormalization" and x.rank < 3):
        return None
    size = x.dims[axis][0]
    operands = [x, graph.weight((size,)), graph.weight((size,))]
    if name == "BatchNormalization":
        spread = np.abs(graph.random.standard_normal(size)) + 0.5
        operands += [graph.weight((size,)), graph.constant(spread.astype(np.float32))]
    # Large enough that rounding is not magnified where all elements are equal.
    return graph.add(name, operands, [x.like(scale=4 * x.scale + 8, grain=None)], epsilon=0.1)


def resize(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=3)
    if x.rank not in (3, 4) or not min(map(min, x.dims)):
        return None
    factors = [1, 1, *(graph.choice((1, 2, 3)) for _ in x.dims[2:])]
    dims = [tuple(each * n for each in dim) for dim, n in zip(x.dims, factors, strict=True)]
    mode = graph.choice(("nearest", "linear"))
    more = {"nearest_mode": "floor"} if mode == "nearest" else {}
    where_ = graph.choice(("asymmetric", "half_pixel", "align_corners")
                          if mode == "linear" else ("asymmetric",))  # fmt: skip
    scales = graph.constant(np.array(factors, np.float32))
    result = x.like(dims=dims, grain=x.grain if mode == "nearest" else None)
    return graph.add("Resize", (x, None, scales), [result], mode=mode,
                     coordinate_transformation_mode=where_, **more)  # fmt: skip


def rotation(graph: Graph) -> Sequence[Value] | None:
    """Rotary embedding: halves of the last dimension turned against each other."""
    x = graph.pick("float32", rank=2)
    if x.rank > 4 or not static(x.dims[-1]) or x.dims[-1][0] % 2 or not x.dims[-1][0]:
        return None
    size = x.dims[-1][0]
    heads = graph.choice([each for each in (1, 2, 4) if size % (2 * each) == 0])
    dims = (*x.dims[:-1], graph.dim(heads), graph.dim(size // heads))
    origins = [*([position] for position in range(x.rank - 1)), [x.rank - 1], [x.rank - 1]]
    found = reshaped(graph, x, dims, origins)
    if found is None:
        return None
    half = size // heads // 2
    part = x.like(dims=(*dims[:-1], graph.dim(half)))
    wanted = graph.constant(np.array([half, half], np.int64))
    a, b = graph.add("Split", (found[0], wanted), [part, part], axis=-1)
    angle = graph.weight((half,)), graph.weight((half,))
    wide = part.like(scale=2 * x.scale, grain=None)
    products = [graph.add("Mul", (left, right), [wide])[0]
                for left in (a, b) for right in angle]  # fmt: skip
    (re,) = graph.add("Sub", (products[0], products[3]), [wide.like(scale=4 * x.scale)])
    (im,) = graph.add("Add", (products[1], products[2]), [wide.like(scale=4 * x.scale)])
    (joined,) = graph.add("Concat", (re, im), [re.like(dims=dims)], axis=-1)
    back = [*([position] for position in range(x.rank - 1)), [x.rank - 1, x.rank]]
    return reshaped(graph, joined, x.dims, back)


def gate(graph: Graph) -> Sequence[Value] | None:
    """One half of a dimension times the sigmoid of the other."""
    x = graph.pick("float32", rank=1)
    axis = graph.axis(x)
    if axis is None or not static(x.dims[axis]) or x.dims[axis][0] % 2:
        return None
    half = x.dims[axis][0] // 2
    part = x.like(dims=graph.with_dim(x, axis, half), grain=None)
    wanted = graph.constant(np.array([half, half], np.int64))
    a, b = graph.add("Split", (x, wanted), [part, part], axis=axis)
    (b,) = graph.add("Sigmoid", (b,), [part.like(scale=1.0)])
    return graph.add("Mul", (a, b), [part])
