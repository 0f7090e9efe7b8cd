"""Integer elements that may have wrapped around, hidden from TVM where all their bits count.

Input: a PrimFunc of several stages, one for each operator that was fused. Output: the same with the
loads that a comparison, a quotient or a conversion makes of sums and products of other stages
sealed. A strategy computes those stages where they are read, and TVM would then compare
``a - b > 0`` as ``a > b``, or divide ``4 * a`` by 4: it takes no int of 32 or 64 bits to overflow.
So are loads that a constant is added to or multiplied with: TVM would join it with a constant of
the other stage to one that the dtype may not hold. And so are minima and maxima in a sum: TVM makes
``min(y - x, 0)`` of ``min(x, y) - x``.
"""

from __future__ import annotations

from collections.abc import Set

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import WalkResult

from tvm_nnef.exact.integers import sealed
from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of

_WRAPPING = (tirx.Add, tirx.Sub, tirx.Mul)
_WIDE = ("int32", "int64")
_COMPARED = (
    tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE, tirx.Min, tirx.Max,
    tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod,
)  # fmt: skip


def with_sealed_elements(function: PrimFunction) -> PrimFunction:
    """The function with what may have wrapped around sealed where it is compared or converted."""
    stores = nodes(function.body, tirx.BufferStore)
    summed = {store.buffer for store in stores if _stores(store, *_WRAPPING)}
    limited = {store.buffer for store in stores if _stores(store, tirx.Min, tirx.Max)}
    if not summed | limited:
        return function

    def reads(value: PrimExpression, buffers: Set[tirx.Var]) -> bool:
        return dtype_of(value) in _WIDE and not buffers.isdisjoint(_in_view(value))

    def is_summed(value: PrimExpression) -> bool:
        return reads(value, summed)

    def with_sealed(node: tirx.BinaryOpExpr, buffers: Set[tirx.Var]) -> PrimExpression:
        a, b = (sealed(each) if reads(each, buffers) else each for each in (node.a, node.b))
        made: PrimExpression = type(node)(a, b)
        return made

    def compared(node: tirx.BinaryOpExpr) -> PrimExpression:
        return with_sealed(node, summed)

    def joined(node: tirx.BinaryOpExpr) -> PrimExpression:
        return with_sealed(node, summed | limited if nodes(node, tirx.IntImm) else limited)

    def converted(cast: tirx.Cast) -> PrimExpression:
        return tirx.Cast(cast.ty, sealed(cast.value)) if is_summed(cast.value) else cast

    def stored(store: tirx.BufferStore) -> tirx.Stmt:
        rewrites: list[traversal.Entry] = [
            (_COMPARED, compared), (_WRAPPING, joined), (tirx.Cast, converted),
        ]  # fmt: skip
        value = traversal.mapped(store.value, rewrites)
        same = value.same_as(store.value)
        return store if same else tirx.BufferStore(store.buffer, value, store.indices)

    return function.with_body(traversal.mapped(function.body, (tirx.BufferStore, stored)))


def _in_view(value: PrimExpression) -> list[tirx.Var]:
    """The buffers that an int is read from, except for what is sealed or converted in it."""
    found: list[tirx.Var] = []

    def loaded(load: TensorLoad) -> WalkResult:
        found.append(load.source)
        return WalkResult.SKIP

    def called(call: Call) -> WalkResult:
        is_sealed = str(getattr(call.op, "name", "")).endswith(".bitwise_or")
        return WalkResult.SKIP if is_sealed else WalkResult.ADVANCE

    entries: list[traversal.Entry] = [
        (TensorLoad, loaded),
        (tirx.Cast, lambda cast: WalkResult.SKIP),
        (Call, called),
    ]
    traversal.walk(value, entries, order="pre")
    return found


def _stores(store: tirx.BufferStore, *kinds: type[tirx.BinaryOpExpr]) -> bool:
    """Whether such a value of elements is stored, which is none that is accumulated."""
    if dtype_of(store.value) not in _WIDE:
        return False
    if any(load.source.same_as(store.buffer) for load in loads(store.value)):
        return False
    return any(loads(each) for each in nodes(store.value, *kinds))
