"""Strided loads (every second or third element) as contiguous loads, with shuffles in registers.

Input: a PrimFunc whose loops are lowered, with vectors. Output: the same without loads whose lanes
have a small stride, which LLVM would load one lane after the other. Adjacent statements whose loads
interleave, such as those of a window with stride 2, share vectors: the elements between those of
one load are those of the next. No element outside of the first and last lane of all is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, is_conditional

WIDEST = 4
"""The widest stride: for each strided load of a vector there are as many contiguous ones."""

_FEWEST = 4
"""The number of lanes below which the single loads are as fast."""


def sorted_in_registers(function: PrimFunction) -> PrimFunction:
    """Return the function with contiguous loads and shuffles, if strides are small."""
    if not any(map(_is_apart, nodes(function.body, tirx.Ramp))):
        return function
    analyzer = sym.Analyzer()
    for bind in nodes(function.body, tirx.Bind):
        if dtype_of(bind.var) in ("int32", "int64"):
            analyzer.bind(bind.var, bind.value, allow_override=True)

    def shared(sequence: tirx.SeqStmt) -> tirx.SeqStmt:
        changed: list[tirx.Stmt] = []
        for plain, group in itertools.groupby(sequence.seq, key=_is_plain):
            statements = list(group)
            changed += _sharing(statements, analyzer) if plain else statements
        return tirx.SeqStmt(changed)

    body = tvm_ffi.structural_map(function.body, (tirx.SeqStmt, shared), order="post")
    alone = (TensorLoad, lambda load: _vectors(load) if _stride(load) else load)
    return function.with_body(tvm_ffi.structural_map(body, alone, order="post"))


def _is_plain(statement: tirx.Stmt) -> bool:
    """Whether a statement stores or names a value of which it always computes all lanes."""
    return isinstance(statement, (tirx.Bind, tirx.BufferStore)) and not any(
        map(is_conditional, nodes(statement.value, Call))
    )


def _is_apart(ramp: tirx.Ramp) -> bool:
    """Whether an index is of lanes that are not contiguous."""
    return not isinstance(ramp.stride, tirx.IntImm) or ramp.stride.value != 1


def _stride(load: TensorLoad) -> int:
    """Return the stride of the lanes of a load if it is small, but not 1; else 0."""
    ramp = load.indices[0] if len(load.indices) == 1 else None
    if not isinstance(ramp, tirx.Ramp) or not isinstance(ramp.stride, tirx.IntImm):
        return 0
    if not isinstance(ramp.lanes, (int, tirx.IntImm)) or int(ramp.lanes) < _FEWEST:
        return 0
    stride = int(ramp.stride)
    usual = str(load.source.dtype) != "bool"
    return stride if usual and (stride == -1 or 1 < stride <= WIDEST) else 0


def _vectors(load: TensorLoad, before: int = 0, after: int = 0) -> PrimExpression:
    """Return the lanes of a load, taken from contiguous vectors.

    The vectors begin ``before`` elements before its first lane, and end ``after`` elements after
    its last one.
    """
    ramp = load.indices[0]
    assert isinstance(ramp, tirx.Ramp)
    stride, lanes, dtype = _stride(load), int(ramp.lanes), dtype_of(ramp.base)

    def vector(start: int) -> PrimExpression:
        first = ramp.base + tirx.const(start, dtype)
        return load.source[(tirx.Ramp(first, tirx.const(1, dtype), lanes),)]

    if stride == -1:
        return tirx.Shuffle([vector(1 - lanes)], [*reversed(range(lanes))])
    # The last vector ends with the last lane of all, so that it reads nothing after it.
    whole, last = lanes * (stride - 1), (stride - 1) * (lanes - 1) + before + after
    positions = range(before, before + stride * lanes, stride)
    lanes_of_all = [each if each < whole else whole + each - last for each in positions]
    starts = [*range(0, whole, lanes), last]
    return tirx.Shuffle([vector(start - before) for start in starts], lanes_of_all)


def _sharing(statements: Sequence[tirx.Stmt], analyzer: sym.Analyzer) -> list[tirx.Stmt]:
    """Return plain statements in which loads less than a stride apart share vectors."""
    groups: list[list[tuple[int, TensorLoad]]] = []
    plain = (each for each in statements if isinstance(each, (tirx.Bind, tirx.BufferStore)))
    for load in (load for each in plain for load in loads(each.value) if _stride(load) > 1):
        for group in groups:
            distance = _distance(group[0][1], load, analyzer)
            if distance is not None:
                group.append((distance, load))
                break
        else:
            groups.append([(0, load)])
    made: dict[TensorLoad, PrimExpression] = {}
    for group in groups:
        ordered = sorted(group, key=lambda item: item[0])
        while ordered:
            first, stride = ordered[0][0], _stride(ordered[0][1])
            near = [item for item in ordered if item[0] < first + stride]
            ordered = ordered[len(near) :]
            for offset, load in near:
                made[load] = _vectors(load, offset - first, near[-1][0] - offset)
    replaced = (TensorLoad, lambda load: made.get(load, load))
    return [tvm_ffi.structural_map(each, replaced, order="pre") for each in statements]


def _distance(a: TensorLoad, b: TensorLoad, analyzer: sym.Analyzer) -> int | None:
    """Return the distance in elements from one load to another.

    It is None if it varies, or they differ.
    """
    one, other = a.indices[0], b.indices[0]
    assert isinstance(one, tirx.Ramp) and isinstance(other, tirx.Ramp)
    if not a.source.same_as(b.source) or (_stride(a), one.lanes) != (_stride(b), other.lanes):
        return None
    difference = analyzer.simplify(other.base - one.base)
    return int(difference.value) if isinstance(difference, tirx.IntImm) else None
