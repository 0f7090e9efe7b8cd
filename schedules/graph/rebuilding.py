"""Stages as tensor expressions again: a stage in, a function for ``call_te`` out.

With it a kernel is taken apart into calls of one stage each, or gets tensors whose dimensions are
stored in another order. What is computed stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import te, tirx

from tvm_nnef.schedules.stages import Axis, Kernel, Stage, substituted
from tvm_nnef.tvm_compat import BUFFER_LOAD, dtype_of

Order = tuple[int, ...]


def tensors_of(
    kernel: Kernel, arguments: Sequence[Any], orders: Mapping[Any, Order]
) -> dict[Any, Any]:
    """The ``te`` tensor of each buffer of a kernel.

    ``arguments`` are the tensors of its parameters without the results; ``orders`` tells of some
    buffers in which order the dimensions of their tensors are.
    """
    results = [stage.buffer for stage in kernel.results]
    inputs = [p for p in kernel.parameters if not any(p.same_as(r) for r in results)]
    tensors: dict[Any, Any] = dict(zip(inputs, arguments, strict=True))
    for stage in kernel.stages:
        tensors[stage.buffer] = tensor_of(stage, tensors, orders)
    return tensors


def tensor_of(stage: Stage, tensors: Mapping[Any, Any], orders: Mapping[Any, Order]) -> Any:
    """The tensor that a stage computes from those of other buffers."""
    order = orders.get(stage.buffer, tuple(range(len(stage.axes))))
    shape = [_extent(stage.axes[dimension]) for dimension in order]
    reduced = [
        te.reduce_axis((tirx.const(0, dtype_of(axis.var)), _extent(axis)), str(axis.var.name))
        for axis in stage.reduced
    ]

    def loaded(load: Any) -> Any:
        tensor = tensors[load.source]
        places = orders.get(load.source, tuple(range(len(load.indices))))
        return tensor(*(load.indices[dimension] for dimension in places))

    def element(*indices: Any) -> Any:
        values = {stage.axes[d].var: index for d, index in zip(order, indices, strict=True)}
        values.update({a.var: r.var for a, r in zip(stage.reduced, reduced, strict=True)})
        value = tvm_ffi.structural_map(substituted(stage.value, values), (BUFFER_LOAD, loaded))
        if not reduced:
            return value
        reducer = te.comm_reducer(
            lambda a, b: stage.combine(a, b), lambda dtype: stage.init, name="combine"
        )
        return reducer(value, axis=reduced)

    return te.compute(shape, element, name=str(stage.buffer.name))


def _extent(axis: Axis) -> Any:
    """An extent in the type of its axis, which its variable then has too."""
    return tirx.const(axis.extent, dtype_of(axis.var))
