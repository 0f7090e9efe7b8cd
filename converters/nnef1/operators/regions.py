"""Operations on regions of interest (section 4.6)."""

from __future__ import annotations

from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation, table_of

_METHODS = ("symmetric", "asymmetric", "aligned")


def _regions(operation: Operation, builder: Builder) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """Return input, regions, the batch index of each region, and the size of the result."""
    x, rois = operation.operands("input", "rois")
    index, size = operation.tensor("batch_index"), _sizes(operation, "output_size", x.rank - 2)
    if rois.rank != 2 or rois.shape[1] != 2 * len(size):
        reason = f"'rois' has the shape [{', '.join(map(str, rois.shape))}]"
        hint = f"it must have two dimensions, the second one of {2 * len(size)}"
        raise Unconvertible(reason, hint, mismatch=True)
    count = rois.shape[0]
    # The specification has [N, 1]; some tools write [N].
    if index.shape not in ((count, 1), (count,)):
        reason = f"'batch_index' has the shape [{', '.join(map(str, index.shape))}]"
        raise Unconvertible(reason, f"it must be [{count}, 1]", mismatch=True)
    return x, rois, builder.squeeze(index, [1]) if index.rank > 1 else index, size


def _sizes(operation: Operation, name: str, rank: int) -> list[int]:
    sizes = operation.integers(name)
    if len(sizes) != rank or min(sizes, default=1) < 1:
        hint = "give a positive number for each spatial dimension"
        raise Unconvertible(f"'{name}' is {sizes} for {rank} dimensions", hint, mismatch=True)
    return sizes


def _pool(name: str, operation: Operation, builder: Builder) -> Tensor:
    x, rois, index, size = _regions(operation, builder)
    return builder.call(
        name, x, rois, index, as_shape=(rois.shape[0], x.shape[1], *size), output_size=size,
    )  # fmt: skip


POOLS = table_of(
    {
        "avg_roi_pool": partial(_pool, "image.avg_roi_pool"),
        "max_roi_pool": partial(_pool, "image.max_roi_pool"),
    }
)


@operation("roi_resample")
def roi_resample(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``roi_resample``: each region is resampled to one size."""
    x, rois, index, size = _regions(operation, builder)
    return _resampled(operation, "method", x, rois, index, size, builder)


def _resampled(
    operation: Operation,
    method: str,
    x: Tensor,
    rois: Tensor,
    index: Tensor,
    size: list[int],
    builder: Builder,
) -> Tensor:
    chosen = operation.choice(method, _METHODS)
    return builder.call(
        "nnef1.roi_resample", x, rois, index,
        as_shape=(rois.shape[0], x.shape[1], *size), output_size=size,
        symmetric=chosen == "symmetric", aligned=chosen == "aligned",
    )  # fmt: skip


def _align(name: str, operation: Operation, builder: Builder) -> Tensor:
    """Resample regions to a multiple of the size, then pool them."""
    x, rois, index, size = _regions(operation, builder)
    rate = _sizes(operation, "sampling_rate", len(size))
    fine = [length * times for length, times in zip(size, rate, strict=True)]
    resized = _resampled(operation, "resize_method", x, rois, index, fine, builder)
    return builder.call(
        f"nn.{name}", resized, as_shape=(rois.shape[0], x.shape[1], *size),
        axes=list(range(2, x.rank)), size=rate, stride=rate, padding=0,
    )  # fmt: skip


ALIGNED = table_of(
    {
        "avg_roi_align": partial(_align, "avg_pool"),
        "max_roi_align": partial(_align, "max_pool"),
    }
)
