"""Resampling by whole factors, and regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.operators.reductions import squeezed
from tvm_nnef.converters.nnef1.export.values import Argument

_WHOLE = "NNEF 1 resamples by whole factors only"


def _scaled(
    operation: str, invocation: Invocation, factor: Sequence[int], **attributes: str
) -> Exported:
    """A change of the dimensions after the first two; others get two more before those."""
    emitter, axes = invocation.emitter, invocation.axes()
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
        return _scaled("multilinear_upsample", invocation, factor, method=method, border="replicate")
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
}
