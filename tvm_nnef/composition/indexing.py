"""Indexing of packs and strings, ranges, and substitution (NNEF 2.0 draft, section 2.4)."""

from __future__ import annotations

from tvm_nnef.composition import value_hints
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
from tvm_nnef.semantics import hints

MAX_PACK = 1 << 20
"""Upper limit of the length of a pack; longer ones are a mistake or an attack."""


def index(target: Value, position: Value, span: Span) -> Value:
    """Return ``target[position]``: an item, the items at a pack of positions, or those under a
    mask.
    """
    if target is None or position is None:
        return None
    if isinstance(target, str):
        return _characters(target, position, span)
    if not isinstance(target, tuple):
        hint = (
            "layout.slice takes a part of a tensor, layout.gather elements of it"
            if isinstance(target, Tensor)
            else "write it without an index"
        )
        message = f"only packs and strings can be indexed, found {describe(target)}"
        raise error(message, span, hint=hint)
    if isinstance(position, tuple) and position and all(isinstance(p, bool) for p in position):
        if len(position) != len(target):
            sizes = f"{len(position)} and {len(target)}"
            hint = f"give one truth value for each of the {len(target)} items"
            message = f"a mask must be as long as the pack that it masks: {sizes}"
            raise error(message, span, hint=hint)
        return tuple(item for item, kept in zip(target, position, strict=True) if kept)
    return elementwise(strict(lambda each: _item(target, each, span)), span, position)


def _item(target: tuple[Item, ...], position: Item, span: Span) -> Item:
    if is_scalar(position) and position.type == "int":
        return _lookup(target, position, span)
    if not isinstance(position, int) or isinstance(position, bool):
        message = f"a pack is indexed by integers, found {describe(position)}"
        raise error(message, span, hint=value_hints.integer(position))
    if not -len(target) <= position < len(target):
        message = f"index {position} is outside of a pack of length {len(target)}"
        return Undefined(message, span, hints.index(len(target)))
    return target[position]


def _lookup(target: tuple[Item, ...], position: formula.Scalar, span: Span) -> Item:
    for item in target:
        if isinstance(item, Tensor):
            hint = "index it by a symbol of a loop bound, or by a compile-time value"
            raise error("a pack of tensors is indexed at run time", span, hint=hint)
        if not (is_known(item) or is_scalar(item)) or isinstance(item, str):
            hint = "index it by a symbol of a loop bound, or by a compile-time value"
            message = f"a pack that holds {describe(item)} is indexed at run time"
            raise error(message, span, hint=hint)
    if not target:
        return Undefined("an empty pack has no items", span, hints.index(0))
    return formula.Lookup(tuple(scalar(item) for item in target), position)


def _characters(target: str, position: Value, span: Span) -> Value:
    positions = position if isinstance(position, tuple) else (position,)
    characters: list[str] = []
    for each in positions:
        at = integer(each, "an index of a string", span)
        if not -len(target) <= at < len(target):
            return Undefined(
                f"index {at} is outside of a string of length {len(target)}",
                span,
                hints.index(len(target)),
            )
        characters.append(target[at])
    return "".join(characters)


def bounds(length: int, begin: Value, end: Value, stride: Value, span: Span) -> Value:
    """Return the positions of ``begin:end:stride`` as an index of a pack or string of a length.

    Negative bounds count from the end; omitted bounds extend to the end in the direction of the
    stride. Raises NnefError for a stride of zero.
    """
    step = 1 if stride is None else integer(stride, "a stride", span)
    if step == 0:
        raise error("a stride must not be zero", span, hint=hints.STRIDE)
    first = None if begin is None else integer(begin, "a bound", span)
    last = None if end is None else integer(end, "a bound", span)
    return tuple(range(*slice(first, last, step).indices(length)))


def consecutive(begin: Value, end: Value, stride: Value, span: Span) -> tuple[int, ...]:
    """Return the integers of ``begin:end:stride`` in a list; the end is excluded."""
    step = 1 if stride is None else integer(stride, "a stride", span)
    if step == 0:
        raise error("a stride must not be zero", span, hint=hints.STRIDE)
    first, last = integer(begin, "a bound", span), integer(end, "a bound", span)
    check_length((last - first) // step, span)
    return tuple(range(first, last, step))


def substitute(target: Value, position: Value, replacement: Value, span: Span) -> Value:
    """Return ``target`` with items replaced: ``target[position] <- replacement``; the last one
    wins.

    A single replacement serves every position. Raises NnefError if lengths differ or a position is
    out of range.
    """
    if target is None or position is None or replacement is None:
        return None
    if not isinstance(target, tuple):
        message = f"substitution needs a pack, found {describe(target)}"
        raise error(message, span, hint=hints.SUBSTITUTION)
    positions = position if isinstance(position, tuple) else (position,)
    if positions and all(isinstance(each, bool) for each in positions):
        masked = [each for each, chosen in enumerate(positions) if chosen is True]
        hint = f"write the positions: {masked}"
        raise error("substitution needs integer positions, found a mask", span, hint=hint)
    if isinstance(replacement, tuple):
        if not isinstance(position, tuple) or len(replacement) != len(positions):
            sizes = f"{len(positions)} positions and {len(replacement)} values"
            hint = f"give {len(positions)} values, or a single one for all"
            raise error(f"substitution with {sizes}", span, hint=hint)
        values = replacement
    else:
        values = (replacement,) * len(positions)
    items = list(target)
    for each, value in zip(positions, values, strict=True):
        at = integer(each, "a position", span)
        if not -len(items) <= at < len(items):
            message = f"position {at} is outside of a pack of length {len(items)}"
            raise error(message, span, hint=hints.index(len(items)))
        items[at] = value
    return tuple(items)


def integer(value: Value, what: str, span: Span) -> int:
    """Return a value as an integer. Raises NnefError if it is not a known integer."""
    if isinstance(value, Undefined):
        raise value.raised()
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    message = f"{what} must be a compile-time integer, found {describe(value)}"
    raise error(message, span, hint=value_hints.integer(value))


def count(value: Value, what: str, span: Span) -> int:
    """Return a length: an integer that is not negative, or a truth value taken as 0 or 1."""
    number = int(value) if isinstance(value, bool) else integer(value, what, span)
    if number < 0:
        hint = "write 0 or more; 'n >> 0' is at least 0"
        raise error(f"{what} must not be negative, found {number}", span, hint=hint)
    check_length(number, span)
    return number


def check_length(length: int, span: Span) -> None:
    """Raise NnefError for a pack that is longer than the limit."""
    if length > MAX_PACK:
        hint = "hold so many numbers in a tensor, as by layout.range or in a '@variable'"
        message = f"a pack of {length} items is longer than the limit of {MAX_PACK}"
        raise error(message, span, hint=hint)
