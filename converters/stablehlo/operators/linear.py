"""Converters of products of tensors: general dot products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir.dialects import stablehlo

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation, sizes_of
from tvm_nnef.converters.stablehlo.operators.layout import padded
from tvm_nnef.converters.stablehlo.registry import operation


@operation("dot_general")
def dot_general(each: Operation, builder: Builder) -> Tensor:
    """Return sums of products over some dimensions, for each position of the batch dimensions."""
    numbers = stablehlo.DotDimensionNumbers(each.attribute("dot_dimension_numbers"))
    left, right = each.inputs
    return contracted(
        builder.cast(left, _wide(each, left)),
        builder.cast(right, _wide(each, right)),
        (list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)),
        (list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)),
        each.dtype(),
        builder,
    )


@operation("dot")
def dot(each: Operation, builder: Builder) -> Tensor:
    """Return a product of matrices or vectors."""
    left, right = each.inputs
    return contracted(left, right, ([], []), ([left.rank - 1], [0]), each.dtype(), builder)


def _wide(each: Operation, x: Tensor) -> str:
    """Return the type in which an operand is multiplied: that of the result if it has more bits."""
    dtype = each.dtype()
    return dtype if x.dtype != dtype else x.dtype


def contracted(
    left: Tensor,
    right: Tensor,
    batch: tuple[list[int], list[int]],
    contracting: tuple[list[int], list[int]],
    dtype: str,
    builder: Builder,
) -> Tensor:
    """Return a product as one matrix product: batch, rows and columns each as one or more
    dimensions.
    """
    (lb, rb), (lc, rc) = batch, contracting
    lf = [axis for axis in range(left.rank) if axis not in (*lb, *lc)]
    rf = [axis for axis in range(right.rank) if axis not in (*rb, *rc)]
    batches = [left.shape[axis] for axis in lb]
    rows = [left.shape[axis] for axis in lf]
    columns = [right.shape[axis] for axis in rf]
    inner = product([left.shape[axis] for axis in lc])
    a = builder.transpose(left, [*lb, *lf, *lc])
    # A single free dimension in the last position is read as it is: the product takes B transposed.
    flipped = len(rc) == 1 and len(rf) == 1 and rc[0] > rf[0]
    order = [*rb, *rf, *rc] if flipped else [*rb, *rc, *rf]
    b = builder.transpose(right, order)
    a = builder.reshape(a, (*batches, product(rows) if len(lf) != 1 else rows[0], inner))
    width = product(columns) if len(rf) != 1 else columns[0]
    b = builder.reshape(b, (*batches, width, inner) if flipped else (*batches, inner, width))
    shape = (*batches, a.shape[-2], width)
    if a.kind == "bool":
        raise Unconvertible("truth values are multiplied", "convert them to integers before")
    found = builder.call(
        "linalg.matmul", a, b, as_type=dtype, as_shape=shape, transB=True if flipped else None
    )
    return builder.reshape(found, (*batches, *rows, *columns))


@operation("convolution", "dynamic_conv")
def convolution(each: Operation, builder: Builder) -> Tensor:
    """Convert a general convolution into one with the channels after the batch."""
    numbers = stablehlo.ConvDimensionNumbers(each.attribute("dimension_numbers"))
    x, filter_ = (builder.cast(one, each.dtype()) for one in each.inputs[:2])
    spatial = list(numbers.input_spatial_dimensions)
    count = len(spatial)
    x = builder.transpose(
        x, [numbers.input_batch_dimension, numbers.input_feature_dimension, *spatial]
    )
    order = [numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension]
    filter_ = builder.transpose(filter_, [*order, *numbers.kernel_spatial_dimensions])
    for axis, turned in enumerate(each.flags("window_reversal", count)):
        size = filter_.shape[axis + 2]
        if turned and size != 1:
            filter_ = builder.slice(filter_, axis + 2, size - 1, -1, -1)
    ones = [1] * count
    stride, dilation = each.integers("window_strides", ones), each.integers("rhs_dilation", ones)
    spread = each.integers("lhs_dilation", ones)
    pairs: Sequence[Size] = each.integers("padding", [0, 0] * count)
    if len(each.inputs) > 2:
        pairs = sizes_of(each.inputs[2])
    low, high = list(pairs[::2]), list(pairs[1::2])
    groups, batches = each.integer("feature_group_count"), each.integer("batch_group_count")
    if batches > 1:
        x = _batches_as_channels(x, batches, builder)
        groups = batches
    if not _is_plain(low, high, spread):
        zero = builder.constant(0, x.dtype)
        x = padded(
            x, zero, [0, 0, *low], [0, 0, *high], [0, 0, *(one - 1 for one in spread)], builder
        )
        low, high = [0] * count, [0] * count
    found = _convolved(x, filter_, stride, dilation, (low, high), groups, builder)
    spatial_out = list(numbers.output_spatial_dimensions)
    positions = [numbers.output_batch_dimension, numbers.output_feature_dimension, *spatial_out]
    return builder.transpose(found, [positions.index(axis) for axis in range(count + 2)])


def _is_plain(low: Sequence[Size], high: Sequence[Size], spread: Sequence[int]) -> bool:
    whole = all(isinstance(one, int) and one >= 0 for one in (*low, *high))
    return whole and all(one == 1 for one in spread)


def _batches_as_channels(x: Tensor, count: int, builder: Builder) -> Tensor:
    """Return the batch divided into ``count`` parts, as groups of channels."""
    batch, channels, *sizes = x.shape
    size = batch // count
    x = builder.reshape(x, (count, size, channels, *sizes))
    x = builder.transpose(x, [1, 0, *range(2, x.rank)])
    return builder.reshape(x, (size, count * channels, *sizes))


def _convolved(
    x: Tensor,
    filter_: Tensor,
    stride: list[int],
    dilation: list[int],
    padding: tuple[list[Size], list[Size]],
    groups: int,
    builder: Builder,
) -> Tensor:
    low, high = padding
    sizes: list[Size] = [
        (length + lo + hi - (size - 1) * wide - 1) // step + 1
        for length, lo, hi, size, wide, step in zip(
            x.shape[2:], low, high, filter_.shape[2:], dilation, stride, strict=True
        )
    ]
    if not sizes:
        a = builder.reshape(x, (x.shape[0], groups, x.shape[1] // groups))
        b = builder.reshape(filter_, (groups, filter_.shape[0] // groups, filter_.shape[1]))
        found = contracted(a, b, ([1], [0]), ([2], [2]), x.dtype, builder)
        return builder.reshape(builder.transpose(found, [1, 0, 2]), (x.shape[0], filter_.shape[0]))
    return builder.call(
        "nn.conv", x, filter_, as_shape=(x.shape[0], filter_.shape[0], *sizes),
        stride=stride, dilation=None if set(dilation) == {1} else dilation,
        padding=[*low, *high], groups=None if groups == 1 else groups,
    )  # fmt: skip
