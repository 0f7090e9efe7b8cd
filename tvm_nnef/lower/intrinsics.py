"""Operators without a body: how each is lowered, by its qualified name.

A table like those of ``lower/ops``, asked on every route, as there is no formula to fall back to.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax, tirx

from tvm_nnef.exact.functions import cast
from tvm_nnef.lower.algo import first_positions, nonmax_suppress
from tvm_nnef.lower.data_dependent_sizes import cut
from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.symbols import occurring, own, untold
from tvm_nnef.symbolic import dimensions
from tvm_nnef.tir.literals import INDEX_TYPE, literal
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import PrimFunction, opaque_function, tensor_type


def _nonzero(invocation: Invocation) -> Lowered:
    """Positions of the items that are not 0, written one after the other; then cut to length."""
    shape, builder, dtype = invocation.shape(0), invocation.builder, invocation.dtype
    room = (len(shape), dimensions.product(shape))
    extra = untold([shape, room])
    kernel = _positions(shape, room, invocation, extra)
    if occurring(shape):
        kernel = compat.with_own_symbols(kernel)
    function = builder.add_func(kernel, "nonzero")
    kinds = [tensor_type(room, dtype), tensor_type((), INDEX_TYPE)]
    made = builder.emit(relax.call_tir(function, [invocation.expression(0), *extra], kinds))
    positions, count = (builder.emit(relax.TupleGetItem(made, position)) for position in range(2))
    (symbol,) = own(invocation.result.shape)
    return cut(builder, positions, count, symbol, invocation.result.shape)


def _positions(
    shape: tuple[dimensions.Dimension, ...],
    room: tuple[dimensions.Dimension, ...],
    invocation: Invocation,
    extra: list[tirx.Var],
) -> PrimFunction:
    """The PrimFunc that fills the front of ``room`` with positions, a column each, and counts."""
    source = invocation.machine_types[invocation.tensor(0)]
    data = compat.buffer(shape, source, "data")
    found = compat.buffer(room, invocation.dtype, "positions")
    count = compat.buffer((), INDEX_TYPE, "count")
    zero, one = literal(0, INDEX_TYPE), literal(1, INDEX_TYPE)
    axes = [tirx.Var(f"i{number}", INDEX_TYPE) for number in range(len(shape))]
    column = tirx.BufferLoad(count, [])
    stores = [
        tirx.BufferStore(found, cast(axis, invocation.dtype), [literal(row, INDEX_TYPE), column])
        for row, axis in enumerate(axes)
    ]
    step = tirx.stmt_seq(*stores, tirx.BufferStore(count, column + one, []))
    body: tirx.Stmt = tirx.IfThenElse(cast(tirx.BufferLoad(data, axes), "bool"), step, None)
    for axis, size in reversed(list(zip(axes, shape, strict=True))):
        last = literal(size, INDEX_TYPE)
        body = tirx.For(axis, zero, last, tirx.ForKind.SERIAL, body)
    whole = tirx.stmt_seq(tirx.BufferStore(count, zero, []), body)
    return opaque_function("nonzero", [data, *extra, found, count], [found, count], [], whole)


def _front(invocation: Invocation) -> Lowered:
    """The first items of a buffer, as many as the count says."""
    builder = invocation.builder
    buffer, count = invocation.expression(0), invocation.expression(1)
    wide = builder.emit(relax.op.astype(count, INDEX_TYPE))
    shape = invocation.result.shape
    (symbol,) = (each for each in own(shape) if each not in occurring(invocation.shape(0)))
    return cut(builder, buffer, wide, symbol, shape)


INTRINSICS: Mapping[str, LoweringFunction] = {
    "front": _front,
    "layout.nonzero": _nonzero,
    "algo._first_positions": first_positions,
    "algo.nonmax_suppress": nonmax_suppress,
}
