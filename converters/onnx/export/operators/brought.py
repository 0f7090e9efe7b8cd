"""Operators that the converter from ONNX adds: each goes back to its ONNX operator.

Others of that module are written out by their formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation

_REDUCTIONS: Mapping[str, str] = {
    "set": "none", "add": "add", "mul": "mul", "max": "max", "min": "min",
}  # fmt: skip


def _gather(invocation: Invocation) -> Exported:
    positions = invocation.positions(1)
    return invocation.emitter.node(
        "Gather", invocation.value(0), positions, axis=invocation.number("axis")
    )


def _gather_elements(invocation: Invocation) -> Exported:
    positions = invocation.positions(1)
    return invocation.emitter.node(
        "GatherElements", invocation.value(0), positions, axis=invocation.number("axis")
    )


def _gather_nd(invocation: Invocation) -> Exported:
    if invocation.shape(1)[-1] == 0:
        return None
    positions = invocation.positions(1)
    return invocation.emitter.node(
        "GatherND", invocation.value(0), positions, batch_dims=invocation.number("batch_dims")
    )


def _scatter_elements(reduction: str) -> ExportFunction:
    def function(invocation: Invocation) -> Exported:
        if not invocation.tensor(0).rank:
            return None
        data, updates = invocation.value(0), invocation.value(2)
        axis = invocation.number("axis")
        return invocation.emitter.node(
            "ScatterElements", data, invocation.positions(1), updates, axis=axis,
            reduction=reduction,
        )  # fmt: skip

    return function


def _scatter_nd(reduction: str) -> ExportFunction:
    def function(invocation: Invocation) -> Exported:
        if invocation.shape(1)[-1] == 0:
            return None
        data, updates = invocation.value(0), invocation.value(2)
        return invocation.emitter.node(
            "ScatterND", data, invocation.positions(1), updates, reduction=reduction
        )

    return function


def _at_axes(invocation: Invocation) -> Exported:
    """Numbers put at axes, which may count from the end, as those of ScatterElements do."""
    emitter, dtype = invocation.emitter, invocation.dtype
    filled = np.full(invocation.number("rank"), invocation.number("others"))
    others = emitter.constant(filled, dtype)
    return emitter.node(
        "ScatterElements", others, invocation.positions(1), invocation.value(0), axis=0
    )


def _reduced(reduction: str, start: Callable[[str], float]) -> ExportFunction:
    """Elements reduced into the positions given by their coordinates times strides."""

    def function(invocation: Invocation) -> Exported:
        emitter, shape = invocation.emitter, invocation.shape(0)
        static = [size for size in shape if isinstance(size, int)]
        volume = invocation.attribute("volume")
        if len(static) < len(shape) or not isinstance(volume, int):
            raise Inexpressible("the dimensions that it reduces are known at run time only")
        beginning = emitter.constant(np.full(volume, start(invocation.dtype)), invocation.dtype)
        if 0 in static:
            return beginning
        grid = np.stack([each.reshape(-1) for each in np.indices(static)], -1)
        positions = emitter.node("MatMul", emitter.constant(grid, "int64"), invocation.positions(1))
        elements = emitter.reshape(invocation.value(0), shape, [len(grid)])
        return emitter.node(
            "ScatterElements", beginning, positions, elements,
            axis=0, reduction=reduction,
        )  # fmt: skip

    return function


def _least(dtype: str) -> float:
    return -np.inf if np.dtype(dtype).kind == "f" else int(np.iinfo(dtype).min)


def _largest_number(dtype: str) -> float:
    return np.inf if np.dtype(dtype).kind == "f" else int(np.iinfo(dtype).max)


def _compress(invocation: Invocation) -> Exported:
    """The slices that are kept; that they are as many as declared is the model's own business."""
    emitter, condition = invocation.emitter, invocation.value(1)
    true = emitter.cast(condition, invocation.own_dtype(1), "bool")
    return emitter.node("Compress", invocation.value(0), true, axis=invocation.number("axis"))


def _nonzero(invocation: Invocation) -> Exported:
    if not invocation.tensor(0).rank:
        return None
    found = invocation.emitter.node("NonZero", invocation.value(0))
    return invocation.emitter.cast(found, "int64", invocation.dtype)


def _expand(invocation: Invocation) -> Exported:
    return invocation.emitter.expand(invocation.value(0), invocation.sizes("shape"))


def _unary(operator: str) -> ExportFunction:
    return lambda invocation: invocation.emitter.node(operator, invocation.value(0))


def _is_inf(invocation: Invocation) -> Exported:
    return invocation.emitter.node(
        "IsInf",
        invocation.value(0),
        detect_negative=int(bool(invocation.attribute("negative"))),
        detect_positive=int(bool(invocation.attribute("positive"))),
    )


def _scatters(
    name: str, make: Callable[[str], ExportFunction], *, moving: bool
) -> dict[str, ExportFunction]:
    """Return the exporters of scatters: those that move elements, or those that add them up."""
    return {
        f"extra.{name}_{ours}": make(theirs)
        for ours, theirs in _REDUCTIONS.items()
        if (ours == "set") == moving
    }


MOVING: Mapping[str, ExportFunction] = {
    "extra.gather": _gather,
    "extra.gather_elements": _gather_elements,
    "extra.gather_nd": _gather_nd,
    "extra.expand": _expand,
    "extra.stretch": _expand,
    "extra.compress": _compress,
    **_scatters("scatter_elements", _scatter_elements, moving=True),
    **_scatters("scatter_nd", _scatter_nd, moving=True),
}
COMPUTING: Mapping[str, ExportFunction] = {
    "extra.round_even": _unary("Round"),
    "extra.is_nan": _unary("IsNaN"),
    "extra.is_inf": _is_inf,
    "extra.nonzero": _nonzero,
    "extra.at_axes": _at_axes,
    "onnx.sum_at": _reduced("add", lambda _: 0),
    "onnx.prod_at": _reduced("mul", lambda _: 1),
    "onnx.max_at": _reduced("max", _least),
    "onnx.min_at": _reduced("min", _largest_number),
    **_scatters("scatter_elements", _scatter_elements, moving=False),
    **_scatters("scatter_nd", _scatter_nd, moving=False),
}
