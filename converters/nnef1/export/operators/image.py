"""Resampling by whole factors, and regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

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
    """A change of the dimensions after the first two; others get two more before those."""
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
    given: dict[str, Argument] = {"factor": factors, **attributes}
    found = emitter.call(operation, x, shape=shape, more=given)
    return squeezed(found, added, emitter)


def _by_factor(operation: str, invocation: Invocation) -> Exported:
    return _scaled(operation, invocation, invocation.numbers("factor"))


def _linear(invocation: Invocation) -> Exported:
    method = "symmetric" if invocation.flag("symmetric") else "asymmetric"
    border = "replicate" if invocation.flag("replicate_border") else "constant"
    factor = invocation.numbers("factor")
    return _scaled("multilinear_upsample", invocation, factor, method=method, border=border)


def _factors(invocation: Invocation) -> tuple[list[int], bool] | None:
    """The whole factors of a change of size, and whether they enlarge; None if they are none."""
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


def _resampled(invocation: Invocation) -> Exported:
    """Weighted sums of elements along an axis, if these are one of the ways of NNEF 1."""
    x, axis = invocation.value(0), invocation.number("axis")
    arrays = [invocation.emitter.variables.get(invocation.value(number)) for number in (1, 2)]
    if arrays[0] is None or arrays[1] is None:
        raise Inexpressible("its positions are known only at run time")
    first, weights = (each.array for each in arrays if each is not None)
    length, size = x.shape[axis], len(first)
    if size % length and length % size:
        raise Inexpressible(_WHOLE)
    factor = max(size // length, length // size)
    found = _weights_of(first, weights, length)
    for operation, method, expected in _ways(length, size, factor):
        if np.allclose(found, expected(), rtol=0, atol=_SAME):
            more = {} if method is None else {"method": method, "border": "replicate"}
            return _scaled(operation, invocation, [factor], [axis], **more)
    way = "linear enlargement" if size > length else "reduction"
    raise Inexpressible(f"NNEF 1 has no {way} by {factor} with such weights")


_SAME = 1e-6
"""Weights that differ by less are the same in float32."""


def _weights_of(first: Array, weights: Array, length: int) -> Array:
    """The share of each element in each result."""
    size, taps = weights.shape
    found = np.zeros((size, length))
    elements = np.clip(first.astype(np.int64)[:, None] + np.arange(taps), 0, length - 1)
    np.add.at(found, (np.arange(size)[:, None], elements), weights.astype(np.float64))
    return found


def _ways(
    length: int, size: int, factor: int
) -> Iterator[tuple[str, str | None, Callable[[], Array]]]:
    """The operations that change a length to a size, with their methods and weights."""
    if size > length:
        numbers = np.arange(size)
        positions = {
            "symmetric": (numbers + 0.5) / factor - 0.5,
            "asymmetric": numbers / factor,
            "aligned": numbers * ((length - 1) / (size - 1)),
        }
        for method, each in positions.items():
            yield "multilinear_upsample", method, partial(_between, each, length)
        return
    identity = np.eye(length)
    yield "nearest_downsample", None, lambda: identity[::factor]
    yield "area_downsample", None, lambda: identity.reshape(size, factor, length).mean(1)


def _between(positions: Array, length: int) -> Array:
    """The weights of the two elements around positions; the border repeats its element."""
    low = np.floor(positions)
    rest = positions - low
    return _weights_of(low, np.stack([1 - rest, rest], 1), length)


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
    "onnx.resample": _resampled,
}
