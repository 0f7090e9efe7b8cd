"""Up- and down-sampling by whole factors (section 4.3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.nnef1.operators.borders import padded
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation, table_of


def _factor(operation: Operation, x: Tensor) -> tuple[list[int], list[int]]:
    """Return the spatial dimensions that change, and their factors."""
    factor = operation.integers("factor")
    if len(factor) != x.rank - 2 or min(factor, default=1) < 1:
        hint = "give a positive number for each spatial dimension"
        raise Unconvertible(f"'factor' is {factor} for a rank of {x.rank}", hint, mismatch=True)
    changed = [axis for axis, each in enumerate(factor) if each != 1]
    return [axis + 2 for axis in changed], [factor[axis] for axis in changed]


def _larger(x: Tensor, axes: Sequence[int], factor: Sequence[int]) -> Shape:
    shape = list(x.shape)
    for axis, times in zip(axes, factor, strict=True):
        shape[axis] *= times
    return tuple(shape)


def _downsample(name: str, operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    axes, factor = _factor(operation, x)
    shape = list(x.shape)
    for axis, parts in zip(axes, factor, strict=True):
        if shape[axis] % parts != 0:
            reason = f"dimension {axis} is {shape[axis]}, which its factor {parts} does not divide"
            raise Invalid(reason, "correct the factor", mismatch=True)
        shape[axis] //= parts
    return _scaled(name, x, shape, axes, factor, builder)


def _scaled(
    name: str,
    x: Tensor,
    shape: Sequence[Size],
    axes: list[int],
    factor: list[int],
    builder: Builder,
) -> Tensor:
    if not axes:
        return builder.call("math.iden", x)
    return builder.call(name, x, as_shape=shape, axes=axes, factor=factor)


DOWN = table_of(
    {
        "nearest_downsample": partial(_downsample, "image.nearest_downsample"),
        "area_downsample": partial(_downsample, "image.area_downsample"),
    }
)


@operation("nearest_upsample")
def nearest_upsample(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``nearest_upsample``: each element is repeated."""
    x = operation.tensor("input")
    axes, factor = _factor(operation, x)
    return _scaled("image.nearest_upsample", x, _larger(x, axes, factor), axes, factor, builder)


@operation("multilinear_upsample")
def multilinear_upsample(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``multilinear_upsample``: linear interpolation between elements."""
    x = operation.tensor("input")
    axes, factor = _factor(operation, x)
    method = operation.choice("method", ("symmetric", "asymmetric", "aligned"))
    border = operation.choice("border", ("constant", "replicate", "reflect", "reflect-even"))
    shape = _larger(x, axes, factor)
    if not axes:
        return builder.call("math.iden", x)
    if method == "aligned":
        size = [shape[axis] for axis in axes]
        return builder.call(
            "image.linear_resize", x, as_shape=shape, axes=axes, size=size,
            coordinate_transform="ALIGNED",
        )  # fmt: skip
    symmetric = method == "symmetric"
    if border == "reflect":
        return _reflected(x, axes, factor, symmetric, builder)
    # One element beyond the border counts at most, which 'reflect-even' and 'replicate' share.
    return builder.call(
        "image.linear_upsample", x, as_shape=shape, axes=axes, factor=factor,
        symmetric=symmetric, replicate_border=border != "constant",
    )  # fmt: skip


def _reflected(
    x: Tensor, axes: list[int], factor: list[int], symmetric: bool, builder: Builder
) -> Tensor:
    """Interpolate a tensor with one more element at each end, and remove the additional results."""
    sides = [1 if axis in axes else 0 for axis in range(x.rank)]
    wide = padded(x, sides, sides, "reflect", builder)
    larger = builder.call(
        "image.linear_upsample", wide, as_shape=_larger(wide, axes, factor), axes=axes,
        factor=factor, symmetric=symmetric,
    )  # fmt: skip
    cut = [0] * x.rank
    for axis, times in zip(axes, factor, strict=True):
        cut[axis] = -times
    return padded(larger, cut, cut, "constant", builder)
