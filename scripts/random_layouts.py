"""Operators that move elements of random graphs: reshapes, slices, joins, gathers, padding.

Each function adds a few nodes to a graph, or returns None.
"""

# ruff: noqa: D103 - the name of a function says which operators it adds.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from random_graphs import Dim, Graph, Value, one, static


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
            *([position] for position in range(axis)), [axis, axis + 1],
            *([position] for position in range(axis + 2, x.rank))
        ]  # fmt: skip
    else:
        axis = graph.integer(0, x.rank)
        if not static(x.dims[axis]) or not x.dims[axis][0]:
            return None
        size = x.dims[axis][0]
        left = graph.choice([each for each in range(1, size + 1) if size % each == 0])
        dims = [*x.dims[:axis], graph.dim(left), graph.dim(size // left), *x.dims[axis + 1 :]]
        origins = [*([position] for position in range(axis)), [axis], [axis],
                   *([position] for position in range(axis + 1, x.rank))]  # fmt: skip
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
        open_ = [position for position, dim in enumerate(dims) if not static(dim)]
        rest = [position for position in open_ if list(origins[position]) != [position]]
        if len(rest) <= 1:
            entries = [-1 if position in rest else 0 if position in open_ else dims[position][0]
                       for position in range(len(dims))]  # fmt: skip
            target = graph.constant(np.array(entries, np.int64))
            return graph.add("Reshape", (x, target), [result])
    (shape_,) = graph.add("Shape", (x,), [graph.value("int64", [graph.dim(x.rank)], 1e3)])
    graph.forget(shape_)
    parts = []
    for dim, origin in zip(dims, origins, strict=True):
        if static(dim):
            parts.append(graph.constant(np.array([dim[0]], np.int64)))
            continue
        positions = graph.constant(np.array(origin, np.int64))
        part = graph.value("int64", [graph.dim(len(origin))], 1e3)
        (part,) = graph.add("Gather", (shape_, positions), [part], axis=0)
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
        and all(a == b or position == axis
                for position, (a, b) in enumerate(zip(each.dims, x.dims, strict=True)))
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
    positions = graph.random.integers(-least if static(x.dims[axis]) else 0, least, shape)
    dims = [*x.dims[:axis], *map(graph.dim, shape), *x.dims[axis + 1 :]]
    index = graph.constant(np.asarray(positions, np.int64))
    return graph.add("Gather", (x, index), [x.like(dims=dims)], axis=axis)


def gather_elements(graph: Graph) -> Sequence[Value] | None:
    x = graph.pick(rank=1)
    axis = graph.axis(x)
    if axis is None or not all(map(static, x.dims)) or not x.dims[axis][0]:
        return None
    count, size = graph.size(), x.dims[axis][0]
    dims = graph.with_dim(x, axis, count)
    positions = graph.random.integers(-size, size, [dim[0] for dim in dims])
    index = graph.constant(np.asarray(positions, np.int64))
    return graph.add("GatherElements", (x, index), [x.like(dims=dims)], axis=axis)


def scatter(graph: Graph) -> Sequence[Value] | None:
    """Some elements replaced, or added to, along an axis; no place twice."""
    x = graph.pick("float32", rank=1)
    axis = graph.axis(x)
    if axis is None or not all(map(static, x.dims)) or not min(map(min, x.dims)):
        return None
    size = x.dims[axis][0]
    count = graph.integer(1, size + 1)
    shape = [count if position == axis else dim[0] for position, dim in enumerate(x.dims)]
    if graph.chance(0.5):
        order = np.argsort(graph.random.random([dim[0] for dim in x.dims]), axis)
        positions = np.take(order, range(count), axis)
        operands = (x, graph.constant(positions.astype(np.int64)), graph.weight(shape))
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
