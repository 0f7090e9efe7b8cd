"""Folds of packs (NNEF 2.0 draft, section 2.4): a binary operator between all the items.

Input: an operator, as text, and a value that is a pack. Output: one value, or for a cumulative
fold a pack of all the steps. Null gives null.
"""

from __future__ import annotations

import itertools

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.arithmetic import COMPARISONS, binary, elementwise, strict
from tvm_nnef.composition.values import (
    Environment,
    Item,
    Undefined,
    Value,
    describe,
    is_atom,
    is_known,
    pack_type,
)
from tvm_nnef.diagnostics import Span, error


def fold(symbol: str, value: Value, span: Span, env: Environment) -> Value:
    """``pack op ..`` (section 2.4, folding). Raises NnefError if the value is not a pack."""
    if value is None:
        return None
    items = _items(symbol, value, span)
    for item in items:
        if isinstance(item, Undefined):
            return item
    if symbol == ":=":
        uniform = items and all(_same(items[0], item, span, env) for item in items)
        return items[0] if uniform else None
    if symbol == "!=" and all(map(is_atom, items)):
        return len(set(items)) == len(items)
    if symbol in COMPARISONS:
        pairing = itertools.combinations(items, 2) if symbol == "!=" else itertools.pairwise(items)
        steps = tuple(binary(symbol, a, b, span, env) for a, b in pairing)
        return fold("&&", steps, span, env)
    result: Value = items[0] if items else _null_element(symbol, pack_type(value))
    for item in items[1:]:
        result = binary(symbol, result, item, span, env)
    return result


def cumulative_fold(symbol: str, value: Value, span: Span, env: Environment) -> Value:
    """``pack op ...``: all the steps of a fold, a pack of the same length (section 2.4)."""
    if value is None:
        return None
    steps: list[Item] = []
    for item in _items(symbol, value, span):
        step = item if not steps else binary(symbol, steps[-1], item, span, env)
        steps.append(step)
    return tuple(steps)


def _items(symbol: str, value: Value, span: Span) -> tuple[Item, ...]:
    if isinstance(value, Undefined):
        raise value.raised()
    if not isinstance(value, tuple):
        message = f"fold '{symbol} ..' needs a pack, found {describe(value)}"
        raise error(message, span, hint=value_hints.pack(value))
    return value


def _same(left: Item, right: Item, span: Span, env: Environment) -> bool:
    if is_known(left) and is_known(right):
        return binary("==", left, right, span, env) is True
    return left == right


def _null_element(symbol: str, type: str | None) -> Value:
    match symbol:
        case "+":
            return 0.0 if type == "real" else 0
        case "*":
            return 1.0 if type == "real" else 1
        case "&&":
            return True
        case "||":
            return False
        case _:
            return None


def contained(item: Value, pack: Value, span: Span, env: Environment) -> Value:
    """``item in pack``: whether one of its items is the same."""
    if item is None or pack is None:
        return None
    if not isinstance(pack, tuple):
        message = f"'in' needs a pack on its right side, found {describe(pack)}"
        raise error(message, span, hint=value_hints.pack(pack))

    atoms = frozenset(pack) if all(map(is_atom, pack)) else None

    def apply(single: Item) -> Value:
        if atoms is not None and is_atom(single):
            return single in atoms
        equal = tuple(binary("is", single, other, span, env) for other in pack)
        return fold("||", equal, span, env)

    return elementwise(strict(apply), span, item)
