"""Stages as tensor expressions again: a stage in, a function for ``call_te`` out.

A kernel is taken apart with it into calls of one stage each, or gets tensors whose dimensions are
stored in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import tvm_ffi
from tvm import te, tirx
from tvm.ir import PrimType, TensorLoad

from tvm_nnef.exact.late_arithmetic import with_plain_arithmetic
from tvm_nnef.exact.wrapping import opaque_elements
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, read_kernel
from tvm_nnef.schedules.relax.permuted import Order
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tvm_support.compat import (
    BlockBuilder,
    Buffer,
    PrimExpression,
    PrimFunction,
    RelaxExpression,
    Var,
    dtype_of,
    is_tensor,
    shape_and_dtype,
)
from tvm_nnef.tvm_support.sound_indices import with_hidden_conditions, with_plain_conditions

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Symbols: TypeAlias = "dict[Var, PrimExpression]"
"""The symbols of a PrimFunc by those of a Relax function."""


def kernel_at_call(
    function: PrimFunction, arguments: Sequence[RelaxExpression], *, numbers: bool = False
) -> Kernel | None:
    """The kernel that a call computes, in the symbols of the call; None if it is not a kernel.

    ``arguments`` are Relax expressions for the parameters of the function without the results.
    With ``numbers``, some may be symbols, which are not parameters of the kernel. None also if
    the arguments do not define all symbols of the function.
    """
    if not all(is_tensor(each) or (numbers and is_symbol(each)) for each in arguments):
        return None
    values: Symbols = {}
    defined: list[Var] = [each for each in arguments if is_symbol(each)]
    for parameter, argument in zip(function.params, arguments, strict=False):
        if is_symbol(argument):
            values[parameter] = argument
            continue
        for own, given in zip(parameter.shape, shape_and_dtype(argument)[0], strict=True):
            defined += [given] if isinstance(given, tirx.Var) else []
            if isinstance(own, tirx.Var):
                values.setdefault(own, sizes.number(given, dtype_of(own)))
    if values:
        replaced = (tirx.Var, lambda var: values.get(var, var))
        function = tvm_ffi.structural_map(function, replaced)
    kernel = read_kernel(function)
    if kernel is None or len(kernel.parameters) != len(arguments) + len(kernel.results):
        return None
    axes = (axis for stage in kernel.stages for axis in (*stage.axes, *stage.reduced))
    if not all(var in defined for axis in axes for var in sizes.symbols(axis.extent)):
        return None
    return replace(kernel, parameters=tuple(p for p in kernel.parameters if not is_symbol(p)))


def is_symbol(expression: RelaxExpression) -> TypeIs[Var]:
    """Whether an expression is a symbol, such as a dimension."""
    return isinstance(expression, tirx.Var) and isinstance(expression.ty, PrimType)


def call_te(
    builder: BlockBuilder,
    function: Callable[..., te.Tensor | list[te.Tensor]],
    arguments: Sequence[RelaxExpression],
    name: str,
    attributes: Mapping[str, str | int] | None = None,
    scalars: Sequence[Var] = (),
) -> RelaxExpression:
    """A call of a new PrimFunc, whose tensors ``function(symbols, *tensors)`` makes.

    A PrimFunc has its own symbols: ``symbols`` are these, by those of the Relax function. Those
    that no shape of the arguments defines are ``scalars``, parameters of the PrimFunc.
    """

    def made(*parameters: Any) -> te.Tensor | list[te.Tensor]:
        tensors, own_scalars = parameters[: len(arguments)], parameters[len(arguments) :]
        symbols: Symbols = dict(zip(scalars, own_scalars, strict=True))
        for tensor, argument in zip(tensors, arguments, strict=True):
            for own, given in zip(tensor.shape, shape_and_dtype(argument)[0], strict=True):
                symbols.update(zip(sizes.symbols(given), sizes.symbols(own), strict=True))
        return function(symbols, *tensors)

    call = builder.call_te(
        made, *arguments, *scalars, primfunc_name_hint=name,
        primfunc_attrs=dict(attributes or {}) or None,
    )  # fmt: skip
    variable = call.args[0]
    kernel = with_plain_arithmetic(builder.get()[variable])
    builder.update_func(variable, with_plain_conditions(kernel))
    return call


def call_kernel(
    builder: BlockBuilder,
    kernel: Kernel,
    arguments: Sequence[RelaxExpression],
    name: str,
    scalars: Sequence[Var] = (),
) -> RelaxExpression:
    """A call of a new PrimFunc that computes a kernel of one result.

    ``scalars`` are the symbols that no shape of the arguments defines.
    """

    def computed(symbols: Symbols, *tensors: te.Tensor) -> te.Tensor:
        return tensors_of(kernel, tensors, {}, symbols)[kernel.outputs[0]]

    return call_te(builder, computed, arguments, name, scalars=scalars)


def tensors_of(
    kernel: Kernel, arguments: Sequence[te.Tensor], orders: Mapping[Buffer, Order], symbols: Symbols
) -> dict[Buffer, te.Tensor]:
    """The ``te`` tensor of each buffer of a kernel.

    ``arguments`` are the tensors of its parameters without the results; ``orders`` are the
    orders of the dimensions of some of their tensors; ``symbols`` replace the kernel's.
    """
    tensors = dict(zip(kernel.inputs, arguments, strict=True))
    for stage in kernel.stages:
        tensors[stage.buffer] = _tensor_of(stage, tensors, orders, symbols)
    return tensors


def _tensor_of(
    stage: Stage,
    tensors: Mapping[Buffer, te.Tensor],
    orders: Mapping[Buffer, Order],
    symbols: Symbols,
) -> te.Tensor:
    """The tensor that a stage computes from those of other buffers."""

    def extent(axis: Axis) -> PrimExpression:
        """A dimension in the dtype of its axis, which its variable then has too."""
        own = axis.extent if sizes.is_known(axis.extent) else substituted(axis.extent, symbols)
        return sizes.number(own, dtype_of(axis.var))

    order = orders.get(stage.buffer, tuple(range(len(stage.axes))))
    steps = [
        te.reduce_axis((tirx.const(0, dtype_of(axis.var)), extent(axis)), axis.var.name)
        for axis in stage.reduced
    ]

    def loaded(load: TensorLoad) -> PrimExpression:
        stored = orders.get(load.source, tuple(range(len(load.indices))))
        return tensors[load.source](*(load.indices[dimension] for dimension in stored))

    def element(*indices: PrimExpression) -> PrimExpression:
        axes = {stage.axes[d].var: index for d, index in zip(order, indices, strict=True)}
        reduced = {axis.var: step.var for axis, step in zip(stage.reduced, steps, strict=True)}
        # TVM simplifies the value: an index that is limited has to stay so under its condition.
        value = opaque_elements(substituted(stage.value, {**symbols, **axes, **reduced}))
        value = with_hidden_conditions(value)
        value = tvm_ffi.structural_map(value, (TensorLoad, loaded))
        reducer = stage.reducer
        if reducer is None:
            return value
        combine = te.comm_reducer(
            lambda a, b: reducer.combine(a, b), lambda _: stage.init, name="combine"
        )
        return combine(value, axis=steps)

    shape = [extent(stage.axes[dimension]) for dimension in order]
    return te.compute(shape, element, name=stage.buffer.name)
