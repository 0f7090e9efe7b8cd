"""Branches and loops that are decided while a graph is composed (section 2.10.1).

A branch on a compile-time condition is its chosen arm, a loop of known length its steps one after
the other. What data decide is refused for now, with the place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvm_nnef.composition import declarations
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.values import Value, describe, is_tensors, show, type_of
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.composer import Composer, Frame


def branch(
    composer: Composer, node: nodes.Branch, frame: Frame, targets: Sequence[nodes.Target]
) -> tuple[Value, ...]:
    """The values of the arm whose condition holds first; null counts as false."""
    for arm in node.arms:
        (condition,) = composer.value(arm.condition, frame, ())
        if is_tensors(condition):
            message = "branching on a tensor is not supported yet"
            hint = "math.select chooses between tensors element by element"
            raise error(message, arm.condition.span, hint=hint)
        if condition is not None and not isinstance(condition, bool):
            message = f"a condition must be of type bool, found {describe(condition)}"
            raise error(message, arm.condition.span)
        if condition:
            return composer.value(arm.consequent, frame, targets)
    return composer.value(node.alternative, frame, targets)


def loop(
    composer: Composer, node: nodes.Loop, frame: Frame, targets: Sequence[nodes.Target]
) -> tuple[Value, ...]:
    """The final values of the carried tensors, then a pack for each scan output."""
    if node.condition is not None:
        raise error("loops with a condition are not supported yet", node.condition.span)
    scans = {scan.name.name: _scanned(scan, frame) for scan in node.scans}
    carried = {item.name.name: _carried(composer, item, frame) for item in node.carried}
    scope = f"{frame.scope}.{composer.label(targets) or '.loop'}"
    own_variables = len(frame.variables)
    outputs: list[tuple[Value, ...]] = []
    for step in range(_iterations(node, frame, scans)):
        composer.count_step(node.span)
        inner = frame.inner(f"{scope}:{step + 1}")
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
            raise error(message, node.body.span)
        if not node.unroll:
            _check_carried(node, carried, values)
        carried = dict(zip(carried, values, strict=False))
        outputs.append(values[len(carried) :])
    if len(frame.variables) > own_variables and not node.unroll:
        message = "variables inside a loop that is not unrolled are not supported yet"
        raise error(message, node.body.span, hint="write 'unroll' in place of 'do'")
    columns = len(outputs[0]) if outputs else len(targets) - len(carried)
    packs = (tuple(row[column] for row in outputs) for column in range(columns))
    return (*carried.values(), *packs)


def _check_carried(node: nodes.Loop, carried: Mapping[str, Value], values: Sequence[Value]) -> None:
    """A carried tensor keeps its type and shape, since a loop updates it in place."""
    for (name, before), after in zip(carried.items(), values, strict=False):
        if isinstance(before, Tensor) and isinstance(after, Tensor):
            kinds = [f"{each.type}{show(each.shape)}" for each in (before, after)]
            if kinds[0] != kinds[1]:
                message = f"'{name}' is carried as {kinds[0]}, but the loop body gives {kinds[1]}"
                hint = "only a loop with 'unroll' may change it"
                raise error(message, node.body.span, hint=hint)


def _scanned(scan: nodes.Scan, frame: Frame) -> tuple[Value, ...]:
    value = known(scan.value, frame.env)
    if not isinstance(value, tuple):
        raise error(f"a loop scans packs, found {describe(value)}", scan.value.span)
    return value


def _iterations(node: nodes.Loop, frame: Frame, scans: Mapping[str, tuple[Value, ...]]) -> int:
    lengths = {len(items) for items in scans.values()}
    if len(lengths) > 1:
        raise error(f"scanned packs of different lengths {sorted(lengths)}", node.span)
    length = lengths.pop() if lengths else None
    if node.iteration is None or node.iteration.count is None:
        if length is None:
            raise error("the loop has neither a count nor a pack to scan", node.span)
        return length
    value = known(node.iteration.count, frame.env)
    if is_tensors(value):
        raise error("a tensor as loop count is not supported yet", node.iteration.span)
    if value is None and length is not None:
        return length
    number = count(value, "an iteration count", node.iteration.count.span)
    if length is not None and number > length:
        message = f"{number} iterations over packs of length {length}"
        raise error(message, node.iteration.count.span)
    return number


def _carried(composer: Composer, item: nodes.Carried, frame: Frame) -> Value:
    value = known(item.value, frame.env)
    if item.shape is None or is_tensors(value):
        operand = composer.as_tensors(value, frame, item.span, item.name.name)
        target = nodes.NameTarget(item.name, item.type, item.shape, span=item.span)
        declarations.check_target(target, operand, frame.env)
        return operand
    if isinstance(value, tuple) or value is None:
        raise error(f"a carried tensor starts from a number, found {describe(value)}", item.span)
    shape = declarations.given_shape(item.shape, frame.env, item.name.name)
    constant = composer.constant(frame, item.name.name, value, type_of(value), shape, item.span)
    target = nodes.NameTarget(item.name, item.type, item.shape, span=item.span)
    declarations.check_target(target, constant, frame.env)
    return constant
