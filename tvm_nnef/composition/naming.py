"""Names that composed tensors and scopes get (section 2.10, labelling)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_nnef.composition.assignment import decompose
from tvm_nnef.composition.shapes import Shape
from tvm_nnef.composition.values import Environment
from tvm_nnef.graph.nodes import Operand, Tensor, tensors
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.frame import Frame


def plain_name(target: nodes.Target) -> str | None:
    """Return the name of a left-hand side; None for lists and '~'."""
    return target.name.name if isinstance(target, nodes.NameTarget) else None


def scope_of(
    definition: CheckedDefinition, call: nodes.Call, label: str | None, frame: Frame
) -> str | None:
    """Return the scope of an invocation (section 2.10, labelling); None if nothing names it."""
    if call.label is not None:
        return frame.labelled(call.label.name)
    if definition.is_graph:
        return f"{definition.module}.{definition.name}"
    if frame.transparent:
        return frame.scope
    return None if label is None else f"{frame.scope}.{label}"


def operand_shapes(operand: Operand) -> list[Shape] | Shape:
    """Return the shape of a tensor, or the list of the shapes of a pack's items."""
    if isinstance(operand, Tensor):
        return operand.shape
    return [tensor.shape for tensor in tensors(operand)]


def item_names(target: nodes.Target | None, length: int, env: Environment) -> list[str]:
    """Return the names of the tensors of a packed result, as the left-hand side declares them."""
    names = [f".T{i + 1}" for i in range(length)]
    if target is not None:
        # Taking the positions apart says which name each item gets.
        for name, location in decompose(target, tuple(range(length)), env, target.span).items():
            if isinstance(location, int):
                names[location] = name
            for order, position in enumerate(location if isinstance(location, tuple) else ()):
                names[position] = f"{name}:{order + 1}"
    return names
