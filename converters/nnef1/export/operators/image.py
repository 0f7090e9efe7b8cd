"""Export of resampling by whole factors, and of operations on regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.nnef1.export.emitter import Array
from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.operators.reductions import squeezed
from tvm_nnef.converters.nnef1.export.values import Argument

_WHOLE = "NNEF 1 resamples by whole factors only"


def _scaled(
    operation: str,
    invocation: Invocation,
    factor: Sequence[int],
    given_axes: Sequence[int] | None = None,
    **attributes: str,
) -> Exported:
    """Scale the dimensions after the first two; for others, insert two dimensions before."""
    emitter = invocation.emitter
    axes = invocation.axes() if given_axes is None else given_axes
    x, out = invocation.value(0), list(invocation.out)
    added = [0, 1] if min(axes, default=2) < 2 else []
    first = len(added)
    if added:
        x = emitter.call("unsqueeze", x, axes=added, shape=[1, 1, *x.shape])
    factors = [1] * (x.rank - 2)
    for axis, each in zip(axes, factor, strict=True):
        factors[axis + first - 2] = each
    shape = [1] * first + out
    arguments: dict[str, Argument] = {"factor": factors, **attributes}
    found = emitter.call(operation, x, shape=shape, more=arguments)
    return squeezed(found, added, emitter)


def _by_factor(operation: str, invocation: Invocation) -> Exported:
    return _scaled(operation, invocation, invocation.numbers("factor"))


def _linear(invocation: Invocation) -> Exported:
    method = "symmetric" if invocation.flag("symmetric") else "asymmetric"
    border = "replicate" if invocation.flag("replicate_border") else "constant"
    factor = invocation.numbers("factor")
    return _scaled("multilinear_upsample", invocation, factor, method=method, border=border)


def _factors(invocation: Invocation) -> tuple[list[int], bool] | None:
    """Return the whole factors of a change of size, and whether they enlarge.

    It is None if there are none.
    """
    sizes = invocation.numbers("size")
    pairs = [
        (invocation.value(0).shape[axis], size)
        for axis, size in zip(invocation.axes(), sizes, strict=True)
    ]
    if all(size % length == 0 for length, size in pairs):
        return [size // length for length, size in pairs], True
    if all(length % size == 0 for length, size in pairs):
        return [length // size for length, size in pairs], False
    return None


def _linear_resize(invocation: Invocation) -> Exported:
    found = _factors(invocation)
    if found is None:
        raise Inexpressible(_WHOLE)
    (factor, enlarges), method = found, invocation.text("coordinate_transform").lower()
    if enlarges:
        return _scaled(
            "multilinear_upsample", invocation, factor, method=method, border="replicate"
        )
    if invocation.flag("antialias"):
        raise Inexpressible("NNEF 1 has no resampling with antialiasing")
    # The positions are elements, or the middle of two.
    if method == "asymmetric":
        return _scaled("nearest_downsample", invocation, factor)
    if method == "symmetric" and set(factor) <= {1, 2}:
        return _scaled("area_downsample", invocation, factor)
    raise Inexpressible(f"NNEF 1 has no linear reduction by {factor} with {method} coordinates")


def _nearest_resize(invocation: Invocation) -> Exported:
    found = _factors(invocation)
    transform, rounding = (
        invocation.text(name) for name in ("coordinate_transform", "rounding_method")
    )
    if found is None:
        raise Inexpressible(_WHOLE)
    factor, enlarges = found
    # Positions between elements become the element whose multiples they are among.
    exact = (transform, rounding) == ("ASYMMETRIC", "FLOOR") or (
        transform == "SYMMETRIC" and rounding.startswith("ROUND")
    )
    if enlarges and exact:
        return _scaled("nearest_upsample", invocation, factor)
    if not enlarges and transform == "ASYMMETRIC":
        return _scaled("nearest_downsample", invocation, factor)
    raise Inexpressible(f"NNEF 1 has no resampling with {transform} and {rounding}")


def _regions(operation: str, invocation: Invocation) -> Exported:
    x, rois, index = (invocation.value(number) for number in range(3))
    column = invocation.emitter.reshape(index, [*index.shape, 1])
    size = invocation.numbers("output_size")
    return invocation.call(operation, x, rois, column, output_size=size)


def _resampled_regions(invocation: Invocation) -> Exported:
    x, rois, index = (invocation.value(number) for number in range(3))
    column = invocation.emitter.reshape(index, [*index.shape, 1])
    is_aligned = invocation.flag("aligned")
    method = (
        "aligned" if is_aligned else "symmetric" if invocation.flag("symmetric") else "asymmetric"
    )
    size = invocation.numbers("output_size")
    return invocation.call("roi_resample", x, rois, column, output_size=size, method=method)


Weights: TypeAlias = "tuple[Array, Array]"
"""The elements that each result of a resampling sums, row by row, and their weights."""

_SAME = 1e-6
"""Upper limit of the difference of weights that are taken for equal in float32."""


def _resampled(invocation: Invocation) -> Exported:
    """Export weighted sums of elements along an axis if they equal one of NNEF 1's resamplings."""
    x, axis = invocation.value(0), invocation.number("axis")
    variables = [invocation.emitter.variables.get(invocation.value(number)) for number in (1, 2)]
    first, weights = (None if each is None or each.is_state else each.array for each in variables)
    if first is None or weights is None:
        raise Inexpressible("NNEF 1 has no resampling at positions known only at run time")
    length, size = x.shape[axis], len(first)
    if size % length and length % size:
        raise Inexpressible(_WHOLE)
    factor = max(size // length, length // size)
    elements = first.astype(np.int64)[:, None] + np.arange(weights.shape[1])
    wanted = (elements.clip(0, length - 1), weights.astype(np.float64))
    candidates = _enlargements(length, size) if size > length else _reductions(size, factor)
    for operation, attributes, expected in candidates:
        if _difference(wanted, expected) < _SAME:
            return _scaled(operation, invocation, [factor], [axis], **attributes)
    way = "enlargement" if size > length else "reduction"
    raise Inexpressible(f"NNEF 1 has no {way} by {factor} with such weights")


def _enlargements(length: int, size: int) -> Iterator[tuple[str, dict[str, str], Weights]]:
    """Yield the operations that enlarge, with their attributes and the two elements around each
    position.
    """
    numbers, factor = np.arange(size), size // length
    positions = {
        "symmetric": (numbers + 0.5) / factor - 0.5,
        "asymmetric": numbers / factor,
        "aligned": numbers * ((length - 1) / (size - 1)),
    }
    for method, position in positions.items():
        low = np.floor(position).astype(np.int64)
        share = position - low
        around = np.stack([low, low + 1], 1).clip(0, length - 1), np.stack([1 - share, share], 1)
        yield "multilinear_upsample", {"method": method, "border": "replicate"}, around


def _reductions(size: int, factor: int) -> Iterator[tuple[str, dict[str, str], Weights]]:
    """Yield the operations that reduce: one picks the first of ``factor`` elements, one averages
    all.
    """
    blocks = np.arange(size * factor).reshape(size, factor)
    yield "nearest_downsample", {}, (blocks[:, :1], np.ones((size, 1)))
    yield "area_downsample", {}, (blocks, np.full(blocks.shape, 1 / factor))


def _difference(left: Weights, right: Weights) -> float:
    """Return the largest difference of the weights of an element in two resamplings."""
    elements = np.concatenate([left[0], right[0]], 1)
    weights = np.concatenate([left[1], -right[1]], 1)
    order = elements.argsort(1)
    elements, weights = (np.take_along_axis(each, order, 1) for each in (elements, weights))
    # In each row, equal elements are together now: each has a number in its row.
    numbers = np.cumsum(np.diff(elements, axis=1, prepend=elements[:, :1]) != 0, 1)
    sums = np.zeros(weights.shape)
    np.add.at(sums, (np.arange(len(sums))[:, None], numbers), weights)
    return float(np.abs(sums).max())


TABLE: Mapping[str, ExportFunction] = {
    **{
        f"image.{name}": partial(_by_factor, name)
        for name in ("nearest_downsample", "nearest_upsample", "area_downsample")
    },
    "image.linear_upsample": _linear,
    "image.linear_resize": _linear_resize,
    "image.nearest_resize": _nearest_resize,
    "image.avg_roi_pool": partial(_regions, "avg_roi_pool"),
    "image.max_roi_pool": partial(_regions, "max_roi_pool"),
    "nnef1.roi_resample": _resampled_regions,
    "extra.resample": _resampled,
}
