"""Formulas as ordered loops: a Formula in, a PrimFunc out that does literally what it says.

Takes every formula: computed left-hand sides, conditions that read the output, packed steps. The
loops run one after another in the order in which they are written, so the result is right
everywhere; schedules run those in parallel that do not depend on each other
(``schedules/cpu/sequential.py``). Does not touch Relax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tvm import tirx

from tvm_nnef.exact.functions import cast
from tvm_nnef.exact.unsigned import signed, unsigned
from tvm_nnef.graph.formula import Fill, Formula, Statement, Store, loads
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.formula import FormulaTypes
from tvm_nnef.lower.held_indices import FAR_OUTSIDE, HeldIndex, held_indices
from tvm_nnef.lower.index_maps import writes_each_element_once
from tvm_nnef.lower.named_locals import named_locals
from tvm_nnef.lower.scalars import Emitter
from tvm_nnef.lower.symbols import Symbol
from tvm_nnef.symbolic import dimensions
from tvm_nnef.tir.literals import INDEX_TYPE, literal
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, opaque_function

Buffer: TypeAlias = Any
TirStatement: TypeAlias = Any

_LARGEST = 1 << 9
"""Expressions of so many nodes have no names in them: larger ones compute no faster, and are built
in seconds."""


def ordered_function(
    formula: Formula,
    operands: Sequence[Tensor],
    types: FormulaTypes,
    name: str,
    scalars: Sequence[Symbol] = (),
    *,
    filled: bool = True,
) -> PrimFunction:
    """A PrimFunc from the buffers of ``operands``, and ``scalars``, to those of the results.

    Unless ``filled``, the results have their first values before.
    """
    results = [fill.tensor for fill in formula.fills]
    stored = [
        compat.buffer(tensor.shape, types.stored[tensor], f"{role}{number}")
        for role, tensors in (("operand", operands), ("result", results))
        for number, tensor in enumerate(tensors)
    ]
    buffers: dict[Tensor, Buffer] = dict(zip([*operands, *results], stored, strict=True))
    working = {tensor: _working(tensor, buffers[tensor], types) for tensor in results}
    inside = {**buffers, **working}
    fills = {fill.tensor: _fill(fill, types) for fill in formula.fills}
    first = formula.statements[0] if formula.statements else None
    covered = _covered(first) if filled else None
    body = [_filled(tensor, value, inside[tensor]) for tensor, value in fills.items()
            if filled and tensor is not covered]  # fmt: skip
    for statement in formula.statements:
        instead = fills[covered] if statement is first and covered is not None else None
        body.append(_nest(statement, inside, types, instead))
    narrowed = [tensor for tensor in results if working[tensor] is not buffers[tensor]]
    body += [_copied(tensor, working[tensor], buffers[tensor]) for tensor in narrowed]
    written = stored[len(operands) :]
    allocated = [working[tensor] for tensor in narrowed]
    parameters = [*stored[: len(operands)], *scalars, *written]
    return opaque_function(name, parameters, written, allocated, tirx.stmt_seq(*body))


def _working(tensor: Tensor, stored: Buffer, types: FormulaTypes) -> Buffer:
    """The buffer that holds a result until its one narrowing (law 11)."""
    dtype = types.computed[tensor.type]
    if dtype == types.stored[tensor]:
        return stored
    return compat.buffer(tensor.shape, dtype, "working")


def _fill(fill: Fill, types: FormulaTypes) -> PrimExpression:
    number = types.fill(fill.tensor, fill.value).value
    return literal(number, types.computed[fill.tensor.type])


def _covered(statement: Statement | None) -> Tensor | None:
    """The tensor of which a statement writes all elements, where conditions hold."""
    if statement is None or len(statement.stores) > 1:
        return None
    (store,) = statement.stores
    if store.operator != "=" or any(load.tensor is store.tensor for load in loads(statement)):
        return None
    return store.tensor if writes_each_element_once(store, statement) else None


def _filled(tensor: Tensor, value: PrimExpression, buffer: Buffer) -> TirStatement:
    return _elementwise(tensor, lambda axes: tirx.BufferStore(buffer, value, axes))


def _copied(tensor: Tensor, source: Buffer, target: Buffer) -> TirStatement:
    def step(axes: Sequence[PrimExpression]) -> TirStatement:
        value = cast(tirx.BufferLoad(source, axes), str(target.dtype))
        return tirx.BufferStore(target, value, axes)

    return _elementwise(tensor, step)


def _elementwise(tensor: Tensor, step: Any) -> TirStatement:
    axes = [tirx.Var(f"i{number}", INDEX_TYPE) for number in range(tensor.rank)]
    return _loops(list(zip(axes, tensor.shape, strict=True)), step(axes))


def _loops(loops: Sequence[tuple[Any, Any]], body: TirStatement) -> TirStatement:
    for variable, extent in reversed(loops):
        bound = tirx.const(extent, INDEX_TYPE) if isinstance(extent, int) else extent
        zero = tirx.const(0, INDEX_TYPE)
        body = tirx.For(variable, zero, bound, tirx.ForKind.SERIAL, body)
    return body


def _nest(
    statement: Statement,
    buffers: Mapping[Tensor, Buffer],
    types: FormulaTypes,
    instead: PrimExpression | None,
) -> TirStatement:
    """The loops of a statement, whose only store gets ``instead`` where conditions do not hold."""
    indices = {loop.index.name: tirx.Var(loop.index.name, INDEX_TYPE) for loop in statement.loops}

    def read(tensor: Tensor, positions: Sequence[PrimExpression]) -> PrimExpression:
        value = tirx.BufferLoad(buffers[tensor], list(positions))
        return unsigned(value) if types.is_unsigned(tensor) else value

    bounds, checked = types.bounds, types.checked
    emitter = Emitter(
        types.computed, statement, indices, read, types.tables, bounds=bounds, checked=checked
    )
    bindings: list[TirStatement] = []
    emitter = _with_held_indices(statement, emitter, bindings)
    body = _step(statement, emitter, buffers, types)
    other = None
    if instead is not None:
        (store,) = statement.stores
        targets = [emitter.position(part.index) for part in store.subscripts]
        other = tirx.BufferStore(buffers[store.tensor], instead, targets)
    for condition in reversed(emitter.conditions()):
        body = tirx.IfThenElse(condition, body, other)
    body = tirx.stmt_seq(*bindings, body)
    loops = [(indices[loop.index.name], emitter.position(loop.extent)) for loop in statement.loops]
    return _loops(loops, body)


def _with_held_indices(
    statement: Statement, emitter: Emitter, bindings: list[TirStatement]
) -> Emitter:
    """The emitter that takes indices of nested loads from memory, where the ``bindings`` put them.

    They are computed before any guard is tested, so what they read is limited to what is there.
    Whether it was is held, too, in a checked module, where it is tested if the index is used.
    """
    first = replace(emitter, clamped=True)
    for number, index in enumerate(held_indices(statement, checked=emitter.checked)):
        buffer = _buffer_of(bindings, first.position(index), f"index{number}")
        zero, outside = tirx.const(0, INDEX_TYPE), tirx.const(FAR_OUTSIDE, INDEX_TYPE)
        value = tirx.BufferLoad(buffer, [zero])
        found = HeldIndex(value, value)
        valid = first.valid(index) if emitter.checked else None
        if valid is not None:
            known = _held(bindings, valid, f"valid{number}")
            position = tirx.if_then_else(known, zero, outside)
            found = HeldIndex(value, tirx.BufferLoad(buffer, [position]), known)
        first = replace(first, held={**first.held, index: found})
    return replace(emitter, held=first.held)


def _step(
    statement: Statement,
    emitter: Emitter,
    buffers: Mapping[Tensor, Buffer],
    types: FormulaTypes,
) -> TirStatement:
    """All stores of one step: every value and position is computed before the first is written."""
    bindings: list[TirStatement] = []
    writes: list[TirStatement] = []
    for number, store in enumerate(statement.stores):
        if dimensions.is_empty(store.tensor.shape):
            continue
        positions = [
            emitter.subscript(part, size)
            for part, size in zip(store.subscripts, store.tensor.shape, strict=True)
        ]
        tests = emitter.in_bounds(store)
        for local in named_locals(statement, store.value, _LARGEST):
            if local.name not in emitter.names:
                name = _held(bindings, emitter.exact(local.value), local.name)
                emitter = replace(emitter, names={**emitter.names, local.name: name})
        value = _new_value(store, emitter, buffers[store.tensor], positions, types)
        if len(statement.stores) > 1:
            positions = [
                _bound(bindings, p, f"position{number}_{d}") for d, p in enumerate(positions)
            ]
            value = _bound(bindings, value, f"value{number}")
            tests = [_bound(bindings, test, f"inside{number}") for test in tests]
        write = tirx.BufferStore(buffers[store.tensor], value, positions)
        writes.append(tirx.IfThenElse(tests[0], write, None) if tests else write)
    return tirx.stmt_seq(*bindings, *writes)


def _new_value(
    store: Store,
    emitter: Emitter,
    buffer: Buffer,
    positions: Sequence[PrimExpression],
    types: FormulaTypes,
) -> PrimExpression:
    value = cast(signed(emitter.value(store.value)), types.computed[store.tensor.type])
    if store.operator == "=":
        return value
    combined = types.combination(store.operator, store.tensor)
    return combined(tirx.BufferLoad(buffer, list(positions)), value)


def _bound(bindings: list[TirStatement], value: PrimExpression, name: str) -> PrimExpression:
    variable = tirx.Var(name, dtype_of(value))
    bindings.append(tirx.Bind(variable, value))
    return variable


def _held(bindings: list[TirStatement], value: PrimExpression, name: str) -> PrimExpression:
    """A value in memory: where TVM meets the name of a value, it writes out what that means."""
    return tirx.BufferLoad(_buffer_of(bindings, value, name), [tirx.const(0, "int32")])


def _buffer_of(bindings: list[TirStatement], value: PrimExpression, name: str) -> Buffer:
    """A new buffer of one element, which the ``bindings`` fill with a value."""
    held = tirx.decl_buffer((1,), dtype_of(value), name, scope="local")
    stored = tirx.BufferStore(held, value, [tirx.const(0, "int32")])
    bindings += [tirx.AllocBuffer(held), stored]
    return held
