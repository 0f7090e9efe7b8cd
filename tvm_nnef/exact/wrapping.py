"""Arithmetic on elements: in opaque calls while TVM simplifies, then in a form in which ints wrap.

Input: an expression, or a PrimFunc before the first or after the last pass of TVM. Output: the same
with each operation on elements as a call, which TVM does not change; or with those on elements of
32 or 64 bits in a dtype in which they do not overflow, which costs nothing. TVM promises LLVM that
no int of 32 or 64 bits overflows; LLVM then simplifies ``x + 2**31`` to ``x | 2**31``, and assumes
any result for a comparison of an overflowed value. A compiler of CUDA does the same with signed
ints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad
from tvm_ffi import WalkResult

from tvm_nnef.exact.late_arithmetic import ARITHMETIC, COMPARISONS, opaque
from tvm_nnef.tir.expressions import (
    loads,
    mentions,
    nodes,
    variables,
)
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    is_real_type,
    lanes_of,
    scalar_type_of,
    typed,
    with_mapped_body,
)
from tvm_nnef.tvm_support.lowering import is_host_function

_CHANGED = (*ARITHMETIC, tirx.EQ, tirx.And, tirx.Or, tirx.Not)
_LOADS = (TensorLoad, Call)
_Change: TypeAlias = "Callable[[Any], PrimExpression | None]"
"""A function that returns the replacement of an operation; None if it stays."""

_Conversions: TypeAlias = Mapping[str, tuple[str, ...]]
"""The dtypes to which an operand is converted, one after the other, by its own dtype."""

_WIDER: _Conversions = {
    # An unsigned one has the bits of a signed one, whose products fit.
    "int32": ("int32", "int64"), "uint32": ("int32", "int64"),
    "int64": ("int64", "int128"), "uint64": ("int64", "int128"),
}  # fmt: skip
"""The conversions for LLVM: to twice as many bits, of which it computes only those that are
used.
"""

_UNSIGNED: _Conversions = {"int32": ("uint32",), "int64": ("uint64",)}
"""The conversions for CUDA, in which unsigned ints wrap around."""


def with_opaque_elements(function: PrimFunction) -> PrimFunction:
    """Return the function with arithmetic on elements in calls that TVM leaves alone."""
    return _with_elements(function, _called)


def opaque_elements(value: PrimExpression) -> PrimExpression:
    """Return a value of TIR or of ``te`` with arithmetic on elements in calls that TVM leaves
    alone.
    """
    return _changed(value, set(), _called)


def _called(operation: Any) -> PrimExpression | None:
    """Return the call for an operation; None if TVM does not change it anyway.

    Sums of ints wrap around. For reals TVM simplifies ``x - x`` to 0, ``x + y - y`` to x, ``x ==
    x`` and ``x < y or x >= y`` to true, and ``not x < y`` to ``x >= y``: it ignores that sums are
    rounded, that infinities do not cancel, and NaN.
    """
    match operation:
        case tirx.Not(a=inner):
            return tirx.Not(opaque(inner)) if _compares_reals(inner) else None
        case tirx.And() | tirx.Or():
            sides = [operation.a, operation.b]
            if not any(map(_compares_reals, sides)):
                return None
            return type(operation)(*(opaque(x) if _compares_reals(x) else x for x in sides))
        case tirx.EQ():
            return opaque(operation) if _compares_reals(operation) else None
        case tirx.Add() | tirx.Sub() | tirx.Mul():
            dtype = scalar_type_of(operation)
            is_difference = isinstance(operation, tirx.Sub) and is_real_type(dtype)
            return opaque(operation) if is_difference or dtype in _WIDER else None
    return None


def _compares_reals(test: Any) -> bool:
    return type(test) in COMPARISONS and is_real_type(scalar_type_of(test.a))


def with_wrapping_elements(function: PrimFunction) -> PrimFunction:
    """Return the function with integer arithmetic on elements that wraps around; indices stay."""
    conversions = _WIDER if is_host_function(function) else _UNSIGNED

    def wrapping(operation: Any) -> PrimExpression | None:
        dtypes = conversions.get(scalar_type_of(operation))
        if dtypes is None or type(operation) not in ARITHMETIC:
            return None
        a, b = operation.a, operation.b
        for dtype in dtypes:
            a, b = _as_dtype(a, dtype), _as_dtype(b, dtype)
        return tirx.Cast(operation.ty, type(operation)(a, b))

    return _with_elements(function, wrapping)


def _with_elements(function: PrimFunction, change: _Change) -> PrimFunction:
    """Return the function with changed arithmetic on elements."""
    elements: set[tirx.Var] = set()
    keeps_sums = is_host_function(function)

    def wrapping(value: PrimExpression) -> PrimExpression:
        return _changed(value, elements, change)

    def stored(store: tirx.BufferStore) -> tirx.Stmt:
        value = store.value
        if keeps_sums and isinstance(value, tirx.Add) and _accumulates(store):
            value = _sum(value, wrapping)
        else:
            value = wrapping(value)
        same = value.same_as(store.value)
        return store if same else tirx.BufferStore(store.buffer, value, store.indices)

    def bound(bind: tirx.Bind) -> tirx.Stmt:
        if not (loads(bind.value) or mentions(bind.value, elements)):
            return bind
        elements.add(bind.var)
        return tirx.Bind(bind.var, wrapping(bind.value))

    def chosen(branch: tirx.IfThenElse) -> tirx.Stmt:
        condition = wrapping(branch.condition)
        same = condition.same_as(branch.condition)
        return branch if same else tirx.IfThenElse(condition, branch.then_case, branch.else_case)

    return with_mapped_body(
        function, (tirx.BufferStore, stored), (tirx.Bind, bound), (tirx.IfThenElse, chosen)
    )


def _accumulates(store: tirx.BufferStore) -> bool:
    """Whether a store adds something to the element that it overwrites."""
    value = store.value
    if not isinstance(value, tirx.Add) or not isinstance(value.a, TensorLoad):
        return False
    return value.a.source.same_as(store.buffer)


def _sum(value: tirx.Add, change: Callable[[PrimExpression], PrimExpression]) -> PrimExpression:
    """Return a sum with changed operands, unchanged itself, as are the products in it.

    LLVM knows no range of the operands, so it assumes nothing, and strategies count its
    instructions.
    """

    def term(part: Any) -> PrimExpression:
        if isinstance(part, tirx.Mul):
            a, b = change(part.a), change(part.b)
        elif _is_products(part):
            a, b = term(part.a), term(part.b)
        else:
            return change(part)
        same = a.same_as(part.a) and b.same_as(part.b)
        rebuilt: PrimExpression = part if same else type(part)(a, b)
        return rebuilt

    added = term(value.b)
    return value if added.same_as(value.b) else tirx.Add(value.a, added)


def _is_products(value: PrimExpression) -> bool:
    """Whether a value is a sum of products without constant factors, which TVM could merge."""
    if isinstance(value, tirx.Add):
        return _is_products(value.a) and _is_products(value.b)
    return isinstance(value, tirx.Mul) and tirx.IntImm not in (type(value.a), type(value.b))


def _changed(value: PrimExpression, elements: set[tirx.Var], change: _Change) -> PrimExpression:
    """Return the value with changed arithmetic on elements; indices in it stay as they are."""
    if isinstance(value, TensorLoad) or not _computes(value, change):
        return value
    loaded: dict[tirx.Var, PrimExpression] = {}

    def hidden(load: PrimExpression) -> PrimExpression:
        if not _is_load(load):
            return load
        element = tirx.Var("element", load.ty)
        loaded[element] = load
        return element

    def changed(operation: PrimExpression) -> PrimExpression:
        replacement = None if numbers and not depends(operation) else change(operation)
        return operation if replacement is None else replacement

    def depends(operation: PrimExpression) -> bool:
        return any(var in known for var in variables(operation))

    apart = traversal.mapped(value, (_LOADS, hidden), order="pre")
    known = {*loaded, *elements}
    if not depends(apart):
        return value
    known.update(let.var for let in nodes(apart, tirx.Let))
    numbers = not known.issuperset(variables(apart))
    mapped_value = traversal.mapped(apart, (_CHANGED, changed))
    if mapped_value.same_as(apart):
        return value
    # Variables of ``Let`` stay, since indices of the loads have them.
    return traversal.mapped(mapped_value, (tirx.Var, lambda var: loaded.get(var, var)))


def _as_dtype(value: PrimExpression, dtype: str) -> PrimExpression:
    """Return the low bits of an int in a dtype.

    TVM converts no negative constant to an unsigned one.
    """
    lanes = lanes_of(value.ty)
    number = value.value if isinstance(value, tirx.Broadcast) else value
    if not (isinstance(number, tirx.IntImm) and dtype.startswith("uint")):
        return tirx.Cast(typed(dtype, lanes), value)
    constant = tirx.const(int(number.value) % (1 << int(tvm.DataType(dtype).bits)), dtype)
    return constant if lanes == 1 else tirx.Broadcast(constant, lanes)


def _computes(value: PrimExpression, change: _Change) -> bool:
    """Whether a value has arithmetic to be changed outside of indices."""
    found: list[Any] = []

    def look(node: PrimExpression) -> WalkResult:
        if found or (type(node) in _LOADS and _is_load(node)):
            return WalkResult.SKIP
        if type(node) in _CHANGED and change(node) is not None:
            found.append(node)
        return WalkResult.ADVANCE

    # The time of a walk grows with the number of its classes.
    traversal.walk(value, (Expr, look), order="pre")
    return bool(found)


def _is_load(value: PrimExpression) -> bool:
    """Whether a value is an element of a buffer, or of a tensor of ``te``."""
    name = getattr(getattr(value, "op", None), "name", "")
    return isinstance(value, TensorLoad) or name == "te.tensor_load"
