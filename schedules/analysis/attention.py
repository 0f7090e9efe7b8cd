"""Recognition of attention: a sum of values, weighted by the softmax of scores that are products.

Input: a :class:`~kernel.Kernel`. Output: an :class:`Attention`, or None for another kernel. Every
expression is over the axes of the result, whatever transpositions and reshapes are between the four
reductions: the scores, their max, the sum of their exponentials, and the weighted sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import sym, tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import structural_equal

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, inlined
from tvm_nnef.schedules.analysis.reducers import MAX, SUM, UNORDERED_MAX
from tvm_nnef.schedules.analysis.reduction import Epilogue, epilogue_of
from tvm_nnef.tir.expressions import (
    loads,
    mentions,
    substituted,
    with_loads,
    with_simple_indices,
)
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, choice_of

_REAL = "float32"
"""The dtype of scores, their exponentials and sums."""

REDUCERS = (SUM, MAX, SUM, SUM)
"""The reducers of the stages with a reduction, in order; the max may be one that loses NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedWeights:
    """Weights that are ``value`` in the rows for which ``test`` holds, whatever their scores.

    The test may mention the variable ``total``, the sum of the exponentials of a row.
    """

    total: tirx.Var
    test: PrimExpression
    value: PrimExpression


@dataclass(frozen=True, slots=True, eq=False)
class Attention(Epilogue):
    """A weighted sum over ``keys``, and the epilogue.

    The ``score`` of a row and a key is an expression of the variable ``product``, the sum over
    ``depth`` of ``query(batch, row, depth) * key(batch, depth, key)``. Weights are its softmax over
    all keys. The sum of weights times ``value(batch, key, column)`` is the accumulator.
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


def may_end_attention(kernel: Kernel) -> bool:
    """Whether the reductions of a kernel are the last ones of attention."""
    reductions = [stage for stage in kernel.stages if stage.reduced]
    reducers = [stage.reducer for stage in reductions]
    normalized = [MAX if reducer is UNORDERED_MAX else reducer for reducer in reducers]
    return (
        bool(normalized)
        and normalized == [*REDUCERS[-len(normalized) :]]
        and all(stage.code_bits is None for stage in reductions)
        and len(kernel.results) == 1
    )


def read_attention(kernel: Kernel) -> Attention | None:
    """Return the attention that a kernel computes; None for any other kernel."""
    reductions = [stage for stage in kernel.stages if stage.reduced]
    if len(reductions) != len(REDUCERS) or not may_end_attention(kernel):
        return None
    keys = reductions[-1].reduced
    same = (
        len(s.reduced) == 1 and sizes.same(s.reduced[0].extent, keys[0].extent)
        for s in reductions[1:]
    )
    if not all(same) or any(stage.dtype != _REAL for stage in reductions):
        return None
    return _Reader(kernel, reductions).read()


class _Reader:
    """A reader of the stages of a kernel as expressions over the axes of the weighted sum."""

    def __init__(self, kernel: Kernel, reductions: Sequence[Stage]) -> None:
        """Create a reader of a kernel with four stages that have a reduction."""
        self._result, self._reductions = kernel.results[0], reductions
        self._products, self._highest, self._total, self._mixed = reductions
        self._inside = {stage.buffer: stage for stage in kernel.stages if not stage.reduced}
        self._analyzer = sym.Analyzer()
        for axis in (*self._mixed.axes, *self._mixed.reduced, *self._products.reduced):
            self._analyzer.bind(axis.var, sizes.range_of(axis.var, 0, axis.extent))

    def read(self) -> Attention | None:
        """Return the attention; None if the expressions differ from it."""
        mixed, products = self._mixed, self._products
        accumulator = tirx.Var("accumulator", mixed.dtype)
        product = tirx.Var("product", products.dtype)
        epilogue = epilogue_of(mixed, self._result, self._inside, accumulator)
        weighted = self._weighted_by_softmax()
        if weighted is None or epilogue is None:
            return None
        score, fixed, value = weighted
        factors = self._factors(score)
        if factors is None:
            return None
        query, key = factors
        score = with_loads(score, products.buffer, lambda load: product)
        fixes = [] if fixed is None else [fixed.test, fixed.value]
        others = [query, key, score, *fixes]
        rows = [a for a in mixed.axes if not _mention([key, value], [a])]
        columns = [a for a in mixed.axes if a not in rows and not _mention(others, [a])]
        read = {each.source for every in (query, key, score, value, epilogue, *fixes)
                for each in loads(every)}  # fmt: skip
        if not rows or not columns or _mention([query, *fixes], mixed.reduced):
            return None
        if any(stage.buffer in read for stage in self._reductions):
            return None
        return Attention(
            batches=tuple(a for a in mixed.axes if a not in rows and a not in columns),
            rows=tuple(rows),
            columns=tuple(columns),
            keys=mixed.reduced,
            depth=products.reduced,
            query=query,
            key=key,
            value=value,
            product=product,
            score=score,
            fixed=fixed,
            target=self._result.buffer,
            indices=tuple(axis.var for axis in mixed.axes),
            accumulator=accumulator,
            epilogue=epilogue,
        )

    def _weighted_by_softmax(
        self,
    ) -> tuple[PrimExpression, FixedWeights | None, PrimExpression] | None:
        """Return the score, and the value by which its softmax is multiplied; None for others."""
        term = self._term(self._mixed, {})
        if not isinstance(term, tirx.Mul):
            return None
        sides = (term.a, term.b)
        weight, value = sides if loads(term.a, self._total.buffer) else reversed(sides)
        weight, fixed = _without_casts(weight), None
        choice = choice_of(weight)
        if choice is not None:
            test, chosen, other = choice
            if loads(chosen, self._total.buffer):
                test, chosen, other = tirx.Not(test), other, chosen
            weight, total = other, tirx.Var("total", _REAL)
            fixed = FixedWeights(total, _test_of_total(test, weight, total), chosen)
            weight = _without_casts(weight)
        parts = _quotient(weight)
        if parts is None or not self._is_combined(self._total, *reversed(parts)):
            return None
        power = parts[0]
        if not isinstance(power, Call) or str(power.op.name) != "tirx.exp":
            return None
        shifted = _without_casts(power.args[0])
        if not isinstance(shifted, tirx.Sub):
            return None
        is_softmax = self._is_combined(self._highest, shifted.b, shifted.a)
        return (shifted.a, fixed, value) if is_softmax else None

    def _is_combined(self, stage: Stage, load: PrimExpression, term: PrimExpression) -> bool:
        """Whether a load reads the reduction of a term over all keys by a stage."""
        load, keys = _without_casts(load), self._mixed.reduced
        if not isinstance(load, TensorLoad) or load.source != stage.buffer:
            return False
        if _mention([load], keys):
            return False
        pairs = zip(stage.axes, load.indices, strict=True)
        point = {axis.var: index for axis, index in pairs} | {stage.reduced[0].var: keys[0].var}
        own = _without_casts(self._term(stage, point))
        return bool(structural_equal(own, _without_casts(term)))

    def _factors(self, score: PrimExpression) -> tuple[PrimExpression, PrimExpression] | None:
        """Return the factors of the product that a score reads.

        The second one depends on the key.
        """
        product_loads = loads(score, self._products.buffer)
        if not product_loads or not all(
            structural_equal(product_loads[0], other) for other in product_loads
        ):
            return None
        pairs = zip(self._products.axes, product_loads[0].indices, strict=True)
        term = self._term(self._products, {axis.var: index for axis, index in pairs})
        if not isinstance(term, tirx.Mul):
            return None
        is_first = _mention([term.a], self._mixed.reduced)
        return (term.b, term.a) if is_first else (term.a, term.b)

    def _term(self, stage: Stage, point: Mapping[tirx.Var, PrimExpression]) -> PrimExpression:
        """Return the term that a stage with a reduction combines at a point."""
        term = substituted(inlined(stage.value, self._inside), point)
        return with_simple_indices(term, self._analyzer)


def _test_of_total(test: PrimExpression, weight: PrimExpression, total: tirx.Var) -> PrimExpression:
    """Return a test with the sum of a row instead of a weight, if it tests whether the weight is
    NaN.
    """

    def is_number(node: tirx.CmpExpr) -> PrimExpression:
        same = all(structural_equal(side, weight) for side in (node.a, node.b))
        return total > 0.0 if same else node

    return traversal.mapped(test, [(kind, is_number) for kind in (tirx.LE, tirx.GE, tirx.EQ)])


def _quotient(weight: PrimExpression) -> tuple[PrimExpression, PrimExpression] | None:
    """Return numerator and denominator of a quotient, or of a product with a reciprocal."""
    if isinstance(weight, tirx.Div):
        return _without_casts(weight.a), weight.b
    if isinstance(weight, tirx.Mul):
        for side, other in ((weight.a, weight.b), (weight.b, weight.a)):
            part = _without_casts(other)
            if isinstance(part, tirx.Div) and _is_one(part.a):
                return _without_casts(side), part.b
    return None


def _is_one(value: PrimExpression) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value.value) == 1


def _without_casts(value: PrimExpression) -> PrimExpression:
    return _without_casts(value.value) if isinstance(value, tirx.Cast) else value


def _mention(values: Sequence[PrimExpression], axes: Sequence[Axis]) -> bool:
    """Whether one of some values depends on one of some axes."""
    return any(mentions(value, [axis.var for axis in axes]) for value in values)
