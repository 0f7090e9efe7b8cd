"""Stages as tensor expressions again: a stage in, a function for ``call_te`` out.

A kernel is taken apart with it into calls of one stage each, or gets tensors whose dimensions are
stored in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import te, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, read_kernel
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    BlockBuilder,
    PrimFunction,
    RelaxExpression,
    dtype_of,
    is_tensor,
    shape_and_dtype,
)

Order = tuple[int, ...]
Symbols = dict[Any, Any]


def kernel_at_call(function: PrimFunction, arguments: Sequence[Any]) -> Kernel | None:
    """The kernel that a call computes, in the symbols of the call; None if it is not a kernel.

    ``arguments`` are Relax expressions for the parameters of the function without the results.
    None also if their shapes do not define all symbols of the function.
    """
    if not all(map(is_tensor, arguments)):
        return None
    values: dict[Any, Any] = {}
    defined: list[Any] = []
    for parameter, argument in zip(function.params, arguments, strict=False):
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
    return kernel if all(var in defined for var in _symbols(kernel)) else None


def _symbols(kernel: Kernel) -> list[Any]:
    """The symbols in the extents of a kernel."""
    found: list[Any] = []
    for axis in (axis for stage in kernel.stages for axis in (*stage.axes, *stage.reduced)):
        found += sizes.symbols(axis.extent)
    return found


def call_te(
    builder: BlockBuilder,
    function: Callable[..., Any],
    arguments: Sequence[RelaxExpression],
    name: str,
    attributes: Mapping[str, Any] | None = None,
) -> RelaxExpression:
    """A call of a new PrimFunc, whose tensors ``function(symbols, *tensors)`` makes.

    A PrimFunc has symbols of its own: ``symbols`` are these, by those of the Relax function.
    """

    def made(*tensors: Any) -> Any:
        symbols: Symbols = {}
        for tensor, argument in zip(tensors, arguments, strict=True):
            for own, given in zip(tensor.shape, shape_and_dtype(argument)[0], strict=True):
                symbols.update(zip(sizes.symbols(given), sizes.symbols(own), strict=True))
        return function(symbols, *tensors)

    return builder.call_te(
        made, *arguments, primfunc_name_hint=name, primfunc_attrs=dict(attributes or {}) or None
    )


def tensors_of(
    kernel: Kernel, arguments: Sequence[Any], orders: Mapping[Any, Order], symbols: Symbols
) -> dict[Any, Any]:
    """The ``te`` tensor of each buffer of a kernel.

    ``arguments`` are the tensors of its parameters without the results; ``orders`` are the
    orders of the dimensions of some of their tensors; ``symbols`` replace the kernel's.
    """
    tensors: dict[Any, Any] = dict(zip(kernel.inputs, arguments, strict=True))
    for stage in kernel.stages:
        tensors[stage.buffer] = tensor_of(stage, tensors, orders, symbols)
    return tensors


def tensor_of(
    stage: Stage, tensors: Mapping[Any, Any], orders: Mapping[Any, Order], symbols: Symbols
) -> Any:
    """The tensor that a stage computes from those of other buffers."""
    order = orders.get(stage.buffer, tuple(range(len(stage.axes))))
    shape = [_extent(stage.axes[dimension], symbols) for dimension in order]
    reduced = [
        te.reduce_axis(
            (tirx.const(0, dtype_of(axis.var)), _extent(axis, symbols)), str(axis.var.name)
        )
        for axis in stage.reduced
    ]

    def loaded(load: Any) -> Any:
        tensor = tensors[load.source]
        order = orders.get(load.source, tuple(range(len(load.indices))))
        return tensor(*(load.indices[dimension] for dimension in order))

    def element(*indices: Any) -> Any:
        values = {**symbols}
        values.update({stage.axes[d].var: i for d, i in zip(order, indices, strict=True)})
        values.update({a.var: r.var for a, r in zip(stage.reduced, reduced, strict=True)})
        value = tvm_ffi.structural_map(substituted(stage.value, values), (BUFFER_LOAD, loaded))
        combined = stage.reducer
        if not reduced or combined is None:
            return value
        reducer = te.comm_reducer(
            lambda a, b: combined.combine(a, b), lambda dtype: stage.init, name="combine"
        )
        return reducer(value, axis=reduced)

    return te.compute(shape, element, name=str(stage.buffer.name))


def _extent(axis: Axis, symbols: Symbols) -> Any:
    """An extent in the type of its axis, which its variable then has too."""
    extent = axis.extent if axis.is_known else substituted(axis.extent, symbols)
    return sizes.number(extent, dtype_of(axis.var))
