"""The operators of random ONNX graphs: each function adds a few nodes to a graph, or returns None.

A function draws operands among the values that are there, and arguments that ONNX defines for them:
no ties that are undefined, no integers divided by zero, no casts out of range. Operators that jump
(rounding, comparing, searching) only get values that are exact in float32.
"""

# ruff: noqa: D103 - the name of a function says which operators it adds.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from random_graphs import DYNAMIC, Declined, Dim, Graph, Value, broadcast, one, static

Maker = Callable[[Graph], "Sequence[Value] | None"]
_SMOOTH = ("Tanh", "Sigmoid", "Erf", "Softplus", "Elu", "HardSigmoid", "Softsign", "Sin", "Cos",
           "HardSwish", "Selu", "Celu", "Mish", "Atan", "Gelu")  # fmt: skip
_SINCE = {"Mish": 18, "Gelu": 20, "HardSwish": 14}
_EXACT = ("Relu", "Neg", "Abs", "Identity", "LeakyRelu", "Clip")
_JUMPING = ("Floor", "Ceil", "Round", "Sign")


def unary(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32")
    name = graph.choice((*_SMOOTH, *_EXACT, *(_JUMPING if x.exact else ())))
    if graph.opset < _SINCE.get(name, 0):
        return None
    if name == "Clip":
        low, high = sorted(graph.random.integers(-4, 5, 2).tolist())
        low, high = (np.array(each, np.float32) for each in (low, high))
        return graph.add("Clip", (x, graph.constant(low), graph.constant(high)), [
            x.like(scale=min(x.scale, 4.0), grain=x.grain)])  # fmt: skip
    if name in ("LeakyRelu", "Elu", "Celu"):
        return graph.add(name, (x,), [x.like(grain=None)], alpha=0.5)
    exact = name in (*_EXACT, *_JUMPING)
    scale = x.scale + 1 if exact else max(2 * x.scale, 1.1)
    return graph.add(name, (x,), [x.like(scale=scale, grain=x.grain if exact else None)])


def guarded(graph: Graph) -> Sequence[Value] | None:
    """Operators that are only smooth away from zero."""
    x = graph.pick("float32")
    (y,) = graph.add("Abs", (x,), [x])
    (y,) = graph.add("Add", (y, graph.constant(np.float32(1))), [x.like(scale=x.scale + 1)])
    name = graph.choice(("Sqrt", "Log", "Reciprocal", "Div", "Pow"))
    if name == "Div":
        z = graph.pick_broadcast("float32", x)
        return graph.add(name, (z, y), [graph.value("float32", broadcast(z, y), z.scale)])
    if name == "Pow":
        power = graph.constant(np.float32(graph.choice((0.5, -1.0, 1.5, -0.5))))
        return graph.add(name, (y, power), [x.like(scale=(1 + x.scale) ** 1.5)])
    return graph.add(name, (y,), [x.like(scale=1 + x.scale)])


def exponential(graph: Graph) -> Sequence[Value] | None:
    (y,) = graph.add("Tanh", (x := graph.pick("float32"),), [x.like(scale=1.0)])
    return graph.add("Exp", (y,), [x.like(scale=3.0)])


def binary(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(graph.choice(("float32", "float32", "float32", "int64")))
    y = graph.pick_broadcast(x.dtype, x)
    name = graph.choice(("Add", "Sub", "Mul", "Max", "Min"))
    if graph.chance(0.3):
        x, y = y, x
    return graph.add(name, (x, y), [graph.combined(x, y, name == "Mul")])


def variadic(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32")
    many = [x, *(graph.pick_broadcast("float32", x) for _ in range(graph.integer(0, 3)))]
    dims = broadcast(*many)
    name = graph.choice(("Sum", "Mean", "Max", "Min"))
    return graph.add(name, many, [graph.value("float32", dims, sum(each.scale for each in many))])


def integers(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("int64")
    name = graph.choice(("Div", "Mod", "Neg", "Abs", "Mod"))
    if name in ("Neg", "Abs"):
        return graph.add(name, (x,), [x])
    divisor = graph.choice((2, 3, 7, 13)) * (graph.choice((1, -1)) if name == "Mod" else 1)
    return graph.add(name, (x, graph.constant(np.int64(divisor))), [x])


def compare(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick_exact()
    y = graph.pick_broadcast(x.dtype, x, exact=True)
    name = graph.choice(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    return graph.add(name, (x, y), [graph.value("bool", broadcast(x, y))])


def logic(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("bool")
    if graph.chance(0.3):
        return graph.add("Not", (x,), [x])
    y = graph.pick_broadcast("bool", x)
    name = graph.choice(("And", "Or", "Xor"))
    return graph.add(name, (x, y), [graph.value("bool", broadcast(x, y))])


def where(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(graph.choice(("float32", "int64")))
    condition, y = graph.pick_broadcast("bool", x), graph.pick_broadcast(x.dtype, x)
    dims = broadcast(condition, x, y)
    if dims is None:
        return None
    same = graph.combined(x, y, False)
    return graph.add("Where", (condition, x, y), [same.like(dims=dims)])


def cast(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick_exact() if graph.chance(0.6) else graph.pick("bool")
    wanted = graph.choice(tuple({"float32", "int64", "bool"} - {x.dtype}))
    number = {"float32": 1, "int64": 7, "bool": 9}[wanted]
    scale, grain = (x.scale, 0) if x.dtype != "bool" else (1.0, 0)
    if wanted == "float32" and scale > 2**20:
        return None
    return graph.add("Cast", (x,), [graph.value(wanted, x.dims, scale, grain)], to=number)


def reduction(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(graph.choice(("float32", "float32", "int64")))
    axes = graph.axes(x)
    count = math.prod(max(x.dims[axis]) for axis in axes)
    names = ["ReduceSum"]
    if x.dtype == "float32":
        names += ["ReduceL1", "ReduceSumSquare"]
    if all(min(x.dims[axis]) > 0 for axis in axes):
        names += ["ReduceMax", "ReduceMin"]
        if x.dtype == "float32":
            names += ["ReduceMean", "ReduceLogSumExp", "ReduceL2"]
    name, keep = graph.choice(names), graph.chance(0.5)
    shown = [axis - x.rank if graph.chance(0.3) else axis for axis in axes]
    dims = [one(graph) if axis in axes else dim for axis, dim in enumerate(x.dims)]
    kept = [dim for axis, dim in enumerate(dims) if keep or axis not in axes]
    exact = name in ("ReduceMax", "ReduceMin") or (name in ("ReduceSum", "ReduceL1"))
    scale = x.scale * (max(count, 1) if name in ("ReduceSum", "ReduceL1", "ReduceL2") else 1)
    scale = count * x.scale**2 if name == "ReduceSumSquare" else scale
    scale = x.scale + 8 if name == "ReduceLogSumExp" else scale
    result = graph.value(x.dtype, kept, scale, x.grain if exact else None)
    if graph.opset < 18 and name != "ReduceSum":
        return graph.add(name, (x,), [result], axes=shown, keepdims=int(keep))
    wanted = graph.constant(np.array(shown, np.int64))
    return graph.add(name, (x, wanted), [result], keepdims=int(keep))


def arg_extremum(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick_exact("float32")
    axis = graph.axis(x)
    if axis is None or not min(x.dims[axis]):
        return None
    keep = graph.chance(0.5)
    dims = [one(graph) if place == axis else dim for place, dim in enumerate(x.dims)]
    kept = [dim for place, dim in enumerate(dims) if keep or place != axis]
    result = graph.value("int64", kept, max(x.dims[axis]))
    name = graph.choice(("ArgMax", "ArgMin"))
    last = int(graph.chance(0.3))
    return graph.add(name, (x,), [result], axis=axis, keepdims=int(keep), select_last_index=last)


def top_k(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32")
    axis = graph.axis(x)
    if axis is None or not min(x.dims[axis]):
        return None
    k = graph.integer(1, min(x.dims[axis]) + 1)
    dims = graph.with_dim(x, axis, k)
    number = graph.constant(np.array([k], np.int64))
    results = [x.like(dims=dims), graph.value("int64", dims, max(x.dims[axis]))]
    largest, found = int(graph.chance(0.5)), graph.add
    values, places = found("TopK", (x, number), results, axis=axis, largest=largest)
    # Which of equal elements comes first is not asked for.
    graph.forget(places)
    return [values]


def cumulative(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(graph.choice(("float32", "int64")))
    axis = graph.axis(x)
    if axis is None:
        return None
    result = x.like(scale=x.scale * max(1, *x.dims[axis]))
    flags = {"exclusive": int(graph.chance(0.4)), "reverse": int(graph.chance(0.4))}
    return graph.add("CumSum", (x, graph.constant(np.int64(axis))), [result], **flags)


def softmax(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32")
    axis = graph.axis(x)
    if axis is None or not min(map(min, x.dims)):
        return None
    name = graph.choice(("Softmax", "Softmax", "LogSoftmax"))
    result = x.like(scale=1.0 if name == "Softmax" else 2 * x.scale + 8, grain=None)
    return graph.add(name, (x,), [result], axis=graph.choice((axis, axis - x.rank)))


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


def reshape(graph: Graph) -> Sequence[Value] | None:
    """Two dimensions become one, or a static one becomes two."""
    x = graph.pick()
    if not x.rank:
        return None
    if graph.chance(0.5) and x.rank > 1:
        axis = graph.integer(0, x.rank - 1)
        merged = tuple(a * b for a, b in zip(x.dims[axis], x.dims[axis + 1], strict=True))
        dims = [*x.dims[:axis], merged, *x.dims[axis + 2 :]]
        origins: list[Sequence[int]] = [
            *([place] for place in range(axis)), [axis, axis + 1],
            *([place] for place in range(axis + 2, x.rank))
        ]  # fmt: skip
    else:
        axis = graph.integer(0, x.rank)
        if not static(x.dims[axis]) or not x.dims[axis][0]:
            return None
        size = x.dims[axis][0]
        left = graph.choice([each for each in range(1, size + 1) if size % each == 0])
        dims = [*x.dims[:axis], graph.dim(left), graph.dim(size // left), *x.dims[axis + 1 :]]
        origins = [*([place] for place in range(axis)), [axis], [axis],
                   *([place] for place in range(axis + 1, x.rank))]  # fmt: skip
    if len(dims) > 6:
        return None
    return reshaped(graph, x, dims, origins)


def reshaped(
    graph: Graph, x: Value, dims: Sequence[Dim], origins: Sequence[Sequence[int]]
) -> Sequence[Value] | None:
    """A reshape; dimension ``i`` of the result is the product of those in ``origins[i]``."""
    result = x.like(dims=dims)
    if all(map(static, dims)):
        shape = [dim[0] for dim in dims]
        zero = 0 in shape
        if zero and graph.opset < 14:
            return None
        if not zero and graph.chance(0.3):
            shape[graph.integer(0, len(shape))] = -1
        more = {"allowzero": 1} if zero else {}
        return graph.add(
            "Reshape", (x, graph.constant(np.array(shape, np.int64))), [result], **more
        )
    if min(map(min, x.dims)) == 0:
        return None
    if graph.chance(0.5):
        open_ = [place for place, dim in enumerate(dims) if not static(dim)]
        rest = [place for place in open_ if list(origins[place]) != [place]]
        if len(rest) <= 1:
            entries = [-1 if place in rest else 0 if place in open_ else dims[place][0]
                       for place in range(len(dims))]  # fmt: skip
            target = graph.constant(np.array(entries, np.int64))
            return graph.add("Reshape", (x, target), [result])
    (shape_,) = graph.add("Shape", (x,), [graph.value("int64", [graph.dim(x.rank)], 1e3)])
    graph.forget(shape_)
    parts = []
    for dim, origin in zip(dims, origins, strict=True):
        if static(dim):
            parts.append(graph.constant(np.array([dim[0]], np.int64)))
            continue
        places = graph.constant(np.array(origin, np.int64))
        part = graph.value("int64", [graph.dim(len(origin))], 1e3)
        (part,) = graph.add("Gather", (shape_, places), [part], axis=0)
        graph.forget(part)
        if len(origin) > 1:
            product = graph.value("int64", [one(graph)], 1e3)
            axes = graph.constant(np.array([0], np.int64))
            given = ((part, axes), {}) if graph.opset >= 18 else ((part,), {"axes": [0]})
            (part,) = graph.add("ReduceProd", given[0], [product], keepdims=1, **given[1])
            graph.forget(part)
        parts.append(part)
    length = graph.value("int64", [graph.dim(len(parts))], 1e3)
    (target,) = graph.add("Concat", parts, [length], axis=0)
    graph.forget(target)
    return graph.add("Reshape", (x, target), [result])


def transpose(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=2)
    order = graph.random.permutation(x.rank).tolist()
    return graph.add("Transpose", (x,), [x.like(dims=[x.dims[a] for a in order])], perm=order)


def unit_dimensions(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick()
    ones = [axis for axis, dim in enumerate(x.dims) if set(dim) == {1}]
    if ones and graph.chance(0.6):
        axes = [axis for axis in ones if graph.chance(0.7)] or ones[:1]
        dims = [dim for axis, dim in enumerate(x.dims) if axis not in axes]
        wanted = graph.constant(np.array(axes, np.int64))
        return graph.add("Squeeze", (x, wanted), [x.like(dims=dims)])
    if x.rank > 4:
        return None
    axis = graph.integer(0, x.rank + 1)
    dims = [*x.dims[:axis], one(graph), *x.dims[axis:]]
    wanted = graph.constant(np.array([axis], np.int64))
    return graph.add("Unsqueeze", (x, wanted), [x.like(dims=dims)])


def flatten(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=1)
    axis = graph.integer(0, x.rank + 1)
    sizes = [graph.product(x.dims[:axis]), graph.product(x.dims[axis:])]
    return graph.add("Flatten", (x,), [x.like(dims=sizes)], axis=axis)


def expand(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick()
    if not all(map(static, x.dims)) or x.rank > 4:
        return None
    shape = [graph.size() if dim[0] == 1 else dim[0] for dim in x.dims]
    shape = [*([graph.size()] if graph.chance(0.5) else []), *shape]
    wanted = graph.constant(np.array(shape, np.int64))
    return graph.add("Expand", (x, wanted), [x.like(dims=[graph.dim(each) for each in shape])])


def tile(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    counts = [graph.choice((1, 1, 2, 3)) for _ in x.dims]
    dims = [tuple(each * n for each in dim) for dim, n in zip(x.dims, counts, strict=True)]
    return graph.add("Tile", (x, graph.constant(np.array(counts, np.int64))), [x.like(dims=dims)])


def slice_(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    axes = graph.axes(x)
    starts, ends, steps, dims = [], [], [], list(x.dims)
    for axis in axes:
        dim, least = x.dims[axis], min(x.dims[axis])
        step = graph.choice((1, 1, 1, 2, 3, -1, -2))
        if not static(dim):
            start = graph.integer(0, min(least, 2) + 0) if least else 0
            end = 2**31 - 1 if graph.chance(0.5) else -graph.integer(0, least - start) or 2**31 - 1
            step = abs(step)
        else:
            start, end = (graph.integer(-dim[0] - 1, dim[0] + 2) for _ in range(2))
            if graph.chance(0.3):
                start, end = (0, 2**62) if step > 0 else (-1, -(2**62))
        starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
        dims[axis] = tuple(len(range(each)[slice(start, end, step)]) for each in dim)
    given = [graph.constant(np.array(each, np.int64)) for each in (starts, ends, axes, steps)]
    return graph.add("Slice", (x, *given), [x.like(dims=dims)])


def concat(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    axis = graph.integer(0, x.rank)
    others = [
        each for each in graph.values
        if each.dtype == x.dtype and each.rank == x.rank
        and all(a == b or place == axis
                for place, (a, b) in enumerate(zip(each.dims, x.dims, strict=True)))
    ]  # fmt: skip
    parts = [x, *(graph.choice(others) for _ in range(graph.integer(1, 3)))]
    graph.random.shuffle(parts)  # type: ignore[arg-type]
    total = tuple(sum(column) for column in zip(*(each.dims[axis] for each in parts), strict=True))
    dims = [*x.dims[:axis], total, *x.dims[axis + 1 :]]
    grains = [each.grain for each in parts]
    grain = None if None in grains else max(each for each in grains if each is not None)
    scale = max(each.scale for each in parts)
    axis = graph.choice((axis, axis - x.rank))
    return graph.add("Concat", parts, [graph.value(x.dtype, dims, scale, grain)], axis=axis)


def split(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    axis = graph.axis(x)
    if axis is None or not static(x.dims[axis]):
        return None
    size = x.dims[axis][0]
    cuts = sorted(graph.random.integers(0, size + 1, graph.integer(1, 3)).tolist())
    sizes = np.diff([0, *cuts, size]).tolist()
    results = [x.like(dims=graph.with_dim(x, axis, each)) for each in sizes]
    wanted = graph.constant(np.array(sizes, np.int64))
    return graph.add("Split", (x, wanted), results, axis=axis)


def gather(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    axis = graph.axis(x)
    if axis is None or not min(x.dims[axis]) or x.rank > 4:
        return None
    least = min(x.dims[axis])
    shape = [graph.size() for _ in range(graph.integer(0, 3))]
    places = graph.random.integers(-least if static(x.dims[axis]) else 0, least, shape)
    dims = [*x.dims[:axis], *map(graph.dim, shape), *x.dims[axis + 1 :]]
    index = graph.constant(np.asarray(places, np.int64))
    return graph.add("Gather", (x, index), [x.like(dims=dims)], axis=axis)


def gather_elements(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    axis = graph.axis(x)
    if axis is None or not all(map(static, x.dims)) or not x.dims[axis][0]:
        return None
    count, size = graph.size(), x.dims[axis][0]
    dims = graph.with_dim(x, axis, count)
    places = graph.random.integers(-size, size, [dim[0] for dim in dims])
    index = graph.constant(np.asarray(places, np.int64))
    return graph.add("GatherElements", (x, index), [x.like(dims=dims)], axis=axis)


def scatter(graph: Graph) -> Sequence[Value] | None:
    """Some elements replaced, or added to, along an axis; no place twice."""
    x = graph.pick("float32", rank=1)
    axis = graph.axis(x)
    if axis is None or not all(map(static, x.dims)) or not min(map(min, x.dims)):
        return None
    size = x.dims[axis][0]
    count = graph.integer(1, size + 1)
    shape = [count if place == axis else dim[0] for place, dim in enumerate(x.dims)]
    if graph.chance(0.5):
        order = np.argsort(graph.random.random([dim[0] for dim in x.dims]), axis)
        places = np.take(order, range(count), axis)
        operands = (x, graph.constant(places.astype(np.int64)), graph.weight(shape))
        more = {"axis": axis}
        name = "ScatterElements"
    else:
        rows = graph.random.permutation(x.dims[0][0])[: max(1, count % x.dims[0][0])]
        updates = graph.weight((len(rows), *(dim[0] for dim in x.dims[1:])))
        operands, more = (x, graph.constant(rows[:, None].astype(np.int64)), updates), {}
        name = "ScatterND"
    if graph.chance(0.4) and graph.opset >= 16:
        more["reduction"] = "add"
    return graph.add(name, operands, [x.like(scale=x.scale + 2, grain=None)], **more)


def pad(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=1)
    mode = graph.choice(("constant", "constant", "edge", "reflect"))
    if not min(map(min, x.dims)):
        mode = "constant"
    room = [min(dim) - 1 if mode == "reflect" else 3 for dim in x.dims]
    before, after = ([graph.integer(0, min(each, 3) + 1) for each in room] for _ in range(2))
    dims = [tuple(each + b + a for each in dim)
            for dim, b, a in zip(x.dims, before, after, strict=True)]  # fmt: skip
    operands = [x, graph.constant(np.array([*before, *after], np.int64))]
    if mode == "constant" and graph.chance(0.5):
        operands.append(graph.constant(np.float32(-1.5)))
    return graph.add("Pad", operands, [x.like(dims=dims, scale=x.scale + 2, grain=None)], mode=mode)


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


def depth_to_space(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=4)
    if x.rank != 4 or not static(x.dims[1]) or not min(map(min, x.dims)):
        return None
    n, c, h, w = x.dims
    if c[0] % 4 == 0 and graph.chance(0.7):
        dims = [n, graph.dim(c[0] // 4), tuple(2 * a for a in h), tuple(2 * a for a in w)]
        mode = graph.choice(("DCR", "CRD"))
        return graph.add("DepthToSpace", (x,), [x.like(dims=dims)], blocksize=2, mode=mode)
    if any(each % 2 for each in (*h, *w)):
        return None
    dims = [n, graph.dim(4 * c[0]), tuple(a // 2 for a in h), tuple(a // 2 for a in w)]
    return graph.add("SpaceToDepth", (x,), [x.like(dims=dims)], blocksize=2)


def triangle(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("float32", rank=2)
    if graph.opset < 14 or not min(map(min, x.dims)):
        return None
    k = graph.constant(np.int64(graph.integer(-2, 3)))
    return graph.add("Trilu", (x, k), [x], upper=int(graph.chance(0.5)))


def one_hot(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick("int64")
    if not 1 <= x.rank <= 3:
        return None
    depth = graph.integer(1, 9)
    (index,) = graph.add("Mod", (x, graph.constant(np.int64(depth))), [x.like(scale=depth)])
    axis = graph.integer(0, x.rank + 1)
    dims = [*x.dims[:axis], graph.dim(depth), *x.dims[axis:]]
    pair = graph.constant(np.array([0.25, 2], np.float32))
    result = graph.value("float32", dims, 2.0, 2)
    return graph.add("OneHot", (index, graph.constant(np.int64(depth)), pair), [result], axis=axis)


def sizes(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    result = graph.value("int64", [graph.dim(x.rank)], max(map(max, x.dims)))
    return graph.add("Shape", (x,), [result])


def rotation(graph: Graph) -> Sequence[Value] | None:
    """Rotary embedding: halves of the last dimension turned against each other."""
    x = graph.pick("float32", rank=2)
    if x.rank > 4 or not static(x.dims[-1]) or x.dims[-1][0] % 2 or not x.dims[-1][0]:
        return None
    size = x.dims[-1][0]
    heads = graph.choice([each for each in (1, 2, 4) if size % (2 * each) == 0])
    dims = (*x.dims[:-1], graph.dim(heads), graph.dim(size // heads))
    origins = [*([place] for place in range(x.rank - 1)), [x.rank - 1], [x.rank - 1]]
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
    back = [*([place] for place in range(x.rank - 1)), [x.rank - 1, x.rank]]
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


OPERATORS: Sequence[Maker] = (
    unary, unary, unary, guarded, exponential, binary, binary, binary, variadic, integers, compare,
    logic, where, cast, reduction, reduction, arg_extremum, top_k, cumulative, softmax, matmul,
    matmul, gemm, attention, convolution, convolution, transposed_convolution, pooling,
    normalization, reshape, reshape, reshape, transpose, transpose, unit_dimensions, flatten,
    expand, tile, slice_, slice_, concat, concat, concat, split, split, gather, gather_elements,
    scatter, pad, resize, depth_to_space, triangle, one_hot, sizes, rotation, gate,
)  # fmt: skip


def generate(seed: int, count: int) -> Graph:
    """A graph of at least so many nodes; the same for the same arguments."""
    random = np.random.default_rng(seed)
    dynamic = bool(random.random() < 1 / 3)
    graph = Graph(random, dynamic, int(random.choice((13, 17, 18, 21))))
    dtypes = ["float32", "float32", *random.choice(["float32", "int64", "bool"], 2)]
    for place, dtype in enumerate(dtypes):
        rank = graph.choice((0, 1, 2, 3, 3, 4, 4, 5)) if place else graph.choice((2, 3, 4))
        dims = [graph.dim(graph.size()) for _ in range(rank)]
        if dynamic and rank and (not place or graph.chance(0.5)):
            dims[0] = DYNAMIC["n"]
            if rank > 2 and graph.chance(0.5):
                dims[graph.integer(1, rank)] = DYNAMIC["m"]
        while max(graph.product(dims)) > 2000:
            dims[graph.integer(0, rank)] = graph.dim(graph.choice((1, 2, 3)))
        graph.input(str(dtype), dims, graph.chance(0.5))
    while len(graph.nodes) < count:
        before = (len(graph.nodes), list(graph.values), set(graph.read), dict(graph.known))
        try:
            done = graph.choice(OPERATORS)(graph)
        except Declined:
            done = None
        if done is None:
            del graph.nodes[before[0] :]
            graph.values, graph.read, graph.known = before[1:]
    return graph
