"""Packs whose length is known only at run time, as one tensor with the items along a first
dimension.

They are scan outputs of loops that a condition on data ends (section 2.10.1), and results of
unstacking or splitting a tensor along a symbolic dimension. A loop can iterate over such a pack; it
can be an output of its graph, and an input of the operators that make one tensor of a pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tvm_nnef.composition.binding import Invocation
from tvm_nnef.composition.values import Environment
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.semantics.program import CheckedDefinition, PackRole, Program
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import is_symbolic
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.frame import Frame
    from tvm_nnef.composition.invoker import Invoker


def joined(
    composer: Invoker,
    definition: CheckedDefinition,
    invocation: Invocation,
    call: nodes.Call,
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> tuple[Operand, ...] | None:
    """Return the result of an operator that stacks or concatenates such a pack.

    It is None for other packs.

    Raises NnefError if another operator is given such a pack.
    """
    pack = _stacked(definition, invocation, frame.env)
    if pack is None:
        return None
    role, span = _role(definition, composer.program), call.span
    axis, squeeze = invocation.attributes.get("axis"), invocation.attributes.get("squeeze")
    if role not in ("stack", "concat") or not isinstance(axis, int) or squeeze:
        hint = "make a tensor of it, with layout.stack or layout.concat"
        raise error("a pack whose length is known only at run time", span, hint=hint)
    rank = pack.rank - 1
    limit = rank if role == "stack" else rank - 1
    location = axis + rank if axis < 0 else axis
    if not 0 <= location <= limit:
        message = f"'axis' is out of range for inputs of rank {rank}; axis = {axis}"
        raise error(message, span, hint=f"write an axis from {-rank} to {limit}")
    steps: list[_Step] = []
    if location:
        order = (*range(1, location + 1), 0, *range(location + 1, rank + 1))
        steps.append(("transpose", {"perm": order}))
    if role == "concat":
        total = dimensions.mul(pack.shape[0], pack.shape[location + 1])
        steps.append(("reshape", {"axis": location, "rank": 2, "shape": (total,)}))
    return (_invoked(composer, steps, pack, call, frame, targets),)


def taken_apart(
    composer: Invoker,
    definition: CheckedDefinition,
    invocation: Invocation,
    call: nodes.Call,
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> tuple[Operand, ...] | None:
    """Return the result of an operator that unstacks, or splits by a count, into a dynamic number
    of items; None for other invocations.
    """
    attributes = invocation.attributes
    operand, axis = next(iter(invocation.operands), None), attributes.get("axis")
    if not isinstance(operand, Tensor) or not isinstance(axis, int):
        return None
    role = _role(definition, composer.program)
    if role not in ("unstack", "split"):
        return None
    if not -operand.rank <= axis < operand.rank:
        return None
    size, location, rank = operand.shape[axis], axis % operand.rank, operand.rank
    steps: list[_Step] = []
    if role == "split":
        number = attributes.get("count")
        if not is_symbolic(number) or "sizes" in attributes:
            return None
        positive = dimensions.compare("gt", number, 0)
        message = ["'count' must be positive; count = ", number]
        frame.env.symbols.require(positive, message, call.span, hint="give a count from 1 on")
        parts = (number, dimensions.floordiv(size, number))
        steps.append(("reshape", {"axis": location, "rank": 1, "shape": parts}))
        rank += 1
    elif dimensions.is_static(size):
        return None
    order = (location, *(other for other in range(rank) if other != location))
    steps.append(("transpose", {"perm": order}))
    if role == "unstack" and attributes.get("squeeze") is False:
        steps.append(("unsqueeze", {"axes": (location + 1,)}))
    result = _invoked(composer, steps, operand, call, frame, targets)
    frame.env.symbols.stacked.add(result)
    return (result,)


_LAYOUT = "layout"
"""The standard module of the operators that are invoked instead."""


def _role(definition: CheckedDefinition, program: Program) -> PackRole | None:
    """Return the effect of an operator on packs: a standard one, or a user's with the same
    blocks.
    """
    layout = program.modules.get(_LAYOUT)
    if program.modules[definition.module].is_standard:
        return definition.pack_role
    if layout is None or not layout.is_standard:
        return None
    blocks = definition.node.blocks
    twins = (each for each in layout.definitions.values() if each.pack_role is not None)
    return next((twin.pack_role for twin in twins if twin.node.blocks == blocks), None)


_Step: TypeAlias = "tuple[str, dict[str, object]]"
"""An operator of module ``layout``, with its attributes."""


def _invoked(
    composer: Invoker,
    steps: Sequence[_Step],
    tensor: Tensor,
    call: nodes.Call,
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> Tensor:
    """Apply operators to a tensor, one after the other; return the result."""
    for number, (operator, attributes) in enumerate(steps):
        step = composer.program.modules[_LAYOUT].definitions[operator]
        invocation = Invocation(attributes, (tensor,), {}, call.span)
        last = number == len(steps) - 1
        (result,) = composer.invoke_bound(step, invocation, call, frame, targets if last else ())
        assert isinstance(result, Tensor)
        tensor = result
    return tensor


def _stacked(
    definition: CheckedDefinition, invocation: Invocation, env: Environment
) -> Tensor | None:
    for parameter, operand in zip(definition.inputs, invocation.operands, strict=True):
        packed = parameter.type.pack is not None and isinstance(operand, Tensor)
        if packed and operand in env.symbols.stacked:
            return operand
    return None
