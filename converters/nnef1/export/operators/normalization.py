"""Normalizations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.operators.elementwise import leading
from tvm_nnef.converters.nnef1.export.values import Value


def _batch(invocation: Invocation) -> Exported:
    emitter, axis = invocation.emitter, invocation.axis("channel_axis")

    def channels(operand: int, default: float) -> Value:
        value = invocation.optional(operand)
        return emitter.number(default) if value is None else leading(value, axis, emitter)

    mean, variance = channels(1, 0.0), channels(2, 1.0)
    offset, scale = channels(3, 0.0), channels(4, 1.0)
    epsilon = invocation.real("epsilon")
    return invocation.call(
        "batch_normalization", invocation.value(0), mean, variance, offset, scale, epsilon=epsilon
    )


def _local_response(invocation: Invocation) -> Exported:
    size = [1] * invocation.rank
    for axis, each in zip(invocation.axes(), invocation.numbers("size"), strict=True):
        size[axis] = each
    numbers = {name: invocation.real(name) for name in ("alpha", "beta", "bias")}
    return invocation.call(
        "local_response_normalization", invocation.value(0), size=size, **numbers
    )


def _norm(operation: str, invocation: Invocation) -> Exported:
    if not invocation.axes():
        return None
    numbers = {name: invocation.real(name) for name in ("bias", "epsilon")}
    return invocation.call(operation, invocation.value(0), axes=invocation.axes(), **numbers)


TABLE: Mapping[str, ExportFunction] = {
    "nn.batch_norm": _batch,
    "nn.local_response_norm": _local_response,
    "nn.l1_norm": partial(_norm, "l1_normalization"),
    "nn.l2_norm": partial(_norm, "l2_normalization"),
}
