"""Packs whose items are taken and written by a number that is known only at run time.

A stack is one Relax tensor that holds the items of a pack, all of one shape, along a new leading
axis; an index is an int64 tensor of rank 0. Enters and leaves: Relax expressions, emitted. Does not
know of loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, te

from tvm_nnef import tvm_compat
from tvm_nnef.extents import Extent
from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.symbols import occurring, sizes, untold
from tvm_nnef.tvm_compat import RelaxExpression, in_place_store

_INJECTIVE = 2
"""What TVM calls a kernel that can be fused into the one that reads it, so that no item is copied.

It would not find out by itself, as the index is data.
"""


def stacked(builder: Any, items: Sequence[RelaxExpression]) -> RelaxExpression:
    """The stack of at least one item.

    The items are stored one by one by the same kernel, however many there are, in a function of
    its own: nothing else reads the memory that it writes before it returns. Items that a tensor was
    split into are that tensor.
    """
    shape, dtype = tvm_compat.shape_and_dtype(items[0])
    whole = _whole(builder, items)
    if whole is not None and all(isinstance(extent, int) for extent in shape):
        return builder.emit(relax.op.reshape(whole, (len(items), *shape)))
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


def _whole(builder: Any, items: Sequence[RelaxExpression]) -> RelaxExpression | None:
    """The tensor that items lie in one behind the other; None where they are of another kind."""
    source: Any = None
    for number, value in enumerate(items):
        found = _definition(builder, value)
        while _calls(found, "relax.reshape"):
            found = _definition(builder, found.args[0])
        if not isinstance(found, relax.TupleGetItem) or int(found.index) != number:
            return None
        source = found.tuple_value if source is None else source
        if not found.tuple_value.same_as(source):
            return None
    split = _definition(builder, source)
    if not _calls(split, "relax.split") or len(split.ty.fields) != len(items):
        return None
    (data,), axis = split.args, int(split.attrs.axis)
    front = tvm_compat.shape_and_dtype(data)[0][:axis]
    return data if axis >= 0 and all(isinstance(e, int) and e == 1 for e in front) else None


def _calls(value: RelaxExpression, name: str) -> bool:
    return str(getattr(getattr(value, "op", None), "name", "")) == name


def _definition(builder: Any, value: RelaxExpression) -> RelaxExpression:
    """What a variable is bound to; anything else itself."""
    while isinstance(value, relax.Var):
        bound = builder.lookup_binding(value)
        if bound is None:
            return value
        value = bound
    return value


def empty(builder: Any, shape: Sequence[Extent], dtype: str) -> RelaxExpression:
    """A stack of its own to be written by :func:`stored`."""
    return builder.emit(relax.op.zeros(tuple(shape), dtype))


def item(builder: Any, stack: RelaxExpression, index: RelaxExpression) -> RelaxExpression:
    """The item at an index, which must be in bounds."""
    (_, *shape), _ = tvm_compat.shape_and_dtype(stack)

    def taken(items: Any, place: Any) -> Any:
        return te.compute(shape, lambda *axes: items(place(), *axes), name="item")

    attributes = {"op_pattern": _INJECTIVE}
    return builder.emit(call_kernel(builder, taken, [stack, index], "item", attributes=attributes))


def stored(
    builder: Any, stack: RelaxExpression, value: RelaxExpression, index: RelaxExpression
) -> RelaxExpression:
    """The stack with an item replaced: the same memory, so nobody may read ``stack`` any more."""
    shape, dtype = tvm_compat.shape_and_dtype(stack)
    extra = untold([shape, shape[1:]])
    kernel = in_place_store(shape, dtype, extra)
    if occurring(shape):
        kernel = tvm_compat.with_own_symbols(kernel)
    function = builder.add_func(kernel, "store_item")
    kind = tvm_compat.tensor_type(shape, dtype)
    arguments = [value, index, stack, *extra]
    return builder.emit(relax.op.call_tir_inplace(function, arguments, 2, kind))
