"""Sampling at other positions than those of the elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.onnx.export.scalars import unary
from tvm_nnef.converters.onnx.export.windowing import spatial
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_COORDINATES: Mapping[str, str] = {
    "SYMMETRIC": "half_pixel",
    "ASYMMETRIC": "asymmetric",
    "ALIGNED": "align_corners",
}
_ROUNDINGS: Mapping[str, str] = {
    "FLOOR": "floor",
    "CEIL": "ceil",
    "ROUND_PREFER_FLOOR": "round_prefer_floor",
    "ROUND_PREFER_CEIL": "round_prefer_ceil",
}
_HALF = Fraction(1, 2)
_MARGIN = Fraction(1, 1000)
"""Least distance of a position from where rounding jumps, for float32 to be on the same side."""


def _downsample(invocation: Invocation) -> Exported:
    """Every element that is a multiple."""
    axes, factors = invocation.axes(), invocation.numbers("factor")
    emitter = invocation.emitter
    begins, ends = emitter.integers([0] * len(axes)), emitter.integers([1 << 62] * len(axes))
    if not axes:
        return invocation.value(0)
    given = (begins, ends, emitter.integers(axes), emitter.integers(factors))
    return emitter.node("Slice", invocation.value(0), *given)


def _upsample(invocation: Invocation) -> Exported:
    """Elements repeated: positions divided by whole numbers, rounded down."""
    axes, factors = invocation.axes(), invocation.numbers("factor")
    if not axes:
        return invocation.value(0)
    emitter = invocation.emitter
    return emitter.node(
        "Resize",
        invocation.value(0),
        "",
        emitter.constant(factors, "float32"),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        axes=axes,
    )


def _nearest_resize(invocation: Invocation) -> Exported:
    """Resize, where float32 leaves no doubt of the positions; else elements by their positions."""
    emitter, value = invocation.emitter, invocation.value(0)
    transform = str(invocation.attribute("coordinate_transform"))
    rounding = str(invocation.attribute("rounding_method"))
    resized: list[tuple[int, int]] = []
    for axis, size in zip(invocation.axes(), invocation.numbers("size"), strict=True):
        length = invocation.shape(0)[axis]
        if not isinstance(length, int):
            raise Inexpressible("the dimension that it resizes is known at run time only")
        positions = _positions(length, size, transform, rounding)
        if positions == list(range(length)):
            continue
        if _is_clear(length, size, transform, rounding, positions):
            resized.append((axis, size))
        else:
            value = emitter.node("Gather", value, emitter.integers(positions), axis=axis)
    if not resized:
        return value
    return emitter.node(
        "Resize",
        value,
        "",
        "",
        emitter.integers([size for _, size in resized]),
        mode="nearest",
        coordinate_transformation_mode=_COORDINATES[transform],
        nearest_mode=_ROUNDINGS[rounding],
        axes=[axis for axis, _ in resized],
    )


def _positions(length: int, size: int, transform: str, rounding: str) -> list[int]:
    """The elements nearest to positions, which the formula computes in float32."""
    one, half = np.float32(1), np.float32(0.5)
    scale = np.float32(_scale(length, size, transform))
    offset = half * scale - half if transform == "SYMMETRIC" else np.float32(0)
    positions = np.arange(size, dtype=np.float32) * scale * one + offset
    match rounding:
        case "FLOOR":
            indices = np.floor(positions)
        case "CEIL":
            indices = np.ceil(positions)
        case "ROUND_PREFER_FLOOR":
            indices = np.ceil(positions - half)
        case _:
            indices = np.floor(positions + half)
    return [int(position) for position in np.clip(indices, 0, length - 1)]


def _scale(length: int, size: int, transform: str) -> Fraction:
    if transform != "ALIGNED":
        return Fraction(length, size)
    return Fraction(length - 1, size - 1) if size > 1 else Fraction(0)


def _is_clear(
    length: int, size: int, transform: str, rounding: str, positions: Sequence[int]
) -> bool:
    """Whether positions are certain: exact in binary, or away from where rounding jumps."""
    scale = _scale(length, size, transform)
    exact = all(number & (number - 1) == 0 for number in (scale.numerator, scale.denominator))
    offset = _HALF * scale - _HALF if transform == "SYMMETRIC" else Fraction(0)
    jump = Fraction(0) if rounding in ("FLOOR", "CEIL") else _HALF
    for number, location in enumerate(positions):
        position = scale * number + offset
        nearest = {
            "FLOOR": floor(position),
            "CEIL": ceil(position),
            "ROUND_PREFER_FLOOR": ceil(position - _HALF),
            "ROUND_PREFER_CEIL": floor(position + _HALF),
        }[rounding]
        distance = abs(position - jump - round(position - jump))
        if min(max(nearest, 0), length - 1) != location or not (exact or distance > _MARGIN):
            return False
    return True


def _interpolated(
    invocation: Invocation,
    value: str,
    before: Sequence[Dimension],
    after: Sequence[Dimension],
    axes: Sequence[int],
    operands: Sequence[str],
    **attributes: str | float | None,
) -> str:
    """A value resized along one or two dimensions, as the operands of Resize say."""
    emitter = invocation.emitter
    moved = spatial(emitter, value, before, axes, least=2)
    inside = [moved.first + position for position in range(len(axes))]
    made = emitter.node("Resize", moved.value, "", *operands, axes=inside, **attributes)
    return moved.restored(emitter, made, after)


def _resize(mode: str) -> ExportFunction:
    """Linear or cubic interpolation; what becomes smaller with antialiasing comes first."""

    def function(invocation: Invocation) -> Exported:
        emitter, value = invocation.emitter, invocation.value(0)
        shape = list(invocation.shape(0))
        transform = _COORDINATES[str(invocation.attribute("coordinate_transform"))]
        cubic = invocation.real("coeff_a") if mode == "cubic" else None
        for antialias, part in _parts(invocation):
            after, sizes = list(shape), emitter.integers([size for _, size in part])
            for axis, size in part:
                after[axis] = size
            value = _interpolated(
                invocation, value, shape, after, [axis for axis, _ in part], ("", sizes),
                mode=mode, coordinate_transformation_mode=transform, cubic_coeff_a=cubic,
                antialias=int(antialias) or None,
            )  # fmt: skip
            shape = after
        return value

    return function


def _parts(invocation: Invocation) -> Iterator[tuple[bool, list[tuple[int, int]]]]:
    """Axes with their new dimensions, at most two at a time, and whether these are antialiased."""
    shape = invocation.shape(0)
    sizes = zip(invocation.axes(), invocation.numbers("size"), strict=True)
    pairs = sorted(pair for pair in sizes if shape[pair[0]] != pair[1])
    smaller: list[tuple[int, int]] = []
    if invocation.attribute("antialias"):
        if not all(isinstance(shape[axis], int) for axis, _ in pairs):
            raise Inexpressible("whether it needs antialiasing is known at run time only")
        # Aligned to one element the draft takes the first one, where ONNX would take a mean.
        aligned = invocation.attribute("coordinate_transform") == "ALIGNED"
        smaller = [
            pair
            for pair in pairs
            if dimensions.compare("lt", pair[1], shape[pair[0]]) is True
            and not (aligned and pair[1] == 1)
        ]
    others = [pair for pair in pairs if pair not in smaller]
    for antialias, group in ((True, smaller), (False, others)):
        for start in range(0, len(group), 2):
            yield antialias, group[start : start + 2]


def _linear_upsample(invocation: Invocation) -> Exported:
    """Linear interpolation by whole factors; a border of zeros is put around and cut off again."""
    emitter, value, shape = invocation.emitter, invocation.value(0), list(invocation.shape(0))
    factors = zip(invocation.axes(), invocation.numbers("factor"), strict=True)
    pairs = sorted(pair for pair in factors if pair[1] != 1)
    zeros = not invocation.attribute("replicate_border")
    transform = "half_pixel" if invocation.attribute("symmetric") else "asymmetric"
    for start in range(0, len(pairs), 2):
        part = pairs[start : start + 2]
        axes, scales = [axis for axis, _ in part], [factor for _, factor in part]
        if zeros:
            around = [int(axis in axes) for axis in range(len(shape))]
            value = emitter.pad(value, around, around, invocation.scalar(0))
            shape = [dimensions.add(size, 2 * n) for size, n in zip(shape, around, strict=True)]
        after = list(shape)
        for axis, factor in part:
            after[axis] = dimensions.mul(shape[axis], factor)
        value = _interpolated(
            invocation, value, shape, after, axes, [emitter.constant(scales, "float32")],
            mode="linear", coordinate_transformation_mode=transform,
        )  # fmt: skip
        if zeros:
            value = emitter.slice(value, axes, scales, [-factor for factor in scales])
            for axis, factor in part:
                after[axis] = dimensions.sub(after[axis], 2 * factor)
        shape = after
    return value


def _grid_sample(invocation: Invocation) -> Exported:
    emitter, depth = invocation.emitter, invocation.tensor(0).rank - 2
    mode = str(invocation.attribute("mode"))
    if depth > 3 or (depth == 3 and mode == "CUBIC"):
        raise Inexpressible(f"ONNX Runtime has no such sampling over {depth} dimensions")
    data, grid = invocation.value(0), invocation.value(1)
    aligned = bool(invocation.attribute("aligned"))
    if mode == "NEAREST":
        grid = _snapped(invocation, grid, aligned)
    if depth == 1:
        # a second dimension of size 1, whose middle is at 0
        data, grid = emitter.unsqueeze(data, [2]), emitter.unsqueeze(grid, [1])
        grid = emitter.pad(grid, [0] * 4, [0, 0, 0, 1], invocation.scalar(0))
    paddings = {"ZEROS": "zeros", "REPLICATE": "border", "REFLECT": "reflection"}
    made = emitter.node(
        "GridSample",
        data,
        grid,
        mode=mode.lower(),
        padding_mode=paddings[str(invocation.attribute("padding"))],
        align_corners=int(aligned),
    )
    return emitter.squeeze(made, [2]) if depth == 1 else made


def _snapped(invocation: Invocation, grid: str, aligned: bool) -> str:
    """A grid moved to the middles of elements, halves away from zero; ONNX goes to even ones."""
    emitter, dtype = invocation.emitter, invocation.dtype
    sizes = emitter.cast(emitter.shape(invocation.shape(0)[:1:-1]), "int64", dtype)
    one, half = invocation.scalar(1), invocation.scalar(0.5)
    moved = emitter.node("Add", grid, one)
    reach = emitter.node("Sub", sizes, one) if aligned else sizes
    position = emitter.node("Mul", moved, reach)
    if not aligned:
        position = emitter.node("Sub", position, one)
    location = unary("round", emitter.node("Mul", position, half), dtype, emitter)
    location = emitter.node("Add", location, location)
    if not aligned:
        return emitter.node(
            "Sub", emitter.node("Div", emitter.node("Add", location, one), sizes), one
        )
    return emitter.node("Sub", emitter.node("Div", location, emitter.node("Max", reach, one)), one)


COMPUTING: Mapping[str, ExportFunction] = {
    "image.nearest_downsample": _downsample,
    "image.nearest_upsample": _upsample,
    "image.linear_upsample": _linear_upsample,
    "image.nearest_resize": _nearest_resize,
    "image.linear_resize": _resize("linear"),
    "image.cubic_resize": _resize("cubic"),
    "image.grid_sample": _grid_sample,
}
