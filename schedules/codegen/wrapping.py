"""Sums, differences and products of integer elements, which wrap around.

Input: a PrimFunc whose loops are lowered. Output: the same with each operation on elements of 32 or
64 bits in twice as many bits. LLVM computes only the bits that are kept, so this costs nothing; but
TVM promises it that no int of 32 or 64 bits overflows, and LLVM then takes ``x + 2**31`` for
``x | 2**31``, and any comparison of what did overflow for what it likes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import tirx
from tvm.ir import TensorLoad
from tvm_ffi import WalkResult

from tvm_nnef.schedules.analysis.expressions import loads, mentions, substituted, variables
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    lanes_of,
    scalar_type_of,
    typed,
    with_mapped_body,
)

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul)
_WIDER: Mapping[str, tuple[str, str]] = {
    # An unsigned one has the bits of a signed one, whose products fit.
    "int32": ("int32", "int64"), "uint32": ("int32", "int64"),
    "int64": ("int64", "int128"), "uint64": ("int64", "int128"),
}  # fmt: skip
"""The signed dtype of as many bits, and that of twice as many."""


def with_wrapping_elements(function: PrimFunction) -> PrimFunction:
    """The function with arithmetic on integer elements that wraps around; not that on indices."""
    elements: set[tirx.Var] = set()

    def stored(store: tirx.BufferStore) -> tirx.Stmt:
        if _accumulates(store):
            return store
        value = _wrapping(store.value, elements)
        same = value.same_as(store.value)
        return store if same else tirx.BufferStore(store.buffer, value, store.indices)

    def bound(bind: tirx.Bind) -> tirx.Stmt:
        if not (loads(bind.value) or mentions(bind.value, elements)):
            return bind
        elements.add(bind.var)
        return tirx.Bind(bind.var, _wrapping(bind.value, elements))

    return with_mapped_body(function, (tirx.BufferStore, stored), (tirx.Bind, bound))


def _accumulates(store: tirx.BufferStore) -> bool:
    """Whether a product, or an element, is added to the element that is stored.

    LLVM knows no range of these, so that it concludes nothing, and strategies count its
    instructions.
    """
    value = store.value
    if not isinstance(value, tirx.Add) or not isinstance(value.a, TensorLoad):
        return False
    return value.a.source.same_as(store.buffer)


def _wrapping(value: PrimExpression, elements: set[tirx.Var]) -> PrimExpression:
    """The value with its arithmetic on elements in more bits; indices in it stay as they are."""
    if not _computes_integers(value):
        return value
    loaded: dict[tirx.Var, PrimExpression] = {}

    def hidden(load: TensorLoad) -> PrimExpression:
        element = tirx.Var("element", load.ty)
        loaded[element] = load
        return element

    def wide(operation: tirx.BinaryOpExpr) -> PrimExpression:
        dtypes = _WIDER.get(scalar_type_of(operation))
        if dtypes is None or (numbers and not depends(operation)):
            return operation
        lanes = lanes_of(operation.ty)
        signed, wider = (typed(dtype, lanes) for dtype in dtypes)
        a, b = (tirx.Cast(wider, tirx.Cast(signed, each)) for each in (operation.a, operation.b))
        return tirx.Cast(operation.ty, type(operation)(a, b))

    def depends(operation: PrimExpression) -> bool:
        return any(var in loaded or var in elements for var in variables(operation))

    apart = traversal.mapped(value, (TensorLoad, hidden), order="pre")
    if not depends(apart):
        return value
    numbers = any(var not in loaded and var not in elements for var in variables(apart))
    wrapped = traversal.mapped(apart, (_ARITHMETIC, wide))
    return value if wrapped.same_as(apart) else substituted(wrapped, loaded)


def _computes_integers(value: PrimExpression) -> bool:
    """Whether a value has arithmetic on integers outside of indices."""
    found: list[PrimExpression] = []

    def look(node: PrimExpression) -> WalkResult:
        if isinstance(node, TensorLoad):
            return WalkResult.SKIP
        found.append(node)
        return WalkResult.ADVANCE

    traversal.walk(value, ((TensorLoad, *_ARITHMETIC), look), order="pre")
    return any(scalar_type_of(each) in _WIDER for each in found)
