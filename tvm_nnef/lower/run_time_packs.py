"""Packs whose items are taken and written by a number that is known only at run time.

A stack is one Relax tensor that holds the items of a pack, all of one shape, along a new leading
axis; an index is an int64 tensor of rank 0. Input and output: Relax expressions, emitted. Does not
know of loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from tvm import relax, te
from tvm.ir import Call
from tvm_ffi import structural_equal

from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.symbols import occurring, sizes, untold
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression, in_place_store
from tvm_nnef.tvm_support.function_attributes import OP_PATTERN, FusionPattern

_ITEM = "stack_item"
"""The attribute, and the name, of the kernel that takes an item by its index."""

_MOST_SLICES = 64


def stacked(builder: BlockBuilder, items: Sequence[RelaxExpression]) -> RelaxExpression:
    """The stack of at least one item.

    The items are stored one by one by the same kernel, however many there are, in a function of
    its own: nothing else reads the memory that it writes before it returns. Items that a tensor was
    split into are that tensor.
    """
    shape, dtype = compat.shape_and_dtype(items[0])
    whole = whole_stack(builder, items)
    if whole is not None:
        return whole
    arguments = [*items, *sizes(occurring(shape))]
    parameters = [relax.Var(f"item{n}", value.ty) for n, value in enumerate(arguments)]
    with builder.function("stack_items", parameters, private=True):
        with builder.dataflow():
            stack = empty(builder, (len(items), *shape), dtype)
            for number, value in enumerate(parameters[: len(items)]):
                stack = stored(builder, stack, value, relax.const(number, "int64"))
            output = builder.emit_output(stack)
        function = builder.emit_func_output(output)
    return builder.emit(relax.Call(function, arguments))


def whole_stack(builder: BlockBuilder, items: Sequence[RelaxExpression]) -> RelaxExpression | None:
    """The stack of items that are all parts of one tensor; None for others.

    Parts that lie in it in another order are taken out in that order. A dynamic dimension
    has to be at the same position in the tensor and in the stack.
    """
    shape, _ = compat.shape_and_dtype(items[0])
    found = [_part(builder, value) for value in items]
    source = found[0][0] if found[0] else None
    if source is None:
        return None
    order = [part[1] for part in found if part and part[0].same_as(source)]
    if sorted(order) != list(range(len(items))) or found[0] is None or found[0][2] != len(items):
        return None
    stack, whole = source, (len(items), *shape)
    if not structural_equal(compat.shape_and_dtype(source)[0], whole):
        if not all(isinstance(size, int) for size in shape):
            return None
        stack = builder.emit(relax.op.reshape(source, whole))
    if order == sorted(order):
        return stack
    return builder.emit(relax.op.take(stack, relax.const(order, "int64"), axis=0))


def _part(builder: BlockBuilder, value: RelaxExpression) -> tuple[RelaxExpression, int, int] | None:
    """A tensor, which of its parts along its first dimension a value is, and how many there are."""
    found = _definition(builder, value)
    while _calls(found, "relax.reshape"):
        found = _definition(builder, found.args[0])
    if isinstance(found, relax.TupleGetItem):
        return _split_part(_definition(builder, found.tuple_value), int(found.index))
    if _calls(found, "relax.call_tir") and _ITEM in (builder.get()[found.args[0]].attrs or {}):
        return _item_part(*found.args[1].fields[:2])
    if not _calls(found, "relax.strided_slice"):
        return None
    data, *positions = found.args
    size = compat.shape_and_dtype(data)[0][0]
    axes, begin, end = ([int(number) for number in position.fields] for position in positions[:3])
    single = axes == [0] and end[0] == begin[0] + 1 and len(positions) == 3
    return (data, begin[0], size) if single and isinstance(size, int) else None


def _item_part(
    stack: RelaxExpression, index: RelaxExpression
) -> tuple[RelaxExpression, int, int] | None:
    number = compat.constant_array(index)
    size = compat.shape_and_dtype(stack)[0][0]
    return None if number is None or not isinstance(size, int) else (stack, int(number), size)


def _split_part(split: RelaxExpression, number: int) -> tuple[RelaxExpression, int, int] | None:
    if not _calls(split, "relax.split"):
        return None
    (data,), axis = split.args, int(split.attrs.axis)
    front = compat.shape_and_dtype(data)[0][:axis]
    in_order = axis >= 0 and all(isinstance(size, int) and size == 1 for size in front)
    return (data, number, len(split.ty.fields)) if in_order else None


def _calls(value: RelaxExpression, name: str) -> TypeGuard[Call]:
    return str(getattr(getattr(value, "op", None), "name", "")) == name


def _definition(builder: BlockBuilder, value: RelaxExpression) -> RelaxExpression:
    """Return the expression that a variable is bound to; anything else itself."""
    while isinstance(value, relax.Var):
        bound = builder.lookup_binding(value)
        if bound is None:
            return value
        value = bound
    return value


def empty(builder: BlockBuilder, shape: Sequence[Dimension], dtype: str) -> RelaxExpression:
    """Its own stack to be written by :func:`stored`, with anything in it.

    Not of zeros: what is computed twice alike is shared, and then two loops write into one.
    """
    whole = relax.ShapeExpr(list(shape))
    return builder.emit(relax.op.builtin.alloc_tensor(whole, dtype, 0))


def item(builder: BlockBuilder, stack: RelaxExpression, index: RelaxExpression) -> RelaxExpression:
    """The item at an index, which must be in bounds."""
    (_, *shape), _ = compat.shape_and_dtype(stack)

    def taken(items: Any, position: Any) -> Any:
        return te.compute(shape, lambda *axes: items(position(), *axes), name="item")

    # Fused into the kernel that reads it, so that no item is copied; TVM would not find out by
    # itself, as the index is data.
    attributes = {OP_PATTERN: int(FusionPattern.INJECTIVE), _ITEM: True}
    return builder.emit(call_kernel(builder, taken, [stack, index], _ITEM, attributes=attributes))


def part(builder: BlockBuilder, stack: RelaxExpression, number: int) -> RelaxExpression:
    """The item of a number that is known.

    Of few items each is a slice, which fuses with what reads it; of many all share one kernel.
    """
    (count, *shape), _ = compat.shape_and_dtype(stack)
    if isinstance(count, int) and count > _MOST_SLICES:
        return item(builder, stack, relax.const(number, "int64"))
    item_alone = builder.emit(relax.op.strided_slice(stack, [0], [number], [number + 1]))
    return builder.emit(relax.op.reshape(item_alone, tuple(shape)))


def stored(
    builder: BlockBuilder, stack: RelaxExpression, value: RelaxExpression, index: RelaxExpression
) -> RelaxExpression:
    """The stack with an item replaced: the same memory, so ``stack`` must not be read any more."""
    shape, dtype = compat.shape_and_dtype(stack)
    extra = untold([shape, shape[1:]])
    kernel = in_place_store(shape, dtype, extra)
    if occurring(shape):
        kernel = compat.with_own_symbols(kernel)
    function = builder.add_func(kernel, "store_item")
    kind = compat.tensor_type(shape, dtype)
    arguments = [value, index, stack, *extra]
    return builder.emit(relax.op.call_tir_inplace(function, arguments, 2, kind))
