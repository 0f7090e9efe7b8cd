"""Operators that the converter from ONNX brings along: each goes back to the one it came from.

Others of that module are written out by their formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def _expand(invocation: Invocation) -> Exported:
    return invocation.emitter.expand(invocation.value(0), invocation.extents("shape"))


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
    """What only puts elements in place keeps their type; what adds them up computes."""
    return {
        f"onnx.{name}_{ours}": make(theirs)
        for ours, theirs in _REDUCTIONS.items()
        if (ours == "set") == moving
    }


MOVING: Mapping[str, ExportFunction] = {
    "onnx.gather": _gather,
    "onnx.gather_elements": _gather_elements,
    "onnx.gather_nd": _gather_nd,
    "onnx.expand": _expand,
    **_scatters("scatter_elements", _scatter_elements, moving=True),
    **_scatters("scatter_nd", _scatter_nd, moving=True),
}
COMPUTING: Mapping[str, ExportFunction] = {
    "onnx.round_even": _unary("Round"),
    "onnx.is_nan": _unary("IsNaN"),
    "onnx.is_inf": _is_inf,
    **_scatters("scatter_elements", _scatter_elements, moving=False),
    **_scatters("scatter_nd", _scatter_nd, moving=False),
}
