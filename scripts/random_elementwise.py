"""Operators on elements of random graphs, and along axes: reductions, searches, sums.

Each function adds a few nodes to a graph, or returns None.
"""

# ruff: noqa: D103 - the name of a function says which operators it adds.

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from random_graphs import Graph, Value, broadcast, one

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
    wanted = graph.choice(sorted({"float32", "int64", "bool"} - {x.dtype}))
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
    dims = [one(graph) if position == axis else dim for position, dim in enumerate(x.dims)]
    kept = [dim for position, dim in enumerate(dims) if keep or position != axis]
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
    values, positions = found("TopK", (x, number), results, axis=axis, largest=largest)
    # Which of equal elements comes first is not asked for.
    graph.forget(positions)
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
