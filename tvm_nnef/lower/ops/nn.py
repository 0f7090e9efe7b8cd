"""Mappings of the module ``nn``: convolution, pooling, activations, normalisation.

Not here: ``sum_pool``, whose formula says the same with less detour, and activations that Relax has
with other constants or limits. ``deconv`` becomes convolutions (:mod:`deconvolution`).

``conv`` takes a filter that comes at run time to be finite: Relax multiplies it with the padding,
which the formula skips, and an infinity times 0 is not a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np
from tvm import relax

from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.long_sums import LONGEST
from tvm_nnef.lower.ops.common import computes_natively, forward, permuted, reshaped, scalar
from tvm_nnef.lower.ops.deconvolution import CONVOLUTIONS, Axis, deconvolution
from tvm_nnef.lower.ops.math import elementwise
from tvm_nnef.symbolic.dimensions import Dimension, add, equal, floordiv, is_static, sub
from tvm_nnef.symbolic.windows import reach, trailing
from tvm_nnef.tvm_support.compat import RelaxExpression, constant, constant_array

_MAX_POOLS = {1: relax.op.nn.max_pool1d, 2: relax.op.nn.max_pool2d, 3: relax.op.nn.max_pool3d}
_AVG_POOLS = {1: relax.op.nn.avg_pool1d, 2: relax.op.nn.avg_pool2d, 3: relax.op.nn.avg_pool3d}
_GELU = {"None": relax.op.nn.gelu, "TANH": relax.op.nn.gelu_tanh}
_POOL_LAYOUTS = {
    1: ("NCW", "NWC"),
    2: ("NCHW", "NHWC"),
    3: ("NCDHW", "NDHWC"),
}


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over spatial dimensions, with the padding that Relax needs for a given output."""

    stride: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]

    @property
    def padding(self) -> list[int]:
        """As Relax takes it: all in front, then all after."""
        return [*self.before, *self.after]


def windows(
    invocation: Invocation,
    inputs: Sequence[Dimension],
    sizes: Sequence[int],
    outputs: Sequence[Dimension],
) -> Windows | None:
    """The windows of a convolution or pooling (draft, sections 4.4.1 and 4.4.2).

    The leading and the total padding are the operator's ``offset`` and ``paddings``. None if
    Relax cannot pad so that it computes just these windows.
    """
    if 0 in (*inputs, *outputs):
        return None
    stride, dilation = invocation.numbers("stride"), invocation.numbers("dilation")
    spans = [reach(size, step) for size, step in zip(sizes, dilation, strict=True)]
    before: list[int] = []
    after: list[int] = []
    for extent, output, lead, total, span, step in zip(
        inputs, outputs, invocation.using("offset"), invocation.using("paddings"), spans, stride,
        strict=True,
    ):  # fmt: skip
        trail = _trailing(extent, output, lead, total, span, step)
        if not is_static(lead) or lead < 0 or trail is None:
            return None
        before.append(lead)
        after.append(trail)
    return Windows(stride, dilation, before, after)


def _trailing(
    size: Dimension, output: Dimension, lead: Dimension, total: Dimension, span: int, step: int
) -> int | None:
    """The trailing padding with which Relax computes as many windows as the output has.

    Over a static dimension that is what the last window needs: more than the total says with
    ``ceil_mode``, and nothing if the last window ends inside the input.
    """
    needed = trailing(size, output, lead, step, span)
    if is_static(size) and is_static(output) and is_static(needed):
        return max(0, needed) if needed > -step else None
    trail = sub(total, lead)
    computed = add(floordiv(sub(add(size, total), span), step), 1)
    return trail if is_static(trail) and trail >= 0 and equal(output, computed) else None


def _conv(invocation: Invocation) -> Lowered:
    """Convolution in the order batch, channels, space; other formats are permuted to it."""
    rank = invocation.tensor(0).rank
    convolution = CONVOLUTIONS.get(rank - 2)
    if convolution is None or not computes_natively(invocation):
        return None
    data_order = invocation.order("data_format")
    filter_order = invocation.order("filter_format")
    input_shape = [invocation.shape(0)[d] for d in data_order]
    filter_shape = [invocation.shape(1)[d] for d in filter_order]
    output_shape = [invocation.result.shape[d] for d in data_order]
    if 0 in (*input_shape, *filter_shape, *output_shape):
        return None
    found = windows(invocation, input_shape[2:], filter_shape[2:], output_shape[2:])
    if found is None:
        return None
    data, weights = invocation.expression(0), invocation.expression(1)
    bias = invocation.optional(2)
    if any(found.padding) and not _may_be_finite(weights):
        return None
    result = convolution(
        permuted(data, data_order),
        permuted(weights, filter_order),
        strides=found.stride,
        padding=found.padding,
        dilation=found.dilation,
        groups=invocation.number("groups") or input_shape[1],
    )
    if bias is not None:
        shape = (1, output_shape[1], *[1] * (rank - 2))
        result = relax.op.add(result, reshaped(invocation, bias, shape))
    return permuted(result, [data_order.index(d) for d in range(rank)])


def _deconv(invocation: Invocation) -> Lowered:
    """Convolutions, whose results are interleaved."""
    rank = invocation.tensor(0).rank
    if rank - 2 not in CONVOLUTIONS or not computes_natively(invocation):
        return None
    data_order = invocation.order("data_format")
    filter_order = invocation.order("filter_format")
    inputs = [invocation.shape(0)[d] for d in data_order]
    filters = [invocation.shape(1)[d] for d in filter_order]
    outputs = [invocation.result.shape[d] for d in data_order]
    offsets = _offsets(invocation, filters[2:]) if all(map(is_static, filters)) else None
    if offsets is None or 0 in (*inputs, *filters, *outputs):
        return None
    geometry = zip(
        inputs[2:], filters[2:], outputs[2:],
        invocation.numbers("stride"), invocation.numbers("dilation"), offsets, strict=True,
    )  # fmt: skip
    axes = [axis for axis in starmap(Axis.of, geometry) if axis is not None]
    groups = invocation.number("groups") or inputs[1]
    if len(axes) < rank - 2 or not is_static(groups):
        return None
    data, weights = invocation.expression(0), invocation.expression(1)
    bias = invocation.optional(2)
    data, weights = permuted(data, data_order), permuted(weights, filter_order)
    result = deconvolution(invocation.builder, data, weights, axes, outputs, groups)
    if bias is not None:
        shape = (1, outputs[1], *[1] * (rank - 2))
        result = relax.op.add(result, reshaped(invocation, bias, shape))
    return permuted(result, [data_order.index(d) for d in range(rank)])


def _offsets(invocation: Invocation, sizes: Sequence[int]) -> list[int] | None:
    """Return the number of elements of the full result before the output.

    None if half of a negative padding is not a whole number, which each dialect rounds its own way.
    """
    written = invocation.attribute("padding")
    if isinstance(written, tuple):
        offsets = written[: len(sizes)]
        return [n for n in offsets if isinstance(n, int)] if all(map(is_static, offsets)) else None
    geometry = zip(sizes, invocation.numbers("dilation"), invocation.numbers("stride"), strict=True)
    totals = [(size - 1) * step + 1 - stride for size, step, stride in geometry]
    if any(total < 0 and total % 2 for total in totals):
        return None
    upper = invocation.attribute("padding_align") == "UPPER"
    return [total // 2 if upper else -(-total // 2) for total in totals]


def _may_be_finite(weights: RelaxExpression) -> bool:
    array = constant_array(weights)
    return array is None or bool(np.isfinite(array).all())


def _pooled(
    invocation: Invocation, pools: Mapping[int, Callable[..., RelaxExpression]], **options: object
) -> RelaxExpression | None:
    """A pooling over all dimensions between or after batch and channels, else None."""
    rank = invocation.tensor(0).rank
    axes = [forward(axis, rank) for axis in invocation.numbers("axes")]
    formats = {tuple(range(2, rank)): 0, tuple(range(1, rank - 1)): 1}
    if len(axes) not in pools or tuple(axes) not in formats or not computes_natively(invocation):
        return None
    inputs = [invocation.shape(0)[axis] for axis in axes]
    outputs = [invocation.result.shape[axis] for axis in axes]
    found = windows(invocation, inputs, invocation.numbers("size"), outputs)
    if found is None or _has_empty_window(found, invocation.numbers("size"), inputs, outputs):
        return None
    return pools[len(axes)](
        invocation.expression(0),
        pool_size=invocation.numbers("size"),
        strides=found.stride,
        dilation=found.dilation,
        padding=found.padding,
        layout=_POOL_LAYOUTS[len(axes)][formats[tuple(axes)]],
        **options,
    )


def _has_empty_window(
    found: Windows, sizes: Sequence[int], inputs: Sequence[Dimension], outputs: Sequence[Dimension]
) -> bool:
    """Whether a window lies outside of the input: its extreme and its mean are special."""
    if not all(map(is_static, (*inputs, *outputs))):
        reach = zip(sizes, found.dilation, found.before, found.after, strict=True)
        return any(step > 1 or max(lead, trail) >= size for size, step, lead, trail in reach)
    for axis, size in enumerate(sizes):
        for output in range(outputs[axis]):
            start = output * found.stride[axis] - found.before[axis]
            cells = range(start, start + size * found.dilation[axis], found.dilation[axis])
            if not any(0 <= cell < inputs[axis] for cell in cells):
                return True
    return False


def _max_pool(invocation: Invocation) -> Lowered:
    return _pooled(invocation, _MAX_POOLS)


def _avg_pool(invocation: Invocation) -> Lowered:
    """Long sums, which Relax adds up one after the other, are left to the formula."""
    if any(step != 1 for step in invocation.numbers("dilation")):
        return None
    if math.prod(invocation.numbers("size")) > LONGEST:
        return None
    counted = not invocation.attribute("ignore_border")
    return _pooled(invocation, _AVG_POOLS, count_include_pad=counted)


def _relu(invocation: Invocation) -> Lowered:
    """max(min(x, max), alpha * x), with 0 for a null alpha."""
    if not computes_natively(invocation):
        return None
    x = invocation.expression(0)
    alpha, limit = invocation.real("alpha"), invocation.real("max")
    limited = x if limit is None else relax.op.minimum(x, scalar(limit, invocation.dtype))
    if alpha is None:
        return relax.op.nn.relu(limited)
    return relax.op.maximum(limited, relax.op.multiply(x, scalar(alpha, invocation.dtype)))


def _prelu(invocation: Invocation) -> Lowered:
    if invocation.result.type != "real" or not computes_natively(invocation):
        return None
    axis = forward(invocation.number("axis"), invocation.tensor(0).rank)
    return relax.op.nn.prelu(*invocation.operands, axis=axis)


def _gelu(invocation: Invocation) -> Lowered:
    function = _GELU.get(str(invocation.attribute("approximate")))
    if function is None or not computes_natively(invocation):
        return None
    return function(invocation.expression(0))


def _softmax(invocation: Invocation) -> Lowered:
    axes = invocation.numbers("axes")
    if len(axes) != 1 or 0 in invocation.shape(0) or not computes_natively(invocation):
        return None
    return relax.op.nn.softmax(
        invocation.expression(0), forward(axes[0], invocation.tensor(0).rank)
    )


def _batch_norm(invocation: Invocation) -> Lowered:
    """One multiplication and one addition for each element, which fuse with a convolution.

    Statistics that are constants are folded here, unless a mean is so far from zero, beside its
    deviation, that the sum would lose digits: then, and if they are dynamic, the mean is
    subtracted first. Relax's own operator returns a tuple, which prevents layout conversion.
    """
    if not computes_natively(invocation):
        return None
    data, mean, variance = (invocation.expression(number) for number in range(3))
    bias, scale = invocation.optional(3), invocation.optional(4)
    axis = forward(invocation.number("channel_axis"), invocation.tensor(0).rank)
    shape = [1] * invocation.tensor(0).rank
    shape[axis] = invocation.shape(0)[axis]
    epsilon = invocation.real("epsilon") or 0.0
    given = [item for item in (mean, variance, bias, scale) if item is not None]
    arrays = [
        None if item is None else constant_array(item) for item in (mean, variance, bias, scale)
    ]
    if all(constant_array(item) is not None for item in given):
        factor, shift, is_near = _folded(arrays, epsilon, invocation.dtype)
        if not all(np.isfinite(array).all() for array in (factor, shift)):
            return None
        if is_near:
            scaled = relax.op.multiply(data, reshaped(invocation, constant(factor), shape))
            return relax.op.add(scaled, reshaped(invocation, constant(shift), shape))
    stabilized = relax.op.add(variance, scalar(epsilon, invocation.dtype))
    reciprocal = relax.op.rsqrt(stabilized)
    multiplier = reciprocal if scale is None else relax.op.multiply(scale, reciprocal)
    centered = relax.op.subtract(data, reshaped(invocation, mean, shape))
    scaled = relax.op.multiply(centered, reshaped(invocation, multiplier, shape))
    return scaled if bias is None else relax.op.add(scaled, reshaped(invocation, bias, shape))


_FAR = 2.0**12
"""A mean of as many deviations is far from zero: a third of the digits would be lost."""


def _folded(
    arrays: Sequence[np.ndarray[Any, Any] | None], epsilon: float, dtype: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], bool]:
    """Factor and shift of each channel, and whether all means are near zero."""
    mean, variance, bias, scale = (
        None if array is None else array.astype("float64") for array in arrays
    )
    assert mean is not None and variance is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        reciprocal = 1 / np.sqrt(variance + epsilon)
        factor = reciprocal if scale is None else scale * reciprocal
        shift = (0.0 if bias is None else bias) - mean * factor
        is_near = bool((np.abs(mean) * reciprocal < _FAR).all())
    return factor.astype(dtype), shift.astype(dtype), is_near


MAPPINGS: Mapping[str, LoweringFunction] = {
    "nn.conv": _conv,
    "nn.deconv": _deconv,
    "nn.max_pool": _max_pool,
    "nn.avg_pool": _avg_pool,
    "nn.relu": _relu,
    "nn.prelu": _prelu,
    "nn.gelu": _gelu,
    "nn.sigmoid": elementwise(relax.op.sigmoid),
    "nn.silu": elementwise(relax.op.nn.silu),
    "nn.erf": elementwise(relax.op.erf),
    "nn.softmax": _softmax,
    "nn.batch_norm": _batch_norm,
}
