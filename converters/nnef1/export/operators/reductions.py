"""Reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tvm_nnef.converters.nnef1.export.emitter import Emitter
from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.values import Value


def kept(x: Value, axes: Sequence[int]) -> list[int]:
    """Return the shape of a reduction that keeps dimensions of 1."""
    return [1 if axis in axes else size for axis, size in enumerate(x.shape)]


def squeezed(value: Value, axes: Sequence[int], emitter: Emitter) -> Value:
    """Return the value without the dimensions of 1 at some axes."""
    shape = [size for axis, size in enumerate(value.shape) if axis not in axes]
    return emitter.call("squeeze", value, axes=sorted(axes), shape=shape) if axes else value


def reduced(operation: str, x: Value, axes: Sequence[int], emitter: Emitter) -> Value:
    """Emit a reduction that keeps the reduced dimensions as 1."""
    if not axes:
        return emitter.call("copy", x, shape=x.shape)
    return emitter.call(operation, x, axes=sorted(axes), shape=kept(x, axes))


def _reduce(operation: str, invocation: Invocation) -> Exported:
    axes, emitter = invocation.axes(), invocation.emitter
    found = reduced(operation, invocation.value(0), axes, emitter)
    return squeezed(found, axes, emitter) if invocation.flag("squeeze") else found


def _argument(operation: str, invocation: Invocation) -> Exported:
    axes, emitter = [invocation.axis()], invocation.emitter
    found = reduced(operation, invocation.value(0), axes, emitter)
    return squeezed(found, axes, emitter) if invocation.flag("squeeze") else found


def _moments(invocation: Invocation) -> Exported:
    x, axes, emitter = invocation.value(0), invocation.axes(), invocation.emitter
    if not axes:
        return None
    shape = kept(x, axes)
    found = emitter.calls("moments", x, axes=sorted(axes), shapes=[shape, shape])
    values = [each for each in found if isinstance(each, Value)]
    if invocation.flag("squeeze"):
        return [squeezed(each, axes, emitter) for each in values]
    return values


def power_sum(x: Value, p: float, emitter: Emitter) -> Value:
    """Return the sum of powers of magnitudes."""
    if p == 2.0:
        return emitter.call("sqr", x, shape=x.shape)
    magnitude = emitter.call("abs", x, shape=x.shape)
    return magnitude if p == 1.0 else emitter.call("pow", magnitude, p, shape=x.shape)


def root(x: Value, p: float, emitter: Emitter) -> Value:
    """Return the root of a sum of powers."""
    if p == 1.0:
        return x
    if p == 2.0:
        return emitter.call("sqrt", x, shape=x.shape)
    return emitter.call("pow", x, emitter.number(1.0 / p), shape=x.shape)


def _norm(invocation: Invocation) -> Exported:
    x, axes, emitter = invocation.value(0), invocation.axes(), invocation.emitter
    p = invocation.real("p") or 0.0
    found = reduced("sum_reduce", power_sum(x, p, emitter), axes, emitter)
    found = root(found, p, emitter)
    return squeezed(found, axes, emitter) if invocation.flag("squeeze") else found


TABLE: Mapping[str, ExportFunction] = {
    **{
        f"math.{name}_reduce": partial(_reduce, f"{name}_reduce")
        for name in ("sum", "min", "max", "mean", "any", "all")
    },
    **{f"math.{name}": partial(_argument, f"{name}_reduce") for name in ("argmin", "argmax")},
    "math.lp_reduce": _norm,
    "math.moments": _moments,
}
