"""Contractions that arrive as loops become the Relax operators that they equal.

Enters: Relax functions that call PrimFuncs, such as formulas are lowered to. Leaves: the same
functions, in which a sum of products of plainly indexed operands is a ``matmul`` and a sum of
products over moving windows is a ``conv2d`` (or of one or three dimensions), so that layouts and
packing treat both alike. They are told by their indices alone. A kernel of several stages is taken
apart for that; stages that are no contraction become kernels of their own, and fuse again later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import relax, sym, tirx

from tvm_nnef.schedules.graph.rebuilding import tensor_of
from tvm_nnef.schedules.graph.rewriting import Operands, operator_name, rewritten
from tvm_nnef.schedules.padding import Padding, read_padding
from tvm_nnef.schedules.stages import Axis, Kernel, Stage, inlined, loads, read_kernel
from tvm_nnef.tvm_compat import BUFFER_LOAD, Module, RelaxExpression, is_tensor, prim_functions


def raise_contractions(mod: Module) -> Module:
    """The module with contractions in the form of operators."""
    functions = prim_functions(mod)
    found: dict[str, tuple[Kernel, dict[Any, _Contraction]]] = {}
    for name, function in functions.items():
        kernel = read_kernel(function)
        raised = {} if kernel is None else _contractions(kernel)
        if kernel is not None and raised:
            found[name] = (kernel, raised)
    if not found:
        return mod

    def rewrite(operands: Operands, node: Any) -> RelaxExpression | None:
        if operator_name(node) != "call_tir" or not is_tensor(node):
            return None
        kernel, raised = found.get(str(node.args[0].name_hint), (None, {}))
        if kernel is None or len(node.args) > 2:
            return None
        return _taken_apart(operands, kernel, raised, list(node.args[1].fields))

    canonical = relax.transform.CanonicalizeBindings()(rewritten(mod, rewrite))
    return relax.transform.DeadCodeElimination()(canonical)


@dataclass(frozen=True, slots=True, eq=False)
class _Contraction:
    """A stage that is a sum of products, and the padding of its first operand."""

    stage: Stage
    left: Any
    right: Any
    windows: tuple[_Window | None, ...]
    padding: Padding | None
    source: Any

    @property
    def is_product(self) -> bool:
        """Whether all indices are plain, so that it is a product of matrices."""
        return not any(self.windows)


@dataclass(frozen=True, slots=True)
class _Window:
    """An index ``stride * axis + dilation * step``."""

    axis: Axis
    step: Axis
    stride: int
    dilation: int


def _contractions(kernel: Kernel) -> dict[Any, _Contraction]:
    """The contractions of a kernel by the buffers that they fill."""
    found = {}
    for stage in kernel.stages:
        contraction = _contraction(stage, kernel)
        if contraction is not None:
            found[stage.buffer] = contraction
    return found


def _contraction(stage: Stage, kernel: Kernel) -> _Contraction | None:
    product, init = stage.value, stage.init
    if stage.combine is not tirx.Add or not isinstance(product, tirx.Mul):
        return None
    if stage.dtype != "float32" or not isinstance(init, tirx.FloatImm) or init.value != 0:
        return None
    operands = (product.a, product.b)
    if not all(isinstance(operand, BUFFER_LOAD) for operand in operands):
        return None
    if product.a.source.same_as(product.b.source):
        return None
    for data, right in (operands, operands[::-1]):
        left = _with_unit_axes(data, stage)
        windows = [_window(index, stage) for index in left.indices]
        plain = _are_plain(left, windows, stage) and _are_plain(
            right, [None] * len(right.indices), stage
        )
        if not plain:
            continue
        found = _with_padding(stage, left, right, tuple(windows), kernel)
        valid = found is not None and (
            _matrix_axes(found) if found.is_product else _convolution_axes(found)
        )
        if valid:
            return found
    return None


def _with_unit_axes(load: Any, stage: Stage) -> Any:
    """The load with axes of extent 1 in place of zeros, where the value mentions them nowhere."""
    found: list[Any] = []
    tvm_ffi.structural_walk(stage.value, (tirx.Var, found.append), order="post")
    indices = list(load.indices)
    for place, (index, axis) in enumerate(zip(indices, stage.axes, strict=False)):
        idle = axis.extent == 1 and not any(var.same_as(axis.var) for var in found)
        if idle and _is_unit(index, load.source.shape[place]):
            indices[place] = axis.var
    return load.source[tuple(indices)]


def _window(index: Any, stage: Stage) -> _Window | None:
    """The window that an index moves over; None for a plain index and for all others."""
    if isinstance(index, tirx.Var):
        return None
    for axis in stage.axes:
        for step in stage.reduced:
            equation = sym.detect_linear_equation(index, [axis.var, step.var])
            if not len(equation) or not all(isinstance(c, tirx.IntImm) for c in equation):
                continue
            stride, dilation, base = (int(c.value) for c in equation)
            if stride > 0 and dilation > 0 and base == 0:
                return _Window(axis, step, stride, dilation)
    return None


def _are_plain(load: Any, windows: Sequence[_Window | None], stage: Stage) -> bool:
    """Whether each index is an axis of its own, or a window."""
    axes = [axis.var for axis in (*stage.axes, *stage.reduced)]
    seen: list[Any] = []
    for index, window, extent in zip(load.indices, windows, load.source.shape, strict=True):
        if _is_unit(index, extent):
            continue
        used = [window.axis.var, window.step.var] if window else [index]
        if any(var not in axes or var in seen for var in used):
            return False
        seen += used
    return True


def _is_unit(index: Any, extent: Any) -> bool:
    """Whether a dimension has one element, and that is read."""
    return isinstance(index, tirx.IntImm) and index.value == 0 and int(extent) == 1


def _with_padding(
    stage: Stage, left: Any, right: Any, windows: tuple[_Window | None, ...], kernel: Kernel
) -> _Contraction | None:
    """The contraction; with windows over a padded copy it reads what was copied."""
    copied = kernel.stage_of(left.source)
    if copied is not None and _is_copy(copied):
        return _Contraction(stage, left, right, windows, None, copied.value.source)
    padding = read_padding(copied) if copied is not None and any(windows) else None
    if padding is not None and copied is not None:
        shifted = all(
            first == 0 or window is not None
            for (first, _), window in zip(padding.inside, windows, strict=True)
        )
        if shifted and float(padding.value.value) == 0 and _is_shift(padding, copied):
            return _Contraction(stage, left, right, windows, padding, padding.source.source)
    return _Contraction(stage, left, right, windows, None, left.source)


def _is_copy(stage: Stage) -> bool:
    """Whether a stage holds another buffer as it is."""
    value = stage.value
    if stage.reduced or not isinstance(value, BUFFER_LOAD):
        return False
    shape = [int(extent) for extent in value.source.shape]
    return shape == _extents(stage.axes) and all(
        index.same_as(axis.var) for index, axis in zip(value.indices, stage.axes, strict=True)
    )


def _is_shift(padding: Padding, copied: Stage) -> bool:
    """Whether the copy holds its whole source, at the beginning of the range inside."""
    for index, (first, last), axis, extent in zip(
        padding.source.indices, padding.inside, copied.axes, padding.source.source.shape,
        strict=True,
    ):  # fmt: skip
        equation = sym.detect_linear_equation(index, [axis.var])
        if not len(equation) or not all(isinstance(c, tirx.IntImm) for c in equation):
            return False
        slope, base = (int(c.value) for c in equation)
        if slope != 1 or base != -first or last - first != int(extent):
            return False
    return True


def _has(load: Any, axis: Axis) -> bool:
    return any(index.same_as(axis.var) for index in load.indices)


def _moving(stage: Stage) -> list[Axis]:
    """The axes without those of extent 1 that the value does not mention."""
    found: list[Any] = []
    tvm_ffi.structural_walk(stage.value, (tirx.Var, found.append), order="post")
    return [a for a in stage.axes if a.extent != 1 or any(var.same_as(a.var) for var in found)]


def _matrix_axes(found: _Contraction) -> tuple[list[Axis], list[Axis], list[Axis]] | None:
    """The axes that both operands share, those of the left one, and those of the right one."""
    stage, left, right = found.stage, found.left, found.right
    if not all(_has(left, axis) and _has(right, axis) for axis in stage.reduced):
        return None
    both = [a for a in stage.axes if _has(left, a) and _has(right, a)]
    rows = [a for a in stage.axes if _has(left, a) and not _has(right, a)]
    columns = [a for a in stage.axes if _has(right, a) and not _has(left, a)]
    complete = all(axis in (*both, *rows, *columns) for axis in _moving(stage))
    if not complete or not rows or not columns:
        return None
    ordered = [*both, *rows, *columns]
    # Rows in front of columns: else the operands change places.
    if stage.axes.index(rows[-1]) > stage.axes.index(columns[-1]):
        return None
    return (both, rows, columns) if ordered else None


@dataclass(frozen=True, slots=True, eq=False)
class _ConvolutionAxes:
    batch: Axis
    channel: Axis
    output: Axis
    windows: list[_Window]
    depthwise: bool


def _convolution_axes(found: _Contraction) -> _ConvolutionAxes | None:
    """The roles of the axes of a convolution; None where one is missing."""
    stage, left, right = found.stage, found.left, found.right
    windows = [window for window in found.windows if window is not None]
    plain = [
        axis
        for axis in (*stage.axes, *stage.reduced)
        if any(index.same_as(axis.var) for index in left.indices)
    ]
    moving = [window.axis for window in windows]
    steps = [window.step for window in windows]
    if len(plain) != 2 or not 1 <= len(windows) <= 3 or len(stage.axes) != len(windows) + 2:
        return None
    channels = [axis for axis in plain if _has(right, axis)]
    batches = [axis for axis in plain if not _has(right, axis) and axis in stage.axes]
    if len(channels) != 1 or len(batches) != 1:
        return None
    (channel,), (batch,) = channels, batches
    depthwise = channel in stage.axes
    outputs = [a for a in stage.axes if a not in (*moving, batch)]
    expected = [*steps, *(outputs if depthwise else [*outputs, channel])]
    reduced = steps if depthwise else [*steps, channel]
    if len(outputs) != 1 or len(right.indices) != len(expected):
        return None
    complete = all(_has(right, axis) for axis in expected) and all(
        axis in reduced for axis in stage.reduced
    )
    if not complete or len(reduced) != len(stage.reduced):
        return None
    return _ConvolutionAxes(batch, channel, outputs[0], windows, depthwise)


def _taken_apart(
    operands: Operands,
    kernel: Kernel,
    raised: Mapping[Any, _Contraction],
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
                values[stage.buffer] = _called(operands, stage, values)
        elif contraction.is_product:
            values[stage.buffer] = _product(operands, contraction, values)
        else:
            values[stage.buffer] = _convolution(operands, contraction, values)
    return values[results[0]]


def _read(raised: Mapping[Any, _Contraction]) -> list[Any]:
    """The buffers that contractions read."""
    return [b for found in raised.values() for b in (found.source, found.right.source)]


def _called(operands: Operands, stage: Stage, values: Mapping[Any, Any]) -> RelaxExpression:
    """A stage as a kernel of its own."""
    sources: dict[Any, None] = dict.fromkeys(load.source for load in loads(stage.value))

    def function(*tensors: Any) -> Any:
        return tensor_of(stage, dict(zip(sources, tensors, strict=True)), {})

    name = str(stage.buffer.name)
    arguments = [values[source] for source in sources]
    return operands.emit(operands.builder.call_te(function, *arguments, primfunc_name_hint=name))


def _arranged(
    operands: Operands, value: RelaxExpression, load: Any, axes: Sequence[Axis]
) -> RelaxExpression:
    """An operand with its dimensions in the order of some axes, and no others."""
    moving = [n for n, index in enumerate(load.indices) if isinstance(index, tirx.Var)]
    shape = [int(extent) for extent in load.source.shape]
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
    operands: Operands, value: RelaxExpression, shape: Sequence[int], old: Sequence[int]
) -> RelaxExpression:
    if list(shape) == list(old):
        return value
    return operands.emit(relax.op.reshape(value, tuple(shape)))


def _size(axes: Sequence[Axis]) -> int:
    total = 1
    for axis in axes:
        total *= axis.extent
    return total


def _extents(axes: Sequence[Axis]) -> list[int]:
    return [axis.extent for axis in axes]


def _product(operands: Operands, found: _Contraction, values: Mapping[Any, Any]) -> RelaxExpression:
    """A ``matmul`` of operands arranged as ``[both, rows, steps]``, ``[both, steps, columns]``."""
    axes = _matrix_axes(found)
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
    operands: Operands, found: _Contraction, values: Mapping[Any, Any]
) -> RelaxExpression:
    """A convolution of the operands, arranged as ``[N, C, X...]`` and ``[O, C, X...]``."""
    axes = _convolution_axes(found)
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
    if axes.depthwise:
        shape = [channels, 1, *_extents(steps)]
        weights = operands.emit(relax.op.reshape(weights, tuple(shape)))
    before = [0] * len(spatial)
    extents = [int(found.source.shape[n]) for n in spatial]
    if found.padding is not None:
        before = [found.padding.inside[n][0] for n in spatial]
    after = [
        max(0, (w.axis.extent - 1) * w.stride + (w.step.extent - 1) * w.dilation + 1 - e - b)
        for w, e, b in zip(windows, extents, before, strict=True)
    ]
    result = make(
        _cropped(operands, data, windows, extents, before),
        weights,
        strides=[window.stride for window in windows],
        padding=[*before, *after],
        dilation=[window.dilation for window in windows],
        groups=channels if axes.depthwise else 1,
        data_layout=f"NC{letters}",
        kernel_layout=f"OI{letters}",
    )
    made = operands.emit(result)
    ordered = [axes.batch, axes.output, *(window.axis for window in windows)]
    return _permuted(operands, made, [ordered.index(axis) for axis in stage.axes])


def _pointwise(
    operands: Operands,
    found: _Contraction,
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


def _cropped(
    operands: Operands,
    data: RelaxExpression,
    windows: Sequence[_Window],
    extents: Sequence[int],
    before: Sequence[int],
) -> RelaxExpression:
    """The data without what lies behind the last window, which would give more windows."""
    ends = [
        min(
            extent,
            (w.axis.extent - 1) * w.stride + (w.step.extent - 1) * w.dilation + w.stride - b,
        )
        for w, extent, b in zip(windows, extents, before, strict=True)
    ]
    if ends == list(extents):
        return data
    count = len(windows)
    cut = relax.op.strided_slice(data, list(range(2, 2 + count)), [0] * count, ends)
    return operands.emit(cut)
