"""Converters of operations at positions given by tensors: dynamic slices, general gather and
scatter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, product
from tvm_nnef.converters.common.tensors import Block, Loop, Tensor
from tvm_nnef.converters.stablehlo.operation import Operation, sizes_of
from tvm_nnef.converters.stablehlo.operators.layout import sliced
from tvm_nnef.converters.stablehlo.operators.reductions import completed, known_computation
from tvm_nnef.converters.stablehlo.registry import operation


def _starts(operands: Sequence[Tensor], builder: Builder) -> Tensor:
    """Return scalars as one vector."""
    if all(one.value is not None for one in operands):
        values = [int(one.value.reshape(())) for one in operands if one.value is not None]
        return builder.constant(
            np.array(values, np.int64 if max(values, default=0) >> 31 else np.int32)
        )
    rows = [
        builder.unsqueeze(builder.cast(_run_time(one, builder), "int32"), [0]) for one in operands
    ]
    return builder.concat(rows, 0)


def _run_time(tensor: Tensor, builder: Builder) -> Tensor:
    return builder.computed(tensor)


@operation("dynamic_slice")
def dynamic_slice(each: Operation, builder: Builder) -> Tensor:
    """Slice a box of given sizes; starts are clamped so that it is inside."""
    x, starts, sizes = each.inputs[0], each.inputs[1:], each.integers("slice_sizes")
    if all(one.value is not None for one in starts):
        begin = _inside(x, starts, sizes)
        return sliced(
            x, begin, [a + n for a, n in zip(begin, sizes, strict=True)], [1] * x.rank, builder
        )
    if not x.rank:
        return x
    return builder.call(
        "xla.dynamic_slice", x, _starts(starts, builder), as_shape=sizes, sizes=sizes
    )


@operation("real_dynamic_slice")
def real_dynamic_slice(each: Operation, builder: Builder) -> Tensor:
    """Slice a box with limits from operands, or with sizes that are added to starts."""
    x, begin, end, step = each.inputs
    sizes = _added_sizes(each)
    if sizes is not None and set(sizes_of(step)) == {1}:
        start = builder.cast(begin, "int32")
        return builder.call("xla.dynamic_slice", x, start, as_shape=sizes, sizes=sizes)
    return sliced(x, sizes_of(begin), sizes_of(end), sizes_of(step), builder)


def _added_sizes(each: Operation) -> list[Size] | None:
    """Return the sizes that are added to the starts of a box to give its ends, at run time."""
    start, end = each.op.operands[1:3]
    if each.inputs[1].sizes is not None or each.inputs[1].value is not None:
        return None
    if str(getattr(end.owner, "name", "")) != "stablehlo.add":
        return None
    others = [each.tensor_of(one) for one in end.owner.operands if one != start]
    added = [one for one in others if one is not None]
    return sizes_of(added[0]) if len(added) == 1 else None


def _inside(x: Tensor, starts: Sequence[Tensor], sizes: Sequence[Size]) -> list[int]:
    found = []
    for one, length, size in zip(starts, x.shape, sizes, strict=True):
        assert one.value is not None
        found.append(max(0, min(int(one.value.reshape(())), int(length) - int(size))))
    return found


@operation("dynamic_update_slice")
def dynamic_update_slice(each: Operation, builder: Builder) -> Tensor:
    """Replace a box of an operand; starts are clamped so that it is inside."""
    x, update, *starts = each.inputs
    if x.shape == update.shape:
        return update
    return builder.call("xla.dynamic_update_slice", x, update, _starts(starts, builder))


@operation("gather", "dynamic_gather")
def gather(each: Operation, builder: Builder) -> Tensor:
    """Gather slices at positions given by indices, which are clamped to be inside."""
    numbers = stablehlo.GatherDimensionNumbers(each.attribute("dimension_numbers"))
    x, indices = each.inputs[:2]
    if len(each.inputs) > 2:
        sizes: list[Size] = sizes_of(each.inputs[2])
    else:
        sizes = list(each.integers("slice_sizes"))
    indices = _vectors_last(indices, numbers.index_vector_dim, builder)
    batching = list(numbers.operand_batching_dims)
    left_out = {*numbers.collapsed_slice_dims, *batching}
    kept = [axis for axis in range(x.rank) if axis not in left_out]
    offsets = list(numbers.offset_dims)
    count = indices.rank - 1 + len(offsets)
    batch = [axis for axis in range(count) if axis not in offsets]
    lengths: list[Size] = [0] * count
    for position, size in zip(batch, indices.shape[:-1], strict=True):
        lengths[position] = size
    for position, axis in zip(offsets, kept, strict=True):
        lengths[position] = sizes[axis]
    moved = list(numbers.start_index_map)
    plain = _row_gather(x, indices, sizes, moved, batching, offsets, batch, builder)
    if plain is not None:
        return plain
    return builder.call(
        "xla.gather", x, indices, as_shape=lengths, shape=lengths, sizes=sizes, map=moved,
        kept=kept, offset_dims=offsets, batch_dims=batch, operand_batch=batching,
        index_batch=list(numbers.start_indices_batching_dims),
    )  # fmt: skip


def _row_gather(
    x: Tensor,
    indices: Tensor,
    sizes: Sequence[Size],
    moved: Sequence[int],
    batching: Sequence[int],
    offsets: Sequence[int],
    batch: Sequence[int],
    builder: Builder,
) -> Tensor | None:
    """Gather one element along one dimension for each index, by the standard operator."""
    if len(moved) != 1 or batching or sizes[moved[0]] != 1:
        return None
    axis, rank = moved[0], indices.rank - 1
    whole = all(sizes[k] == x.shape[k] for k in range(x.rank) if k != axis)
    size = x.shape[axis]
    if not whole or list(batch) != list(range(axis, axis + rank)) or len(offsets) != x.rank - 1:
        return None
    if not isinstance(size, int):
        return None
    positions = builder.squeeze(indices, [rank])
    if positions.dtype in ("uint8", "uint16", "uint32", "uint64"):
        positions = builder.cast(positions, "int64")
    positions = builder.binary(
        "math.min", builder.binary("math.max", positions, builder.constant(0, positions.dtype)),
        builder.constant(size - 1, positions.dtype),
    )  # fmt: skip
    shape = (*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :])
    return builder.call("layout.gather", x, positions, as_shape=shape, axis=axis)


def _vectors_last(indices: Tensor, axis: int, builder: Builder) -> Tensor:
    """Return index tensors with the dimension of the index vectors last."""
    indices = builder.computed(indices)
    if axis == indices.rank:
        return builder.unsqueeze(indices, [axis])
    order = [position for position in range(indices.rank) if position != axis]
    return builder.transpose(indices, [*order, axis])


_SCATTER: Mapping[str, str] = {
    "stablehlo.add": "xla.scatter_add", "stablehlo.multiply": "xla.scatter_mul",
    "stablehlo.maximum": "xla.scatter_max", "stablehlo.minimum": "xla.scatter_min",
}  # fmt: skip


@operation("scatter")
def scatter(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Combine updates with slices at positions given by indices; those outside are ignored."""
    count = (len(each.inputs) - 1) // 2
    tensors, indices, updates = (
        each.inputs[:count], each.inputs[count], each.inputs[count + 1 :],
    )  # fmt: skip
    numbers = stablehlo.ScatterDimensionNumbers(each.attribute("scatter_dimension_numbers"))
    indices = _vectors_last(indices, numbers.index_vector_dim, builder)
    name = _scalar_function(each) if count == 1 else ""
    windows = list(numbers.update_window_dims)
    batching = list(numbers.input_batching_dims)
    left_out = {*numbers.inserted_window_dims, *batching}
    kept = [axis for axis in range(tensors[0].rank) if axis not in left_out]
    sizes: list[Size] = [1] * tensors[0].rank
    for position, axis in zip(windows, kept, strict=True):
        sizes[axis] = updates[0].shape[position]
    more = {
        "sizes": sizes, "map": list(numbers.scattered_dims_to_operand_dims), "kept": kept,
        "windows": windows,
        "positions": [axis for axis in range(updates[0].rank) if axis not in windows],
        "operand_batch": batching, "index_batch": list(numbers.scatter_indices_batching_dims),
    }  # fmt: skip
    if name:
        return [builder.call(name, tensors[0], indices, updates[0], more=more)]
    return _stepwise(each, tensors, indices, updates, more, builder)


def _scalar_function(each: Operation) -> str:
    block = each.regions[0].blocks[0]
    ops = list(block.operations)
    if len(ops) == 1 and list(ops[0].operands) == [block.arguments[1]]:
        return "xla.scatter_set"
    if each.inputs[0].kind == "bool":
        return ""
    return _SCATTER.get(known_computation(each.regions[0], each.inputs[0].dtype), "")


def _stepwise(
    each: Operation,
    tensors: Sequence[Tensor],
    indices: Tensor,
    updates: Sequence[Tensor],
    more: Mapping[str, list[Size]],
    builder: Builder,
) -> list[Tensor]:
    """Convert any scalar computation: one update element after the other."""
    inner = Builder(builder)
    shape = tensors[0].shape
    volume = product(updates[0].shape)
    positions = builder.call(
        "xla.scatter_positions", tensors[0], indices, updates[0], as_type="int32",
        as_shape=updates[0].shape, more=more,
    )  # fmt: skip
    where = builder.reshape(positions, (volume,))
    rows = [builder.reshape(one, (volume,)) for one in updates]
    flat = [builder.reshape(builder.computed(one), (product(shape),)) for one in tensors]
    totals = [Tensor(one.dtype, one.shape, hint="total") for one in flat]
    index = Tensor("int32", (), hint="step")
    at = inner.call("layout.gather", where, index, as_shape=(), axis=0)
    safe = inner.binary("math.max", at, 0)
    olds = [inner.call("layout.gather", one, safe, as_shape=(), axis=0) for one in totals]
    news = [inner.call("layout.gather", one, index, as_shape=(), axis=0) for one in rows]
    found = each.run(each.regions[0], [*olds, *news], inner, True)
    yields = tuple(
        inner.call("xla.put_at", total, at, completed(one, (), inner))
        for total, one in zip(totals, found, strict=True)
    )
    finals = [Tensor(one.dtype, one.shape) for one in totals]
    pairs = tuple(zip(totals, flat, strict=True))
    builder.steps.append(
        Loop(Block(tuple(inner.steps), yields), pairs, (), index, volume, None, tuple(finals))
    )
    return [builder.reshape(one, shape) for one in finals]
