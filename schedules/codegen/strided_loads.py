"""Loads of every second or third element as loads of all of them, sorted in registers.

Input: a PrimFunc whose loops are lowered, with vectors. Output: the same without loads whose lanes
have a small stride, which LLVM would load one lane after the other. Adjacent statements that load
neighbours, such as those of a window with stride 2, share vectors: the elements between those of
one load are those of the next. No element outside of the first and last lane of all is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimFunction, dtype_of, is_conditional

WIDEST = 4
"""The widest stride: for each load of lanes so far apart there are as many of all lanes."""

_FEWEST = 4
"""Lanes below which the single loads are as fast."""


def sorted_in_registers(function: PrimFunction) -> PrimFunction:
    """The function with loads of neighbours only, as far as strides are small."""
    read: list[Any] = []
    tvm_ffi.structural_walk(function.body, (BUFFER_LOAD, read.append))
    if all(_Strided.of(load) is None for load in read):
        return function
    bound: dict[Any, Any] = {}
    tvm_ffi.structural_walk(
        function.body, (tirx.Bind, lambda bind: bound.update({bind.var: bind.value})), order="post"
    )

    def shared(sequence: Any) -> Any:
        return _shared(sequence, bound)

    body = tvm_ffi.structural_map(function.body, (tirx.SeqStmt, shared), order="post")
    return function.with_body(tvm_ffi.structural_map(body, (BUFFER_LOAD, _sorted), order="post"))


@dataclass(frozen=True, slots=True, eq=False)
class _Strided:
    """A load of ``lanes`` elements, ``stride`` apart."""

    load: Any
    stride: int
    lanes: int

    @staticmethod
    def of(load: Any) -> _Strided | None:
        """What a load is; None for another kind."""
        if len(load.indices) != 1 or not isinstance(load.indices[0], tirx.Ramp):
            return None
        ramp = load.indices[0]
        if not isinstance(ramp.stride, tirx.IntImm):
            return None
        if not isinstance(ramp.lanes, (int, tirx.IntImm)):
            return None
        stride, lanes = int(ramp.stride), int(ramp.lanes)
        if str(load.source.dtype) == "bool" or lanes < _FEWEST:
            return None
        return _Strided(load, stride, lanes) if stride == -1 or 1 < stride <= WIDEST else None

    def vectors(self, shift: int = 0, more: int = 0) -> Any:
        """The load as vectors of neighbours, from ``shift`` elements before the first lane on.

        They end ``more`` elements after the last lane.
        """
        stride, lanes = self.stride, self.lanes
        if stride == -1:
            return tirx.Shuffle([self._vector(1 - lanes)], list(reversed(range(lanes))))
        # The last vector ends with the last lane, so that it reads nothing after it.
        last = (stride - 1) * (lanes - 1) + shift + more
        whole = lanes * (stride - 1)
        starts = [*(lanes * number for number in range(stride - 1)), last]
        lanes_of_all = [
            position if position < whole else whole + position - last
            for position in range(shift, shift + stride * lanes, stride)
        ]
        return tirx.Shuffle([self._vector(start - shift) for start in starts], lanes_of_all)

    def _vector(self, start: int) -> Any:
        ramp = self.load.indices[0]
        dtype = str(ramp.base.ty.dtype)
        first = ramp.base + tirx.const(start, dtype)
        return self.load.source[(tirx.Ramp(first, tirx.const(1, dtype), self.lanes),)]


def _sorted(load: Any) -> Any:
    found = _Strided.of(load)
    return load if found is None else found.vectors()


def _shared(sequence: Any, bound: Mapping[Any, Any]) -> Any:
    """A sequence in which loads of statements that follow each other share vectors.

    ``bound`` are the values of the variables in their indices.
    """
    changed: list[Any] = []
    for plain, group in itertools.groupby(sequence.seq, key=_is_plain):
        statements = list(group)
        changed += _sharing(statements, bound) if plain else statements
    return tirx.SeqStmt(changed)


def _is_plain(statement: Any) -> bool:
    """Whether a statement stores or names what it always computes all of."""
    if not isinstance(statement, (tirx.Bind, tirx.BufferStore)):
        return False
    calls: list[Any] = []
    tvm_ffi.structural_walk(statement.value, (Call, calls.append), order="post")
    return not any(map(is_conditional, calls))


def _sharing(statements: list[Any], bound: Mapping[Any, Any]) -> list[Any]:
    read = (load for statement in statements for load in loads(statement.value))
    strided = [found for found in map(_Strided.of, read) if found is not None]
    made: dict[Any, Any] = {}
    for alike in _distances([found for found in strided if found.stride > 1], bound):
        ordered = sorted(alike, key=lambda item: item[0])
        while ordered:
            first, stride = ordered[0][0], ordered[0][1].stride
            near = [item for item in ordered if item[0] < first + stride]
            ordered = ordered[len(near) :]
            reach = near[-1][0] - first
            for offset, found in near:
                shift = offset - first
                made[found.load] = found.vectors(shift, reach - shift)
    if not made:
        return statements
    replaced = (BUFFER_LOAD, lambda load: made.get(load, load))
    return [tvm_ffi.structural_map(s, replaced, order="pre") for s in statements]


def _distances(
    strided: Sequence[_Strided], bound: Mapping[Any, Any]
) -> list[list[tuple[int, _Strided]]]:
    """Loads that lie known distances from each other, with these."""
    analyzer, known = sym.Analyzer(), dict[Any, Any]()
    groups: dict[Any, list[tuple[int, _Strided]]] = {}
    for found in strided:
        base = _expanded(found.load.indices[0].base, bound, known)
        start, offset = _split(analyzer.simplify(base))
        key = (found.load.source, found.stride, found.lanes, tvm_ffi.StructuralKey(start))
        groups.setdefault(key, []).append((offset, found))
    return list(groups.values())


def _split(index: Any) -> tuple[Any, int]:
    """An index, as the simplifier leaves it, without the number that is added last, and this."""
    match index:
        case tirx.IntImm():
            return tirx.const(0, dtype_of(index)), int(index.value)
        case tirx.Add(a=rest, b=tirx.IntImm(value=number)):
            return rest, int(number)
        case tirx.Sub(a=rest, b=tirx.IntImm(value=number)):
            return rest, -int(number)
    return index, 0


def _expanded(expression: Any, bound: Mapping[Any, Any], known: dict[Any, Any]) -> Any:
    """An index in terms of what is not bound; ``known`` holds what was found before."""

    def value(var: Any) -> Any:
        if var not in bound:
            return var
        if var not in known:
            known[var] = _expanded(bound[var], bound, known)
        return known[var]

    return tvm_ffi.structural_map(expression, (tirx.Var, value))
