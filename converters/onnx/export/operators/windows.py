"""Convolution, its transposition, and pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.onnx.export.windowing import Windows, paddings, spatial, windows
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_MOST_DIMENSIONS = 3
"""Spatial dimensions that ONNX Runtime goes over."""


def _ordered(invocation: Invocation) -> tuple[list[int], list[int], list[Dimension], list[int]]:
    """The orders of data and filter, and their dimensions in ONNX's order."""
    rank = invocation.tensor(0).rank
    if rank - 2 > _MOST_DIMENSIONS:
        raise Inexpressible(f"ONNX Runtime has no convolution over {rank - 2} dimensions")
    data, filters = invocation.order("data_format"), invocation.order("filter_format")
    sizes = [invocation.shape(1)[axis] for axis in filters]
    static = [size for size in sizes if isinstance(size, int)]
    if len(static) < len(sizes):
        raise Inexpressible("the dimensions of its filter are known at run time only")
    return data, filters, [invocation.shape(0)[axis] for axis in data], static


def _check_finite(invocation: Invocation) -> None:
    """ONNX multiplies the filter with the zeros of the padding, which the draft skips."""
    array = invocation.known(invocation.tensor(1))
    if array is not None and not np.isfinite(array.astype(np.float64)).all():
        raise Inexpressible("its filter has elements that are not finite, and ONNX pads with zeros")


def _groups(invocation: Invocation, channels: Dimension) -> int:
    groups = invocation.number("groups") or channels
    if not isinstance(groups, int):
        raise Inexpressible("its number of groups is known at run time only")
    return groups


def _conv(invocation: Invocation) -> Exported:
    if invocation.tensor(0).rank == 2:
        return None
    emitter = invocation.emitter
    data, filters, inputs, sizes = _ordered(invocation)
    found = windows(invocation, inputs[2:], sizes[2:])
    value = emitter.permute(invocation.value(0), data)
    value = found.cropped(emitter, value, range(2, len(data)))
    if found.padded:
        _check_finite(invocation)
    weights = emitter.permute(invocation.value(1), filters)
    bias = [each for each in invocation.operands[2:] if isinstance(each, str)]
    made = emitter.node(
        "Conv",
        value,
        weights,
        *bias,
        kernel_shape=found.size,
        strides=found.stride,
        dilations=found.dilation,
        pads=found.pads,
        group=_groups(invocation, inputs[1]),
    )
    return emitter.permute(made, [data.index(axis) for axis in range(len(data))])


def _deconv(invocation: Invocation) -> Exported:
    """ConvTranspose; zeros are put around where the padding is negative."""
    if invocation.tensor(0).rank == 2:
        return None
    emitter = invocation.emitter
    data, filters, inputs, sizes = _ordered(invocation)
    before, after, extra = _turned(invocation, inputs[2:], sizes[2:])
    bias = [each for each in invocation.operands[2:] if isinstance(each, str)]
    _check_finite(invocation)
    negative = any(count < 0 for count in (*before, *after))
    made = emitter.node(
        "ConvTranspose",
        emitter.permute(invocation.value(0), data),
        emitter.permute(invocation.value(1), filters),
        *([] if negative else bias),
        kernel_shape=sizes[2:],
        strides=invocation.numbers("stride"),
        dilations=invocation.numbers("dilation"),
        pads=[max(0, count) for count in (*before, *after)],
        output_padding=extra if any(extra) else None,
        group=_groups(invocation, inputs[1]),
    )
    if negative:
        leading, trailing = ([0, 0, *(max(0, -n) for n in counts)] for counts in (before, after))
        made = emitter.pad(made, leading, trailing, invocation.scalar(0))
        for each in bias:
            channels = emitter.unsqueeze(each, list(range(1, len(data) - 1)))
            made = emitter.node("Add", made, channels)
    return emitter.permute(made, [data.index(axis) for axis in range(len(data))])


def _turned(
    invocation: Invocation, inputs: Sequence[Dimension], sizes: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The paddings of a transposed convolution, and what the output is longer than they say."""
    stride, dilation = invocation.numbers("stride"), invocation.numbers("dilation")
    spans = [(size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)]
    before, after = paddings(invocation)
    extra = [0] * len(sizes)
    if invocation.attribute("output_size") is not None:
        wanted = invocation.numbers("output_size")
        for axis, length in enumerate(inputs):
            if not isinstance(length, int):
                raise Inexpressible("its output's size is given, and its input's is not known")
            reach = (length - 1) * stride[axis] + spans[axis] - before[axis] - after[axis]
            extra[axis] = wanted[axis] - reach
    return before, after, extra


def _pooled(
    invocation: Invocation, operator: str, filling: float | None, **attributes: int
) -> str | None:
    """A pooling over any dimensions; None if a window could lie in the padding alone.

    ``filling`` is what may stand for the padding, such that there is none.
    """
    emitter, shape = invocation.emitter, invocation.shape(0)
    whole = windows(
        invocation, [shape[axis] for axis in invocation.axes()], invocation.numbers("size")
    )
    axes, found = _effective(invocation.axes(), whole)
    if not axes:
        return invocation.value(0)
    if len(axes) > _MOST_DIMENSIONS:
        raise Inexpressible(f"ONNX Runtime has no pooling over {len(axes)} dimensions")
    pads, value = found.pads, invocation.value(0)
    value = found.cropped(emitter, value, axes)
    if _is_wide(found):
        if filling is None:
            return None
        count = len(axes)
        around = {axis: (pads[n], pads[n + count]) for n, axis in enumerate(axes)}
        leading, trailing = (
            [around.get(axis, (0, 0))[side] for axis in range(len(shape))] for side in (0, 1)
        )
        value = emitter.pad(value, leading, trailing, invocation.scalar(filling))
        pads = [0] * len(pads)
        shape = _grown(shape, leading, trailing)
    shape = _shrunk(shape, axes, found)
    moved = spatial(emitter, value, shape, axes)
    made = emitter.node(
        operator,
        moved.value,
        kernel_shape=found.size,
        strides=found.stride,
        dilations=found.dilation if any(step != 1 for step in found.dilation) else None,
        pads=pads,
        **attributes,
    )
    return moved.restored(emitter, made, invocation.result.shape)


def _effective(axes: Sequence[int], found: Windows) -> tuple[list[int], Windows]:
    """The axes, in order, along which windows do anything."""
    columns = zip(
        axes, found.size, found.stride, found.dilation, found.before, found.after, strict=True
    )
    kept = sorted(each for each in columns if each[1:3] != (1, 1) or each[4] or each[5])
    parts = [list(column) for column in zip(*kept, strict=True)] or [[] for _ in range(6)]
    return parts[0], Windows(*parts[1:])


def _is_wide(found: Windows) -> bool:
    """Whether padding is as wide as windows, or lies between the elements that they take."""
    counts = zip(found.size, found.dilation, found.before, found.after, strict=True)
    return any(max(lead, trail) >= size for size, _, lead, trail in counts) or (
        found.padded and any(step > 1 for step in found.dilation)
    )


def _grown(
    shape: Sequence[Dimension], leading: Sequence[int], trailing: Sequence[int]
) -> tuple[Dimension, ...]:
    return tuple(
        dimensions.add(size, front + back)
        for size, front, back in zip(shape, leading, trailing, strict=True)
    )


def _shrunk(
    shape: Sequence[Dimension], axes: Sequence[int], found: Windows
) -> tuple[Dimension, ...]:
    result = list(shape)
    for axis, before, after in zip(axes, found.before, found.after, strict=True):
        result[axis] = dimensions.add(result[axis], min(0, before) + min(0, after))
    return tuple(result)


def _max_pool(invocation: Invocation) -> Exported:
    """MaxPool; ONNX Runtime begins with the least finite number, which may be all it finds."""
    emitter, start = invocation.emitter, len(invocation.emitter.nodes)
    made = _pooled(invocation, "MaxPool", float("-inf"))
    if made is None or not emitter.emitted("Pad", start):
        return made
    least = invocation.scalar(float(np.finfo(invocation.dtype).min))
    none = emitter.node("Equal", made, least)
    return emitter.node("Where", none, invocation.scalar(float("-inf")), made)


def _sum_pool(invocation: Invocation) -> Exported:
    """The mean with zeros for the border, times the number of elements."""
    mean = _pooled(invocation, "AveragePool", 0.0, count_include_pad=1)
    if mean is None:
        return None
    count = prod(invocation.numbers("size"))
    return invocation.emitter.node("Mul", mean, invocation.scalar(count))


def _avg_pool(invocation: Invocation) -> Exported:
    if invocation.attribute("ignore_border"):
        return _pooled(invocation, "AveragePool", None, count_include_pad=0)
    return _pooled(invocation, "AveragePool", 0.0, count_include_pad=1)


COMPUTING: Mapping[str, ExportFunction] = {
    "nn.conv": _conv,
    "nn.deconv": _deconv,
    "nn.max_pool": _max_pool,
    "nn.sum_pool": _sum_pool,
    "nn.avg_pool": _avg_pool,
}
