"""Images sampled at other positions: Resize, GridSample, RoiAlign, cropping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import size_of, sizes_of
from tvm_nnef.converters.common.symbolic import (
    Size,
    array,
    maximum,
    minimum,
    number,
)
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.data_dependent_shapes import counted
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator
from tvm_nnef.converters.onnx.upsampling import first_positions, nearest_positions, repetitions


@dataclass(frozen=True, slots=True)
class _Axis:
    """The resizing of one dimension; a scale is known, or a tensor, or None: the size divided."""

    axis: int
    size: Size
    scale: float | Tensor | None
    start: float | Tensor
    end: float | Tensor

    def resized(self, x: Tensor) -> tuple[Size, ...]:
        """The shape of a tensor that is resized so."""
        return (*x.shape[: self.axis], self.size, *x.shape[self.axis + 1 :])


_Scales: TypeAlias = "Sequence[float | Tensor]"


@operator("Upsample", since=7)
def upsample(node: Node, builder: Builder) -> Tensor:
    """The old name of Resize, with scales from the corner."""
    return _from_the_corner(node, node.reals("scales"), builder)


@operator("Resize", since=10)
def resize_10(node: Node, builder: Builder) -> Tensor:
    """Scales from the corner, and the nearest element below."""
    return _from_the_corner(node, None, builder)


def _from_the_corner(node: Node, given: _Scales | None, builder: Builder) -> Tensor:
    x = node.input(0)
    scales = given or _numbers(node, 1, x.rank, builder)
    shape = node.known_shape() or _scaled(node, range(x.rank), scales, builder)
    axes = [
        _Axis(axis, shape[axis], scales[axis], 0.0, 1.0)
        for axis in range(x.rank)
        if shape[axis] != x.shape[axis]
    ]
    return _resized(node, x, axes, node.text("mode", "nearest"), "asymmetric", "floor", builder)


@operator("Resize", since=11)
def resize_11(node: Node, builder: Builder) -> Tensor:
    """Any of the ways of Resize, by scales or by sizes."""
    x, known = node.input(0), node.known_shape()
    positions = [axis % x.rank for axis in node.integers("axes") or range(x.rank)]
    transform = node.text("coordinate_transformation_mode", "half_pixel")
    count = len(positions)
    scales: Sequence[float | Tensor | None]
    shape: Sequence[Size]
    if node.optional(2) is not None and node.input(2).size:
        factors = _numbers(node, 2, count, builder)
        # A region has no part in the shape: so do the inference of ONNX and its evaluator.
        scales, shape = factors, known or _scaled(node, positions, factors, builder)
    else:
        scales, shape = _sized(node, positions, builder)
    roi: _Scales = [0.0] * count + [1.0] * count
    if transform == "tf_crop_and_resize":
        roi = _numbers(node, 1, 2 * count, builder)
    axes = [
        _Axis(axis, shape[axis], scales[position], roi[position], roi[position + count])
        for position, axis in enumerate(positions)
        if not _unchanged(x, shape, axis, scales[position], transform)
    ]
    mode, rounding = node.text("mode", "nearest"), node.text("nearest_mode", "round_prefer_floor")
    return _resized(node, x, axes, mode, transform, rounding, builder)


def _unchanged(
    x: Tensor, shape: Sequence[Size], axis: int, scale: float | Tensor | None, transform: str
) -> bool:
    same = shape[axis] == x.shape[axis]
    if transform == "tf_crop_and_resize":
        return False
    return same and (x.shape[axis] == 1 or not isinstance(scale, float) or scale == 1.0)


def _numbers(node: Node, position: int, count: int, builder: Builder) -> list[float | Tensor]:
    """The items of an input: numbers where they are known, else tensors of rank 0."""
    tensor = node.input(position)
    if tensor.value is not None:
        return [float(each) for each in tensor.value.reshape(-1)]
    return [
        builder.squeeze(builder.slice(tensor, 0, location, location + 1), [0])
        for location in range(count)
    ]


def _scaled(node: Node, axes: Sequence[int], scales: _Scales, builder: Builder) -> list[Size]:
    """The shape that scales lead to, rounded down."""
    shape = list(node.input(0).shape)
    for axis, scale in zip(axes, scales, strict=True):
        if isinstance(scale, Tensor):
            size = builder.binary("math.mul", scale, _real(shape[axis], scale.dtype, builder))
            shape[axis] = size_of(size, node.bound(axis), builder)
        else:
            # The decimal that a scale is meant to be: 0.7, and not the float32 below it.
            ratio = Fraction(str(np.float32(scale)))
            shape[axis] = shape[axis] * ratio.numerator // ratio.denominator
    return shape


def _real(size: Size, dtype: str, builder: Builder) -> Tensor:
    """A dimension as a scalar of a type of reals."""
    if isinstance(size, int):
        return builder.constant(size, dtype)
    return builder.cast(builder.dimension(size), dtype)


def _sized(
    node: Node, axes: Sequence[int], builder: Builder
) -> tuple[Sequence[float | Tensor | None], Sequence[Size]]:
    """The scales that lead to sizes, and the shape; one scale where the aspect ratio is kept."""
    x, sizes, known = node.input(0), node.input(3), node.known_shape()
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        return _in_proportion(node, axes, policy == "not_larger", builder)
    shape = list(known or x.shape)
    if known is None:
        wanted = node.sizes(3) or _decided_at(node, sizes, axes, builder)
        for axis, length in zip(axes, wanted, strict=True):
            shape[axis] = length
    pairs = [(shape[axis], x.shape[axis]) for axis in axes]
    scales = [
        size / length if isinstance(size, int) and isinstance(length, int) else None
        for size, length in pairs
    ]
    return scales, shape


def _decided_at(
    node: Node, vector: Tensor, axes: Sequence[int], builder: Builder
) -> Sequence[Size]:
    """The elements of a vector as the sizes of some dimensions of the result."""
    return sizes_of(
        counted(vector, len(axes), builder), [node.bound(axis) for axis in axes], builder
    )


def _in_proportion(
    node: Node, axes: Sequence[int], smaller: bool, builder: Builder
) -> tuple[Sequence[float | Tensor], Sequence[Size]]:
    x, sizes, known = node.input(0), node.input(3), node.known_shape()
    if sizes.value is not None and known is not None:
        found = [
            float(size) / number(x.shape[axis])
            for size, axis in zip(sizes.value, axes, strict=True)
        ]
        return [min(found) if smaller else max(found)] * len(axes), known
    own = Tensor("int64", (len(axes),), sizes=array([x.shape[axis] for axis in axes]))
    lengths = builder.cast(own, "float64")
    ratios = builder.binary("math.div", builder.cast(sizes, "float64"), lengths)
    name = "min" if smaller else "max"
    scale = builder.call(f"math.{name}_reduce", ratios, as_shape=(), axes=[0], squeeze=True)
    if known is not None:
        return [scale] * len(axes), known
    whole = builder.call("math.round", builder.binary("math.mul", lengths, scale))
    shape = list(x.shape)
    wanted = _decided_at(node, whole, axes, builder)
    for axis, length in zip(axes, wanted, strict=True):
        shape[axis] = length
    return [scale] * len(axes), shape


_MODES = {"nearest": "NEAREST", "linear": "LINEAR", "bilinear": "LINEAR", "cubic": "CUBIC"}


def _resized(
    node: Node,
    x: Tensor,
    axes: Sequence[_Axis],
    mode: str,
    transform: str,
    rounding: str,
    builder: Builder,
) -> Tensor:
    """One dimension after the other."""
    wide = x if x.kind == "real" or mode == "nearest" else builder.cast(x, "float32")
    for each in axes:
        wide = _resize_axis(node, wide, each, _MODES[mode], transform, rounding, builder)
    return builder.cast(wide, x.dtype)


def _resize_axis(
    node: Node,
    x: Tensor,
    axis: _Axis,
    mode: str,
    transform: str,
    rounding: str,
    builder: Builder,
) -> Tensor:
    scale, start, end = axis.scale, axis.start, axis.end
    size = x.shape[axis.axis]
    if mode == "NEAREST":
        factor = repetitions(size, axis.size, scale, transform, rounding)
        if factor is not None:
            name, shape = "image.nearest_upsample", axis.resized(x)
            return builder.call(name, x, as_shape=shape, axes=[axis.axis], factor=[factor])
    position = builder.call(
        "onnx.resize_positions",
        *(each if isinstance(each, Tensor) else None for each in (scale, start, end)),
        as_type="float64", as_shape=(axis.size,),
        known_scale=scale if isinstance(scale, float) else None,
        known_start=start if isinstance(start, float) else None,
        known_end=end if isinstance(end, float) else None,
        size=axis.size, length=size, transform=transform,
    )  # fmt: skip
    shape = axis.resized(x)
    if mode == "NEAREST":
        nearest = nearest_positions(position, rounding, builder)
        y = builder.call("onnx.resize_nearest", x, nearest, as_shape=shape, axis=axis.axis)
    else:
        y = _interpolated(node, x, axis, mode, position, shape, builder)
    if transform != "tf_crop_and_resize":
        return y
    value = node.real("extrapolation_value")
    return builder.call("onnx.extrapolate", y, position, axis=axis.axis, length=size, value=value)


def _interpolated(
    node: Node,
    x: Tensor,
    axis: _Axis,
    mode: str,
    position: Tensor,
    shape: Sequence[Size],
    builder: Builder,
) -> Tensor:
    reach: Size = 1 if mode == "LINEAR" else 2
    antialias = node.flag("antialias")
    if antialias:
        # Towards smaller sizes the kernel is as much wider; how much, the dimensions bound.
        length, size = x.shape[axis.axis], axis.size
        reach = -(-reach * maximum(length, size) // maximum(size, 1)) + 1
    outside = node.flag("exclude_outside")
    scale = axis.scale
    weights = builder.call(
        "onnx.resize_weights", position, scale if isinstance(scale, Tensor) else None,
        as_type="float64", as_shape=(axis.size, 2 * reach),
        known_scale=scale if isinstance(scale, float) else None, length=x.shape[axis.axis],
        reach=reach, cubic=mode == "CUBIC", coeff_a=node.real("cubic_coeff_a", -0.75),
        antialias=antialias, exclude_outside=outside,
    )  # fmt: skip
    first = first_positions(position, reach, builder)
    same = builder.cast(weights, x.dtype)
    return builder.call("extra.resample", x, first, same, as_shape=shape, axis=axis.axis)


_GRID_MODES = {
    "bilinear": "LINEAR", "linear": "LINEAR", "nearest": "NEAREST", "bicubic": "CUBIC",
    "cubic": "CUBIC",
}  # fmt: skip
_GRID_PADDINGS = {"zeros": "ZEROS", "border": "REPLICATE", "reflection": "REFLECT"}


@operator("GridSample", since=16)
def grid_sample(node: Node, builder: Builder) -> Tensor:
    """The input at the positions that a grid holds."""
    x, grid = node.input(0), node.input(1)
    mode = _GRID_MODES[node.text("mode", "linear")]
    padding = _GRID_PADDINGS[node.text("padding_mode", "zeros")]
    shape = (*x.shape[:2], *grid.shape[1:-1])
    wide = x if x.kind == "real" else builder.cast(x, "float32")
    name = "onnx.nearest_grid_sample" if mode == "NEAREST" else "image.grid_sample"
    y = builder.call(
        name, wide, builder.cast(grid, wide.dtype), as_shape=shape, padding=padding,
        mode=None if mode == "NEAREST" else mode, aligned=node.flag("align_corners"),
    )  # fmt: skip
    return builder.cast(y, x.dtype)


@operator("RoiAlign", since=10)
def roi_align(node: Node, builder: Builder) -> Tensor:
    """The mean or maximum of samples in each cell of regions."""
    x, rois, batch = node.input(0), node.input(1), node.input(2)
    height, width = node.integer("output_height", 1), node.integer("output_width", 1)
    transform = node.text(
        "coordinate_transformation_mode", "output_half_pixel" if node.version < 16 else "half_pixel"
    )
    largest, ratio = node.text("mode", "avg") == "max", node.integer("sampling_ratio")
    shape = (rois.shape[0], x.shape[1], height, width)
    # Without a ratio, the samples of a cell are data-dependent: no more than the image's size.
    taps = (
        (ratio, ratio) if ratio > 0 else (-(-x.shape[2] // height) + 1, -(-x.shape[3] // width) + 1)
    )
    return builder.call(
        "onnx.roi_align", x, rois, batch, as_shape=shape, output_size=[height, width],
        ratio=max(ratio, 0), taps=list(taps), scale=node.real("spatial_scale", 1.0),
        half_pixel=transform == "half_pixel", largest=largest,
    )  # fmt: skip


@operator("MaxRoiPool")
def max_roi_pool(node: Node, builder: Builder) -> Tensor:
    """The largest element of each cell of regions."""
    x, rois = node.input(0), node.input(1)
    size = node.integers("pooled_shape") or []
    shape = (rois.shape[0], x.shape[1], *size)
    return builder.call(
        "onnx.max_roi_pool", x, rois, as_shape=shape, output_size=size,
        scale=node.real("spatial_scale", 1.0),
    )  # fmt: skip


@operator("CenterCropPad", since=18)
def center_crop_pad(node: Node, builder: Builder) -> Tensor:
    """The middle of the tensor, or the tensor in the middle of zeros."""
    x, known = node.input(0), node.known_shape()
    shape = list(known or x.shape)
    if known is None:
        axes = [axis % x.rank for axis in node.integers("axes") or range(x.rank)]
        sizes = node.sizes(1) or _decided_at(node, node.input(1), axes, builder)
        for axis, size in zip(axes, sizes, strict=True):
            shape[axis] = size
    for axis, (length, wanted) in enumerate(zip(x.shape, shape, strict=True)):
        kept = minimum(length, wanted)
        begin, front = (length - kept) // 2, (wanted - kept) // 2
        x = builder.slice(x, axis, begin, begin + kept)
        if kept == wanted:
            continue
        grown = (*x.shape[:axis], wanted, *x.shape[axis + 1 :])
        padding = [front, wanted - kept - front]
        x = builder.call("layout.pad", x, as_shape=grown, axes=[axis], padding=padding)
    return x


@operator("AffineGrid", since=20)
def affine_grid(node: Node, builder: Builder) -> Tensor:
    """The positions of a grid, moved by matrices."""
    theta, size, known = node.input(0), node.sizes(1), node.known_shape()
    if known is not None:
        image = list(known[1:-1])
    elif size is not None:
        image = size[2:]
    else:
        given = counted(node.input(1), node.rank(), builder)
        own = builder.slice(given, 0, 2, given.size)
        image = list(_decided_at(node, own, range(1, int(given.size) - 1), builder))
    return builder.call(
        "onnx.affine_grid", theta, as_shape=(theta.shape[0], *image, len(image)), shape=image,
        aligned=node.flag("align_corners"),
    )  # fmt: skip
