"""Relax operators that TVM's own legalization gets wrong at infinities and NaN.

TVM's max and min start from the lowest and highest finite number, and lose a NaN depending on the
order of operands; here they start from -inf and inf, and keep NaN. Its argmax and argmin of
infinities only are -1. Its convolutions multiply their padding with weights, which may be infinite.
A legalization takes a call of a Relax operator and returns a call of its PrimFunc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import tvm_ffi
from tvm import relax, sym, te, tirx
from tvm.ir import Call, Type

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.relax.convolution_kernels import Window, by_output, convolution, is_exact
from tvm_nnef.schedules.relax.rebuilding import Symbols, call_te
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tir.min_max import arg_reduction, max_value, maximum, min_value, minimum
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    BUFFER_TYPE,
    BlockBuilder,
    Module,
    PrimExpression,
    RelaxExpression,
    constant_array,
    dtype_of,
    shape_and_dtype,
    tensor_type,
    with_shape,
)

Legalization: TypeAlias = "Callable[[BlockBuilder, Call], RelaxExpression]"
"""From a ``relax.BlockBuilder`` and a call to an expression."""


def _standard(builder: BlockBuilder, call: Call) -> RelaxExpression:
    """The legalization of TVM."""
    made: RelaxExpression = call.op.get_attr("FLegalize")(builder, call)
    return made


def _max_min(builder: BlockBuilder, call: Call) -> RelaxExpression:
    """The legalization of TVM with max and min that keep NaN."""
    return _with_mapped_kernel(builder, call, _KEEP_NAN)


def _max_min_from_infinity(builder: BlockBuilder, call: Call) -> RelaxExpression:
    """The same, with infinities for the finite limits that reductions and padding begin with."""
    return _with_mapped_kernel(builder, call, [*_KEEP_NAN, (tirx.FloatImm, _infinite)])


def _infinite(number: tirx.FloatImm) -> PrimExpression:
    """An infinity for the lowest or the highest finite number of a dtype."""
    dtype = dtype_of(number)
    for limit, infinity in ((tirx.min_value, min_value), (tirx.max_value, max_value)):
        if float(number.value) == float(limit(dtype).value):
            return infinity(dtype)
    return number


_Mapping: TypeAlias = "tuple[type[PrimExpression], Callable[..., PrimExpression]]"

_KEEP_NAN: Sequence[_Mapping] = (
    (tirx.Max, lambda node: maximum(node.a, node.b)),
    (tirx.Min, lambda node: minimum(node.a, node.b)),
)


def _with_mapped_kernel(
    builder: BlockBuilder, call: Call, mappings: Sequence[_Mapping]
) -> RelaxExpression:
    """The legalization of TVM with nodes of some classes in its PrimFunc replaced."""
    separate = relax.BlockBuilder()
    made = _standard(separate, call)
    assert isinstance(made, Call)
    variable, *arguments = made.args
    kernel = tvm_ffi.structural_map(separate.get()[variable], mappings, order="post")
    own = builder.add_func(kernel, variable.name_hint)
    return relax.Call(made.op, [own, *arguments], made.attrs, made.ty_args)


def _arg_reduction(*, largest: bool) -> Legalization:
    """The legalization of argmax or argmin."""

    def legalize(builder: BlockBuilder, call: Call) -> RelaxExpression:
        rank, axis = len(call.args[0].ty.shape), call.attrs.axis
        reduced = range(rank) if axis is None else range(int(axis) % rank, int(axis) % rank + 1)
        kept = [dimension for dimension in range(rank) if dimension not in reduced]
        kept = kept if call.attrs.keepdims else [*range(len(kept))]

        def found(symbols: Symbols, data: te.Tensor) -> te.Tensor:
            shape = [substituted(size, symbols) for size in call.ty.shape.values]
            return arg_reduction(data, reduced, shape, kept, str(call.ty.dtype), largest=largest)

        return call_te(builder, found, [call.args[0]], "arg_reduction")

    return legalize


def _convolution(builder: BlockBuilder, call: Call) -> RelaxExpression:
    """A convolution that multiplies no padding if a weight may not be finite."""
    attributes, weights = call.attrs, call.args[1]
    layout, (shape, dtype) = str(attributes.data_layout), shape_and_dtype(weights)
    plain = (layout[:2], str(attributes.kernel_layout)[:2]) == ("NC", "OI")
    plain = plain and str(attributes.out_layout) in ("", layout)
    same = shape_and_dtype(call)[1] == dtype and sizes.are_known(shape)
    padding = any(map(int, attributes.padding))
    if not (plain and same and padding and is_exact(constant_array(weights), dtype)):
        return _standard(builder, call)
    window, groups = Window.of(call, shape[2:]), int(attributes.groups)
    outputs, depth = shape[:2]
    function = convolution(window, outputs, groups, depth, by_output, last=False, exact=True)
    return builder.call_te(function, *call.args[:2], primfunc_name_hint="conv")


def _reshape(builder: BlockBuilder, call: Call) -> RelaxExpression:
    """A kernel that divides by no symbols to find an element; a view if there is none.

    Neither does it divide if only dimensions of size 1 differ: such indices are plain.
    """
    before, after = shape_and_dtype(call.args[0])[0], shape_and_dtype(call)[0]
    if sizes.are_known((*before, *after)) and _without_units(before) != _without_units(after):
        return _standard(builder, call)
    groups = sizes.groups(before, after)
    if groups is None:
        return call

    def reshaped(symbols: Symbols, data: te.Tensor) -> te.Tensor:
        def element(*indices: PrimExpression) -> PrimExpression:
            found: dict[int, PrimExpression] = {}
            for sources, targets in groups:
                # A dynamic dimension is alone in its group, except for dimensions of size 1.
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

        shape = [substituted(size, symbols) for size in after]
        return te.compute(shape, element, name="reshaped")

    return call_te(builder, reshaped, [call.args[0]], "reshape")


def _without_units(shape: Sequence[sizes.Extent]) -> list[sizes.Extent]:
    return [size for size in shape if size != 1]


LEGALIZATIONS: Mapping[str, Legalization] = {
    **{f"relax.nn.conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"relax.nn.max_pool{rank}d": _max_min_from_infinity for rank in (1, 2, 3)},
    **dict.fromkeys(("relax.max", "relax.min"), _max_min_from_infinity),
    **dict.fromkeys(("relax.maximum", "relax.minimum", "relax.nn.relu"), _max_min),
    "relax.reshape": _reshape,
    "relax.argmax": _arg_reduction(largest=True),
    "relax.argmin": _arg_reduction(largest=False),
}


def with_plain_shapes(mod: Module) -> Module:
    """The module with the dimensions of all tensors and buffers in their simplest form.

    TVM writes ``h + 2 - 3 + 1`` in the kernel of a convolution, and then takes its result for
    another tensor than the one of ``h`` rows that the next kernel reads.
    """
    kinds = [(relax.TensorType, _plain_tensor), (BUFFER_TYPE, _plain_buffer)]
    changed = {
        variable: traversal.mapped(function, kinds) for variable, function in mod.functions.items()
    }
    result = mod.clone()
    result.update(changed)
    return result


def _plain_tensor(kind: Type) -> Type:
    if not isinstance(kind.shape, relax.ShapeExpr):
        return kind
    values = kind.shape.values[:]
    if all(isinstance(size, (tirx.IntImm, tirx.Var)) for size in values):
        return kind
    plain: Type = tensor_type(_plain(values), str(kind.dtype))
    return plain


def _plain_buffer(kind: Type) -> Type:
    plain: Type = with_shape(kind, _plain(kind.shape))
    return plain


def _plain(shape: Sequence[PrimExpression]) -> list[PrimExpression]:
    return [
        size if isinstance(size, (tirx.IntImm, tirx.Var)) else sym.Analyzer().simplify(size)
        for size in shape[:]
    ]
