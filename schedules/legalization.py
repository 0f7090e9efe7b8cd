"""Relax operators that TVM's own legalization gets wrong at infinities and at what is no number.

TVM's maxima and minima start from the least and the greatest finite number, and lose a NaN
depending on where it stands; here they are -inf and inf of nothing, and NaN where one is NaN. A
legalization takes a call of a Relax operator and gives a call of its PrimFunc. Knows TVM only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm_ffi
from tvm import relax, sym, te, tirx

from tvm_nnef.schedules.extremes import Combination, greater, least, smaller
from tvm_nnef.schedules.graph.rebuilding import Symbols, call_te
from tvm_nnef.schedules.stages import substituted
from tvm_nnef.tvm_compat import (
    BUFFER_TYPE,
    Module,
    PrimExpression,
    RelaxExpression,
    constant_array,
    tensor_type,
    with_shape,
)

Legalization: TypeAlias = "Callable[[Any, Any], RelaxExpression]"
"""From a ``relax.BlockBuilder`` and a call to an expression."""


def _max_pool(builder: Any, call: Any) -> RelaxExpression:
    """The greatest element of each window."""
    attributes = call.attrs
    axes = [n for n, letter in enumerate(str(attributes.layout)) if letter in "DHW"]
    rank = len(axes)
    sizes, strides, dilation, padding = (
        [int(item) for item in getattr(attributes, name)]
        for name in ("pool_size", "strides", "dilation", "padding")
    )

    def pooled(symbols: Symbols, data: Any) -> Any:
        shape = _shape(call, symbols)
        reach = [
            (shape[axis] - 1) * stride + (size - 1) * step + 1
            for axis, size, stride, step in zip(axes, sizes, strides, dilation, strict=True)
        ]
        source = _padded(data, axes, padding[:rank], _behind(data, axes, padding, reach))
        reducer = te.comm_reducer(lambda x, y: greater(x, y), least, name="maximum")

        def element(*indices: PrimExpression) -> PrimExpression:
            loops = [te.reduce_axis((0, size), "window") for size in sizes]
            places = list(indices)
            for axis, loop, stride, step in zip(axes, loops, strides, dilation, strict=True):
                places[axis] = indices[axis] * stride + loop.var * step
            return reducer(source(*places), axis=loops)

        return te.compute(shape, element, name="max_pool")

    return call_te(builder, pooled, [call.args[0]], "max_pool")


def _shape(call: Any, symbols: Symbols) -> list[PrimExpression]:
    """The extents of what a call gives, in the symbols of its kernel."""
    return [substituted(extent, symbols) for extent in call.ty.shape.values]


def _behind(
    data: Any, axes: Sequence[int], padding: Sequence[int], reach: Sequence[Any]
) -> list[int]:
    """The padding behind the data, which the last window may reach beyond (``ceil_mode``)."""
    rank = len(axes)
    behind = list(padding[rank:])
    for place, (axis, front, end) in enumerate(zip(axes, padding[:rank], reach, strict=True)):
        missing = sym.Analyzer().simplify(end - front - data.shape[axis])
        if isinstance(missing, tirx.IntImm):
            behind[place] = max(behind[place], int(missing))
    return behind


def _padded(data: Any, axes: Sequence[int], before: Sequence[int], after: Sequence[int]) -> Any:
    """The data in a frame of what is less than anything."""
    if not any((*before, *after)):
        return data
    shape = list(data.shape)
    for axis, front, back in zip(axes, before, after, strict=True):
        shape[axis] = shape[axis] + front + back

    def element(*indices: PrimExpression) -> PrimExpression:
        places = list(indices)
        tests = []
        for axis, front, back in zip(axes, before, after, strict=True):
            places[axis] = indices[axis] - front
            tests += [places[axis] >= 0] if front else []
            tests += [places[axis] < data.shape[axis]] if back else []
        return tirx.if_then_else(tirx.all(*tests), data(*places), least(data.dtype))

    return te.compute(shape, element, name="pad")


def _elementwise(function: Combination, name: str) -> Legalization:
    """The legalization of an operator of two operands that broadcast."""
    return lambda builder, call: _combined(builder, call, call.args, function, name)


def _combined(
    builder: Any, call: Any, operands: Sequence[Any], function: Combination, name: str
) -> RelaxExpression:
    """A function of the elements of two operands; a constant of rank 0 becomes a number."""
    numbers = [_number(operand) for operand in operands]
    if all(number is not None for number in numbers):
        numbers[0] = None
    tensors = [o for o, number in zip(operands, numbers, strict=True) if number is None]

    def combined(symbols: Symbols, *data: Any) -> Any:
        def element(*indices: PrimExpression) -> PrimExpression:
            rest = iter(data)
            left, right = (
                _broadcast(next(rest), indices) if number is None else number for number in numbers
            )
            return function(left, right)

        return te.compute(_shape(call, symbols), element, name=name)

    return call_te(builder, combined, tensors, name)


def _number(operand: Any) -> PrimExpression | None:
    array = constant_array(operand)
    return None if array is None or array.ndim else tirx.const(array.item(), str(array.dtype))


def _broadcast(data: Any, indices: Sequence[PrimExpression]) -> PrimExpression:
    own = indices[len(indices) - len(data.shape) :]
    ones = [isinstance(extent, tirx.IntImm) and extent.value == 1 for extent in data.shape]
    return data(*(0 if one else index for one, index in zip(ones, own, strict=True)))


def _relu(builder: Any, call: Any) -> RelaxExpression:
    zero = relax.const(0, str(call.ty.dtype))
    return _combined(builder, call, [call.args[0], zero], greater, "relu")


def with_plain_shapes(mod: Module) -> Module:
    """The module with all extents of tensors and buffers in their simplest form.

    TVM writes ``h + 2 - 3 + 1`` in the kernel of a convolution, and then takes its result for
    another tensor than the one of ``h`` rows that the next kernel reads.
    """
    kinds = [(relax.TensorType, _plain_tensor), (BUFFER_TYPE, _plain_buffer)]
    changed = {
        variable: tvm_ffi.structural_map(function, kinds)
        for variable, function in mod.functions.items()
    }
    result = mod.clone()
    result.update(changed)
    return result


def _plain_tensor(kind: Any) -> Any:
    if not isinstance(kind.shape, relax.ShapeExpr):
        return kind
    return tensor_type(_plain(kind.shape.values), str(kind.dtype))


def _plain_buffer(kind: Any) -> Any:
    return with_shape(kind, _plain(kind.shape))


def _plain(shape: Sequence[PrimExpression]) -> list[PrimExpression]:
    return [sym.Analyzer().simplify(extent) for extent in shape]


LEGALIZATIONS: Mapping[str, Legalization] = {
    **{f"relax.nn.max_pool{rank}d": _max_pool for rank in (1, 2, 3)},
    "relax.nn.relu": _relu,
    "relax.maximum": _elementwise(greater, "maximum"),
    "relax.minimum": _elementwise(smaller, "minimum"),
}
