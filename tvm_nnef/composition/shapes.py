"""Shapes of parameters: bound to actual ones, or evaluated (NNEF 2.0 draft, section 2.6)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.affine import deduce, for_attributes, unknown_names
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.indexing import count, integer
from tvm_nnef.composition.symbols import plain
from tvm_nnef.composition.values import Environment, Value, is_scalar, show, shown, type_of
from tvm_nnef.diagnostics import NnefError, Note, Span, error
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Condition, Dimension
from tvm_nnef.syntax import nodes

Shape = tuple[Dimension, ...]


class ShapeBinder:
    """A binder of the symbols in declared shapes to actual shapes, one input after the other.

    It adds symbols to the names of ``env``; a symbol that is known already is compared instead.
    Every error points at ``location`` (the invocation), with the declaration in a note.
    ``attributes`` are the names of the attributes that an invocation can set, of a graph or of an
    operator.
    """

    def __init__(
        self, env: Environment, location: Span, attributes: frozenset[str], is_graph: bool
    ) -> None:
        self.env = env
        self.names = env.names
        self.location = location
        self.attributes = attributes
        self.is_graph = is_graph
        self._shape: Shape | None = None
        self._origins: dict[str, tuple[nodes.Parameter, int, Shape]] = {}

    def bind(self, parameter: nodes.Parameter, shapes: Sequence[Shape]) -> None:
        """Bind the shape of an input: one shape, or those of the items of a pack."""
        spec = parameter.type
        if spec.pack is not None and spec.pack.length is not None:
            self._bind_length(spec.pack.length, len(shapes), f"the length of {_name(parameter)}")
        ranks = {len(shape) for shape in shapes}
        if len(ranks) > 1:
            message = f"items of different ranks {sorted(ranks)}"
            raise self._error(parameter, message, _RANK_HINT)
        if spec.rank is not None and ranks:
            self._assign_rank(parameter, spec.rank.name, ranks.pop())
        if spec.shape is None:
            return
        self._shape = shapes[0] if len(shapes) == 1 else None
        varying: dict[int, Shape] = {i: () for i, e in enumerate(spec.shape) if e.per_item}
        for shape in shapes:
            position = 0
            lengths = self._lengths(parameter, spec.shape, len(shape))
            for index, (extent, length) in enumerate(zip(spec.shape, lengths, strict=True)):
                axis, part = position, shape[position : position + length]
                position += length
                if extent.per_item:
                    varying[index] += part
                else:
                    packed = extent.pack is not None
                    self._bind_extent(parameter, extent, part, packed, axis)
        for index, values in varying.items():
            self._bind_extent(parameter, spec.shape[index], values, True)

    def bind_stacked(self, parameter: nodes.Parameter, shape: Shape) -> None:
        """Bind a pack of dynamic length, whose length is the first dimension of a tensor."""
        pack = parameter.type.pack
        if pack is not None and pack.length is not None:
            length = nodes.Extent(pack.length, pack.bound, span=pack.span)
            self._bind_extent(parameter, length, shape[:1], False)
        items = replace(parameter, type=replace(parameter.type, pack=None))
        self.bind(items, [shape[1:]])

    def bind_null(self, parameter: nodes.Parameter) -> None:
        """Bind to null each name that only an omitted input could give a value."""
        spec = parameter.type
        expressions: list[nodes.Expression] = [] if spec.rank is None else [spec.rank]
        for extent in spec.shape or ():
            if not isinstance(extent.value, nodes.Omitted):
                expressions.append(extent.value)
            if extent.pack and extent.pack.length:
                expressions.append(extent.pack.length)
        if spec.pack and spec.pack.length:
            expressions.append(spec.pack.length)
        for expression in expressions:
            self.names.update(dict.fromkeys(unknown_names(expression, self.names)))

    def _lengths(
        self, parameter: nodes.Parameter, declared: tuple[nodes.Extent, ...], rank: int
    ) -> list[int]:
        """Return the number of dimensions that each extent covers."""
        known_lengths = [self._known_length(extent) for extent in declared]
        fixed = sum(length or 0 for length in known_lengths)
        flexible = [index for index, length in enumerate(known_lengths) if length is None]
        if len(flexible) > 1:
            message = "which dimensions belong to which pack is ambiguous"
            hint = "write the length of all packs but one, as in 'a..(n)'"
            raise self._error(parameter, message, hint)
        if rank < fixed or (rank > fixed and not flexible):
            wanted = f"{fixed} or more" if flexible else f"{fixed}"
            given = for_attributes(declared, self.attributes, self.names)
            message = f"expected rank {wanted}{given}, found rank {rank}"
            raise self._error(parameter, message, _RANK_HINT)
        for index in flexible:
            pack = declared[index].pack
            if pack is not None and pack.length is not None:
                what = f"a number of dimensions of {_name(parameter)}"
                self._bind_length(pack.length, rank - fixed, what)
        return [rank - fixed if length is None else length for length in known_lengths]

    def _known_length(self, extent: nodes.Extent) -> int | None:
        """Return the number of dimensions of an extent; None if it depends on the shape."""
        expression = None if isinstance(extent.value, nodes.Omitted) else extent.value
        determined = expression is not None and not unknown_names(expression, self.names)
        if extent.pack is None:
            absent = determined and expression and known(expression, self.env) is None
            return 0 if absent else 1
        length = extent.pack.length
        if length is not None:
            if unknown_names(length, self.names):
                return None
            value = known(length, self.env)
            return 0 if value is None else count(value, "a number of dimensions", length.span)
        items = known(expression, self.env) if determined and expression else ()
        return len(items) if determined and isinstance(items, tuple) else None

    def _bind_extent(
        self,
        parameter: nodes.Parameter,
        extent: nodes.Extent,
        part: Shape,
        packed: bool,
        axis: int | None = None,
    ) -> None:
        """Bind or compare an extent; errors name the axis, if it covers one."""
        self._check_bound(parameter, extent, part)
        expression = extent.value
        if isinstance(expression, nodes.Omitted):
            return
        if _is_flag(extent, self.env):
            packed = False
            if not part and isinstance(expression, nodes.Identifier):
                self.names.setdefault(expression.name, None)
        if not packed and not part:
            return
        if isinstance(expression, nodes.Identifier) and self.names.get(expression.name) is None:
            self.names[expression.name] = part if packed else part[0]
            if axis is not None and self._shape is not None:
                self._origins[expression.name] = (parameter, axis, self._shape)
        elif unknown_names(expression, self.names):
            self._bind_affine(parameter, expression, part, packed)
        else:
            self._compare(parameter, expression, part, packed, None if packed else axis)

    def _check_bound(self, parameter: nodes.Parameter, extent: nodes.Extent, part: Shape) -> None:
        """Compare dimensions with their static upper bound, as in ``n|10``."""
        if extent.bound is None:
            return
        limits = _limits(extent.bound, part, self.env)
        for most in limits:
            integer(most, "a bound", extent.bound.span)
        for within, message in _within(extent.bound, part, limits):
            self._require(parameter, within, message, value_hints.BEYOND)

    def _compare(
        self,
        parameter: nodes.Parameter,
        expression: nodes.Expression,
        part: Shape,
        packed: bool,
        axis: int | None,
    ) -> None:
        wanted = known(expression, self.env)
        items = wanted if isinstance(wanted, tuple) else (wanted,) * len(part)
        found = part if packed else part[0]
        is_plain = expression.span.text == plain(shown(wanted, quote=True))
        name = "" if is_plain else f"{_text(expression)} = "
        message = [f"expected dimension {name}", *shown(wanted, quote=True)]
        message += [", found ", *shown(found, quote=True)]
        message += [] if axis is None else [f" on axis {axis}"]
        origins = [name for name in unknown_names(expression, ()) if name in self._origins]
        if len(items) != len(part) or any(type_of(item) != "int" for item in items):
            raise self._error(parameter, plain(message), self._agree(expression, found), origins)
        for item, actual in zip(items, part, strict=True):
            same = dimensions.compare("eq", item, actual)
            self._require(parameter, same, message, self._agree(expression, found), origins)

    def _agree(self, expression: nodes.Expression, found: Value) -> str:
        """Return a hint how to make the dimension that an attribute gives equal to the tensor's."""
        if not isinstance(expression, nodes.Identifier) or expression.name not in self.attributes:
            return value_hints.EQUAL
        name, value = expression.name, show(found)
        if self.is_graph:
            return f"set the attribute: --attr {name}={value}, or attributes={{'{name}': {value}}}"
        return f"write {name}={value} between the braces, or change the shape"

    def _bind_affine(
        self, parameter: nodes.Parameter, expression: nodes.Expression, part: Shape, packed: bool
    ) -> None:
        what = f"a dimension of {_name(parameter)}"
        found = [deduce(expression, value, self.names, what, self.location) for value in part]
        for value, pair in zip(part, found, strict=True):
            if pair is not None and not dimensions.is_static(value):
                self._require_exact(parameter, expression, value, pair)
        pairs = [pair for pair in found if pair is not None]
        if len(pairs) < len(found):
            message = f"dimension {_text(expression)} cannot be deduced"
            raise self._error(parameter, message, _unknown_hint(expression, self.names))
        for name in unknown_names(expression, self.names):
            values = tuple(value for _, value in pairs)
            self.names[name] = values if packed else values[0]

    def _require_exact(
        self,
        parameter: nodes.Parameter,
        expression: nodes.Expression,
        value: Dimension,
        deduced: tuple[str, Dimension],
    ) -> None:
        """Require that a non-negative integer was deduced.

        Check it at run time if it is not known now.
        """
        name, unknown = deduced
        again = known(expression, self.env.extended({name: unknown}))
        exact = dimensions.both(
            dimensions.compare("eq", again, value),
            dimensions.compare("ge", unknown, 0),
        )
        message = ["dimension ", value, f" is not {_text(expression)} for any '{name}'"]
        self._require(parameter, exact, message, value_hints.EQUAL)

    def _assign_rank(self, parameter: nodes.Parameter, name: str, rank: int) -> None:
        if self.names.setdefault(name, rank) != rank:
            found = f"{show(self.names[name])} and {rank}"
            raise self._error(parameter, f"'{name}' has two values: {found}", _RANK_HINT)

    def _bind_length(self, expression: nodes.Expression, value: int, what: str) -> None:
        """Deduce the unknown of a length, or compare the length with a known expression."""
        deduced = deduce(expression, value, self.names, what, self.location)
        if deduced is not None:
            name, number = deduced
            self.names[name] = number
        elif unknown_names(expression, self.names):
            message = f"{what} cannot be deduced from {_text(expression)}"
            raise error(message, self.location, hint=_unknown_hint(expression, self.names))
        else:
            wanted = count(known(expression, self.env), what, expression.span)
            if wanted != value:
                message = f"{what} must be {_text(expression)} = {wanted}, found {value}"
                raise error(
                    message, self.location, hint=f"give {wanted}, or change {_text(expression)}"
                )

    def _require(
        self,
        parameter: nodes.Parameter,
        condition: Condition,
        message: list[str | Dimension],
        hint: str,
        origins: Sequence[str] = (),
    ) -> None:
        if condition is True:
            return
        text = [f"input {_name(parameter)}: ", *message]
        self.env.symbols.require(
            condition, text, self.location, self._notes(parameter, origins), hint=hint
        )

    def _error(
        self, parameter: nodes.Parameter, message: str, hint: str, origins: Sequence[str] = ()
    ) -> NnefError:
        message = f"input {_name(parameter)}: {message}"
        return error(message, self.location, hint=hint, notes=self._notes(parameter, origins))

    def _notes(self, parameter: nodes.Parameter, origins: Sequence[str]) -> tuple[Note, ...]:
        """Return notes on the declaration of an input, and on the inputs that determined some
        names.
        """
        shape = "" if self._shape is None else f", and has shape {_plain(self._shape)}"
        notes = [Note(f"{_name(parameter)} is declared here{shape}", parameter.span)]
        for name in origins:
            origin, axis, found = self._origins[name]
            message = f"'{name}' is axis {axis} of {_name(origin)}, which has shape {_plain(found)}"
            notes.append(Note(message, origin.span))
        return tuple(notes)


_RANK_HINT = "'layout.unsqueeze', 'layout.squeeze' and 'layout.reshape' change the rank"


def _unknown_hint(expression: nodes.Expression, known: Container[str]) -> str:
    names = ", ".join(f"'{name}'" for name in unknown_names(expression, known))
    return f"write a name, or one such as '2 * n + 1', or give {names} in another way"


def _plain(shape: Shape) -> str:
    return plain(shown(shape, quote=True))


def _name(parameter: nodes.Parameter) -> str:
    return f"'{parameter.name.name}'"


def _is_flag(extent: nodes.Extent, env: Environment) -> bool:
    """Whether the length is a truth value: the dimension exists once, or not at all."""
    if extent.pack is None or extent.pack.length is None:
        return False
    if unknown_names(extent.pack.length, env.names):
        return False
    return isinstance(known(extent.pack.length, env), bool)


def within_bound(
    bound: nodes.Expression, part: Shape, env: Environment
) -> Iterator[tuple[Condition, list[str | Dimension]]]:
    """Yield for each dimension the condition that it is within its bound, and the message if it is
    not.
    """
    return _within(bound, part, _limits(bound, part, env))


def _limits(bound: nodes.Expression, part: Shape, env: Environment) -> tuple[Any, ...]:
    limit = known(bound, env)
    return limit if isinstance(limit, tuple) else (limit,) * len(part)


def _within(
    bound: nodes.Expression, part: Shape, limits: tuple[Any, ...]
) -> Iterator[tuple[Condition, list[str | Dimension]]]:
    for value, most in zip(part, limits, strict=False):
        stated = [f"{_text(bound)} = {most}"] if isinstance(most, int) else shown(most, quote=True)
        yield (
            dimensions.compare("le", value, most),
            ["dimension ", value, " is beyond the bound ", *stated],
        )


def _text(expression: nodes.Expression) -> str:
    return f"'{expression.span.text}'"


def evaluate_shape(
    declared: tuple[nodes.Extent, ...], env: Environment, item: int | None = None
) -> Shape | None:
    """Return a declared shape in numbers; of one item of a pack if ``item`` is given.

    Null dimensions are omitted (section 2.6). None if a dimension is ``~``: the shape is unknown.
    Raises NnefError for a negative dimension.
    """
    shape: list[Dimension] = []
    for extent in declared:
        if isinstance(extent.value, nodes.Omitted):
            return None
        shape.extend(_evaluate_extent(extent, extent.value, env, item))
    return tuple(shape)


def _evaluate_extent(
    extent: nodes.Extent, expression: nodes.Expression, env: Environment, item: int | None
) -> list[Dimension]:
    value = known(expression, env)
    if extent.per_item and isinstance(value, tuple) and item is not None:
        value = value[item] if item < len(value) else None
    if value is None:
        return []
    if extent.pack is None:
        items: tuple[Value, ...] = (value,)
    elif extent.pack.length is None:
        items = value if isinstance(value, tuple) else (value,)
    else:
        length = known(extent.pack.length, env)
        if length is None:
            return []
        number = count(length, "a number of dimensions", extent.pack.span)
        items = value if isinstance(value, tuple) else (value,) * number
        if len(items) != number:
            message = f"{len(items)} dimensions, declared to be {number}"
            hint = f"give {number} dimensions, or a single one for all"
            raise error(message, extent.span, hint=hint)
    return [_extent(each, expression.span, env) for each in items]


_EXTENT = "a dimension must be a non-negative integer, found "


def _extent(value: Value, span: Span, env: Environment) -> Dimension:
    if isinstance(value, tuple):
        raise error("a pack of dimensions needs '..'", span, hint=f"write '{span.text}..'")
    if is_scalar(value):
        hint = "write it with integers: '/' rounds down"
        raise error(
            "a dimension computed from reals that are known only at run time", span, hint=hint
        )
    if type_of(value) != "int":
        message = f"{_EXTENT}{show(value)}"
        raise error(message, span, hint=value_hints.integer(value))
    hint = "make the input larger, or the numbers in this dimension smaller"
    positive = dimensions.compare("ge", value, 0)
    env.symbols.require(positive, [_EXTENT, value], span, hint=hint)
    return value
