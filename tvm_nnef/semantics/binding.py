"""The order in which the shapes of an operator's inputs are bound (2.6.1).

Input: attributes and inputs of a definition. Output: a :class:`Binding`, which depends on the
definition alone, never on an invocation. Only names matter, not types.

A pack without a written length has the implicit length ``|s|``, known once ``s`` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_nnef.diagnostics import Span
from tvm_nnef.semantics.affine import declared_symbol, unknown_names
from tvm_nnef.semantics.names import is_constant
from tvm_nnef.syntax import nodes


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why the shape of an input cannot be bound, with its location."""

    message: str
    span: Span
    hint: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The binding order: ``order`` holds indices of inputs, ``obstacles`` those that have no place
    in it.

    ``known`` are all names whose values are known after the inputs are bound, extents and pack
    lengths included; a definition with obstacles is invalid.
    """

    order: tuple[int, ...]
    deferred: frozenset[str]
    obstacles: dict[int, Obstacle]
    known: frozenset[str]


def deferred_attributes(attributes: Sequence[nodes.Parameter]) -> frozenset[str]:
    """Return names of the attributes whose default is not a constant expression (2.5)."""
    return frozenset(
        attribute.name.name
        for attribute in attributes
        if attribute.default is not None and not is_constant(attribute.default)
    )


def bind_inputs(
    attributes: Sequence[nodes.Parameter], inputs: Sequence[nodes.Parameter]
) -> Binding:
    """Return the binding order: required inputs as soon as they are unambiguous, then optional
    ones.
    """
    deferred = deferred_attributes(attributes)
    # Packed attributes may be given as one value and optional ones may be null, so neither they
    # nor the lengths of packed attributes determine how a shape is split.
    known = {a.name.name for a in attributes if _is_determined(a, deferred)}
    declared = {a.name.name for a in attributes}
    order: list[int] = []
    waiting = [i for i, parameter in enumerate(inputs) if not parameter.type.optional]
    progress = True
    while progress:
        # One pass over all that wait, as the draft has it; a pass that binds nothing is the last.
        ready = [i for i in waiting if _try(inputs[i], known, declared) is None]
        order += ready
        waiting = sorted({*waiting} - {*ready})
        progress = bool(ready)
    obstacles = {i: found for i in waiting if (found := _try(inputs[i], known, declared))}
    for i, parameter in enumerate(inputs):
        if parameter.type.optional:
            found = _try(parameter, known, declared)
            if found:
                obstacles[i] = found
            else:
                order.append(i)
    return Binding(tuple(order), deferred, obstacles, frozenset(known))


def _is_determined(attribute: nodes.Parameter, deferred: frozenset[str]) -> bool:
    kind = attribute.type
    return kind.pack is None and not kind.optional and attribute.name.name not in deferred


def _try(parameter: nodes.Parameter, known: set[str], declared: set[str]) -> Obstacle | None:
    """Bind a parameter's shape, adding to ``known``; or change nothing and return the obstacle."""
    bound = set(known)
    obstacle = _bind(parameter, bound, declared)
    if obstacle is None:
        known |= bound
    return obstacle


def _bind(parameter: nodes.Parameter, known: set[str], declared: set[str]) -> Obstacle | None:
    kind = parameter.type
    if kind.pack is not None and kind.pack.length is not None:
        obstacle = _bind_expression(kind.pack.length, known, declared)
        if obstacle:
            return obstacle
    if kind.rank is not None:
        known.add(kind.rank.name)
    flexible: list[nodes.Extent] = []
    # What earlier extents of the same shape bind does not yet count: their offsets depend on it.
    before = frozenset(known)
    for extent in kind.shape or ():
        if extent.pack is not None:
            if _is_flexible(extent, before):
                flexible.append(extent)
            length = extent.pack.length
            obstacle = None if length is None else _bind_expression(length, known, declared)
            if obstacle:
                return obstacle
        obstacle = _bind_extent(extent, known, declared)
        if obstacle:
            return obstacle
    return _ambiguity(parameter, flexible) if len(flexible) > 1 else None


def _bind_extent(extent: nodes.Extent, known: set[str], declared: set[str]) -> Obstacle | None:
    if isinstance(extent.value, nodes.Omitted):
        return None
    obstacle = _bind_expression(extent.value, known, declared)
    if obstacle is None and extent.pack is not None and isinstance(extent.value, nodes.Identifier):
        known.add(_length_of(extent.value.name))
    return obstacle


def _bind_expression(
    expression: nodes.Expression, known: set[str], declared: set[str]
) -> Obstacle | None:
    available = known | declared
    unknown = unknown_names(expression, available)
    if not unknown:
        return None
    symbol = declared_symbol(expression, available)
    if symbol is None:
        name = unknown[0].name
        return Obstacle(
            f"'{name}' cannot be derived from '{expression.span.text}'",
            unknown[0].span,
            f"declare '{name}' before, as an attribute or a dimension; only 'a * {name} + b' with "
            "literal a and b declares a symbol",
        )
    known.add(symbol)
    return None


def _is_flexible(extent: nodes.Extent, known: frozenset[str]) -> bool:
    """Whether the length of a packed extent is not yet known."""
    pack = extent.pack
    if pack is not None and pack.length is not None:
        return bool(unknown_names(pack.length, set(known)))
    if isinstance(extent.value, nodes.Identifier):
        return _length_of(extent.value.name) not in known
    return bool(unknown_names(None if _omitted(extent) else extent.value, set(known)))


def _omitted(extent: nodes.Extent) -> bool:
    return isinstance(extent.value, nodes.Omitted)


def _length_of(name: str) -> str:
    return f"|{name}|"


def _ambiguity(parameter: nodes.Parameter, flexible: Sequence[nodes.Extent]) -> Obstacle:
    texts = " and ".join(f"'{extent.span.text}'" for extent in flexible)
    return Obstacle(
        f"the shape of '{parameter.name.name}' cannot be split: {texts} are both of open length"
        if len(flexible) == 2
        else f"the shape of '{parameter.name.name}' cannot be split: {texts} are of open length",
        parameter.name.span,
        "let all but one take their length from an int attribute without a computed default, or "
        "from another required input; packed and optional attributes do not count",
    )
