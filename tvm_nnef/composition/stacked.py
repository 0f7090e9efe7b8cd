"""Packs whose length only a run tells: one tensor, the items along a first dimension.

They come from scan outputs of loops that data bring to an end (section 2.10.1). Such a pack can be
an output of its graph, and an input of the operators that make one tensor of a pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_nnef import extents
from tvm_nnef.composition.binding import Invocation
from tvm_nnef.composition.values import Environment
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.composer import Composer
    from tvm_nnef.composition.frame import Frame


def joined(
    composer: Composer,
    definition: CheckedDefinition,
    invocation: Invocation,
    call: nodes.Call,
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> tuple[Operand, ...] | None:
    """The result of ``layout.stack`` and ``layout.concat`` of such a pack; None for any other.

    Raises NnefError where another operator is given such a pack.
    """
    pack = _stacked(definition, invocation, frame.env)
    if pack is None:
        return None
    name, span = definition.qualified_name, call.span
    axis, squeeze = invocation.attributes.get("axis"), invocation.attributes.get("squeeze")
    if name not in ("layout.stack", "layout.concat") or not isinstance(axis, int) or squeeze:
        hint = "make a tensor of it, with layout.stack or layout.concat"
        raise error("a pack whose length only a run tells", span, hint=hint)
    rank = pack.rank - 1
    limit = rank if name == "layout.stack" else rank - 1
    place = axis + rank if axis < 0 else axis
    if not 0 <= place <= limit:
        message = f"'axis' is out of range for inputs of rank {rank}; axis = {axis}"
        raise error(message, span)
    steps: list[tuple[str, dict[str, object]]] = []
    if place:
        order = (*range(1, place + 1), 0, *range(place + 1, rank + 1))
        steps.append(("transpose", {"perm": order}))
    if name == "layout.concat":
        total = extents.mul(pack.shape[0], pack.shape[place + 1])
        steps.append(("reshape", {"axis": place, "rank": 2, "shape": (total,)}))
    result = pack
    for number, (operator, attributes) in enumerate(steps):
        step = composer.program.resolve(definition.module, _reference(operator, span))
        given = Invocation(attributes, (result,), {}, span)
        last = number == len(steps) - 1
        outputs = composer.invoke_bound(step, given, call, frame, targets if last else ())
        assert isinstance(outputs[0], Tensor)
        result = outputs[0]
    return (result,)


def _stacked(
    definition: CheckedDefinition, invocation: Invocation, env: Environment
) -> Tensor | None:
    for parameter, operand in zip(definition.inputs, invocation.operands, strict=True):
        packed = parameter.type.pack is not None and isinstance(operand, Tensor)
        if packed and operand in env.symbols.stacked:
            return operand
    return None


def _reference(operator: str, span: Span) -> nodes.Path:
    return nodes.Path((operator,), span=span)
