"""Remainders in the indices of scalar loops, hidden from a wrong transformation of LLVM.

Input: a PrimFunc whose loops are lowered. Output: the same. LLVM 20 to 22 take ``i % 8`` in an
address for ``i`` when they vectorize a loop whose addresses also contain a wider sum (llvm-project
issue 191382: a wrap predicate on a wide recurrence is taken to imply one on a narrow recurrence).
Such a remainder is combined by a bitwise or with a number that is always 0, which LLVM does not
know: a loop with it is still vectorized, but the address is computed for each lane.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import nodes, variables
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of

_COUNT = "num_args"
"""The name of the parameter of a lowered PrimFunc with the number of its arguments."""

_ABOVE = 24
"""The number of bits to shift the number of arguments by, so that it becomes 0."""

_NARROWING = (tirx.FloorMod, tirx.Mod, tirx.BitwiseAnd, tirx.Cast)
_WIDTHS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}


def with_opaque_remainders(function: PrimFunction) -> PrimFunction:
    """Return the function with the remainders by powers of two in its indices hidden from LLVM.

    Remainders in named integers, from which indices may be computed, are hidden too.
    """
    count = next((p for p in function.params if p.name == _COUNT), None)
    if count is None or not any(map(_is_narrow, nodes(function.body, *_NARROWING))):
        return function
    zero = tirx.Var("zero", dtype_of(count))

    def hidden(value: tirx.BinaryOpExpr | tirx.Cast) -> PrimExpression:
        dtype = dtype_of(value)
        nothing = zero if dtype == dtype_of(zero) else zero.astype(dtype)
        # The same index may be mapped again, as a part of another one.
        return value | nothing if _is_narrow(value) else value

    def opaque(value: PrimExpression) -> PrimExpression:
        if isinstance(value, (tirx.Var, tirx.IntImm)):
            return value
        return traversal.mapped(value, (_NARROWING, hidden))

    def load(load: TensorLoad) -> PrimExpression:
        return load.source[tuple(map(opaque, load.indices))]

    def store(store: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(store.buffer, store.value, [*map(opaque, store.indices)])

    def bind(bind: tirx.Bind) -> tirx.Stmt:
        is_integer = dtype_of(bind.var) in (*_WIDTHS, "int64", "uint64")
        return tirx.Bind(bind.var, opaque(bind.value)) if is_integer else bind

    body = traversal.mapped(
        function.body,
        [(TensorLoad, load), (tirx.BufferStore, store), (tirx.Bind, bind)],
        order="post",
    )
    if not any(zero.same_as(var) for var in variables(body)):
        return function
    first = tirx.Bind(zero, count >> tirx.const(_ABOVE, dtype_of(count)))
    return function.with_body(emit.sequence([first, body]))


def _is_narrow(value: PrimExpression) -> bool:
    """Whether LLVM takes a scalar for an integer of fewer bits than it is computed from."""
    if dtype_of(value) not in (*_WIDTHS, "int64", "uint64"):
        return False
    match value:
        case tirx.FloorMod() | tirx.Mod():
            return _is_power(value.b)
        case tirx.Cast():
            return _WIDTHS.get(dtype_of(value), 64) < _WIDTHS.get(dtype_of(value.value), 64)
        case tirx.BitwiseAnd():
            return any(_is_power(mask, 1) for mask in (value.a, value.b))
    return False


def _is_power(number: PrimExpression, more: int = 0) -> bool:
    """Whether a number plus ``more`` is a constant power of two."""
    value = int(number.value) + more if isinstance(number, tirx.IntImm) else 0
    return value > 0 and not value & (value - 1)
