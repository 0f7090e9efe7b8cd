"""Windows over spatial dimensions: convolutions and pooling.

Paddings are always computed here and written out, because what ONNX calls SAME and ceil_mode are
not what SkriptND means by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, maximum, minimum, number, numbers
from tvm_nnef.converters.common.tensors import Attribute, Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.common.windows import Geometry, unless_ones
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator

_finfo: Any = ml_dtypes.finfo


@dataclass(frozen=True, slots=True)
class Window(Geometry):
    """A window's geometry, a number for each spatial dimension; ``out`` is the result's shape.

    ``before`` and ``after`` are what the model asks for; :meth:`padding` is what makes exactly
    ``out`` windows.
    """

    ceil: bool

    @property
    def padding(self) -> list[Size]:
        """Counts in front, then after."""
        if not self.ceil:
            return [*self.before, *self.after]
        return [*self.before, *self.covered_after]

    def counts(self, border: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """For each window, how many of its elements count: those in the input, or padding too."""
        columns = []
        for size, stride, dilation, before, after, inside, out in zip(
            self.size, self.stride, self.dilation, self.before, self.after, self.inside, self.out,
            strict=True,
        ):  # fmt: skip
            front, back = number(before), number(after)
            positions = (
                np.arange(number(out))[:, None] * stride + np.arange(size) * dilation - front
            )
            low, high = (-front, number(inside) + back) if border else (0, number(inside))
            columns.append(((positions >= low) & (positions < high)).sum(1).astype(np.float64))
        found: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = columns[0]
        for column in columns[1:]:
            found = found[..., None] * column
        return found


def window_of(node: Node, inside: Sequence[Size], size: Sequence[int]) -> Window:
    """The window of a convolution or pooling node over spatial dimensions ``inside``."""
    rank = len(inside)
    stride = node.integers("strides") or [1] * rank
    dilation = node.integers("dilations") or [1] * rank
    pads = node.integers("pads") or [0] * (2 * rank)
    auto, ceil = node.text("auto_pad", "NOTSET"), node.flag("ceil_mode")
    before, after = list[Size](pads[:rank]), list[Size](pads[rank:])
    out: list[Size] = []
    for axis in range(rank):
        reach = (size[axis] - 1) * dilation[axis] + 1
        length, step = inside[axis], stride[axis]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            count = -(-length // step)
            total = maximum((count - 1) * step + reach - length, 0)
            smaller, larger = total // 2, total - total // 2
            before[axis], after[axis] = (
                (smaller, larger) if auto == "SAME_UPPER" else (larger, smaller)
            )
        elif auto == "VALID":
            before[axis] = after[axis] = 0
        room = length + before[axis] + after[axis] - reach
        count = room // step + 1
        if ceil:
            count = -(-room // step) + 1
            # The last window must begin in the input or the padding before it.
            count = minimum(count, (length + before[axis] - 1) // step + 1)
        if isinstance(count, int) and count < 1:
            padded = length + before[axis] + after[axis]
            reason = f"its window takes {reach} elements of axis {axis + 2}, which has {padded}"
            raise Unconvertible(reason, "use larger inputs", mismatch=True)
        out.append(count)
    return Window(
        tuple(size), tuple(stride), tuple(dilation), tuple(before), tuple(after), tuple(inside),
        tuple(out), ceil,
    )  # fmt: skip


@operator("Conv")
def conv(node: Node, builder: Builder) -> Tensor:
    """A convolution."""
    return convolution(node, node.input(0), node.input(1), node.optional(2), builder)


def convolution(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None, builder: Builder
) -> Tensor:
    """A convolution of reals, or of integers without bias."""
    window = window_of(node, x.shape[2:], numbers(weight.shape[2:]))
    shape = (x.shape[0], weight.shape[0], *window.out)
    groups = node.integer("group", 1)
    name = "nn.conv" if x.kind == "real" else "onnx.conv"
    extra = (bias,) if bias is not None else ()
    return builder.call(
        name, x, weight, *extra, as_shape=shape,
        stride=unless_ones(window.stride), dilation=unless_ones(window.dilation),
        padding=window.padding, groups=None if groups == 1 else groups,
    )  # fmt: skip


@operator("ConvTranspose")
def conv_transpose(node: Node, builder: Builder) -> Tensor:
    """A transposed convolution."""
    x, weight, bias = node.input(0), node.input(1), node.optional(2)
    rank, groups = x.rank - 2, node.integer("group", 1)
    stride = node.integers("strides") or [1] * rank
    dilation = node.integers("dilations") or [1] * rank
    extra = node.integers("output_padding") or [0] * rank
    before, after = _transposed_pads(node, x, weight, stride, dilation, extra)
    out = [
        stride[axis] * (x.shape[axis + 2] - 1) + extra[axis]
        + (weight.shape[axis + 2] - 1) * dilation[axis] + 1 - before[axis] - after[axis]
        for axis in range(rank)
    ]  # fmt: skip
    shape = (x.shape[0], weight.shape[1] * groups, *out)
    more = (bias,) if bias is not None else ()
    # Output padding is the same as less padding after the data, also if it exceeds the stride.
    padding = [*before, *(end - added for end, added in zip(after, extra, strict=True))]
    return builder.call(
        "nn.deconv", x, weight, *more, as_shape=shape, stride=list(stride),
        dilation=list(dilation), padding=padding, groups=groups,
    )  # fmt: skip


def _transposed_pads(
    node: Node,
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    dilation: Sequence[int],
    extra: Sequence[int],
) -> tuple[list[Size], list[Size]]:
    rank = x.rank - 2
    pads = node.integers("pads") or [0] * (2 * rank)
    before, after = list[Size](pads[:rank]), list[Size](pads[rank:])
    auto, wanted = node.text("auto_pad", "NOTSET"), node.integers("output_shape")
    if auto == "VALID":
        before, after = [0] * rank, [0] * rank
    if wanted is None and auto not in ("SAME_UPPER", "SAME_LOWER"):
        return before, after
    for axis in range(rank):
        reach = (number(weight.shape[axis + 2]) - 1) * dilation[axis] + 1
        length = x.shape[axis + 2]
        size = length * stride[axis] if wanted is None else wanted[axis - rank]
        total = stride[axis] * (length - 1) + extra[axis] + reach - size
        half = total // 2
        before[axis], after[axis] = (
            (half, total - half) if auto == "SAME_UPPER" else (total - half, half)
        )
    return before, after


@operator("MaxPool")
def max_pool(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """The largest element of each window, and its position in the tensor."""
    x = node.input(0)
    window = window_of(node, x.shape[2:], node.integers("kernel_shape") or [])
    shape = (*x.shape[:2], *window.out)
    axes = list(range(2, x.rank))
    name = "nn.max_pool" if x.kind == "real" else "onnx.max_pool"
    values = builder.call(name, x, as_shape=shape, axes=axes, more=_geometry(window))
    if x.kind == "real" and _may_miss(window):
        # ONNX Runtime begins with the lowest finite number, not with the infinity.
        values = builder.binary("math.max", values, float(_finfo(x.dtype).min))
    if not node.wants(1):
        return (values,)
    position = builder.call(
        "extra.max_pool_positions", x, values, as_type="int64", as_shape=shape,
        more=_geometry(window), strides=_strides(x.shape, bool(node.integer("storage_order"))),
    )  # fmt: skip
    return values, position


def _geometry(window: Window) -> dict[str, Attribute | None]:
    return {
        "size": list(window.size),
        "stride": list(window.stride),
        "dilation": list(window.dilation),
        "padding": window.padding,
    }


def _strides(shape: Sequence[Size], columns_first: bool) -> list[Size]:
    """Return the strides of a flattened tensor."""
    spatial = list(shape[2:])
    order = range(len(spatial)) if columns_first else reversed(range(len(spatial)))
    strides: list[Size] = [0] * len(spatial)
    step: Size = 1
    for axis in order:
        strides[axis], step = step, step * spatial[axis]
    return [step * shape[1], step, *strides]


@operator("AveragePool")
def average_pool(node: Node, builder: Builder) -> Tensor:
    """The mean of each window, of its elements in the input or with the padding."""
    x = node.input(0)
    window = window_of(node, x.shape[2:], node.integers("kernel_shape") or [])
    shape = (*x.shape[:2], *window.out)
    axes, border = list(range(2, x.rank)), node.flag("count_include_pad")
    plain = {"axes": axes, **_geometry(window)}
    if not any((*window.before, *window.after)) and not window.ceil:
        return builder.call("nn.avg_pool", x, as_shape=shape, ignore_border=False, more=plain)
    if not border:
        counts = _counts_inside(window, x.dtype, plain, builder)
        if counts is None:
            return builder.call("nn.avg_pool", x, as_shape=shape, more=plain)
    else:
        counts = None if not window.ceil else _counts(window, x.dtype, plain, builder)
    if counts is None:
        return builder.call("nn.avg_pool", x, as_shape=shape, ignore_border=False, more=plain)
    total = builder.call("nn.sum_pool", x, as_shape=shape, more=plain)
    return builder.binary("math.div", total, counts)


def _counts_inside(
    window: Window, dtype: str, geometry: Mapping[str, Attribute | None], builder: Builder
) -> Tensor | None:
    """Return the number of input elements in each window, at least 1; None if all have some.

    A dilated window may have all of its elements in the padding. Its mean is 0, as ONNX Runtime
    computes it.
    """
    if not _may_miss(window):
        return None
    if all(isinstance(each, int) for each in (*window.inside, *window.out)):
        return builder.constant(np.maximum(window.counts(False), 1.0), dtype)
    ones = builder.full(1.0, (1, 1, *window.inside), dtype)
    found = builder.call("nn.sum_pool", ones, as_shape=(1, 1, *window.out), more=geometry)
    return builder.binary("math.max", found, 1.0)


def _may_miss(window: Window) -> bool:
    """Whether all elements of a dilated window may be in the padding."""
    if all(each == 1 for each in window.dilation):
        return False
    if all(isinstance(each, int) for each in (*window.inside, *window.out)):
        return not window.counts(False).all()
    return True


def _counts(
    window: Window, dtype: str, geometry: Mapping[str, Attribute | None], builder: Builder
) -> Tensor | None:
    """Return the number of elements of input and padding in each window, None if all are equal."""
    if all(isinstance(each, int) for each in (*window.inside, *window.out)):
        known = window.counts(True)
        return None if (known == prod(window.size)).all() else builder.constant(known, dtype)
    rank = len(window.size)
    missing = [all_ - own for all_, own in zip(window.padding[rank:], window.after, strict=True)]
    padded = [sum(sizes) for sizes in zip(window.inside, window.before, window.after, strict=True)]
    ones = builder.full(1.0, (1, 1, *padded), dtype)
    return builder.call(
        "nn.sum_pool", ones, as_shape=(1, 1, *window.out),
        more={**geometry, "padding": [*([0] * rank), *missing]},
    )  # fmt: skip


@operator("LpPool")
def lp_pool(node: Node, builder: Builder) -> Tensor:
    """The Lp norm of each window."""
    x = node.input(0)
    window = window_of(node, x.shape[2:], node.integers("kernel_shape") or [])
    return builder.call(
        "nn.lp_pool", x, as_shape=(*x.shape[:2], *window.out), axes=list(range(2, x.rank)),
        p=float(node.attributes.get("p", 2)), more=_geometry(window),
    )  # fmt: skip


@operator("GlobalAveragePool")
def global_average_pool(node: Node, builder: Builder) -> Tensor:
    """The mean over all spatial dimensions."""
    return _globally("math.mean_reduce", node.input(0), builder)


@operator("GlobalMaxPool")
def global_max_pool(node: Node, builder: Builder) -> Tensor:
    """The largest element over all spatial dimensions."""
    return _globally("math.max_reduce", node.input(0), builder)


@operator("GlobalLpPool")
def global_lp_pool(node: Node, builder: Builder) -> Tensor:
    """The Lp norm over all spatial dimensions."""
    p = float(node.attributes.get("p", 2))
    return _globally("math.lp_reduce", node.input(0), builder, p=p)


def _globally(name: str, x: Tensor, builder: Builder, **attributes: float) -> Tensor:
    axes = list(range(2, x.rank))
    shape = (*x.shape[:2], *(1 for _ in axes))
    return builder.call(name, x, as_shape=shape, axes=axes, more=attributes)


@operator("DeformConv", since=19)
def deform_conv(node: Node, builder: Builder) -> Tensor:
    """A convolution whose window's elements are moved by offsets given by a tensor."""
    x, weight, offset = node.input(0), node.input(1), node.input(2)
    bias, mask = node.optional(3), node.optional(4)
    if x.rank != 4:
        hint = "reshape the input so that it has two, of which one may be 1"
        message = f"it has {x.rank - 2} spatial dimensions; 2 can be converted"
        raise Unconvertible(message, hint)
    window = window_of(node, x.shape[2:], numbers(weight.shape[2:]))
    batch, groups = x.shape[0], node.integer("offset_group", 1)
    taps = weight.shape[2:]
    moved = builder.reshape(offset, (batch, groups, *taps, 2, *window.out))
    weights = None
    if mask is not None:
        weights = builder.reshape(mask, (batch, groups, *taps, *window.out))
    samples = builder.call(
        "onnx.deformed_samples", x, moved, weights,
        as_shape=(batch, x.shape[1], *taps, *window.out),
        stride=list(window.stride), dilation=list(window.dilation), offset=list(window.before),
    )  # fmt: skip
    found = builder.call(
        "onnx.contract_samples", samples, weight, as_shape=(batch, weight.shape[0], *window.out),
        groups=node.integer("group", 1),
    )  # fmt: skip
    if bias is None:
        return found
    return builder.binary("math.add", found, builder.reshape(bias, (bias.size, 1, 1)))
