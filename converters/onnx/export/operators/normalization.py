"""Normalization, for the cases in which ONNX means the same; the others are opened."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation


def _softmax(invocation: Invocation) -> Exported:
    axes = invocation.axes()
    if len(axes) != 1 or 0 in invocation.shape(0):
        return None
    return invocation.emitter.node("Softmax", invocation.value(0), axis=axes[0])


def _channels(invocation: Invocation, operand: int, value: float, axis: int) -> str:
    """An operand with an element for each channel, or a constant where it is null."""
    given = invocation.operands[operand]
    if isinstance(given, str):
        return given
    size = invocation.shape(0)[axis]
    if isinstance(size, int):
        return invocation.emitter.constant(np.full(size, value), invocation.dtype)
    return invocation.emitter.expand(invocation.scalar(value), [size])


def _batch_norm(invocation: Invocation) -> Exported:
    """BatchNormalization: its channels are dimension 1, its operands are in another order."""
    rank, epsilon = invocation.tensor(0).rank, invocation.real("epsilon")
    axis = invocation.axis("channel_axis")
    if rank < 2 or not invocation.holds(epsilon):
        return None
    emitter = invocation.emitter
    # a permutation that is its own inverse
    order = list(range(rank))
    order[1], order[axis] = axis, 1
    data = emitter.permute(invocation.value(0), order)
    bias, scale = (_channels(invocation, *row, axis) for row in ((3, 0.0), (4, 1.0)))
    mean, variance = invocation.value(1), invocation.value(2)
    made = emitter.node("BatchNormalization", data, scale, bias, mean, variance, epsilon=epsilon)
    return emitter.permute(made, order)


def _mean_variance_norm(invocation: Invocation) -> Exported:
    """InstanceNormalization, where the spatial dimensions are normalized."""
    rank, epsilon = invocation.tensor(0).rank, invocation.real("epsilon")
    spatial = sorted(invocation.axes()) == list(range(2, rank))
    if rank < 3 or not spatial or not invocation.holds(epsilon) or 0 in invocation.shape(0):
        return None
    bias, scale = (_channels(invocation, *row, 1) for row in ((1, 0.0), (2, 1.0)))
    return invocation.emitter.node(
        "InstanceNormalization", invocation.value(0), scale, bias, epsilon=epsilon
    )


def _local_response_norm(invocation: Invocation) -> Exported:
    """LRN over channels; ONNX Runtime takes images and windows of odd size only."""
    size, rank = invocation.numbers("size"), invocation.tensor(0).rank
    numbers = [invocation.real(name) for name in ("alpha", "beta", "bias")]
    if invocation.axes() != [1] or rank != 4 or size[0] % 2 == 0:
        return None
    if not invocation.holds(*numbers):
        return None
    alpha, beta, bias = numbers
    return invocation.emitter.node(
        "LRN", invocation.value(0), size=size[0], alpha=alpha, beta=beta, bias=bias
    )


COMPUTING: Mapping[str, ExportFunction] = {
    "nn.softmax": _softmax,
    "nn.batch_norm": _batch_norm,
    "nn.mean_variance_norm": _mean_variance_norm,
    "nn.local_response_norm": _local_response_norm,
}
