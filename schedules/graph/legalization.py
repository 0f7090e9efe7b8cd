"""Relax operators that TVM's own legalization gets wrong at infinities and NaN.

TVM's max and min start from the lowest and highest finite number, and lose a NaN depending on the
order of operands; here they start from -inf and inf, and keep NaN. Its argmax and argmin of
infinities only are -1. Its convolutions multiply their padding with weights, which may be infinite.
A legalization takes a call of a Relax operator and returns a call of its PrimFunc.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm_ffi
from tvm import relax, sym, te, tirx

from tvm_nnef.extremes import (
    Combination,
    arg_reduction,
    greater,
    greatest,
    least,
    smaller,
)
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.graph.convolution_kernels import (
    Window,
    by_output,
    convolution,
    is_exact,
    padded,
)
from tvm_nnef.schedules.graph.rebuilding import Symbols, call_te
from tvm_nnef.tvm_support.compat import (
    BUFFER_TYPE,
    CALL,
    BlockBuilder,
    Module,
    PrimExpression,
    RelaxExpression,
    constant_array,
    shape_and_dtype,
    tensor_type,
    with_shape,
)

Legalization: TypeAlias = "Callable[[BlockBuilder, CALL], RelaxExpression]"
"""From a ``relax.BlockBuilder`` and a call to an expression."""


def _max_pool(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """The max of each window."""
    reducer = te.comm_reducer(lambda x, y: greater(x, y), least, name="maximum")

    def pooled(symbols: Symbols, data: te.Tensor) -> Any:
        return _over_windows(call, symbols, data, reducer, least(data.dtype), "max_pool")

    return call_te(builder, pooled, [call.args[0]], "max_pool")


def _avg_pool(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """The sum of each window, by its size or by how many of its elements are not padding."""
    window, axes = _window(call), _spatial(call)

    def pooled(symbols: Symbols, data: te.Tensor) -> Any:
        sums = _over_windows(call, symbols, data, te.sum, tirx.const(0, data.dtype), "sum_pool")

        def count(number: int, index: PrimExpression) -> PrimExpression:
            """How many steps along a dimension meet an element."""
            step, extent = window.dilation[number], data.shape[axes[number]]
            start = window.before[number] - index * window.stride[number]
            first = tirx.max(tirx.floordiv(start + (step - 1), step), 0)
            end = tirx.floordiv(start + extent + (step - 1), step)
            return tirx.min(end, window.size[number]) - first

        def element(*indices: PrimExpression) -> PrimExpression:
            size: PrimExpression = tirx.const(math.prod(window.size), "int64")
            if not call.attrs.count_include_pad:
                counts = [count(number, indices[axis]) for number, axis in enumerate(axes)]
                size = functools.reduce(lambda a, b: a * b, counts)
            mean: PrimExpression = sums(*indices) / tirx.Cast(data.dtype, size)
            return mean

        return te.compute(_shape(call, symbols), element, name="avg_pool")

    return call_te(builder, pooled, [call.args[0]], "avg_pool")


def _spatial(call: CALL) -> list[int]:
    """The dimensions that the windows of a pooling slide along."""
    layout = str(call.attrs.layout)
    return [layout.index(letter) for letter in "DHW" if letter in layout]


def _window(call: CALL) -> Window:
    return Window.of(call.attrs, call.attrs.pool_size)


def _over_windows(
    call: CALL,
    symbols: Symbols,
    data: te.Tensor,
    reducer: Callable[..., PrimExpression],
    neutral: PrimExpression,
    name: str,
) -> Any:
    """The reduction of each window of a pooling over data padded with a neutral value."""
    window, axes, shape = _window(call), _spatial(call), _shape(call, symbols)
    after = _padding_after(call, window, [shape[axis] for axis in axes], data)
    source, steps = padded(data, axes, window.before, after, neutral), window.axes()

    def element(*indices: PrimExpression) -> PrimExpression:
        positions = window.positions([indices[axis] for axis in axes], [s.var for s in steps])
        moved = {**dict(enumerate(indices)), **dict(zip(axes, positions, strict=True))}
        return reducer(source(*moved.values()), axis=steps)

    return te.compute(shape, element, name=name)


def _padding_after(call: CALL, window: Window, results: Sequence[Any], data: Any) -> list[int]:
    """The padding after the data, which the last window may exceed (``ceil_mode``)."""
    found = list(window.after)
    for number, (axis, result) in enumerate(zip(_spatial(call), results, strict=True)):
        last = (result - 1) * window.stride[number]
        reach = last + (window.size[number] - 1) * window.dilation[number] + 1
        missing = sizes.simplified(reach - window.before[number] - data.shape[axis])
        if sizes.is_known(missing):
            found[number] = max(found[number], missing)
        elif call.attrs.ceil_mode:
            found[number] += window.stride[number] - 1
    return found


def _convolution(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """A convolution that multiplies no padding if a weight may not be finite."""
    attributes, weights = call.attrs, call.args[1]
    layout, (shape, dtype) = str(attributes.data_layout), shape_and_dtype(weights)
    plain = (layout[:2], str(attributes.kernel_layout)[:2]) == ("NC", "OI")
    plain = plain and str(attributes.out_layout) in ("", layout)
    same = shape_and_dtype(call)[1] == dtype and all(map(sizes.is_known, shape))
    padding = any(map(int, attributes.padding))
    if not (plain and same and padding and is_exact(constant_array(weights), dtype)):
        return _standard(builder, call)
    window, groups = Window.of(attributes, shape[2:]), int(attributes.groups)
    outputs, depth = shape[:2]
    function = convolution(window, outputs, groups, depth, by_output, last=False, exact=True)
    return builder.call_te(function, *call.args[:2], primfunc_name_hint="conv")


def _reduced(function: Combination, first: Callable[[Any], PrimExpression]) -> Legalization:
    """The legalization of an operator over whole dimensions."""

    def legalize(builder: BlockBuilder, call: CALL) -> RelaxExpression:
        gone = _gone(call)

        def reduced(symbols: Symbols, data: te.Tensor) -> Any:
            loops = [te.reduce_axis((0, data.shape[axis]), "step") for axis in gone]
            reducer = te.comm_reducer(lambda x, y: function(x, y), first, name="combine")

            def element(*indices: PrimExpression) -> PrimExpression:
                position = _joined(call, indices, [loop.var for loop in loops])
                return reducer(data(*position), axis=loops)

            return te.compute(_shape(call, symbols), element, name="reduced")

        return call_te(builder, reduced, [call.args[0]], "reduced")

    return legalize


def _arg_reduction(*, largest: bool) -> Legalization:
    """The legalization of argmax or argmin."""

    def legalize(builder: BlockBuilder, call: CALL) -> RelaxExpression:
        gone = _gone(call)
        axes = range(gone[0], gone[0] + len(gone))
        rank = len(call.args[0].ty.shape)
        kept = [axis for axis in range(rank) if axis not in gone]
        kept = kept if call.attrs.keepdims else [*range(len(kept))]

        def found(symbols: Symbols, data: te.Tensor) -> Any:
            shape, dtype = _shape(call, symbols), str(call.ty.dtype)
            return arg_reduction(data, axes, shape, kept, dtype, largest=largest)

        return call_te(builder, found, [call.args[0]], "arg_reduction")

    return legalize


def _gone(call: CALL) -> list[int]:
    """The dimensions that a call reduces."""
    rank, axis = len(call.args[0].ty.shape), call.attrs.axis
    if axis is None:
        return list(range(rank))
    return sorted({int(n) % rank for n in ([axis] if isinstance(axis, int) else axis)})


def _joined(
    call: CALL, indices: Sequence[PrimExpression], inner: Sequence[PrimExpression]
) -> list[PrimExpression]:
    """The indices of an operand, from those of the result and of the reduced dimensions."""
    gone, keep = _gone(call), bool(call.attrs.keepdims)
    kept = iter(i for n, i in enumerate(indices) if not keep or n not in gone)
    steps = iter(inner)
    rank = len(call.args[0].ty.shape)
    return [next(steps) if n in gone else next(kept) for n in range(rank)]


def _shape(call: CALL, symbols: Symbols) -> list[PrimExpression]:
    """The shape of the result of a call, in the symbols of its kernel."""
    return [substituted(extent, symbols) for extent in call.ty.shape.values]


def _elementwise(function: Combination, name: str) -> Legalization:
    """The legalization of an operator of two operands that broadcast."""
    return lambda builder, call: _combined(builder, call, call.args, function, name)


def _combined(
    builder: BlockBuilder, call: CALL, operands: Sequence[Any], function: Combination, name: str
) -> RelaxExpression:
    """A function of the elements of two operands; a constant of rank 0 becomes a literal."""
    numbers = [_number(operand) for operand in operands]
    if all(number is not None for number in numbers):
        numbers[0] = None
    tensors = [o for o, number in zip(operands, numbers, strict=True) if number is None]

    def combined(symbols: Symbols, *data: te.Tensor) -> Any:
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


def _broadcast(data: te.Tensor, indices: Sequence[PrimExpression]) -> PrimExpression:
    own = indices[len(indices) - len(data.shape) :]
    ones = [isinstance(extent, tirx.IntImm) and extent.value == 1 for extent in data.shape]
    return data(*(0 if one else index for one, index in zip(ones, own, strict=True)))


def _relu(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    zero = relax.const(0, str(call.ty.dtype))
    return _combined(builder, call, [call.args[0], zero], greater, "relu")


def with_plain_shapes(mod: Module) -> Module:
    """The module with the dimensions of all tensors and buffers in their simplest form.

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


def _standard(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """The legalization of TVM."""
    made: RelaxExpression = call.op.get_attr("FLegalize")(builder, call)
    return made


def _reshape(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """A kernel that divides by no symbols to find an element; a view if there is none."""
    before, after = shape_and_dtype(call.args[0])[0], shape_and_dtype(call)[0]
    if all(map(sizes.is_known, (*before, *after))):
        return _standard(builder, call)
    groups = sizes.groups(before, after)
    if groups is None:
        return call

    def reshaped(symbols: Symbols, data: te.Tensor) -> Any:
        def element(*indices: PrimExpression) -> PrimExpression:
            found: dict[int, PrimExpression] = {}
            for sources, targets in groups:
                # A dynamic dimension is alone in its group, but for dimensions of size 1.
                inside = [n for n in sources if not sizes.same(before[n], 1)]
                others = [n for n in targets if not sizes.same(after[n], 1)]
                number = tirx.const(0, "int64")
                for n in others:
                    number = indices[n] if n == others[0] else number * after[n] + indices[n]
                for n in reversed(inside):
                    first = n == inside[0]
                    found[n] = number if first else tirx.floormod(number, before[n])
                    number = number if first else tirx.floordiv(number, before[n])
            return data(*(found.get(dimension, 0) for dimension in range(len(before))))

        return te.compute(_shape(call, symbols), element, name="reshaped")

    return call_te(builder, reshaped, [call.args[0]], "reshape")


LEGALIZATIONS: Mapping[str, Legalization] = {
    **{f"relax.nn.conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"relax.nn.max_pool{rank}d": _max_pool for rank in (1, 2, 3)},
    **{f"relax.nn.avg_pool{rank}d": _avg_pool for rank in (1, 2, 3)},
    "relax.nn.relu": _relu,
    "relax.reshape": _reshape,
    "relax.max": _reduced(greater, least),
    "relax.min": _reduced(smaller, greatest),
    "relax.argmax": _arg_reduction(largest=True),
    "relax.argmin": _arg_reduction(largest=False),
    "relax.maximum": _elementwise(greater, "maximum"),
    "relax.minimum": _elementwise(smaller, "minimum"),
}
