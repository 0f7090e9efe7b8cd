"""Indexing of packs and strings, ranges, and substitution (NNEF 2.0 draft, section 2.4)."""

from __future__ import annotations

from tvm_nnef.composition.arithmetic import elementwise, strict
from tvm_nnef.composition.values import (
    Item,
    Undefined,
    Value,
    describe,
    is_known,
    is_scalar,
    scalar,
)
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph import formula
from tvm_nnef.graph.nodes import Tensor

MAX_PACK = 1 << 20
"""The longest pack that is ever made; longer ones are a mistake or an attack."""


def index(target: Value, position: Value, span: Span) -> Value:
    """``target[position]``: an item, the items at a pack of positions, or those under a mask."""
    if target is None or position is None:
        return None
    if isinstance(target, str):
        return _characters(target, position, span)
    if not isinstance(target, tuple):
        raise error(f"only packs and strings can be indexed, found {describe(target)}", span)
    if isinstance(position, tuple) and position and all(isinstance(p, bool) for p in position):
        if len(position) != len(target):
            sizes = f"{len(position)} and {len(target)}"
            raise error(f"a mask must be as long as the pack that it masks: {sizes}", span)
        return tuple(item for item, kept in zip(target, position, strict=True) if kept)
    return elementwise(strict(lambda place: _item(target, place, span)), span, position)


def _item(target: tuple[Item, ...], place: Item, span: Span) -> Item:
    if is_scalar(place) and place.type == "int":
        return _lookup(target, place, span)
    if not isinstance(place, int) or isinstance(place, bool):
        raise error(f"a pack is indexed by integers, found {describe(place)}", span)
    if not -len(target) <= place < len(target):
        return Undefined(f"index {place} is outside of a pack of length {len(target)}", span)
    return target[place]


def _lookup(target: tuple[Item, ...], place: formula.Scalar, span: Span) -> Item:
    for item in target:
        if isinstance(item, Tensor):
            hint = "index it by a symbol of a loop bound, or by a compile-time value"
            raise error("a pack of tensors is indexed at run time", span, hint=hint)
        if not (is_known(item) or is_scalar(item)) or isinstance(item, str):
            raise error(f"a pack that holds {describe(item)} is indexed at run time", span)
    if not target:
        return Undefined("an empty pack has no items", span)
    return formula.Lookup(tuple(scalar(item) for item in target), place)


def _characters(target: str, position: Value, span: Span) -> Value:
    places = position if isinstance(position, tuple) else (position,)
    characters: list[str] = []
    for place in places:
        at = integer(place, "an index of a string", span)
        if not -len(target) <= at < len(target):
            return Undefined(f"index {at} is outside of a string of length {len(target)}", span)
        characters.append(target[at])
    return "".join(characters)


def bounds(length: int, begin: Value, end: Value, stride: Value, span: Span) -> Value:
    """``begin:end:stride`` as an index: the positions in a pack or string of a length.

    Negative bounds count from the end; bounds left out reach to the end in the direction of the
    stride. Raises NnefError for a stride of zero.
    """
    step = 1 if stride is None else integer(stride, "a stride", span)
    if step == 0:
        raise error("a stride must not be zero", span)
    first = None if begin is None else integer(begin, "a bound", span)
    last = None if end is None else integer(end, "a bound", span)
    return tuple(range(*slice(first, last, step).indices(length)))


def consecutive(begin: Value, end: Value, stride: Value, span: Span) -> tuple[int, ...]:
    """``begin:end:stride`` in a list: consecutive integers, the end excluded."""
    step = 1 if stride is None else integer(stride, "a stride", span)
    if step == 0:
        raise error("a stride must not be zero", span)
    first, last = integer(begin, "a bound", span), integer(end, "a bound", span)
    check_length((last - first) // step, span)
    return tuple(range(first, last, step))


def substitute(target: Value, position: Value, replacement: Value, span: Span) -> Value:
    """``target[position] <- replacement``: the target with items replaced; the last one wins.

    A single replacement serves every position. Raises NnefError where lengths differ or a
    position is out of range.
    """
    if target is None or position is None or replacement is None:
        return None
    if not isinstance(target, tuple):
        raise error(f"substitution needs a pack, found {describe(target)}", span)
    places = position if isinstance(position, tuple) else (position,)
    if places and all(isinstance(place, bool) for place in places):
        raise error("substitution needs integer positions, found a mask", span)
    if isinstance(replacement, tuple):
        if not isinstance(position, tuple) or len(replacement) != len(places):
            sizes = f"{len(places)} positions and {len(replacement)} values"
            raise error(f"substitution with {sizes}", span)
        values = replacement
    else:
        values = (replacement,) * len(places)
    items = list(target)
    for place, value in zip(places, values, strict=True):
        at = integer(place, "a position", span)
        if not -len(items) <= at < len(items):
            raise error(f"position {at} is outside of a pack of length {len(items)}", span)
        items[at] = value
    return tuple(items)


def integer(value: Value, what: str, span: Span) -> int:
    """A value as a number. Raises NnefError where it is anything but a known integer."""
    if isinstance(value, Undefined):
        raise value.raised()
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise error(f"{what} must be a compile-time integer, found {describe(value)}", span)


def count(value: Value, what: str, span: Span) -> int:
    """A length: an integer that is not negative, or a truth value taken as 0 or 1."""
    number = int(value) if isinstance(value, bool) else integer(value, what, span)
    if number < 0:
        raise error(f"{what} must not be negative, found {number}", span)
    check_length(number, span)
    return number


def check_length(length: int, span: Span) -> None:
    """Raises NnefError for a pack that is too long to be meant."""
    if length > MAX_PACK:
        raise error(f"a pack of {length} items is longer than the limit of {MAX_PACK}", span)
