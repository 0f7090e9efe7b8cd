"""The normal form of a kernel with one reduction: a sum of products, a pooling, a mean.

Input: a :class:`~kernel.Kernel`. Output: a :class:`Reduction`, or None for another kernel. The
epilogue is one expression of the accumulator, paddings are ranges of indices instead of copies,
axes of one value are removed, and adjacent axes that are contiguous in all accesses are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import sym, tirx
from tvm.ir import Range, TensorLoad
from tvm_ffi import structural_equal

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import linear
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, at, inlined, is_plain
from tvm_nnef.schedules.analysis.merging import merge_axes
from tvm_nnef.schedules.analysis.padding import read_guard, read_padding
from tvm_nnef.schedules.analysis.reducers import SUM, Reducer
from tvm_nnef.tir.expressions import (
    loads,
    mentions,
    nodes,
    substituted,
    with_loads,
    with_simple_indices,
)
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

_LONGEST_BORDER = 11
"""Upper limit of windows whose padding is not copied: steps are unrolled, so it limits compile
time.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Border:
    """The limits of the points of a reduction that are outside of a padding, which changes nothing.

    Only points with ``first <= step * axis + stride * reduced < last`` are combined; ``axis`` is
    None if the border does not depend on the element.
    """

    axis: Axis | None
    step: int
    reduced: Axis
    stride: int
    first: int
    last: sizes.Extent

    def contains(self, index: int, step: int) -> bool:
        """Whether a step is inside for an index of the axis; ``last`` is static."""
        return bool(self.first <= self.step * index + self.stride * step < self.last)


@dataclass(frozen=True, slots=True, eq=False)
class Epilogue:
    """The epilogue ``target[indices] = epilogue``, an expression of the variable
    ``accumulator``.
    """

    target: tirx.Var
    indices: tuple[PrimExpression, ...]
    accumulator: tirx.Var
    epilogue: PrimExpression

    def store(
        self, value: PrimExpression, point: Mapping[tirx.Var, PrimExpression]
    ) -> tirx.BufferStore:
        """Return the store of the element at a point, given the value of the accumulator."""
        result = substituted(self.epilogue, {**point, self.accumulator: value})
        indices = [substituted(index, point) for index in self.indices]
        return tirx.BufferStore(self.target, result, indices)


@dataclass(frozen=True, slots=True, eq=False)
class Reduction(Epilogue):
    """A reduction: ``init`` combined with ``term`` over ``reduced``, and the epilogue.

    ``copies`` are stages that are computed before, into separate buffers. ``views`` are statements
    that declare buffers over the elements of others. ``panel_width``, ``code_bits`` and
    ``int8_data`` are those of the stage.
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    term: PrimExpression
    init: PrimExpression
    reducer: Reducer
    dtype: str
    borders: tuple[Border, ...] = ()
    copies: tuple[Stage, ...] = ()
    views: tuple[tirx.Stmt, ...] = ()
    panel_width: int | None = None
    code_bits: int | None = None
    int8_data: bool = False


def read_reduction(kernel: Kernel, *, padded: bool = False) -> Reduction | None:
    """Return the normal form of a kernel with one reduction; None for any other kernel.

    With ``padded``, padded copies stay, and axes are not merged.
    """
    reductions = [stage for stage in kernel.stages if stage.reduced]
    results = kernel.results
    if len(reductions) != 1 or len(results) != 1:
        return None
    (stage,), (result,) = reductions, results
    position = kernel.stages.index(stage)
    before, after = kernel.stages[:position], kernel.stages[position + 1 :]
    accumulator = tirx.Var("accumulator", stage.dtype)
    epilogue = epilogue_of(stage, result, {s.buffer: s for s in (*before, *after)}, accumulator)
    if epilogue is None or stage.reducer is None or stage.init is None:
        return None
    value, copies = _prologue(stage, before)
    reduction = Reduction(
        axes=stage.axes,
        reduced=stage.reduced,
        term=value,
        init=stage.init,
        reducer=stage.reducer,
        dtype=stage.dtype,
        target=result.buffer,
        indices=tuple(axis.var for axis in stage.axes),
        accumulator=accumulator,
        epilogue=epilogue,
        copies=tuple(copies),
        panel_width=stage.panel_width,
        code_bits=stage.code_bits,
        int8_data=stage.int8_data,
    )
    reduction = _without_unit_steps(reduction, kernel.index_type)
    if padded:
        return _without_unit_axes(reduction, kernel.index_type)
    reduction = with_groups(_with_borders(reduction), reduction.axes[-1:])
    return _with_merged_axes(_without_unit_axes(reduction, kernel.index_type), kernel)


def epilogue_of(
    stage: Stage, result: Stage, others: Mapping[tirx.Var, Stage], accumulator: tirx.Var
) -> PrimExpression | None:
    """Return the result as an expression of the accumulator, at the axes of the reduction."""
    if result is stage:
        return accumulator
    if len(result.axes) != len(stage.axes) or not all(
        sizes.same(a.extent, b.extent) for a, b in zip(result.axes, stage.axes, strict=True)
    ):
        return None
    axes = [axis.var for axis in stage.axes]
    expression = inlined(at(result, axes), others, stage.axes)

    def is_same(index: PrimExpression, axis: Axis) -> bool:
        if axis.is_unit and isinstance(index, tirx.IntImm):
            return int(index.value) == 0
        return bool(index.same_as(axis.var))

    own = loads(expression, stage.buffer)
    if not own or not all(all(map(is_same, load.indices, stage.axes)) for load in own):
        return None
    return with_loads(expression, stage.buffer, lambda load: accumulator)


def _prologue(stage: Stage, before: Sequence[Stage]) -> tuple[PrimExpression, list[Stage]]:
    """Return the reduced value with plain stages inlined, and the copies that it reads.

    Stages that only the epilogue reads are not among the copies: they are inlined into it.
    """
    plain = {each.buffer: each for each in before if is_plain(each.value)}
    value = inlined(stage.value, plain)
    copies: list[Stage] = []
    for copy in reversed(before):
        read = [value, *(each.value for each in copies)]
        if copy.buffer not in plain and any(loads(each, copy.buffer) for each in read):
            copies.insert(0, replace(copy, value=inlined(copy.value, plain)))
    return value, copies


def _with_borders(reduction: Reduction) -> Reduction:
    """Return the reduction with padded copies as borders, if the padding changes nothing."""
    for copy in reduction.copies:
        reduction = _with_border_of(reduction, copy) or reduction
    return reduction


def _with_border_of(reduction: Reduction, copy: Stage) -> Reduction | None:
    if loads_of_any(reduction.copies, copy.buffer) or loads(reduction.epilogue, copy.buffer):
        return None
    padding = read_padding(copy)
    guard = None
    if reduction.reducer is SUM:
        guard = read_guard(reduction.term, {copy.buffer: copy}.get)
    term = reduction.term if guard is None else guard.product
    uses = loads(term, copy.buffer)
    if padding is None or not uses or not _is_neutral(reduction, term, padding.value, uses):
        return None
    borders = []
    alike = zip(*(use.indices for use in uses), strict=True)
    for indices, (first, last), axis in zip(alike, padding.inside, copy.axes, strict=True):
        if first == 0 and sizes.same(last, axis.extent):
            continue
        border = _border(reduction, indices[0], first, last)
        if border is None or not all(structural_equal(indices[0], index) for index in indices):
            return None
        borders.append(border)
    source = replace(copy, value=padding.source)
    return replace(
        reduction,
        term=with_loads(term, copy.buffer, lambda load: at(source, load.indices)),
        borders=(*reduction.borders, *borders),
        copies=tuple(other for other in reduction.copies if other is not copy),
    )


def loads_of_any(stages: Iterable[Stage], buffer: tirx.Var) -> bool:
    """Whether some stage loads from a buffer."""
    return any(loads(stage.value, buffer) for stage in stages)


def _is_neutral(
    reduction: Reduction,
    term: PrimExpression,
    value: tirx.IntImm | tirx.FloatImm,
    uses: Sequence[TensorLoad],
) -> bool:
    """Whether combining a term of padded elements changes nothing."""
    use = uses[0]
    if reduction.reducer is SUM and not reduction.dtype.startswith(("float", "bfloat")):
        return value.value == 0 and _vanishes(term, use.source)
    if len(uses) > 1:
        return False
    if reduction.reducer is SUM:
        while isinstance(term, (tirx.Mul, tirx.Cast)):
            parts = (term.a, term.b) if isinstance(term, tirx.Mul) else (term.value,)
            term = next(part for part in parts if loads(part, use.source))
        neutral = float(value.value) == 0
    else:
        init = reduction.init
        neutral = isinstance(init, type(value)) and init.value == value.value
    return neutral and isinstance(term, TensorLoad) and term.source.same_as(use.source)


def _vanishes(term: PrimExpression, buffer: tirx.Var) -> bool:
    """Whether an expression of integers is 0 if the elements of a buffer are."""

    def vanishes(part: PrimExpression) -> bool:
        return _vanishes(part, buffer)

    match term:
        case TensorLoad():
            return bool(term.source.same_as(buffer))
        case tirx.Cast():
            return vanishes(term.value)
        case tirx.LShift() | tirx.RShift():
            return vanishes(term.a)
        case tirx.Mul() | tirx.BitwiseAnd():
            return vanishes(term.a) or vanishes(term.b)
        case tirx.Add() | tirx.Sub() | tirx.BitwiseOr():
            return vanishes(term.a) and vanishes(term.b)
    return False


def _border(
    reduction: Reduction, index: PrimExpression, first: int, last: sizes.Extent
) -> Border | None:
    """Return the border of an index into a padded dimension."""
    axes = [a for a in reduction.axes if mentions(index, [a.var])]
    reduced = [a for a in reduction.reduced if mentions(index, [a.var])]
    if len(axes) > 1 or len(reduced) != 1:
        return None
    equation = linear(index, *(a.var for a in (*axes, *reduced)))
    if not equation or not sizes.are_known(equation):
        return None
    *slopes, base = equation
    if min(slopes) <= 0 or not reduced[0].is_known or reduced[0].extent > _LONGEST_BORDER:
        return None
    step = slopes[0] if axes else 0
    axis = axes[0] if axes else None
    return Border(axis, step, reduced[0], slopes[-1], first - base, last - base)


def with_groups(reduction: Reduction, axes: Sequence[Axis]) -> Reduction:
    """Return the reduction with some axes divided in two if they have groups: group and index in
    it.

    An index that adds a reduced axis to a quotient of the axis shows that there are groups; panels
    of packed weights are indexed by quotient and remainder alone.
    """
    for axis in axes:
        size = _group_size(reduction, axis) if axis.is_known else None
        if size is not None:
            reduction = _in_groups(reduction, axis, size)
    return reduction


def _in_groups(reduction: Reduction, axis: Axis, size: int) -> Reduction:
    """Return the reduction with an axis divided into groups of a size."""
    divided_reduction, *both = divided(reduction, axis, size, ("g", "o"))
    analyzer = sym.Analyzer()
    for each in both:
        analyzer.bind(each.var, Range(0, each.extent))
    return replace(
        divided_reduction,
        term=with_simple_indices(divided_reduction.term, analyzer),
        epilogue=with_simple_indices(divided_reduction.epilogue, analyzer),
    )


def divided(
    reduction: Reduction, axis: Axis, size: int, names: tuple[str, str]
) -> tuple[Reduction, Axis, Axis]:
    """Return the reduction with an axis in parts of a size, the axis of the parts, and that in a
    part.
    """
    dtype, at = dtype_of(axis.var), reduction.axes.index(axis)
    outer = Axis(tirx.Var(names[0], dtype), axis.extent // size)
    inner = Axis(tirx.Var(names[1], dtype), size)
    whole = {axis.var: outer.var * tirx.const(size, dtype) + inner.var}
    axes = (*reduction.axes[:at], outer, inner, *reduction.axes[at + 1 :])
    return replace(_substituted(reduction, whole), axes=axes), outer, inner


def _substituted(reduction: Reduction, values: Mapping[tirx.Var, PrimExpression]) -> Reduction:
    return replace(
        reduction,
        term=substituted(reduction.term, values),
        epilogue=substituted(reduction.epilogue, values),
        indices=tuple(substituted(index, values) for index in reduction.indices),
    )


def _group_size(reduction: Reduction, axis: Axis) -> int | None:
    """Return the divisor of an axis in an index that adds a reduced axis to the quotient."""
    for load in loads(reduction.term):
        for index in load.indices:
            if not any(mentions(index, [reduced.var]) for reduced in reduction.reduced):
                continue
            for division in nodes(index, tirx.FloorDiv):
                size = int(division.b.value) if isinstance(division.b, tirx.IntImm) else 0
                if division.a.same_as(axis.var) and size > 0 and axis.extent % size == 0:
                    return size
    return None


def _without_unit_steps(reduction: Reduction, index_type: str) -> Reduction:
    """Return the reduction with reduced axes of one value replaced by 0, except for the last
    one.
    """
    left = [a for a in reduction.reduced if not a.is_unit] or [*reduction.reduced[-1:]]
    gone = {a.var: tirx.const(0, index_type) for a in reduction.reduced if a not in left}
    if not gone:
        return reduction
    term = with_simple_indices(substituted(reduction.term, gone), sym.Analyzer())
    return replace(reduction, reduced=tuple(left), term=term)


def _without_unit_axes(reduction: Reduction, index_type: str) -> Reduction:
    """Return the reduction with axes of one value replaced by 0, except for the last one."""
    bordered = [border.axis for border in reduction.borders]
    units = [a for a in reduction.axes[:-1] if a.is_unit and a not in bordered]
    left = tuple(a for a in reduction.axes if a not in units)
    gone = {axis.var: tirx.const(0, index_type) for axis in units}
    return replace(_substituted(reduction, gone), axes=left)


def _with_merged_axes(reduction: Reduction, kernel: Kernel) -> Reduction:
    """Return the reduction with adjacent axes merged that are contiguous in every access."""
    bordered = [border.axis for border in reduction.borders if border.axis is not None]
    target = reduction.target[tuple(reduction.indices)]
    merged = merge_axes(
        reduction.axes,
        (reduction.term, reduction.epilogue, target),
        kernel.index_type,
        keep=(*bordered, *reduction.axes[-1:]),
    )
    term, epilogue, written = merged.expressions
    assert isinstance(written, TensorLoad)
    return replace(
        reduction,
        axes=merged.axes,
        term=term,
        epilogue=epilogue,
        target=written.source,
        indices=tuple(written.indices),
        views=(*reduction.views, *merged.views),
    )
