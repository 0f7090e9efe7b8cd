"""The module ``layout``: making, viewing, joining, cutting and reordering tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export import scalars
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.graph.nodes import Tensor, tensors
from tvm_nnef.reference.arithmetic import constant
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_ALL = 1 << 62
"""A position that lies beyond any end."""

_LARGEST_FILLED = 1 << 12
"""A constant of equal elements that is longer is stretched by a node, not stored."""


def _view(invocation: Invocation) -> Exported:
    before, after = invocation.shape(0), invocation.result.shape
    return invocation.emitter.reshape(invocation.value(0), before, after)


def _squeeze(invocation: Invocation) -> Exported:
    return invocation.emitter.squeeze(invocation.value(0), invocation.axes())


def _unsqueeze(invocation: Invocation) -> Exported:
    rank = invocation.result.rank
    axes = [axis % rank for axis in invocation.numbers("axes")]
    return invocation.emitter.unsqueeze(invocation.value(0), axes)


def _constant(invocation: Invocation) -> Exported:
    values, shape = invocation.attribute("value"), invocation.result.shape
    emitter, dtype = invocation.emitter, invocation.dtype
    assert isinstance(values, tuple)
    numbers = [item for item in values if isinstance(item, (bool, int, float))]
    if len(numbers) < len(values):
        parts = emitter.shape(invocation.sizes("value"))
        return emitter.reshape(emitter.cast(parts, "int64", dtype), (len(values),), shape)
    items = np.array([constant(item, np.dtype(dtype)) for item in numbers], np.dtype(dtype))
    if len(items) > _LARGEST_FILLED and len(set(numbers)) == 1:
        return emitter.expand(emitter.constant(items[0], dtype), shape)
    return emitter.constant(items.reshape(shape), dtype)


def _uniform(invocation: Invocation) -> Exported:
    return invocation.emitter.expand(invocation.value(0), invocation.result.shape)


def _range(invocation: Invocation) -> Exported:
    """Numbers that are known, in the dtype in which the formula computes them."""
    (count,) = invocation.result.shape
    first, stride = invocation.attribute("first"), invocation.attribute("stride")
    emitter, dtype = invocation.emitter, np.dtype(invocation.dtype)
    known = isinstance(first, (int, float)) and isinstance(stride, (int, float))
    if isinstance(count, int) and known:
        start, step = constant(first, dtype), constant(stride, dtype)  # type: ignore[arg-type]
        numbers = start + np.arange(count).astype(dtype) * step
        return emitter.constant(numbers.astype(dtype), str(dtype), "range")
    if dtype.kind != "i":
        raise Inexpressible("how many numbers it gives is known at run time only")
    begin, step_ = (size_of(invocation, name) for name in ("first", "stride"))
    end = dimensions.add(begin, dimensions.mul(count, step_))
    made = emitter.node("Range", *(emitter.dimension(each) for each in (begin, end, step_)))
    return emitter.cast(made, "int64", str(dtype))


def size_of(invocation: Invocation, name: str) -> Dimension:
    """An attribute that is a dimension."""
    value = invocation.attribute(name)
    assert value is not None and not isinstance(value, (tuple, str, float))
    return value


def _shape(invocation: Invocation) -> Exported:
    emitter = invocation.emitter
    return emitter.cast(emitter.shape(invocation.shape(0)), "int64", invocation.dtype)


def _cast(invocation: Invocation) -> Exported:
    source, target = invocation.tensor(0).type, invocation.result.type
    value = invocation.value(0)
    return scalars.cast(
        value, invocation.dtypes[source], invocation.dtypes[target], invocation.emitter
    )


def _concat(invocation: Invocation) -> Exported:
    pack = invocation.pack(0)
    if not pack:
        return None
    axis = invocation.number("axis") % invocation.result.rank
    return invocation.emitter.node("Concat", *pack, axis=axis) if len(pack) > 1 else pack[0]


def _split(invocation: Invocation) -> Exported:
    parts = _parts(invocation)
    axis = invocation.axis()
    emitter = invocation.emitter
    if len(parts) < 2:
        return (tuple(invocation.value(0) for _ in parts),)
    sizes = emitter.shape([part.shape[axis] for part in parts])
    made = emitter.nodes_of("Split", [invocation.value(0), sizes], len(parts), axis=axis)
    return (tuple(made),)


def _parts(invocation: Invocation) -> tuple[Tensor, ...]:
    (pack,) = invocation.operation.results
    return tensors(pack)


def _stack(invocation: Invocation) -> Exported:
    pack, emitter = invocation.pack(0), invocation.emitter
    items = tensors(invocation.operation.operands[0])
    if not pack:
        return None
    axis = invocation.number("axis") % items[0].rank if items[0].rank else 0
    if invocation.number("axis") == items[0].rank:
        axis = items[0].rank
    if not invocation.attribute("squeeze"):
        pack = tuple(emitter.unsqueeze(item, [axis]) for item in pack)
    return emitter.node("Concat", *pack, axis=axis) if len(pack) > 1 else pack[0]


def _unstack(invocation: Invocation) -> Exported:
    parts, axis, emitter = _parts(invocation), invocation.axis(), invocation.emitter
    made = [invocation.value(0)] * len(parts)
    if len(parts) > 1:
        sizes = emitter.integers([1] * len(parts))
        made = emitter.nodes_of("Split", [invocation.value(0), sizes], len(parts), axis=axis)
    if invocation.attribute("squeeze"):
        made = [emitter.squeeze(part, [axis]) for part in made]
    return (tuple(made),)


def _tile(invocation: Invocation) -> Exported:
    repeats: list[Dimension] = [1] * invocation.tensor(0).rank
    for axis, count in zip(invocation.axes(), invocation.sizes("repeats"), strict=True):
        repeats[axis] = count
    emitter = invocation.emitter
    return emitter.node("Tile", invocation.value(0), emitter.shape(repeats))


def _broadcast(invocation: Invocation) -> Exported:
    return invocation.emitter.expand(invocation.value(0), invocation.result.shape)


def _slice(invocation: Invocation) -> Exported:
    """Slice; where all is known, with positions that mean the same in both dialects."""
    axes, strides = invocation.axes(), invocation.numbers("stride")
    begins, ends = invocation.sizes("begin"), invocation.sizes("end")
    positions = [
        _bounds(size, count, *given)
        for size, count, given in zip(
            [invocation.shape(0)[axis] for axis in axes],
            [invocation.result.shape[axis] for axis in axes],
            zip(begins, ends, strides, strict=True),
            strict=True,
        )
    ]
    if not axes:
        return invocation.value(0)
    emitter = invocation.emitter
    return emitter.node(
        "Slice",
        invocation.value(0),
        emitter.shape([begin for begin, _ in positions]),
        emitter.shape([end for _, end in positions]),
        emitter.integers(axes),
        emitter.integers(strides),
    )


def _bounds(
    size: Dimension, count: Dimension, begin: Dimension, end: Dimension, stride: int
) -> tuple[Dimension, Dimension]:
    """Begin and end as ONNX takes them: counted from the end where negative, and clipped.

    An end of -1 with a negative stride is before the first element to the tools, and the last
    element to the draft; how many elements there are says which.
    """
    if isinstance(size, int) and isinstance(count, int) and isinstance(begin, int):
        first = begin + size if begin < 0 else begin
        stop = first + count * stride
        return first, stop if stop >= 0 else -_ALL
    if stride < 0 and isinstance(end, int) and end < 0:
        first = begin if not isinstance(begin, int) or begin >= 0 else dimensions.add(begin, size)
        through = dimensions.ceildiv(dimensions.add(first, 1), -stride)
        if dimensions.equal(through, count):
            return begin, -_ALL
    return begin, end


def _pad(invocation: Invocation) -> Exported:
    rank, emitter = invocation.tensor(0).rank, invocation.emitter
    axes, padding = invocation.axes(), invocation.numbers("padding")
    if not any(padding):
        return invocation.value(0)
    before, after = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        before[axis], after[axis] = padding[position], padding[position + len(axes)]
    method = invocation.attribute("method")
    if method == "SYMMETRIC":
        return _mirrored(invocation, before, after)
    # ONNX Runtime pads no ints of 16 bits
    dtype = "int32" if invocation.dtype in ("int16", "uint16") else invocation.dtype
    given = [invocation.value(0)]
    if method == "CONSTANT":
        value = invocation.operands[1]
        given.append(value if isinstance(value, str) else invocation.scalar(0))
    wide = [emitter.cast(each, invocation.dtype, dtype) for each in given]
    wide.insert(1, emitter.integers([*before, *after]))
    mode = {"CONSTANT": None, "REFLECT": "reflect", "REPLICATE": "edge"}[str(method)]
    made = emitter.node("Pad", *wide, mode=mode)
    return emitter.cast(made, dtype, invocation.dtype)


def _mirrored(invocation: Invocation, before: list[int], after: list[int]) -> str:
    """Mirrored about the edge itself, for which ONNX has no mode: elements by their positions."""
    value = invocation.value(0)
    for axis, (front, back) in enumerate(zip(before, after, strict=True)):
        size = invocation.shape(0)[axis]
        if not front and not back:
            continue
        if not isinstance(size, int):
            raise Inexpressible("ONNX mirrors about the edge only at positions that are known")
        positions = np.pad(np.arange(size), (front, back), mode="symmetric")
        indices = invocation.emitter.integers(positions.tolist())
        value = invocation.emitter.node("Gather", value, indices, axis=axis)
    return value


def _transpose(invocation: Invocation) -> Exported:
    axis = invocation.axis() if invocation.tensor(0).rank else 0
    order = [*range(axis), *invocation.axes("perm")]
    return invocation.emitter.permute(invocation.value(0), order)


def _blocks(operator: str, mode: bool) -> ExportFunction:
    """Blocks of pixels to channels or back, for square blocks and channels in front."""

    def function(invocation: Invocation) -> Exported:
        sizes = invocation.numbers("block_size")
        first = bool(invocation.attribute("blocks_first"))
        plain = len(sizes) == 2 and sizes[0] == sizes[1]
        if not plain or invocation.attribute("data_format") != "NCX":
            return None
        # ONNX Runtime has these for real numbers only
        if invocation.dtype not in ("float32", "float64") or not (first or mode):
            return None
        words = ("DCR" if first else "CRD") if mode else None
        return invocation.emitter.node(
            operator, invocation.value(0), blocksize=sizes[0], mode=words
        )

    return function


MOVING: Mapping[str, ExportFunction] = {
    **dict.fromkeys(("layout.reshape", "layout.flatten", "layout.unflatten"), _view),
    "layout.squeeze": _squeeze,
    "layout.unsqueeze": _unsqueeze,
    "layout.constant": _constant,
    "layout.tensor": _constant,
    "layout.uniform": _uniform,
    "layout.shape": _shape,
    "layout.concat": _concat,
    "layout.split": _split,
    "layout.stack": _stack,
    "layout.unstack": _unstack,
    "layout.tile": _tile,
    "layout.broadcast": _broadcast,
    "layout.slice": _slice,
    "layout.pad": _pad,
    "layout.transpose": _transpose,
    "layout.space_to_depth": _blocks("SpaceToDepth", mode=False),
    "layout.depth_to_space": _blocks("DepthToSpace", mode=True),
}
COMPUTING: Mapping[str, ExportFunction] = {
    "layout.range": _range,
    "layout.cast": _cast,
}
