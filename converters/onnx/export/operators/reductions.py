"""Reductions, cumulative sums, and argmax and argmin."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation


def _reduced(invocation: Invocation, operator: str, value: str) -> str:
    """A reduction over ``axes``, of which there may be none."""
    emitter, axes = invocation.emitter, invocation.axes()
    kept = int(not invocation.attribute("squeeze"))
    if not axes:
        return value
    return emitter.node(operator, value, emitter.integers(axes), keepdims=kept)


def _reduction(operator: str) -> ExportFunction:
    def function(invocation: Invocation) -> Exported:
        return _reduced(invocation, operator, invocation.value(0))

    return function


def _any(invocation: Invocation) -> Exported:
    """Of truth values ONNX sums none; of an empty set none is true."""
    return _some(invocation, invocation.value(0))


def _all(invocation: Invocation) -> Exported:
    emitter = invocation.emitter
    return emitter.node("Not", _some(invocation, emitter.node("Not", invocation.value(0))))


def _some(invocation: Invocation, value: str) -> str:
    emitter = invocation.emitter
    count = _reduced(invocation, "ReduceSum", emitter.cast(value, "bool", "int64"))
    return emitter.node("Greater", count, emitter.constant(0, "int64"))


def _cumsum(invocation: Invocation) -> Exported:
    return _cumulative(invocation, invocation.emitter.constant(invocation.axis(), "int64", "axis"))


def _cumulative_sum(invocation: Invocation) -> Exported:
    """Return CumSum as the converter of ONNX models writes it: the axis is a tensor."""
    axis = invocation.emitter.cast(invocation.value(1), invocation.dtypes["int"], "int64")
    return _cumulative(invocation, axis)


def _cumulative(invocation: Invocation, axis: str) -> str:
    return invocation.emitter.node(
        "CumSum",
        invocation.value(0),
        axis,
        exclusive=int(bool(invocation.attribute("exclusive"))),
        reverse=int(bool(invocation.attribute("reverse"))),
    )


def _cumulative_product(invocation: Invocation) -> Exported:
    """Return CumProd, which ONNX has from opset 26 on, as products of 1, 2, 4, ... elements.

    Each step multiplies the products with those that many positions before, and doubles how many.
    """
    emitter, sizes = invocation.emitter, invocation.tensor(0).shape
    if not all(isinstance(size, int) for size in sizes):
        raise Inexpressible("how many elements it multiplies is known at run time only")
    axis = emitter.cast(invocation.value(1), invocation.dtypes["int"], "int64")
    axes = emitter.reshape(axis, (), (1,))
    one, reverse = invocation.scalar(1), bool(invocation.attribute("reverse"))

    def moved(value: str, steps: int) -> str:
        """A value ``steps`` positions after, with ones in front."""
        padding = emitter.integers([0, steps] if reverse else [steps, 0])
        padded = emitter.node("Pad", value, padding, one, axes)
        begin, end = (steps, 1 << 62) if reverse else (0, -steps)
        positions = emitter.integers([begin]), emitter.integers([end])
        return emitter.node("Slice", padded, *positions, axes)

    found = invocation.value(0)
    if invocation.attribute("exclusive"):
        found = moved(found, 1)
    steps = 1
    while steps < max((int(size) for size in sizes), default=0):
        found = emitter.node("Mul", found, moved(found, steps))
        steps *= 2
    return found


def _position(operator: str) -> ExportFunction:
    """The argmax or argmin along an axis."""

    def function(invocation: Invocation) -> Exported:
        emitter, kept = invocation.emitter, int(not invocation.attribute("squeeze"))
        position = emitter.node(
            operator, invocation.value(0), axis=invocation.axis(), keepdims=kept
        )
        return emitter.cast(position, "int64", invocation.dtype)

    return function


def _coordinates(operator: str) -> ExportFunction:
    """The argmax or argmin over several axes, as a tensor of coordinates for each."""

    def function(invocation: Invocation) -> Exported:
        emitter, axes = invocation.emitter, invocation.axes()
        shape, ordered = invocation.shape(0), sorted(axes)
        (results,) = invocation.operation.results
        if not isinstance(results, tuple):
            return None
        lengths = [shape[axis] for axis in ordered]
        sizes = [length for length in lengths if isinstance(length, int)]
        if len(sizes) < len(lengths):
            raise Inexpressible("the dimensions that it searches are known at run time only")
        rest = [axis for axis in range(len(shape)) if axis not in axes]
        moved = emitter.permute(invocation.value(0), [*rest, *ordered])
        before = [shape[axis] for axis in (*rest, *ordered)]
        merged = emitter.reshape(moved, before, [*(shape[axis] for axis in rest), prod(sizes)])
        position = emitter.node(operator, merged, axis=len(rest), keepdims=0)
        found: dict[int, str] = {}
        for number, axis in enumerate(ordered):
            stride = emitter.constant(prod(sizes[number + 1 :]), "int64")
            size = emitter.constant(sizes[number], "int64")
            digit = emitter.node("Mod", emitter.node("Div", position, stride), size)
            if not invocation.attribute("squeeze"):
                digit = emitter.unsqueeze(digit, ordered)
            found[axis] = emitter.cast(digit, "int64", invocation.dtypes["int"])
        return (tuple(found[axis] for axis in axes),)

    return function


COMPUTING: Mapping[str, ExportFunction] = {
    "math.sum_reduce": _reduction("ReduceSum"),
    "math.prod_reduce": _reduction("ReduceProd"),
    "math.min_reduce": _reduction("ReduceMin"),
    "math.max_reduce": _reduction("ReduceMax"),
    "math.mean_reduce": _reduction("ReduceMean"),
    "math.any_reduce": _any,
    "math.all_reduce": _all,
    "math.cumsum": _cumsum,
    "extra.cumulative_sum": _cumulative_sum,
    "extra.cumulative_product": _cumulative_product,
    "math.argmin": _position("ArgMin"),
    "math.argmax": _position("ArgMax"),
    "math.argmin_nd": _coordinates("ArgMin"),
    "math.argmax_nd": _coordinates("ArgMax"),
}
