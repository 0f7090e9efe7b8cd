"""Elements by data-dependent positions: gathers, scatters, the largest, the best boxes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import dimensions


def _gather(invocation: Invocation) -> Exported:
    index = invocation.positions(1)
    return invocation.emitter.node("Gather", invocation.value(0), index, axis=invocation.axis())


def _gather_nd(invocation: Invocation) -> Exported:
    if invocation.shape(1)[-1] == 0:
        return None
    return invocation.emitter.node(
        "GatherND",
        invocation.value(0),
        invocation.positions(1),
        batch_dims=invocation.number("batch_dims"),
    )


def _scatter(invocation: Invocation) -> Exported:
    return invocation.emitter.node(
        "ScatterElements",
        invocation.value(0),
        invocation.positions(1),
        invocation.value(2),
        axis=invocation.axis(),
    )


def _scatter_nd(invocation: Invocation) -> Exported:
    """ScatterND, which knows no batch: its numbers are put before the positions."""
    if invocation.shape(1)[-1] == 0:
        return None
    emitter, batch = invocation.emitter, invocation.number("batch_dims")
    index, shape = invocation.positions(1), invocation.shape(1)
    if batch:
        static = [size for size in shape if isinstance(size, int)]
        if len(static) < len(shape):
            raise Inexpressible("its batch is known at run time only")
        grid = np.stack(list(np.indices(static[:-1])[:batch]), -1)
        index = emitter.node("Concat", emitter.constant(grid, "int64"), index, axis=-1)
    return emitter.node("ScatterND", invocation.value(0), index, invocation.value(2))


def _nonzero(invocation: Invocation) -> Exported:
    """NonZero of truth values, which ONNX Runtime takes; of a scalar it gives a row too many."""
    emitter, tensor = invocation.emitter, invocation.tensor(0)
    true = emitter.cast(invocation.value(0), invocation.dtypes[tensor.type], "bool")
    found = emitter.node("NonZero", true)
    if not tensor.rank:
        found = emitter.slice(found, [0], [0], [0])
    return emitter.cast(found, "int64", invocation.dtype)


def _top_k(invocation: Invocation) -> Exported:
    emitter, axis = invocation.emitter, invocation.axis()
    values = invocation.operation.results[0]
    assert isinstance(values, Tensor)
    count = emitter.shape([dimensions.minimum(invocation.number("k"), invocation.shape(0)[axis])])
    best, positions = emitter.nodes_of(
        "TopK",
        [invocation.value(0), count],
        2,
        axis=axis,
        largest=int(bool(invocation.attribute("largest"))),
        sorted=1,
    )
    return best, emitter.cast(positions, "int64", invocation.dtypes["int"])


def _nonmax_suppress(invocation: Invocation) -> Exported:
    emitter = invocation.emitter
    threshold = invocation.real("score_threshold")
    scalars = [
        emitter.constant([invocation.number("max_outputs_per_class")], "int64"),
        emitter.constant([invocation.real("iou_threshold") or 0.0], "float32"),
    ]
    if threshold is not None:
        scalars.append(emitter.constant([threshold], "float32"))
    boxes, scores = (
        emitter.cast(invocation.value(position), invocation.dtypes["real"], "float32")
        for position in (0, 1)
    )
    chosen = emitter.node(
        "NonMaxSuppression",
        boxes,
        scores,
        *scalars,
        center_point_box=int(invocation.attribute("box_format") == "CENTER"),
    )
    return emitter.cast(chosen, "int64", invocation.dtype)


MOVING: Mapping[str, ExportFunction] = {
    "layout.gather": _gather,
    "layout.gather_nd": _gather_nd,
    "layout.scatter": _scatter,
    "layout.scatter_nd": _scatter_nd,
}
COMPUTING: Mapping[str, ExportFunction] = {
    "layout.nonzero": _nonzero,
    "algo.top_k": _top_k,
    "algo.nonmax_suppress": _nonmax_suppress,
}
