"""Remainders in the indices of scalar loops, hidden from a transformation of LLVM that is wrong.

A PrimFunc whose loops are lowered in, the same out. LLVM 20 to 22 take ``i % 8`` in an address for
``i`` when they make vectors of a loop whose addresses also hold a wider sum (llvm-project issue
191382: a wrap predicate on a wide recurrence is taken to imply one on a narrow recurrence). Such a
remainder gets an exclusive or with a number that is always 0, which LLVM does not know: a loop with
it still becomes vectors, but the address is then computed for each lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import mentions, variables
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimExpression, PrimFunction, dtype_of

_COUNT = "num_args"
"""The parameter of a lowered PrimFunc that holds the number of its arguments."""

_ABOVE = 24
"""The number of arguments, shifted by so many bits, is 0."""

_NARROWING = (tirx.FloorMod, tirx.Mod, tirx.BitwiseAnd, tirx.Cast)
_WIDTHS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}


def with_opaque_remainders(function: PrimFunction) -> PrimFunction:
    """The function with the remainders by powers of two in its indices hidden from LLVM."""
    count = next((p for p in function.params if p.name == _COUNT), None)
    narrow: list[Any] = []
    tvm_ffi.structural_walk(function.body, (_NARROWING, narrow.append))
    if count is None or not any(map(_is_narrow, narrow)):
        return function
    zero = tirx.Var("zero", dtype_of(count))
    rewrite = _Rewrite(zero, _Names(function.body))
    body = tvm_ffi.structural_map(
        function.body,
        [(BUFFER_LOAD, rewrite.load), (tirx.BufferStore, rewrite.store), (tirx.Bind, rewrite.bind)],
        order="post",
    )
    if not rewrite.changed:
        return function
    first = tirx.Bind(zero, count >> tirx.const(_ABOVE, dtype_of(count)))
    return function.with_body(emit.sequence([first, body]))


class _Names:
    """Which variables depend on loops, and which the indices are computed from."""

    def __init__(self, body: Any) -> None:
        self.varying: set[Any] = set()
        self.indexing: set[Any] = set()
        binds: list[Any] = []
        indices: list[Any] = []
        kinds: list[tuple[Any, Callable[[Any], Any]]] = [
            (tirx.For, lambda loop: self.varying.add(loop.loop_var)),
            (tirx.Bind, binds.append),
            (BUFFER_LOAD, lambda load: indices.extend(load.indices)),
            (tirx.BufferStore, lambda store: indices.extend(store.indices)),
        ]
        for kind in kinds:
            tvm_ffi.structural_walk(body, kind)
        for index in indices:
            self.indexing.update(variables(index))
        for bind in binds:
            if mentions(bind.value, self.varying):
                self.varying.add(bind.var)
        for bind in reversed(binds):
            if bind.var in self.indexing:
                self.indexing.update(variables(bind.value))


class _Rewrite:
    """Combines remainders in indices, and in what these are computed from, with ``zero``."""

    def __init__(self, zero: Any, names: _Names) -> None:
        self.changed = False
        self._zero = zero
        self._names = names

    def load(self, load: Any) -> Any:
        indices = self._indices(load.indices)
        return load if indices is None else load.source[tuple(indices)]

    def store(self, store: Any) -> Any:
        indices = self._indices(store.indices)
        return store if indices is None else tirx.BufferStore(store.buffer, store.value, indices)

    def bind(self, bind: Any) -> Any:
        if bind.var not in self._names.indexing:
            return bind
        value = self._opaque(bind.value)
        return bind if value.same_as(bind.value) else tirx.Bind(bind.var, value)

    def _indices(self, indices: Any) -> list[PrimExpression] | None:
        made = [self._opaque(index) for index in indices]
        same = all(a.same_as(b) for a, b in zip(made, indices, strict=True))
        return None if same else made

    def _opaque(self, index: PrimExpression) -> PrimExpression:
        return tvm_ffi.structural_map(index, (_NARROWING, self._hidden), order="post")

    def _hidden(self, value: Any) -> Any:
        if not (_is_narrow(value) and mentions(value, self._names.varying)):
            return value
        self.changed = True
        dtype = dtype_of(value)
        return value ^ (self._zero if dtype == dtype_of(self._zero) else self._zero.astype(dtype))


def _is_narrow(value: Any) -> bool:
    """Whether LLVM takes a scalar for an integer of fewer bits than it is computed from."""
    if dtype_of(value) not in (*_WIDTHS, "int64", "uint64"):
        return False
    match value:
        case tirx.FloorMod() | tirx.Mod():
            return _is_power(value.b)
        case tirx.Cast():
            return _WIDTHS.get(dtype_of(value), 64) < _WIDTHS.get(dtype_of(value.value), 64)
        case _:
            return any(_is_power(mask, 1) for mask in (value.a, value.b))


def _is_power(number: Any, more: int = 0) -> bool:
    """Whether a number, and so much more, is a constant power of two."""
    value = int(number.value) + more if isinstance(number, tirx.IntImm) else 0
    return value > 0 and not value & (value - 1)
