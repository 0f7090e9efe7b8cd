"""Formulas as tensor expressions: a Formula in, a function over ``te`` tensors out.

Takes every formula in which a position on a left-hand side determines its indices
(``lower/index_maps.py``), and no statement reads what it writes. Such a formula says what an
element is, in any order, so it can be scheduled. The others, and those whose values would be too
large without names for their parts, are refused here and become ordered loops
(``lower/ordered.py``). Does not touch Relax.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tvm import te, tirx

from tvm_nnef.arrays.coded_arrays import limits
from tvm_nnef.exact.functions import BINARY, cast, guarded, select
from tvm_nnef.exact.integers import sealed
from tvm_nnef.exact.narrow_results import holds_constants, not_constant
from tvm_nnef.exact.unsigned import UNSIGNED, binary, signed, unsigned
from tvm_nnef.exact.wrapping import opaque_elements
from tvm_nnef.graph.formula import (
    Constant,
    Formula,
    Scalar,
    Statement,
    Store,
    StoreOperator,
    loads,
)
from tvm_nnef.graph.intervals import above
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.held_indices import held_indices
from tvm_nnef.lower.index_maps import Position, extents, is_single, position_of
from tvm_nnef.lower.integer_widths import ComputeTypes
from tvm_nnef.lower.named_locals import named_locals
from tvm_nnef.lower.padding import Padding, padded
from tvm_nnef.lower.scalars import Emitter
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tir.literals import INDEX_TYPE, literal
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

TeTensor: TypeAlias = Any

Stage: TypeAlias = "TeTensor | Constant"
"""A tensor as computed so far: a ``te`` tensor, or one value for all of its elements."""

COMBINE: Mapping[StoreOperator, str] = {
    "+=": "add",
    "*=": "mul",
    "&=": "and",
    "|=": "or",
    "min=": "min",
    "max=": "max",
}
"""The function by which an update combines the old value with the new one."""

NULL_ELEMENT: Mapping[StoreOperator, float] = {
    "+=": 0,
    "*=": 1,
    "&=": 1,
    "|=": 0,
    "min=": math.inf,
    "max=": -math.inf,
}
"""Neutral elements of updates."""


_MOST_STATEMENTS = 1 << 7
"""Each statement is a stage that looks through those before it: more are built in minutes."""


@dataclass(frozen=True, slots=True)
class FormulaTypes:
    """Dtypes of the tensors of a formula, its compute types, and its large lookups.

    ``is_finite`` says whether the elements of a tensor are known to be finite numbers; ``bounds``
    has the largest value of each symbol; ``checked`` is that of :class:`Emitter`. Results of few
    bits are ``declared`` as such, and stored as what is packed later.
    """

    stored: Mapping[Tensor, str]
    computed: ComputeTypes
    tables: Mapping[tuple[Scalar, ...], Tensor]
    is_finite: Callable[[Tensor], bool]
    bounds: Mapping[str, int] = field(default_factory=dict)
    checked: bool = False
    declared: Mapping[Tensor, str] = field(default_factory=dict)

    def computes_natively(self, tensors: Iterable[Tensor]) -> bool:
        """Whether reals of these tensors are computed in the dtype in which they are stored."""
        dtype = self.computed["real"]
        return "float" in dtype and all(self.stored[tensor] == dtype for tensor in tensors)

    def fill(self, tensor: Tensor, value: Constant) -> Constant:
        """The first value of a result; an infinite int is the extreme of the stored type."""
        if tensor.type == "int" and isinstance(value.value, float) and math.isinf(value.value):
            least, most = limits(self.declared.get(tensor, self.stored[tensor]))
            extreme = most if value.value > 0 else least
            # as it is computed with: of 64 bits with a sign
            return Constant("int", extreme - 2**64 if extreme >= 2**63 else extreme)
        return value

    def is_unsigned(self, tensor: Tensor) -> bool:
        """Whether the elements are ints of 64 bits without a sign."""
        return self.stored.get(tensor) == UNSIGNED

    def combination(
        self, operator: StoreOperator, tensor: Tensor
    ) -> Callable[[PrimExpression, PrimExpression], PrimExpression]:
        """Return the function that combines a new value with the old one, in compute types."""
        function = COMBINE[operator]
        if not self.is_unsigned(tensor):
            return BINARY[function]
        return lambda old, new: signed(binary(function, unsigned(old), new))


def is_plain(formula: Formula, *, checked: bool = False) -> bool:
    """Whether the formula can be lowered here, and built in reasonable time."""
    return len(formula.statements) <= _MOST_STATEMENTS and all(
        _is_plain(statement, checked) for statement in formula.statements
    )


def tensor_expressions(
    formula: Formula, operands: Sequence[Tensor], types: FormulaTypes, name: str
) -> Callable[..., list[TeTensor]]:
    """A function from the ``te`` tensors of ``operands`` to those of the formula's results."""

    def function(*arguments: TeTensor) -> list[TeTensor]:
        values: dict[Tensor, Stage] = dict(zip(operands, arguments, strict=True))
        for fill in formula.fills:
            values[fill.tensor] = types.fill(fill.tensor, fill.value)
        for statement in formula.statements:
            values.update(_after(statement, values, types, name))
        return [_stored(fill.tensor, values[fill.tensor], types, name) for fill in formula.fills]

    return function


def _is_plain(statement: Statement, checked: bool) -> bool:
    written = {store.tensor for store in statement.stores}
    if extents(statement) is None or len(written) < len(statement.stores):
        return False
    if any(load.tensor in written for load in loads(statement)):
        return False
    if held_indices(statement, checked=checked):
        return False
    if any(named_locals(statement, store.value) for store in statement.stores):
        return False
    return all(_is_plain_store(store, statement) for store in statement.stores)


def _is_plain_store(store: Store, statement: Statement) -> bool:
    if any(subscript.below is not None for subscript in store.subscripts):
        return False
    positions = _positions(store, statement)
    if any(each is None for each in positions):
        return False
    used = [term.index for each in positions if each for term in each.terms]
    once = len(set(used)) == len(used)
    return once and (store.operator != "=" or not _reduced(store, statement))


def _positions(store: Store, statement: Statement) -> list[Position | None]:
    return [position_of(subscript.index, statement) for subscript in store.subscripts]


def _reduced(store: Store, statement: Statement) -> dict[str, Dimension]:
    """The loops that the position of a plain store does not determine, with their extents."""
    used = {term.index for each in _positions(store, statement) if each for term in each.terms}
    ranges = extents(statement) or {}
    return {name: size for name, size in ranges.items() if not is_single(size) and name not in used}


def _after(
    statement: Statement, before: Mapping[Tensor, Stage], types: FormulaTypes, name: str
) -> dict[Tensor, Stage]:
    """The tensors that a statement writes, as they are after it."""
    ranges = extents(statement) or {}
    if any(dimensions.compare("le", size, 0) is True for size in ranges.values()):
        return {}
    after: dict[Tensor, Stage] = {}
    for store in statement.stores:
        reduced = _reduced(store, statement)
        step = _Step(statement, store, before, types, name)
        after[store.tensor] = _reduction(step, reduced) if reduced else _assignment(step)
    return after


@dataclass(frozen=True, slots=True)
class _Step:
    """One store of a statement, and what its stages need."""

    statement: Statement
    store: Store
    before: Mapping[Tensor, Stage]
    types: FormulaTypes
    name: str

    @property
    def dtype(self) -> str:
        """The dtype in which the result is held until its one narrowing."""
        tensor = self.store.tensor
        ordered = self.store.operator in ("min=", "max=")
        unsigned = ordered and self.types.is_unsigned(tensor)
        return UNSIGNED if unsigned else self.types.computed[tensor.type]

    def old(self, axes: Sequence[PrimExpression]) -> PrimExpression:
        """The element of the result before the statement."""
        tensor = self.store.tensor
        computed = self.types.computed[tensor.type]
        return self.held(_element(self.before[tensor], axes, computed))

    def held(self, value: PrimExpression) -> PrimExpression:
        """A value as the result is held."""
        return unsigned(value) if self.dtype == UNSIGNED else cast(signed(value), self.dtype)

    def emitter(
        self, axes: Sequence[PrimExpression], reduced: Mapping[str, PrimExpression]
    ) -> tuple[Emitter, list[PrimExpression]]:
        """Return the translator of scalars of the statement at an element of its result.

        And the condition, if there is one, that the statement writes this element.
        """
        indices = {loop.index.name: tirx.const(0, INDEX_TYPE) for loop in self.statement.loops}
        tests: list[PrimExpression] = []
        written = _positions(self.store, self.statement)
        for where, axis, size in zip(written, axes, self.store.tensor.shape, strict=True):
            assert where is not None
            found, needed = _turned_around(where, axis, size)
            indices |= found
            tests += needed
        computed = self.types.computed

        def read(tensor: Tensor, positions: Sequence[PrimExpression]) -> PrimExpression:
            value = _element(self.before[tensor], positions, computed[tensor.type])
            return unsigned(value) if self.types.is_unsigned(tensor) else value

        tables = self.types.tables
        loops = {**indices, **reduced}
        bounds, checked = self.types.bounds, self.types.checked
        emitter = Emitter(
            computed, self.statement, loops, read, tables, bounds=bounds, checked=checked
        )
        return emitter, [tirx.all(*tests)] if tests else []


def _turned_around(
    where: Position, axis: PrimExpression, size: Dimension
) -> tuple[dict[str, PrimExpression], list[PrimExpression]]:
    """The indices that write a position of a dimension, and the tests that some do."""
    indices: dict[str, PrimExpression] = {}
    tests = [axis >= where.offset] if not above(dimensions.sub(0, where.offset)) else []
    rest, largest = axis - where.offset, dimensions.sub(dimensions.sub(size, 1), where.offset)
    step: Dimension = 0
    for term in where.terms:
        step = term.coefficient
        # Nothing is written if the coefficient is 0 at run time, but the quotient must not trap.
        divisor = step if dimensions.is_static(step) else tirx.max(step, _wide(1))
        index = tirx.floordiv(rest, divisor)
        indices[term.index] = index
        if dimensions.compare("ge", dimensions.floordiv(largest, step), term.extent) is not False:
            tests.append(index < term.extent)
        rest, largest = tirx.floormod(rest, divisor), dimensions.sub(step, 1)
    if not dimensions.equal(step, 1) and dimensions.compare("le", largest, 0) is not True:
        tests.append(tirx.EQ(rest, _wide(0)))
    return indices, tests


def _assignment(step: _Step) -> TeTensor:
    """The stage of a statement without reduction."""

    def element(*axes: PrimExpression) -> PrimExpression:
        emitter, positions = step.emitter(axes, {})
        new = step.held(emitter.value(step.store.value))
        if step.store.operator != "=":
            new = binary(COMBINE[step.store.operator], step.old(axes), new)
        return guarded([*positions, *emitter.conditions()], new, step.old(axes))

    return _computed(step.store.tensor, element, step.name)


def _reduction(step: _Step, reduced: Mapping[str, Dimension]) -> TeTensor:
    """The stages of a statement with a reduction: the total, and its union with what was there."""
    operator, shape = step.store.operator, _wide_shape(step.store.tensor)
    null = literal(NULL_ELEMENT[operator], step.dtype)
    combine = functools.partial(binary, COMBINE[operator])
    reducer = te.comm_reducer(lambda x, y: combine(x, y), lambda _: null, name=COMBINE[operator])
    guards = None
    padding = _padding(step)
    if padding is not None:
        guards = None if padding.exact else step
        step = _with_padding(step, padding)

    def element(*axes: PrimExpression) -> PrimExpression:
        loops = {
            name: te.reduce_axis((_wide(0), _wide(size)), name) for name, size in reduced.items()
        }
        variables = {name: loop.var for name, loop in loops.items()}
        emitter, positions = step.emitter(axes, variables)
        value = step.held(emitter.value(step.store.value))
        if guards is not None:
            inside = guards.emitter(axes, variables)[0].conditions()
            value = select(tirx.all(*inside), value, null) if inside else value
        value = opaque_elements(guarded([*positions, *emitter.conditions()], value, null))
        return reducer(value, axis=list(loops.values()))

    total = te.compute(shape, element, name=f"{step.name}_{COMBINE[operator]}")
    old = step.before[step.store.tensor]
    if isinstance(old, Constant) and old.value == NULL_ELEMENT[operator]:
        return total
    return te.compute(shape, lambda *axes: combine(step.old(axes), total(*axes)), name=step.name)


def _padding(step: _Step) -> Padding | None:
    """A padded copy for the guarded load of a step, where that is possible.

    A test of the guard inside the innermost loop would keep that loop from being vectorised.
    """
    if len(step.statement.stores) > 1:
        return None
    null = NULL_ELEMENT[step.store.operator]
    padding = padded(step.statement, null, step.types.is_finite, step.types.bounds)
    if padding is None or isinstance(step.before[padding.source], Constant):
        return None
    return padding


def _with_padding(step: _Step, padding: Padding) -> _Step:
    """The same step with its guarded load read from a padded copy."""
    copy = _padded_copy(padding, step.before[padding.source], f"{step.name}_pad")
    (store,) = padding.statement.stores
    before = {**step.before, padding.copy: copy}
    return replace(step, statement=padding.statement, store=store, before=before)


def _padded_copy(padding: Padding, source: TeTensor, name: str) -> TeTensor:
    def element(*axes: PrimExpression) -> PrimExpression:
        positions = [axis - lead for axis, lead in zip(axes, padding.leads, strict=True)]
        tests = []
        for position, lead, size, total in zip(
            positions, padding.leads, padding.source.shape, padding.copy.shape, strict=True
        ):
            tests += [position >= 0] if not dimensions.equal(lead, 0) else []
            inside = dimensions.equal(total, dimensions.add(lead, size))
            tests += [] if inside else [position < size]
        value = source(*positions)
        return guarded(tests, value, literal(padding.value, dtype_of(value)))

    return te.compute(_wide_shape(padding.copy), element, name=name)


def _computed(tensor: Tensor, element: Callable[..., PrimExpression], name: str) -> TeTensor:
    """The stage of a tensor, of whose elements TVM simplifies the indices only."""
    shape = _wide_shape(tensor)
    return te.compute(shape, lambda *axes: opaque_elements(element(*axes)), name=name)


def _wide(size: Dimension) -> PrimExpression:
    return literal(size, INDEX_TYPE)


def _wide_shape(tensor: Tensor) -> list[PrimExpression]:
    """The shape of a tensor in the type of indices, which its loops then have too."""
    return [_wide(size) for size in tensor.shape]


def _element(stage: Stage, positions: Sequence[PrimExpression], dtype: str) -> PrimExpression:
    return literal(stage.value, dtype) if isinstance(stage, Constant) else stage(*positions)


def _stored(tensor: Tensor, stage: Stage, types: FormulaTypes, name: str) -> TeTensor:
    """The result in its dtype: the one narrowing of law 11."""
    dtype = types.stored[tensor]
    if not isinstance(stage, Constant) and str(stage.dtype) == dtype:
        return stage
    computed = types.computed[tensor.type]
    held = isinstance(stage, Constant) or holds_constants(stage, dtype)

    def element(*axes: PrimExpression) -> PrimExpression:
        value = _element(stage, axes, computed)
        # Where stages are joined, TVM converts the terms of a sum, which a dtype may not hold.
        value = sealed(value) if dtype_of(value) == INDEX_TYPE else value
        value = value if held else not_constant(value, dtype)
        return unsigned(value) if dtype == UNSIGNED else cast(value, dtype)

    return _computed(tensor, element, name)
