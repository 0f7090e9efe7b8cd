"""Padding with NNEF 1's border modes (section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, maximum
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible

_METHODS = {
    "constant": None,
    "replicate": "REPLICATE",
    "reflect": "REFLECT",
    "reflect-even": "SYMMETRIC",
}
BORDERS = ("ignore", *_METHODS)


def padded(
    x: Tensor,
    before: Sequence[Size],
    after: Sequence[Size],
    border: str,
    builder: Builder,
    value: float = 0.0,
) -> Tensor:
    """Return the tensor with elements before and after its elements in each dimension.

    Negative numbers remove elements, after those on the other side have been added.
    """
    added = [[maximum(each, 0) for each in side] for side in (before, after)]
    wide = _enlarged(x, added[0], added[1], border, builder, value)
    return _cropped(
        wide,
        [more - each for more, each in zip(added[0], before, strict=True)],
        [more - each for more, each in zip(added[1], after, strict=True)],
        builder,
    )


def _enlarged(
    x: Tensor,
    before: Sequence[Size],
    after: Sequence[Size],
    border: str,
    builder: Builder,
    value: float,
) -> Tensor:
    axes = [axis for axis in range(x.rank) if before[axis] != 0 or after[axis] != 0]
    if not axes:
        return x
    for axis in axes:
        _check_reflection(x.shape[axis], maximum(before[axis], after[axis]), axis, border)
    shape = [a + size + b for a, size, b in zip(before, x.shape, after, strict=True)]
    fill = (builder.constant(value, x.dtype),) if border == "constant" and value else ()
    return builder.call(
        "layout.pad", x, *fill, as_shape=shape, axes=axes if len(axes) < x.rank else None,
        padding=[*(before[axis] for axis in axes), *(after[axis] for axis in axes)],
        method=_METHODS[border],
    )  # fmt: skip


def _check_reflection(size: Size, most: Size, axis: int, border: str) -> None:
    """Raise Unconvertible for a reflection with more elements than the tensor, which is not
    defined.
    """
    available = {"reflect": size - 1, "reflect-even": size}.get(border)
    if available is not None and most > available:
        reason = f"the border of dimension {axis} has {most} elements, of which '{border}' defines "
        hint = "use smaller paddings or windows, or another border"
        raise Unconvertible(f"{reason}{available}", hint, mismatch=True)


def _cropped(x: Tensor, first: Sequence[Size], last: Sequence[Size], builder: Builder) -> Tensor:
    """Return the tensor without some elements at both ends of each dimension."""
    axes = [axis for axis in range(x.rank) if first[axis] != 0 or last[axis] != 0]
    if not axes:
        return x
    shape = [size - a - b for a, size, b in zip(first, x.shape, last, strict=True)]
    for axis in axes:
        if shape[axis] < 0:
            reason = (
                f"the paddings of dimension {axis} remove more than its {x.shape[axis]} elements"
            )
            raise Unconvertible(reason, "use larger paddings", mismatch=True)
    return builder.call(
        "layout.slice", x, as_shape=shape, axes=axes, begin=[first[axis] for axis in axes],
        end=[x.shape[axis] - last[axis] for axis in axes],
    )  # fmt: skip
