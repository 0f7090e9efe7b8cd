"""Relax operators that TVM's own legalization gets wrong at infinities and at what is no number.

TVM's maxima and minima start from the least and the greatest finite number, and lose a NaN
depending on where it stands; here they are -inf and inf of nothing, and NaN where one is NaN. Where
all are infinite it finds the extreme at place -1. Its convolutions multiply their padding with
weights, which may be infinite. A legalization takes a call of a Relax operator and gives a call of
its PrimFunc. Knows TVM only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from tvm_nnef.function_attributes import ArgReduction, annotation_attributes
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.graph.convolution_kernels import Window, channels_first, is_exact, padded
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
    """The greatest element of each window."""
    reducer = te.comm_reducer(lambda x, y: greater(x, y), least, name="maximum")
    windows = _Windows.of(call)

    def pooled(symbols: Symbols, data: te.Tensor) -> Any:
        return windows.reduced(_shape(call, symbols), data, reducer, least(data.dtype), "max_pool")

    return call_te(builder, pooled, [call.args[0]], "max_pool")


def _avg_pool(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """The sum of each window, by its size or by how many of its elements are no padding."""
    windows, every = _Windows.of(call), bool(call.attrs.count_include_pad)

    def pooled(symbols: Symbols, data: te.Tensor) -> Any:
        shape = _shape(call, symbols)
        sums = windows.reduced(shape, data, te.sum, tirx.const(0, data.dtype), "sum_pool")

        def element(*indices: PrimExpression) -> PrimExpression:
            counts = (windows.count(data, axis, indices[axis]) for axis in windows.axes)
            whole = tirx.const(math.prod(windows.sizes), "int64")
            count = whole if every else functools.reduce(lambda a, b: a * b, counts)
            return sums(*indices) / tirx.Cast(data.dtype, count)

        return te.compute(shape, element, name="avg_pool")

    return call_te(builder, pooled, [call.args[0]], "avg_pool")


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of a pooling: for each of ``axes`` a size, a stride, and so on."""

    axes: list[int]
    sizes: list[int]
    strides: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]
    ceil: bool

    @staticmethod
    def of(call: CALL) -> _Windows:
        """The windows that the attributes of a pooling describe."""
        attributes = call.attrs
        axes = [n for n, letter in enumerate(str(attributes.layout)) if letter in "DHW"]
        sizes, strides, dilation, padding = (
            [int(item) for item in getattr(attributes, name)]
            for name in ("pool_size", "strides", "dilation", "padding")
        )
        before, after = padding[: len(axes)], padding[len(axes) :]
        return _Windows(axes, sizes, strides, dilation, before, after, bool(attributes.ceil_mode))

    def reduced(
        self,
        shape: Sequence[Any],
        data: Any,
        reducer: Callable[..., PrimExpression],
        neutral: Any,
        name: str,
    ) -> te.Tensor:
        """What a reducer makes of each window, in a frame of what changes nothing."""
        source = padded(data, self.axes, self.before, self._behind(shape, data), neutral)

        def element(*indices: PrimExpression) -> PrimExpression:
            loops = [te.reduce_axis((0, size), "window") for size in self.sizes]
            places = list(indices)
            for axis, loop, stride, step in zip(
                self.axes, loops, self.strides, self.dilation, strict=True
            ):
                places[axis] = indices[axis] * stride + loop.var * step
            return reducer(source(*places), axis=loops)

        return te.compute(shape, element, name=name)

    def count(self, data: Any, axis: int, index: PrimExpression) -> PrimExpression:
        """How many steps of the window at an index along an axis meet an element."""
        place = self.axes.index(axis)
        step = self.dilation[place]
        start = self.before[place] - index * self.strides[place]
        first = tirx.max(tirx.floordiv(start + (step - 1), step), 0)
        behind = tirx.floordiv(start + data.shape[axis] + (step - 1), step)
        return tirx.min(behind, self.sizes[place]) - first

    def _behind(self, shape: Sequence[Any], data: te.Tensor) -> list[int]:
        """The padding behind the data, which the last window may reach beyond (``ceil_mode``)."""
        behind = list(self.after)
        for place, (axis, size, stride, step) in enumerate(
            zip(self.axes, self.sizes, self.strides, self.dilation, strict=True)
        ):
            reach = (shape[axis] - 1) * stride + (size - 1) * step + 1
            missing = sym.Analyzer().simplify(reach - self.before[place] - data.shape[axis])
            if isinstance(missing, tirx.IntImm):
                behind[place] = max(behind[place], int(missing))
            elif self.ceil:
                behind[place] += stride - 1
        return behind


def _convolution(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """A convolution that leaves out what lies in its padding, where weights may not be finite."""
    attributes, weights = call.attrs, call.args[1]
    layout, (shape, dtype) = str(attributes.data_layout), shape_and_dtype(weights)
    window = Window.of(attributes, len(layout) - 2, shape[2:])
    plain = (layout[:2], str(attributes.kernel_layout)[:2]) == ("NC", "OI")
    plain = plain and str(attributes.out_layout) in ("", layout)
    same = shape_and_dtype(call)[1] == dtype and all(map(sizes.is_known, shape))
    exact = window.is_padded and is_exact(constant_array(weights), dtype)
    if not (plain and same and exact):
        return _standard(builder, call)
    function = channels_first(window, int(attributes.groups), exact=True)
    return builder.call_te(function, *call.args[:2], primfunc_name_hint="conv")


def _reduced(function: Combination, first: Callable[[Any], PrimExpression]) -> Legalization:
    """The legalization of an operator over whole dimensions."""

    def legalize(builder: BlockBuilder, call: CALL) -> RelaxExpression:
        gone = _gone(call)

        def reduced(symbols: Symbols, data: te.Tensor) -> Any:
            loops = [te.reduce_axis((0, data.shape[axis]), "step") for axis in gone]
            reducer = te.comm_reducer(lambda x, y: function(x, y), first, name="extreme")

            def element(*indices: PrimExpression) -> PrimExpression:
                places = _joined(call, indices, [loop.var for loop in loops])
                return reducer(data(*places), axis=loops)

            return te.compute(_shape(call, symbols), element, name="reduced")

        return call_te(builder, reduced, [call.args[0]], "reduced")

    return legalize


def _arg_reduction(*, largest: bool) -> Legalization:
    """The legalization of argmax or argmin."""

    def legalize(builder: BlockBuilder, call: CALL) -> RelaxExpression:
        gone = _gone(call)
        reduction = ArgReduction(gone[0], len(gone), largest)
        rank = len(call.args[0].ty.shape)
        kept = [axis for axis in range(rank) if axis not in gone]
        kept = kept if call.attrs.keepdims else [*range(len(kept))]

        def found(symbols: Symbols, data: te.Tensor) -> Any:
            return arg_reduction(data, reduction, _shape(call, symbols), kept, str(call.ty.dtype))

        attributes = annotation_attributes(reduction)
        return call_te(builder, found, [call.args[0]], "arg_reduction", attributes)

    return legalize


def _gone(call: CALL) -> list[int]:
    """The dimensions that a call reduces."""
    rank, axis = len(call.args[0].ty.shape), call.attrs.axis
    if axis is None:
        return list(range(rank))
    return sorted({int(n) % rank for n in ([axis] if isinstance(axis, int) else axis)})


def _joined(
    call: Any, indices: Sequence[PrimExpression], inner: Sequence[PrimExpression]
) -> list[PrimExpression]:
    """The position of an operand at indices of the result, and of what is reduced."""
    gone, keep = _gone(call), bool(call.attrs.keepdims)
    kept = iter(i for n, i in enumerate(indices) if not keep or n not in gone)
    places = iter(inner)
    rank = len(call.args[0].ty.shape)
    return [next(places) if n in gone else next(kept) for n in range(rank)]


def _shape(call: Any, symbols: Symbols) -> list[PrimExpression]:
    """The extents of what a call gives, in the symbols of its kernel."""
    return [substituted(extent, symbols) for extent in call.ty.shape.values]


def _elementwise(function: Combination, name: str) -> Legalization:
    """The legalization of an operator of two operands that broadcast."""
    return lambda builder, call: _combined(builder, call, call.args, function, name)


def _combined(
    builder: BlockBuilder, call: Any, operands: Sequence[Any], function: Combination, name: str
) -> RelaxExpression:
    """A function of the elements of two operands; a constant of rank 0 becomes a number."""
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


def _standard(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """The legalization of TVM."""
    made: RelaxExpression = call.op.get_attr("FLegalize")(builder, call)
    return made


def _reshape(builder: BlockBuilder, call: CALL) -> RelaxExpression:
    """A view, where a kernel would divide by symbols to find each element."""
    before, after = shape_and_dtype(call.args[0])[0], shape_and_dtype(call)[0]
    plain = all(map(sizes.is_known, (*before, *after)))
    if plain or sizes.groups(before, after) is not None:
        return _standard(builder, call)
    return call


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
