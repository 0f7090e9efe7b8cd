"""Attention: a sum of values, weighted by the softmax of scores that are products themselves.

Input: a :class:`~kernel.Kernel`. Output: an :class:`Attention`, or None for another kernel. Every
expression is over the axes of the result, whatever transpositions and reshapes lie between the four
reductions: the scores, their max, the sum of their exponentials, and the weighted sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import sym, tirx
from tvm.ir import Call
from tvm_ffi import structural_equal

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import (
    loads,
    mentions,
    substituted,
    with_loads,
    with_simple_indices,
)
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, inlined
from tvm_nnef.schedules.analysis.reducers import MAX, SUM, UNORDERED_MAX
from tvm_nnef.schedules.analysis.reduction import epilogue_of
from tvm_nnef.tvm_support.compat import PrimExpression, choice_of, dtype_of

Stages = Mapping[tirx.Var, Stage]

REDUCERS = (SUM, MAX, SUM, SUM)
"""How the stages with a reduction combine, in their order; a max may be one that loses NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedWeights:
    """Weights that are ``value`` in the rows for which ``test`` holds, whatever their scores."""

    test: PrimExpression
    value: PrimExpression


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """``target[indices] = epilogue`` of a weighted sum over ``keys``, for each of ``axes``.

    The ``score`` of a row and a key is an expression of the variable ``product``, the sum over
    ``depth`` of ``query(batch, row, depth) * key(batch, depth, key)``. Weights are its softmax over
    all keys. The sum of weights times ``value(batch, key, column)`` is the variable ``accumulator``
    of the epilogue.
    """

    batches: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    keys: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    query: PrimExpression
    key: PrimExpression
    value: PrimExpression
    product: tirx.Var
    score: PrimExpression
    fixed: FixedWeights | None
    target: tirx.Var
    indices: tuple[PrimExpression, ...]
    accumulator: tirx.Var
    epilogue: PrimExpression


def may_end_attention(kernel: Kernel) -> bool:
    """Whether the reductions of a kernel are the last ones of attention."""
    found = [stage.reducer for stage in kernel.stages if stage.reduced]
    known = [MAX if reducer is UNORDERED_MAX else reducer for reducer in found]
    return bool(known) and known == [*REDUCERS[-len(known) :]] and len(kernel.results) == 1


def read_attention(kernel: Kernel) -> Attention | None:
    """The attention that a kernel computes; None for any other kernel."""
    reductions = [stage for stage in kernel.stages if stage.reduced]
    if len(reductions) != len(REDUCERS) or not may_end_attention(kernel):
        return None
    products, *others, mixed = reductions
    keys = mixed.reduced
    same = (len(s.reduced) == 1 and _same(s.reduced[0], keys[0]) for s in (*others, mixed))
    if not all(same) or any(stage.dtype != "float32" for stage in reductions):
        return None
    inside = {stage.buffer: stage for stage in kernel.stages if not stage.reduced}
    accumulator = tirx.Var("accumulator", mixed.dtype)
    epilogue = epilogue_of(mixed, kernel.results[0], inside, accumulator)
    weighted = _weighted_by_softmax(mixed, others, inside)
    if weighted is None or epilogue is None:
        return None
    score, fixed, value = weighted
    factors = _products(score, products, inside, keys[0])
    if factors is None:
        return None
    product = tirx.Var("product", products.dtype)
    score = with_loads(score, products.buffer, lambda load: product)
    fixes = [] if fixed is None else [fixed.test, fixed.value]
    columns = [a for a in mixed.axes if not mentions_any([*factors, score, *fixes], [a])]
    rows = [
        a for a in mixed.axes if a not in columns and not mentions_any([factors[1], value], [a])
    ]
    left = [stage.buffer for stage in reductions]
    if not rows or not columns or mentions_any(fixes, keys):
        return None
    if any(
        loads(each, buffer)
        for each in (*factors, score, value, epilogue, *fixes)
        for buffer in left
    ):
        return None
    found = Attention(
        batches=tuple(a for a in mixed.axes if a not in rows and a not in columns),
        rows=tuple(rows),
        columns=tuple(columns),
        keys=keys,
        depth=products.reduced,
        query=factors[0],
        key=factors[1],
        value=value,
        product=product,
        score=score,
        fixed=fixed,
        target=kernel.results[0].buffer,
        indices=tuple(axis.var for axis in mixed.axes),
        accumulator=accumulator,
        epilogue=epilogue,
    )
    return _with_simple_indices(found)


def _weighted_by_softmax(
    mixed: Stage, reductions: Sequence[Stage], inside: Stages
) -> tuple[PrimExpression, FixedWeights | None, PrimExpression] | None:
    """The score, and the value that its softmax is multiplied by in a sum; None for others."""
    highest, total = reductions
    term = inlined(mixed.value, inside)
    if not isinstance(term, tirx.Mul):
        return None
    weight, value = (term.a, term.b) if loads(term.a, total.buffer) else (term.b, term.a)
    weight, fixed = _without_casts(weight), None
    choice = choice_of(weight)
    if choice is not None:
        test, chosen, other = choice
        if loads(chosen, total.buffer):
            test, chosen, other = tirx.Not(test), other, chosen
        weight, fixed = _without_casts(other), FixedWeights(test, chosen)
    parts = _quotient(weight)
    if parts is None or not _reads(parts[1], total, mixed.reduced):
        return None
    power = parts[0]
    if not isinstance(power, Call) or str(power.op.name) != "tirx.exp":
        return None
    difference = _without_casts(power.args[0])
    if not isinstance(difference, tirx.Sub) or not _reads(difference.b, highest, mixed.reduced):
        return None
    is_softmax = structural_equal(_term_at(total, parts[1], inside, mixed), power)
    if not is_softmax or not structural_equal(
        _term_at(highest, difference.b, inside, mixed), _without_casts(difference.a)
    ):
        return None
    return difference.a, fixed, value


def _products(
    score: PrimExpression, products: Stage, inside: Stages, key: Axis
) -> tuple[PrimExpression, PrimExpression] | None:
    """The two factors of the product that a score reads; the second one depends on the key."""
    first, *others = loads(score, products.buffer) or [None]
    if first is None or not all(structural_equal(first, other) for other in others):
        return None
    pairs = zip(products.axes, first.indices, strict=True)
    term = substituted(inlined(products.value, inside), {axis.var: at for axis, at in pairs})
    if not isinstance(term, tirx.Mul):
        return None
    query, factor = (term.b, term.a) if mentions(term.a, [key.var]) else (term.a, term.b)
    return None if mentions(query, [key.var]) else (query, factor)


def _quotient(weight: PrimExpression) -> tuple[PrimExpression, PrimExpression] | None:
    """Numerator and denominator of a quotient, or of a product with a reciprocal."""
    if isinstance(weight, tirx.Mul):
        for side, other in ((weight.a, weight.b), (weight.b, weight.a)):
            quotient = _without_casts(other)
            if isinstance(quotient, tirx.Div) and isinstance(quotient.a, tirx.FloatImm):
                if float(quotient.a.value) == 1:
                    return _without_casts(side), _without_casts(quotient.b)
    if isinstance(weight, tirx.Div):
        return _without_casts(weight.a), _without_casts(weight.b)
    return None


def _reads(value: PrimExpression, stage: Stage, keys: Sequence[Axis]) -> bool:
    """Whether a value is an element of a stage, the same one for all keys."""
    value = _without_casts(value)
    return (
        bool(loads(value, stage.buffer))
        and loads(value) == [value]
        and not mentions_any([value], keys)
    )


def _term_at(stage: Stage, load: PrimExpression, inside: Stages, mixed: Stage) -> PrimExpression:
    """What a stage combines for the element that is loaded, over the axes of the weighted sum."""
    pairs = zip(stage.axes, _without_casts(load).indices, strict=True)
    point = {axis.var: index for axis, index in pairs}
    point[stage.reduced[0].var] = mixed.reduced[0].var
    return _without_casts(substituted(inlined(stage.value, inside), point))


def _without_casts(value: PrimExpression) -> PrimExpression:
    while isinstance(value, tirx.Cast):
        value = value.value
    return value


def _same(first: Axis, second: Axis) -> bool:
    return sizes.same(first.extent, second.extent)


def mentions_any(values: Sequence[PrimExpression], axes: Sequence[Axis]) -> bool:
    """Whether one of some values depends on one of some axes."""
    return any(mentions(value, [axis.var for axis in axes]) for value in values)


def _with_simple_indices(attention: Attention) -> Attention:
    """The attention with the indices of all loads in their simplest form."""
    analyzer, it = sym.Analyzer(), attention
    for axis in (*it.batches, *it.rows, *it.columns, *it.keys, *it.depth):
        analyzer.bind(axis.var, sizes.range_of(axis.var, 0, axis.extent))

    def simple(value: PrimExpression) -> PrimExpression:
        return with_simple_indices(value, analyzer)

    fixed = it.fixed and FixedWeights(simple(it.fixed.test), simple(it.fixed.value))
    return replace(
        it,
        query=simple(it.query),
        key=simple(it.key),
        value=simple(it.value),
        score=simple(it.score),
        epilogue=simple(it.epilogue),
        fixed=fixed,
    )
