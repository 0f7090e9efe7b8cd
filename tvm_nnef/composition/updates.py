"""Variables that ``@update`` changes, with their new tensors (section 2.11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.assignment import target_names
from tvm_nnef.composition.subgraphs import kind
from tvm_nnef.composition.values import Value, describe
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from tvm_nnef.composition.frame import Frame
    from tvm_nnef.composition.invoker import Invoker


def updates(
    composer: Invoker, definition: CheckedDefinition, frame: Frame
) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return the variables that ``@update`` changes, each with its new tensor (section 2.11)."""
    inner = frame.inner(frame.scope)
    declared = {parameter.name.name: parameter for parameter in definition.variables}
    by_name = {tensor.name: tensor for tensor in frame.variables}
    new_tensors: dict[Tensor, Tensor] = {}
    for component in definition.updates:
        values = composer.value(component.value, inner, component.targets)
        composer.assign(component, values, inner)
        for name in (name for target in component.targets for name in target_names(target)):
            if name not in declared:
                continue
            full, value = f"{frame.scope}.{name}", inner.env.names[name]
            if declared[name].type.pack is None:
                new_tensors[by_name[full]] = _new_value(by_name[full], value, component)
            else:
                pack = [by_name[item] for item in by_name if item.rpartition(":")[0] == full]
                new_tensors |= _new_values(full, pack, value, component)
            # Whoever reads the variable after its update still gets the value of this run.
            inner.declare({name: frame.env.names[name]})
    # A variable that stays as it is needs no state, and may be folded in.
    return tuple((variable, new) for variable, new in new_tensors.items() if new is not variable)


def _new_values(
    name: str, pack: Sequence[Tensor], value: Value, component: nodes.Component
) -> dict[Tensor, Tensor]:
    """Return the new tensors of the items of a pack of variables."""
    if not isinstance(value, tuple) or len(value) != len(pack):
        message = f"'{name}' is a pack of {len(pack)}, its update gives {describe(value)}"
        raise error(message, component.span, hint=f"give {len(pack)} tensors, one for each")
    pairs = zip(pack, value, strict=True)
    return {variable: _new_value(variable, item, component) for variable, item in pairs}


_UPDATE = "give it a single tensor of the type and shape of the variable"


def _new_value(variable: Tensor, value: Value, component: nodes.Component) -> Tensor:
    if not isinstance(value, Tensor) or kind(value) != kind(variable):
        found = kind(value) if isinstance(value, Tensor) else describe(value)
        message = f"'{variable.name}' is {kind(variable)}, its update gives {found}"
        hint = value_hints.same_kind(variable, value) if isinstance(value, Tensor) else _UPDATE
        raise error(message, component.span, hint=hint)
    return value
