"""The normal form of a kernel with one reduction: a sum of products, a pooling, a mean.

Enters: a :class:`~kernel.Kernel`. Leaves: a :class:`Reduction`, in which what follows element by
element (the epilogue) is one expression of the total, borders that were padded are ranges instead
of copies, axes of one value are gone, and neighbouring axes that all accesses run through together
are one; or None where the kernel is of another kind. Writes no loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import (
    loads,
    mentions,
    substituted,
    with_simple_indices,
)
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, at, inlined, is_plain
from tvm_nnef.schedules.analysis.merging import merge_axes
from tvm_nnef.schedules.analysis.padding import Guard, read_guard, read_padding
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimExpression

_LONGEST_BORDER = 11
"""A longer window is written out too often at a border: its padding is copied."""


@dataclass(frozen=True, slots=True, eq=False)
class Border:
    """Points of a reduction that lie in a padding and change nothing.

    Only where ``first <= step * axis + stride * reduced < last`` is anything combined; ``axis`` is
    None where the border does not depend on the element.
    """

    axis: Axis | None
    step: int
    reduced: Axis
    stride: int
    first: int
    last: sizes.Extent


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """``target[indices] = epilogue(combine(init, term over all of reduced))`` for all of axes.

    ``total`` is the variable of the epilogue that stands for the combined value. ``copies`` are
    stages that are computed in front, into buffers of their own. ``views`` are statements that
    declare buffers over the elements of others.
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    term: PrimExpression
    init: PrimExpression
    combine: Any
    dtype: str
    target: Any
    indices: tuple[PrimExpression, ...]
    total: Any
    epilogue: PrimExpression
    borders: tuple[Border, ...] = ()
    copies: tuple[Stage, ...] = ()
    views: tuple[Any, ...] = ()


def read_reduction(kernel: Kernel, *, padded: bool = False) -> Reduction | None:
    """The normal form of a kernel with one reduction; None for any other kernel.

    With ``padded``, what is padded stays a copy, and neighbouring axes stay apart.
    """
    reductions = [stage for stage in kernel.stages if stage.reduced]
    results = kernel.results
    if len(reductions) != 1 or len(results) != 1:
        return None
    (stage,), (result,) = reductions, results
    position = kernel.stages.index(stage)
    before, behind = kernel.stages[:position], kernel.stages[position + 1 :]
    total = tirx.Var("total", stage.dtype)
    epilogue = _epilogue(stage, result, {s.buffer: s for s in (*before, *behind)}, total)
    if epilogue is None:
        return None
    inputs, copies = _prologue(stage, before)
    value = inlined(stage.value, {s.buffer: s for s in inputs})
    assert stage.init is not None
    found = Reduction(
        axes=stage.axes,
        reduced=stage.reduced,
        term=value,
        init=stage.init,
        combine=stage.combine,
        dtype=stage.dtype,
        target=result.buffer,
        indices=tuple(axis.var for axis in stage.axes),
        total=total,
        epilogue=epilogue,
        copies=tuple(copies),
    )
    found = _without_unit_steps(found, kernel.index_type)
    if padded:
        return _without_unit_axes(_with_mask(found), kernel.index_type)
    found = with_groups(_with_borders(found), kernel.index_type, found.axes[-1:])
    return _with_merged_axes(_without_unit_axes(found, kernel.index_type), kernel)


def _epilogue(
    stage: Stage, result: Stage, others: Mapping[Any, Stage], total: PrimExpression
) -> PrimExpression | None:
    """The result as an expression of the total, at the axes of the reduction."""
    if result is stage:
        return total
    if len(result.axes) != len(stage.axes) or not all(
        sizes.same(a.extent, b.extent) for a, b in zip(result.axes, stage.axes, strict=True)
    ):
        return None
    axes = [axis.var for axis in stage.axes]
    expression = inlined(at(result, axes), others, stage.axes)
    own = loads(expression, stage.buffer)
    plain = all(
        all(_same_index(index, axis) for index, axis in zip(load.indices, stage.axes, strict=True))
        for load in own
    )
    if not own or not plain:
        return None

    def replaced(load: BUFFER_LOAD) -> PrimExpression:
        return total if load.source.same_as(stage.buffer) else load

    return tvm_ffi.structural_map(expression, (BUFFER_LOAD, replaced))


def _same_index(index: Any, axis: Axis) -> bool:
    if axis.is_unit and isinstance(index, tirx.IntImm):
        return int(index.value) == 0
    return bool(index.same_as(axis.var))


def _prologue(stage: Stage, before: Sequence[Stage]) -> tuple[list[Stage], list[Stage]]:
    """What is computed inside of the reduction, and what in front of it.

    Values that are cheap, and not computed more often than they are stored, move inside.
    """
    inside: list[Stage] = []
    for candidate in before:
        if is_plain(candidate.value):
            inside.append(candidate)
    names = {s.buffer: s for s in inside}
    copies: list[Stage] = []
    for copy in reversed(before):
        # What only the epilogue reads is computed in it.
        if copy.buffer not in names and loads_of_any([stage, *inside, *copies], copy.buffer):
            copies.insert(0, replace(copy, value=inlined(copy.value, names)))
    return inside, copies


def _with_borders(reduction: Reduction) -> Reduction:
    """Copies that only add a padding become borders, where the padding changes nothing."""
    for copy in reduction.copies:
        found = _border_of(reduction, copy)
        if found is not None:
            reduction = found
    return reduction


def _border_of(reduction: Reduction, copy: Stage) -> Reduction | None:
    if loads_of_any(reduction.copies, copy.buffer) or loads(reduction.epilogue, copy.buffer):
        return None
    padding = read_padding(copy)
    guard = _guard(reduction)
    if guard is not None and guard.copy is copy:
        reduction = replace(reduction, term=guard.product)
    uses = loads(reduction.term, copy.buffer)
    if padding is None or len(uses) != 1 or not _is_neutral(reduction, padding.value, uses[0]):
        return None
    borders = []
    for index, (first, last), axis in zip(uses[0].indices, padding.inside, copy.axes, strict=True):
        if first == 0 and sizes.same(last, axis.extent):
            continue
        border = _border(reduction, index, first, last)
        if border is None:
            return None
        borders.append(border)

    def shifted(load: Any) -> PrimExpression:
        return at_source(load) if load.source.same_as(copy.buffer) else load

    def at_source(load: Any) -> PrimExpression:
        pairs = zip(copy.axes, load.indices, strict=True)
        return substituted(padding.source, {axis.var: index for axis, index in pairs})

    return replace(
        reduction,
        term=tvm_ffi.structural_map(reduction.term, (BUFFER_LOAD, shifted)),
        borders=(*reduction.borders, *borders),
        copies=tuple(other for other in reduction.copies if other is not copy),
    )


def _guard(reduction: Reduction) -> Guard | None:
    """How the products of a sum are guarded."""
    if reduction.combine is not tirx.Add:
        return None

    def copy_of(buffer: Any) -> Stage | None:
        return next((copy for copy in reduction.copies if copy.buffer.same_as(buffer)), None)

    return read_guard(reduction.term, copy_of)


def _with_mask(reduction: Reduction) -> Reduction:
    """A sum of guarded products with borders, and what is left of the guard at one factor.

    The copy is 0 where the guard fails, so the other factor may be 0 there in place of the product.
    That is done once for all rows of a tile, as each vector of them needs the same mask.
    """
    guard = _guard(reduction)
    if guard is None or len(loads(reduction.term, guard.copy.buffer)) != 1:
        return reduction
    borders, tests = [], []
    for index, (first, last), axis in zip(
        guard.load.indices, guard.padding.inside, guard.copy.axes, strict=True
    ):
        if first == 0 and sizes.same(last, axis.extent):
            continue
        border = _border(reduction, index, first, last)
        if border is not None and border.axis is not reduction.axes[-1]:
            borders.append(border)
            continue
        tests += [index >= first] if first else []
        tests += [] if sizes.same(last, axis.extent) else [index < last]
    other = guard.other
    if tests:
        zero = tirx.const(0, reduction.dtype)
        other = tirx.Select(tirx.all(*tests), other, zero)
    return replace(reduction, term=guard.load * other, borders=(*reduction.borders, *borders))


def loads_of_any(stages: Iterable[Stage], buffer: Any) -> bool:
    """Whether some stage loads from a buffer."""
    return any(loads(stage.value, buffer) for stage in stages)


def _is_neutral(reduction: Reduction, value: Any, use: Any) -> bool:
    """Whether combining a padded element changes nothing."""
    if reduction.combine is tirx.Add:
        term = reduction.term
        while isinstance(term, tirx.Mul):
            term = term.a if loads(term.a, use.source) else term.b
        return float(value.value) == 0 and _is_that(term, use)
    same = isinstance(reduction.init, type(value)) and reduction.init.value == value.value
    return same and _is_that(reduction.term, use)


def _is_that(term: Any, use: Any) -> bool:
    return isinstance(term, BUFFER_LOAD) and term.source.same_as(use.source)


def _border(reduction: Reduction, index: Any, first: int, last: sizes.Extent) -> Border | None:
    """The border that an index with a padding in its dimension means."""
    axes = [a for a in reduction.axes if mentions(index, [a.var])]
    reduced = [a for a in reduction.reduced if mentions(index, [a.var])]
    if len(axes) > 1 or len(reduced) != 1:
        return None
    equation = sym.detect_linear_equation(index, [a.var for a in (*axes, *reduced)])
    if not len(equation) or not all(isinstance(c, tirx.IntImm) for c in equation):
        return None
    *slopes, base = (int(c.value) for c in equation)
    if min(slopes) <= 0 or not reduced[0].is_known or reduced[0].extent > _LONGEST_BORDER:
        return None
    step = slopes[0] if axes else 0
    axis = axes[0] if axes else None
    return Border(axis, step, reduced[0], slopes[-1], first - base, last - base)


def with_groups(reduction: Reduction, index_type: str, axes: Sequence[Axis]) -> Reduction:
    """The reduction with some axes divided in two if they are: the group, and what is in it.

    Groups show where an operand takes the quotient of the axis on top of what is reduced; panels
    of packed weights take quotient and remainder alone, and are left as they are.
    """
    for axis in axes:
        size = _group_size(reduction, axis) if axis.is_known else None
        if size is not None:
            reduction = _divided(reduction, index_type, axis, size)
    return reduction


def _divided(reduction: Reduction, index_type: str, axis: Axis, size: int) -> Reduction:
    """The reduction with an axis divided into groups of a size."""
    group = Axis(tirx.Var("g", index_type), axis.extent // size)
    inner = Axis(tirx.Var("o", index_type), size)
    analyzer = sym.Analyzer()
    analyzer.bind(group.var, Range(0, group.extent))
    analyzer.bind(inner.var, Range(0, inner.extent))
    whole = {axis.var: group.var * tirx.const(size, index_type) + inner.var}
    position = reduction.axes.index(axis)

    def split(expression: Any) -> Any:
        return with_simple_indices(substituted(expression, whole), analyzer)

    return replace(
        reduction,
        axes=(*reduction.axes[:position], group, inner, *reduction.axes[position + 1 :]),
        term=split(reduction.term),
        epilogue=split(reduction.epilogue),
        indices=tuple(substituted(index, whole) for index in reduction.indices),
    )


def _group_size(reduction: Reduction, axis: Axis) -> int | None:
    """The divisor of an axis in an index that adds something reduced to the quotient."""
    for load in loads(reduction.term):
        for index in load.indices:
            if not any(mentions(index, [reduced.var]) for reduced in reduction.reduced):
                continue
            divisions: list[Any] = []
            tvm_ffi.structural_walk(index, (tirx.FloorDiv, divisions.append), order="post")
            for division in divisions:
                size = int(division.b.value) if isinstance(division.b, tirx.IntImm) else 0
                if division.a.same_as(axis.var) and size > 0 and axis.extent % size == 0:
                    return size
    return None


def _without_unit_steps(reduction: Reduction, index_type: str) -> Reduction:
    """Reduced axes of one value are replaced by 0, except for the last one."""
    zero = tirx.const(0, index_type)
    left = [a for a in reduction.reduced if not a.is_unit] or [*reduction.reduced[-1:]]
    gone = {a.var: zero for a in reduction.reduced if a not in left}
    return replace(reduction, reduced=tuple(left), term=_with_plain_indices(reduction.term, gone))


def _with_plain_indices(term: PrimExpression, gone: Mapping[Any, Any]) -> PrimExpression:
    """A term without some variables, and without what that leaves of sums with 0."""
    if not gone:
        return term
    return with_simple_indices(substituted(term, gone), sym.Analyzer())


def _without_unit_axes(reduction: Reduction, index_type: str) -> Reduction:
    """Axes of one value are replaced by 0, except for the last one."""
    zero = tirx.const(0, index_type)
    bordered = [border.axis for border in reduction.borders]
    gone = {a.var: zero for a in reduction.axes[:-1] if a.is_unit and a not in bordered}
    return replace(
        reduction,
        axes=tuple(a for a in reduction.axes if a.var not in gone),
        term=substituted(reduction.term, gone),
        epilogue=substituted(reduction.epilogue, gone),
        indices=tuple(substituted(index, gone) for index in reduction.indices),
    )


def _with_merged_axes(reduction: Reduction, kernel: Kernel) -> Reduction:
    """Neighbouring axes that every access runs through together become one."""
    bordered = [border.axis for border in reduction.borders if border.axis is not None]
    target = reduction.target[tuple(reduction.indices)]
    merged = merge_axes(
        reduction.axes,
        (reduction.term, reduction.epilogue, target),
        kernel.index_type,
        keep=(*bordered, *reduction.axes[-1:]),
    )
    term, epilogue, written = merged.expressions
    assert isinstance(written, BUFFER_LOAD)
    return replace(
        reduction,
        axes=merged.axes,
        term=term,
        epilogue=epilogue,
        target=written.source,
        indices=tuple(written.indices),
        views=(*reduction.views, *merged.views),
    )
