"""Random ONNX graphs: the operators that are drawn, and how often.

The functions of the operators draw operands among the values that are there, and arguments that
ONNX defines for them: no ties that are undefined, no integers divided by zero, no casts out of
range. Operators that jump (rounding, comparing, searching) only get values that are exact in
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from random_elementwise import (
    arg_extremum,
    binary,
    cast,
    compare,
    cumulative,
    exponential,
    guarded,
    integers,
    logic,
    reduction,
    softmax,
    top_k,
    unary,
    variadic,
    where,
)
from random_graphs import DYNAMIC, Declined, Graph, Value
from random_layouts import (
    concat,
    depth_to_space,
    expand,
    flatten,
    gather,
    gather_elements,
    one_hot,
    pad,
    reshape,
    scatter,
    sizes,
    slice_,
    split,
    tile,
    transpose,
    triangle,
    unit_dimensions,
)
from random_networks import (
    attention,
    convolution,
    gate,
    gemm,
    matmul,
    normalization,
    pooling,
    quantized,
    resize,
    rotation,
    transposed_convolution,
)

Maker = Callable[[Graph], "Sequence[Value] | None"]

OPERATORS: Sequence[Maker] = (
    unary, unary, unary, guarded, exponential, binary, binary, binary, variadic, integers, compare,
    logic, where, cast, reduction, reduction, arg_extremum, top_k, cumulative, softmax, matmul,
    matmul, gemm, attention, convolution, convolution, transposed_convolution, pooling,
    quantized, quantized, normalization, reshape, reshape, reshape, transpose, transpose,
    unit_dimensions, flatten,
    expand, tile, slice_, slice_, concat, concat, concat, split, split, gather, gather_elements,
    scatter, pad, resize, depth_to_space, triangle, one_hot, sizes, rotation, gate,
)  # fmt: skip


def generate(seed: int, count: int) -> Graph:
    """A graph of at least so many nodes; the same for the same arguments."""
    random = np.random.default_rng(seed)
    dynamic = bool(random.random() < 1 / 3)
    graph = Graph(random, dynamic, int(random.choice((13, 17, 18, 21))))
    dtypes = ["float32", "float32", *random.choice(["float32", "int64", "bool"], 2)]
    for position, dtype in enumerate(dtypes):
        rank = graph.choice((0, 1, 2, 3, 3, 4, 4, 5)) if position else graph.choice((2, 3, 4))
        dims = [graph.dim(graph.size()) for _ in range(rank)]
        if dynamic and rank and (not position or graph.chance(0.5)):
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
