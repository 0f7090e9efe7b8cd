"""Quantization as pairs of QuantizeLinear and DequantizeLinear.

ONNX rounds halves to even and ``quant`` away from zero, so that a real in the middle of two codes
may get the other one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_nnef.arrays.coded_arrays import limits
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation

_BYTE = 8


def _zero_point(invocation: Invocation) -> Exported:
    """Export codes of 8 bits with one scale; others are exported as formulas."""
    zeros, scales = set(invocation.numbers("zero_point")), _different(invocation, "scale")
    is_byte = invocation.number("bits") == _BYTE and not invocation.attribute("symmetric")
    if not is_byte or len(zeros) != 1 or len(scales) != 1 or invocation.dtype != "float32":
        return None
    dtype = "int8" if invocation.attribute("signed") else "uint8"
    (zero,), (scale,), (low, high) = zeros, scales, limits(dtype)
    if not low <= zero <= high:
        return None
    emitter = invocation.emitter
    by = emitter.constant(np.float32(scale), "float32"), emitter.constant(zero, dtype)
    return emitter.node(
        "DequantizeLinear", emitter.node("QuantizeLinear", invocation.value(0), *by), *by
    )


def _different(invocation: Invocation, name: str) -> set[float]:
    """Return the different numbers of a pack."""
    pack = invocation.attribute(name)
    assert isinstance(pack, tuple)
    return {float(value) for value in pack if isinstance(value, (int, float))}


def _unpack(invocation: Invocation) -> Exported:
    """Export codes of 8 bits, which are bytes as they are."""
    if invocation.number("bits") != _BYTE or invocation.own_dtype(0) != invocation.dtype:
        return None
    return invocation.value(0)


def _dequantize(invocation: Invocation) -> Exported:
    """Export codes with a scale for all, or for each index along one axis."""
    shape, scales = invocation.tensor(0).shape, invocation.tensor(1).shape
    axes = [axis for axis, size in enumerate(scales) if size != 1]
    dtype, zero = invocation.own_dtype(0), invocation.real("zero") or 0.0
    whole = dtype in ("uint8", "int8", "int32") and zero.is_integer()
    if not whole or len(axes) > 1 or any(scales[axis] != shape[axis] for axis in axes):
        return None
    if invocation.optional(2) is not None or (dtype == "int32" and zero):
        return None
    emitter = invocation.emitter
    axis = axes[0] if axes else 0
    count = [scales[axis]] if axes else []
    scale = emitter.reshape(invocation.value(1), scales, count)
    at_zero = emitter.constant(np.full(count, zero), dtype)
    return emitter.node("DequantizeLinear", invocation.value(0), scale, at_zero, axis=axis)


COMPUTING: Mapping[str, ExportFunction] = {
    "quant.zero_point_linear_quantize": _zero_point,
}

MOVING: Mapping[str, ExportFunction] = {
    "nbits.unpack": _unpack,
    "nbits.dequantize": _dequantize,
}
