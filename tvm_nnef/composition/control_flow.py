"""Branches and loops (section 2.10.1): conditions known during composition decide, others become
nodes.

A branch on a compile-time condition is replaced by the arm that it selects. A loop with ``unroll``,
or one over packs of tensors of different shapes, is replaced by its steps. Other branches and loops
are composed once, by :mod:`tvm_nnef.composition.subgraphs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from tvm_nnef.composition import declarations, value_hints
from tvm_nnef.composition.budget import OPERATION
from tvm_nnef.composition.data_dependent_shapes import declared_shape
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.subgraphs import (
    LoopPlan,
    branch_on,
    carried_first,
    check_single,
    run_loop,
    same_kinds,
)
from tvm_nnef.composition.values import Value, describe, is_tensors, scalar, type_of
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.graph import formula
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.semantics import hints
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Condition, Dimension, is_condition, is_symbolic
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.frame import Frame
    from tvm_nnef.composition.invoker import Invoker


def branch(
    composer: Invoker, node: nodes.Branch, frame: Frame, targets: Sequence[nodes.Target]
) -> tuple[Value, ...]:
    """Return the values of the first arm whose condition holds; null counts as false."""
    for position, arm in enumerate(node.arms):
        (condition,) = composer.value(arm.condition, frame, ())
        holds: Condition = True
        if is_condition(condition):
            holds = condition
            condition = composer.as_tensors(condition, frame, arm.condition.span)
        if isinstance(condition, Tensor):
            rest = node.arms[position + 1 :]
            otherwise = nodes.Branch(rest, node.alternative, span=node.span)
            bodies = (arm.consequent, otherwise if rest else node.alternative)
            return branch_on(composer, condition, holds, bodies, frame, targets, arm.condition.span)
        if condition is not None and not isinstance(condition, bool):
            message = f"a condition must be of type bool, found {describe(condition)}"
            raise error(message, arm.condition.span, hint=value_hints.condition(condition))
        if condition:
            return composer.value(arm.consequent, frame, targets)
    return composer.value(node.alternative, frame, targets)


def loop(
    composer: Invoker, node: nodes.Loop, frame: Frame, targets: Sequence[nodes.Target]
) -> tuple[Value, ...]:
    """Return the final values of the carried tensors, then a pack for each scan output."""
    scans = {scan.name.name: _scanned(scan, frame) for scan in node.scans}
    carried = {item.name.name: _carried(composer, item, frame) for item in node.carried}
    limit = _limit(composer, node, frame, scans)
    steps = limit if isinstance(limit, int) and node.condition is None else None
    stacked = any(isinstance(items, Tensor) for items in scans.values())
    plain = all(isinstance(items, Tensor) or same_kinds(items) for items in scans.values())
    if limit == 0 and not stacked:
        return _unrolled(composer, node, 0, carried, scans, frame, targets)  # type: ignore[arg-type]
    if not node.unroll and plain:
        plan = LoopPlan(limit, steps, _most(node, limit, scans, frame), carried, scans)  # type: ignore[arg-type]
        return run_loop(composer, node, plan, frame, targets)
    if steps is None or stacked:
        raise _not_plain(node)
    return _unrolled(composer, node, steps, carried, scans, frame, targets)  # type: ignore[arg-type]


Scanned: TypeAlias = "tuple[Value, ...] | Tensor"
"""A pack that a loop iterates over, or its items stacked to a tensor."""


def _length(items: Scanned) -> Dimension:
    return items.shape[0] if isinstance(items, Tensor) else len(items)


def _most(
    node: nodes.Loop, limit: Tensor | int | None, scans: Mapping[str, Scanned], frame: Frame
) -> Dimension | None:
    """Return an upper bound of the number of steps; None if there is none."""
    if isinstance(limit, int):
        return limit
    lengths = [_length(items) for items in scans.values()]
    if node.iteration is not None and node.iteration.count is not None:
        value = known(node.iteration.count, frame.env)
        if is_symbolic(value):
            lengths.append(value)
    bounds = map(frame.env.symbols.room, lengths)
    return reduce(dimensions.minimum, bounds) if lengths else None


def _not_plain(node: nodes.Loop) -> NnefError:
    if node.unroll:
        hint = "write 'do' instead of 'unroll'"
        return error("only a loop of known length can be unrolled", node.span, hint=hint)
    message = "a loop of data-dependent length scans packs of tensors of one shape"
    hint = "bring the items to one shape, as by layout.pad, or give the loop a fixed count"
    return error(message, node.span, hint=hint)


def _unrolled(
    composer: Invoker,
    node: nodes.Loop,
    steps: int,
    carried: Mapping[str, Value],
    scans: Mapping[str, tuple[Value, ...]],
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> tuple[Value, ...]:
    scope = f"{frame.scope}.{composer.label(targets) or '.loop'}"
    own_variables = len(frame.variables)
    outputs: list[tuple[Value, ...]] = []
    for step in range(steps):
        composer.budget.spend("operations", OPERATION, node.span)
        inner = frame.inner(f"{scope}:{step + 1}")
        inner.transparent = True
        inner.declare(carried)
        inner.declare({name: items[step] for name, items in scans.items()})
        if node.iteration and node.iteration.index:
            name = node.iteration.index.name
            # The index is a number in unrolled loops, else a tensor of rank 0.
            index = step if node.unroll else composer.constant(inner, name, step, "int", ())
            inner.declare({name: index})
        values = composer.value(node.body, inner, ())
        if len(values) < len(carried):
            message = f"the loop body gives {len(values)} results, {len(carried)} are carried"
            raise error(message, node.body.span, hint=carried_first(carried))
        carried = dict(zip(carried, values, strict=False))
        outputs.append(values[len(carried) :])
    if len(frame.variables) > own_variables and not node.unroll:
        message = "variables inside a loop over tensors of different shapes are not supported"
        raise error(message, node.body.span, hint="write 'unroll' instead of 'do'")
    columns = len(outputs[0]) if outputs else len(targets) - len(carried)
    packs = (tuple(row[column] for row in outputs) for column in range(columns))
    return (*carried.values(), *packs)


def _scanned(scan: nodes.Scan, frame: Frame) -> Scanned:
    value = known(scan.value, frame.env)
    if isinstance(value, Tensor) and value in frame.env.symbols.stacked:
        return value
    if not isinstance(value, tuple):
        message = f"a loop scans packs, found {describe(value)}"
        raise error(message, scan.value.span, hint=value_hints.pack(value))
    return value


def _common_length(
    node: nodes.Loop, frame: Frame, scans: Mapping[str, Scanned]
) -> Dimension | None:
    """Return the length of the packs that a loop iterates over; a number if one of them is
    static.
    """
    lengths = sorted(map(_length, scans.values()), key=is_symbolic)
    for other in lengths[1:]:
        message = ["scanned packs of different lengths [", lengths[0], ", ", other, "]"]
        same = dimensions.compare("eq", lengths[0], other)
        frame.env.symbols.require(same, message, node.span, hint=hints.LENGTHS)
    return lengths[0] if lengths else None


def _limit(
    composer: Invoker, node: nodes.Loop, frame: Frame, scans: Mapping[str, Scanned]
) -> Tensor | int | None:
    """Return the number of steps: a number, a tensor that holds it, or None if only a condition on
    data ends the loop.
    """
    length = _common_length(node, frame, scans)
    limit = _count(composer, node, frame, length)
    if not is_symbolic(length):
        return limit
    if isinstance(limit, Tensor):
        least = formula.Binary("min", formula.Load(limit, ()), scalar(length))
        return composer.as_tensors(least, frame, node.span)  # type: ignore[return-value]
    if isinstance(limit, int):
        message = [f"{limit} iterations over packs of length ", length]
        within = dimensions.compare("le", limit, length)
        hint = f"scan packs of {limit} items or more, or write a smaller count"
        frame.env.symbols.require(within, message, node.span, hint=hint)
        return limit
    return composer.as_tensors(length, frame, node.span)  # type: ignore[return-value]


def _count(
    composer: Invoker, node: nodes.Loop, frame: Frame, length: Dimension | None
) -> Tensor | int | None:
    """Return the number of steps if it follows from the count and the ``length`` of the packs."""
    if node.iteration is None or node.iteration.count is None:
        if length is None and node.condition is None:
            message = "the loop has neither a count nor a condition"
            raise error(message, node.span, hint=hints.LOOP)
        return None if is_symbolic(length) else length
    span = node.iteration.count.span
    value = known(node.iteration.count, frame.env)
    if is_tensors(value):
        check_single(value, "int", "a loop count", span)
        if value.shape:  # type: ignore[union-attr]
            raise error("a loop count has rank 0", span, hint="squeeze it with layout.squeeze")
        return value  # type: ignore[return-value]
    if value is None and (length is not None or node.condition is not None):
        return None if is_symbolic(length) else length
    if is_symbolic(value):
        return composer.as_tensors(value, frame, span)  # type: ignore[return-value]
    number = count(value, "an iteration count", span)
    if isinstance(length, int) and number > length:
        hint = f"write a count of at most {length}, or scan longer packs"
        raise error(f"{number} iterations over packs of length {length}", span, hint=hint)
    return number


def _carried(composer: Invoker, item: nodes.Carried, frame: Frame) -> Value:
    value = known(item.value, frame.env)
    if item.shape is None or is_tensors(value):
        operand = composer.as_tensors(value, frame, item.span, item.name.name)
        target = nodes.NameTarget(item.name, item.type, item.shape, span=item.span)
        declarations.check_target(target, operand, frame.env)
        return operand
    if isinstance(value, tuple) or value is None:
        hint = f"start from a tensor, or from one number, as in '{item.name.name}: real[3] = 0.0'"
        message = f"a carried tensor starts from a number, found {describe(value)}"
        raise error(message, item.span, hint=hint)
    shape = declared_shape(item.shape, frame.env, item.name.name)
    constant = composer.constant(frame, item.name.name, value, type_of(value), shape, item.span)
    target = nodes.NameTarget(item.name, item.type, item.shape, span=item.span)
    declarations.check_target(target, constant, frame.env)
    return constant
