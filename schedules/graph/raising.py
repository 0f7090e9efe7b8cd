"""Contractions that arrive as loops become the Relax operators that they equal.

Enters: Relax functions that call PrimFuncs, such as formulas are lowered to. Leaves: the same
functions, in which a sum of products of plainly indexed operands is a ``matmul`` and a sum of
products over moving windows is a ``conv2d`` (or of one or three dimensions), so that layouts and
packing treat both alike. They are told by their indices alone. A kernel of several stages is taken
apart for that; stages that are no contraction become kernels of their own, and fuse again later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import relax, tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.graph.contractions import (
    Contraction,
    Window,
    contractions,
    convolution_axes,
    matrix_axes,
)
from tvm_nnef.schedules.graph.deconvolutions import Deconvolution, as_convolution, deconvolution
from tvm_nnef.schedules.graph.elements import as_operators, is_elementwise
from tvm_nnef.schedules.graph.rebuilding import Symbols, call_te, kernel_at_call, tensor_of
from tvm_nnef.schedules.graph.rewriting import Operands, operator_name, rewritten
from tvm_nnef.schedules.stages import Axis, Kernel, Stage, inlined, loads, read_kernel
from tvm_nnef.tvm_compat import (
    BUFFER_LOAD,
    Module,
    RelaxExpression,
    is_tensor,
    prim_functions,
    shape_and_dtype,
)


def raise_contractions(mod: Module) -> Module:
    """The module with contractions in the form of operators."""
    functions = prim_functions(mod)
    found = {}
    for name, function in functions.items():
        kernel = read_kernel(function)
        if kernel is not None and (_raised(kernel) or _is_elementwise(kernel)):
            found[name] = function
    if not found:
        return mod

    def rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
        if operator_name(node) != "call_tir" or not is_tensor(node):
            return None
        function = found.get(str(node.args[0].name_hint))
        if function is None or len(node.args) > 2:
            return None
        arguments = list(node.args[1].fields)
        kernel = kernel_at_call(function, arguments)
        raised = {} if kernel is None else _raised(kernel)
        if kernel is None or not (raised or _is_elementwise(kernel)):
            return None
        return _taken_apart(operands, kernel, raised, arguments)

    canonical = relax.transform.CanonicalizeBindings()(rewritten(mod, rewrite))
    return relax.transform.DeadCodeElimination()(canonical)


def _raised(kernel: Kernel) -> dict[Any, Contraction | Deconvolution]:
    """The stages that are operators, by the buffers that they fill."""
    found: dict[Any, Contraction | Deconvolution] = dict(contractions(kernel))
    for stage in kernel.stages:
        spread = deconvolution(stage)
        if spread is not None:
            found[stage.buffer] = spread
    return found


def _is_elementwise(kernel: Kernel) -> bool:
    """Whether operators equal the whole kernel, without contractions in it."""
    return len(kernel.stages) == 1 and is_elementwise(kernel.stages[0])


def _taken_apart(
    operands: Operands,
    kernel: Kernel,
    raised: Mapping[Any, Contraction | Deconvolution],
    arguments: Sequence[RelaxExpression],
) -> RelaxExpression:
    """The result of a kernel, computed stage by stage."""
    results = [stage.buffer for stage in kernel.results]
    inputs = [p for p in kernel.parameters if not any(p.same_as(r) for r in results)]
    values: dict[Any, Any] = dict(zip(inputs, arguments, strict=True))
    inside: dict[Any, Stage] = {}
    for stage in kernel.stages:
        contraction = raised.get(stage.buffer)
        if contraction is None:
            stage = replace(stage, value=inlined(stage.value, inside))
            if isinstance(stage.value, BUFFER_LOAD) and not any(
                stage.buffer.same_as(b) for b in (results[0], *_read(raised))
            ):
                inside[stage.buffer] = stage
            else:
                made = as_operators(operands, stage, values)
                values[stage.buffer] = _called(operands, stage, values) if made is None else made
        elif isinstance(contraction, Deconvolution):
            sources = (values[contraction.source], values[contraction.right.source])
            made = as_convolution(operands, contraction, *sources)
            values[stage.buffer] = _called(operands, stage, values) if made is None else made
        elif contraction.is_product:
            values[stage.buffer] = _product(operands, contraction, values)
        else:
            made = _convolution(operands, contraction, values)
            values[stage.buffer] = _called(operands, stage, values) if made is None else made
    return values[results[0]]


def _read(raised: Mapping[Any, Contraction | Deconvolution]) -> list[Any]:
    """The buffers that contractions read."""
    return [b for found in raised.values() for b in (found.source, found.right.source)]


def _called(operands: Operands, stage: Stage, values: Mapping[Any, Any]) -> RelaxExpression:
    """A stage as a kernel of its own."""
    sources: dict[Any, None] = dict.fromkeys(load.source for load in loads(stage.value))

    def function(symbols: Symbols, *tensors: Any) -> Any:
        return tensor_of(stage, dict(zip(sources, tensors, strict=True)), {}, symbols)

    arguments = [values[source] for source in sources]
    return operands.emit(call_te(operands.builder, function, arguments, str(stage.buffer.name)))


def _arranged(
    operands: Operands, value: RelaxExpression, load: Any, axes: Sequence[Axis]
) -> RelaxExpression:
    """An operand with its dimensions in the order of some axes, and no others."""
    moving = [n for n, index in enumerate(load.indices) if isinstance(index, tirx.Var)]
    shape = list(shape_and_dtype(value)[0])
    value = _reshaped(operands, value, [shape[n] for n in moving], shape)
    order = [
        next(place for place, n in enumerate(moving) if load.indices[n].same_as(axis.var))
        for axis in axes
    ]
    return _permuted(operands, value, order)


def _permuted(operands: Operands, value: RelaxExpression, order: Sequence[int]) -> RelaxExpression:
    if list(order) == sorted(order):
        return value
    return operands.emit(relax.op.permute_dims(value, list(order)))


def _reshaped(
    operands: Operands,
    value: RelaxExpression,
    shape: Sequence[sizes.Extent],
    old: Sequence[sizes.Extent],
) -> RelaxExpression:
    if len(shape) == len(old) and all(map(sizes.same, shape, old)):
        return value
    return operands.emit(relax.op.reshape(value, tuple(shape)))


def _size(axes: Sequence[Axis]) -> sizes.Extent:
    return sizes.product(axis.extent for axis in axes)


def _extents(axes: Sequence[Axis]) -> list[sizes.Extent]:
    return [axis.extent for axis in axes]


def _product(operands: Operands, found: Contraction, values: Mapping[Any, Any]) -> RelaxExpression:
    """A ``matmul`` of operands arranged as ``[both, rows, steps]``, ``[both, steps, columns]``."""
    axes = matrix_axes(found)
    assert axes is not None
    both, rows, columns = axes
    stage, steps = found.stage, list(found.stage.reduced)
    single = not both and len(steps) == len(rows) == 1 and 2 <= len(columns) <= 4
    if single and list(stage.axes) == [columns[0], *rows, *columns[1:]]:
        return _pointwise(operands, found, rows[0], columns, values)
    left = _arranged(operands, values[found.source], found.left, [*both, *rows, *steps])
    right = _arranged(operands, values[found.right.source], found.right, [*both, *steps, *columns])
    left_shape = [*_extents(both), *(_extents(rows) if not both else [_size(rows)]), _size(steps)]
    right_shape = [*_extents(both), _size(steps), _size(columns)]
    left = _reshaped(operands, left, left_shape, _extents([*both, *rows, *steps]))
    right = _reshaped(operands, right, right_shape, _extents([*both, *steps, *columns]))
    product = operands.emit(relax.op.matmul(left, right))
    made = [*left_shape[:-1], _size(columns)]
    ordered = [*both, *rows, *columns]
    whole = _reshaped(operands, product, _extents(ordered), made)
    moved = [axis for axis in stage.axes if axis in ordered]
    result = _permuted(operands, whole, [ordered.index(axis) for axis in moved])
    return _reshaped(operands, result, _extents(stage.axes), _extents(moved))


_CONVOLUTIONS = {
    1: (relax.op.nn.conv1d, "W"), 2: (relax.op.nn.conv2d, "HW"), 3: (relax.op.nn.conv3d, "DHW"),
}  # fmt: skip


def _convolution(
    operands: Operands, found: Contraction, values: Mapping[Any, Any]
) -> RelaxExpression | None:
    """A convolution of the operands, arranged as ``[N, C, X...]`` and ``[O, C, X...]``.

    None where its padding is no number, as only a run tells the extents.
    """
    axes = convolution_axes(found)
    assert axes is not None
    stage, windows = found.stage, axes.windows
    make, letters = _CONVOLUTIONS[len(windows)]
    places = [
        next(n for n, index in enumerate(found.left.indices) if index.same_as(axis.var))
        for axis in (axes.batch, axes.channel)
    ]
    spatial = [n for n, window in enumerate(found.windows) if window is not None]
    data = _permuted(operands, values[found.source], [*places, *spatial])
    steps = [window.step for window in windows]
    first = [axes.output] if axes.depthwise else [axes.output, axes.channel]
    weights = _arranged(operands, values[found.right.source], found.right, [*first, *steps])
    channels = axes.channel.extent
    if not all(map(sizes.is_known, (channels, *_extents(steps)))):
        return None
    if axes.depthwise:
        shape = [channels, 1, *_extents(steps)]
        weights = operands.emit(relax.op.reshape(weights, tuple(shape)))
    before = [0] * len(spatial)
    extents = [shape_and_dtype(data)[0][2 + n] for n in range(len(spatial))]
    if found.padding is not None:
        before = [found.padding.inside[n][0] for n in spatial]
    missing = [_missing(w, e, b) for w, e, b in zip(windows, extents, before, strict=True)]
    known = [number for number in missing if sizes.is_known(number)]
    if len(known) != len(missing):
        return None
    behind = [max(0, 1 - window.stride - n) for window, n in zip(windows, known, strict=True)]
    result = make(
        _cropped(operands, data, extents, behind),
        weights,
        strides=[window.stride for window in windows],
        padding=[*before, *(max(0, number) for number in known)],
        dilation=[window.dilation for window in windows],
        groups=channels if axes.depthwise else 1,
        data_layout=f"NC{letters}",
        kernel_layout=f"OI{letters}",
    )
    ordered = [axes.batch, axes.output, *(window.axis for window in windows)]
    made = _cut(operands, operands.emit(result), _extents(ordered))
    return _permuted(operands, made, [ordered.index(axis) for axis in stage.axes])


def _cut(
    operands: Operands, value: RelaxExpression, shape: Sequence[sizes.Extent]
) -> RelaxExpression:
    """The value with just these extents, in the words of its readers: symbols have many."""
    had = shape_and_dtype(value)[0]
    spelled = [sizes.simplified(sizes.number(extent, "int64")) for extent in had]
    axes = [
        n
        for n, (own, wanted) in enumerate(zip(spelled, shape, strict=True))
        if not tvm_ffi.structural_equal(own, wanted)
    ]
    if not axes:
        return value
    begin, end = [0] * len(axes), [shape[axis] for axis in axes]
    return operands.emit(relax.op.strided_slice(value, axes, begin, end, assume_inbound=True))


def _pointwise(
    operands: Operands,
    found: Contraction,
    output: Axis,
    others: Sequence[Axis],
    values: Mapping[Any, Any],
) -> RelaxExpression:
    """A product whose result has its new axis behind the first one: a convolution of size 1."""
    (channel,) = found.stage.reduced
    batch, *spatial = others
    make, letters = _CONVOLUTIONS[len(spatial)]
    data = _arranged(operands, values[found.right.source], found.right, [batch, channel, *spatial])
    weights = _arranged(operands, values[found.source], found.left, [output, channel])
    shape = [output.extent, channel.extent, *[1] * len(spatial)]
    weights = operands.emit(relax.op.reshape(weights, tuple(shape)))
    layouts = {"data_layout": f"NC{letters}", "kernel_layout": f"OI{letters}"}
    return operands.emit(make(data, weights, **layouts))


def _missing(window: Window, extent: sizes.Extent, before: int) -> sizes.Extent:
    """How much further the last window reaches than data with a padding in front of it."""
    last = (window.axis.extent - 1) * window.stride
    reach = last + (window.step.extent - 1) * window.dilation + 1
    missing = reach - extent - before
    return missing if sizes.is_known(missing) else sizes.simplified(missing)


def _cropped(
    operands: Operands,
    data: RelaxExpression,
    extents: Sequence[sizes.Extent],
    behind: Sequence[int],
) -> RelaxExpression:
    """The data without what lies behind the last window, which would give more windows."""
    if not any(behind):
        return data
    count = len(extents)
    ends = [extent - more for extent, more in zip(extents, behind, strict=True)]
    cut = relax.op.strided_slice(data, list(range(2, 2 + count)), [0] * count, ends)
    return operands.emit(cut)
