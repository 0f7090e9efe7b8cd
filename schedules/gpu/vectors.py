"""Adjacent elements that a thread of CUDA loads and stores as vectors of up to 16 bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.codegen.cuda_functions import copied
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import loads, mentions, nodes, substituted
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of


def is_vector(load: TensorLoad, var: tirx.Var, lanes: int) -> bool:
    """Whether a load moves along a variable by adjacent elements, which are aligned if it is.

    The variable is aligned if ``lanes`` divides it.
    """
    if stride_of(load, var) != 1:
        return False
    lane = tirx.const(lanes, dtype_of(var))
    stride: sizes.Extent = 1
    for index, extent in zip(reversed(load.indices), reversed(load.source.shape), strict=True):
        moved = sizes.simplified(sizes.extent(substituted(index, {var: var * lane})))
        if sizes.factor(moved) * sizes.factor(stride) % lanes and moved != 0:
            return False
        stride = sizes.product([stride, sizes.extent(extent)])
    return True


def loaded_as_vectors(value: PrimExpression, axes: Sequence[Axis], lanes: int) -> list[TensorLoad]:
    """Return the loads of a value that a thread can vectorize along the last axis.

    Loads under a condition may lie outside of their buffer, so they are excluded.
    """
    bound = [let.var for let in nodes(value, tirx.Let)]
    chooses = bool(nodes(value, tirx.Select, tirx.And, tirx.Or))
    vectorizable: list[TensorLoad] = []
    for load in loads(value):
        is_new = not any(tvm_ffi.structural_equal(load, other) for other in vectorizable)
        certain = not chooses or _is_inside(load, axes)
        unbound = not any(mentions(index, bound) for index in load.indices)
        if is_new and certain and unbound and is_vector(load, axes[-1].var, lanes):
            vectorizable.append(load)
    return vectorizable


def _is_inside(load: TensorLoad, axes: Sequence[Axis]) -> bool:
    """Whether a load is certainly inside of its buffer, at every point of some axes."""
    extents = {axis.var: axis.extent for axis in axes}

    def inside(index: PrimExpression, size: sizes.Extent) -> bool:
        if isinstance(index, tirx.IntImm):
            return sizes.is_below(int(index.value), size)
        return isinstance(index, tirx.Var) and (
            index in extents and sizes.is_at_most(extents[index], size)
        )

    return all(map(inside, load.indices, map(sizes.extent, load.source.shape)))


def elementwise(
    stored: TensorLoad,
    value: PrimExpression,
    axes: Sequence[Axis],
    lanes: int,
    point: launch.Point,
) -> tirx.Stmt:
    """Return a value for adjacent elements along the last axis, from a point on, stored as a
    vector.
    """
    var = axes[-1].var
    loaded = {
        load: launch.local(lanes, str(load.source.dtype), "loaded")
        for load in loaded_as_vectors(value, axes, lanes)
    }
    results = launch.local(lanes, str(stored.source.dtype), "results")

    def at(number: int) -> tuple[PrimExpression]:
        return (tirx.const(number, dtype_of(var)),)

    def element(number: int) -> tirx.Stmt:
        def replaced(load: TensorLoad) -> PrimExpression:
            same = (b for each, b in loaded.items() if tvm_ffi.structural_equal(each, load))
            buffer = next(same, None)
            return load if buffer is None else buffer[at(number)]

        own = traversal.mapped(value, (TensorLoad, replaced))
        moved = {**point, var: point[var] + tirx.const(number, dtype_of(var))}
        return tirx.BufferStore(results, substituted(own, moved), at(number))

    copies = [
        copied(buffer[at(0)], substituted(load, point), lanes) for load, buffer in loaded.items()
    ]
    return emit.sequence(
        [
            *map(tirx.AllocBuffer, (*loaded.values(), results)),
            *copies,
            *map(element, range(lanes)),
            copied(substituted(stored, point), results[at(0)], lanes),
        ]
    )


def in_vectors(
    extent: sizes.Extent,
    lanes: int,
    first: PrimExpression,
    vector: tirx.Stmt,
    element: Callable[[PrimExpression], tirx.Stmt],
) -> tirx.Stmt:
    """Return the vector from an index on, or the single elements after the last whole vector."""
    if sizes.is_divisible(extent, lanes):
        return vector
    dtype = dtype_of(first)
    end = sizes.number(extent, dtype)

    def rest(lane: PrimExpression) -> tirx.Stmt:
        return launch.guarded([(first + lane, extent)], element(first + lane))

    whole = first + tirx.const(lanes, dtype) <= end
    return tirx.IfThenElse(whole, vector, emit.loop(lanes, rest, name="lane", dtype=dtype))
