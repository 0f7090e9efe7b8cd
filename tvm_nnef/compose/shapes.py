"""Shapes of parameters: bound to actual ones, or evaluated (NNEF 2.0 draft, section 2.6)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef import extents
from tvm_nnef.compose.affine import affine, unknown_names
from tvm_nnef.compose.evaluate import known
from tvm_nnef.compose.indexing import count
from tvm_nnef.compose.values import Environment, Value, show, type_of
from tvm_nnef.diagnostics import NnefError, Span, error
from tvm_nnef.extents import Extent
from tvm_nnef.syntax import nodes

Shape = tuple[Extent, ...]


class ShapeBinder:
    """Binds the symbols of declared shapes to actual shapes, one input after the other.

    ``names`` grows; a symbol that is known already is compared instead. Every error points at
    ``place`` (the invocation), with the declaration in a note.
    """

    def __init__(self, names: dict[str, Value], env: Environment, place: Span) -> None:
        self.names = names
        self.env = env
        self.place = place

    def bind(self, parameter: nodes.Parameter, shapes: Sequence[Shape], *, packed: bool) -> None:
        """Binds the shape of an input: one shape, or those of the items of a pack."""
        spec = parameter.type
        if spec.pack is not None and packed:
            self._bind_length(spec.pack, len(shapes), parameter.name.name)
        if spec.shape is None:
            return
        ranks = {len(shape) for shape in shapes}
        if len(ranks) > 1:
            raise self._error(parameter, f"items of different ranks {sorted(ranks)}")
        per_item: dict[str, list[Extent]] = {}
        for shape in shapes:
            self._bind_one(parameter, spec.shape, shape, per_item)
        for extent in spec.shape:
            if extent.per_item and isinstance(extent.value, nodes.Identifier):
                found = tuple(per_item.get(extent.value.name, ()))
                self._assign(parameter, extent.value.name, found)

    def bind_null(self, parameter: nodes.Parameter) -> None:
        """Makes null of what only an omitted input would have told."""
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
            for name in unknown_names(expression, self.names):
                self.names[name] = None

    def _bind_length(self, pack: nodes.Pack, length: int, name: str) -> None:
        if pack.length is None:
            self.names[f"|{name}|"] = length
            return
        self._solve(pack.length, length, f"the length of '{name}'")

    def _bind_one(
        self,
        parameter: nodes.Parameter,
        declared: tuple[nodes.Extent, ...],
        shape: Shape,
        per_item: dict[str, list[Extent]],
    ) -> None:
        if parameter.type.rank is not None:
            self._assign(parameter, parameter.type.rank.name, len(shape))
        lengths = self._lengths(parameter, declared, len(shape))
        position = 0
        for extent, length in zip(declared, lengths, strict=True):
            part = shape[position : position + (1 if length is None else length)]
            position += len(part)
            if extent.per_item and isinstance(extent.value, nodes.Identifier):
                per_item.setdefault(extent.value.name, []).append(part[0])
            else:
                self._bind_extent(parameter, extent, part, length is not None)

    def _lengths(
        self, parameter: nodes.Parameter, declared: tuple[nodes.Extent, ...], rank: int
    ) -> list[int | None]:
        """How many dimensions each extent covers; None for one that is not packed."""
        lengths: list[int | None] = []
        flexible: int | None = None
        for index, extent in enumerate(declared):
            if extent.pack is None:
                lengths.append(None)
                continue
            length = self._known_length(extent)
            if length is None and flexible is not None:
                raise self._error(parameter, "which dimensions belong to which pack is ambiguous")
            flexible = index if length is None else flexible
            lengths.append(length)
        taken = sum(1 if length is None else length for length in lengths)
        if flexible is None:
            if taken != rank:
                raise self._error(parameter, f"expected rank {taken}, found rank {rank}")
            return lengths
        rest = rank - (taken - 1)
        if rest < 0:
            raise self._error(parameter, f"expected rank {taken - 1} or more, found rank {rank}")
        lengths[flexible] = rest
        length_node = declared[flexible].pack.length  # type: ignore[union-attr]
        if length_node is not None:
            self._solve(length_node, rest, "a number of dimensions")
        return lengths

    def _known_length(self, extent: nodes.Extent) -> int | None:
        assert extent.pack is not None
        length = extent.pack.length
        if length is not None and not unknown_names(length, self.names):
            return count(known(length, self.env), "a number of dimensions", length.span)
        if length is None and isinstance(extent.value, nodes.Identifier):
            bound = self.names.get(extent.value.name)
            return len(bound) if isinstance(bound, tuple) else None
        return None

    def _bind_extent(
        self, parameter: nodes.Parameter, extent: nodes.Extent, part: Shape, packed: bool
    ) -> None:
        expression = extent.value
        if isinstance(expression, nodes.Omitted):
            return
        if packed and _is_flag(extent, self.env):
            if isinstance(expression, nodes.Identifier) and not part:
                self.names.setdefault(expression.name, None)
                return
            packed = False
            if not part:
                return
        unknown = unknown_names(expression, self.names)
        null = isinstance(expression, nodes.Identifier) and (
            expression.name in self.names and self.names[expression.name] is None
        )
        if null or (unknown and isinstance(expression, nodes.Identifier)):
            self.names[expression.name] = part if packed else part[0]  # type: ignore[union-attr]
            return
        if unknown:
            self._bind_affine(parameter, expression, part, packed)
            return
        wanted = known(expression, self.env)
        items = wanted if isinstance(wanted, tuple) else (wanted,) * len(part)
        same = len(items) == len(part) and all(
            type_of(a) == "int" and extents.equal(a, b) for a, b in zip(items, part, strict=False)
        )
        if not same:
            text = f"{_text(expression)} = {show(wanted)}"
            found = show(part if packed else part[0])
            raise self._error(parameter, f"expected extent {text}, found {found}")

    def _bind_affine(
        self, parameter: nodes.Parameter, expression: nodes.Expression, part: Shape, packed: bool
    ) -> None:
        form = affine(expression, self.env)
        if form is None:
            raise self._error(parameter, f"extent {_text(expression)} cannot be deduced")
        try:
            items = tuple(form.solve(value, expression.span) for value in part)
        except NnefError as problem:
            message = f"extent {_text(expression)}: {problem.diagnostics[0].message}"
            raise self._error(parameter, message) from None
        self.names[form.name] = items if packed else items[0]

    def _assign(self, parameter: nodes.Parameter, name: str, value: Value) -> None:
        if name in self.names and self.names[name] != value:
            found = f"{show(self.names[name])} and {show(value)}"
            raise self._error(parameter, f"'{name}' has two values: {found}")
        self.names[name] = value

    def _solve(self, expression: nodes.Expression, value: int, what: str) -> None:
        """Deduces the unknown of a length, or compares the length with a known expression."""
        form = affine(expression, self.env)
        if form is not None:
            self.names[form.name] = form.solve(value, self.place)
        elif not unknown_names(expression, self.names):
            wanted = count(known(expression, self.env), what, expression.span)
            if wanted != value:
                message = f"{what} must be {_text(expression)} = {wanted}, found {value}"
                raise error(message, self.place)
        else:
            raise error(f"{what} cannot be deduced from {_text(expression)}", self.place)

    def _error(self, parameter: nodes.Parameter, message: str) -> NnefError:
        from tvm_nnef.diagnostics import Note

        note = Note(f"'{parameter.name.name}' is declared here", parameter.span)
        return error(f"input '{parameter.name.name}': {message}", self.place, notes=(note,))


def _is_flag(extent: nodes.Extent, env: Environment) -> bool:
    """Whether the length is a truth value: the extent is there once, or null."""
    if extent.pack is None or extent.pack.length is None:
        return False
    if unknown_names(extent.pack.length, env.names):
        return False
    return isinstance(known(extent.pack.length, env), bool)


def _text(expression: nodes.Expression) -> str:
    return f"'{expression.span.text}'"


def evaluate_shape(
    declared: tuple[nodes.Extent, ...], env: Environment, item: int | None = None
) -> Shape | None:
    """A declared shape in numbers, of one item of a pack where ``item`` is given.

    Null extents are left out (section 2.6). None where an extent is ``~``: the shape is not told.
    Raises NnefError for a negative extent.
    """
    shape: list[Extent] = []
    for extent in declared:
        if isinstance(extent.value, nodes.Omitted):
            return None
        shape.extend(_evaluate_extent(extent, extent.value, env, item))
    return tuple(shape)


def _evaluate_extent(
    extent: nodes.Extent, expression: nodes.Expression, env: Environment, item: int | None
) -> list[Extent]:
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
            message = f"{len(items)} extents, declared to be {number}"
            raise error(message, extent.span)
    return [_extent(each, expression.span) for each in items]


def _extent(value: Value, span: Span) -> Extent:
    if isinstance(value, tuple):
        raise error("a pack of extents needs '..'", span)
    if type_of(value) != "int" or (isinstance(value, int) and value < 0):
        raise error(f"an extent must be a non-negative integer, found {show(value)}", span)
    return value
