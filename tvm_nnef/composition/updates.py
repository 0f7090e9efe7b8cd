"""``@update``: the variables that a definition changes, with their new tensors (section 2.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_nnef.composition.subgraphs import kind
from tvm_nnef.composition.values import Value, describe
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.composer import Composer
    from tvm_nnef.composition.frame import Frame


def updates(
    composer: Composer, definition: CheckedDefinition, frame: Frame
) -> tuple[tuple[Tensor, Tensor], ...]:
    """The variables that ``@update`` changes, each with its new tensor (section 2.11)."""
    inner = frame.inner(frame.scope)
    variables = {tensor.name: tensor for tensor in frame.variables}
    found: dict[Tensor, Tensor] = {}
    for component in definition.updates:
        values = composer.value(component.value, inner, component.targets)
        composer.assign(component, values, inner)
        for target in component.targets:
            name = target.name.name if isinstance(target, nodes.NameTarget) else ""
            variable = variables.get(f"{frame.scope}.{name}")
            if variable is not None:
                found[variable] = _new_value(variable, inner.env.names[name], component)
                # Whoever reads the variable after its update still gets the value of this run.
                inner.declare({name: frame.env.names[name]})
    # A variable that stays as it is needs no state, and may be folded in.
    return tuple((variable, new) for variable, new in found.items() if new is not variable)


def _new_value(variable: Tensor, value: Value, component: nodes.Component) -> Tensor:
    if not isinstance(value, Tensor) or kind(value) != kind(variable):
        found = kind(value) if isinstance(value, Tensor) else describe(value)
        message = f"'{variable.name}' is {kind(variable)}, its update gives {found}"
        raise error(message, component.span)
    return value
